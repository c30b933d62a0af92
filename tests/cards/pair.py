"""Two guests with one make of card, joined by a cable, and what is done with both."""

from contextlib import contextmanager

from cable import MTU_MOST, Cable
from guest import Guest
from trouble import Trouble

ADDRESSES = {"a": "10.77.0.1", "b": "10.77.0.2"}
TAGGED_ADDRESSES = {"a": "10.78.0.1", "b": "10.78.0.2"}

# The card's only name in a guest, as there is no other and nobody renames it.
INTERFACE = "eth0"

# Seconds until a card has its carrier again: an e1000e takes 3 of an unloaded machine's.
CARRIER_LIMIT = 30


class Pair:
    def __init__(self, card, kernel, root, directory):
        self.card = card
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.cable = Cable(card.queues)
        self.guests = []
        try:
            for number, name in enumerate("ab", start=1):
                mac = f"52:54:00:77:00:{number:02x}"
                self.guests.append(Guest(name, card, mac, self.cable.port(name), kernel, root, directory))
            for guest in self.guests:
                guest.wait_booted()
                self._set_up(guest)
        except BaseException:
            self.stop()
            raise
        self.a, self.b = self.guests

    def _set_up(self, guest):
        if self.card.queues > 1:
            guest.must(f"ethtool -L {INTERFACE} combined {self.card.queues}")
        guest.must(f"ip address add {ADDRESSES[guest.name]}/24 dev {INTERFACE} && ip link set {INTERFACE} up && {carrier()}", CARRIER_LIMIT + 5)

    def both(self, order, limit=30):
        """The outputs of an order that has to succeed in both guests, which do it at the same time."""
        for guest in self.guests:
            guest.start(order, limit)
        results = [guest.finish() for guest in self.guests]
        for guest, result in zip(self.guests, results):
            if result.code != 0:
                raise Trouble(f"guest {guest.name}: `{order}` ended with {result.code}: {result.last}")
        return [result.output for result in results]

    def plug(self, up):
        """The cable at both ends, as where nothing is between them."""
        for guest in self.guests:
            guest.plug(up)

    @contextmanager
    def mtu(self, mtu):
        """Interfaces with another MTU for a while."""
        self.both(f"ip link set {INTERFACE} mtu {mtu} && {carrier()}", CARRIER_LIMIT + 5)
        try:
            yield
        finally:
            self.both(f"ip link set {INTERFACE} mtu 1500 && {carrier()}", CARRIER_LIMIT + 5)

    @contextmanager
    def offloads(self, state):
        """All that the card and the kernel do in the place of software, `on` or `off` for a while; what a card lacks is left out."""
        before = [changeable(guest) for guest in self.guests]
        for guest, features in zip(self.guests, before):
            switch(guest, {name: state for name in features})
        try:
            yield
        finally:
            for guest, features in zip(self.guests, before):
                switch(guest, features)

    @contextmanager
    def vlan(self):
        """An interface with a tag on top of the card's, for a while; gives the address of guest b on it."""
        name = f"{INTERFACE}.7"
        for guest in self.guests:
            address = TAGGED_ADDRESSES[guest.name]
            guest.must(f"ip link add link {INTERFACE} name {name} type vlan id 7 && ip address add {address}/24 dev {name} && ip link set {name} up")
        try:
            yield TAGGED_ADDRESSES["b"]
        finally:
            self.both(f"ip link delete {name}")

    @contextmanager
    def lossy_above(self, mtu):
        """A cable that loses longer packets and says nothing, for a while."""
        self.cable.carries(mtu)
        try:
            yield
        finally:
            self.cable.carries(MTU_MOST)

    def stop(self):
        for guest in self.guests:
            guest.stop()
        self.cable.remove()


# What is switched. Names as ethtool takes them; those that a card calls fixed can't be.
FEATURES = {
    "rx-checksumming": "rx",
    "tx-checksumming": "tx",
    "scatter-gather": "sg",
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
    "large-receive-offload": "lro",
}


def changeable(guest):
    """The features that can be switched, by ethtool's short names, each `on` or `off` as it is now."""
    found = {}
    for line in guest.must(f"ethtool -k {INTERFACE}").splitlines():
        name, _, state = line.partition(": ")
        if name in FEATURES and "[fixed]" not in state:
            found[FEATURES[name]] = state.split()[0]
    return found


def switch(guest, states):
    """Some features need others, whose order ethtool knows; what it says of those that it could not do is of no use."""
    guest.must(f"ethtool -K {INTERFACE} {' '.join(f'{name} {state}' for name, state in states.items())} && {carrier()}", CARRIER_LIMIT + 5)


def carrier():
    """Shell: waits until the card has its carrier and the kernel calls the interface up for that, which may be a second later."""
    place = f"/sys/class/net/{INTERFACE}"
    return f"until [ $(cat {place}/carrier) = 1 ] && grep -qE '^(up|unknown)$' {place}/operstate; do sleep 0.1; done"
