//! Where a payload belongs (I4, "receive frame").
//!
//! [`ReceiveSide::slot`] says which bytes of which message or get a frame carries, and [`room`] what memory these are. Whoever
//! brings bytes to their place asks here: single frames that are copied (`placement.rs`), trains that are copied in one go or put in place by the kernel (`runs.rs`),
//! and what is read from a sender's memory (`direct.rs`).

use emp_wire::{BlockWord, Header, Kind, Sequence, TRAIN_FRAMES_MAX};

use super::fetching::Fetch;
use super::pulling::Puller;
use super::regions::Regions;
use super::{Incoming, Place, Posted, ReceiveSide};
use crate::counters::Counter;
use crate::memory::{HostMemory, MemoryFault, Segment, SegmentList};
use crate::tables::slots::Slots;

/// The room that a posted receive has for a message: its buffer from this byte on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Spot {
    pub(super) receive: u32,
    pub(super) at: u64,
}

/// What a frame carries a piece of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// The unscheduled part of a message.
    Train(u32),
    /// A block that was asked for, by its identifier.
    Block(u16),
}

/// The place of a frame's payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot {
    pub(super) part: Part,
    /// Whose bytes they are.
    pub(super) owner: Puller,
    /// Number of the part's first frame.
    first: Sequence,
    /// Where they begin in the message or get.
    pub(super) offset: u64,
    /// Bytes from there to the part's end, and of each frame but its last.
    pub(super) left: u64,
    pub(super) fragment: u16,
    /// As many bytes of the part are here as lie before these.
    pub(super) is_next: bool,
}

impl Slot {
    /// Payload bytes that the frame must have.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.left.min(self.fragment.into())
    }
}

/// Why a frame has no slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoSlot {
    /// What it is of was refused or given up: nobody wants it any more, nor that it comes again.
    Unwanted(Counter),
    /// It is not to be taken.
    Wrong(Counter),
}

impl ReceiveSide {
    /// Where the payload of a data or block frame of this peer belongs, by its header alone.
    #[inline]
    pub(super) fn slot(&self, peer: u32, header: &Header) -> Result<Slot, NoSlot> {
        let slot = match header.kind {
            Kind::Block => self.slot_of_block(peer, header)?,
            _ => self.slot_of_train(peer, header)?,
        };
        if slot.left == 0 { Err(NoSlot::Wrong(Counter::DropBadPlace)) } else { Ok(slot) }
    }

    fn slot_of_block(&self, peer: u32, header: &Header) -> Result<Slot, NoSlot> {
        let word = BlockWord::parse(header.word);
        let state = self.current_pull(word.pull, peer);
        let state = state.ok_or(NoSlot::Unwanted(Counter::DropBadHandle))?;
        let first = header.sequence.minus(word.index.into());
        let fragment = match state.train {
            Some((known, fragment)) => Some(fragment).filter(|_| known == first),
            None => state.fragment(header, word.index),
        };
        let fragment = fragment.filter(|bytes| *bytes > 0);
        let fragment = fragment.ok_or(NoSlot::Wrong(Counter::DropBadPlace))?;
        let start = u64::from(word.index) * u64::from(fragment);
        Ok(Slot {
            part: Part::Block(word.pull),
            owner: state.puller,
            first,
            offset: state.offset + start,
            left: u64::from(state.bytes).saturating_sub(start),
            fragment,
            is_next: u64::from(state.received) == start,
        })
    }

    /// Contiguous numbers (`SEQ-4`) mean that a frame's place names its train.
    fn slot_of_train(&self, peer: u32, header: &Header) -> Result<Slot, NoSlot> {
        let place = header.word;
        let first = header.sequence.minus(place);
        let is_it = |(_, incoming): &(u32, &Incoming)| incoming.first == first;
        let Some((index, incoming)) = self.in_progress(peer).find(is_it) else {
            return Err(if place == 0 || place >= TRAIN_FRAMES_MAX {
                NoSlot::Wrong(Counter::DropBadPlace)
            } else if self.peers[peer].received.contains(first) {
                NoSlot::Unwanted(Counter::Refused)
            } else {
                NoSlot::Wrong(Counter::DropBeforeMessage)
            });
        };
        let before = place.checked_sub(1).ok_or(NoSlot::Wrong(Counter::DropBadPlace))?;
        let fragment = incoming.fragment;
        let offset = u64::from(incoming.first_payload) + u64::from(before) * u64::from(fragment);
        Ok(Slot {
            part: Part::Train(index),
            owner: Puller::Message(index),
            first,
            offset,
            left: u64::from(incoming.unscheduled).saturating_sub(offset),
            fragment,
            is_next: u64::from(incoming.received) == offset,
        })
    }

    /// So many bytes from a slot on have come.
    #[inline]
    pub(super) fn note_bytes(&mut self, slot: &Slot, bytes: u64) {
        match slot.part {
            Part::Train(index) => {
                if let Some(incoming) = self.incoming.at_mut(index) {
                    incoming.received += bytes as u32;
                }
            }
            Part::Block(pull) => {
                if let Some(state) = self.pulls.get_mut(pull) {
                    state.train = Some((slot.first, slot.fragment));
                    state.received += bytes as u32;
                    self.credit.hear(state.peer);
                }
            }
        }
    }

    /// After bytes were noted and placed: goes on with what they complete. A fault of the user's memory may have ended it.
    #[inline]
    pub(super) fn end_part(&mut self, slot: &Slot, memory: &mut impl HostMemory) {
        match slot.part {
            Part::Train(index) => self.advance(index, memory),
            Part::Block(pull) => {
                let state = self.pulls.get(pull);
                if state.is_some_and(|state| state.received == state.bytes) {
                    self.block_complete(pull, memory);
                } else if self.credit.is_answered_again() {
                    self.serve_pulls();
                }
            }
        }
    }

    /// The memory that a message or get goes to.
    pub(super) fn room_of(&self, owner: Puller) -> Room<'_> {
        match owner {
            Puller::Message(index) => self.incoming.at(index).map_or(Room::Nowhere, |incoming| {
                room(&incoming.place, &self.posted, &self.fetches, &self.regions)
            }),
            Puller::Get(index) => {
                room(&Place::Fetch(index), &self.posted, &self.fetches, &self.regions)
            }
        }
    }

    /// Puts bytes of a message or get where they belong.
    #[inline]
    pub(super) fn write_to(
        &mut self,
        owner: Puller,
        offset: u64,
        payload: &[u8],
        memory: &mut impl HostMemory,
    ) -> Result<(), MemoryFault> {
        if let Puller::Message(index) = owner
            && let Some(Incoming { place: Place::Pool(chain), .. }) = self.incoming.at(index)
        {
            self.pool.write(chain, offset as usize, payload);
            self.counters.add(Counter::BytesCopied, payload.len() as u64);
            return Ok(());
        }
        let written = match owner {
            Puller::Message(index) => self.write_part(index, offset, payload, memory),
            Puller::Get(_) => self.room_of(owner).write(offset, payload, memory),
        };
        self.note_written(written)
    }

    /// The same for all of a message that is not in the table.
    pub(super) fn write_whole(
        &mut self,
        place: &Place,
        payload: &[u8],
        memory: &mut impl HostMemory,
    ) -> Result<(), MemoryFault> {
        let room = room(place, &self.posted, &self.fetches, &self.regions);
        let written = room.write_last(0, payload, memory);
        self.note_written(written)
    }

    /// So many bytes were put where they belong, or could not be.
    #[inline(always)]
    pub(super) fn note_written(
        &mut self,
        written: Result<u64, MemoryFault>,
    ) -> Result<(), MemoryFault> {
        self.counters.add(Counter::BytesPlaced, written?);
        Ok(())
    }

    /// Messages of this peer of which more is to come.
    pub(super) fn in_progress(&self, peer: u32) -> impl Iterator<Item = (u32, &Incoming)> {
        let mut next = self.peers[peer].progress;
        core::iter::from_fn(move || {
            let (index, incoming) = (next, self.incoming.at(next)?);
            next = incoming.next_progress;
            Some((index, incoming))
        })
    }
}

/// Memory of the host that bytes go to.
pub(super) enum Room<'a> {
    /// A buffer that was posted, from this byte on: what lies beyond its end is dropped.
    Buffer(&'a SegmentList, u64),
    /// The rest of a region from where a put begins: it must hold all.
    Region(Segment),
    /// None: they are not wanted, or wait in the pool.
    Nowhere,
}

/// What memory a place stands for.
#[inline(always)]
pub(super) fn room<'a>(
    place: &Place,
    posted: &'a Slots<Posted>,
    fetches: &'a Slots<Fetch>,
    regions: &Regions,
) -> Room<'a> {
    match *place {
        Place::Posted(Spot { receive, at }) => match posted.at(receive) {
            Some(posted) => Room::Buffer(&posted.segments, at),
            None => Room::Nowhere,
        },
        Place::Fetch(index) => match fetches.at(index) {
            Some(fetch) => Room::Buffer(&fetch.segments, 0),
            None => Room::Nowhere,
        },
        Place::Region { region, offset } => {
            Room::Region(regions.part(region, offset, u64::MAX).unwrap_or_default())
        }
        Place::Pool(_) | Place::Later => Room::Nowhere,
    }
}

impl Room<'_> {
    /// Copies bytes in; returns how many there was room for.
    #[inline(always)]
    pub(super) fn write(
        &self,
        offset: u64,
        payload: &[u8],
        memory: &mut impl HostMemory,
    ) -> Result<u64, MemoryFault> {
        match self {
            Self::Buffer(list, at) => list.write(memory, at + offset, payload),
            Self::Region(all) => {
                let bytes = payload.len() as u64;
                let part = all.part(offset, bytes);
                if part.bytes != bytes {
                    return Err(MemoryFault);
                }
                memory.write(part, payload).map(|()| bytes)
            }
            Self::Nowhere => Ok(0),
        }
    }

    /// The same for a message's last bytes: a program may wait for those of a put (`PUT-5`).
    pub(super) fn write_last(
        &self,
        offset: u64,
        payload: &[u8],
        memory: &mut impl HostMemory,
    ) -> Result<u64, MemoryFault> {
        let Self::Region(all) = self else { return self.write(offset, payload, memory) };
        let bytes = payload.len() as u64;
        let part = all.part(offset, bytes);
        if part.bytes != bytes {
            return Err(MemoryFault);
        }
        memory.write_last(part, payload).map(|()| bytes)
    }

    /// The pieces of so many bytes from an offset on.
    pub(super) fn range<E>(
        &self,
        offset: u64,
        bytes: u64,
        mut visit: impl FnMut(Segment) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Buffer(list, at) => list.range(at + offset, bytes, visit),
            Self::Region(all) => visit(all.part(offset, bytes)),
            Self::Nowhere => Ok(()),
        }
    }
}
