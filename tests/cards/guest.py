"""A guest: one emulated machine, which does what it is told over a virtual serial port and whose cable can be pulled."""

import json
import shlex
import socket
import subprocess
import time

from trouble import Trouble

# Seconds for QEMU to make its sockets, and for a kernel to boot: 10 to 15 where nothing else runs.
START_LIMIT = 20
BOOT_LIMIT = 180

# Seconds beyond an order's own limit until its guest counts as dead.
ANSWER_MARGIN = 15

# `timeout` ends with this if it had to end the command with KILL, and with the first if TERM was enough.
TIMED_OUT = (124, 137, 143)


class Dead(Trouble):
    """The guest does not answer any more."""


class Result:
    """What came of an order."""

    def __init__(self, code, output):
        self.code = code
        self.output = output.strip()

    @property
    def last(self):
        """The last line, where programs say what went wrong."""
        return self.output.splitlines()[-1] if self.output else "no output"


class Guest:
    """Runs until it is stopped, at the latest when this program ends."""

    def __init__(self, name, card, mac, port, kernel, root, directory):
        self.name = name
        self.directory = directory
        self.buffer = b""
        self.order_limit = None
        shell, control = directory / f"{name}.shell", directory / f"{name}.control"
        for path in [shell, control]:
            path.unlink(missing_ok=True)
        queues = ",queues=%d" % card.queues if card.queues > 1 else ""
        command = [
            # In the cable's namespace, behind others' work, and never longer than this program.
            *port.enter, "setpriv", "--pdeathsig", "KILL", "nice", "-n", "10",
            "qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot",
            "-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", "max", "-smp", card.processors, "-m", "1024",
            "-kernel", kernel.image, "-initrd", root,
            # A guest that panics ends, and one whose timer comes late does not panic. Its clock is a device of QEMU's: the rate
            # of the cycle counter is measured at boot, up to ten times too low where the host is busy.
            "-append", "console=ttyS0 panic=-1 no_timer_check mitigations=off random.trust_cpu=on clocksource=hpet",
            "-serial", f"file:{directory / (name + '.console')}",
            "-chardev", f"socket,id=shell,path={shell},server=on,wait=off",
            "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=shell",
            "-qmp", f"unix:{control},server=on,wait=off",
            "-netdev", f"tap,id=cable,ifname={port.tap},script=no,downscript=no,vhost=off{queues}",
            "-device", f"{card.device},id=card,netdev=cable,mac={mac}",
        ]
        self.log = (directory / f"{name}.qemu").open("wb")
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        try:
            self.shell = self._connect(shell)
            self.control = self._connect(control)
            self._read_control()
            self._command("qmp_capabilities")
        except BaseException:
            self.stop()
            raise

    def _connect(self, path):
        end = time.monotonic() + START_LIMIT
        while True:
            try:
                connection = socket.socket(socket.AF_UNIX)
                connection.connect(str(path))
                return connection
            except OSError:
                connection.close()
                if self.process.poll() is not None or time.monotonic() > end:
                    said = (self.directory / f"{self.name}.qemu").read_text().strip()
                    raise Trouble(f"QEMU did not start guest {self.name}: {said or 'it said nothing'}") from None
                time.sleep(0.05)

    def wait_booted(self):
        end = time.monotonic() + BOOT_LIMIT
        while not self._line(end).endswith(b"emp-cards: ready"):
            pass

    def run(self, order, limit=30):
        """Does a line of shell and waits until it is done; after `limit` seconds it is ended."""
        self.start(order, limit)
        return self.finish()

    def start(self, order, limit=30):
        """Begins a line of shell; `finish` waits for it."""
        line = f"timeout -k 2 {limit} sh -c {shlex.quote(order)}"
        if "\n" in line or len(line) > 4000:
            raise ValueError("an order is one line")
        self.order_limit = limit
        self.shell.sendall(line.encode() + b"\n")

    def finish(self):
        end = time.monotonic() + self.order_limit + ANSWER_MARGIN
        lines = []
        while True:
            line = self._line(end)
            if line.startswith(b"emp-cards: "):
                code = int(line.split()[1])
                output = b"\n".join(lines).decode(errors="replace")
                if code in TIMED_OUT:
                    output += f"\nended after {self.order_limit} s"
                return Result(code, output)
            lines.append(line)

    def done(self):
        """Whether the order that was begun has ended."""
        self.shell.settimeout(0.05)
        try:
            self.buffer += self.shell.recv(65536)
        except TimeoutError:
            pass
        return b"\nemp-cards: " in self.buffer

    def must(self, order, limit=30):
        """The output of an order that has to succeed."""
        result = self.run(order, limit)
        if result.code != 0:
            raise Trouble(f"guest {self.name}: `{order}` ended with {result.code}: {result.last}")
        return result.output

    def _line(self, end):
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or self.process.poll() is not None:
                console = self.directory / f"{self.name}.console"
                said = console.read_text(errors="replace").strip().splitlines()
                raise Dead(f"guest {self.name} does not answer; its console ({console}) ends with: {said[-1] if said else 'nothing'}")
            self.shell.settimeout(left)
            try:
                self.buffer += self.shell.recv(65536) or b""
            except TimeoutError:
                continue
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.rstrip(b"\r")

    def plug(self, up):
        """Plugs the cable in or pulls it, as the card sees it."""
        self._command("set_link", name="card", up=up)

    def _command(self, order, **arguments):
        self.control.sendall(json.dumps({"execute": order, "arguments": arguments}).encode())
        while True:
            answer = self._read_control()
            if "error" in answer:
                raise Trouble(f"QEMU refuses {order} for guest {self.name}: {answer['error']['desc']}")
            if "return" in answer:
                return

    def _read_control(self):
        self.control.settimeout(START_LIMIT)
        data = b""
        while not data.endswith(b"\n"):
            got = self.control.recv(1)
            if not got:
                raise Dead(f"guest {self.name} has ended")
            data += got
        return json.loads(data)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=START_LIMIT)
        self.log.close()
