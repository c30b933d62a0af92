//! What came, copied to where it belongs by another thread than the one that finds out where that is (boards `split:RO` and `split:SR`): the
//! receive's DMA of the multi-CPU paper's Table 2 (I17). Between the two threads is a ring of slots.
//!
//! # Invariant
//!
//! A copy names bytes of a turn's deck, and of a segment that was posted for receiving, as [`ProcessMemory`] would be shown it. It is made in the
//! turn in which it was given, or never: it bears that turn's number, [`Copies::make`] passes over those of others, and returns before the
//! turn changes the deck or tells its owner of the receive. Until then nobody else reads or writes these bytes of the segment: what a frame
//! brings is placed once, and by one of the two threads.

use std::ops::Range;

use emp_firmware::{
    FetchError, HostMemory, LinkIndex, MemoryFault, PeerMemory as Peer, Segment, Stage,
};
use emp_rings::{SlotConsumer, SlotProducer, slot_ring};
use emp_wire::{Checksum, LinkAddress};

use crate::memory::pointer::pointer;
use crate::memory::process::{ProcessMemory, is_apart};

/// Copies under way: those of more frames than a turn has, mostly. What finds no room is copied at once.
const COPIES: usize = 256;

/// Fewer bytes are copied at once: that takes 16 ns of an EPYC of 2024, and a word's crossing between two of its cores 46 (`emp bench stages`).
const BYTES_MIN: usize = 512;

/// One copy, or with no bytes the end of a turn's.
#[derive(Clone, Copy)]
struct Copy {
    turn: u64,
    from: *const u8,
    to: *mut u8,
    bytes: usize,
}

// SAFETY: only `Copies::make` looks behind the pointers, as the module's invariant allows any one thread.
unsafe impl Send for Copy {}

impl Default for Copy {
    fn default() -> Self {
        Self { turn: 0, from: std::ptr::null(), to: std::ptr::null_mut(), bytes: 0 }
    }
}

/// Both ends of the ring.
pub(crate) struct Placements {
    pub(crate) given: Copying,
    pub(crate) copies: Copies,
}

impl Placements {
    pub(crate) fn new() -> Self {
        let (given, taken) = slot_ring(COPIES);
        Self { given: Copying { given, turn: 0 }, copies: Copies { taken, turn: 0 } }
    }

    /// A further turn begins: nothing of those before is made any more.
    pub(crate) fn begin(&mut self) {
        self.given.turn += 1;
        self.copies.turn = self.given.turn;
    }
}

/// The end of who finds out what belongs where.
pub(crate) struct Copying {
    given: SlotProducer<Copy>,
    turn: u64,
}

/// The end of who copies.
pub(crate) struct Copies {
    taken: SlotConsumer<Copy>,
    turn: u64,
}

impl Copies {
    /// Makes the copies of this turn as they come, until there are no more; pauses between two looks that find none.
    pub(crate) fn make(&mut self, mut pause: impl FnMut()) {
        loop {
            match self.taken.take(|copy| *copy) {
                Some(copy) if copy.turn != self.turn => {}
                Some(Copy { bytes: 0, .. }) => return,
                // SAFETY: it is of this turn (module invariant). `copy` and not `copy_nonoverlapping`, as in `ProcessMemory`.
                Some(Copy { from, to, bytes, .. }) => unsafe { std::ptr::copy(from, to, bytes) },
                None => pause(),
            }
        }
    }
}

/// The memory of a half that takes frames, while another thread copies. Once it is dropped, also by a panic, there are no more copies in this turn.
pub(crate) struct Placing<'a> {
    memory: &'a mut ProcessMemory,
    copying: &'a mut Copying,
    /// Bytes that stay what they are for the rest of the turn: its deck's.
    deck: Range<*const u8>,
}

impl<'a> Placing<'a> {
    pub(crate) fn new(
        memory: &'a mut ProcessMemory,
        copying: &'a mut Copying,
        deck: &'a [u8],
    ) -> Self {
        Self { memory, copying, deck: deck.as_ptr_range() }
    }

    /// True if another thread makes this copy.
    fn give(&mut self, to: Segment, from: &[u8]) -> bool {
        let (deck, from_range) = (&self.deck, from.as_ptr_range());
        let stays = deck.start <= from_range.start && from_range.end <= deck.end;
        if from.len() < BYTES_MIN || !stays || is_apart(to) || from.len() as u64 != to.bytes {
            return false;
        }
        let Copying { given, turn } = &mut *self.copying;
        // The last one is for the end.
        if given.free() < 2 {
            return false;
        }
        let copy = Copy { turn: *turn, from: from.as_ptr(), to: pointer(to), bytes: from.len() };
        given.fill(|slot| *slot = copy);
        given.publish();
        true
    }
}

impl Drop for Placing<'_> {
    fn drop(&mut self) {
        let end = Copy { turn: self.copying.turn, ..Copy::default() };
        self.copying.given.fill(|slot| *slot = end);
        self.copying.given.publish();
    }
}

impl HostMemory for Placing<'_> {
    fn read(&self, from: Segment, into: &mut [u8]) -> Result<(), MemoryFault> {
        self.memory.read(from, into)
    }

    fn write(&mut self, to: Segment, from: &[u8]) -> Result<(), MemoryFault> {
        if self.give(to, from) { Ok(()) } else { self.memory.write(to, from) }
    }

    fn write_last(&mut self, to: Segment, from: &[u8]) -> Result<(), MemoryFault> {
        self.memory.write_last(to, from)
    }

    fn checksum(&self, of: Segment, sum: &mut Checksum) -> Result<(), MemoryFault> {
        self.memory.checksum(of, sum)
    }

    fn lends(&self, segment: Segment) -> bool {
        self.memory.lends(segment)
    }

    fn stamp(&self, link: LinkIndex, peer: LinkAddress) -> Option<u64> {
        self.memory.stamp(link, peer)
    }

    fn fetch(
        &mut self,
        from: &Peer<'_>,
        to: &[Segment],
        rest: &mut [u8],
    ) -> Result<(), FetchError> {
        self.memory.fetch(from, to, rest)
    }

    fn enter(&self, stage: Stage) -> Stage {
        self.memory.enter(stage)
    }

    fn leave(&self, outer: Stage) {
        self.memory.leave(outer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(of: &mut [u8]) -> Segment {
        Segment { address: of.as_mut_ptr().expose_provenance() as u64, bytes: of.len() as u64 }
    }

    /// A memory that nothing else is shown than what a test's buffers hold, which outlive it.
    fn memory() -> ProcessMemory {
        // SAFETY: as the tests below have it.
        unsafe { ProcessMemory::new(Vec::new()) }
    }

    #[test]
    fn what_came_is_copied_by_the_other_thread() {
        const PIECES: usize = if cfg!(miri) { 300 } else { 3_000 };
        let deck: Vec<u8> = (0..PIECES * BYTES_MIN).map(|at| (at / 7) as u8).collect();
        let (mut placements, mut memory) = (Placements::new(), memory());
        for turn in 0..3 {
            let mut host = vec![0; deck.len()];
            let all = segment(&mut host);
            placements.begin();
            let Placements { given, copies } = &mut placements;
            std::thread::scope(|scope| {
                scope.spawn(|| copies.make(std::thread::yield_now));
                let mut placing = Placing::new(&mut memory, given, &deck);
                for (at, piece) in deck.chunks(BYTES_MIN).enumerate() {
                    let to = all.part((at * BYTES_MIN) as u64, BYTES_MIN as u64);
                    placing.write(to, piece).unwrap();
                }
            });
            assert!(host == deck, "turn {turn}");
        }
    }

    #[test]
    fn only_what_stays_is_given_away() {
        let (mut placements, mut memory) = (Placements::new(), memory());
        let (deck, elsewhere) = (vec![1; 4 * BYTES_MIN], vec![2; BYTES_MIN]);
        let mut host = vec![0; BYTES_MIN];
        let to = segment(&mut host);
        placements.begin();
        let Placements { given, copies } = &mut placements;
        let mut placing = Placing::new(&mut memory, given, &deck);
        assert!(placing.give(to, &deck[..BYTES_MIN]));
        assert!(!placing.give(to, &elsewhere), "of no deck");
        assert!(!placing.give(to.part(0, 8), &deck[..8]), "short");
        assert!(!placing.give(to, &deck[..BYTES_MIN + 1]), "lengths differ");
        let given = (0..2 * COPIES).filter(|_| placing.give(to, &deck[..BYTES_MIN])).count();
        assert_eq!(given, COPIES - 2, "the ring is full but for the end");
        assert_eq!(placing.write(to, &deck), Err(MemoryFault));
        drop(placing);
        copies.make(std::thread::yield_now);
        assert!(host.iter().all(|byte| *byte == 1));
    }

    #[test]
    fn copies_of_a_turn_that_was_broken_off_are_never_made() {
        let (mut placements, mut memory) = (Placements::new(), memory());
        let deck = vec![1; BYTES_MIN];
        let mut host = vec![0; BYTES_MIN];
        let to = segment(&mut host);
        placements.begin();
        assert!(Placing::new(&mut memory, &mut placements.given, &deck).give(to, &deck));
        placements.begin();
        drop(Placing::new(&mut memory, &mut placements.given, &deck));
        placements.copies.make(std::thread::yield_now);
        assert!(host.iter().all(|byte| *byte == 0));
    }
}
