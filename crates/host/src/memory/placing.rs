//! What came, copied to where it belongs by another thread than the one that finds out where that is (boards `split:RO` and `split:SR`): the
//! receive's DMA of the multi-CPU paper's Table 2 (I17). Between the two threads is a ring of slots.
//!
//! # Invariant
//!
//! A piece names bytes of a turn's deck, and of a segment that was posted for receiving, as [`ProcessMemory`] would be shown it. Both ends of the
//! ring are lent by [`Placements::lend`] for as long as deck and memory are, and what one turn has left there the next throws away; so
//! a piece is copied in its turn or never. The turn tells no owner of a receive before [`Copies::make`] has returned. Bytes of a segment for which
//! a copy was given and not made are written by nobody else: what is for the same bytes is given behind it, and so made after it.

use std::marker::PhantomData;
use std::ops::Range;

use emp_firmware::{FetchError, HostMemory, LinkIndex, MemoryFault, PeerMemory as Peer, Segment};
use emp_rings::{SlotConsumer, SlotProducer, slot_ring};
use emp_wire::{Checksum, LinkAddress};

use crate::memory::pointer::pointer;
use crate::memory::process::{ProcessMemory, is_apart};

/// Copies under way: those of more frames than a turn has, mostly. What finds no room is given with the end.
const COPIES: usize = 256;

/// Fewer bytes are copied at once: that takes 16 ns of an EPYC of 2024, and a word's crossing between two of its cores 46 (`emp bench stages`).
pub(crate) const BYTES_MIN: usize = 512;

/// What is to be copied.
#[derive(Clone, Copy)]
struct Piece {
    from: *const u8,
    to: *mut u8,
    bytes: usize,
}

// SAFETY: only `Piece::copy` looks behind the pointers, as the module's invariant allows one thread.
unsafe impl Send for Piece {}

impl Piece {
    /// # Safety
    ///
    /// It is of the present turn, and no copy that was given before it is still to be made.
    unsafe fn copy(&self) {
        // SAFETY: valid and nobody else's (module invariant). `copy` and not `copy_nonoverlapping`, as in `ProcessMemory`.
        unsafe { std::ptr::copy(self.from, self.to, self.bytes) };
    }

    fn meets(&self, to: Segment) -> bool {
        let start = self.to.addr() as u64;
        start < to.address.saturating_add(to.bytes) && to.address < start + self.bytes as u64
    }
}

/// A slot of the ring.
#[derive(Default)]
enum Slot {
    #[default]
    Empty,
    One(Piece),
    /// There are no more but these.
    Last(Vec<Piece>),
}

/// The ring, and what was given in this turn.
pub(crate) struct Placements {
    given: SlotProducer<Slot>,
    taken: SlotConsumer<Slot>,
    pieces: Vec<Piece>,
}

impl Placements {
    pub(crate) fn new() -> Self {
        let (given, taken) = slot_ring(COPIES);
        Self { given, taken, pieces: Vec::new() }
    }

    /// Both ends for one turn: of who finds out what belongs where, whose memory that is, and of who copies.
    pub(crate) fn lend<'a>(
        &'a mut self,
        memory: &'a mut ProcessMemory,
        deck: &'a [u8],
    ) -> (Placing<'a>, Copies<'a>) {
        let Self { given, taken, pieces } = self;
        // Of a turn that was broken off.
        while taken.take(std::mem::take).is_some() {}
        pieces.clear();
        let deck = deck.as_ptr_range();
        let placing = Placing { memory, given, pieces, rest: Vec::new(), deck };
        (placing, Copies { taken, of: PhantomData })
    }
}

/// The end of who copies.
pub(crate) struct Copies<'a> {
    taken: &'a mut SlotConsumer<Slot>,
    of: PhantomData<&'a [u8]>,
}

impl Copies<'_> {
    /// Makes the copies of this turn as they come, until there are no more; pauses between two looks that find none.
    pub(crate) fn make(self, mut pause: impl FnMut()) {
        loop {
            match self.taken.take(std::mem::take) {
                // SAFETY: this is the turn in which it was given, and they are copied in their order (module invariant).
                Some(Slot::One(piece)) => unsafe { piece.copy() },
                Some(Slot::Last(rest)) => {
                    // SAFETY: likewise.
                    return rest.iter().for_each(|piece| unsafe { piece.copy() });
                }
                Some(Slot::Empty) | None => pause(),
            }
        }
    }
}

/// The memory of a half that takes frames, while another thread copies. Once it is dropped, also by a panic, there are no more copies in this turn.
pub(crate) struct Placing<'a> {
    memory: &'a mut ProcessMemory,
    given: &'a mut SlotProducer<Slot>,
    /// What was given in this turn, for what may be for the same bytes.
    pieces: &'a mut Vec<Piece>,
    /// What had no room, and all that came after that.
    rest: Vec<Piece>,
    /// Bytes that stay what they are for the rest of the turn: its deck's.
    deck: Range<*const u8>,
}

impl Placing<'_> {
    /// True if the other thread makes this copy.
    fn give(&mut self, to: Segment, from: &[u8]) -> bool {
        let range = from.as_ptr_range();
        let stays = self.deck.start <= range.start && range.end <= self.deck.end;
        if !stays || is_apart(to) || from.len() as u64 != to.bytes || to.bytes == 0 {
            debug_assert!(!self.meets(to), "what is no frame's is for no receive's bytes");
            return false;
        }
        // A message that begins anew is placed again, and programs in C may post one buffer twice.
        if from.len() < BYTES_MIN && !self.meets(to) {
            return false;
        }
        let piece = Piece { from: from.as_ptr(), to: pointer(to), bytes: from.len() };
        self.pieces.push(piece);
        // The last slot is for the end.
        if !self.rest.is_empty() || self.given.free() < 2 {
            self.rest.push(piece);
            return true;
        }
        self.given.fill(|slot| *slot = Slot::One(piece));
        self.given.publish();
        true
    }

    /// A copy that was given in this turn is for some of these bytes.
    fn meets(&self, to: Segment) -> bool {
        self.pieces.iter().any(|piece| piece.meets(to))
    }
}

impl Drop for Placing<'_> {
    fn drop(&mut self) {
        let rest = std::mem::take(&mut self.rest);
        self.given.fill(|slot| *slot = Slot::Last(rest));
        self.given.publish();
    }
}

impl HostMemory for Placing<'_> {
    fn read(&self, from: Segment, into: &mut [u8]) -> Result<(), MemoryFault> {
        debug_assert!(!self.meets(from), "what is received is read by nobody in its turn");
        self.memory.read(from, into)
    }

    fn write(&mut self, to: Segment, from: &[u8]) -> Result<(), MemoryFault> {
        if self.give(to, from) { Ok(()) } else { self.memory.write(to, from) }
    }

    fn write_last(&mut self, to: Segment, from: &[u8]) -> Result<(), MemoryFault> {
        debug_assert!(!self.meets(to), "puts are the whole engine's");
        self.memory.write_last(to, from)
    }

    fn checksum(&self, of: Segment, sum: &mut Checksum) -> Result<(), MemoryFault> {
        debug_assert!(!self.meets(of), "what is received is read by nobody in its turn");
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
        debug_assert!(self.pieces.is_empty(), "another process's memory is fetched after the turn");
        self.memory.fetch(from, to, rest)
    }
}

#[cfg(test)]
mod tests {
    use std::thread::yield_now;

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
            let (mut placing, copies) = placements.lend(&mut memory, &deck);
            std::thread::scope(|scope| {
                scope.spawn(|| copies.make(yield_now));
                for (at, piece) in deck.chunks(BYTES_MIN).enumerate() {
                    let to = all.part((at * BYTES_MIN) as u64, BYTES_MIN as u64);
                    placing.write(to, piece).unwrap();
                }
                assert_eq!(placing.pieces.len(), PIECES, "all were given away");
                drop(placing);
            });
            assert!(host == deck, "turn {turn}");
        }
    }

    #[test]
    fn only_what_stays_and_is_long_is_given_away() {
        let (mut placements, mut memory) = (Placements::new(), memory());
        let (deck, elsewhere) = (vec![1; 4 * BYTES_MIN], vec![2; BYTES_MIN]);
        let mut host = vec![0; BYTES_MIN];
        let to = segment(&mut host);
        let (mut placing, copies) = placements.lend(&mut memory, &deck);
        let frame = &deck[..BYTES_MIN];
        assert!(!placing.give(to, &elsewhere), "of no deck");
        assert!(!placing.give(to.part(0, 8), &deck[..8]), "short");
        assert!(!placing.give(to, &deck[..BYTES_MIN + 1]), "lengths differ");
        for apart in [1 << 62, 1 << 63, 3 << 62] {
            assert!(!placing.give(Segment { address: apart, ..to }, frame), "no pointer");
        }
        assert_eq!(placing.write(to, &deck), Err(MemoryFault));
        for given in 0..2 * COPIES {
            assert!(placing.give(to, frame), "{given}");
        }
        assert_eq!(placing.rest.len(), COPIES + 1, "all but what the ring has room for");
        drop(placing);
        copies.make(yield_now);
        assert!(host.iter().all(|byte| *byte == 1));
    }

    /// Bytes for which a copy was given are written behind that, however few they are and however full the ring is.
    #[test]
    fn what_is_for_the_same_bytes_comes_behind() {
        for before in [1, 2 * COPIES] {
            let (mut placements, mut memory) = (Placements::new(), memory());
            let (deck, last) = (vec![1; BYTES_MIN], BYTES_MIN - 8);
            let all: Vec<u8> = deck.iter().copied().chain([2; 16]).collect();
            let mut host = vec![0; BYTES_MIN + 8];
            let to = segment(&mut host);
            let (mut placing, copies) = placements.lend(&mut memory, &all);
            for _ in 0..before {
                placing.write(to.part(0, BYTES_MIN as u64), &all[..BYTES_MIN]).unwrap();
            }
            placing.write(to.part(last as u64, 16), &all[BYTES_MIN..]).unwrap();
            drop(placing);
            copies.make(yield_now);
            assert!(host[..last].iter().all(|byte| *byte == 1));
            assert!(host[last..].iter().all(|byte| *byte == 2));
        }
    }

    #[test]
    fn copies_of_a_turn_that_was_broken_off_are_never_made() {
        for given in [1, 2 * COPIES] {
            let (mut placements, mut memory) = (Placements::new(), memory());
            let deck = vec![1; BYTES_MIN];
            let mut host = vec![0; BYTES_MIN];
            let to = segment(&mut host);
            let (mut placing, _) = placements.lend(&mut memory, &deck);
            assert!((0..given).all(|_| placing.give(to, &deck)));
            drop(placing);
            let (placing, copies) = placements.lend(&mut memory, &deck);
            drop(placing);
            copies.make(yield_now);
            assert!(host.iter().all(|byte| *byte == 0));
        }
    }
}
