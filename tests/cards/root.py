"""The guests' file system, an initramfs: busybox, ethtool, emp, the libraries they are linked to, and the modules."""

import re
import shutil
import subprocess
from pathlib import Path

from kernel import run
from trouble import Trouble

HERE = Path(__file__).parent


def build(directory, emp, kernel, modules):
    """Makes the archive anew (1 s) and returns its path. Not compressed: the emulated processor would take longer over that."""
    tree = directory / "root"
    shutil.rmtree(tree, ignore_errors=True)
    for name in ["bin", "sbin", "dev", "proc", "sys", "tmp", "etc"]:
        (tree / name).mkdir(parents=True)
    shutil.copy(HERE / "init", tree / "init")
    for name in ["busybox", "ethtool"]:
        copy_program(tree, found(name))
    run("strip", "-o", tree / "bin/emp", emp)
    copy_libraries(tree, emp)
    listed = []
    for path in kernel.modules(modules):
        shutil.copy(path, tree / path.name)
        listed.append(f"/{path.name}\n")
    (tree / "modules.list").write_text("".join(listed))
    return packed(tree, directory / "root.cpio")


def found(name):
    path = shutil.which(name, path="/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin")
    if path is None:
        raise Trouble(f"{name} is missing: tools/install-deps cards")
    return Path(path)


def copy_program(tree, program):
    shutil.copy(program, tree / "bin" / program.name)
    copy_libraries(tree, program)


def copy_libraries(tree, program):
    """What the dynamic linker loads for a program, at the same paths."""
    shown = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    for path in re.findall(r"(/\S+) \(0x", shown):
        target = tree / path.lstrip("/")
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)


def packed(tree, archive):
    names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    with archive.open("wb") as out:
        subprocess.run([found("busybox"), "cpio", "-o", "-H", "newc"], cwd=tree, input=names.encode(), stdout=out,
                       stderr=subprocess.DEVNULL, check=True)
    return archive
