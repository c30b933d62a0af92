"""What ends a run or a check with one line."""


class Trouble(Exception):
    """Something is missing or went wrong; the text says what, where, and if possible what to do."""
