//! Building frames, without copying what is large: the first of a message, and any other.

use emp_wire::{Flags, Kind, Sequence, has_bulk};

use super::SendSide;
use super::body::FirstFields;
use super::bookkeeping::handle;
use super::leaving::inline_of;
use super::plan::{Plan, Shape};
use super::record::What;
use super::transmission::Outlet;
use crate::encode::{self, EncodeError, Head, Line, Payload};
use crate::memory::{HostMemory, SegmentList};
use crate::pool::Pool;

/// A message of which the first frame is built: one that is stored, or one that is being posted.
#[derive(Clone, Copy)]
pub(super) struct First<'a> {
    pub(super) shape: Shape<'a>,
    pub(super) plan: Plan,
    pub(super) handle: u32,
    pub(super) number: u32,
}

/// What stands in a frame's header that its message does not know.
#[derive(Clone, Copy)]
pub(super) struct Numbers {
    pub(super) sequence: Sequence,
    pub(super) acknowledge: Sequence,
}

/// What frames that leave carry.
pub(super) trait Body {
    /// Builds the frame at this place of those that leave. Returns the payload bytes that were copied.
    fn build(
        &mut self,
        sends: &mut SendSide,
        place: u32,
        head: (&Line<'_>, Flags, Numbers),
        out: &mut Outlet<'_, impl HostMemory>,
    ) -> Result<u64, EncodeError>;
}

impl Body for First<'_> {
    #[inline(always)]
    fn build(
        &mut self,
        sends: &mut SendSide,
        _: u32,
        head: (&Line<'_>, Flags, Numbers),
        out: &mut Outlet<'_, impl HostMemory>,
    ) -> Result<u64, EncodeError> {
        build_first(&mut sends.pool, *self, head, out)
    }
}

/// Frame `place` of a record.
pub(super) struct Stored {
    pub(super) what: What,
    pub(super) place: u32,
}

impl Body for Stored {
    #[inline(always)]
    fn build(
        &mut self,
        sends: &mut SendSide,
        _: u32,
        head: (&Line<'_>, Flags, Numbers),
        out: &mut Outlet<'_, impl HostMemory>,
    ) -> Result<u64, EncodeError> {
        let Self { what, place } = *self;
        let What::Message { message: index, number } = what else {
            return sends.build(what, place, head, out);
        };
        if place > 0 {
            return sends.build(what, place, head, out);
        }
        let message = sends.messages.at(index).ok_or(EncodeError::Unsendable)?;
        let handle = handle(index, sends.messages.generation(index));
        let first = First { shape: message.shape(), plan: message.plan, handle, number };
        build_first(&mut sends.pool, first, head, out)
    }
}

/// A line for frames of this kind: what counts as fields is always checked, as an atomic's operands and fetched values.
#[inline(always)]
fn line_of<'a>(line: &Line<'a>, kind: Kind) -> Line<'a> {
    Line { check_payload: line.check_payload || !has_bulk(kind), ..*line }
}

/// Builds the first frame of a message, whose bytes may be in this pool. Returns the payload bytes that were copied.
#[inline(always)]
fn build_first(
    pool: &mut Pool,
    first: First<'_>,
    (line, flags, numbers): (&Line<'_>, Flags, Numbers),
    out: &mut Outlet<'_, impl HostMemory>,
) -> Result<u64, EncodeError> {
    let Outlet { memory, batch, .. } = out;
    let Numbers { sequence, acknowledge } = numbers;
    let First { shape, plan, number, .. } = first;
    let Line { peers, peer: to, hop, .. } = *line;
    let (kind, more) = shape.head(&plan);
    let line = Line { bundles: line.bundles && !plan.direct, ..line_of(line, kind) };
    let head = Head { kind, flags: flags.with(more), sequence, acknowledge, word: number };
    // A receiver that cannot read any more finds another name, and pulls.
    let stamp = || to.route().and_then(|(link, &to)| memory.stamp(link, to)).unwrap_or(0);
    let stamp = if plan.direct { stamp() } else { 0 };
    let fields = FirstFields { first, peers, hop, stamp };
    let payload = shape.payload(pool, 0, plan.cut.first_payload.into());
    encode::frame(batch, &line, &head, fields, payload, *memory)
}

impl SendSide {
    /// Builds any other frame. Returns the payload bytes that were copied.
    fn build(
        &mut self,
        what: What,
        place: u32,
        (line, flags, numbers): (&Line<'_>, Flags, Numbers),
        out: &mut Outlet<'_, impl HostMemory>,
    ) -> Result<u64, EncodeError> {
        let Outlet { replies, memory, batch, .. } = out;
        let Line { peers, hop, .. } = *line;
        let Numbers { sequence, acknowledge } = numbers;
        let (kind, word, more) = what.head(place);
        let part;
        let mut inline_bytes = line.inline_bytes;
        let payload = match what {
            What::Message { message, .. } | What::Block { message, .. } => {
                let message = self.messages.at(message).ok_or(EncodeError::Unsendable)?;
                let piece = what.piece(place, Some(message)).ok_or(EncodeError::Unsendable)?;
                message.shape().payload(&mut self.pool, piece.offset, piece.bytes())
            }
            What::Region(block) => {
                let piece = what.piece(place, None).ok_or(EncodeError::Unsendable)?;
                let memory_part = block.memory.part(piece.offset, piece.bytes());
                inline_bytes = inline_of(*memory, memory_part, inline_bytes);
                part = SegmentList::one(memory_part);
                Payload::Host { list: &part, offset: 0, bytes: part.bytes() }
            }
            What::Control(control) => {
                let stored = control.values().zip(replies.as_deref_mut());
                match stored.and_then(|(values, replies)| replies.get(values)) {
                    Some((pool, chain, bytes)) => Payload::Pool { pool, chain, offset: 0, bytes },
                    None => Payload::None,
                }
            }
            What::Skip | What::Question => Payload::None,
        };
        let line = Line { inline_bytes, ..line_of(line, kind) };
        let head = Head { kind, flags: flags.with(more), sequence, acknowledge, word };
        let fields = |into: &mut [u8]| match what {
            What::Control(control) => control.emit(peers, hop, into),
            _ => 0,
        };
        encode::frame(batch, &line, &head, fields, payload, *memory)
    }
}

impl<'a> Shape<'a> {
    /// Where these of its bytes lie.
    #[inline(always)]
    fn payload(&self, pool: &'a mut Pool, offset: u64, bytes: u64) -> Payload<'a> {
        match self.chain {
            _ if bytes == 0 => Payload::None,
            Some(chain) => Payload::Pool { pool, chain, offset, bytes },
            None => Payload::Host { list: &self.send.segments, offset, bytes },
        }
    }
}
