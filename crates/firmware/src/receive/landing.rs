//! Placement by the train: where the payload of the next frames belongs, said before they are fetched or copied.
//!
//! Only memory of a posted receive or a get of this node's own, and only bytes that are still owed: whatever is written there
//! before it was checked lies where the right bytes will come. Never a region: its owner may look at it at any time.

use emp_wire::{BlockWord, Flags, Header, Kind};

use super::pulling::Puller;
use super::sequence::Arrival;
use super::{Place, ReceivePath};
use crate::counters::Counter;
use crate::cross::Cross;
use crate::lanes::Lane;
use crate::limits::PULLS_MAX;
use crate::memory::{Segment, SegmentList};
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taken {
    /// How many, at least one.
    pub(crate) frames: u32,
    /// Their payload bytes.
    pub(crate) bytes: u64,
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

impl ReceivePath {
    /// Something is under way whose place is known: it was asked for, or is the rest of a message in long frames.
    #[inline]
    pub(crate) const fn expects_landing(&self) -> bool {
        self.pulling_bytes > 0 || self.long_trains > 0
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
        let (list, offset, left, fragment) = match first.kind {
            Kind::Block => self.rest_of_block(peer, first, plain)?,
            Kind::Data => self.rest_of_train(peer, first, (plain, whole))?,
            _ => return None,
        };
        if first.length as u64 != outline.fragment || outline.fragment > fragment.into() {
            return None;
        }
        let into = list.range(offset, left, Err).err()?;
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

    /// Payload bytes of the frame behind this one of a message or block, if there is one.
    pub(crate) fn following(&self, peer: u32, before: &Header) -> Option<u64> {
        let sequence = before.sequence.plus(1);
        let plain = !self.peers[peer].received.has_gap();
        let (_, _, left, fragment) = match before.kind {
            Kind::Message => {
                let next = Header { sequence, word: 1, ..*before };
                self.rest_of_train(peer, &next, (plain, false))?
            }
            Kind::Data => {
                let next = Header { sequence, word: before.word.wrapping_add(1), ..*before };
                self.rest_of_train(peer, &next, (plain, false))?
            }
            Kind::Block => {
                let next = Header { sequence, word: before.word.wrapping_add(1), ..*before };
                self.rest_of_block(peer, &next, plain)?
            }
            _ => return None,
        };
        (left > 0).then_some(left.min(fragment.into()))
    }

    /// What is owed of a block from this frame on, if it is `plain` that it has arrived up to it: its receiver's list, offset and
    /// length there, and the frames' payload.
    fn rest_of_block(
        &self,
        peer: u32,
        first: &Header,
        plain: bool,
    ) -> Option<(&SegmentList, u64, u64, u16)> {
        let word = BlockWord::parse(first.word);
        let pull = u32::from(word.pull % PULLS_MAX as u16);
        let state = self.current_pull(pull, word.pull, peer)?;
        let start = u64::from(word.index) * u64::from(state.fragment);
        let known =
            state.first.is_none_or(|known| known == first.sequence.minus(word.index.into()));
        if !known || plain && u64::from(state.received) != start {
            return None;
        }
        let list = match state.puller {
            Puller::Message(index) => self.posted_list(index)?,
            Puller::Get(index) => &self.fetches.at(index)?.segments,
        };
        let left = u64::from(state.bytes).checked_sub(start)?;
        Some((list, state.offset + start, left, state.fragment))
    }

    /// The same of a message's unscheduled part.
    fn rest_of_train(
        &self,
        peer: u32,
        first: &Header,
        (plain, whole): (bool, bool),
    ) -> Option<(&SegmentList, u64, u64, u16)> {
        let before = first.word.checked_sub(1)?;
        let index = self.find_progress(peer, first.sequence.minus(first.word))?;
        let incoming = self.incoming.at(index)?;
        let fragment = incoming.fragment;
        let offset = u64::from(incoming.first_payload) + u64::from(before) * u64::from(fragment);
        if plain && u64::from(incoming.received) != offset {
            return None;
        }
        if !whole && !incoming.lands && u64::from(incoming.unscheduled) >= incoming.total {
            // It comes whole, and not in long frames: copying costs less than having it placed.
            return None;
        }
        let left = u64::from(incoming.unscheduled).checked_sub(offset)?;
        Some((self.posted_list(index)?, offset, left, fragment))
    }

    /// Takes the next frames of a train that was planned for, of which this is the first: they were checked, and their payload
    /// is in its place.
    pub(crate) fn take_placed(
        &mut self,
        now: Time,
        (peer, lane): (u32, Lane),
        first: &Header,
        taken: &Taken,
        cross: &mut Cross,
    ) {
        let Taken { frames, bytes, .. } = *taken;
        let received = &mut self.peers[peer].received;
        received.latest = first.sequence.plus(frames - 1);
        self.counters.add(Counter::BytesPlaced, bytes);
        match first.kind {
            Kind::Block => {
                self.note_placed(first.sequence, BlockWord::parse(first.word), bytes);
            }
            _ => {
                let train = first.sequence.minus(first.word);
                if let Some(index) = self.find_progress(peer, train)
                    && let Some(incoming) = self.incoming.at_mut(index)
                {
                    incoming.received += bytes as u32;
                    self.advance(index);
                }
            }
        }
        let received = &mut self.peers[peer].received;
        if frames == 1 {
            // Perhaps before its turn, or what was missing.
            let opens_gap = received.next() != first.sequence && received.opens_gap(first.sequence);
            let closed_gap = received.take(first.sequence);
            let opens_gap = !self.overtakes(peer, lane, Arrival::Ahead) && opens_gap;
            return self.owe(now, peer, first.flags, opens_gap || closed_gap, cross);
        }
        received.take_run(frames);
        self.overtakes(peer, lane, Arrival::Ahead);
        self.owe(now, peer, first.flags, false, cross);
        if let Some(last) = taken.last {
            self.owe_more(peer, frames - 2, taken.lasts, taken.flags);
            self.owe(now, peer, last, false, cross);
        }
    }

    /// The memory of the receive that a message goes to.
    fn posted_list(&self, index: u32) -> Option<&SegmentList> {
        match self.incoming.at(index)?.place {
            Place::Posted(posted) => Some(&self.posted.at(posted)?.segments),
            Place::Pool(_) | Place::Region { .. } | Place::Later => None,
        }
    }
}
