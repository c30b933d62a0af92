//! The frame of a message that is small and whole, and copied: header, fields and payload in one go. It is as
//! [`frame`](super::frame) builds it; what that one has to ask of every kind of frame is known of this one.

use emp_wire::{Flags, HEADER_BYTES, IMMEDIATE_BYTES, MESSAGE_BYTES, Message, ShortRest};

use super::{EncodeError, HEAD_ROOM_BYTES, Head, Line, SUMMED_APART_BYTES_MAX, header};
use crate::memory::{HostMemory, SegmentList};
use crate::transmit::{Small, TransmitBatch};

/// The longest payload of such a frame, in bytes.
pub(crate) const PAYLOAD_BYTES_MAX: u32 =
    (SUMMED_APART_BYTES_MAX - HEADER_BYTES - MESSAGE_BYTES - IMMEDIATE_BYTES) as u32;

/// Adds the frame to the batch, with `bytes` bytes of `from`: at most [`PAYLOAD_BYTES_MAX`], and no more than the peer takes in a
/// frame. `fields` are those of a message that does not go on.
#[inline]
pub(crate) fn message(
    batch: &mut TransmitBatch,
    line: &Line<'_>,
    head: &Head,
    fields: &Message,
    (from, bytes): (&SegmentList, u32),
    memory: &impl HostMemory,
) -> Result<(), EncodeError> {
    debug_assert!(bytes <= PAYLOAD_BYTES_MAX && !head.flags.has(Flags::LONG));
    let way @ (_, to) = line.way.ok_or(EncodeError::Unsendable)?;
    let room = usize::from(line.peer.frame_bytes_max);
    let most = HEAD_ROOM_BYTES + bytes as usize;
    let small =
        (line.bundles && most <= room).then_some(Small { node: line.peer.node, most, room });
    batch.add(way, small, |inline, _| {
        let (into, rest) = inline.split_first_chunk_mut().ok_or(EncodeError::Unsendable)?;
        let fields_bytes = fields.emit(rest);
        let body_bytes = fields_bytes + bytes as usize;
        let body = rest.get_mut(..body_bytes).ok_or(EncodeError::Unsendable)?;
        let (fields, payload) = body.split_at_mut(fields_bytes);
        if bytes > 0 {
            from.read(memory, 0, payload)?;
        }
        let header = header(line, head, body_bytes as u16, bytes > 0);
        if to.is_memory() {
            header.emit_seeded(into, line.peer.outgoing);
        } else {
            let payload = if line.check_payload { &*payload } else { &[] };
            header.emit_summed(into, line.peer.outgoing, &ShortRest { fields, payload });
        }
        Ok(HEADER_BYTES + body_bytes)
    })
}
