//! Frames that arrive in slices (`SLICE-2`), because they were longer than their way takes now.
//!
//! What has come of a frame is kept until it is whole: a frame of a hundred slices that is resent on a path that loses one of fifty
//! never comes whole in one go, but what is missing of it shrinks with each copy.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use emp_wire::{Epoch, LONG_FRAME_BYTES, SLICE_STEP_BYTES, Sequence, SliceWord};

use crate::limits::{ASSEMBLIES_MAX, ASSEMBLIES_OF_PEER_MAX};
use crate::time::{Span, Time};

/// A frame of which nothing new came for so long makes room for another peer's: more than two runs of a timer at its usual ceiling, so that
/// it is still here when its sender resends it; short against what a peer that waits for room is given up after.
const STALE_AFTER: Span = Span::ms(250);

/// Words of the map of a frame's units of [`SLICE_STEP_BYTES`].
const MAP_WORDS: usize = LONG_FRAME_BYTES.div_ceil(SLICE_STEP_BYTES).div_ceil(64);

/// Which frame a slice is of. The epochs are both ends', so that what is left of an old pair is nothing to the new one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SlicedFrame {
    pub(crate) peer: u32,
    pub(crate) source_epoch: Epoch,
    pub(crate) destination_epoch: u16,
    pub(crate) sequence: Sequence,
}

/// A frame of which some bytes are here.
struct Partial {
    of: SlicedFrame,
    /// When something new of it last came.
    touched: Time,
    /// Its bytes in all; 0: nothing is here.
    total: usize,
    /// Units of it that are here, and how many.
    map: [u64; MAP_WORDS],
    filled: usize,
    bytes: Box<[u8]>,
}

/// All such frames. Has no memory until the first slice comes.
pub(crate) struct Assembly {
    partial: Vec<Partial>,
}

/// A frame that is whole again.
pub(crate) struct Whole {
    at: usize,
    total: usize,
    bytes: Box<[u8]>,
}

impl Whole {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.total]
    }
}

impl Assembly {
    pub(crate) const fn new() -> Self {
        Self { partial: Vec::new() }
    }

    /// Frames of which something is here.
    pub(crate) fn len(&self) -> usize {
        self.partial.len()
    }

    /// Adds a slice. `Err`: it is none of such a frame, or there is no room. `taken`: frames that are not wanted any more, as they
    /// came otherwise. The whole frame is to be given [`back`](Self::back).
    pub(crate) fn add(
        &mut self,
        now: Time,
        of: SlicedFrame,
        word: SliceWord,
        bytes: &[u8],
        taken: impl Fn(&SlicedFrame) -> bool,
    ) -> Result<Option<Whole>, ()> {
        let (offset, total) = (usize::from(word.offset), usize::from(word.total));
        let end = offset + bytes.len();
        let in_steps = |place: usize| place.is_multiple_of(SLICE_STEP_BYTES);
        if total > LONG_FRAME_BYTES || end > total || !in_steps(offset) {
            return Err(());
        }
        if !in_steps(end) && end != total {
            return Err(());
        }
        let at = match self.partial.iter().position(|p| p.total > 0 && p.of == of) {
            Some(at) => at,
            None => self.place(now, of, taken).ok_or(())?,
        };
        let partial = &mut self.partial[at];
        if partial.total != total {
            (partial.of, partial.touched, partial.total) = (of, now, total);
            (partial.map, partial.filled) = ([0; MAP_WORDS], 0);
        }
        let mut new = 0;
        for unit in offset / SLICE_STEP_BYTES..end.div_ceil(SLICE_STEP_BYTES) {
            let (word, bit) = (&mut partial.map[unit / 64], 1 << (unit % 64));
            new += usize::from(*word & bit == 0);
            *word |= bit;
        }
        if new == 0 {
            // A copy: who only ever repeats what is here does not keep a place by that.
            return Ok(None);
        }
        partial.touched = now;
        partial.bytes[offset..end].copy_from_slice(bytes);
        partial.filled += new;
        if partial.filled < total.div_ceil(SLICE_STEP_BYTES) {
            return Ok(None);
        }
        // Taken out, so that it can be read while this is changed: nothing goes on with it.
        partial.total = 0;
        Ok(Some(Whole { at, total, bytes: core::mem::take(&mut partial.bytes) }))
    }

    /// A whole frame was dealt with: its memory is free for the next.
    pub(crate) fn back(&mut self, whole: Whole) {
        self.partial[whole.at].bytes = whole.bytes;
    }

    /// Where a frame is put together. A peer has few at a time, and keeps those that its sender waits for first: so the oldest becomes whole
    /// whatever else is lost. What other peers have begun goes on, unless it has been long that something new of it came: those that find
    /// no room come again. If all made room for each other, none would ever be whole.
    fn place(
        &mut self,
        now: Time,
        of: SlicedFrame,
        taken: impl Fn(&SlicedFrame) -> bool,
    ) -> Option<usize> {
        for partial in &mut self.partial {
            if partial.total > 0 && taken(&partial.of) {
                partial.total = 0;
            }
        }
        let own = |p: &Partial| p.total > 0 && p.of.peer == of.peer;
        if self.partial.iter().filter(|p| own(p)).count() >= ASSEMBLIES_OF_PEER_MAX {
            let ahead = |p: &Partial| {
                // What is left of an old pair is no better than what is farther ahead than any.
                let same = (p.of.source_epoch, p.of.destination_epoch)
                    == (of.source_epoch, of.destination_epoch);
                if same { p.of.sequence.since(of.sequence) } else { i32::MAX }
            };
            let all = (0..self.partial.len()).filter(|at| own(&self.partial[*at]));
            let last = all.max_by_key(|at| ahead(&self.partial[*at]))?;
            return self.free(last, ahead(&self.partial[last]) > 0);
        }
        if let Some(at) = self.partial.iter().position(|p| p.total == 0) {
            return Some(at);
        }
        if self.partial.len() < ASSEMBLIES_MAX {
            let bytes = vec![0; LONG_FRAME_BYTES].into_boxed_slice();
            let (map, filled) = ([0; MAP_WORDS], 0);
            self.partial.push(Partial { of, touched: now, total: 0, map, filled, bytes });
            return Some(self.partial.len() - 1);
        }
        let oldest = (0..self.partial.len()).min_by_key(|at| self.partial[*at].touched)?;
        self.free(oldest, now.since(self.partial[oldest].touched) >= STALE_AFTER)
    }

    /// Gives up what is there, if it `may`.
    fn free(&mut self, at: usize, may: bool) -> Option<usize> {
        may.then(|| {
            self.partial[at].total = 0;
            at
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a slice.
    const STEP: usize = SLICE_STEP_BYTES;

    const fn frame(peer: u32, sequence: u32) -> SlicedFrame {
        let source_epoch = Epoch::new(7);
        SlicedFrame { peer, source_epoch, destination_epoch: 9, sequence: Sequence(sequence) }
    }

    fn bytes_of(total: usize) -> Vec<u8> {
        (0..total).map(|i| (i * 31 % 251) as u8).collect()
    }

    /// Slice `at` of a frame of so many bytes, in steps of `STEP`. Whole, or refused.
    fn add(
        assembly: &mut Assembly,
        now: Time,
        of: SlicedFrame,
        at: usize,
        total: usize,
    ) -> Result<bool, ()> {
        let all = bytes_of(total);
        let (start, end) = (at * STEP, ((at + 1) * STEP).min(total));
        let word = SliceWord { offset: start as u16, total: total as u16 };
        let whole = assembly.add(now, of, word, &all[start..end], |_| false)?;
        Ok(whole.is_some_and(|whole| {
            assert_eq!(whole.bytes(), all);
            assembly.back(whole);
            true
        }))
    }

    #[test]
    fn slices_in_any_order_make_a_frame() {
        let mut assembly = Assembly::new();
        let now = Time(0);
        let total = 4 * STEP + 5;
        for order in [[0, 1, 2, 3, 4], [4, 2, 0, 3, 1]] {
            for (count, at) in order.into_iter().enumerate() {
                assert_eq!(add(&mut assembly, now, frame(7, 1), at, total), Ok(count == 4));
                let copy = add(&mut assembly, now, frame(7, 2), at, 9 * STEP);
                assert_eq!(copy, Ok(false), "another frame goes on beside it");
            }
        }
        assert_eq!(assembly.partial.len(), 2, "what is free is used again");
    }

    /// A frame of 113 slices, each copy of which loses some: it is whole when each has come once.
    #[test]
    fn what_came_is_kept_between_copies() {
        let mut assembly = Assembly::new();
        let total = 113 * STEP;
        let mut copies = 0;
        let whole = (0..10u64).any(|copy| {
            copies += 1;
            let now = Time(0) + Span::ms(100 * copy);
            let arrives = |at: usize| !(at as u64 * 7 + copy * 13).is_multiple_of(11);
            (0..113).filter(|at| arrives(*at)).any(|at| {
                add(&mut assembly, now, frame(7, 1), at, total).expect("it is a slice of it")
            })
        });
        assert!(whole && copies == 2, "{copies} copies");
    }

    /// Copies may be cut for different limits.
    #[test]
    fn slices_may_overlap() {
        let mut assembly = Assembly::new();
        let all = bytes_of(10 * STEP + 1);
        let mut add = |start: usize, end: usize| {
            let word = SliceWord { offset: start as u16, total: all.len() as u16 };
            let added = assembly.add(Time(0), frame(7, 1), word, &all[start..end], |_| false);
            added.map(|whole| whole.is_some_and(|whole| whole.bytes() == all))
        };
        assert_eq!(add(3 * STEP, 6 * STEP), Ok(false));
        assert_eq!(add(0, 4 * STEP), Ok(false));
        assert_eq!(add(5 * STEP, 10 * STEP), Ok(false));
        assert_eq!(add(9 * STEP, 10 * STEP + 1), Ok(true));
    }

    #[test]
    fn what_is_no_slice_is_refused() {
        let mut assembly = Assembly::new();
        let mut refuses = |offset: usize, total: usize, bytes: usize| {
            let word = SliceWord { offset: offset as u16, total: total as u16 };
            let part = vec![1; bytes];
            assembly.add(Time(0), frame(7, 1), word, &part, |_| false).is_err()
        };
        assert!(refuses(1, 5 * STEP, STEP), "it begins in no step");
        assert!(refuses(STEP, 5 * STEP, STEP - 1), "it ends in none");
        assert!(refuses(4 * STEP, 5 * STEP, STEP + 1), "behind the end");
        assert!(refuses(0, LONG_FRAME_BYTES + 1, STEP), "longer than any frame");
        assert!(assembly.partial.is_empty());
    }

    #[test]
    fn another_pairs_slices_are_not_mixed_in() {
        let mut assembly = Assembly::new();
        let (old, total) = (frame(7, 1), 2 * STEP);
        assert_eq!(add(&mut assembly, Time(0), old, 0, total), Ok(false));
        let new = SlicedFrame { source_epoch: Epoch::new(8), ..old };
        assert_eq!(add(&mut assembly, Time(0), new, 1, total), Ok(false));
        let moved_on = SlicedFrame { destination_epoch: 10, ..old };
        assert_eq!(add(&mut assembly, Time(0), moved_on, 1, total), Ok(false));
        assert_eq!(add(&mut assembly, Time(0), moved_on, 0, total), Ok(true));
    }

    /// A peer's oldest frames are kept, so one of them becomes whole; what came otherwise makes room.
    #[test]
    fn the_oldest_frames_of_a_peer_are_kept() {
        let mut assembly = Assembly::new();
        let first = u32::MAX;
        let of = |ahead: u32| frame(7, first.wrapping_add(ahead));
        let total = 2 * STEP;
        for ahead in [5, 4, 3] {
            assert_eq!(add(&mut assembly, Time(0), of(ahead), 0, total), Ok(false));
        }
        assert_eq!(add(&mut assembly, Time(0), of(6), 0, total), Err(()));
        assert_eq!(add(&mut assembly, Time(0), of(0), 0, total), Ok(false));
        assert_eq!(add(&mut assembly, Time(0), of(3), 1, total), Ok(true));
        assert_eq!(assembly.partial.len(), ASSEMBLIES_OF_PEER_MAX);
        assert_eq!(add(&mut assembly, Time(0), of(1), 0, total), Ok(false));
        let word = SliceWord { offset: 0, total: total as u16 };
        let part = vec![1; STEP];
        let added = assembly.add(Time(0), of(9), word, &part, |frame| *frame == of(0));
        assert!(matches!(added, Ok(None)), "that of 0 came otherwise");
    }

    #[test]
    fn copies_of_slices_keep_no_place() {
        let mut assembly = Assembly::new();
        let all = ASSEMBLIES_MAX as u32;
        for ms in 0..STALE_AFTER.0 / 1_000_000 {
            for peer in 0..all {
                let _ = add(&mut assembly, Time(0) + Span::ms(ms), frame(peer, 1), 0, 2 * STEP);
            }
        }
        let now = Time(0) + STALE_AFTER;
        let before = Time(now.0 - 1);
        assert_eq!(add(&mut assembly, before, frame(999, 1), 0, 2 * STEP), Err(()));
        assert_eq!(add(&mut assembly, now, frame(999, 1), 0, 2 * STEP), Ok(false));
        assert_eq!(add(&mut assembly, now, frame(999, 1), 1, 2 * STEP), Ok(true));
    }

    #[test]
    fn a_flood_of_slices_takes_bounded_memory() {
        let mut assembly = Assembly::new();
        for name in 0..1000 {
            let (peer, sequence) = (name / 10, name % 10);
            let added = add(&mut assembly, Time(0), frame(peer, sequence), 0, 2 * STEP);
            let peers = (ASSEMBLIES_MAX / ASSEMBLIES_OF_PEER_MAX) as u32;
            let fits = peer < peers && sequence < ASSEMBLIES_OF_PEER_MAX as u32;
            assert_eq!(added.is_ok(), fits, "{name}");
        }
        assert_eq!(assembly.partial.len(), ASSEMBLIES_MAX);
    }

    /// Peers in five times the number of places send a frame each, slice by slice in turn, again every 100 ms: what was begun goes on, so
    /// with each copy as many become whole as there are places, or nearly.
    #[test]
    fn what_was_begun_is_not_pushed_out() {
        const SLICES: usize = ASSEMBLIES_MAX + 2;
        const PEERS: usize = 5 * ASSEMBLIES_MAX;
        let mut assembly = Assembly::new();
        let mut whole = [false; PEERS];
        let mut copies = 0;
        while !whole.iter().all(|whole| *whole) && copies < 20 {
            for tick in 0..PEERS + SLICES {
                let now = Time(0) + Span::ms(100 * copies) + Span::us(tick as u64);
                for peer in (0..PEERS).filter(|peer| (*peer..peer + SLICES).contains(&tick)) {
                    if !whole[peer] {
                        let (of, at) = (frame(peer as u32, 5), tick - peer);
                        let added = add(&mut assembly, now, of, at, SLICES * STEP);
                        whole[peer] = added == Ok(true);
                    }
                }
            }
            copies += 1;
        }
        assert!(
            copies <= 8,
            "{} of {PEERS} after {copies} copies",
            whole.iter().filter(|w| **w).count()
        );
    }
}
