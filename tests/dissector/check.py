#!/usr/bin/env python3
"""Holds share/emp/emp.lua to the test vectors: every field of every frame, by tshark; then mutated frames, none of which may make an error.

    tests/dissector/check.py [--mutants N] [--seed N] [--keep DIRECTORY] [--packets N] [CAPTURE...]

A CAPTURE is a pcapng file of a run of EMP's, of which each frame must be understood and every checksum right that can be told; of its first N packets.
"""

import argparse
import json
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VECTORS = ROOT / "tests/vectors"
sys.path.insert(0, str(VECTORS))
sys.dont_write_bytecode = True
import make  # the encoder of the vectors

# What the vectors' words are called where one word means different things by kind.
WORDS = {"block": {"pull": "block_pull", "place": "block_place"}, "slice": {"place": "slice_place", "total": "slice_total"}}
REASONS = {
    "too_short": "emp.short", "wrong_version": "emp.wrong_version", "unknown_kind": "emp.unknown_kind", "bad_length": "emp.cut",
    "body_short": "emp.short", "bad_field": "emp.bad_field", "bad_checksum": "emp.bad_checksum",
}


# ---- captures

def block(kind, body):
    body += bytes(-len(body) % 4)
    size = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + size + body + size


def pcapng(path, packets):
    with open(path, "wb") as file:
        file.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
        file.write(block(1, struct.pack("<HHI", 1, 0, 0)))
        for number, packet in enumerate(packets):
            file.write(block(6, struct.pack("<IIIII", 0, 0, number, len(packet), len(packet)) + packet))


def raw(frame):
    return bytes.fromhex("02656d70000202656d70000188b5") + frame


def datagram(frame, port=51966):
    ethernet = bytes.fromhex("02656d70000202656d7000010800")
    length = min(28 + len(frame), 0xFFFF)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, length, 0, 0, 64, 17, 0) + bytes([10, 1, 2, 1, 10, 1, 2, 2])
    return ethernet + ip + struct.pack(">HHHH", port, port, length - 20, 0) + frame


def introduction():
    """A hello of the destination, by which its name and epoch are known: what a capture of a run has at its beginning."""
    body = make.u(make.B.id, 8) + make.u(make.A.id, 8) + bytes(8) + bytes(4) + make.u(1500, 2) + b"\x01\x00b"
    start = (make.u(1 << 5 | 1, 1) + b"\0" + make.u(len(body), 2) + make.u(make.destination_tag(make.A.id), 2) + bytes(2)
             + make.u(make.source_tag(make.B.id), 4) + make.u(make.B.epoch, 4) + bytes(12))
    hello = start + make.u(make.crc32c(start + bytes(4) + body), 4) + body
    # And one of the source, for frames that do not say whose they are.
    own = make.u(make.A.id, 8) + make.u(make.B.id, 8) + bytes(8) + bytes(4) + make.u(1500, 2) + b"\x01\x00a"
    start = (make.u(1 << 5 | 1, 1) + b"\0" + make.u(len(own), 2) + make.u(make.destination_tag(make.B.id), 2) + bytes(2)
             + make.u(make.source_tag(make.A.id), 4) + make.u(make.A.epoch, 4) + bytes(12))
    return [raw(hello), raw(start + make.u(make.crc32c(start + bytes(4) + own), 4) + own)]


# ---- tshark

def tshark(path, *arguments):
    command = ["tshark", "-n", "-X", f"lua_script:{ROOT / 'share/emp/emp.lua'}", "-r", str(path), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=900)
    said = done.stderr.decode(errors="replace")
    said = "\n".join(line for line in said.splitlines() if "Running as user" not in line)
    if done.returncode or "ua" in said and ("Lua" in said or "lua" in said):
        sys.exit(f"dissector: tshark ended with {done.returncode}: {said[:2000]}")
    return done.stdout


class Shown:
    """One frame of EMP, as tshark has it."""

    def __init__(self, element):
        self.all = {}
        for field in element.iter("field"):
            self.all.setdefault(field.get("name"), []).append(field.get("show"))

    def texts(self, name):
        return self.all.get(name, [])

    def numbers(self, name):
        return [{"True": 1, "False": 0}.get(text) if text in ("True", "False") else int(text, 0) for text in self.texts(name)]

    def bytes(self, name):
        return [(text or "").replace(":", "") for text in self.texts(name)]


def frames(path, most=0):
    """For each packet its frames of EMP; `most`: of the first so many."""
    tree = xml.etree.ElementTree.fromstring(tshark(path, "-T", "pdml", *(("-c", str(most)) if most else ())))
    return [[Shown(proto) for proto in packet.findall("proto") if proto.get("name") == "emp"] for packet in tree.findall("packet")]


# ---- vectors

def number(value):
    return int(value, 0) if isinstance(value, str) else int(value)


class Complaints(list):
    def equal(self, where, what, wanted, got):
        if wanted != got:
            self.append(f"{where}: {what} is {got}, not {wanted}")


def compare(where, vector, shown, complaints):
    header = vector["header"]
    kind = make.KINDS[header["kind"]]
    extended = "extensions" in vector
    complaints.equal(where, "kind", [kind + 16 * extended], shown.numbers("emp.kind"))
    names = {**make.COMMON_FLAGS, **make.OWN_FLAGS.get(header["kind"], {})}
    for flag in names:
        wanted = [int(flag in header["flags"])]
        complaints.equal(where, flag, wanted, shown.numbers("emp.flags." + flag.lower().replace("-", "_")))
    for name, value in header.items():
        if name not in ("kind", "flags"):
            complaints.equal(where, name, [number(value)], shown.numbers("emp." + name))
    for name, value in vector.get("word", {}).items():
        name = WORDS.get(header["kind"], {}).get(name, name)
        complaints.equal(where, name, [number(value)], shown.numbers("emp." + name))
    for name, value in vector.get("body", {}).items():
        if name == "addresses":
            complaints.equal(where, "families", [one["family"] for one in value], shown.numbers("emp.address.family"))
            complaints.equal(where, "addresses", [one["bytes"] for one in value], shown.bytes("emp.address.bytes"))
        elif name == "memory":
            complaints.equal(where, "memory", [number(address) for address, _ in value], shown.numbers("emp.memory.address"))
            complaints.equal(where, "bytes of memory", [size for _, size in value], shown.numbers("emp.memory.bytes"))
        elif name == "selective":
            words = shown.numbers("emp.selective")
            while words and words[-1] == 0 and len(words) > len(value):
                words.pop()
            complaints.equal(where, name, [number(word) for word in value], words)
        elif name == "other":
            items = max(1, len(vector["body"]["addresses"]))
            complaints.equal(where, name, [number(value)] * items, shown.numbers("emp.other"))
        elif name == "name":
            complaints.equal(where, name, [value], shown.texts("emp.name"))
        elif name == "link_frame_bytes_max" and value == 0 and header["kind"].startswith("hello"):
            complaints.equal(where, name, [], shown.texts("emp." + name))
        else:
            complaints.equal(where, name, [number(value)], shown.numbers("emp." + name))
    for one, kinds, values in zip(vector.get("extensions", []), shown.numbers("emp.extension.type"), shown.bytes("emp.extension.value")):
        complaints.equal(where, "extension", (one["type"], one["value"]), (kinds, values))
    if extended:
        complaints.equal(where, "extensions", len(vector["extensions"]), len(shown.texts("emp.extension.type")))
    else:
        status = "memory" if vector.get("carrier") == "memory" else "good"
        complaints.equal(where, "checksum", [status], shown.texts("emp.checksum_status"))
    wanted = [vector["payload"]] if "payload" in vector else []
    complaints.equal(where, "payload", wanted, shown.bytes("emp.payload"))
    for bad in ("emp.short", "emp.bad_field", "emp.bad_checksum", "emp.cut"):
        complaints.equal(where, bad, [], shown.texts(bad))


def compare_relayed(where, vector, shown, complaints):
    """The head and its list, and behind them the frames that they carry."""
    head, hops = shown[0], vector["list"]
    for name, value in vector["relay"].items():
        value = make.USES[value] if name == "use" else number(value)
        complaints.equal(where, name, [value], head.numbers("emp.relay." + name))
    for name in ("tag", "link", "family"):
        complaints.equal(where, "hops' " + name, [number(hop[name]) for hop in hops], head.numbers("emp.relay.hop." + name))
    complaints.equal(where, "hops' address", [hop["address"] for hop in hops], head.bytes("emp.relay.hop.address"))
    carried, lengths = bytes.fromhex(vector["carried"]), []
    while carried and vector["relay"]["use"] != "cut off":
        lengths.append(32 + int.from_bytes(carried[2:4], "big"))
        carried = carried[lengths[-1]:]
    complaints.equal(where, "frames", lengths, [32 + one.numbers("emp.length")[0] for one in shown[1:]])
    for one in shown[1:]:
        complaints.equal(where, "checksum", ["good"], one.texts("emp.checksum_status"))


def check_vectors(directory, wrap, carrier, complaints):
    vectors = [(path.stem, vector) for path in sorted(VECTORS.glob("*.json")) for vector in json.loads(path.read_text())["vectors"]]
    intro = introduction()
    path = directory / f"vectors-{carrier}.pcapng"
    pcapng(path, intro + [wrap(bytes.fromhex("".join(vector["hex"]))) for _, vector in vectors])
    seen = frames(path)[len(intro):]
    fields = 0
    for (file, vector), shown in zip(vectors, seen, strict=True):
        where = f"{carrier}, {file}: {vector['name']}"
        if file == "bundle":
            complaints.equal(where, "frames", len(vector["frames"]), len(shown))
            lengths = [32 + one.numbers("emp.length")[0] for one in shown]
            complaints.equal(where, "lengths", vector["frames"], lengths)
        elif file == "refused":
            # A capture has no frames of shared memory; of no bytes at all nobody asks the dissector.
            if vector.get("carrier") == "memory" or not "".join(vector["hex"]):
                continue
            wanted = REASONS[vector["reason"]]
            if not any(one.texts(wanted) for one in shown):
                complaints.append(f"{where}: is not said to be {wanted}")
        elif file == "relay":
            compare_relayed(where, vector, shown, complaints)
        elif len(shown) != 1:
            complaints.append(f"{where}: {len(shown)} frames")
        else:
            compare(where, vector, shown[0], complaints)
        fields += sum(len(one.all) for one in shown)
    return len(vectors), fields


# ---- what follows from other frames

def check_following(directory, complaints):
    """A train, its resent frame, a pull with its blocks and the answer, in the order of a run."""
    def joined(*arguments, **more):
        return b"".join(make.frame(*arguments, **more)[0])

    text = make.TEXT
    first = joined("message", make.message(long=(1 << 20, 48, 24)).bytes, text, flags=["ACK", "LONG"], sequence=7, word=3)
    second = joined("data", b"", text, flags=["ACK", "LAST"], sequence=8, word=1)
    path = directory / "following.pcapng"
    pcapng(path, introduction() + [raw(frame) for frame in (first, second, second, first)])
    seen = [one[0] for one in frames(path)[2:]]
    complaints.equal("a train", "its beginning", [3], seen[1].numbers("emp.train"))
    complaints.equal("a train", "offset", [24], seen[1].numbers("emp.train_offset"))
    complaints.equal("a train", "first copy", [], seen[1].texts("emp.first_copy"))
    complaints.equal("a frame again", "first copy", [4], seen[2].numbers("emp.first_copy"))
    complaints.equal("a first frame again", "first copy", [3], seen[3].numbers("emp.first_copy"))
    complaints.equal("a train", "names", ["a", "b"], seen[1].texts("emp.source_name") + seen[1].texts("emp.destination_name"))


# ---- mutants

def mutants(count, seed):
    chance = random.Random(seed)
    good = [bytes.fromhex("".join(vector["hex"])) for path in sorted(VECTORS.glob("*.json"))
            for vector in json.loads(path.read_text())["vectors"]]
    for _ in range(count):
        frame = bytearray(chance.choice(good))
        for _ in range(chance.choice((1, 1, 2, 4, 8))):
            way = chance.randrange(6)
            if way == 0 and frame:
                frame[chance.randrange(len(frame))] ^= 1 << chance.randrange(8)
            elif way == 1 and frame:
                frame[chance.randrange(len(frame))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
            elif way == 2:
                del frame[chance.randrange(len(frame) + 1):]
            elif way == 3:
                frame += bytes(chance.randrange(256) for _ in range(chance.randrange(1, 64)))
            elif way == 4 and len(frame) > 4:
                at = chance.randrange(len(frame) - 1)
                frame[at:at + 2] = make.u(chance.choice((0, 1, 0xFFFF, len(frame), max(len(frame) - 32, 0))), 2)
            elif way == 5:
                frame += chance.choice(good)
        yield bytes(frame)


def check_mutants(directory, count, seed):
    path = directory / "mutants.pcapng"
    wraps = (raw, datagram, lambda frame: datagram(frame, 61190))
    packets = introduction() + [wraps[number % 3](frame) for number, frame in enumerate(mutants(count, seed))]
    pcapng(path, packets)
    # Twice over each, as Wireshark does: `-2` looks at frames again when all were seen.
    for arguments in (("-V",), ("-2", "-V")):
        text = tshark(path, *arguments).decode(errors="replace")
        found = re.search(r".*(Lua Error|\[Dissector bug|_ws\.lua).*", text)
        if found:
            sys.exit(f"dissector: a mutated frame makes an error (seed {seed}): {found.group(0)}")
        if text.count("Ethernet Message Passing") < count // 3:
            sys.exit("dissector: most mutated frames did not come to the dissector at all")


def check_capture(path, most, complaints):
    count, bad, again = 0, 0, 0
    for packet in frames(path, most):
        for one in packet:
            count += 1
            again += bool(one.texts("emp.first_copy"))
            bad += any(one.texts(name) for name in ("emp.short", "emp.bad_field", "emp.unknown_kind", "emp.wrong_version"))
            bad += one.texts("emp.checksum_status") == ["bad"]
    complaints.equal(str(path), "frames that are not understood", 0, bad)
    if not count:
        complaints.append(f"{path}: has no frames of EMP")
    return f"{count} frames of {path}, {again} of them sent again"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mutants", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--packets", type=int, default=0)
    parser.add_argument("captures", nargs="*")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.keep or pathlib.Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        complaints = Complaints()
        for wrap, carrier in ((raw, "ethernet"), (datagram, "udp")):
            vectors, fields = check_vectors(directory, wrap, carrier, complaints)
            print(f"dissector: {vectors} vectors over {carrier}, {fields} fields", flush=True)
        check_following(directory, complaints)
        for capture in options.captures:
            print(f"dissector: {check_capture(capture, options.packets, complaints)}", flush=True)
        for complaint in complaints[:40]:
            print(complaint, file=sys.stderr)
        if complaints:
            sys.exit(f"dissector: {len(complaints)} complaints")
        check_mutants(directory, options.mutants, options.seed)
        print(f"dissector: {options.mutants} mutated frames, no error: passed", flush=True)


if __name__ == "__main__":
    main()
