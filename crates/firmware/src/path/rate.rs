//! How much a path delivers: the most of late that was acknowledged in a round trip or two while something was under way all the time, or in
//! all of a shorter such time, of which the round trip that even the first byte takes is no part. So one block alone shows it, on a path of
//! which more was never asked.
//!
//! What the application had to send may be less than what the path carries, so less counts only if its window kept something from
//! leaving meanwhile, or what left waited in a queue; and not if other paths' frames that were missing kept it waiting for numbers.
//!
//! What a path delivers from its first byte on after a pause may be what a token bucket had saved: what it delivers further on is what it carries.

use crate::time::{Span, Time};

/// Least time of a measurement: acknowledgements come in bursts, and a host does not run for as long now and then.
const LEAST: Span = Span::us(300);

/// The same of what is under way from its first byte to its last: that waits for no other, and half of it says as much.
const LEAST_WHOLE: Span = Span::us(150);

/// Longest: beyond it there was a pause.
const MOST: Span = Span::ms(20);

/// Less than so many bytes say nothing of a queue: a single frame's round trip is long where a host does not run for a moment.
const LEAST_QUEUED_BYTES: u32 = 12_000;

/// A lower measurement takes the rate down by this part of the difference.
const DOWN_PART: u32 = 4;

/// A path by which nothing was measured for so long, while its peer was busy, may have become twice as good, and so on, in what it delivers and in its round trip: what is
/// not used would never be measured again. A path that is a hundred times as slow as another is tried every one or two seconds.
const DOUBLES: Span = Span::ms(200);

/// Who had this part of the rate to send, as it is guessed now, has used the path: it is no guess of long ago. One block that is tried alone
/// is less, and is followed by more until the window is what limits them.
const USED_PART: u32 = 4;

/// The delivery rate of one path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    since: Time,
    bytes: u32,
    /// Since then its first byte is under way, too: else others were before it.
    first: bool,
    /// Its window was too small for something since then.
    limited: bool,
    /// There was no number for its next frame then, as others' were missing.
    starved: bool,
    /// Bytes in a millisecond. 0: nobody knows.
    per_ms: u32,
    /// They were measured from the first byte on after a pause.
    rested: bool,
    /// By the peer's [`Busy`].
    measured: Time,
}

/// How long a peer has acknowledged something now and then, all pauses left out: in those nothing becomes old.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy {
    pub(crate) for_so_long: Time,
    acked_at: Time,
}

/// A longer time without any acknowledgement is a pause: hosts that are crowded take tens of milliseconds for one.
const PAUSE: Span = Span::ms(100);

impl Busy {
    pub(crate) const NEW: Self = Self { for_so_long: Time(0), acked_at: Time(0) };

    /// Something was acknowledged by any path.
    pub(crate) fn on_acked(&mut self, now: Time) {
        let gap = now.since(self.acked_at);
        if gap <= PAUSE {
            self.for_so_long = self.for_so_long + gap;
        }
        self.acked_at = now;
    }
}

impl Rate {
    pub(crate) const NEW: Self = Self {
        since: Time(0),
        bytes: 0,
        first: false,
        limited: false,
        starved: false,
        per_ms: 0,
        rested: false,
        measured: Time(0),
    };

    /// Bytes in a millisecond, as far as is known. 0: nobody knows.
    pub(crate) fn per_ms(&self, busy: Time) -> u32 {
        u32::try_from(u64::from(self.per_ms) << self.doubled(busy)).unwrap_or(u32::MAX)
    }

    /// What is left of a measured round trip, in its unit: one whose receiver did not run for a while would never be measured again either.
    pub(crate) fn trip(&self, busy: Time, measured: u32) -> u32 {
        measured >> self.doubled(busy)
    }

    /// How often the path may have become twice as good since its rate was known.
    fn doubled(&self, busy: Time) -> u32 {
        if self.per_ms == 0 { 0 } else { (busy.since(self.measured).0 / DOUBLES.0).min(31) as u32 }
    }

    /// Something leaves while nothing is under way.
    pub(crate) const fn begin(&mut self, now: Time) {
        (self.since, self.bytes, self.first) = (now, 0, true);
        (self.limited, self.starved) = (false, false);
    }

    /// What is known is that of long ago: one block at a time finds out.
    pub(crate) fn is_guess(&self, busy: Time) -> bool {
        self.doubled(busy) > 0
    }

    /// Something had to wait for a number, which is no fault of this path.
    pub(crate) const fn note_starved(&mut self) {
        self.starved = true;
    }

    /// Something had to wait for the window.
    pub(crate) const fn note_limited(&mut self) {
        self.limited = true;
    }

    /// So many bytes were acknowledged, by a path that has these round trips.
    pub(crate) fn on_acked(&mut self, (now, busy): (Time, Time), bytes: u32, trips: &Trips) {
        self.bytes = self.bytes.saturating_add(bytes);
        let took = now.since(self.since);
        let none = if self.first { trips.least } else { Span(0) };
        let spent = Span(took.0.saturating_sub(none.0));
        let long = took >= LEAST.max(Span(2 * trips.usual.0));
        let whole = trips.drained && self.first && spent >= LEAST_WHOLE;
        if !long && !whole {
            if trips.drained && self.first && self.bytes >= LEAST_QUEUED_BYTES {
                // It was there too soon to be measured: a guess is as good as known.
                (self.per_ms, self.rested, self.measured) = (self.per_ms(busy), true, busy);
            }
            return;
        }
        if took <= MOST.max(Span(8 * trips.usual.0)) {
            // A least round trip that was measured in a queue is none.
            let spent = spent.0.max(took.0 / 2).max(1);
            let per_ms = (u64::from(self.bytes) * 1_000_000 / spent) as u32;
            let queued = trips.usual > Span(2 * trips.least.0) && self.bytes >= LEAST_QUEUED_BYTES;
            self.note(per_ms, queued, busy);
        }
        self.begin(now);
        self.first = false;
    }

    fn note(&mut self, per_ms: u32, queued: bool, busy: Time) {
        if per_ms > self.per_ms {
            (self.per_ms, self.rested, self.measured) = (per_ms, self.first, busy);
        } else if self.starved {
            // Less than it carries, and nobody knows how much less.
        } else if (self.limited || queued) && self.rested && !self.first {
            (self.per_ms, self.rested, self.measured) = (per_ms, false, busy);
        } else if self.limited {
            self.per_ms -= (self.per_ms - per_ms) / DOWN_PART;
            self.measured = busy;
        } else if queued || per_ms >= self.per_ms(busy) / USED_PART {
            self.measured = busy;
        }
    }
}

/// How a path stands when something that it carried is acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trips {
    /// Its usual round trip, and the least of late.
    pub(crate) usual: Span,
    pub(crate) least: Span,
    /// Nothing is under way by it any more.
    pub(crate) drained: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOING_ON: Trips = Trips { usual: Span(0), least: Span(0), drained: false };

    /// One block at a time, each acknowledged before the next: a path of 500 Mb/s whose round trip has come to be long once.
    #[test]
    fn a_block_alone_shows_what_the_path_delivers() {
        for usual in [100, 3_700] {
            let (mut rate, mut now) = (Rate::NEW, Time(1_000_000));
            let trips = Trips { usual: Span::us(usual), least: Span::us(50), drained: true };
            rate.begin(now);
            rounds(&mut rate, &mut now, 20, 15_000, true);
            for _ in 0..3 {
                rate.begin(now);
                now = now + Span::us(50 + 24_000 * 1_000 / 62_500);
                rate.on_acked((now, now), 24_000, &trips);
                now = now + Span::ms(1);
            }
            assert_eq!(rate.per_ms(now), 62_500);
        }
    }

    /// Shorter than what can be measured: that is no reason to believe that it is slow.
    #[test]
    fn a_frame_alone_says_nothing() {
        let (mut rate, mut now) = (Rate::NEW, Time(1_000_000));
        rate.begin(now);
        rounds(&mut rate, &mut now, 3, 62_500, true);
        rate.begin(now);
        rate.note_limited();
        now = now + Span::us(60);
        rate.on_acked((now, now), 64, &Trips { drained: true, ..GOING_ON });
        assert_eq!(rate.per_ms(now), 62_500);
    }

    /// So many rounds of a millisecond each, each with so many bytes.
    fn rounds(rate: &mut Rate, now: &mut Time, rounds: u32, bytes: u32, limited: bool) {
        for _ in 0..rounds {
            *now = *now + Span::ms(1);
            if limited {
                rate.note_limited();
            }
            rate.on_acked((*now, *now), bytes, &GOING_ON);
        }
    }

    #[test]
    fn the_most_counts_and_less_only_where_the_window_was_full() {
        let (mut rate, mut now) = (Rate::NEW, Time(1_000_000));
        rate.begin(now);
        rounds(&mut rate, &mut now, 3, 62_500, true);
        assert_eq!(rate.per_ms(now), 62_500);
        rounds(&mut rate, &mut now, 50, 100, false);
        assert_eq!(rate.per_ms(now), 62_500, "there was no more to send");
        rounds(&mut rate, &mut now, 40, 12_500, true);
        assert!(rate.per_ms(now) < 13_000, "{}", rate.per_ms(now));
        rounds(&mut rate, &mut now, 1, 62_500, true);
        assert_eq!(rate.per_ms(now), 62_500, "more is taken at once");
    }

    #[test]
    fn what_nobody_measured_is_not_better_than_it_was() {
        assert_eq!(Rate::NEW.trip(Time(1 << 40), 60_000), 60_000);
    }

    #[test]
    fn a_pause_ages_nothing() {
        let mut busy = Busy::NEW;
        for ms in [5_000, 5_050, 5_100, 9_000, 9_010] {
            busy.on_acked(Time(0) + Span::ms(ms));
        }
        assert_eq!(busy.for_so_long, Time(0) + Span::ms(110));
    }

    #[test]
    fn a_pause_says_nothing() {
        let mut rate = Rate::NEW;
        rate.begin(Time(0));
        rate.note_limited();
        rate.on_acked((Time(0) + Span::ms(900), Time(0)), 1_500, &GOING_ON);
        assert_eq!(rate.per_ms(Time(0) + Span::ms(900)), 0);
    }

    #[test]
    fn what_is_not_used_is_tried_again() {
        let (mut rate, mut now) = (Rate::NEW, Time(1_000_000));
        rate.begin(now);
        rounds(&mut rate, &mut now, 3, 1_000, true);
        assert_eq!(rate.per_ms(now + Span::ms(199)), 1_000);
        assert_eq!(rate.per_ms(now + Span::ms(400)), 4_000);
        assert_eq!(rate.per_ms(now + Span::ms(1_000_000)), u32::MAX);
        assert_eq!(rate.trip(now + Span::ms(199), 60_000), 60_000);
        assert_eq!(rate.trip(now + Span::ms(1_200), 60_000), 937);
        assert_eq!(rate.trip(now + Span::ms(1_000_000), 60_000), 0);
    }

    /// Its window never was too small, for seconds: that is no reason to take it for ever better.
    #[test]
    fn what_is_used_is_as_good_as_it_was() {
        let (mut rate, mut now) = (Rate::NEW, Time(1_000_000));
        rate.begin(now);
        rounds(&mut rate, &mut now, 1, 62_500, false);
        rounds(&mut rate, &mut now, 5_000, 40_000, false);
        assert_eq!(rate.per_ms(now), 62_500);
        rounds(&mut rate, &mut now, 1_000, 100, false);
        assert_eq!(rate.per_ms(now), 2_000_000, "hardly anything was sent");
    }

    const QUEUED: Trips = Trips { usual: Span::us(300), least: Span::us(50), drained: false };

    /// A token bucket lets the first bytes out at once: what the path delivers further on takes the rate down again as fast as that took it up.
    #[test]
    fn what_a_rested_path_delivers_at_first_is_corrected_at_once() {
        let (mut rate, mut now) = (Rate::NEW, Time(1_000_000));
        rate.begin(now);
        now = now + Span::us(850);
        rate.on_acked((now, now), 24_000, &QUEUED);
        assert_eq!(rate.per_ms(now), 30_000);
        now = now + Span::us(1_920);
        rate.on_acked((now, now), 24_000, &QUEUED);
        assert_eq!(rate.per_ms(now), 12_500, "no window was too small, but all of it was queued");
        now = now + Span::us(1_920);
        rate.on_acked((now, now), 12_000, &QUEUED);
        assert_eq!(
            rate.per_ms(now),
            12_500,
            "no burst came before this: there may have been no more to send"
        );
    }

    /// One block is enough to see that what was hoped for is not so.
    #[test]
    fn a_guess_ends_with_a_block() {
        let (mut rate, mut now) = (Rate::NEW, Time(1_000_000));
        rate.begin(now);
        rounds(&mut rate, &mut now, 1, 12_500, true);
        for (took, per_ms) in [(Span::us(1_970), 12_500), (Span::us(60), 50_000)] {
            now = now + Span::ms(450);
            assert!(rate.is_guess(now) && rate.per_ms(now) == 50_000);
            rate.begin(now);
            now = now + took;
            rate.on_acked((now, now), 24_000, &Trips { drained: true, ..QUEUED });
            assert!(!rate.is_guess(now));
            assert_eq!(rate.per_ms(now), per_ms, "as measured, or too quick for that");
        }
    }

    /// Others' frames were missing, so there were no numbers: the path is as quick as it was.
    #[test]
    fn what_waits_for_numbers_says_nothing() {
        let (mut rate, mut now) = (Rate::NEW, Time(1_000_000));
        rate.begin(now);
        rounds(&mut rate, &mut now, 1, 62_500, true);
        rate.note_starved();
        rounds(&mut rate, &mut now, 1, 12_500, true);
        assert_eq!(rate.per_ms(now), 62_500);
        rounds(&mut rate, &mut now, 1, 12_500, true);
        assert_eq!(rate.per_ms(now), 12_500);
    }

    /// A block alone in a long round trip seems slow: the path is tried with more and more until its window is full.
    #[test]
    fn one_block_says_little() {
        let (mut rate, mut now) = (Rate::NEW, Time(1_000_000));
        rate.begin(now);
        rounds(&mut rate, &mut now, 1, 1_000, false);
        now = now + Span::ms(1_200);
        rate.begin(now);
        rounds(&mut rate, &mut now, 10, 1_000, false);
        assert_eq!(rate.per_ms(now), 64_000);
        rounds(&mut rate, &mut now, 1, 900, true);
        assert_eq!(rate.per_ms(now), 900, "now it was full");
        rounds(&mut rate, &mut now, 1, 500, true);
        assert_eq!(rate.per_ms(now), 800);
    }
}
