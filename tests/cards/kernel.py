"""Debian's own kernel, taken out of its package without installing that."""

import shutil
import subprocess
from pathlib import Path

from trouble import Trouble

# Depends on the newest kernel of the distribution.
META_PACKAGE = "linux-image-amd64"

# What guests need of it. All modules are 400 MB.
PARTS = ["./boot/vmlinuz-*", "./lib/modules/*/modules.*", "./lib/modules/*/kernel/drivers/char", "./lib/modules/*/kernel/drivers/net",
         "./lib/modules/*/kernel/drivers/virtio", "./lib/modules/*/kernel/net"]


class Kernel:
    """An unpacked kernel."""

    def __init__(self, directory):
        self.directory = directory
        self.image = next(directory.glob("boot/vmlinuz-*"))
        self.version = self.image.name.removeprefix("vmlinuz-")

    def modules(self, names):
        """The files of these modules and of what they depend on, in the order in which they are to be loaded."""
        files = []
        for name in names:
            shown = run("modprobe", "-d", self.directory, "-S", self.version, "--show-depends", name)
            paths = [Path(line.split()[1]) for line in shown.splitlines() if line.startswith("insmod")]
            files += [path for path in paths if path not in files]
        return files


def unpacked(cache):
    """The kernel in this directory; fetched if it is not there yet."""
    ready = sorted(cache.glob("kernel-*/ready"))
    if ready:
        return Kernel(ready[-1].parent)
    package = newest()
    directory = cache / f"kernel-{package}"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    print(f"fetching {package}", flush=True)
    run("apt-get", "-q", "download", package, cwd=directory)
    archive = next(directory.glob("*.deb"))
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as tar:
        run("tar", "-x", "-C", directory, "--wildcards", *PARTS, stdin=tar.stdout)
    archive.unlink()
    kernel = Kernel(directory)
    run("depmod", "-b", directory, kernel.version)
    (directory / "ready").touch()
    return kernel


def newest():
    """The package that the distribution's newest kernel is in."""
    for attempt in range(2):
        shown = subprocess.run(["apt-cache", "depends", META_PACKAGE], capture_output=True, text=True, check=False)
        for line in shown.stdout.splitlines():
            if line.strip().startswith("Depends: linux-image-"):
                return line.split()[1]
        if attempt == 0:
            run("apt-get", "-q", "update")
    raise Trouble(f"apt knows no package {META_PACKAGE}, whose kernel the guests run: they need Debian on amd64")


def run(*command, cwd=None, stdin=subprocess.DEVNULL):
    """The output of a command; Trouble if it fails."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, stdin=stdin, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        raise Trouble(f"`{' '.join(map(str, command[:4]))}` failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
