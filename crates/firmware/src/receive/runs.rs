//! Placement by the train: where the payload of the next frames belongs, said before they are fetched or copied.
//!
//! Only memory of a posted receive or a get of this node's own, and only bytes that are still owed: whatever is written there
//! before it was checked lies where the right bytes will come. Never a region: its owner may look at it at any time.

use emp_wire::{Flags, Header, Kind};

use super::ReceiveSide;
use super::acknowledge::Debt;
use super::frame::{Part, Room, Slot};
use super::sequence::Arrival;
use crate::counters::Counter;
use crate::cross::Cross;
use crate::memory::{HostMemory, Segment};
use crate::path::PathId;
use crate::time::Time;

/// What the frames at the front of a train will be, if they are what they seem to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// Where their payload goes, in one piece.
    pub(crate) into: Segment,
    /// Payload bytes of each frame; only the last may have fewer.
    pub(crate) fragment: u16,
    /// Frames.
    pub(crate) frames: u32,
}

/// Frames of a run that are in their place.
#[derive(Clone, Copy, Default)]
pub(crate) struct Taken {
    /// How many, at least one.
    pub(crate) frames: u32,
    /// Of those between the first and the last: frames that end their train, and the flags of all together.
    pub(crate) lasts: u32,
    pub(crate) flags: Flags,
    /// Flags of the last, if that is not the first.
    pub(crate) last: Option<Flags>,
}

/// A train as its link sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outline {
    /// Payload bytes of each frame but the last.
    pub(crate) fragment: u64,
    /// Frames of that length, and payload bytes of a shorter one behind them.
    pub(crate) whole: u64,
    pub(crate) tail: u64,
}

impl ReceiveSide {
    /// Something is under way whose place is known: it was asked for, or is the rest of a message in long frames.
    #[inline]
    pub(crate) const fn expects_landing(&self) -> bool {
        self.credit.out() > 0 || self.long_trains > 0
    }

    /// Where a train that begins with this frame of a known peer goes. `None`: frame by frame, as it comes. `whole`: also of
    /// messages that come whole in usual frames, which a link had better not place.
    pub(crate) fn plan(
        &self,
        peer: u32,
        first: &Header,
        outline: &Outline,
        whole: bool,
    ) -> Option<Run> {
        let received = &self.peers[peer].received;
        // In order and without a gap: then nothing behind it has arrived. Otherwise that is known of this one alone, by its number.
        let plain = received.next() == first.sequence && !received.has_gap();
        if !plain {
            let arrival = received.classify(first.sequence);
            let new = matches!(arrival, Arrival::InOrder | Arrival::Ahead);
            let alone = (outline.whole, outline.tail) == (1, 0);
            if !(new && alone && self.profile.accept_out_of_order) {
                return None;
            }
        }
        let slot = self.slot(peer, first).ok()?;
        let Slot { offset, left, fragment, .. } = slot;
        if plain && !slot.is_next || !whole && self.copies_better(&slot) {
            return None;
        }
        if first.length as u64 != outline.fragment || outline.fragment > fragment.into() {
            return None;
        }
        let Room::Buffer(list, at) = self.room_of(slot.owner) else { return None };
        let into = list.range(at + offset, left, Err).err()?;
        let room = into.bytes.min(left);
        if outline.fragment < fragment.into() {
            // The last one, and by itself.
            let alone = (outline.whole, outline.tail) == (1, 0) && outline.fragment == left;
            let (into, fragment) = (into.part(0, left), first.length);
            return (alone && room == left).then_some(Run { into, fragment, frames: 1 });
        }
        let full = (room / outline.fragment).min(outline.whole);
        let tail = left - full * outline.fragment;
        let ends = full == outline.whole && tail > 0 && tail == outline.tail && room == left;
        let tail = if ends { tail } else { 0 };
        let run = Run {
            into: into.part(0, full * outline.fragment + tail),
            fragment,
            frames: full as u32 + u32::from(ends),
        };
        (full > 0).then_some(run)
    }

    /// A message that comes whole, and not in long frames: copying costs less than having it placed.
    fn copies_better(&self, slot: &Slot) -> bool {
        let Part::Train(index) = slot.part else { return false };
        self.incoming.at(index).is_some_and(|incoming| {
            !incoming.lands && u64::from(incoming.unscheduled) >= incoming.total
        })
    }

    /// Payload bytes of the frame behind this one of a message or block, if there is one.
    pub(crate) fn following(&self, peer: u32, before: &Header) -> Option<u64> {
        let (kind, word) = match before.kind {
            _ if before.flags.has(Flags::LAST) => return None,
            Kind::Message => (Kind::Data, 1),
            Kind::Data | Kind::Block => (before.kind, before.word.wrapping_add(1)),
            _ => return None,
        };
        let next = Header { kind, sequence: before.sequence.plus(1), word, ..*before };
        let slot = self.slot(peer, &next).ok()?;
        let gap = self.peers[peer].received.has_gap();
        let lands = (gap || slot.is_next)
            && !self.copies_better(&slot)
            && matches!(self.room_of(slot.owner), Room::Buffer(..));
        lands.then(|| slot.bytes())
    }

    /// Takes the next frames of a train that was planned for, of which this is the first: they were checked, and their payload
    /// of so many bytes is in its place.
    pub(crate) fn take_placed(
        &mut self,
        now: Time,
        (peer, path): (u32, PathId),
        first: &Header,
        (taken, bytes): (&Taken, u64),
        cross: &Cross,
        memory: &mut impl HostMemory,
    ) {
        let frames = taken.frames;
        let received = &mut self.peers[peer].received;
        received.latest = first.sequence.plus(frames - 1);
        self.counters.add(Counter::BytesPlaced, bytes);
        self.credit.set_time(now);
        if let Ok(slot) = self.slot(peer, first) {
            self.note_bytes(&slot, bytes);
            self.end_part(&slot, memory);
        }
        let received = &mut self.peers[peer].received;
        if frames == 1 {
            // Perhaps before its turn, or what was missing.
            let opens_gap = received.next() != first.sequence && received.opens_gap(first.sequence);
            let closed_gap = received.take(first.sequence);
            let opens_gap = !self.peers[peer].overtakes(path, Arrival::Ahead) && opens_gap;
            return self.owe(now, peer, Debt::of(first.flags, opens_gap || closed_gap), cross);
        }
        received.take_run(frames);
        self.peers[peer].overtakes(path, Arrival::Ahead);
        // What the first begins, as a delay, is as if it had come alone.
        self.owe(now, peer, Debt::of(first.flags, false), cross);
        let Taken { lasts, flags, last, .. } = *taken;
        if let Some(last) = last {
            let frames = frames - 1;
            self.owe(now, peer, Debt { frames, lasts, flags, last, gap: false }, cross);
        }
    }
}
