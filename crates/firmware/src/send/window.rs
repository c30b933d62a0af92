//! How much may be in flight: round-trip estimate and a window steered by delay (`WINDOW-1`).

use crate::limits::{
    RETRANSMIT_CEILING, RETRANSMIT_CEILING_MAX, RETRANSMIT_FLOOR, WINDOW_FRAMES, WINDOW_FRAMES_MIN,
};
use crate::time::Span;

/// Fractional bits of the window.
const SCALE: u32 = 7;

/// Frames that a peer may have in flight before anything is known of the path: less than any switch port buffers.
const INITIAL: u32 = 64;

/// Queueing that is taken as normal, in microseconds: scheduling noise of an ordinary host is of that size, and at 1 Gb/s
/// it is 60 KB, which every switch port has.
const QUEUE_US: u32 = 500;

/// Round trips, in microseconds, that are never measured as nothing: longer than those of one machine and of one switch.
const STALL_US: u32 = 64;

/// Marks a round trip that is only supposed: longer than any that is measured.
const SUPPOSED: u32 = 1 << 31;

/// Samples after which the least round trip is measured anew.
const LEAST_SAMPLES: u16 = AGE_MASK;

/// Shortest wait for the answer to a long frame before it is asked for: what a receiver takes for a few of them, and a sender for the
/// question.
const QUESTION_FLOOR: Span = Span::us(30);

/// Timer before a round trip was measured.
const INITIAL_TIMEOUT: Span = Span::ms(1);

/// Round-trip estimate (RFC 6298's smoothing) and window of one peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    smoothed_us: u32,
    variation_us: u32,
    /// The least; or, with [`SUPPOSED`], a round trip that is supposed, and not measured ([`Self::on_unclear_answer`]): the timer is long
    /// enough for it until it ran out once or something is measured. `u32::MAX`: neither. Together, as there is one of these for
    /// each idle peer.
    least_us: u32,
    /// In the lower [`AGE_BITS`], samples since the least was taken: a path may have become longer for good. Above them,
    /// acknowledgements that must still come before round trips are trusted to be longer than the usual ceiling. Together, as
    /// there is one of these for each idle peer.
    ages: u16,
    /// Frames, times 2^SCALE.
    scaled: u16,
    /// When the window was last cut, in microseconds (wrapping).
    cut_us: u32,
}

const AGE_BITS: u32 = 12;
const AGE_MASK: u16 = (1 << AGE_BITS) - 1;

/// Acknowledgements without a frame found lost by its order, until a long wait is taken for a long round trip: acknowledgements that
/// are lost make round trips look long, and a timer that believes that waits longer for the next.
const LOSS_MEMORY: u16 = 15;

impl Window {
    pub(super) const fn new() -> Self {
        Self {
            smoothed_us: 0,
            variation_us: 0,
            least_us: u32::MAX,
            ages: 0,
            scaled: (INITIAL << SCALE) as u16,
            cut_us: 0,
        }
    }

    /// Frames that may be in flight.
    pub(super) const fn frames(&self) -> u32 {
        (self.scaled as u32) >> SCALE
    }

    /// An answer that comes sooner is not to a frame that was just sent, in microseconds: half of a usual round trip. Of a long one
    /// the least will do: those that wait for each other make up most of a usual round trip, and what is sent again goes alone.
    pub(super) fn answered_us(&self, long: bool) -> u32 {
        let usual = self.smoothed_us / 2;
        if long { usual.min(self.least_us & !SUPPOSED) } else { usual }
    }

    /// The time after which a missing acknowledgement is worth a retransmission: round trip, its variation, and the
    /// longest that the peer sits on an acknowledgement.
    pub(super) fn timeout(&self, ack_delay: Span, backoff: u32) -> Span {
        let base = self.base(ack_delay);
        let supposed = self.supposed_timer();
        let floored = base.max(RETRANSMIT_FLOOR).max(supposed);
        let followed = if !self.is_lossy() { Span(2 * base.0) } else { RETRANSMIT_CEILING };
        let ceiling = RETRANSMIT_CEILING.max(followed).max(supposed).min(RETRANSMIT_CEILING_MAX);
        Span(floored.0 << backoff.min(16)).min(ceiling)
    }

    /// The round trip that is supposed. 0: none is.
    const fn supposed_us(&self) -> u32 {
        let supposed = self.least_us != u32::MAX && self.least_us & SUPPOSED != 0;
        if supposed { self.least_us & !SUPPOSED } else { 0 }
    }

    /// A timer that is long enough for a supposed round trip. Nothing if none is.
    const fn supposed_timer(&self) -> Span {
        Span::us(2 * self.supposed_us() as u64)
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

    /// A frame was found lost because one that was sent after it has arrived.
    pub(super) fn on_loss(&mut self) {
        self.ages = self.ages & AGE_MASK | LOSS_MEMORY << AGE_BITS;
    }

    const fn is_lossy(&self) -> bool {
        self.ages >> AGE_BITS > 0
    }

    fn forget_loss(&mut self) {
        if self.is_lossy() {
            self.ages -= 1 << AGE_BITS;
        }
    }

    /// A round trip was measured.
    pub(super) const fn is_measured(&self) -> bool {
        self.smoothed_us > 0 || self.supposed_us() > 0
    }

    /// Frames were acknowledged after `waited` without an acknowledgement, and so many microseconds after the last copy of one left: too
    /// few for an answer to that: what fills a gap often leaves alone, and takes the least. So nothing waited for it.
    pub(super) fn is_too_soon(&self, since_copy_us: Option<u32>, waited: Span) -> bool {
        waited > RETRANSMIT_CEILING
            && since_copy_us.is_some_and(|since_us| since_us < self.answered_us(true))
    }

    /// Frames were acknowledged that had all been resent, after `waited` without an acknowledgement, and so many microseconds after
    /// the last copy left. That measures nothing (Karn). But if it took longer than the usual ceiling, and the last copy was not answered in
    /// the usual time, an earlier one may have been: round trips would have become longer than the timer, which would find each frame lost
    /// and never measure one. So that is supposed, and tried with one timer that is long enough for it. If that ran out as well, what it
    /// waited for was lost: a supposition is never the ground of the next, or each loss would double the timer.
    pub(super) fn on_unclear_answer(
        &mut self,
        since_copy_us: Option<u32>,
        waited: Span,
        ack_delay: Span,
    ) {
        if self.supposed_us() > 0 {
            if waited >= self.supposed_timer() {
                self.least_us = u32::MAX;
            }
            return;
        }
        let usual = self.base(ack_delay).max(RETRANSMIT_FLOOR).as_us();
        let late = since_copy_us.is_some_and(|since_us| u64::from(since_us) > usual);
        let longer = late && waited > RETRANSMIT_CEILING;
        if !self.is_lossy() && (longer || self.is_too_soon(since_copy_us, waited)) {
            self.least_us = SUPPOSED | waited.min(RETRANSMIT_CEILING_MAX).as_us() as u32;
        }
    }

    /// The time after which a missing answer is worth a question that costs nobody anything: two round trips as they were lately, or as
    /// many as they vary. `None`: none was measured.
    pub(super) fn answer_within(&self, ack_delay: Span) -> Option<Span> {
        let us = self.smoothed_us + self.smoothed_us.max(4 * self.variation_us);
        (self.smoothed_us > 0)
            .then(|| Span(u64::from(us) * 1_000 + ack_delay.0).max(QUESTION_FLOOR))
    }

    /// Takes in one measured round trip, and that `acked` frames arrived.
    pub(super) fn on_round_trip(&mut self, sample_us: u32, acked: u32, now_us: u32) {
        // Small frames are stamped when they have left, and a stall of ours between the two is not in the sample: nothing at
        // all, on a path that usually takes long, is that.
        if sample_us == 0 && self.smoothed_us > STALL_US {
            return self.grow(acked);
        }
        // A measured zero would read as "not measured".
        let sample = sample_us.clamp(1, 1 << 28);
        // What was only supposed (`on_unclear_answer`) gives way to what is measured.
        let first = self.smoothed_us == 0 || self.supposed_us() > 0;
        if first {
            self.least_us = u32::MAX;
        }
        if sample <= self.least_us || self.ages & AGE_MASK == LEAST_SAMPLES {
            (self.least_us, self.ages) = (sample, self.ages & !AGE_MASK);
        } else {
            self.ages += 1;
        }
        if first {
            (self.smoothed_us, self.variation_us) = (sample, sample / 2);
        } else {
            let error = self.smoothed_us.abs_diff(sample);
            self.variation_us = (3 * self.variation_us + error).div_ceil(4);
            self.smoothed_us = (7 * self.smoothed_us + sample).div_ceil(8);
        }
        let target = self.least_us.saturating_mul(2).saturating_add(QUEUE_US);
        if sample <= target {
            self.grow(acked);
        } else if now_us.wrapping_sub(self.cut_us) > self.smoothed_us {
            // Proportional to the excess, never by more than half; once per round trip.
            let excess = sample - target;
            let scaled = u32::from(self.scaled);
            let part = u64::from(scaled) * u64::from(excess) / u64::from(sample);
            let cut = (scaled / 2).min(part as u32);
            self.scale(scaled - cut);
            self.cut_us = now_us;
            self.forget_loss();
        }
    }

    /// Takes in that frames arrived, without a measurement.
    pub(super) fn grow(&mut self, acked: u32) {
        self.forget_loss();
        // Doubles per round trip below the initial window, then a quarter: delay, not loss, says when to stop.
        let step = if self.frames() < INITIAL { acked << SCALE } else { acked << (SCALE - 2) };
        self.scale(u32::from(self.scaled) + step);
    }

    /// A whole timer ran out without a word: the path may be jammed.
    pub(super) fn on_timeout(&mut self) {
        self.scale(u32::from(self.scaled) / 2);
    }

    fn scale(&mut self, scaled: u32) {
        self.scaled = scaled.clamp(WINDOW_FRAMES_MIN << SCALE, WINDOW_FRAMES << SCALE) as u16;
    }
}

const _: () = assert!(WINDOW_FRAMES << SCALE <= u16::MAX as u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_at_all_is_no_measurement_of_a_long_way() {
        let mut far = Window::new();
        let mut near = Window::new();
        for _ in 0..100 {
            far.on_round_trip(1_000, 1, 0);
            near.on_round_trip(0, 1, 0);
        }
        far.on_round_trip(0, 1, 0);
        assert_eq!((far.least_us, near.least_us), (1_000, 1));
        far.on_round_trip(900, 1, 0);
        assert_eq!(far.least_us, 900);
    }

    #[test]
    fn timeout_has_floor_ceiling_and_backoff() {
        let mut window = Window::new();
        assert_eq!(window.timeout(Span::us(60), 0), INITIAL_TIMEOUT);
        for i in 0..100 {
            window.on_round_trip(5, 1, i * 10);
        }
        assert_eq!(window.timeout(Span::us(60), 0), RETRANSMIT_FLOOR);
        assert_eq!(window.timeout(Span::us(60), 1), Span::us(400));
        assert_eq!(window.timeout(Span::us(60), 40), RETRANSMIT_CEILING);
    }

    #[test]
    fn delay_cuts_the_window_and_its_absence_opens_it() {
        let mut window = Window::new();
        for i in 0..200 {
            window.on_round_trip(20, 4, i * 20);
        }
        assert_eq!(window.frames(), WINDOW_FRAMES);
        for i in 0..50 {
            window.on_round_trip(5_000, 4, 10_000 + i * 6_000);
        }
        assert!(window.frames() < 32, "{}", window.frames());
    }
}
