"""The cable between two guests: a bridge with a tap for each, in a network namespace of its own.

A bridge, because it can do what cables and switches do to users: it drops frames that are longer than a port's MTU, silently.
"""

import json
import os
import subprocess
from dataclasses import dataclass

from trouble import Trouble

# Longest frames that cards are tried with: jumbo frames, and the tag of a virtual LAN.
MTU_MOST = 9004


@dataclass(frozen=True)
class Port:
    tap: str
    enter: list  # how a command gets into the namespace


class Cable:
    def __init__(self, queues):
        if not os.access("/dev/net/tun", os.W_OK):
            raise Trouble("/dev/net/tun can't be opened for writing: the guests' cards need it; run this as root")
        self.name = f"emp-cards-{os.getpid()}"
        self.enter = ["ip", "netns", "exec", self.name]
        remove_stale()
        ip("netns", "add", self.name)
        try:
            self._inside("link", "add", "bridge", "type", "bridge", "forward_delay", "0", "mcast_snooping", "0")
            self._inside("link", "set", "bridge", "up")
            several = ["multi_queue"] if queues > 1 else []
            for tap in ["tap-a", "tap-b"]:
                self._inside("tuntap", "add", "dev", tap, "mode", "tap", *several)
                self._inside("link", "set", tap, "master", "bridge", "up")
            self.carries(MTU_MOST)
        except BaseException:
            self.remove()
            raise

    def port(self, name):
        return Port(f"tap-{name}", self.enter)

    def carries(self, mtu):
        """From now on longer packets are lost on the way, without a word to anybody."""
        for tap in ["tap-a", "tap-b"]:
            self._inside("link", "set", tap, "mtu", str(mtu))

    def carried(self):
        """Bytes that both guests have sent so far."""
        shown = ip("-n", self.name, "-j", "-s", "link", "show", "type", "tun")
        return sum(link["stats64"]["rx"]["bytes"] for link in json.loads(shown))

    def _inside(self, *words):
        ip("-n", self.name, *words)

    def remove(self):
        subprocess.run(["ip", "netns", "delete", self.name], check=False)


def remove_stale():
    """What runs that were killed have left."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        name = line.split()[0]
        owner = name.removeprefix("emp-cards-")
        if name != owner and owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            subprocess.run(["ip", "netns", "delete", name], check=False)


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Trouble(f"`ip {' '.join(words)}` failed: {done.stderr.strip()}")
    return done.stdout
