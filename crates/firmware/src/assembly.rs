//! Frames that arrive in slices (`SLICE-2`), because they were longer than their way takes now.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use emp_wire::{LONG_FRAME_BYTES, SliceWord};

use crate::lanes::Lane;
use crate::limits::ASSEMBLIES_MAX;
use crate::time::{Span, Time};

/// A frame of which no slice came for so long lost one: its slices leave in one call. Long against what separates those on a
/// crowded wire (60 KB of 32 senders at 1 Gb/s: 16 ms), short against what a peer waits that comes again (its timer).
const STALE_AFTER: Span = Span::ms(20);

/// A frame of which the first bytes are here.
struct Partial {
    peer: u32,
    lane: Lane,
    /// When a slice of it last came.
    touched: Time,
    /// What the sender calls the frame.
    name: u32,
    total: usize,
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

    /// Adds a slice of a peer's frame that came by this lane. `Err`: it does not continue what is here, or there is no room.
    /// The whole frame is to be given [`back`](Self::back).
    pub(crate) fn add(
        &mut self,
        now: Time,
        (peer, lane): (u32, Lane),
        name: u32,
        word: SliceWord,
        bytes: &[u8],
    ) -> Result<Option<Whole>, ()> {
        let (offset, total) = (usize::from(word.offset), usize::from(word.total));
        let end = offset + bytes.len();
        if total > LONG_FRAME_BYTES || end > total {
            return Err(());
        }
        let at = match self.partial.iter().position(|p| (p.peer, p.name) == (peer, name)) {
            Some(at) => at,
            None if offset == 0 => self.place(now, peer, lane).ok_or(())?,
            None => return Err(()),
        };
        let partial = &mut self.partial[at];
        let again = offset == 0 && partial.total != 0 && partial.peer == peer;
        if offset == 0 {
            (partial.peer, partial.lane, partial.name) = (peer, lane, name);
            (partial.total, partial.filled) = (total, 0);
        }
        if partial.filled != offset || partial.total != total {
            if partial.filled < offset {
                // What is missing will not come any more.
                partial.total = 0;
            }
            return Err(());
        }
        // Who only ever begins, as copies of first slices do, does not keep a place by that.
        if !again {
            partial.touched = now;
        }
        partial.bytes[offset..end].copy_from_slice(bytes);
        partial.filled = end;
        if end < total {
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

    /// Where a peer's next frame is put together. One frame a peer and lane: what it had begun before is lost, as slices leave in
    /// order. What other peers have begun goes on, unless it has been long that a slice of it came: those that find no room come
    /// again. If all made room for each other, none would ever be whole.
    fn place(&mut self, now: Time, peer: u32, lane: Lane) -> Option<usize> {
        let own = |p: &Partial| (p.peer, p.lane) == (peer, lane);
        let free = |p: &Partial| p.total == 0;
        let found = self.partial.iter().position(|p| !free(p) && own(p));
        if let Some(at) = found.or_else(|| self.partial.iter().position(free)) {
            return Some(at);
        }
        if self.partial.len() < ASSEMBLIES_MAX {
            let bytes = vec![0; LONG_FRAME_BYTES].into_boxed_slice();
            let (total, filled) = (0, 0);
            self.partial.push(Partial { peer, lane, touched: now, name: 0, total, filled, bytes });
            return Some(self.partial.len() - 1);
        }
        let oldest = (0..self.partial.len()).min_by_key(|at| self.partial[*at].touched)?;
        (now.since(self.partial[oldest].touched) >= STALE_AFTER).then_some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slice of peer 7's, by the small lane.
    fn add(
        assembly: &mut Assembly,
        name: u32,
        at: u16,
        total: u16,
        bytes: &[u8],
    ) -> Result<Option<Vec<u8>>, ()> {
        add_of(assembly, Time(0), (7, Lane::Small), name, (at, total), bytes)
    }

    fn add_of(
        assembly: &mut Assembly,
        now: Time,
        whose: (u32, Lane),
        name: u32,
        (offset, total): (u16, u16),
        bytes: &[u8],
    ) -> Result<Option<Vec<u8>>, ()> {
        let whole = assembly.add(now, whose, name, SliceWord { offset, total }, bytes)?;
        Ok(whole.map(|whole| {
            let bytes = whole.bytes().to_vec();
            assembly.back(whole);
            bytes
        }))
    }

    #[test]
    fn slices_in_order_make_a_frame() {
        let mut assembly = Assembly::new();
        let bulk = (7, Lane::Bulk);
        assert_eq!(add(&mut assembly, 1, 0, 5, b"ab"), Ok(None));
        assert_eq!(add_of(&mut assembly, Time(0), bulk, 2, (0, 4), b"wx"), Ok(None));
        assert_eq!(add(&mut assembly, 1, 2, 5, b"cde"), Ok(Some(b"abcde".to_vec())));
        let whole = add_of(&mut assembly, Time(0), bulk, 2, (2, 4), b"yz");
        assert_eq!(whole, Ok(Some(b"wxyz".to_vec())));
        assert_eq!(add(&mut assembly, 1, 0, 2, b"!!"), Ok(Some(b"!!".to_vec())));
        assert_eq!(assembly.partial.len(), 2, "what is free is used again");
    }

    #[test]
    fn what_does_not_continue_is_refused() {
        let mut assembly = Assembly::new();
        assert_eq!(add(&mut assembly, 1, 2, 5, b"cde"), Err(()));
        assert_eq!(add(&mut assembly, 1, 0, u16::MAX, b"ab"), Err(()));
        assert_eq!(add(&mut assembly, 1, 0, 5, b"ab"), Ok(None));
        assert_eq!(add(&mut assembly, 1, 2, 6, b"cde"), Err(()));
        assert_eq!(add(&mut assembly, 1, 1, 5, b"b"), Err(()), "that was here");
        assert_eq!(add(&mut assembly, 1, 2, 5, b"cde"), Ok(Some(b"abcde".to_vec())));
        // Nor anything what is whole, or has a hole.
        assert_eq!(add(&mut assembly, 1, 5, 5, b""), Err(()));
        assert_eq!(add(&mut assembly, 1, 0, 5, b"ab"), Ok(None));
        assert_eq!(add(&mut assembly, 1, 3, 5, b"de"), Err(()));
        assert_eq!(add(&mut assembly, 1, 2, 5, b"cde"), Err(()));
    }

    #[test]
    fn copies_of_first_slices_keep_no_place() {
        let mut assembly = Assembly::new();
        let peers = ASSEMBLIES_MAX as u32;
        for ms in 0..30 {
            for peer in 0..peers {
                let copy = (peer, Lane::Small);
                let now = Time(0) + Span::ms(ms);
                let _ = add_of(&mut assembly, now, copy, peer + ms as u32 % 2, (0, 9), b"first");
            }
        }
        let (now, honest) = (Time(0) + Span::ms(30), (999, Lane::Small));
        assert_eq!(add_of(&mut assembly, now, honest, 1, (0, 5), b"ab"), Ok(None));
        assert_eq!(
            add_of(&mut assembly, now, honest, 1, (2, 5), b"cde"),
            Ok(Some(b"abcde".to_vec()))
        );
    }

    #[test]
    fn a_flood_of_first_slices_takes_bounded_memory() {
        let mut assembly = Assembly::new();
        for name in 0..1000 {
            let whose = (name / 10, Lane::Small);
            let added = add_of(&mut assembly, Time(0), whose, name, (0, 100), b"first");
            assert_eq!(added.is_ok(), name < 10 * ASSEMBLIES_MAX as u32);
        }
        assert_eq!(assembly.partial.len(), ASSEMBLIES_MAX);
        // What they leave behind is in the way for a while only.
        let (whose, late) = ((999, Lane::Small), Time(0) + STALE_AFTER);
        let soon = Time(late.0 - 1);
        assert_eq!(add_of(&mut assembly, soon, whose, 1, (0, 4), b"ab"), Err(()));
        assert_eq!(add_of(&mut assembly, late, whose, 1, (0, 4), b"ab"), Ok(None));
        let whole = add_of(&mut assembly, late, whose, 1, (2, 4), b"cd");
        assert_eq!(whole, Ok(Some(b"abcd".to_vec())));
    }

    /// Peers that begin one after the other, ten at a time: what was begun goes on, so eight of ten get a frame through.
    #[test]
    fn what_was_begun_is_not_pushed_out() {
        const SLICES: u32 = ASSEMBLIES_MAX as u32 + 2;
        const PEERS: u32 = 4 * SLICES;
        let mut assembly = Assembly::new();
        let mut whole = 0;
        for tick in 0..PEERS + SLICES {
            let now = Time(0) + Span::us(tick.into());
            for peer in (0..PEERS).filter(|peer| (*peer..peer + SLICES).contains(&tick)) {
                let (whose, at) = ((peer, Lane::Small), ((tick - peer) as u16, SLICES as u16));
                let added = add_of(&mut assembly, now, whose, 5, at, b"x");
                whole += u32::from(matches!(added, Ok(Some(_))));
            }
        }
        assert!(whole >= PEERS / SLICES * ASSEMBLIES_MAX as u32, "{whole} of {PEERS} frames");
    }
}
