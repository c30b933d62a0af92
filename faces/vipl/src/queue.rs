//! Work queues: descriptors in the order of their posts. They end in any order in the node; the consumer is told in order.

use std::collections::VecDeque;

use emp_face::handles::Key;
use emp_host::RawOp;

use crate::abi::*;
use crate::descriptor::{Outcome, Work};
use crate::memory::Used;

/// Which of a VI's two queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Send,
    Receive,
}

/// Where a descriptor stands.
pub enum Stage {
    /// Still to be posted to the node.
    Held(Box<Work>),
    /// The node has it, in so many parts.
    Flying { op: Option<RawOp>, parts: u8 },
    /// It has ended, and the consumer was not told.
    Ended(Outcome),
}

/// A descriptor.
pub struct Entry {
    pub address: u64,
    pub operation: u16,
    /// Bytes of its segments.
    pub bytes: u32,
    pub used: Used,
    pub stage: Stage,
    /// Immediate data that goes by a message of its own once its RDMA write is done, or when there is room.
    pub owed: Option<u32>,
    /// It ends with this error, however it ends in the node.
    pub forced: u32,
    /// The first error of its parts.
    pub error: u32,
}

/// A handler that waits for a descriptor, with its context.
pub type Notify = (QueueHandler, usize);

#[derive(Default)]
pub struct Queue {
    pub entries: VecDeque<Entry>,
    /// Number of the first entry.
    first: u32,
    /// Done, and not taken by the consumer: the descriptor, and whether it ended in error.
    pub done: VecDeque<(u64, bool)>,
    /// Entries that are held, and those that owe a message.
    pub held: usize,
    pub owes: usize,
    /// An entry has an error that ends the connection once it is told of: what comes after it ends flushed.
    pub doomed: bool,
    /// RDMA reads under way.
    pub reads: usize,
    pub notify: VecDeque<Notify>,
}

/// What the node gives back with an operation: VI, queue, and number within the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context {
    pub vi: Key,
    pub side: Side,
    pub serial: u32,
}

const PLACE_BITS: u32 = 20;
/// Of a key, those that count.
const GENERATION_BITS: u32 = 22;
/// More than a queue has entries: which one is meant follows from the number of the first.
const SERIAL_BITS: u32 = 19;
const SERIAL_MASK: u32 = (1 << SERIAL_BITS) - 1;
const RECEIVE: u64 = 1 << (PLACE_BITS + GENERATION_BITS + SERIAL_BITS);

impl Context {
    /// As the descriptor for the node has it; the two top bits are zero.
    #[inline]
    pub fn pack(self) -> u64 {
        let generation = self.vi.generation & ((1 << GENERATION_BITS) - 1);
        let side = if self.side == Side::Receive { RECEIVE } else { 0 };
        side | u64::from(self.serial & SERIAL_MASK) << (PLACE_BITS + GENERATION_BITS)
            | u64::from(generation) << PLACE_BITS
            | u64::from(self.vi.place)
    }

    /// What was packed, for the NIC at this place.
    #[inline]
    pub fn of(packed: u64, nic: u32) -> Self {
        let generation = (packed >> PLACE_BITS) as u32 & ((1 << GENERATION_BITS) - 1);
        Self {
            vi: Key {
                place: packed as u32 & ((1 << PLACE_BITS) - 1),
                generation: nic << GENERATION_BITS | generation,
            },
            side: if packed & RECEIVE == 0 { Side::Send } else { Side::Receive },
            serial: (packed >> (PLACE_BITS + GENERATION_BITS)) as u32 & SERIAL_MASK,
        }
    }
}

impl Queue {
    /// Number of the next entry.
    #[inline]
    pub fn next(&self) -> u32 {
        self.first.wrapping_add(self.entries.len() as u32)
    }

    /// How many entries have ended, as a number that wraps.
    pub fn taken(&self) -> u32 {
        self.first
    }

    #[inline]
    pub fn push(&mut self, entry: Entry) {
        self.held += usize::from(matches!(entry.stage, Stage::Held(_)));
        self.owes += usize::from(entry.owed.is_some());
        self.entries.push_back(entry);
    }

    /// The entry of a number.
    #[inline]
    pub fn get_mut(&mut self, serial: u32) -> Option<&mut Entry> {
        let place = serial.wrapping_sub(self.first) & SERIAL_MASK;
        self.entries.get_mut(place as usize)
    }

    /// Takes the first entry out if it has ended.
    #[inline]
    pub fn take_ended(&mut self) -> Option<(Entry, Outcome)> {
        let Stage::Ended(outcome) = self.entries.front()?.stage else { return None };
        self.first = self.first.wrapping_add(1);
        self.entries.pop_front().map(|entry| (entry, outcome))
    }

    /// Number of the first entry that is held.
    pub fn first_held(&self) -> Option<u32> {
        if self.held == 0 {
            return None;
        }
        let held = |entry: &Entry| matches!(entry.stage, Stage::Held(_));
        let place = self.entries.iter().position(held)?;
        Some(self.first.wrapping_add(place as u32))
    }

    /// Takes the work of an entry that is held, whose stage is to be set next.
    pub fn unhold(&mut self, serial: u32) -> Option<Box<Work>> {
        let entry = self.get_mut(serial)?;
        let flying = Stage::Flying { op: None, parts: 0 };
        match std::mem::replace(&mut entry.stage, flying) {
            Stage::Held(work) => {
                self.held -= 1;
                Some(work)
            }
            stage => {
                entry.stage = stage;
                None
            }
        }
    }

    /// Nothing is posted, and nothing done waits to be taken.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.done.is_empty()
    }
}

/// The operation as a status has it.
pub fn operation_status(side: Side, operation: u16) -> u32 {
    match (side, operation) {
        (Side::Receive, _) => STATUS_RECEIVE,
        (_, OP_RDMA_WRITE) => STATUS_RDMA_WRITE,
        (_, OP_RDMA_READ) => STATUS_RDMA_READ,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(address: u64) -> Entry {
        Entry {
            address,
            operation: 0,
            bytes: 0,
            used: Used::default(),
            stage: Stage::Flying { op: None, parts: 1 },
            owed: None,
            forced: 0,
            error: 0,
        }
    }

    #[test]
    fn contexts_survive_the_way() {
        for side in [Side::Send, Side::Receive] {
            for (place, serial) in [(0, 0), ((1 << PLACE_BITS) - 1, SERIAL_MASK), (5, 7)] {
                let vi = Key { place, generation: 3 << GENERATION_BITS | 77 };
                let context = Context { vi, side, serial };
                assert_eq!(Context::of(context.pack(), 3), context);
                assert_eq!(context.pack() >> 62, 0);
            }
        }
    }

    #[test]
    fn the_end_is_told_in_the_order_of_posts_across_the_wrap_of_numbers() {
        let mut queue = Queue { first: u32::MAX - 1, ..Queue::default() };
        for address in 0..4 {
            queue.push(entry(address));
        }
        assert_eq!(queue.next(), 2);
        let ended = Outcome { status: 0, length: 0, immediate: None };
        for serial in [1, u32::MAX, u32::MAX - 1] {
            queue.get_mut(serial & SERIAL_MASK).unwrap().stage = Stage::Ended(ended);
        }
        let mut told = Vec::new();
        while let Some((entry, _)) = queue.take_ended() {
            told.push(entry.address);
        }
        assert_eq!(told, [0, 1]);
        assert!(queue.get_mut(7).is_none());
        queue.get_mut(0).unwrap().stage = Stage::Ended(ended);
        assert_eq!(queue.take_ended().map(|(entry, _)| entry.address), Some(2));
        assert_eq!(queue.take_ended().map(|(entry, _)| entry.address), Some(3));
        assert!(queue.is_empty());
    }
}
