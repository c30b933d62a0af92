"""What is checked on each card."""

import re
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from pair import ADDRESSES, INTERFACE, carrier
from traffic import Failure, bench, verify

LINKS = ["packet", "udp", "xdp", "auto"]
B = ADDRESSES["b"]

# Random messages of up to 1 MiB, and shorter ones for what concerns each frame and no message. Waits are adaptive, as
# processors that spin would take the others' time: there may be more of them than the host has.
WHOLE = "--wait adaptive --seconds 2 --size-max 1M"
SHORT = "--wait adaptive --seconds 1 --size-max 256K"

# Long enough for five time-outs and a search, on guests that take a tenth of a second for each.
SEARCHED = "--wait adaptive --seconds 6 --size-max 256K"

# Seconds of traffic around a disturbance.
DISTURBED = "--wait adaptive --seconds 10 --size-max 256K"

# Seconds that a cable is out, and an interface down. An e1000e has no carrier for 3 more.
PULLED = 3
DOWN = 2

# Bytes on the cable that tell that a run has begun, or goes on.
BEGUN = 200_000

# Seconds for traffic to begin, and to go on after a disturbance.
FLOW_LIMIT = 60


@dataclass(frozen=True)
class State:
    """How cards and cable are set while some checks run, which follow one another so that it is set once."""

    name: str
    # Takes a Pair and gives a context, whose value is the address of guest b if that is another one.
    set: Callable = lambda _pair: nullcontext()


LOST_BY_SIZE = "long frames lost on the way"

# What has to be said of it: the size that is lost and the one that passes.
SIZE_NAMED = r"frames of (\d+) bytes do not reach .* of (\d+) they do"

USUAL = State("")
STATES = [
    State("offloads off", lambda pair: pair.offloads("off")),
    State("offloads on", lambda pair: pair.offloads("on")),
    State("MTU 9000", lambda pair: pair.mtu(9000)),
    State("VLAN", lambda pair: pair.vlan()),
    State(LOST_BY_SIZE, lambda pair: pair.lossy_above(1400)),
]


@dataclass(frozen=True)
class Check:
    """`run` takes a Pair and an address and gives what to say of it, and all that was printed; or raises Failure."""

    name: str
    run: Callable
    state: State = USUAL

    @property
    def file(self):
        return "".join(letter if letter.isalnum() else "-" for letter in self.name)


def checks_of(card):
    checks = [Check("driver", lambda pair, _address: driver(pair, card))]
    for link in LINKS:
        checks += [
            Check(f"{link}, clean", verified(link, WHOLE)),
            Check(f"{link}, 1 % lost", verified(link, WHOLE + " --loss 0.01")),
            Check(f"{link}, ping-pong", lambda pair, address, link=link: pingpong(pair, link, address)),
        ]
    for state in STATES:
        options, says = (SEARCHED, SIZE_NAMED) if state.name == LOST_BY_SIZE else (SHORT, None)
        checks += [Check(f"{link}, {state.name}", verified(link, options, says=says), state) for link in LINKS]
        if state.name == "offloads off":
            checks.append(Check(f"copies, {state.name}", copies, state))
    for link in LINKS:
        checks += [
            Check(f"{link}, cable pulled", verified(link, DISTURBED, cable_pulled)),
            Check(f"{link}, interface down", verified(link, DISTURBED, interface_down)),
        ]
    # Both links tell of carrier and MTU by the same means; xdp and auto are made of them.
    for link in ["packet", "udp"]:
        checks += [
            Check(f"{link}, MTU lowered", lambda pair, address, link=link: lowered(pair, link, address)),
            Check(f"{link}, cable out for good", lambda pair, address, link=link: cable_out(pair, link, address)),
        ]
    return checks


def driver(pair, card):
    """The card is the one that is meant, with its queues."""
    output = pair.a.must(f"ethtool -i {INTERFACE}; ls -d /sys/class/net/{INTERFACE}/queues/rx-*; ethtool -k {INTERFACE}")
    if f"driver: {card.module}" not in output.splitlines()[0]:
        raise Failure(f"the card's driver is not {card.module}", output)
    queues = output.count("queues/rx-")
    if queues != card.queues:
        raise Failure(f"the card has {queues} receive queues, not {card.queues}", output)
    return f"{card.module}, {queues} receive queue{'s' if queues > 1 else ''}", output


def verified(link, options, meanwhile=None, says=None):
    """What runs `emp bench verify`, and does something to the cable or an interface meanwhile. Either end has to print what `says` matches."""

    def run(pair, address):
        during = None if meanwhile is None else lambda: meanwhile(pair)
        output = verify(pair, link, address, options, during)
        if says is not None and re.search(says, output) is None:
            raise Failure(f"neither end said what matches `{says}`", output)
        return next(line for line in output.splitlines() if line.startswith("verify: ")), output

    return run


PINGPONG_SIZES = ["32", "64K", "1M"]


def pingpong(pair, link, address):
    """Round trips of three sizes, spinning as programs do that want the shortest. Says what they took, which compares with nothing."""
    output = bench(pair, f"pingpong --link {link} --sizes {','.join(PINGPONG_SIZES)} --seconds 0.4 --runs 4", address)
    rows = [line.split() for line in output.splitlines()]
    times = [f"{row[0]} {row[3]} µs" for row in rows if len(row) > 4 and row[0] in PINGPONG_SIZES and row[1] == "emp"]
    if len(times) != 3:
        raise Failure("pingpong did not show three sizes", output)
    return ", ".join(times), output


# Most user-space copies of each byte of a long message on a card that neither computes checksums nor segments. `auto` learns
# that by the first messages, which take udp.
COPIES_MOST = {"packet": 1.01, "udp": 2.01, "auto": 1.3}


def copies(pair, address):
    """Without offloads udp copies twice, and `auto` does not take it."""
    said, outputs = [], []
    for link, most in COPIES_MOST.items():
        output = bench(pair, f"pingpong --link {link} --sizes 1M --seconds 2 --runs 4 --wait adaptive", address)
        outputs.append(output)
        found = re.search(r"1M: ([\d.]+) user-space copies", output)
        if found is None or float(found[1]) > most:
            raise Failure(f"{link}: {found[1] if found else 'an unknown number of'} copies, not at most {most}", "".join(outputs))
        said.append(f"{link} {found[1]}")
    return ", ".join(said), "".join(outputs)


def cable_pulled(pair):
    begun(pair)
    pair.plug(False)
    time.sleep(PULLED)
    pair.plug(True)
    goes_on(pair)


def interface_down(pair):
    begun(pair)
    pair.b.must(f"ip link set {INTERFACE} down; sleep {DOWN}; ip link set {INTERFACE} up; {carrier()}", FLOW_LIMIT)
    goes_on(pair)


# An MTU that is lowered under a run, and what has to be said of it.
LOW_MTU = 1200
MTU_NAMED = rf"the MTU of {INTERFACE} is {LOW_MTU} now: frames have at most \d+ bytes"


def lowered(pair, link, address):
    try:
        return verified(link, DISTURBED, mtu_lowered, says=MTU_NAMED)(pair, address)
    finally:
        pair.b.must(f"ip link set {INTERFACE} mtu 1500 && {carrier()}", FLOW_LIMIT)


def mtu_lowered(pair):
    """At one end, which tells the other."""
    begun(pair)
    pair.b.must(f"ip link set {INTERFACE} mtu {LOW_MTU} && {carrier()}", FLOW_LIMIT)
    goes_on(pair)


# Seconds of silence that are borne where the cable stays out, six times as many without a carrier (RESEND-8). A driver that looks at its cable
# every two seconds and a kernel that tells of it a second later leave no room for less.
SILENCE = 5


def cable_out(pair, link, address):
    """A cable that is never plugged in again ends a run with an error that names the interface and what it lacks, if its driver tells."""
    told = False

    def pulled():
        nonlocal told
        begun(pair)
        pair.plug(False)
        lost = f"for i in $(seq 40); do [ $(cat /sys/class/net/{INTERFACE}/carrier) = 0 ] && exit 0; sleep 0.1; done; exit 1"
        told = pair.b.run(lost, FLOW_LIMIT).code == 0

    began = time.monotonic()
    try:
        output = verify(pair, link, address, f"--wait adaptive --seconds 60 --size-max 256K --timeout {SILENCE}", pulled)
    except Failure as failure:
        named = re.search(rf"peer unreachable.*{INTERFACE} (has|was down or had) no carrier", str(failure))
        if "peer unreachable" not in str(failure) or told and not named:
            raise Failure(f"the error does not name {INTERFACE} and its carrier: {failure}", failure.output) from failure
        said = "" if told else "; the driver did not say that the carrier is lost"
        return f"after {time.monotonic() - began:.0f} s: {failure}{said}", failure.output
    finally:
        pair.plug(True)
        for guest in (pair.a, pair.b):
            guest.must(carrier(), FLOW_LIMIT)
    raise Failure("a run without a cable ended well", output)


def begun(pair):
    """Waits until the run is under way."""
    if not flows(pair):
        raise Failure(f"the run ended or stood still before anything was done to it: less than {BEGUN} bytes crossed the cable")


def goes_on(pair):
    """Waits until the run moves again, or has ended, whose outcome then tells."""
    if not flows(pair) and not pair.a.done():
        raise Failure(f"nothing moves any more: less than {BEGUN} bytes crossed the cable in {FLOW_LIMIT} s")


def flows(pair):
    """Waits until more bytes have crossed the cable; false if the run ends before or it takes too long."""
    wanted = pair.cable.carried() + BEGUN
    end = time.monotonic() + FLOW_LIMIT
    while pair.cable.carried() < wanted:
        if time.monotonic() > end or pair.a.done():
            return False
        time.sleep(0.2)
    return True
