//! How much a path delivers: the most of late that was acknowledged in a round trip or two while something was under way all the time.
//!
//! What the application had to send may be less than what the path carries, so less counts only if its window kept something from
//! leaving meanwhile.

use crate::time::{Span, Time};

/// Least time of a measurement: acknowledgements come in bursts, and a host does not run for as long now and then.
const LEAST: Span = Span::us(300);

/// Longest: beyond it there was a pause.
const MOST: Span = Span::ms(20);

/// A lower measurement takes the rate down by this part of the difference.
const DOWN_PART: u32 = 4;

/// A path by which nothing was measured for so long, while its peer was busy, may have become twice as good, and so on, in what it delivers and in its round trip: what is
/// not used would never be measured again. A path that is a hundred times as slow as another is tried every three seconds or so.
const DOUBLES: Span = Span::ms(500);

/// Who had this part of the rate to send, as it is guessed now, has used the path: it is no guess of long ago. One block that is tried alone
/// is less, and is followed by more until the window is what limits them.
const USED_PART: u32 = 4;

/// The delivery rate of one path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    since: Time,
    bytes: u32,
    /// Its window was too small for something since then.
    limited: bool,
    /// Bytes in a millisecond. 0: nobody knows.
    per_ms: u32,
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
    pub(crate) const NEW: Self =
        Self { since: Time(0), bytes: 0, limited: false, per_ms: 0, measured: Time(0) };

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
        (self.since, self.bytes, self.limited) = (now, 0, false);
    }

    /// Something had to wait for the window.
    pub(crate) const fn note_limited(&mut self) {
        self.limited = true;
    }

    /// So many bytes were acknowledged, a round trip being so long.
    pub(crate) fn on_acked(&mut self, (now, busy): (Time, Time), bytes: u32, trip: Span) {
        self.bytes = self.bytes.saturating_add(bytes);
        let took = now.since(self.since);
        if took < LEAST.max(Span(2 * trip.0)) {
            return;
        }
        if took <= MOST.max(Span(8 * trip.0)) {
            let per_ms = (u64::from(self.bytes) * 1_000_000 / took.0.max(1)) as u32;
            if per_ms > self.per_ms {
                (self.per_ms, self.measured) = (per_ms, busy);
            } else if self.limited {
                self.per_ms -= (self.per_ms - per_ms) / DOWN_PART;
                self.measured = busy;
            } else if per_ms >= self.per_ms(busy) / USED_PART {
                self.measured = busy;
            }
        }
        self.begin(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many rounds of a millisecond each, each with so many bytes.
    fn rounds(rate: &mut Rate, now: &mut Time, rounds: u32, bytes: u32, limited: bool) {
        for _ in 0..rounds {
            *now = *now + Span::ms(1);
            if limited {
                rate.note_limited();
            }
            rate.on_acked((*now, *now), bytes, Span::us(100));
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
        rate.on_acked((Time(0) + Span::ms(900), Time(0)), 1_500, Span::us(100));
        assert_eq!(rate.per_ms(Time(0) + Span::ms(900)), 0);
    }

    #[test]
    fn what_is_not_used_is_tried_again() {
        let (mut rate, mut now) = (Rate::NEW, Time(1_000_000));
        rate.begin(now);
        rounds(&mut rate, &mut now, 3, 1_000, true);
        assert_eq!(rate.per_ms(now + Span::ms(499)), 1_000);
        assert_eq!(rate.per_ms(now + Span::ms(1_000)), 4_000);
        assert_eq!(rate.per_ms(now + Span::ms(1_000_000)), u32::MAX);
        assert_eq!(rate.trip(now + Span::ms(499), 60_000), 60_000);
        assert_eq!(rate.trip(now + Span::ms(3_000), 60_000), 937);
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
        assert_eq!(rate.per_ms(now), 250_000, "hardly anything was sent");
    }

    /// A block alone in a long round trip seems slow: the path is tried with more and more until its window is full.
    #[test]
    fn one_block_says_little() {
        let (mut rate, mut now) = (Rate::NEW, Time(1_000_000));
        rate.begin(now);
        rounds(&mut rate, &mut now, 1, 1_000, false);
        now = now + Span::ms(3_000);
        rate.begin(now);
        rounds(&mut rate, &mut now, 10, 1_000, false);
        assert_eq!(rate.per_ms(now), 64_000);
        rounds(&mut rate, &mut now, 1, 900, true);
        assert_eq!(rate.per_ms(now), 975, "now it was full");
    }
}
