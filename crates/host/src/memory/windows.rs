//! Windows: exported memory parts of which its owner has elsewhere for a while, without the peers that write to it taking note
//! (VMMC-2's transfer redirection).
//!
//! # Invariant
//!
//! The firmware knows a window by addresses that are no pointers: their top bit is set, as in no pointer of a process. They are
//! translated here, each time that [`crate::memory`] is asked to use them. Every [`Segment`] kept here is covered by the
//! invariant of [`crate::memory`] for as long as it is kept. Windows are only written to from outside (they are exported with
//! [`Rights::REMOTE_WRITE`] alone), so nothing else than that module meets such an address: what is read for a frame is not of
//! a window, nor is what links place by themselves.

use emp_firmware::Segment;
use slab::Slab;

use crate::memory::pointer;

/// Set in addresses of windows.
const OF_WINDOW: u64 = 1 << 63;

/// Bits of such an address for the place within the window, which is 4 TiB at most; those above say which window.
const PLACE_BITS: u32 = 42;

/// Windows of a node: as many as the other bits tell apart.
const WINDOWS_MAX: usize = 1 << (63 - PLACE_BITS);

/// Runs of bytes that are remembered to have come. With more, the nearest two become one: then what lies between them is
/// copied with them, which harms nobody.
const RUNS_MAX: usize = 64;

/// A window of this node, as [`Endpoint::export_window_raw`] gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    pub(crate) slot: u32,
    pub(crate) key: u64,
}

/// Why a part of a window was not redirected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RedirectError {
    /// There is no such window (any more).
    NoWindow,
    /// It does not lie in the window, or has no bytes.
    OutOfBounds,
    /// Part of it is redirected already.
    Redirected,
}

/// A part of a window that is elsewhere.
struct Away {
    offset: u64,
    to: Segment,
}

impl Away {
    fn end(&self) -> u64 {
        self.offset + self.to.bytes
    }
}

struct Opened {
    home: Segment,
    /// By offset; none overlap.
    away: Vec<Away>,
    arrived: Runs,
}

/// The windows of a node.
#[derive(Default)]
pub(crate) struct Windows(Slab<Opened>);

/// True if a segment names a window's bytes.
#[inline]
pub(crate) const fn is_of_window(segment: Segment) -> bool {
    segment.address & OF_WINDOW != 0
}

/// Slot and offset that an address names.
const fn split(address: u64) -> (usize, u64) {
    let place = address & !OF_WINDOW;
    ((place >> PLACE_BITS) as usize, place & ((1 << PLACE_BITS) - 1))
}

impl Windows {
    /// Opens a window; returns its slot and what the firmware is to know it by.
    pub(crate) fn open(&mut self, home: Segment) -> Option<(u32, Segment)> {
        if home.bytes >> PLACE_BITS != 0 || self.0.len() >= WINDOWS_MAX {
            return None;
        }
        let slot = self.0.insert(Opened { home, away: Vec::new(), arrived: Runs::default() });
        let address = OF_WINDOW | (slot as u64) << PLACE_BITS;
        Some((slot as u32, Segment { address, bytes: home.bytes }))
    }

    /// The runs of real memory that a part of a window is in, in order; `None` if it is in no window.
    pub(crate) fn pieces(&self, part: Segment) -> Option<impl Iterator<Item = Segment>> {
        let (slot, start) = split(part.address);
        let Opened { home, away, .. } = self.0.get(slot)?;
        let end = start.checked_add(part.bytes).filter(|end| *end <= home.bytes)?;
        let mut at = start;
        let mut next = away.partition_point(|away| away.end() <= start);
        Some(std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let piece = match away.get(next) {
                Some(away) if away.offset <= at => {
                    next += 1;
                    away.to.part(at - away.offset, end - at)
                }
                Some(away) => home.part(at, end.min(away.offset) - at),
                None => home.part(at, end - at),
            };
            at += piece.bytes;
            Some(piece)
        }))
    }

    /// Bytes have come to a part of a window: those that are at home are remembered.
    pub(crate) fn arrived(&mut self, part: Segment) {
        let (slot, start) = split(part.address);
        let Some(Opened { away, arrived, .. }) = self.0.get_mut(slot) else { return };
        let end = start + part.bytes;
        let mut at = start;
        for away in away.iter().filter(|away| away.offset < end && away.end() > start) {
            arrived.add(at, away.offset);
            at = away.end();
        }
        arrived.add(at, end);
    }

    /// Has a part of a window elsewhere from now on. What has come to it before is copied there; says how many bytes.
    ///
    /// # Safety
    ///
    /// `to` is covered by the module's invariant until the part is at home again or the window is closed.
    pub(crate) unsafe fn redirect(
        &mut self,
        window: Window,
        offset: u64,
        to: Segment,
    ) -> Result<u64, RedirectError> {
        let opened = self.0.get_mut(window.slot as usize).ok_or(RedirectError::NoWindow)?;
        let end = offset.checked_add(to.bytes).filter(|end| *end <= opened.home.bytes);
        let end = end.filter(|_| to.bytes != 0).ok_or(RedirectError::OutOfBounds)?;
        let place = opened.away.partition_point(|away| away.end() <= offset);
        if opened.away.get(place).is_some_and(|away| away.offset < end) {
            return Err(RedirectError::Redirected);
        }
        let mut copied = 0;
        for (from, until) in opened.arrived.take(offset, end) {
            let bytes = until - from;
            // SAFETY: both are covered by the invariant, and the lock is held.
            unsafe { pointer::copy(opened.home.part(from, bytes), to.part(from - offset, bytes)) };
            copied += bytes;
        }
        opened.away.insert(place, Away { offset, to });
        Ok(copied)
    }

    /// Closes a window.
    pub(crate) fn close(&mut self, slot: u32) {
        self.0.try_remove(slot as usize);
    }

    /// Has a part of a window at home again. False: it was not redirected.
    pub(crate) fn come_home(&mut self, window: Window, offset: u64) -> bool {
        let Some(opened) = self.0.get_mut(window.slot as usize) else { return false };
        let before = opened.away.len();
        opened.away.retain(|away| away.offset != offset);
        opened.away.len() != before
    }

    /// Forgets that bytes have come. False: there is no such window.
    pub(crate) fn forget(&mut self, window: Window, offset: u64, bytes: u64) -> bool {
        let Some(opened) = self.0.get_mut(window.slot as usize) else { return false };
        drop(opened.arrived.take(offset, offset.saturating_add(bytes)));
        true
    }
}

/// Runs of bytes, in order, none touching another.
#[derive(Default)]
struct Runs(Vec<(u64, u64)>);

impl Runs {
    fn add(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        // As most that arrive: what follows the last.
        if let Some((_, last)) = self.0.last_mut()
            && *last == start
        {
            *last = end;
            return;
        }
        let first = self.0.partition_point(|(_, until)| *until < start);
        let behind = self.0.partition_point(|(from, _)| *from <= end);
        let merged = match self.0.get(first..behind) {
            Some([]) | None => (start, end),
            Some([one]) => (start.min(one.0), end.max(one.1)),
            Some([one, .., last]) => (start.min(one.0), end.max(last.1)),
        };
        self.0.splice(first..behind, [merged]);
        if self.0.len() > RUNS_MAX {
            self.join_nearest();
        }
    }

    fn join_nearest(&mut self) {
        let gap = |at: &usize| self.0[*at].0 - self.0[at - 1].1;
        let Some(at) = (1..self.0.len()).min_by_key(gap) else { return };
        self.0[at - 1].1 = self.0[at].1;
        self.0.remove(at);
    }

    /// Takes out what lies between two places.
    fn take(&mut self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let mut taken = Vec::new();
        let mut left = Vec::with_capacity(self.0.len() + 1);
        for &(from, until) in &self.0 {
            let (inner, outer) = (from.max(start), until.min(end));
            if inner >= outer {
                left.push((from, until));
                continue;
            }
            taken.push((inner, outer));
            left.extend([(from, inner), (outer, until)].into_iter().filter(|(a, b)| a < b));
        }
        self.0 = left;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(of: &mut [u8]) -> Segment {
        Segment { address: of.as_mut_ptr().expose_provenance() as u64, bytes: of.len() as u64 }
    }

    /// The model of `Runs` is a set of bytes.
    #[test]
    fn runs_are_sets_of_bytes() {
        let mut x = 7u64;
        let mut draw = |below: u64| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (x >> 33) % below
        };
        let (mut runs, mut model) = (Runs::default(), [false; 100]);
        for _ in 0..2_000 {
            let (a, b) = (draw(100), draw(100));
            let (start, end) = (a.min(b), a.max(b));
            if draw(3) == 0 {
                let taken: u64 = runs.take(start, end).iter().map(|(from, to)| to - from).sum();
                let there = model[start as usize..end as usize].iter().filter(|byte| **byte);
                assert_eq!(taken, there.count() as u64);
                model[start as usize..end as usize].fill(false);
            } else {
                runs.add(start, end);
                model[start as usize..end as usize].fill(true);
            }
            let mut all = [false; 100];
            runs.0.iter().for_each(|(from, to)| all[*from as usize..*to as usize].fill(true));
            assert_eq!(all, model);
            assert!(runs.0.windows(2).all(|two| two[0].1 <= two[1].0));
        }
    }

    #[test]
    fn too_many_runs_become_fewer_and_lose_nothing() {
        let mut runs = Runs::default();
        for at in 0..1_000 {
            runs.add(at * 10, at * 10 + 1);
        }
        assert!(runs.0.len() <= RUNS_MAX);
        assert!((0..1_000).all(|at| runs.0.iter().any(|(a, b)| (*a..*b).contains(&(at * 10)))));
    }

    #[test]
    fn a_part_is_where_it_was_redirected_to() {
        let (mut home, mut one, mut two) = ([0u8; 100], [1u8; 10], [2u8; 20]);
        let mut windows = Windows::default();
        let (slot, known) = windows.open(segment(&mut home)).unwrap();
        let window = Window { slot, key: 0 };
        assert!(is_of_window(known) && is_of_window(known.part(99, 1)));
        windows.arrived(known.part(15, 10));
        // SAFETY: all three live until the end of the test, and are not used meanwhile.
        unsafe {
            assert_eq!(windows.redirect(window, 20, segment(&mut one)), Ok(5));
            assert_eq!(windows.redirect(window, 30, segment(&mut two)), Ok(0));
            let again = segment(&mut one);
            assert_eq!(windows.redirect(window, 25, again), Err(RedirectError::Redirected));
            assert_eq!(windows.redirect(window, 15, again), Err(RedirectError::Redirected));
            assert_eq!(windows.redirect(window, 91, again), Err(RedirectError::OutOfBounds));
            assert_eq!(windows.redirect(window, u64::MAX, again), Err(RedirectError::OutOfBounds));
            let other = Window { slot: slot + 1, key: 0 };
            assert_eq!(windows.redirect(other, 0, again), Err(RedirectError::NoWindow));
        }
        let pieces: Vec<_> = windows.pieces(known.part(5, 90)).unwrap().collect();
        let expected = [
            segment(&mut home).part(5, 15),
            segment(&mut one),
            segment(&mut two),
            segment(&mut home).part(50, 45),
        ];
        assert_eq!(pieces, expected);
        let inner: Vec<_> = windows.pieces(known.part(22, 9)).unwrap().collect();
        assert_eq!(inner, [segment(&mut one).part(2, 8), segment(&mut two).part(0, 1)]);
        let beyond = Segment { address: known.address + 50, bytes: 51 };
        assert!(windows.pieces(beyond).is_none());
        assert!(windows.come_home(window, 30) && !windows.come_home(window, 30));
        let pieces: Vec<_> = windows.pieces(known.part(25, 20)).unwrap().collect();
        let expected = [segment(&mut one).part(5, 5), segment(&mut home).part(30, 15)];
        assert_eq!(pieces, expected);
        // What comes to a part that is elsewhere is not at home.
        windows.arrived(known);
        assert!(windows.come_home(window, 20));
        // SAFETY: as above.
        let copied = unsafe { windows.redirect(window, 15, segment(&mut two)) };
        assert_eq!(copied, Ok(10));
    }
}
