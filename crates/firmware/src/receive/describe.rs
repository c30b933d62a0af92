//! What a first frame says, as the receive path keeps it.

use emp_wire::{Atomic, Flags, Header, Kind, LongPart, Message, Put, Reason, Target};

use super::direct;
use super::pulling::Pulling;
use super::{Incoming, NONE, Place, Wants};

/// Reads the first frame of a message, put or atomic; returns what it says, and its payload.
#[inline]
pub(super) fn first_frame<'a>(
    peer: u32,
    header: &Header,
    body: &'a [u8],
) -> Result<(Incoming, &'a [u8]), Reason> {
    match header.kind {
        Kind::Put => {
            let (put, payload) = Put::parse(header.flags, body)?;
            let (direct, payload) = direct::parse(put.long.as_ref(), payload)?;
            let Target { generation, offset, .. } = put.target;
            let wants = Wants::Put { generation, offset };
            let message = message_of(&put.target, put.long, put.immediate);
            let mut incoming = describe(peer, header, &message, wants, payload);
            incoming.direct = direct;
            Ok((incoming, payload))
        }
        Kind::Atomic => {
            let (Atomic { target, operation, datatype, count }, payload) = Atomic::parse(body)?;
            let Target { generation, offset, .. } = target;
            let fetch = header.flags.has(Flags::FETCH);
            let wants = Wants::Atomic { generation, offset, operation, datatype, count, fetch };
            let message = message_of(&target, None, None);
            Ok((describe(peer, header, &message, wants, payload), payload))
        }
        _ => {
            let (message, payload) = Message::parse(header.flags, body)?;
            let (direct, payload) = direct::parse(message.long.as_ref(), payload)?;
            let mut incoming = describe(peer, header, &message, Wants::Receive, payload);
            incoming.direct = direct;
            Ok((incoming, payload))
        }
    }
}

/// The part of a one-sided operation that it has in common with messages. The key stands in place of match bits.
fn message_of(target: &Target, long: Option<LongPart>, immediate: Option<u64>) -> Message {
    Message {
        node: target.node,
        source_endpoint: target.source_endpoint,
        destination_endpoint: target.destination_endpoint,
        frame_bytes_max: target.frame_bytes_max,
        match_bits: target.key,
        handle: target.handle,
        long,
        immediate,
    }
}

#[inline]
fn describe(
    peer: u32,
    header: &Header,
    message: &Message,
    wants: Wants,
    payload: &[u8],
) -> Incoming {
    let bytes = payload.len() as u32;
    let long = message.long;
    let plain = matches!(wants, Wants::Receive);
    Incoming {
        wants,
        reply: None,
        notifies: false,
        kept: None,
        homeless_ms: None,
        peer,
        node: message.node,
        number: header.word,
        endpoint: message.destination_endpoint,
        source_endpoint: message.source_endpoint,
        match_bits: message.match_bits,
        immediate: message.immediate,
        total: long.map_or(u64::from(bytes), |long| long.total_bytes),
        unscheduled: long.map_or(bytes, |long| long.unscheduled_bytes),
        first_payload: bytes,
        // A message of one frame that is pulled after all comes in one frame again.
        fragment: long.map_or(bytes.max(1) as u16, |long| long.fragment_bytes),
        handle: message.handle,
        synchronous: plain && header.flags.has(Flags::SYNCHRONOUS),
        void: header.flags.has(Flags::VOID),
        first: header.sequence,
        received: bytes,
        withdrawn: false,
        place: Place::Later,
        early: false,
        claimed: false,
        lands: false,
        pulling: Pulling::of(0, 0),
        direct: None,
        next_progress: NONE,
        next_early: NONE,
    }
}
