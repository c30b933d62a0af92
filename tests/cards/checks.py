"""What is checked on each card."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from pair import ADDRESSES, INTERFACE, carrier
from traffic import Failure, verify

LINKS = ["packet", "udp", "xdp", "auto"]
B = ADDRESSES["b"]

# Random messages of up to 4 MiB, and a short run for what concerns each frame and no message.
WHOLE = "--seconds 2"
SHORT = "--seconds 1 --size-max 256K"

# Seconds of traffic around a disturbance, of which half a minute may pass before it has begun on a busy machine.
DISTURBED = "--seconds 10 --size-max 256K"

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


USUAL = State("")
STATES = [
    State("offloads off", lambda pair: pair.offloads("off")),
    State("offloads on", lambda pair: pair.offloads("on")),
    State("MTU 9000", lambda pair: pair.mtu(9000)),
    State("VLAN", lambda pair: pair.vlan()),
    State("long frames lost on the way", lambda pair: pair.lossy_above(1400)),
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
        ]
    for state in STATES:
        checks += [Check(f"{link}, {state.name}", verified(link, SHORT), state) for link in LINKS]
    for link in LINKS:
        checks += [
            Check(f"{link}, cable pulled", verified(link, DISTURBED, cable_pulled)),
            Check(f"{link}, interface down", verified(link, DISTURBED, interface_down)),
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


def verified(link, options, meanwhile=None):
    """What runs `emp bench verify`, and does something to the cable or an interface meanwhile."""

    def run(pair, address):
        during = None if meanwhile is None else lambda: meanwhile(pair)
        output = verify(pair, link, address, options, during)
        return next(line for line in output.splitlines() if line.startswith("verify: ")), output

    return run


def cable_pulled(pair):
    flows(pair, "the run has not begun")
    pair.plug(False)
    time.sleep(PULLED)
    pair.plug(True)
    flows(pair, "nothing moves though the cable is in again")


def interface_down(pair):
    flows(pair, "the run has not begun")
    pair.b.must(f"ip link set {INTERFACE} down; sleep {DOWN}; ip link set {INTERFACE} up; {carrier()}", FLOW_LIMIT)
    flows(pair, "nothing moves though the interface is up again")


def flows(pair, otherwise):
    """Waits until more bytes have crossed the cable; Failure if that takes too long."""
    wanted = pair.cable.carried() + BEGUN
    end = time.monotonic() + FLOW_LIMIT
    while pair.cable.carried() < wanted:
        if time.monotonic() > end:
            raise Failure(f"{otherwise}: {FLOW_LIMIT} s without {BEGUN} bytes on the cable")
        if pair.a.done():
            return
        time.sleep(0.2)
