#!/usr/bin/env python3
"""Writes the test vectors of EMP's wire format: a second encoder, made from part I of SPEC.md and from nothing else.

    tests/vectors/make.py            writes them
    tests/vectors/make.py --check    says whether they are what it would write

`crates/wire/tests/vectors` decodes and encodes each with the first one. See README.md beside this file.
"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).parent

KINDS = {
    "hello": 1, "hello-reply": 2, "message": 3, "data": 4, "ack": 5, "not-ready": 6, "pull": 7, "block": 8,
    "done": 9, "close": 10, "put": 11, "get": 12, "atomic": 13, "slice": 14, "skip": 15,
}
CONTACT = ("hello", "hello-reply")
BULK = ("message", "data", "block", "put")
COMMON_FLAGS = {"ACK": 0x01, "ACK-REQUEST": 0x02, "PAYLOAD-UNCHECKED": 0x04, "LAST": 0x08}
OWN_FLAGS = {
    "message": {"LONG": 0x10, "IMMEDIATE": 0x20, "SYNCHRONOUS": 0x40, "VOID": 0x80},
    "put": {"LONG": 0x10, "IMMEDIATE": 0x20},
    "atomic": {"FETCH": 0x10},
    "done": {"REPLY": 0x10},
    "ack": {"UNTAKEN": 0x10, "MARKED": 0x20},
}


# ---- identities (ID-2, FRAME-3, FRAME-4) and checksums (CRC-1, CRC-2)

def mix(z):
    """splitmix64's finaliser."""
    mask = (1 << 64) - 1
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def identity(name):
    fnv = 0xCBF29CE484222325
    for byte in name.encode():
        fnv = ((fnv ^ byte) * 0x100000001B3) & ((1 << 64) - 1)
    return mix(fnv) or 1


def source_tag(node):
    return mix(node) >> 32


def destination_tag(node):
    tag = mix(node) >> 48
    return {0: 1, 0xFFFF: 0xFFFE}.get(tag, tag)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


# ---- fields

def u(value, size):
    return value.to_bytes(size, "big")


def hexed(value, size):
    return f"0x{value:0{2 * size}x}"


class Node:
    def __init__(self, name, epoch):
        self.name, self.id, self.epoch = name, identity(name), epoch

    def shown(self):
        return {
            "name": self.name, "identity": hexed(self.id, 8), "epoch": hexed(self.epoch, 4),
            "destination_tag": hexed(destination_tag(self.id), 2), "source_tag": hexed(source_tag(self.id), 4),
        }


A, B = Node("a", 0x5EED0A01), Node("b", 0xC0DE0B02)


def seed(kind, source=A, destination=B):
    if kind in CONTACT:
        return 0
    return crc32c(u(destination.id, 8) + u(source.id, 8) + u(destination.epoch, 4))


def frame(kind, body=b"", payload=b"", *, flags=(), word=0, sequence=0, acknowledge=0, tag=None, check=None, memory=False,
          number=None, version=1, length=None, covers=None):
    """A frame from A to B: its bytes, in three parts, and its header's fields."""
    bits = {**COMMON_FLAGS, **OWN_FLAGS.get(kind, {})}
    flag_bits = sum(bits[flag] for flag in flags)
    number = KINDS[kind] if number is None else number
    length = len(body) + len(payload) if length is None else length
    tag = destination_tag(B.id) if tag is None else tag
    check = B.epoch & 0xFFFF if check is None else check
    start = (
        u(version << 5 | number, 1) + u(flag_bits, 1) + u(length, 2) + u(tag, 2) + u(check, 2) + u(source_tag(A.id), 4)
        + u(A.epoch, 4) + u(sequence, 4) + u(acknowledge, 4) + u(word, 4)
    )
    if covers is None:
        covers = b"" if kind in BULK and "PAYLOAD-UNCHECKED" in flags else payload
    begin = seed(kind)
    checksum = begin if memory else crc32c(start + u(begin, 4) + body + covers)
    head = start + u(checksum, 4)
    fields = {
        "kind": kind, "flags": sorted(flags, key=bits.get), "length": length, "destination_tag": hexed(tag, 2),
        "destination_epoch": hexed(check, 2), "source_tag": hexed(source_tag(A.id), 4), "source_epoch": hexed(A.epoch, 4),
        "sequence": sequence, "acknowledge": acknowledge, "word": word, "checksum": hexed(checksum, 4),
    }
    return (head, body, payload), fields


class Body:
    """Fields in order: their bytes and what is shown of them."""

    def __init__(self):
        self.bytes, self.shown = b"", {}

    def number(self, name, value, size, as_hex=False):
        self.bytes += u(value, size)
        self.shown[name] = hexed(value, size) if as_hex else value
        return self

    def zero(self, size):
        self.bytes += bytes(size)
        return self


FILES = {}


def vector(name, kind, body=None, payload=b"", *, file=None, of_word=None, behind=b"", **header):
    """`behind` are bytes of the body that are no field: padding, extensions from the future."""
    body = body or Body()
    memory = header.get("memory", False)
    parts, fields = frame(kind, body.bytes + behind, payload, **header)
    entry = {"name": name}
    if memory:
        entry["carrier"] = "memory"
    if behind:
        entry["decode_only"] = True
    entry |= {"hex": [part.hex() for part in parts if part], "header": fields}
    if of_word:
        entry["word"] = of_word
    if body.shown:
        entry["body"] = body.shown
    if payload:
        entry["payload"] = payload.hex()
    FILES.setdefault(file or kind, []).append(entry)
    return b"".join(parts)


TEXT = b"Ethernet Message Passing"
OPEN = {"sequence": 7, "acknowledge": 5}


# ---- hello, hello-reply, close (HELLO-1, HELLO-6 to HELLO-10, PATH-1, CLOSE-1)

ADDRESSES = {
    "ethernet": (1, bytes.fromhex("02656d700001")),
    "ipv4": (4, bytes([10, 1, 2, 3]) + u(51966, 2)),
    "ipv6": (6, bytes.fromhex("fe800000000000000000000000000001") + u(51966, 2) + u(2, 4)),
    "simulated": (9, u(17, 4)),
}


def hello(target=B.id, nonce=0x1122334455667788, largest=1500, name="a", told=(), features=0, here=0, other=0):
    body = Body().number("node", A.id, 8, True).number("target", target, 8, True).number("nonce", nonce, 8, True)
    body.number("features", features, 4, True).number("frame_bytes_max", largest, 2)
    encoded = name.encode()
    front, rest = encoded[:32], encoded[32:]
    body.bytes += u(len(front), 1) + b"\0" + front
    if rest:
        body.bytes += u(3, 1) + u(len(rest), 1) + rest
    body.shown["name"] = name
    body.shown["link_frame_bytes_max"] = here
    if here:
        body.bytes += u(2, 1) + u(2, 1) + u(here, 2)
    body.shown["addresses"] = []
    for told_of in told:
        family, address = ADDRESSES[told_of]
        item = u(family, 1) + address
        # Its own on another link, or one of another node.
        body.bytes += u(4, 1) + u(8 + len(item), 1) + u(other, 8) + item if other else u(1, 1) + u(len(item), 1) + item
        body.shown["addresses"].append({"family": family, "bytes": address.hex()})
    if other:
        body.shown["other"] = f"{other:#018x}"
        if not told:
            body.bytes += u(4, 1) + u(8, 1) + u(other, 8)
    return body


vector("for a node of which only the name is known, to everyone", "hello", hello(), check=0)
vector("for whoever hears it", "hello", hello(target=0, name=""), tag=0xFFFF, check=0)
vector("to a node whose epoch is to be checked", "hello", hello(name="a node with a name of 32 letters"))
vector("of a node with a name of 45 letters", "hello", hello(name="a-machine-with-a-long-name.cluster.example:12", here=9000), check=0)
for told_of in ADDRESSES:
    vector(f"with an address of family {told_of}", "hello", hello(told=[told_of]), check=0)
vector("with three addresses", "hello", hello(told=["ethernet", "ipv4", "ipv6"]), check=0)
vector("with features that nobody knows", "hello", hello(features=0x80000002), check=0)
vector("with an extension that nobody knows, behind an address", "hello", hello(told=["ipv4"]), check=0,
       behind=u(0xC8, 1) + u(3, 1) + b"\1\2\3")
vector("that tries a length: zeros after its fields", "hello", hello(told=["ethernet"], largest=256), behind=bytes(120))
vector("by a link that takes longer frames than another", "hello", hello(told=["ethernet"], here=9000), check=0)


def reply(name, body, arrived, many=False):
    vector(name, "hello-reply", body, word=many << 16 | arrived, of_word={"arrived_bytes": arrived, "room_for_many": many})


reply("an answer", hello(), 66)
reply("an answer by a link that takes longer frames than another", hello(here=9000), 66)
reply("an answer to a hello of 61,472 bytes, by a node with room for few", hello(told=["ethernet"]), 61472)
reply("an answer to a hello of 61,472 bytes, by a node with room for many", hello(told=["ethernet"]), 61472, True)
OTHER = 0x0123456789ABCDEF
vector("that asks a peer where another node is", "hello", hello(name="", other=OTHER))
reply("an answer that tells where another node is", hello(name="", other=OTHER, told=["ipv4", "ipv6"]), 74)
CLOSE = Body().number("node", A.id, 8, True)
vector("that acknowledges nothing", "close", CLOSE)
vector("that acknowledges", "close", CLOSE, flags=["ACK"], acknowledge=9)


# ---- ack, not-ready, skip (ACK-1, ACK-2, ACK-5, ACK-7, ACK-8, ACK-10, READY-4, SEQ-5)

def ack(words, grant=None):
    """A grant follows all four words."""
    body = Body().number("node", A.id, 8, True)
    body.bytes += b"".join(u(word, 8) for word in words)
    body.shown["selective"] = [hexed(word, 8) for word in words]
    if grant is not None:
        body.bytes += bytes(8 * (4 - len(words))) + u(1, 1) + u(4, 1)
        body.number("grant", grant, 4)
    return body


def acked(name, body, sequence, acknowledge, flags=(), waited=0, held=0, **more):
    vector(name, "ack", body, flags=["ACK", *flags], sequence=sequence, acknowledge=acknowledge, word=waited << 16 | held,
           of_word={"waited_us": waited, "held_us": held}, **more)


acked("of all that came in order", ack([]), 8, 9, held=42)
acked("of what had waited until somebody looked", ack([]), 8, 9, waited=700, held=42)
acked("of what had waited for longer than can be told", ack([]), 8, 9, waited=65535)
acked("of 9 and of 11 too: 10 is missing", ack([0b1]), 11, 10)
acked("with four words", ack([1, 0, 1 << 63, 0xFFFFFFFFFFFFFFFF]), 300, 45)
acked("of a frame that came and was not taken", ack([]), 12, 10, ["UNTAKEN"])
acked("after a switch has marked something", ack([]), 12, 13, ["MARKED"])
acked("that grants 4,096 bytes, all before 13 having come", ack([], 4096), 12, 13)
acked("that grants as much as the sender likes; 11 is missing", ack([0b1], 0xFFFFFFFF), 12, 11)
acked("with an item that nobody knows behind a grant", ack([], 16384), 12, 13, behind=u(0xC8, 1) + u(3, 1) + b"\1\2\3")
acked("with a grant in a form that nobody knows", ack([1, 2, 3, 4]), 12, 13, behind=u(1, 1) + u(2, 1) + b"\1\2")
acked("with padding behind its words", ack([1, 2, 3, 4]), 12, 13, behind=bytes(5))
for cause, meaning in ((1, "too many messages wait"), (2, "no such endpoint"), (3, "nothing unexpected"), (4, "no room"), (5, "full of others")):
    refusal = Body().number("node", A.id, 8, True).number("cause", cause, 4).number("backoff_us", 50 * cause, 4)
    vector(meaning, "not-ready", refusal, sequence=17, word=3)
vector("in the place of a withdrawn frame", "skip", flags=["ACK"], **OPEN)
vector("that asks for an acknowledgement", "skip", flags=["ACK", "ACK-REQUEST"], **OPEN)


# ---- message, data, pull, block, done (MSG-1 to MSG-5, DATA-1, PULL-1, PULL-3, DONE-1, DIRECT-1)

def long_part(body, total, unscheduled, fragment, pieces=0):
    body.number("total_bytes", total, 8).number("unscheduled_bytes", unscheduled, 4)
    return body.number("fragment_bytes", fragment, 2).number("pieces", pieces, 2)


def memory_of_sender(body, pieces):
    body.number("stamp", 0xAB, 8, True)
    body.shown["memory"] = []
    for address, size in pieces:
        body.bytes += u(address, 8) + u(size, 8)
        body.shown["memory"].append([hexed(address, 8), size])
    return body


PIECES = [(0x7F0000001000, 8192), (0x7F0000009040, 1808)]


def message(long=None, immediate=None, pieces=(), here=0):
    body = Body().number("node", A.id, 8, True).number("source_endpoint", 1, 2).number("destination_endpoint", 2, 2)
    body.number("link_frame_bytes_max", here, 2).number("frame_bytes_max", 1500, 2).number("match_bits", 0xFEEDFACECAFE0001, 8, True)
    body.number("handle", 0x00070009, 4, True)
    if long:
        long_part(body, *long, pieces=len(pieces))
    if immediate is not None:
        body.number("immediate", immediate, 8, True)
    return memory_of_sender(body, pieces) if pieces else body


SHORT = ["ACK", "LAST"]
vector("without bytes", "message", message(), flags=SHORT, **OPEN, word=3)
vector("of one frame", "message", message(), TEXT, flags=SHORT, **OPEN, word=3)
vector("by a link that takes longer frames than another", "message", message(here=9000), TEXT, flags=SHORT, **OPEN, word=3)
vector("of one frame, first of a pair", "message", message(), TEXT, flags=["LAST"], word=0)
vector("that asks for an acknowledgement", "message", message(), TEXT, flags=["ACK", "ACK-REQUEST", "LAST"], **OPEN, word=3)
vector("whose payload its carrier checks", "message", message(), TEXT, flags=["ACK", "PAYLOAD-UNCHECKED", "LAST"], **OPEN, word=3)
vector("in shared memory", "message", message(), TEXT, flags=SHORT, **OPEN, word=3, memory=True)
vector("with immediate data", "message", message(immediate=0x0102030405060708), TEXT, flags=SHORT + ["IMMEDIATE"], **OPEN, word=3)
vector("synchronous", "message", message(), TEXT, flags=SHORT + ["SYNCHRONOUS"], **OPEN, word=3)
vector("withdrawn", "message", message(), flags=SHORT + ["VOID"], **OPEN, word=3)
vector("first of a train that is the whole message", "message", message(long=(60, 60, 24)), TEXT, flags=["ACK", "LONG"], **OPEN, word=3)
vector("first of a message of which the rest is pulled", "message", message(long=(1 << 20, 61440, 24)), TEXT, flags=["ACK", "LONG"], **OPEN, word=3)
vector("pulled whole", "message", message(long=(1 << 20, 0, 1432)), flags=["ACK", "LONG", "LAST"], **OPEN, word=3)
vector("long, immediate data, synchronous", "message", message(long=(60, 60, 24), immediate=9), TEXT,
       flags=["ACK", "LONG", "IMMEDIATE", "SYNCHRONOUS"], **OPEN, word=3)
vector("long, its payload checked by its carrier", "message", message(long=(60, 60, 24)), TEXT,
       flags=["ACK", "PAYLOAD-UNCHECKED", "LONG"], **OPEN, word=3)
vector("that names its sender's memory", "message", message(long=(10000, 0, 1432), pieces=PIECES),
       flags=["ACK", "LAST", "LONG"], **OPEN, word=3, memory=True)

vector("second of a train", "data", payload=TEXT, flags=["ACK"], sequence=8, acknowledge=5, word=1)
vector("last of a train", "data", payload=TEXT[:12], flags=["ACK", "ACK-REQUEST", "LAST"], sequence=9, acknowledge=5, word=2)
vector("whose payload its carrier checks", "data", payload=TEXT, flags=["ACK", "PAYLOAD-UNCHECKED"], sequence=8, acknowledge=5, word=1)

PULL = Body().number("node", A.id, 8, True).number("offset", 61440, 8).number("bytes", 65536, 4).number("pull", 0x0102, 2).zero(2)
vector("for a part of a message", "pull", PULL, flags=["ACK"], **OPEN, word=0x00070009)


def block(name, place, payload, flags):
    vector(name, "block", payload=payload, flags=flags, sequence=20 + place, acknowledge=5, word=0x0102 << 16 | place,
           of_word={"pull": 0x0102, "place": place})


block("first", 0, TEXT, ["ACK"])
block("last", 44, TEXT[:5], ["ACK", "LAST"])
block("whose payload its carrier checks", 1, TEXT, ["ACK", "PAYLOAD-UNCHECKED"])


def done(status):
    return Body().number("node", A.id, 8, True).number("status", status, 4)


STATUS = ["complete", "matched", "abandoned", "no such key", "another generation", "out of bounds", "no rights", "memory fault"]
for status, meaning in enumerate(STATUS):
    vector(meaning, "done", done(status), flags=["ACK"], **OPEN, word=0x00070009)
vector("with the values that an atomic fetched", "done", done(0), u(5, 1) + bytes(7), flags=["ACK", "REPLY"], **OPEN, word=0x00040004)
vector("a get that was refused", "done", done(5), flags=["ACK", "REPLY"], **OPEN, word=0x00040004)


# ---- put, get, atomic (REGION-1, PUT-1, GET-1, ATOMIC-1 to ATOMIC-3)

def target(here=0):
    body = Body().number("node", A.id, 8, True).number("source_endpoint", 1, 2).number("destination_endpoint", 2, 2)
    body.number("link_frame_bytes_max", here, 2).number("frame_bytes_max", 1500, 2).number("key", 0x4B4559, 8, True).number("handle", 0x00040004, 4, True)
    return body.number("generation", 6, 4).number("offset", 4096, 8)


def put(long=None, immediate=None, pieces=(), here=0):
    body = target(here)
    if long:
        long_part(body, *long, pieces=len(pieces))
    if immediate is not None:
        body.number("immediate", immediate, 8, True)
    return memory_of_sender(body, pieces) if pieces else body


vector("of one frame", "put", put(), TEXT, flags=SHORT, **OPEN, word=4)
vector("whose payload its carrier checks", "put", put(), TEXT, flags=["ACK", "PAYLOAD-UNCHECKED", "LAST"], **OPEN, word=4)
vector("that notifies", "put", put(immediate=0x2A), TEXT, flags=SHORT + ["IMMEDIATE"], **OPEN, word=4)
vector("first of a train", "put", put(long=(60, 60, 24)), TEXT, flags=["ACK", "LONG"], **OPEN, word=4)
vector("first of a train, notifies", "put", put(long=(60, 60, 24), immediate=0x2A), TEXT, flags=["ACK", "LONG", "IMMEDIATE"], **OPEN, word=4)
vector("that names its sender's memory", "put", put(long=(10000, 0, 1432), pieces=PIECES), flags=SHORT + ["LONG"], **OPEN,
       word=4, memory=True)
vector("by a link that takes longer frames than another", "put", put(here=9000), TEXT, flags=SHORT, **OPEN, word=4)


def get(size, here=0):
    return target(here).number("bytes", size, 4).number("pull", 0x0304, 2).number("fragment_bytes", 1432, 2)


vector("of a block", "get", get(61440), flags=["ACK"], **OPEN)
vector("of no bytes: may the place be read?", "get", get(0), flags=["ACK"], **OPEN)
vector("by a link that takes longer frames than another", "get", get(61440, here=9000), flags=["ACK"], **OPEN)


def atomic(operator, datatype, count, here=0):
    return target(here).number("operator", operator, 1).number("datatype", datatype, 1).zero(2).number("count", count, 4)


vector("sum of two unsigned integers of 64 bits", "atomic", atomic(3, 8, 2), b"\1" + bytes(7) + b"\2" + bytes(7), flags=SHORT, **OPEN, word=5)
vector("the same, fetching", "atomic", atomic(3, 8, 2), b"\1" + bytes(7) + b"\2" + bytes(7), flags=SHORT + ["FETCH"], **OPEN, word=5)
vector("swap if equal, signed 32 bits: operand, then what to compare with", "atomic", atomic(13, 5, 1), b"\7\0\0\0\5\0\0\0",
       flags=SHORT + ["FETCH"], **OPEN, word=5)
vector("read: no operands", "atomic", atomic(11, 12, 3), flags=SHORT + ["FETCH"], **OPEN, word=5)
vector("operands are fields: they stay under the checksum", "atomic", atomic(12, 2, 4), b"\1\2\3\4",
       flags=["ACK", "PAYLOAD-UNCHECKED", "LAST"], **OPEN, word=5)
vector("by a link that takes longer frames than another", "atomic", atomic(3, 8, 1, here=9000), b"\1" + bytes(7), flags=SHORT, **OPEN, word=5)


# ---- slice (SLICE-1)

CUT = vector("cut into the slices of slice.json", "data", payload=bytes(range(256)), flags=["ACK", "LAST"], sequence=40, acknowledge=5, word=1)
for at, end in ((0, 128), (128, 256), (256, 288)):
    vector(f"bytes {at} to {end} of a frame of {len(CUT)}", "slice", payload=CUT[at:end], sequence=40, word=at << 16 | len(CUT),
           of_word={"place": at, "total": len(CUT)})


# ---- several frames in one link frame (BUNDLE-1)

def joined(parts_and_fields):
    return b"".join(parts_and_fields[0])


BUNDLED = [
    joined(frame("message", message().bytes, TEXT, flags=SHORT, sequence=7 + i, acknowledge=5, word=3 + i)) for i in range(2)
] + [joined(frame("ack", ack([]).bytes, flags=["ACK"], sequence=8, acknowledge=9))]


def bundle(name, frames, behind=b""):
    FILES.setdefault("bundle", []).append(
        {"name": name, "hex": [part.hex() for part in [*frames, behind] if part], "frames": [len(part) for part in frames]})


bundle("one frame", BUNDLED[:1])
bundle("two messages and an acknowledgement", BUNDLED)
bundle("a short frame and what Ethernet pads", BUNDLED[2:], bytes(20))
bundle("two frames and zeros that could hold a third", BUNDLED[:2], bytes(40))
bundle("a frame of a kind that nobody knows between two others",
       [BUNDLED[0], joined(frame("message", message().bytes, TEXT, number=19)), BUNDLED[1]])


# ---- frames with an extension block, which version 1 drops (VERSION-3)

def extended(name, kind, items, body, payload=b"", **header):
    """A frame of kind 16 + n: the items stand between common header and body, padded to a multiple of 8 bytes."""
    listed = b"".join(u(number, 1) + u(len(value), 1) + value for number, value in items)
    size = -(-(4 + len(listed)) // 8) * 8
    block = u(size, 2) + bytes(2) + listed + bytes(size - 4 - len(listed))
    parts, fields = frame(kind, block + body.bytes, payload, number=16 + KINDS[kind], **header)
    hex_parts = [parts[0], block, body.bytes, payload]
    FILES.setdefault("extended", []).append({
        "name": name, "hex": [part.hex() for part in hex_parts if part], "header": fields,
        "extensions": [{"type": number, "value": value.hex()} for number, value in items], "body": body.shown,
        **({"payload": payload.hex()} if payload else {})})


extended("a message of class 5", "message", [(1, b"\5")], message(), TEXT, flags=SHORT, **OPEN, word=3)
extended("an acknowledgement of class 1 with an item that may be skipped, and no padding", "ack", [(1, b"\1"), (0x7F, bytes(range(7)))], ack([0b1]),
         flags=["ACK"], sequence=11, acknowledge=10)


# ---- frames that relays pass on (RELAY-1 to RELAY-5)

USES = {"forward": 0, "search": 1, "cut off": 2}


def relay_hop(tag, link, told_of):
    family, address = ADDRESSES[told_of]
    shown = {"tag": hexed(tag, 2), "link": link, "family": family, "address": address.hex()}
    return u(tag, 2) + u(link, 1) + u(family, 1) + address + bytes(8 - len(address)), shown


def relayed(name, use, carried, hops=(), *, tag=None, place=0, smallest=1500, behind=b""):
    """What a relay gets from A's side: the head, the list, and behind them frames of the ends, of which it changes nothing."""
    tag = 0x5A5A if tag is None else tag
    listed = b"".join(part for part, _ in hops)
    head = (u(1 << 5 | 16, 1) + u(USES[use], 1) + u(len(listed) + len(carried), 2) + u(tag, 2) + u(destination_tag(A.id), 2)
            + u(place, 1) + u(len(hops), 1) + u(smallest, 2))
    shown = {"use": use, "length": len(listed) + len(carried), "destination_tag": hexed(tag, 2),
             "source_tag": hexed(destination_tag(A.id), 2), "place": place, "hops": len(hops), "smallest": smallest}
    FILES.setdefault("relay", []).append({
        "name": name, "hex": [part.hex() for part in (head, listed, carried, behind) if part], "relay": shown,
        "list": [one for _, one in hops], "carried": carried.hex()})
    return head + listed + carried


R, T = 0x7172, destination_tag(B.id)
PASSED = joined(frame("message", message().bytes, TEXT, flags=SHORT, **OPEN, word=3))
RELAYED = relayed("a message by one relay, on its way there", "forward", PASSED, [relay_hop(T, 1, "ethernet")])
relayed("the same, arrived: the hop says where it came from", "forward", PASSED, [relay_hop(destination_tag(A.id), 0, "ethernet")],
        tag=T, place=1)
relayed("two frames by three relays, at the second of them", "forward", b"".join(BUNDLED[:2]),
        [relay_hop(destination_tag(A.id), 0, "ethernet"), relay_hop(R, 2, "ethernet"), relay_hop(T, 1, "ipv4")], place=1, smallest=1472)
relayed("a message in a simulated fabric", "forward", PASSED, [relay_hop(T, 1, "simulated")])
ASKED = joined(frame("hello", hello().bytes, check=0))
relayed("a search as it is sent", "search", ASKED, tag=T, place=7)
relayed("a search that two relays have repeated", "search", ASKED,
        [relay_hop(destination_tag(A.id), 0, "ethernet"), relay_hop(R, 1, "ethernet")], tag=T, place=5, smallest=1400)
relayed("the longest search", "search", ASKED, [relay_hop(R + i, i, "ethernet") for i in range(7)], tag=T, place=0)
relayed("what tells A that a message to B does not go on", "cut off", PASSED[:32], [], tag=destination_tag(A.id))
relayed("the same, behind a relay; and what Ethernet pads", "cut off", PASSED[:32],
        [relay_hop(destination_tag(A.id), 0, "ethernet")], behind=bytes(6))


# ---- refused frames (DROP-1)

def refused(name, reason, data, **more):
    FILES.setdefault("refused", []).append({"name": name, "reason": reason, **more, "hex": [data[:32].hex(), data[32:].hex()]})


def flipped(data, at, bit=0):
    return data[:at] + u(data[at] ^ 1 << bit, 1) + data[at + 1:]


def refused_body(name, reason, kind, body, payload=b"", **header):
    refused(name, reason, joined(frame(kind, body, payload, **header)))


GOOD = BUNDLED[0]
LONG_GOOD = message(long=(60, 60, 24)).bytes
refused("nothing", "too_short", b"")
refused("one byte less than a header", "too_short", GOOD[:31])
refused("version 2", "wrong_version", joined(frame("message", message().bytes, TEXT, flags=SHORT, version=2)))
refused("version 0", "wrong_version", joined(frame("message", message().bytes, TEXT, flags=SHORT, version=0)))
refused("kind 0", "unknown_kind", joined(frame("message", message().bytes, TEXT, number=0)))
refused("kind 19: a message with an extension block (VERSION-3)", "unknown_kind",
        joined(frame("message", u(8, 2) + bytes(2) + b"\1\1\5\0" + message().bytes, TEXT, number=19)))
refused("a body that is cut", "bad_length", GOOD[:-1])
refused("a length of one more than there is", "bad_length", joined(frame("data", b"", TEXT, length=len(TEXT) + 1)))
refused("one flipped bit of the payload", "bad_checksum", flipped(GOOD, len(GOOD) - 1))
refused("one flipped bit of the match bits", "bad_checksum", flipped(GOOD, 32 + 20, 6))
refused("one flipped bit of the sequence number", "bad_checksum", flipped(GOOD, 19))
refused("one flipped bit of the checksum", "bad_checksum", flipped(GOOD, 28, 7))
refused("a flipped bit of a field where the payload is unchecked", "bad_checksum",
        flipped(joined(frame("message", message().bytes, TEXT, flags=SHORT + ["PAYLOAD-UNCHECKED"])), 32 + 11))
refused("for another node with the same tag", "bad_checksum",
        GOOD[:28] + u(crc32c(GOOD[:28] + u(seed("message", A, Node("c", B.epoch)), 4) + GOOD[32:]), 4) + GOOD[32:])
refused("for another epoch with the same low 16 bits", "bad_checksum",
        GOOD[:28] + u(crc32c(GOOD[:28] + u(seed("message", A, Node("b", B.epoch ^ 1 << 31)), 4) + GOOD[32:]), 4) + GOOD[32:])
refused("a hello that is summed with the seed of a pair", "bad_checksum",
        (lambda parts: parts[0][:28] + u(crc32c(parts[0][:28] + u(seed("message"), 4) + parts[1]), 4) + parts[1])(
            frame("hello", hello().bytes)[0]))
refused("from shared memory, with a checksum in place of the seed", "bad_checksum", GOOD, carrier="memory")
for kind, shortest in (("hello", hello(name="").bytes), ("hello-reply", hello(name="").bytes), ("message", message().bytes),
                       ("ack", ack([]).bytes), ("not-ready", refusal.bytes), ("pull", PULL.bytes), ("done", done(0).bytes),
                       ("close", CLOSE.bytes), ("put", put().bytes), ("get", get(1).bytes), ("atomic", atomic(3, 8, 1).bytes)):
    refused_body(f"a {kind} whose body is a byte short", "body_short", kind, shortest[:-1])
refused_body("a long message without its long part", "body_short", "message", message().bytes, flags=["LONG"])
refused_body("an extension of a hello that is cut", "body_short", "hello", hello(told=["ipv4"]).bytes[:-1])
refused_body("an extension of a hello without a length", "body_short", "hello", hello().bytes + b"\1")
refused_body("a hello of no node", "bad_field", "hello", bytes(8) + hello().bytes[8:])
refused_body("a hello whose name is longer than its body", "bad_field", "hello", hello(name="").bytes[:30] + b"\x05\0" + b"abcd")
refused_body("a hello with a name of 33 bytes", "bad_field", "hello", hello(name="").bytes[:30] + b"\x21\0" + b"x" * 33)
refused_body("an ack whose grant is cut", "body_short", "ack", ack([], 4096).bytes[:-1])
refused_body("an ack with an item without a length", "body_short", "ack", ack([1] * 4).bytes + b"\1")
refused_body("an ack with half a word", "bad_field", "ack", ack([]).bytes + bytes(4))
refused_body("not ready without a cause", "bad_field", "not-ready", refusal.bytes[:8] + u(0, 4) + refusal.bytes[12:])
refused_body("not ready for a cause that nobody knows", "bad_field", "not-ready", refusal.bytes[:8] + u(6, 4) + refusal.bytes[12:])
refused_body("a pull of no bytes", "bad_field", "pull", PULL.bytes[:16] + bytes(4) + PULL.bytes[20:])
refused_body("done with a status that nobody knows", "bad_field", "done", done(8).bytes)
refused_body("more payload than leaves unasked", "bad_field", "message", message(long=(60, 20, 24)).bytes, TEXT, flags=["LONG"])
refused_body("more unasked than there is", "bad_field", "message", message(long=(60, 61, 24)).bytes, TEXT, flags=["LONG"])
refused_body("further frames without bytes", "bad_field", "message", message(long=(60, 60, 0)).bytes, TEXT, flags=["LONG"])
refused_body("a message of 2^63 bytes", "bad_field", "message", message(long=(1 << 63, 0, 24)).bytes, flags=["LONG"])
refused_body("nine pieces of memory", "bad_field", "message",
             message(long=(9, 0, 24), pieces=[(4096 * i, 1) for i in range(1, 10)]).bytes, flags=["LONG"])
refused_body("pieces of memory that are not as long as the message", "bad_field", "put",
             put(long=(9999, 0, 24), pieces=PIECES).bytes, flags=["LONG"])
refused_body("a get in frames without bytes", "bad_field", "get", get(1).bytes[:-2] + bytes(2))
refused_body("an atomic with an operator that nobody knows", "bad_field", "atomic", atomic(20, 8, 1).bytes, bytes(8))
refused_body("an atomic with a datatype that nobody knows", "bad_field", "atomic", atomic(3, 15, 1).bytes, bytes(8))
refused_body("an atomic with fewer operands than it says", "bad_field", "atomic", atomic(3, 8, 2).bytes, bytes(8))
refused_body("an atomic without elements", "bad_field", "atomic", atomic(3, 8, 0).bytes)
refused_body("bits of a floating-point number", "bad_field", "atomic", atomic(7, 11, 1).bytes, bytes(4))
refused("relayed, shorter than its head", "too_short", RELAYED[:11])
refused("relayed, cut", "bad_length", RELAYED[:-1])
refused("relayed, at a place beyond its list", "bad_field", RELAYED[:8] + u(2, 1) + RELAYED[9:])
refused("relayed, with a list of eight relays", "bad_field", RELAYED[:9] + u(8, 1) + RELAYED[10:])
refused("relayed, with a list that is longer than the frame", "body_short", RELAYED[:9] + u(7, 1) + RELAYED[10:])
refused("relayed, for a use that nobody knows", "bad_field", RELAYED[:1] + u(3, 1) + RELAYED[2:])
refused("relayed, without a frame", "body_short", RELAYED[:2] + u(12 + 31, 2) + RELAYED[4:12 + 12 + 31])
refused("a search that may go too far", "bad_field", RELAYED[:1] + u(1, 1) + RELAYED[2:8] + u(7, 1) + RELAYED[9:])
refused_body("a slice without bytes", "bad_field", "slice", b"", word=64 << 16 | 288)
refused_body("a slice beyond the end of its frame", "bad_field", "slice", b"", bytes(64), word=256 << 16 | 288)
refused_body("a slice of less than a header", "bad_field", "slice", b"", bytes(31), word=31)


def written(entries):
    text = {"source": A.shown(), "destination": B.shown(), "vectors": entries}
    return json.dumps(text, indent=1) + "\n"


def main():
    check = sys.argv[1:] == ["--check"]
    wrong = 0
    for name, entries in FILES.items():
        path = HERE / f"{name}.json"
        if not check:
            path.write_text(written(entries))
        elif not path.exists() or path.read_text() != written(entries):
            print(f"{path.name} is not what make.py writes", file=sys.stderr)
            wrong = 1
    known = {f"{name}.json" for name in FILES}
    for path in HERE.glob("*.json"):
        if path.name not in known:
            print(f"make.py knows nothing of {path.name}", file=sys.stderr)
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
