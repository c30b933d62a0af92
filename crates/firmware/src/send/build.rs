//! Building frames, without copying what is large: the first of a message, and any other.

use emp_wire::{BlockWord, Flags, Kind, Sequence, has_bulk};

use super::SendPath;
use super::body::FirstFields;
use super::plan::{Plan, Shape};
use super::record::What;
use super::transmission::{Outlet, inline_of};
use crate::cross::RegionBlock;
use crate::encode::{self, EncodeError, Head, Line, Payload};
use crate::memory::{HostMemory, SegmentList};
use crate::path::Way;
use crate::peers::{Peer, Peers};
use crate::pool::Pool;

/// As what a frame leaves.
pub(super) struct Form<'a> {
    pub(super) way: Option<Way<'a>>,
    pub(super) flags: Flags,
    pub(super) sequence: Sequence,
    /// Payloads up to so many bytes are copied next to the header.
    pub(super) inline_bytes: u64,
    /// Payloads are under the frame's checksum.
    pub(super) check_payload: bool,
    /// It may share a link frame with others.
    pub(super) bundles: bool,
    /// Largest frame of its path.
    pub(super) room: u16,
    /// Frames longer than the MTU take its path whole.
    pub(super) long: bool,
}

/// A message of which the first frame is built: one that is stored, or one that is being posted.
#[derive(Clone, Copy)]
pub(super) struct First<'a> {
    pub(super) shape: Shape<'a>,
    pub(super) plan: Plan,
    pub(super) handle: u32,
    pub(super) number: u32,
}

impl Form<'_> {
    #[inline(always)]
    fn line<'a>(&'a self, peers: &'a Peers, peer: &'a Peer, kind: Kind) -> Line<'a> {
        let Self { way, inline_bytes, bundles, room, long, .. } = *self;
        // What counts as fields is always checked: an atomic's operands, fetched values.
        let check_payload = self.check_payload || !has_bulk(kind);
        Line { peers, peer, way, check_payload, inline_bytes, bundles, room, long }
    }
}

/// Builds the first frame of a message, whose bytes may be in this pool. Returns the payload bytes that were copied.
#[inline(always)]
pub(super) fn build_first(
    pool: &mut Pool,
    peer: u32,
    first: First<'_>,
    form: &Form<'_>,
    out: &mut Outlet<'_, impl HostMemory>,
) -> Result<u64, EncodeError> {
    let Outlet { peers, cross, memory, batch } = out;
    let First { shape, plan, number, .. } = first;
    let to = &peers[peer];
    let (kind, more) = shape.head(&plan);
    let line = form.line(peers, to, kind);
    let line = Line { bundles: line.bundles && !plan.direct, ..line };
    let acknowledge = cross.acks[peer].acknowledge;
    let flags = form.flags.with(more);
    let head = Head { kind, flags, sequence: form.sequence, acknowledge, word: number };
    // A receiver that cannot read any more finds another name, and pulls.
    let stamp = || to.route().and_then(|(link, &to)| memory.stamp(link, to)).unwrap_or(0);
    let stamp = if plan.direct { stamp() } else { 0 };
    let fields = FirstFields { first, peers, way: form.way, stamp };
    let payload = shape.payload(pool, 0, plan.cut.first_payload.into());
    encode::frame(batch, &line, &head, fields, payload, *memory)
}

impl SendPath {
    /// Builds any other frame. Returns the payload bytes that were copied.
    pub(super) fn build(
        &mut self,
        peer: u32,
        what: What,
        place: u32,
        form: &Form<'_>,
        out: &mut Outlet<'_, impl HostMemory>,
    ) -> Result<u64, EncodeError> {
        let Outlet { peers, cross, memory, batch } = out;
        let (to, peers) = (&peers[peer], *peers);
        let acknowledge = cross.acks[peer].acknowledge;
        let (kind, word, more) = match what {
            What::Message { .. } => (Kind::Data, place, Flags(0)),
            What::Block { pull, .. } | What::Region(RegionBlock { pull, .. }) => {
                (Kind::Block, BlockWord { pull, index: place as u16 }.emit(), Flags(0))
            }
            What::Control(control) => control.head(),
            What::Skip | What::Question => (Kind::Skip, 0, Flags(0)),
        };
        let part;
        let mut inline_bytes = form.inline_bytes;
        let payload = match what {
            What::Message { message, .. } => {
                let message = self.messages.at(message).ok_or(EncodeError::Unsendable)?;
                let (offset, bytes) = message.plan.cut.fragment_at(place);
                message.shape().payload(&mut self.pool, offset, bytes)
            }
            What::Block { message, offset, bytes, .. } => {
                let message = self.messages.at(message).ok_or(EncodeError::Unsendable)?;
                let fragment = u32::from(message.plan.cut.fragment);
                let start = place * fragment;
                let left = bytes.checked_sub(start).ok_or(EncodeError::Unsendable)?;
                let offset = offset + u64::from(start);
                message.shape().payload(&mut self.pool, offset, left.min(fragment).into())
            }
            What::Region(block) => {
                let start = u64::from(place) * u64::from(block.fragment);
                let memory_part = block.memory.part(start, block.fragment.into());
                inline_bytes = inline_of(*memory, memory_part, inline_bytes);
                part = SegmentList::one(memory_part);
                Payload::Host { list: &part, offset: 0, bytes: part.bytes() }
            }
            What::Control(control) => {
                match control.values().and_then(|values| cross.replies.get(values)) {
                    Some((pool, chain, bytes)) => Payload::Pool { pool, chain, offset: 0, bytes },
                    None => Payload::None,
                }
            }
            What::Skip | What::Question => Payload::None,
        };
        let line = Line { inline_bytes, ..form.line(peers, to, kind) };
        let flags = form.flags.with(more);
        let head = Head { kind, flags, sequence: form.sequence, acknowledge, word };
        let fields = |into: &mut [u8]| match what {
            What::Control(control) => control.emit(peers, form.way, into),
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
