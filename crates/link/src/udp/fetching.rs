//! How the next call fetches what waits.
//!
//! A lone short frame is fetched by the plainest call there is: what the others tell, the lengths of datagrams that were merged and marks of the
//! network, costs a tenth of a frame's way. A frame says its own length, so what comes merged all the same can be cut; and of marks it is
//! enough to see some, as what they say is a share of what comes (RFC 8257): the first that is seen has all others seen.

use emp_wire::{HEADER_BYTES, VERSION};

/// Datagrams shorter than this, in bytes, are fetched several to a call when they come thick: there
/// the call costs more than the copy. For longer ones it does not matter, and fetching one by one
/// keeps the working set small.
pub(super) const FETCH_MANY_BELOW_BYTES: usize = 8192;

/// Short datagrams in a row after which a call fetches several: a lone frame is followed by nothing.
const MANY_AFTER: u32 = 2;

/// Lone frames in a row after which they are fetched plainly: more than a message of usual frames has that come one by one, and than a round trip
/// brings of marks.
const PLAIN_AFTER: u32 = 32;

/// Of so many frames one is not fetched plainly, so that marks are seen. It costs a hundredth of a frame's way.
const TOLD_EVERY: u32 = 8;

/// Looks in a row that found nothing after which they are made plainly as well: more than a receiver makes that waits for the next of a train. What
/// they find first is cut by what frames say, and its marks are not seen.
const PLAIN_AFTER_NOTHING: u32 = 64;

/// A way to fetch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fetch {
    /// One datagram, of which nothing else is told.
    Plain,
    /// One datagram, or several that were merged, and what the kernel tells of them.
    Told,
    /// Several of these.
    Many,
}

/// What was fetched lately.
#[derive(Default)]
pub(super) struct Fetching {
    /// Fetches in a row that found something short.
    short: u32,
    /// Frames in a row that came alone.
    lone: u32,
    /// Looks in a row that found nothing.
    nothing: u32,
    /// What was fetched last was long: a train may follow, worth a look before it is fetched.
    pub(super) after_long: bool,
}

impl Fetching {
    /// How to fetch now.
    #[inline]
    pub(super) fn next(&self) -> Fetch {
        if self.short >= MANY_AFTER {
            Fetch::Many
        } else if self.nothing >= PLAIN_AFTER_NOTHING
            || self.lone >= PLAIN_AFTER && !self.lone.is_multiple_of(TOLD_EVERY)
        {
            Fetch::Plain
        } else {
            Fetch::Told
        }
    }

    /// So many bytes were fetched first. `lone`: that is all, it is one whole frame, shorter than the longest, and no switch has marked it.
    #[inline]
    pub(super) fn found(&mut self, bytes: usize, lone: bool) {
        let short = bytes < FETCH_MANY_BELOW_BYTES;
        self.short = if short { self.short.saturating_add(1) } else { 0 };
        self.after_long = !short;
        self.nothing = 0;
        self.lone = if lone { self.lone.checked_add(1).unwrap_or(PLAIN_AFTER) } else { 0 };
    }

    /// Nothing was there.
    #[inline]
    pub(super) fn found_nothing(&mut self) {
        self.short = 0;
        self.nothing = self.nothing.saturating_add(1);
    }

    /// What came could not be cut without being told how.
    #[cold]
    pub(super) fn must_be_told(&mut self) {
        self.lone = 0;
    }
}

/// Bytes of the frame at the front, as it says itself; `None` if that is not one, or its end is missing.
#[inline]
pub(super) fn own_bytes(bytes: &[u8]) -> Option<usize> {
    let [first, _, high, low] = *bytes.first_chunk()?;
    let own = HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
    (first >> 5 == VERSION && own <= bytes.len()).then_some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fetches so many lone frames and says how each was fetched; an empty look stands before each.
    fn lone(fetching: &mut Fetching, frames: u32) -> Vec<Fetch> {
        let one = |_| {
            fetching.found_nothing();
            let how = fetching.next();
            fetching.found(64, true);
            how
        };
        (0..frames).map(one).collect()
    }

    fn plain(fetched: &[Fetch]) -> usize {
        fetched.iter().filter(|how| **how == Fetch::Plain).count()
    }

    #[test]
    fn lone_frames_are_fetched_plainly_but_for_some() {
        let mut fetching = Fetching::default();
        assert_eq!(plain(&lone(&mut fetching, PLAIN_AFTER)), 0);
        let fetched = lone(&mut fetching, 800);
        assert_eq!(plain(&fetched), 700);
        assert!(fetched.chunks(8).all(|some| some.contains(&Fetch::Told)), "marks are looked for");
    }

    /// A node that finds nothing by datagrams, as its small frames are raw, looks in the cheapest way; after the first that comes as before.
    #[test]
    fn fruitless_looks_are_plain() {
        let mut fetching = Fetching::default();
        (1..PLAIN_AFTER_NOTHING).for_each(|_| fetching.found_nothing());
        assert_eq!(fetching.next(), Fetch::Told);
        fetching.found_nothing();
        assert_eq!(fetching.next(), Fetch::Plain);
        fetching.found(61_472, false);
        assert!(fetching.after_long);
        assert_eq!(fetching.next(), Fetch::Told);
    }

    #[test]
    fn whatever_else_comes_ends_that() {
        type End = fn(&mut Fetching);
        let ends: [(&str, End); 4] = [
            ("a mark, a bundle, a full frame", |fetching| fetching.found(64, false)),
            ("a long frame", |fetching| fetching.found(61_472, false)),
            ("what has no length", Fetching::must_be_told),
            ("several", |fetching| (0..3).for_each(|_| fetching.found(64, false))),
        ];
        for (what, ends) in ends {
            let mut fetching = Fetching::default();
            lone(&mut fetching, 100);
            ends(&mut fetching);
            assert_ne!(fetching.next(), Fetch::Plain, "{what}");
            assert_eq!(plain(&lone(&mut fetching, PLAIN_AFTER - 1)), 0, "{what}");
            assert!(plain(&lone(&mut fetching, 8)) > 0, "{what}");
        }
    }

    #[test]
    fn frames_that_come_thick_are_fetched_together_and_long_ones_are_looked_at() {
        let mut fetching = Fetching::default();
        (0..MANY_AFTER).for_each(|_| fetching.found(64, true));
        assert_eq!(fetching.next(), Fetch::Many);
        fetching.found_nothing();
        assert_eq!(fetching.next(), Fetch::Told);
        fetching.found(61_472, false);
        assert!(fetching.after_long);
        assert_eq!(fetching.next(), Fetch::Told);
        // For ever.
        fetching.lone = u32::MAX - 3;
        let fetched = lone(&mut fetching, 16);
        assert_eq!(plain(&fetched), 14, "{fetched:?}");
    }

    #[test]
    fn a_frame_says_how_long_it_is() {
        let mut bytes = [0; 100];
        bytes[..4].copy_from_slice(&[VERSION << 5 | 4, 0, 0, 8]);
        assert_eq!(own_bytes(&bytes), Some(40));
        bytes[3] = 68;
        assert_eq!(own_bytes(&bytes), Some(100));
        bytes[3] = 69;
        assert_eq!(own_bytes(&bytes), None);
        bytes[0] = 0;
        assert_eq!(own_bytes(&bytes), None);
        assert_eq!([own_bytes(&[]), own_bytes(&[0x24, 0, 0])], [None; 2]);
        assert_eq!(own_bytes(&[0x24, 0, 0, 0]), None, "no room for a header");
    }
}
