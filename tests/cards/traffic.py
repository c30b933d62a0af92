"""`emp bench` between the guests: one listens, the other orders."""

from contextlib import contextmanager

# Seconds for a run: a tenth to a third of that is usual, more on a machine that is busy with others.
LIMIT = 90


class Failure(Exception):
    """A check that failed, and why, in one line; all that was printed in `output`."""

    def __init__(self, text, output=""):
        super().__init__(text)
        self.output = output


@contextmanager
def listening(guest):
    """`emp bench listen` in a guest, for a while."""
    guest.must("emp bench listen >/tmp/listen 2>&1 & echo $! >/tmp/listen.pid; for i in $(seq 100); do grep -q 'listening on' /tmp/listen && exit 0;"
               " sleep 0.1; done; cat /tmp/listen; exit 1")
    try:
        yield
    finally:
        guest.must("kill -9 $(cat /tmp/listen.pid); true")


def bench(pair, words, address, meanwhile=None):
    """The output of `emp bench WORDS ADDRESS` in guest a; Failure if it does not succeed. `meanwhile` is called once it runs."""
    with listening(pair.b):
        pair.a.start(f"emp bench {words} {address}", LIMIT)
        try:
            if meanwhile is not None:
                meanwhile()
        finally:
            result = pair.a.finish()
        other = pair.b.must("cat /tmp/listen")
    output = f"$ emp bench {words} {address}\n{result.output}\n-- the other end\n{other}\n"
    if result.code != 0:
        raise Failure(result.last, output)
    return output


def verify(pair, link, address, options, meanwhile=None):
    """Random messages, every byte checked."""
    output = bench(pair, f"verify --link {link} {options}", address, meanwhile)
    if "every byte right" not in output:
        raise Failure("verify did not say that every byte was right", output)
    return output
