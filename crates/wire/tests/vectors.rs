//! The test vectors of `tests/vectors`, which another encoder wrote from SPEC.md: each is decoded to its fields and encoded from them again,
//! and what is to be refused is, for the reason that it says (`DROP-1`).

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use emp_wire::*;
use serde_json::{Map, Value, json};

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

// ---- decoding

/// A frame, down to the last field of its kind, as the vectors show it; its checksum is right.
fn decode(frame: &[u8], between: &Between, in_memory: bool) -> Result<Map<String, Value>, Reason> {
    let (header, shown) = decode_unverified(frame)?;
    let covered = covered_bytes(&header);
    let seed = between.seed(header.kind);
    if in_memory {
        verify_unsummed(frame, covered, seed)?;
    } else {
        verify(frame, covered, seed)?;
    }
    Ok(shown)
}

fn decode_unverified(frame: &[u8]) -> Result<(Header, Map<String, Value>), Reason> {
    let (header, body) = Header::parse(frame)?;
    let mut shown = Map::new();
    let (fields, payload) = decode_body(&header, body)?;
    let flags = flag_names(header.kind).into_iter().filter(|(_, flag)| header.flags.has(*flag));
    let head = json!({
        "kind": header.kind.name(),
        "flags": flags.map(|(name, _)| name).collect::<Vec<_>>(),
        "length": header.length,
        "destination_tag": format!("{:#06x}", header.destination_tag),
        "destination_epoch": format!("{:#06x}", header.destination_epoch),
        "source_tag": format!("{:#010x}", header.source_tag),
        "source_epoch": format!("{:#010x}", header.source_epoch.0),
        "sequence": header.sequence.0,
        "acknowledge": header.acknowledge.0,
        "word": header.word,
        "checksum": format!("{:#010x}", checksum_of(frame)),
    });
    shown.insert("header".into(), head);
    match header.kind {
        Kind::Block => {
            let BlockWord { pull, index } = BlockWord::parse(header.word);
            shown.insert("word".into(), json!({ "pull": pull, "place": index }));
        }
        Kind::Ack => {
            let AckDelay { unseen_us, held_us } = AckDelay::of_word(header.word);
            shown.insert("word".into(), json!({ "waited_us": unseen_us, "held_us": held_us }));
        }
        Kind::HelloReply => {
            let ReplyWord { arrived_bytes, room_for_many } = ReplyWord::parse(header.word);
            let parts = json!({ "arrived_bytes": arrived_bytes, "room_for_many": room_for_many });
            shown.insert("word".into(), parts);
        }
        Kind::Slice => {
            let SliceWord { offset, total } = SliceWord::parse(header.word, payload.len())?;
            shown.insert("word".into(), json!({ "place": offset, "total": total }));
        }
        _ => {}
    }
    if fields.as_object().is_some_and(|fields| !fields.is_empty()) {
        shown.insert("body".into(), fields);
    }
    if !payload.is_empty() {
        shown.insert("payload".into(), hex(payload).into());
    }
    Ok((header, shown))
}

fn decode_body<'a>(header: &Header, body: &'a [u8]) -> Result<(Value, &'a [u8]), Reason> {
    let id = |node: NodeId| format!("{:#018x}", node.0);
    let whole: &[u8] = &[];
    Ok(match header.kind {
        Kind::Hello | Kind::HelloReply => {
            let hello = Hello::parse(body)?;
            let addresses = hello
                .addresses()
                .map(|told| json!({ "family": told.family() as u8, "bytes": hex(told.bytes()) }));
            let fields = json!({
                "node": id(hello.node),
                "target": id(hello.target),
                "nonce": format!("{:#018x}", hello.nonce),
                "features": format!("{:#010x}", hello.features),
                "frame_bytes_max": hello.largest.every_link(),
                "link_frame_bytes_max": hello.largest.this_link(),
                "name": hello.name(),
                "addresses": addresses.collect::<Vec<_>>(),
            });
            (fields, whole)
        }
        Kind::Message => {
            let (message, payload) = Message::parse(header.flags, body)?;
            let fields = json!({
                "node": id(message.node),
                "source_endpoint": message.source_endpoint,
                "destination_endpoint": message.destination_endpoint,
                "frame_bytes_max": message.largest.every_link(),
                "link_frame_bytes_max": message.largest.this_link(),
                "match_bits": format!("{:#018x}", message.match_bits),
                "handle": format!("{:#010x}", message.handle),
            });
            with_parts(fields, message.long, message.immediate, payload)?
        }
        Kind::Put => {
            let (put, payload) = Put::parse(header.flags, body)?;
            with_parts(target_fields(&put.target), put.long, put.immediate, payload)?
        }
        Kind::Get => {
            let get = Get::parse(body)?;
            let mut fields = target_fields(&get.target);
            fields["bytes"] = get.bytes.into();
            fields["pull"] = get.pull.into();
            fields["fragment_bytes"] = get.fragment_bytes.into();
            (fields, whole)
        }
        Kind::Atomic => {
            let (atomic, payload) = Atomic::parse(body)?;
            let mut fields = target_fields(&atomic.target);
            fields["operator"] = (atomic.operation as u8).into();
            fields["datatype"] = (atomic.datatype as u8).into();
            fields["count"] = atomic.count.into();
            (fields, payload)
        }
        Kind::Ack => {
            let ack = Ack::parse(body)?;
            // What is left out at the end is zero.
            let words = ack.sack.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
            let words = ack.sack[..words].iter().map(|word| format!("{word:#018x}"));
            let mut body = json!({ "node": id(ack.node), "selective": words.collect::<Vec<_>>() });
            if let Some(grant) = ack.grant {
                body["grant"] = json!(grant);
            }
            (body, whole)
        }
        Kind::NotReady => {
            let NotReady { node, cause, backoff_us } = NotReady::parse(body)?;
            let cause = cause as u32;
            (json!({ "node": id(node), "cause": cause, "backoff_us": backoff_us }), whole)
        }
        Kind::Pull => {
            let Pull { node, offset, bytes, pull } = Pull::parse(body)?;
            (json!({ "node": id(node), "offset": offset, "bytes": bytes, "pull": pull }), whole)
        }
        Kind::Done => {
            let Done { node, status } = Done::parse(body)?;
            (json!({ "node": id(node), "status": status as u32 }), &body[DONE_BYTES..])
        }
        Kind::Close => (json!({ "node": id(Close::parse(body)?.node) }), whole),
        Kind::Slice => {
            SliceWord::parse(header.word, body.len())?;
            (Value::Null, body)
        }
        Kind::Data | Kind::Block | Kind::Skip => (Value::Null, body),
    })
}

fn target_fields(target: &Target) -> Value {
    json!({
        "node": format!("{:#018x}", target.node.0),
        "source_endpoint": target.source_endpoint,
        "destination_endpoint": target.destination_endpoint,
        "frame_bytes_max": target.largest.every_link(),
        "link_frame_bytes_max": target.largest.this_link(),
        "key": format!("{:#018x}", target.key),
        "handle": format!("{:#010x}", target.handle),
        "generation": target.generation,
        "offset": target.offset,
    })
}

/// The optional fields of a first frame (`MSG-1`, `DIRECT-1`).
fn with_parts(
    mut fields: Value,
    long: Option<LongPart>,
    immediate: Option<u64>,
    payload: &[u8],
) -> Result<(Value, &[u8]), Reason> {
    if let Some(immediate) = immediate {
        fields["immediate"] = format!("{immediate:#018x}").into();
    }
    let Some(long) = long else { return Ok((fields, payload)) };
    fields["total_bytes"] = long.total_bytes.into();
    fields["unscheduled_bytes"] = long.unscheduled_bytes.into();
    fields["fragment_bytes"] = long.fragment_bytes.into();
    fields["pieces"] = long.pieces.into();
    if long.pieces == 0 {
        return Ok((fields, payload));
    }
    let pieces = Pieces::parse(payload, long.total_bytes)?;
    fields["stamp"] = format!("{:#018x}", pieces.stamp).into();
    let memory = pieces.iter().map(|(address, bytes)| json!([format!("{address:#018x}"), bytes]));
    fields["memory"] = memory.collect();
    Ok((fields, &[]))
}

// ---- encoding

/// The frame that has these fields.
fn encode(vector: &Value, between: &Between, in_memory: bool) -> Vec<u8> {
    let head = &vector["header"];
    let named = |kind: &&Kind| head["kind"] == kind.name();
    let kind = *Kind::ALL.iter().find(named).expect("a kind");
    let names: Vec<&str> =
        head["flags"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let known = flag_names(kind);
    assert!(names.iter().all(|name| known.iter().any(|(known, _)| known == name)), "{names:?}");
    let flags = known.iter().filter(|(name, _)| names.contains(name));
    let flags = flags.fold(Flags::default(), |all, (_, flag)| all.with(*flag));
    let payload = vector.get("payload").map_or(vec![], |hex| unhex(hex.as_str().unwrap()));
    let word = match (kind, vector.get("word")) {
        (Kind::Block, Some(of)) => {
            BlockWord { pull: field(of, "pull"), index: field(of, "place") }.emit()
        }
        (Kind::Slice, Some(of)) => {
            SliceWord { offset: field(of, "place"), total: field(of, "total") }.emit()
        }
        (Kind::Ack, Some(of)) => {
            AckDelay { unseen_us: field(of, "waited_us"), held_us: field(of, "held_us") }.word()
        }
        (Kind::HelloReply, Some(of)) => {
            let room_for_many = of["room_for_many"].as_bool().expect("a truth value");
            ReplyWord { arrived_bytes: field(of, "arrived_bytes"), room_for_many }.emit()
        }
        _ => field(head, "word"),
    };
    let mut rest = encode_body(kind, vector.get("body").unwrap_or(&Value::Null));
    let fields = rest.len();
    rest.extend(&payload);
    let header = Header {
        kind,
        flags,
        length: rest.len().try_into().unwrap(),
        destination_tag: field(head, "destination_tag"),
        destination_epoch: field(head, "destination_epoch"),
        source_tag: between.0.source_tag(),
        source_epoch: Epoch(field(head, "source_epoch")),
        sequence: Sequence(field(head, "sequence")),
        acknowledge: Sequence(field(head, "acknowledge")),
        word,
    };
    let mut frame = [0; HEADER_BYTES];
    if in_memory {
        header.emit_seeded(&mut frame, between.seed(kind));
    } else {
        let (fields, payload) = rest[..covered_bytes(&header)].split_at(fields);
        let rest = ShortRest { fields, payload };
        header.emit_summed(&mut frame, between.seed(kind), &rest);
    }
    [&frame[..], &rest].concat()
}

fn encode_body(kind: Kind, body: &Value) -> Vec<u8> {
    // Room for any body, and for pieces of memory behind it.
    let mut into = vec![0xEE; 512];
    let node = || NodeId(field(body, "node"));
    let largest =
        || Largest::new(field(body, "frame_bytes_max"), field(body, "link_frame_bytes_max"));
    let immediate = || body.get("immediate").map(number);
    let long = || {
        body.get("total_bytes").map(|total| LongPart {
            total_bytes: number(total),
            unscheduled_bytes: field(body, "unscheduled_bytes"),
            fragment_bytes: field(body, "fragment_bytes"),
            pieces: field(body, "pieces"),
        })
    };
    let target = || Target {
        node: node(),
        source_endpoint: field(body, "source_endpoint"),
        destination_endpoint: field(body, "destination_endpoint"),
        largest: largest(),
        key: field(body, "key"),
        handle: field(body, "handle"),
        generation: field(body, "generation"),
        offset: field(body, "offset"),
    };
    let mut end = match kind {
        Kind::Hello | Kind::HelloReply => {
            let told = body["addresses"].as_array().unwrap().iter().map(|told| {
                let bytes = unhex(told["bytes"].as_str().unwrap());
                LinkAddress::told(field(told, "family"), &bytes).expect("an address")
            });
            let name = body["name"].as_str().unwrap();
            let (target, nonce) = (NodeId(field(body, "target")), field(body, "nonce"));
            let mut hello = Hello::new(node(), target, nonce, largest(), name);
            hello.features = field(body, "features");
            hello.with_addresses(told).emit(&mut into)
        }
        Kind::Message => {
            let message = Message {
                node: node(),
                source_endpoint: field(body, "source_endpoint"),
                destination_endpoint: field(body, "destination_endpoint"),
                largest: largest(),
                match_bits: field(body, "match_bits"),
                handle: field(body, "handle"),
                long: long(),
                immediate: immediate(),
            };
            message.emit(&mut into)
        }
        Kind::Put => Put { target: target(), long: long(), immediate: immediate() }.emit(&mut into),
        Kind::Get => {
            let (bytes, pull) = (field(body, "bytes"), field(body, "pull"));
            let fragment_bytes = field(body, "fragment_bytes");
            Get { target: target(), bytes, pull, fragment_bytes }.emit(&mut into)
        }
        Kind::Atomic => {
            let operation = AtomicOp::from_number(field(body, "operator")).expect("an operator");
            let datatype = Datatype::from_number(field(body, "datatype")).expect("a datatype");
            let count = field(body, "count");
            Atomic { target: target(), operation, datatype, count }.emit(&mut into)
        }
        Kind::Ack => {
            let mut sack = [0; SACK_WORDS_MAX];
            let words = body["selective"].as_array().unwrap();
            sack.iter_mut().zip(words).for_each(|(place, word)| *place = number(word));
            let grant = body.get("grant").map(|grant| number(grant) as u32);
            Ack { node: node(), sack, grant }.emit(&mut into)
        }
        Kind::NotReady => {
            use NotReadyCause::*;
            let cause = [Full, NoEndpoint, NotPosted, NoRoom, Stuck]
                .into_iter()
                .find(|cause| u64::from(*cause as u32) == number(&body["cause"]))
                .expect("a cause");
            NotReady { node: node(), cause, backoff_us: field(body, "backoff_us") }.emit(&mut into)
        }
        Kind::Pull => {
            let (offset, bytes) = (field(body, "offset"), field(body, "bytes"));
            Pull { node: node(), offset, bytes, pull: field(body, "pull") }.emit(&mut into)
        }
        Kind::Done => {
            use DoneStatus::*;
            let all =
                [Complete, Matched, Abandoned, BadKey, BadGeneration, OutOfBounds, NoRights, Fault];
            Done { node: node(), status: all[field::<usize>(body, "status")] }.emit(&mut into)
        }
        Kind::Close => Close { node: node() }.emit(&mut into),
        Kind::Data | Kind::Block | Kind::Slice | Kind::Skip => 0,
    };
    if let Some(memory) = body.get("memory").and_then(Value::as_array) {
        let pieces = memory.iter().map(|piece| (number(&piece[0]), number(&piece[1])));
        end += emit_pieces(field(body, "stamp"), pieces, &mut into[end..]);
    }
    into.truncate(end);
    into
}

// ---- the tests

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
