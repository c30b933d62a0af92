//! Which interface the next block of a long message takes (`PATH-13`): the one by which it is there first, of those that carry none now, or
//! none yet if what is left is there sooner by one that does.
//!
//! Earliest completion first, as for multipath TCP: a slow path carries only what it has delivered before the fast one had the time for it.

use crate::limits::WINDOW_FRAMES;
use crate::path::{PathId, Paths};

/// Messages of so many frames of the usual length, most of which are pulled, are worth a search for paths over other interfaces.
pub(crate) const STRIPED_FRAMES_MIN: u32 = 64;

/// While a slow path has a block, the others may take at most so many of the numbers that a window has, half: they are taken in order, and none
/// is free again before that block is there.
const NUMBERS_MAX: u64 = WINDOW_FRAMES as u64 / 2;

/// A slow path takes a block only if it has that there in this part of the time in which the best has all: what is measured of both is old by a
/// round trip or two, and whoever waits for the last block loses more than one block gains. The time that even the best path's next byte takes
/// is lost by either and counts for neither.
const GAIN_PART: u64 = 2;

/// How an interface stands towards a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    /// The best of its paths for the block.
    pub(crate) path: PathId,
    /// Bytes that are under way by it, or wait for its window.
    pub(crate) queued: u64,
    /// Bytes that it delivers in a millisecond. 0: nobody knows yet.
    pub(crate) rate: u32,
    /// It did long ago, and more is only hoped for.
    pub(crate) is_guess: bool,
    /// A round trip by it, in microseconds.
    pub(crate) trip_us: u32,
    /// A block that it has taken has not left yet.
    pub(crate) taken: bool,
}

impl Lane {
    /// Microseconds after which so many more bytes are there. What nobody knows is found out by one block.
    fn there_us(&self, bytes: u64) -> u64 {
        let serial = (self.queued + bytes).saturating_mul(1_000).checked_div(self.rate.into());
        u64::from(self.trip_us) / 2 + serial.unwrap_or(0)
    }
}

/// What is to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backlog {
    /// Bytes of the block, and of all that wait with it.
    pub(crate) block: u64,
    pub(crate) all: u64,
    /// Bytes of a frame.
    pub(crate) frame: u64,
}

/// The path of the next block. `None`: it is better off behind what an interface has taken.
pub(crate) fn stripe(lanes: &[Lane], backlog: &Backlog) -> Option<PathId> {
    // A guess that is wrong costs one block's time, and nobody waits for it meanwhile.
    let known = || lanes.iter().filter(|lane| !lane.is_guess || lane.queued == 0);
    let best = known().min_by_key(|lane| lane.there_us(backlog.block))?;
    if !best.taken {
        return Some(best.path);
    }
    let others = known().filter(|lane| !lane.taken);
    // What nobody knows first, however long its round trip seems: that may have been measured once, when its receiver did not run.
    let next = others.min_by_key(|lane| (lane.rate > 0, lane.there_us(backlog.block)))?;
    if next.rate == 0 {
        return Some(next.path);
    }
    let beyond = |us: u64| us.saturating_sub(u64::from(best.trip_us) / 2);
    let took_us = beyond(next.there_us(backlog.block));
    // All of it by the best alone.
    let gains = took_us * GAIN_PART < beyond(best.there_us(backlog.all));
    let numbers = took_us.saturating_mul(best.rate.into()) / 1_000 / backlog.frame.max(1);
    (gains && numbers <= NUMBERS_MAX).then_some(next.path)
}

impl Paths<'_> {
    /// The paths that share what carries them, a bit each: those over one interface, and those that a relay sends on by one cable. What this
    /// machine's memory carries is no interface.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = u8> + '_ {
        let wired = self.each().filter(|(_, (_, to))| !to.is_memory());
        let wired = wired.fold(0, |bits, (path, _)| bits | path.bit());
        PathId::of_bits(wired).filter_map(move |path| {
            let lane = self.lane(path, wired);
            // Each once: by its first.
            (lane & (path.bit() - 1) == 0).then_some(lane)
        })
    }

    /// Those of some paths that share anything with this one, or with one that does, a bit each.
    fn lane(&self, path: PathId, among: u8) -> u8 {
        let mut lane = path.bit();
        loop {
            let shares = |other: PathId| PathId::of_bits(lane).any(|one| self.share(one, other));
            let more = PathId::of_bits(among & !lane).filter(|other| shares(*other));
            let more = more.fold(0, |bits, path| bits | path.bit());
            if more == 0 {
                return lane;
            }
            lane |= more;
        }
    }

    /// Both lead over one interface, or over one cable of a relay.
    pub(super) fn share(&self, one: PathId, other: PathId) -> bool {
        let (Some((link, to)), Some((by, at))) = (self.hop(one), self.hop(other)) else {
            return false;
        };
        let relayed = to.is_behind_relays() && at.is_behind_relays();
        self.costs.interface(link) == self.costs.interface(by)
            || relayed && self.hop_lists.share_a_cable(to, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(path: usize, rate: u32, queued: u64, taken: bool) -> Lane {
        Lane { path: PathId::new(path), queued, rate, is_guess: false, trip_us: 100, taken }
    }

    const BACKLOG: Backlog = Backlog { block: 24_000, all: 480_000, frame: 1_500 };

    /// Bytes in a millisecond at so many Mb/s.
    const fn at(mbps: u32) -> u32 {
        mbps * 125
    }

    #[test]
    fn equal_ones_take_blocks_in_turn() {
        let [first, second] = [PathId::new(0), PathId::new(1)];
        let of = |a, b| stripe(&[a, b], &BACKLOG);
        assert_eq!(of(lane(0, at(500), 0, false), lane(1, at(500), 0, false)), Some(first));
        assert_eq!(of(lane(0, at(500), 24_000, true), lane(1, at(500), 0, false)), Some(second));
        let both = of(lane(0, at(500), 24_000, true), lane(1, at(500), 24_000, true));
        assert_eq!(both, None, "each has one");
    }

    #[test]
    fn a_slow_one_takes_what_it_has_delivered_before_all_is_there() {
        let [first, second] = [PathId::new(0), PathId::new(1)];
        let (fast, slow) = (lane(0, at(1_000), 24_000, true), lane(1, at(200), 0, false));
        assert_eq!(stripe(&[fast, slow], &BACKLOG), Some(second));
        // 24 KB take it 1 ms: in that time the fast one has the last 96 KB.
        assert_eq!(stripe(&[fast, slow], &Backlog { all: 96_000, ..BACKLOG }), None);
        let free = Lane { taken: false, ..fast };
        assert_eq!(stripe(&[free, slow], &BACKLOG), Some(first));
        // Nor when the fast one would run out of numbers before it has.
        assert_eq!(
            stripe(&[fast, lane(1, at(20), 0, false)], &Backlog { all: 1 << 30, ..BACKLOG }),
            None
        );
    }

    /// As where processors are what is short: all that is asked for at a time is less than what is under way.
    #[test]
    fn a_long_round_trip_is_no_reason_to_do_without() {
        let far = |path, taken| Lane { trip_us: 60_000, ..lane(path, at(1_000), 24_000, taken) };
        let second = Lane { queued: 0, ..far(1, false) };
        assert_eq!(stripe(&[far(0, true), second], &BACKLOG), Some(PathId::new(1)));
        let farther = Lane { trip_us: 90_000, ..second };
        assert_eq!(stripe(&[far(0, true), farther], &BACKLOG), None);
    }

    /// What is only hoped of one is tried by one block, which the others do not wait for.
    #[test]
    fn a_guess_is_tried_by_a_block_at_a_time() {
        let [first, second] = [PathId::new(0), PathId::new(1)];
        let fast = |queued, taken| lane(0, at(1_000), queued, taken);
        let guess = |queued, taken| Lane { is_guess: true, ..lane(1, at(2_000), queued, taken) };
        assert_eq!(stripe(&[fast(24_000, true), guess(0, false)], &BACKLOG), Some(second));
        assert_eq!(stripe(&[fast(24_000, true), guess(1_500, false)], &BACKLOG), None);
        assert_eq!(stripe(&[fast(24_000, false), guess(1_500, true)], &BACKLOG), Some(first));
    }

    #[test]
    fn what_nobody_knows_is_tried() {
        let (known, unknown) = (lane(0, at(1_000), 0, false), lane(1, 0, 0, false));
        assert_eq!(stripe(&[known, unknown], &BACKLOG), Some(PathId::new(1)));
        let far = Lane { trip_us: 60_000, ..unknown };
        for first in [lane(0, at(1_000), 24_000, true), lane(0, 0, 24_000, true)] {
            assert_eq!(stripe(&[first, far], &BACKLOG), Some(PathId::new(1)));
        }
        assert_eq!(stripe(&[], &BACKLOG), None);
    }
}
