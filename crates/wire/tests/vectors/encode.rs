//! The fields that the vectors show to frames.

use emp_wire::*;
use serde_json::Value;

use super::{Between, field, flag_names, number, unhex};

/// The frame that has these fields.
pub fn encode(vector: &Value, between: &Between, in_memory: bool) -> Vec<u8> {
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

#[expect(clippy::too_many_lines, reason = "a case for each kind of frame")]
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
            let hello = match body.get("other") {
                Some(_) => hello.about(NodeId(field(body, "other")), told),
                None => hello.with_addresses(told),
            };
            hello.emit(&mut into)
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
