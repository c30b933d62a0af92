//! How frames that were chosen leave (I2): what they have in common, built into the batch, and noted.

use emp_wire::{Flags, Sequence};

use super::active::Active;
use super::build::{Body, Numbers, Stored};
use super::long::load_of;
use super::record::{FrameState, Load, Record, What};
use super::transmission::Outlet;
use super::{SendMessage, SendPeer, SendSide, Work};
use crate::counters::Counter;
use crate::cross::{AckCell, Debt};
use crate::encode::{EncodeError, Line};
use crate::memory::{HostMemory, Segment};
use crate::pair::Peers;
use crate::path::{Hop, PathId, Paths};
use crate::time::Time;

/// Frames of one record that leave one after the other by one path, alike but for their number and place.
#[derive(Clone, Copy)]
pub(super) struct Leaving<'a> {
    pub(super) first: Sequence,
    pub(super) frames: u32,
    pub(super) path: PathId,
    pub(super) hop: Option<Hop<'a>>,
    /// How long each is.
    pub(super) load: Load,
    /// Bytes that may be under way by their path.
    pub(super) window: u32,
    /// The last is its train's last. Only one that leaves alone may be.
    pub(super) last: bool,
    /// Each requests an acknowledgement, however much room the window has.
    pub(super) requests: bool,
    /// As in a [`Line`].
    pub(super) inline_bytes: u64,
    pub(super) bundles: bool,
    pub(super) room: u16,
    pub(super) long: bool,
}

impl Leaving<'_> {
    /// The number of the frame at this place of them.
    #[inline(always)]
    const fn number(&self, place: u32) -> Sequence {
        self.first.plus(place)
    }
}

impl SendSide {
    /// A frame that has a number as it leaves now, for the first time or again, and what it carries.
    #[inline(always)]
    pub(super) fn leaving<'a>(
        &self,
        peer: u32,
        sequence: Sequence,
        paths: &Paths<'a>,
    ) -> (Leaving<'a>, Stored) {
        let entry = &self.peers[peer];
        let active = entry.active.as_deref().expect("the peer is active");
        let index = active.record_of(sequence).expect("chosen frames have records");
        let record = &active.records[index];
        let (what, place) = (record.what, sequence.since(record.first) as u32);
        let message = what.message().and_then(|index| self.messages.at(index));
        let (path, hop) = paths.pick(path_for(active, record, sequence, paths));
        let load = load_of(record, message, place, paths.long_above(path));
        let last = place + 1 == record.count;
        let resent = active.frame(sequence).state == FrameState::Lost;
        let tried = place == 0 && active.refusals > 0;
        let leaving = Leaving {
            first: sequence,
            frames: 1,
            path,
            hop,
            load,
            window: entry.window(&self.further, path),
            last,
            requests: (last && is_awaited(what, message, load)) || resent || tried,
            inline_bytes: self.inline_bytes(hop, record),
            // Where a train lands, each frame has a link frame of its own.
            bundles: self.profile.bundles && record.count == 1,
            room: paths.bytes(path),
            long: paths.is_long(path),
        };
        (leaving, Stored { what, place })
    }

    /// What frames that leave have in common.
    #[inline(always)]
    pub(super) fn line<'a>(&self, peers: &'a Peers, peer: u32, leaving: &Leaving<'a>) -> Line<'a> {
        let Leaving { hop, inline_bytes, bundles, room, long, .. } = *leaving;
        let check_payload = self.checks_payload(hop);
        Line { peers, peer: &peers[peer], hop, check_payload, inline_bytes, bundles, room, long }
    }

    /// Builds one frame into the batch: the only place where any but acknowledgements are. Gives the payload bytes that were copied, and
    /// whether it requests an acknowledgement.
    #[inline(always)]
    pub(super) fn emit(
        &mut self,
        peer: u32,
        (leaving, place): (&Leaving<'_>, u32),
        (line, debt, body): (&Line<'_>, Debt, &mut impl Body),
        out: &mut Outlet<'_, impl HostMemory>,
    ) -> Result<(u64, bool), EncodeError> {
        let Leaving { path, window, load, last, requests, .. } = *leaving;
        let sequence = leaving.number(place);
        // Both are looked at: that is shorter than to choose.
        let low = self.asks(&self.peers[peer], (path, window), sequence, load.bytes);
        let requested = low | requests;
        let flags = Flags::ACK.with_if(last, Flags::LAST).with_if(requested, Flags::ACK_REQUEST);
        let numbers = Numbers { sequence, acknowledge: debt.acknowledge() };
        let copied = body.build(self, place, (line, flags, numbers), out)?;
        Ok((copied, requested))
    }

    /// Builds frames of a record one after the other, and notes that they left. Gives how many, if not all could be built; what hinders the
    /// first is an error.
    #[inline(always)]
    pub(super) fn emit_all(
        &mut self,
        now: Time,
        peer: u32,
        leaving: &Leaving<'_>,
        body: &mut impl Body,
        out: &mut Outlet<'_, impl HostMemory>,
    ) -> Result<u32, EncodeError> {
        let line = self.line(out.peers, peer, leaving);
        let debt = out.cross.acks[peer].debt();
        let (mut sent, mut copied_bytes, mut resent) = (0, 0, false);
        while sent < leaving.frames {
            match self.emit(peer, (leaving, sent), (&line, debt, body), out) {
                Ok((copied, requested)) => {
                    copied_bytes += copied;
                    resent = self.peers[peer].note_left(now, leaving, (sent, requested));
                }
                Err(error) if sent == 0 => return Err(error),
                Err(_) => break,
            }
            sent += 1;
        }
        self.counters.add(Counter::BytesCopied, copied_bytes);
        self.carried(now, &out.cross.acks[peer], debt);
        self.on_sent(leaving, (sent, resent));
        Ok(sent)
    }

    /// Something left with this acknowledgement.
    #[inline(always)]
    pub(super) fn carried(&mut self, now: Time, cell: &AckCell, debt: Debt) {
        if cell.carry(debt, now) {
            self.counters.count(Counter::AcksPiggybacked);
        }
    }

    /// Notes of so many frames of a record that they left, for the first time or again, or would have, had it been possible.
    #[inline(always)]
    pub(super) fn on_sent(&mut self, leaving: &Leaving<'_>, (frames, resent): (u32, bool)) {
        let counter = if resent { Counter::FramesResent } else { Counter::FramesSent };
        self.counters.add(counter, frames.into());
        if leaving.load.long {
            self.counters.add(Counter::FramesLong, frames.into());
        }
        if leaving.path != PathId::FIRST {
            self.counters.add(Counter::FramesFurther, frames.into());
        }
    }
}

impl SendPeer {
    /// Notes of one frame that it leaves. True if it had been found lost.
    #[inline(always)]
    pub(super) fn note_left(
        &mut self,
        now: Time,
        leaving: &Leaving<'_>,
        (place, requested): (u32, bool),
    ) -> bool {
        let Leaving { path, load, .. } = *leaving;
        let Some(active) = self.active.as_deref_mut() else { return false };
        active.on_left(leaving.number(place), (path, load), requested, now)
    }
}

/// Up to how many bytes of a region are copied next to a frame's header: all of those that cannot be named.
pub(super) fn inline_of(memory: &impl HostMemory, part: Segment, usual: u64) -> u64 {
    if memory.lends(part) { usual } else { u64::MAX }
}

/// An acknowledgement is asked for with the last frame of a train, of this length, because its message's host waits for that.
#[inline]
fn is_awaited(what: What, message: Option<&SendMessage>, load: Load) -> bool {
    match (what, message) {
        (What::Message { .. } | What::Block { .. }, Some(message)) => {
            // What the target answers brings the acknowledgement with it. So does the end of a message that is pulled,
            // but that may be long after its first trains.
            let answered = match message.work {
                Work::Message => load.long && message.needs_done(),
                _ => true,
            };
            !message.is_told() && !answered
        }
        (What::Question, _) => true,
        _ => false,
    }
}

/// The path that a frame is meant for: that of its train; but what a path's timer resends again and again takes another, and then a third if
/// that brings nothing either.
fn path_for(active: &Active, record: &Record, sequence: Sequence, paths: &Paths<'_>) -> PathId {
    let frame = active.frame(sequence);
    if frame.state != FrameState::Lost || active.is_well(frame.path) {
        return record.path;
    }
    paths.other_lane(frame.path, |path| active.is_well(path)).unwrap_or(frame.path)
}
