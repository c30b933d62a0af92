//! Round trips of a path: smoothed, how much they vary (RFC 6298), and the least of the last seconds.
//!
//! The least is what a packet takes that waits nowhere, and all delay is judged against it. It is a minimum over seconds, and never one
//! current sample: under a standing queue that would be the queue's own delay, and the window would grow with it.

use crate::limits::{RETRANSMIT_CEILING, RETRANSMIT_CEILING_MAX, RETRANSMIT_FLOOR};
use crate::time::Span;

/// Round trips, in microseconds, that are never measured as nothing: longer than those of one machine and of one switch.
const STALL_US: u32 = 64;

/// Shortest wait for the answer to a long frame before it is asked for: what a receiver takes for a few of them, and a sender for the
/// question.
const QUESTION_FLOOR: Span = Span::us(30);

/// How much round trips are taken to vary that begin to share a port with others', in microseconds: a fourth of what a port of 512 KB at 10 Gb/s
/// queues.
const CROWD_US: u32 = 105;

/// Timer before a round trip was measured.
const INITIAL_TIMEOUT: Span = Span::ms(1);

/// Two such intervals are what the least is taken over, the present one and the one before it: 4 to 8 s, in units of 2^22 µs. A way
/// that became longer is known after that, and no queue stands as long without falling once.
const INTERVAL_BITS: u32 = 22;

/// Acknowledgements without a frame found lost by its order, until a long wait is taken for a long round trip: acknowledgements that
/// are lost make round trips look long, and a timer that believes that waits longer for the next.
const LOSS_MEMORY: u8 = 15;

/// In so many microseconds a supposed round trip is counted: in 16 bits up to the longest timer.
const SUPPOSED_UNIT_US: u64 = 32;

/// Runs of the timer that count for that: with them it is as long as it can be.
const RUNS_MAX: u32 = 32;

/// Round trips of one path. 20 bytes, as there is one for each idle peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    smoothed_us: u32,
    variation_us: u32,
    /// Least of the present interval, and of the one before it.
    least_us: [u32; 2],
    /// A round trip that is supposed, and not measured ([`Self::on_unclear_answer`]), in units of [`SUPPOSED_UNIT_US`]: the timer is long
    /// enough for it until it ran out once or something is measured. 0: none.
    supposed: u16,
    /// The present interval (wrapping).
    interval: u8,
    /// Acknowledgements that must still come before round trips are trusted to be longer than the usual ceiling.
    lossy: u8,
}

impl Rtt {
    pub(crate) const fn new() -> Self {
        Self {
            smoothed_us: 0,
            variation_us: 0,
            least_us: [u32::MAX; 2],
            supposed: 0,
            interval: 0,
            lossy: 0,
        }
    }

    /// The least round trip of the last seconds; `u32::MAX` if none was measured.
    #[inline]
    pub(crate) fn least_us(&self) -> u32 {
        self.least_us[0].min(self.least_us[1])
    }

    /// The same; `u32::MAX` also if the last was measured before the present interval and the one before it: where nothing was sent for so long
    /// much may have changed, and what was known of it may be of one sample.
    pub(crate) fn recent_us(&self, now_us: u32) -> u32 {
        let interval = (now_us >> INTERVAL_BITS) as u8;
        if interval.wrapping_sub(self.interval) <= 1 { self.least_us() } else { u32::MAX }
    }

    /// 0 if none was measured.
    #[inline]
    pub(crate) const fn smoothed_us(&self) -> u32 {
        self.smoothed_us
    }

    /// A round trip was measured.
    #[inline]
    pub(crate) const fn is_measured(&self) -> bool {
        self.smoothed_us > 0 || self.supposed > 0
    }

    /// Takes in one measured round trip: of a frame that was sent once, without the time for which its acknowledgement was held back.
    #[inline]
    pub(crate) fn on_sample(&mut self, sample_us: u32, now_us: u32) {
        // Small frames are stamped when they have left, and a stall of ours between the two is not in the sample: nothing at
        // all, on a path that usually takes long, is that.
        if sample_us == 0 && self.smoothed_us > STALL_US {
            return;
        }
        // A measured zero would read as "not measured".
        let sample = sample_us.clamp(1, 1 << 28);
        // What was only supposed (`on_unclear_answer`) gives way to what is measured.
        let first = self.smoothed_us == 0 || self.supposed > 0;
        if first {
            (self.least_us, self.supposed) = ([u32::MAX; 2], 0);
        }
        self.turn(now_us);
        self.least_us[0] = self.least_us[0].min(sample);
        if first {
            (self.smoothed_us, self.variation_us) = (sample, sample / 2);
        } else {
            self.smooth(sample);
        }
    }

    #[inline]
    fn smooth(&mut self, sample: u32) {
        let error = self.smoothed_us.abs_diff(sample);
        // Rounded up. No sample is so long that this overflows.
        self.variation_us = (3 * self.variation_us + error + 3) >> 2;
        self.smoothed_us = (7 * self.smoothed_us + sample + 7) >> 3;
    }

    /// Others send to the same receiver now: what waits before its port will, too, and has not been measured. Their timers have to be as long as
    /// the queue of a port is, or each frame is sent twice just when it is full.
    pub(crate) const fn on_crowd(&mut self) {
        if self.smoothed_us > 0 && self.variation_us < CROWD_US {
            self.variation_us = CROWD_US;
        }
    }

    /// Begins another interval if it is time to.
    #[inline]
    fn turn(&mut self, now_us: u32) {
        let interval = (now_us >> INTERVAL_BITS) as u8;
        if interval != self.interval {
            // What was measured before a long pause is still the best guess there is.
            self.least_us = [u32::MAX, self.least_us[0]];
            self.interval = interval;
        }
    }

    /// A frame was found lost because one that was sent after it has arrived.
    pub(crate) const fn on_loss(&mut self) {
        self.lossy = LOSS_MEMORY;
    }

    /// Frames arrived.
    #[inline]
    pub(crate) const fn on_progress(&mut self) {
        self.lossy = self.lossy.saturating_sub(1);
    }

    /// An answer that comes sooner is not to a frame that was just sent, in microseconds: half of a usual round trip. Of a long one
    /// the least will do: those that wait for each other make up most of a usual round trip, and what is sent again goes alone.
    pub(crate) fn answered_us(&self, long: bool) -> u32 {
        let usual = self.smoothed_us / 2;
        if long { usual.min(self.least_us()) } else { usual }
    }

    /// The time after which a missing acknowledgement is worth a retransmission: round trip, its variation, and the
    /// longest that the peer sits on an acknowledgement.
    pub(crate) fn timeout(&self, ack_delay: Span, backoff: u32) -> Span {
        let base = self.base(ack_delay);
        let supposed = self.supposed_timer();
        let floored = base.max(RETRANSMIT_FLOOR).max(supposed);
        let followed = if self.lossy == 0 { Span(2 * base.0) } else { RETRANSMIT_CEILING };
        let ceiling = RETRANSMIT_CEILING.max(followed).max(supposed).min(RETRANSMIT_CEILING_MAX);
        Span(floored.0 << backoff.min(16)).min(ceiling)
    }

    /// A timer that is long enough for a supposed round trip, or the longest there is. Nothing if none is.
    fn supposed_timer(&self) -> Span {
        Span::us(2 * SUPPOSED_UNIT_US * u64::from(self.supposed)).min(RETRANSMIT_CEILING_MAX)
    }

    /// The same without floor, back-off and ceiling.
    fn base(&self, ack_delay: Span) -> Span {
        if self.smoothed_us == 0 {
            return INITIAL_TIMEOUT;
        }
        let smoothed = Span::us(self.smoothed_us.into());
        let spread = Span::us(4 * u64::from(self.variation_us));
        // So long round trips are those of a host that runs by turns: it may take a frame in one and acknowledge it in the next.
        let least = if smoothed > RETRANSMIT_CEILING { smoothed.0 } else { 0 };
        Span(smoothed.0 + spread.0.max(least) + ack_delay.0)
    }

    /// Frames were acknowledged after `waited` without an acknowledgement, and so many microseconds after the last copy of one left: too
    /// few for an answer to that, half of the least of late: what fills a gap often leaves alone, and is quicker than others. So nothing
    /// waited for it.
    pub(crate) fn is_too_soon(&self, since_copy_us: Option<u32>, waited: Span) -> bool {
        waited > RETRANSMIT_CEILING
            && since_copy_us.is_some_and(|since_us| 2 * since_us < self.answered_us(true))
    }

    /// Frames were acknowledged that had all been resent, after `waited` without an acknowledgement, and so many microseconds after
    /// the last copy left; the timer had run `runs` times. That measures nothing (Karn). But if it took longer than the usual ceiling, and the
    /// last copy was not answered in the usual time, an earlier one may have been: round trips would have become longer than the timer, which
    /// would find each frame lost and never measure one. So that is supposed, and tried with one timer that is long enough for it. If that ran
    /// out as well, what it waited for was lost: a supposition is never the ground of the next, or each loss would double the timer.
    pub(crate) fn on_unclear_answer(
        &mut self,
        since_copy_us: Option<u32>,
        (waited, runs): (Span, u32),
        ack_delay: Span,
    ) {
        if self.supposed > 0 {
            self.on_timeout(waited);
            return;
        }
        if self.smoothed_us == 0 {
            self.suppose_first(since_copy_us, runs, ack_delay);
            return;
        }
        let usual = self.base(ack_delay).max(RETRANSMIT_FLOOR).as_us();
        let late = since_copy_us.is_some_and(|since_us| u64::from(since_us) > usual);
        let longer = late && waited > RETRANSMIT_CEILING;
        if self.lossy == 0 && (longer || self.is_too_soon(since_copy_us, waited)) {
            self.suppose(waited);
            return;
        }
        // Whichever copy was answered, it took no less than since the last of them. Where that is more than was thought, the timer is too
        // short, and without this it stays so: each frame would be sent twice, and none measured.
        // Not where acknowledgements are lost: then it waited for the next.
        let at_least = since_copy_us.filter(|us| *us > self.smoothed_us);
        if let Some(us) = at_least.filter(|us| Span::us((*us).into()) < RETRANSMIT_CEILING) {
            self.smooth(us);
        }
    }

    /// Nothing was ever measured, so nothing speaks against a way that is longer than the first timer: it may take as long as since the first copy
    /// left, before the timer ran so often.
    fn suppose_first(&mut self, since_copy_us: Option<u32>, runs: u32, ack_delay: Span) {
        let Some(since_us) = since_copy_us else { return };
        let runs = (0..runs.min(RUNS_MAX)).map(|run| self.timeout(ack_delay, run).0);
        self.suppose(Span(runs.sum::<u64>() + Span::us(since_us.into()).0));
    }

    fn suppose(&mut self, trip: Span) {
        let us = trip.min(RETRANSMIT_CEILING_MAX).as_us();
        self.supposed = us.div_ceil(SUPPOSED_UNIT_US) as u16;
    }

    /// The timer ran out after `waited`. If that was long enough for a supposed round trip, what it waited for was lost: with the supposition kept, each
    /// of many that are lost would wait as long.
    pub(crate) fn on_timeout(&mut self, waited: Span) {
        if waited >= self.supposed_timer() {
            self.supposed = 0;
        }
    }

    /// The time after which a missing answer is worth a question that costs nobody anything: two round trips as they were lately, or as
    /// many as they vary. `None`: none was measured.
    pub(crate) fn answer_within(&self, ack_delay: Span) -> Option<Span> {
        let us = self.smoothed_us + self.smoothed_us.max(4 * self.variation_us);
        (self.smoothed_us > 0)
            .then(|| Span(u64::from(us) * 1_000 + ack_delay.0).max(QUESTION_FLOOR))
    }
}

const _: () = assert!(RETRANSMIT_CEILING_MAX.as_us().div_ceil(SUPPOSED_UNIT_US) <= u16::MAX as u64);
const _: () = assert!(size_of::<Rtt>() == 20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_at_all_is_no_measurement_of_a_long_way() {
        let (mut far, mut near) = (Rtt::new(), Rtt::new());
        for _ in 0..100 {
            far.on_sample(1_000, 0);
            near.on_sample(0, 0);
        }
        far.on_sample(0, 0);
        assert_eq!((far.least_us(), near.least_us()), (1_000, 1));
        far.on_sample(900, 0);
        assert_eq!(far.least_us(), 900);
    }

    #[test]
    fn timeout_has_floor_ceiling_and_backoff() {
        let mut rtt = Rtt::new();
        assert_eq!(rtt.timeout(Span::us(60), 0), INITIAL_TIMEOUT);
        for i in 0..100 {
            rtt.on_sample(5, i * 10);
        }
        assert_eq!(rtt.timeout(Span::us(60), 0), RETRANSMIT_FLOOR);
        assert_eq!(rtt.timeout(Span::us(60), 1), Span::us(400));
        assert_eq!(rtt.timeout(Span::us(60), 40), RETRANSMIT_CEILING);
    }

    /// Whoever takes longer than the usual ceiling runs by turns, and may take a frame in one and acknowledge it in the next (`RESEND-2`).
    #[test]
    fn long_round_trips_may_take_as_long_again() {
        let timeout = |us: u32| {
            let mut rtt = Rtt::new();
            (0..100).for_each(|i| rtt.on_sample(us, i * 10));
            rtt.timeout(Span::us(60), 0)
        };
        assert!(timeout(300_000) >= Span::ms(600), "{:?}", timeout(300_000));
        assert!(timeout(50_000) < Span::ms(60), "{:?}", timeout(50_000));
    }

    /// What was only supposed lasts for one timer (`RESEND-2`).
    #[test]
    fn a_supposed_round_trip_is_tried_with_one_timer() {
        let mut rtt = Rtt::new();
        let delay = Span::us(60);
        (0..100).for_each(|i| rtt.on_sample(100, i * 10));
        let usual = rtt.timeout(delay, 0);
        rtt.on_unclear_answer(Some(10), (Span::ms(900), 0), delay);
        let supposed = rtt.timeout(delay, 0);
        assert!((Span::ms(1_800)..Span::ms(1_801)).contains(&supposed), "{supposed:?}");
        // That of before was not long enough for it, and says nothing.
        rtt.on_timeout(usual);
        assert_eq!(rtt.timeout(delay, 0), supposed);
        rtt.on_timeout(supposed);
        assert_eq!(rtt.timeout(delay, 0), usual);
        // One that no timer is long enough for has the longest.
        rtt.on_unclear_answer(Some(10), (Span::ms(60_000), 0), delay);
        assert_eq!(rtt.timeout(delay, 0), RETRANSMIT_CEILING_MAX);
        rtt.on_timeout(RETRANSMIT_CEILING_MAX);
        assert_eq!(rtt.timeout(delay, 0), usual);
    }

    /// A queue that stands for a second raises every sample, and not the least. One that stands for ten is a longer way.
    #[test]
    fn the_least_is_that_of_seconds_and_not_one_sample() {
        let mut rtt = Rtt::new();
        rtt.on_sample(20, 1_000_000);
        // As many samples as one can think of, in a few seconds.
        for i in 0..100_000 {
            rtt.on_sample(500, 1_000_000 + i * 20);
        }
        assert_eq!(rtt.least_us(), 20);
        for i in 0..1_000 {
            rtt.on_sample(500, 3_000_000 + i * 10_000);
        }
        assert_eq!(rtt.least_us(), 500);
    }

    /// What was last measured some seconds ago is to be measured again, before it is compared with what is measured now.
    #[test]
    fn what_was_measured_long_ago_is_not_recent() {
        let mut rtt = Rtt::new();
        assert_eq!(rtt.recent_us(0), u32::MAX);
        rtt.on_sample(20, 1_000_000);
        assert_eq!((rtt.recent_us(1_000_000), rtt.recent_us(8_000_000)), (20, 20));
        assert_eq!((rtt.recent_us(8_500_000), rtt.least_us()), (u32::MAX, 20));
        rtt.on_sample(300, 8_500_000);
        assert_eq!(rtt.recent_us(8_500_000), 20, "and what was known then counts until others do");
        // The clock of 32 bits begins anew.
        rtt.on_sample(40, u32::MAX - 1_000);
        assert_eq!(rtt.recent_us(1_000), 40);
    }

    /// After a pause the clock may be anywhere.
    #[test]
    fn a_pause_forgets_nothing() {
        let mut rtt = Rtt::new();
        rtt.on_sample(20, 5);
        rtt.on_sample(300, 4_000_000_000);
        assert_eq!(rtt.least_us(), 20);
        rtt.on_sample(300, 4_100_000_000);
        assert_eq!(rtt.least_us(), 300);
    }
}
