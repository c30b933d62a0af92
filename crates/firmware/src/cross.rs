//! What the two sides say to each other. They share nothing else: on one processor these are plain calls, on two they
//! are single-producer rings and a common area (I13, I15).

#[cfg(not(loom))]
use core::sync::atomic::{
    AtomicU16, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
#[cfg(loom)]
use loom::sync::atomic::{
    AtomicU16, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use emp_wire::{
    Ack, AckDelay, DoneStatus, Flags, Header, NotReady, NotReadyCause, SACK_WORDS_MAX, Sequence,
};
use hashbrown::HashMap;

use crate::descriptor::Status;
use crate::limits::REPLY_POOL_BYTES;
use crate::memory::Segment;
use crate::path::PathId;
use crate::path::table::Target;
use crate::pool::{Chain, Pool};
use crate::tables::per_peer::PerPeer;
use crate::tables::slots::Slots;
use crate::time::Time;

/// The numbers that a node's streams begin with in both directions, sequence and message numbers: 0 (`SEQ-1`, `MSG-3`), except in tests of
/// what happens where they wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FirstNumbers {
    pub(crate) sequence: Sequence,
    pub(crate) message: u32,
}

/// From the receive side to the send side.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ToSend {
    /// The peer wants a block of a message.
    PullRequested { peer: u32, handle: u32, offset: u64, bytes: u32, pull: u16 },
    /// The peer said what became of a message.
    DoneReceived { peer: u32, handle: u32, status: DoneStatus },
    /// The peer wants a block of a region.
    GetRequested { peer: u32, block: RegionBlock },
    /// A control frame is to be sent reliably.
    Control { peer: u32, control: Control },
    /// A reply that was to be is not needed.
    Forget { values: u32 },
    /// A region is no more: nothing may be read from it.
    RegionRemoved { region: u32 },
}

/// From arriving frames to the send side: what is there to it that the receive side does not need.
#[derive(Clone, Copy)]
pub(crate) enum Heard {
    /// A frame of the pair's present epochs came: its sender is there.
    Frame,
    /// It acknowledges this, beside what else it is.
    Riding(Sequence),
    /// It is an acknowledgement, which may grant so many bytes.
    Ack { cumulative: Sequence, said: Explicit, grant: Option<u32> },
    /// This message was not taken.
    NotReady { number: u32, sequence: Sequence, cause: NotReadyCause, backoff_us: u32 },
}

impl Heard {
    #[inline(always)]
    pub(crate) const fn ack(header: &Header, ack: &Ack) -> Self {
        let said = Explicit {
            latest: header.sequence,
            untaken: header.flags.has(Flags::UNTAKEN),
            marked: header.flags.has(Flags::MARKED),
            sack: ack.sack,
            delay: AckDelay::of_word(header.word),
        };
        Self::Ack { cumulative: header.acknowledge, said, grant: ack.grant }
    }

    pub(crate) const fn not_ready(header: &Header, answer: &NotReady) -> Self {
        let NotReady { cause, backoff_us, .. } = *answer;
        Self::NotReady { number: header.word, sequence: header.sequence, cause, backoff_us }
    }
}

/// A block of exported memory that a peer asked for, found to be within the region and its rights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionBlock {
    /// The region's place in the table: it is removed everywhere before another takes the place.
    pub(crate) region: u32,
    pub(crate) memory: Segment,
    /// Payload bytes of each frame but the last, as the asker wants it.
    pub(crate) fragment: u16,
    /// The asker's identifier of the block, and its name for the whole get.
    pub(crate) pull: u16,
    pub(crate) handle: u32,
}

/// From the send side to the node: a peer does not answer, or cannot be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteNews {
    /// Nothing was heard for a part of the time that a peer gets: look for another route.
    Suspect { peer: u32 },
    /// Nothing was heard for a moment: its host may know why (`RESEND-9`).
    Silent { peer: u32 },
    /// Nothing heard for all of it.
    Lost { peer: u32 },
    /// Nothing arrives by a path, again and again: it may take only shorter frames there than it did (`LIMIT-1`).
    Doubted { peer: u32, path: PathId },
    /// The same of frames of the usual length: is it because of that?
    SizeDoubted { peer: u32, path: PathId },
    /// Nothing arrives by a path: it is to be asked after, and another beside it.
    PathDoubted { peer: u32, path: PathId },
    /// A path to it was silent while another was not (`PATH-5`).
    PathFailed { peer: u32, path: PathId },
    /// Such a path would be used if it were there.
    PathWanted { peer: u32, target: Target },
    /// Others than those there are: one of these may have failed.
    PathsWanted { peer: u32 },
    /// Frames longer than the MTU would be of use, and nobody knows whether they get through (`LONG-2`).
    LongWanted { peer: u32, path: PathId },
    /// Too many of them were lost (`LONG-4`).
    LongFailed { peer: u32, path: PathId },
    /// A message of so many frames of the usual length has arrived by this path; if it was under way alone, after so many nanoseconds (`PATH-9`).
    Arrived { peer: u32, path: PathId, frames: u32, took_ns: Option<u32> },
    /// Round trips by paths to it were measured, of which there may be several: what is small takes the quickest (`PATH-3`).
    Measured { peer: u32 },
    /// A fetching atomic could not be sent: it ends at the receive side.
    Unsent { fetch: u32, status: Status },
}

/// What an acknowledgement says that is a frame of its own.
#[derive(Clone, Copy)]
pub(crate) struct Explicit {
    /// The frame that came last at the receiver: what this answers.
    pub(crate) latest: Sequence,
    /// It was not taken (`ACK-7`).
    pub(crate) untaken: bool,
    /// Something of what it acknowledges came marked (`ACK-9`).
    pub(crate) marked: bool,
    /// Numbers beyond the cumulative one that were taken (`ACK-2`).
    pub(crate) sack: [u64; SACK_WORDS_MAX],
    /// The receiver's own part of the round trip.
    pub(crate) delay: AckDelay,
}

/// Contents of a sequenced frame that carries no user data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Control {
    Pull {
        handle: u32,
        offset: u64,
        bytes: u32,
        pull: u16,
    },
    Done {
        handle: u32,
        status: DoneStatus,
    },
    /// Asks for a block of the peer's exported memory.
    Get(GetBlock),
    /// The end of a get that is not answered by blocks, or of a fetching atomic, whose old values are in the store.
    Reply {
        handle: u32,
        status: DoneStatus,
        values: Option<u32>,
    },
}

impl Control {
    /// The stored values that it carries.
    pub(crate) const fn values(&self) -> Option<u32> {
        match self {
            Self::Reply { values, .. } => *values,
            _ => None,
        }
    }
}

/// A `get` frame without what its sender fills in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GetBlock {
    pub(crate) key: u64,
    pub(crate) offset: u64,
    pub(crate) generation: u32,
    pub(crate) handle: u32,
    pub(crate) bytes: u32,
    pub(crate) endpoint: u16,
    pub(crate) to_endpoint: u16,
    pub(crate) pull: u16,
    pub(crate) fragment: u16,
}

/// Values that atomics fetched: the receive side's, which writes and frees them; the send side reads them when it sends them.
pub(crate) struct Replies {
    pool: Pool,
    stored: Slots<Reply>,
    /// Slots of each peer that has some (`SHARE-1`).
    of: HashMap<u32, u32>,
}

struct Reply {
    peer: u32,
    chain: Chain,
    bytes: u32,
}

impl Replies {
    pub(crate) fn new() -> Self {
        let pool = Pool::new(REPLY_POOL_BYTES);
        let most = pool.slots().1;
        Self { pool, stored: Slots::new(most), of: HashMap::new() }
    }

    /// Room for so many bytes for a peer, or `None`. With `spare`, only if half of the store stays free.
    pub(crate) fn reserve(&mut self, peer: u32, bytes: u32, spare: bool) -> Option<u32> {
        let (free, all) = self.pool.slots();
        let has = self.of.get(&peer).copied().unwrap_or(0);
        if spare && free <= all / 2 || !self.pool.has_room(bytes.into(), has) {
            return None;
        }
        let chain = self.pool.alloc(bytes as usize)?;
        self.of.insert(peer, has + chain.slots());
        let (index, _) = self.stored.insert(Reply { peer, chain, bytes }).expect("a slot each");
        Some(index)
    }

    /// Puts the bytes into their room.
    pub(crate) fn write(&mut self, index: u32, bytes: &[u8]) {
        if let Some(reply) = self.stored.at(index) {
            self.pool.write(&reply.chain, 0, bytes);
        }
    }

    /// Bytes of it, and the pool and chain to read them from.
    pub(crate) fn get(&mut self, index: u32) -> Option<(&mut Pool, &Chain, u64)> {
        let reply = self.stored.at(index)?;
        Some((&mut self.pool, &reply.chain, u64::from(reply.bytes)))
    }

    /// Gives the room back.
    pub(crate) fn free(&mut self, index: u32) {
        let Some(Reply { peer, chain, .. }) = self.stored.remove(index) else { return };
        let has = self.of.get(&peer).map_or(0, |has| has - chain.slots());
        if has == 0 {
            self.of.remove(&peer);
        } else {
            self.of.insert(peer, has);
        }
        self.pool.free(chain);
    }

    /// Nothing is stored, so that nothing can be sent of it.
    pub(crate) fn is_empty(&self) -> bool {
        self.stored.len() == 0
    }

    /// Free slots, and all.
    pub(crate) fn slots(&self) -> (usize, usize) {
        self.pool.slots()
    }
}

/// The common area: per peer, what the send side needs for piggybacking (V18). Each side has words that it alone writes and the other
/// reads; a debt is paid once both name the same one. Small: there may be a hundred thousand idle peers.
pub(crate) struct AckCell {
    /// Of the receive side: the acknowledgement that outgoing frames carry, which is never older than the debt that is named with it.
    acknowledge: AtomicU32,
    /// Of the receive side: the debt's name. An odd one is paid by any frame that carries the acknowledgement, which says all there is to tell.
    owed: AtomicU16,
    /// Of the send side: the debt that went out on a frame last, and below it when, in microseconds (wrapping): enough for a look whether
    /// that was soon.
    carried: AtomicU32,
}

/// What the receive side has published: an acknowledgement, and the name of the debt that it pays.
#[derive(Clone, Copy)]
pub(crate) struct Debt {
    acknowledge: Sequence,
    name: u16,
}

impl Debt {
    /// The bit of names that any frame pays.
    const RIDES: u16 = 1;

    #[inline(always)]
    pub(crate) const fn acknowledge(self) -> Sequence {
        self.acknowledge
    }

    #[inline(always)]
    const fn rides(self) -> bool {
        self.name & Self::RIDES != 0
    }
}

impl AckCell {
    /// Of a peer of which nothing has arrived yet.
    pub(crate) fn new(first: FirstNumbers) -> Self {
        Self {
            acknowledge: AtomicU32::new(first.sequence.0),
            owed: AtomicU16::new(0),
            carried: AtomicU32::new(u32::from(Debt::RIDES) << 16),
        }
    }

    /// What frames acknowledge that leave now.
    #[inline(always)]
    pub(crate) fn debt(&self) -> Debt {
        // In this order: what is acknowledged is as new as the debt, or newer.
        let name = self.owed.load(Acquire);
        Debt { acknowledge: Sequence(self.acknowledge.load(Relaxed)), name }
    }

    #[inline(always)]
    fn paid(&self) -> u16 {
        (self.carried.load(Relaxed) >> 16) as u16
    }

    /// Of the receive side: there is a new debt, which replaces the last. Whether it `rides`: the acknowledgement says all of it.
    #[inline(always)]
    pub(crate) fn owe(&self, acknowledge: Sequence, rides: bool) {
        let mut name =
            (self.owed.load(Relaxed) | Debt::RIDES).wrapping_add(u16::from(rides)).wrapping_add(1);
        // Names come round, and the one that was paid last is no new debt's.
        if name == self.paid() {
            name = name.wrapping_add(2);
        }
        self.acknowledge.store(acknowledge.0, Relaxed);
        self.owed.store(name, Release);
    }

    /// Of the receive side: what is owed leaves by itself.
    #[inline]
    pub(crate) fn withdraw(&self) {
        self.owe(self.debt().acknowledge(), false);
    }

    /// The debt is there to be paid by a frame that leaves.
    #[inline(always)]
    pub(crate) fn is_owed(&self) -> bool {
        self.debt().rides() && !self.is_carried()
    }

    /// A frame has left that paid the debt.
    #[inline(always)]
    pub(crate) fn is_carried(&self) -> bool {
        self.owed.load(Relaxed) == self.paid()
    }

    /// When that was, in microseconds (wrapping).
    #[inline]
    pub(crate) fn carried_us(&self) -> u16 {
        self.carried.load(Relaxed) as u16
    }

    /// Of the send side: a frame has left that carries this acknowledgement. True if that was owed.
    #[inline(always)]
    pub(crate) fn carry(&self, debt: Debt, now: Time) -> bool {
        let pays = debt.rides() && debt.name != self.paid();
        if pays {
            let at_us = (now.0 / 1_000) as u16;
            self.carried.store(u32::from(debt.name) << 16 | u32::from(at_us), Relaxed);
        }
        pays
    }
}

/// The words that both sides look at.
pub(crate) struct Cross {
    pub(crate) acks: PerPeer<AckCell>,
}

impl Cross {
    pub(crate) const fn new() -> Self {
        Self { acks: PerPeer::new() }
    }

    pub(crate) fn add_peer(&mut self, first: FirstNumbers) {
        self.acks.push(AckCell::new(first));
    }
}

/// Every order in which the two sides may use their words, by loom (`make loom`).
#[cfg(all(test, loom))]
mod orders {
    use std::vec::Vec;

    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Frames come and are owed for, by these names' kinds, while frames leave: so many.
    fn owed_and_paid(rides: &'static [bool], sent: usize) {
        loom::model(move || {
            let cell = Arc::new(AckCell::new(FirstNumbers::default()));
            let sending = {
                let cell = Arc::clone(&cell);
                thread::spawn(move || {
                    let left = (0..sent).map(|_| {
                        let debt = cell.debt();
                        // A frame is built with it, and leaves.
                        let pays = cell.carry(debt, Time(1_000));
                        (pays, debt.acknowledge())
                    });
                    left.collect::<Vec<_>>()
                })
            };
            for (number, rides) in (1..).zip(rides) {
                cell.owe(Sequence(number), *rides);
            }
            let left = sending.join().expect("it ends");
            let last = Sequence(rides.len() as u32);
            assert!(left.windows(2).all(|two| two[0].1.0 <= two[1].1.0), "never an older one");
            let paid = left.iter().filter(|(pays, _)| *pays).count();
            assert!(paid <= rides.iter().filter(|rides| **rides).count(), "each debt once");
            if cell.is_carried() {
                assert!(left.iter().any(|(pays, what)| *pays && *what == last), "{left:?}");
            }
            // Whoever sends next pays what is still owed, and then nothing is.
            let owed = cell.is_owed();
            assert_eq!(cell.carry(cell.debt(), Time(2_000)), owed);
            assert!(!cell.is_owed() && cell.debt().acknowledge() == last);
            assert_eq!(cell.is_carried(), rides.last() == Some(&true), "or it leaves by itself");
        });
    }

    #[test]
    fn what_is_owed_is_paid_once_and_by_a_frame_that_says_it() {
        owed_and_paid(&[true, true, true], 2);
    }

    #[test]
    fn what_leaves_by_itself_is_paid_by_no_frame() {
        owed_and_paid(&[true, false], 2);
        owed_and_paid(&[false, true], 2);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_debt_is_paid_once_by_a_frame_that_was_built_with_it() {
        let cell = AckCell::new(FirstNumbers::default());
        assert!(!cell.is_owed() && !cell.is_carried(), "nothing has come");
        cell.owe(Sequence(1), true);
        let built = cell.debt();
        // More comes before the frame has left: that is not paid by it.
        cell.owe(Sequence(2), true);
        assert!(cell.carry(built, Time(7_000)) && !cell.is_carried() && cell.is_owed());
        assert!(cell.carry(cell.debt(), Time(9_000)) && cell.is_carried() && !cell.is_owed());
        assert_eq!(cell.carried_us(), 9);
        assert!(!cell.carry(cell.debt(), Time(11_000)), "it is paid");
        cell.owe(Sequence(3), false);
        assert!(!cell.carry(cell.debt(), Time(0)) && !cell.is_owed() && !cell.is_carried());
    }

    #[test]
    fn no_debt_seems_paid_when_names_come_round() {
        let cell = AckCell::new(FirstNumbers::default());
        cell.owe(Sequence(0), true);
        assert!(cell.carry(cell.debt(), Time(0)));
        for number in 1..200_000 {
            cell.owe(Sequence(number), number % 5 != 0);
            assert!(!cell.is_carried(), "debt {number}");
        }
    }
}
