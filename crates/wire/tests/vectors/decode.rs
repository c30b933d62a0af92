//! Frames to the fields that the vectors show.

use emp_wire::*;
use serde_json::{Map, Value, json};

use super::{Between, flag_names, hex};

/// A frame, down to the last field of its kind, as the vectors show it; its checksum is right.
pub fn decode(
    frame: &[u8],
    between: &Between,
    in_memory: bool,
) -> Result<Map<String, Value>, Reason> {
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

pub fn decode_unverified(frame: &[u8]) -> Result<(Header, Map<String, Value>), Reason> {
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

#[expect(clippy::too_many_lines, reason = "a case for each kind of frame")]
fn decode_body<'a>(header: &Header, body: &'a [u8]) -> Result<(Value, &'a [u8]), Reason> {
    let id = |node: NodeId| format!("{:#018x}", node.0);
    let whole: &[u8] = &[];
    Ok(match header.kind {
        Kind::Hello | Kind::HelloReply => {
            let hello = Hello::parse(body)?;
            let addresses = hello
                .addresses()
                .chain(hello.known())
                .map(|told| json!({ "family": told.family() as u8, "bytes": hex(told.bytes()) }));
            let mut fields = json!({
                "node": id(hello.node),
                "target": id(hello.target),
                "nonce": format!("{:#018x}", hello.nonce),
                "features": format!("{:#010x}", hello.features),
                "frame_bytes_max": hello.largest.every_link(),
                "link_frame_bytes_max": hello.largest.this_link(),
                "name": hello.name(),
                "addresses": addresses.collect::<Vec<_>>(),
            });
            if let Some(other) = hello.other() {
                fields["other"] = id(other).into();
            }
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
