//! The test vectors of `tests/vectors`, which another encoder wrote from SPEC.md: each is decoded to its fields and encoded from them again,
//! and what is to be refused is, for the reason that it says (`DROP-1`).

mod decode;
mod encode;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use emp_wire::*;
use serde_json::{Map, Value, json};

use decode::{decode, decode_unverified};
use encode::encode;

/// A file of vectors.
fn read(file: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors").join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).expect("a file of JSON")
}

/// Parts of hexadecimal, one after the other.
fn bytes_of(vector: &Value) -> Vec<u8> {
    let parts = vector["hex"].as_array().expect("hex in parts");
    parts.iter().flat_map(|part| unhex(part.as_str().expect("hex"))).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("two hex digits");
    (0..text.len()).step_by(2).map(digit).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A number, or one in hexadecimal.
fn number(value: &Value) -> u64 {
    let hexadecimal = || u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok();
    value.as_u64().or_else(hexadecimal).unwrap_or_else(|| panic!("{value} is no number"))
}

/// A field that is there, as the number that its place takes.
fn field<T: TryFrom<u64>>(of: &Value, name: &str) -> T {
    number(&of[name]).try_into().unwrap_or_else(|_| panic!("{name} is too large"))
}

/// Flags by their names in SPEC.md: those of all kinds, and each kind's own.
fn flag_names(kind: Kind) -> Vec<(&'static str, Flags)> {
    let mut names = vec![
        ("ACK", Flags::ACK),
        ("ACK-REQUEST", Flags::ACK_REQUEST),
        ("PAYLOAD-UNCHECKED", Flags::PAYLOAD_UNCHECKED),
        ("LAST", Flags::LAST),
    ];
    let (long, immediate) = (("LONG", Flags::LONG), ("IMMEDIATE", Flags::IMMEDIATE));
    names.extend(match kind {
        Kind::Message => {
            vec![long, immediate, ("SYNCHRONOUS", Flags::SYNCHRONOUS), ("VOID", Flags::VOID)]
        }
        Kind::Put => vec![long, immediate],
        Kind::Atomic => vec![("FETCH", Flags::FETCH)],
        Kind::Done => vec![("REPLY", Flags::REPLY)],
        Kind::Ack => vec![("UNTAKEN", Flags::UNTAKEN), ("MARKED", Flags::MARKED)],
        _ => vec![],
    });
    names
}

/// The two nodes of a file, and the seed of a frame's checksum.
struct Between(NodeId, NodeId, Epoch);

impl Between {
    fn of(file: &Value) -> Self {
        let node = |which: &str| {
            let node = NodeId(field(&file[which], "identity"));
            assert_eq!(NodeId::from_name(file[which]["name"].as_str().unwrap()), node);
            assert_eq!(u64::from(node.source_tag()), number(&file[which]["source_tag"]));
            assert_eq!(u64::from(node.destination_tag()), number(&file[which]["destination_tag"]));
            node
        };
        let epoch = Epoch(field(&file["destination"], "epoch"));
        Self(node("source"), node("destination"), epoch)
    }

    fn seed(&self, kind: Kind) -> Seed {
        if kind.contact() { Seed::CONTACT } else { Seed::between(self.0, self.1, self.2) }
    }
}

fn in_memory(vector: &Value) -> bool {
    vector.get("carrier").is_some_and(|carrier| carrier == "memory")
}

/// `ACK-1`, `ACK-2`, `ACK-10`, `READY-4`, `DATA-1`, `PULL-1`, `DONE-1`, `REGION-1`, `PUT-1`, `GET-1`, `ATOMIC-1`, `ID-2`.
#[test]
fn every_vector_is_decoded_to_its_fields_and_encoded_from_them() {
    for kind in Kind::ALL {
        let file = read(&format!("{}.json", kind.name()));
        let between = Between::of(&file);
        let vectors = file["vectors"].as_array().expect("vectors");
        assert!(!vectors.is_empty(), "{}: none", kind.name());
        for vector in vectors {
            let name = format!("{}: {}", kind.name(), vector["name"]);
            let (bytes, memory) = (bytes_of(vector), in_memory(vector));
            assert_eq!(vector["header"]["kind"], kind.name(), "{name}");
            let decoded = decode(&bytes, &between, memory)
                .unwrap_or_else(|reason| panic!("{name}: {reason:?}"));
            for part in ["header", "word", "body", "payload"] {
                assert_eq!(decoded.get(part), vector.get(part), "{name}: {part}");
            }
            if vector.get("decode_only").is_none() {
                assert_eq!(hex(&encode(vector, &between, memory)), hex(&bytes), "{name}");
            }
        }
    }
}

/// Each kind has all of its flags in some vector, and is there without any of its own.
#[test]
fn every_flag_has_a_vector() {
    for kind in Kind::ALL {
        let file = read(&format!("{}.json", kind.name()));
        let vectors = file["vectors"].as_array().expect("vectors");
        let flags = |vector: &Value| -> Vec<String> {
            let flags = vector["header"]["flags"].as_array().expect("flags");
            flags.iter().map(|flag| flag.as_str().unwrap().to_owned()).collect()
        };
        let seen: BTreeSet<String> = vectors.iter().flat_map(flags).collect();
        let own: Vec<&str> = flag_names(kind).into_iter().skip(4).map(|(name, _)| name).collect();
        for flag in &own {
            assert!(seen.contains(*flag), "{}: no vector has {flag}", kind.name());
        }
        if has_bulk(kind) {
            assert!(seen.contains("PAYLOAD-UNCHECKED"), "{}", kind.name());
        }
        let plain = |vector: &Value| !flags(vector).iter().any(|flag| own.contains(&&flag[..]));
        assert!(vectors.iter().any(plain), "{}: none without flags of its own", kind.name());
    }
}

#[test]
fn link_frames_are_cut_into_their_frames() {
    let file = read("bundle.json");
    let vectors = file["vectors"].as_array().expect("vectors");
    for vector in vectors {
        let bytes = bytes_of(vector);
        let wanted: Vec<usize> = vector["frames"]
            .as_array()
            .unwrap()
            .iter()
            .map(|bytes| number(bytes) as usize)
            .collect();
        let mut found: Vec<&[u8]> = frames(&bytes).collect();
        // The last has what the link pads.
        let last = found.pop().expect("one at least");
        let kept =
            (HEADER_BYTES + usize::from(u16::from_be_bytes([last[2], last[3]]))).min(last.len());
        found.push(&last[..kept]);
        let found: Vec<usize> = found.iter().map(|frame| frame.len()).collect();
        assert_eq!(found, wanted, "{}", vector["name"]);
    }
}

/// Frames of a later version: dropped as of an unknown kind, and without their extension block those of the kind 16 less (`VERSION-3`).
#[test]
fn an_extension_block_is_between_header_and_body() {
    let file = read("extended.json");
    let between = Between::of(&file);
    let vectors = file["vectors"].as_array().expect("vectors");
    assert!(!vectors.is_empty());
    for vector in vectors {
        let name = &vector["name"];
        let bytes = bytes_of(vector);
        assert_eq!(Header::parse(&bytes).map(|_| ()), Err(Reason::Kind), "{name}");
        let (head, rest) = bytes.split_at(HEADER_BYTES);
        let block = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
        assert!(block.is_multiple_of(8) && rest[2..4] == [0, 0], "{name}");
        assert_eq!(items_of(&rest[4..block]), vector["extensions"], "{name}");

        let mut plain = [head, &rest[block..]].concat();
        plain[0] -= 16;
        plain[2..4].copy_from_slice(&((rest.len() - block) as u16).to_be_bytes());
        let (header, mut decoded) = decode_unverified(&plain).expect("a frame");
        decoded["header"]["length"] = rest.len().into();
        for part in ["header", "body", "payload"] {
            assert_eq!(decoded.get(part), vector.get(part), "{name}: {part}");
        }
        assert_eq!(verify(&bytes, rest.len(), between.seed(header.kind)), Ok(()), "{name}");
    }
}

/// `RELAY-1`, `RELAY-2`, `RELAY-3`, `RELAY-4`, `RELAY-5`: a head and a list of hops, and behind them the frames of the ends as they are.
#[test]
fn what_relays_pass_on_is_decoded_and_encoded() {
    let file = read("relay.json");
    let vectors = file["vectors"].as_array().expect("vectors");
    let uses = [(RelayUse::Forward, "forward"), (RelayUse::Search, "search")];
    let uses = [&uses[..], &[(RelayUse::CutOff, "cut off")]].concat();
    let mut seen = BTreeSet::new();
    for vector in vectors {
        let name = &vector["name"];
        let bytes = bytes_of(vector);
        assert_eq!(Header::parse(&bytes).map(drop), Err(Reason::Kind), "{name}: to older nodes");
        let read = Relayed::parse(&bytes).unwrap_or_else(|reason| panic!("{name}: {reason:?}"));
        let RelayHead { usage, length, destination_tag, source_tag, place, hops, smallest } =
            read.head;
        let called = uses.iter().find(|(of, _)| *of == usage).expect("a name").1;
        let head = json!({
            "use": called, "length": length, "destination_tag": format!("0x{destination_tag:04x}"),
            "source_tag": format!("0x{source_tag:04x}"), "place": place, "hops": hops,
            "smallest": smallest,
        });
        assert_eq!(head, vector["relay"], "{name}");
        let listed: Vec<RelayHop> =
            (0..hops).map(|place| read.hop(place).expect("a hop")).collect();
        let shown = listed.iter().map(|hop| {
            json!({
                "tag": format!("0x{:04x}", hop.tag), "link": hop.link,
                "family": hop.address.family() as u8, "address": hex(hop.address.bytes()),
            })
        });
        assert_eq!(Value::from_iter(shown), vector["list"], "{name}");
        assert_eq!(hex(read.carried), vector["carried"], "{name}");
        let mut written = [0; RELAY_HEAD_BYTES];
        read.head.emit(&mut written);
        let hops = listed.iter().flat_map(|hop| hop.emit().expect("relays send there"));
        let again: Vec<u8> =
            written.into_iter().chain(hops).chain(read.carried.iter().copied()).collect();
        let (same, padding) = bytes.split_at(again.len());
        assert!(same == again && padding.iter().all(|byte| *byte == 0), "{name}");
        seen.insert(called);
    }
    assert_eq!(seen.len(), uses.len(), "each use has a vector");
}

/// Items of type (1), length (1), value, to the end or a type 0.
fn items_of(mut list: &[u8]) -> Value {
    let mut items = vec![];
    while let [kind @ 1..=u8::MAX, bytes, rest @ ..] = list {
        let (value, rest) = rest.split_at((*bytes).into());
        items.push(json!({ "type": kind, "value": hex(value) }));
        list = rest;
    }
    assert!(list.iter().all(|byte| *byte == 0), "padding is zeros");
    items.into()
}

#[test]
fn what_is_to_be_refused_is_and_for_its_reason() {
    let file = read("refused.json");
    let between = Between::of(&file);
    let mut seen = BTreeSet::new();
    for vector in file["vectors"].as_array().expect("vectors") {
        let reason = vector["reason"].as_str().expect("a reason");
        let bytes = bytes_of(vector);
        let got = if is_relayed(&bytes) {
            Relayed::parse(&bytes).map(|_| Map::new())
        } else {
            decode(&bytes, &between, in_memory(vector))
        };
        assert_eq!(got.map_err(Reason::name), Err(reason), "{}", vector["name"]);
        seen.insert(reason.to_owned());
    }
    let all: BTreeSet<String> = Reason::ALL.iter().map(|reason| reason.name().to_owned()).collect();
    assert_eq!(seen, all, "each reason has a vector");
}
