//! How many bytes a path may have under way: a window that delay, marks and losses shrink (`WINDOW-1` to `WINDOW-6`).
//!
//! One decision a round trip, from the least delay of the round: a host that did not run for a while delays all that waited for it, and
//! not the last of that. Below its target delay a window that was used up grows, by a frame a round; above it it shrinks in proportion.
//! Windows that differ in length grow alike and shrink alike in proportion, so they become equal. The target is higher for a small window,
//! so that many flows in one queue stay as stable as few (Swift, SIGCOMM 2020).

use super::pacing;
use super::rtt::Rtt;
use super::serial::Serial;
use crate::time::{Span, Time};

/// Bytes under way to a peer of which nothing is known, or that was not sent to for a while: an eager message of 64 KB with its headers.
/// A switch's port buffers more.
pub(crate) const INITIAL_BYTES: u32 = 72 << 10;

/// The smallest window, in bytes: a frame of 1,500 bytes every 16 round trips. Smaller ones would only make the way back slower.
const LEAST_BYTES: u32 = 96;

/// A round in which all of the window was used adds so many bytes: a frame of Ethernet's usual MTU.
const STEP_BYTES: u32 = 1_500;

/// A small window grows by no more than this part of it: many that grow by a frame at a time fill a queue in one round.
const SMALL_PART: u32 = 8;

/// Queueing that is taken as normal on any path, in microseconds: 190 KB at 10 Gb/s, 9 KB at 500 Mb/s, and what an ordinary host's
/// processor takes for a few long frames.
const QUEUE_US: u32 = 120;

/// A window of [`LARGE_BYTES`] and more is allowed that; each that is half as long so many microseconds more. So of two flows in one queue
/// the one with the smaller window grows while the other shrinks.
const LARGE_BYTES: u32 = 256 << 10;
const HALF_US: u32 = 28;

/// No window of a frame and more is allowed more, in microseconds: 440 KB at 10 Gb/s, which a port of 512 KB takes.
const QUEUE_MAX_US: u32 = 340;

/// A window of less than a frame is allowed so many microseconds more for each half: at 100 Mb/s three frames are that queue, and eight senders have
/// half a frame each. With one target for all of these nothing makes them equal.
const TINY_HALF_US: u32 = 240;

/// Delay beyond which others must have filled the queue, in microseconds, if it was never less for [`FLOOR_ROUNDS`]: twice as much
/// as a window of a frame is allowed. Who goes by delay alone then leaves everything to who does not (TCP under cubic).
const COMPETING_US: u32 = QUEUE_MAX_US * 2;

/// Rounds over which that is looked at: a queue that is ours falls below its target within a few.
const FLOOR_ROUNDS: u8 = 16;

/// After so many rounds without a look at the path as it is without a queue of ours, one goes with an eighth of the window, for the least
/// round trip to be seen: whoever first met a path when its queue stood would take that for the path. Costs 1 %.
const CROWDED_ROUNDS: u8 = 200;
const DRAINED_ROUNDS: u8 = 3;
const DRAINED_PART: u32 = 8;

/// So many rounds in a row must have been delayed before delay shrinks the window: whoever did not run for a while delays one, a queue the next,
/// too. And so many before it leaves less than a long frame, which costs most where there is none: a busy host has its turn in between.
const DELAYED_ROUNDS: u8 = 2;
const STANDING_ROUNDS: u8 = 8;

/// Part of the excess by which a window shrinks, in sixteenths (0.8), and the most that one decision takes.
const SHRINK_16THS: u64 = 13;
const SHRINK_PART_MAX: u32 = 2;

/// Where less than so much delay is seen, in microseconds, a loss is none of a full queue: a port that overflows has more than 25 KB at
/// 10 Gb/s. It takes an eighth, which a wire that loses one frame of a hundred hardly feels, and leaves four frames.
const CLEAR_US: u32 = 20;
const CLEAR_PART: u32 = 8;
const CLEAR_BYTES: u32 = 4 * STEP_BYTES;

/// Losses alone leave two frames: with one nothing shows what became of the other. Less than that is for delay to say.
const LOSS_LEAST_BYTES: u32 = 2 * STEP_BYTES;

/// No more than so many frames lost say little of how much room there was.
const FEW_FRAMES: u32 = 3;

/// So many windows lost of what left before a cut mean that it was too small a cut: a frame at a time is left.
const OVERFLOWN: u32 = 4;

/// α of DCTCP (RFC 8257): the share of marked bytes, in units of 2^-10, smoothed with gain 1/16.
const MARKED_ONE: u32 = 1 << 10;
const MARKED_GAIN_SHIFT: u32 = 4;

/// What one acknowledgement says of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acked {
    /// Bytes of frames that it is the first to acknowledge.
    pub(crate) bytes: u32,
    /// Place of the latest of them in the path's order of transmission.
    pub(crate) order: u32,
    /// The place that the next frame to leave will have.
    pub(crate) next: u32,
    /// The round trip, if it is known.
    pub(crate) sample_us: Option<u32>,
    /// Bytes of the frame whose that is.
    pub(crate) sample_bytes: u32,
    /// Bytes that arrived marked since the last acknowledgement.
    pub(crate) marked: u32,
}

/// What was found lost of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lost {
    pub(crate) bytes: u32,
    /// Bytes of the longest of the frames.
    pub(crate) unit: u32,
    /// Place of the latest of them in the path's order of transmission.
    pub(crate) order: u32,
    /// The place that the next frame to leave will have.
    pub(crate) next: u32,
}

/// The window of one path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Congestion {
    window: u32,
    /// Most that it may be: what the receiver has room for.
    room: u32,
    /// Bytes of a long frame, where such get through. Delay alone leaves room for one. 0: none do.
    unit: u32,
    /// Below it the window doubles each round.
    threshold: u32,
    /// The round is over when this place in the order of transmission is acknowledged.
    round_end: u32,
    /// Losses of what left before this place have been answered for.
    answered: u32,
    /// Delay of the last round. `u32::MAX`: none is known.
    delay_us: u32,
    /// Least round trip of this round, without what its frame was longer than the window; of the last rounds, and in how many.
    least_us: u32,
    floor_us: u32,
    floor_rounds: u8,
    /// When something was last acknowledged, since the path was idle.
    used_at: Option<Time>,
    /// What it takes without a queue.
    base_us: u32,
    /// Rounds in a row that a queue stood in.
    standing: u8,
    /// The window was used up in this round.
    limited: bool,
    /// Rounds in a row whose delay was above the target.
    above: u8,
    /// Others keep the queue full: delay says nothing.
    competing: bool,
    /// So many rounds more go with a small part of the window.
    draining: u8,
    /// Least round trip since the queue was last to be seen empty.
    record_us: u32,
    /// Bytes acknowledged in this round, and those that were marked.
    acked: u32,
    marked: u32,
    /// Bytes acknowledged in the round before.
    came_before: u32,
    /// Smoothed share of marked bytes.
    alpha: u16,
    /// What frames take by their length.
    serial: Serial,
    /// The last round showed no queue.
    emptied: bool,
}

impl Congestion {
    /// As it is before anything is known.
    pub(crate) const FRESH: Self = Self {
        window: INITIAL_BYTES,
        room: INITIAL_BYTES,
        unit: 0,
        threshold: u32::MAX,
        round_end: 0,
        answered: 0,
        delay_us: u32::MAX,
        least_us: u32::MAX,
        floor_us: u32::MAX,
        floor_rounds: 0,
        used_at: None,
        base_us: u32::MAX,
        standing: 0,
        limited: false,
        above: 0,
        competing: false,
        draining: 0,
        record_us: u32::MAX,
        acked: 0,
        marked: 0,
        came_before: 0,
        alpha: MARKED_ONE as u16,
        serial: Serial::UNKNOWN,
        emptied: false,
    };

    /// Bytes that may be under way.
    #[inline]
    pub(crate) const fn bytes(&self) -> u32 {
        if self.draining == 0 {
            return self.window;
        }
        let part = self.window / DRAINED_PART;
        if part < self.floor() { self.floor() } else { part }
    }

    /// The round trip that a window is spread over which is less than a frame, in microseconds: what one as short as the window took in the
    /// last round. If that is not known, what frames take.
    pub(crate) const fn trip_us(&self, rtt: &Rtt) -> u32 {
        let seen_us = self.base_us.saturating_add(self.delay_us);
        // A round in which a host did not run counts for no more than the average.
        if seen_us < rtt.smoothed_us() { seen_us } else { rtt.smoothed_us() }
    }

    /// There was more to be sent than the window allows. The receiver has `room` for so many bytes; `unit` is how long a long frame is,
    /// where such get through, else 0.
    #[inline]
    pub(crate) const fn note_limited(&mut self, next: u32, (room, unit): (u32, u32)) {
        if self.used_at.is_none() {
            // The first that is known of it.
            (self.round_end, self.answered) = (next, next);
        }
        (self.limited, self.room, self.unit) = (true, room, unit);
    }

    /// Frames were acknowledged.
    #[inline]
    pub(crate) fn on_acked(&mut self, acked: &Acked, rtt: &Rtt, now: Time) {
        self.used_at = Some(now);
        if is_after(self.round_end, acked.next) || is_after(self.answered, acked.next) {
            // Transmissions are counted anew since the path was last used.
            (self.round_end, self.answered) = (acked.next, acked.order);
        }
        self.acked = self.acked.saturating_add(acked.bytes);
        self.marked = self.marked.saturating_add(acked.marked);
        if let Some(sample_us) = acked.sample_us {
            // A look with little of ours leaves a whole long frame, whose length is no queue, either.
            let ours = if self.draining > 0 { self.window / DRAINED_PART } else { self.window };
            let beyond = acked.sample_bytes.saturating_sub(ours);
            self.serial.learn(sample_us, acked.sample_bytes, self.base_us(rtt));
            self.least_us = self.least_us.min(sample_us.saturating_sub(self.serial.us(beyond)));
        }
        if self.window < self.threshold && self.limited && self.draining == 0 {
            self.set(self.window.saturating_add(acked.bytes).min(self.room.max(self.window)));
        }
        if is_after(acked.order.wrapping_add(1), self.round_end) {
            self.round(acked, rtt);
        }
    }

    /// A round is over: what was sent when it began has arrived (`WINDOW-2`).
    fn round(&mut self, acked: &Acked, rtt: &Rtt) {
        let marked = core::mem::take(&mut self.marked);
        self.came_before = core::mem::take(&mut self.acked);
        let bytes = self.came_before.max(marked).max(1);
        let least_us = core::mem::replace(&mut self.least_us, u32::MAX);
        let limited = core::mem::take(&mut self.limited);
        let draining = self.draining > 0;
        self.draining = self.draining.saturating_sub(1);
        self.round_end = acked.next;
        self.note_marked(marked, bytes);
        let base_us = self.base_us(rtt);
        self.base_us = base_us;
        if least_us != u32::MAX && base_us != u32::MAX {
            self.delay_us = least_us.saturating_sub(base_us);
            self.note_floor(least_us, base_us, draining);
        }
        // Losses of this window were answered for: its delay is theirs.
        if is_after(self.answered, acked.order) {
            return;
        }
        let delay_us = if least_us == u32::MAX { 0 } else { least_us.saturating_sub(base_us) };
        let target_us = target_us(self.window);
        if marked > 0 {
            let cut = u64::from(self.window) * u64::from(self.alpha) / u64::from(2 * MARKED_ONE);
            self.cut(cut as u32, acked.next);
        } else if !self.competing && delay_us > target_us {
            self.above = self.above.saturating_add(1);
            let excess = u64::from(delay_us - target_us) * SHRINK_16THS / 16;
            let cut = (u64::from(self.window) * excess / u64::from(least_us)) as u32;
            let most = (self.window / SHRINK_PART_MAX).min(self.window - self.floor());
            if self.above >= DELAYED_ROUNDS {
                self.cut(cut.min(most), acked.next);
            }
        } else if limited && !draining && self.window >= self.threshold {
            let step = STEP_BYTES.min(self.window / SMALL_PART).max(LEAST_BYTES);
            self.set((self.window + step).min(self.room.max(self.window)));
        }
        if delay_us <= target_us {
            self.above = 0;
        }
        if self.standing >= CROWDED_ROUNDS {
            (self.standing, self.draining) = (0, DRAINED_ROUNDS);
            self.record_us = u32::MAX;
            if !self.competing {
                self.serial.turn();
            }
        }
    }

    /// What the path takes without a queue. While others fill that nobody sees it, and what was seen before holds.
    fn base_us(&self, rtt: &Rtt) -> u32 {
        let known_us = if self.competing { self.base_us } else { u32::MAX };
        rtt.least_us().min(known_us)
    }

    fn note_marked(&mut self, marked: u32, bytes: u32) {
        let share = (u64::from(marked) * u64::from(MARKED_ONE) / u64::from(bytes)) as u32;
        let alpha = u32::from(self.alpha);
        self.alpha = (alpha - (alpha >> MARKED_GAIN_SHIFT) + (share >> MARKED_GAIN_SHIFT)) as u16;
    }

    /// Whether a queue stands that is not ours, and whether one was seen to be empty (`WINDOW-5`).
    fn note_floor(&mut self, least_us: u32, base_us: u32, drained: bool) {
        let delay_us = least_us.saturating_sub(base_us);
        self.floor_us = self.floor_us.min(least_us);
        self.floor_rounds += 1;
        if self.floor_rounds >= FLOOR_ROUNDS {
            self.competing |= self.floor_us.saturating_sub(base_us) > COMPETING_US;
            (self.floor_us, self.floor_rounds) = (u32::MAX, 0);
        }
        // Whether the others have gone shows when our own part of the queue is not there, or nobody's is for two rounds.
        let emptied = delay_us < QUEUE_US / 2;
        if emptied && self.emptied || drained && delay_us < QUEUE_MAX_US {
            self.competing = false;
        }
        self.emptied = emptied;
        let stood = self.competing || delay_us > QUEUE_US / 2;
        if !stood || least_us < self.record_us && !drained {
            // Another has let the queue drain: the next time both do together.
            self.standing = 0;
        }
        self.record_us = self.record_us.min(least_us);
        self.standing += 1;
    }

    /// Frames were found lost.
    pub(crate) fn on_loss(&mut self, lost: &Lost) {
        let &Lost { bytes, unit, order, next } = lost;
        if !is_after(order.wrapping_add(1), self.answered) {
            // Of what left before the last cut: not again, unless hardly anything came through.
            if bytes / OVERFLOWN > self.window {
                self.set(self.window.min(LOSS_LEAST_BYTES));
                self.threshold = self.window;
            }
            return;
        }
        // Where most was lost, what came through is all that there was room for.
        let came = self.acked.max(self.came_before);
        let most = bytes > came.max(FEW_FRAMES * unit);
        let through = match most {
            // One frame, of which a probe tells: hundreds of senders of two are more than a queue takes.
            true if came == 0 => STEP_BYTES,
            true => came.max(LOSS_LEAST_BYTES),
            false => u32::MAX,
        };
        let part = if self.is_clear() { CLEAR_PART } else { SHRINK_PART_MAX };
        let least = if self.is_clear() { CLEAR_BYTES.max(unit) } else { LOSS_LEAST_BYTES };
        let least = least.min(self.window);
        let left = (self.window - self.window / part).max(least).min(through);
        self.cut(self.window.saturating_sub(left), next);
        (self.acked, self.marked, self.least_us, self.round_end) = (0, 0, u32::MAX, next);
        (self.came_before, self.draining) = (0, 0);
    }

    /// No queue stands, as far as this round and the last one show.
    const fn is_clear(&self) -> bool {
        let now_us = if self.least_us == u32::MAX { 0 } else { self.least_us };
        let known = self.delay_us != u32::MAX && self.base_us != u32::MAX;
        known && self.delay_us < CLEAR_US && now_us.saturating_sub(self.base_us) < CLEAR_US
    }

    /// Nothing came for a whole timer after the probe: all that is known of the path is that it is jammed.
    /// It leaves what losses leave; `unit` is how long the frame is that was waited for.
    pub(crate) fn on_timeout(&mut self, unit: u32, next: u32) {
        let least = if self.is_clear() { CLEAR_BYTES.max(unit) } else { LOSS_LEAST_BYTES };
        let left = (self.window / SHRINK_PART_MAX).max(least).max(self.floor()).min(self.window);
        self.cut(self.window - left, next);
        self.round_end = next;
    }

    /// Nothing is under way: what is known is old, if nothing was for long.
    pub(crate) fn refresh(&mut self, now: Time, rtt: &Rtt, ack_delay: Span, next: u32) {
        if self.used_at.is_some_and(|at| pacing::is_stale(at, now, rtt, ack_delay)) {
            self.on_idle(next);
            self.used_at = None;
        }
    }

    /// Nothing was sent for longer than the timer: what was known of the queues is old.
    fn on_idle(&mut self, next: u32) {
        self.window = self.window.min(INITIAL_BYTES);
        (self.round_end, self.answered) = (next, next);
        (self.least_us, self.delay_us, self.acked, self.marked) = (u32::MAX, u32::MAX, 0, 0);
        (self.standing, self.draining, self.competing) = (0, 0, false);
    }

    /// What delay and time-outs leave of it (`WINDOW-4`): a host that does not run for two milliseconds looks like a queue to them, and a path whose
    /// long frames are too long for its queue loses some.
    const fn floor(&self) -> u32 {
        if self.window >= self.unit && self.above < STANDING_ROUNDS { self.unit } else { 0 }
    }

    /// A frame of so many bytes came through, other than those that are counted.
    pub(crate) fn widen(&mut self, bytes: u32) {
        self.set(self.window.max(bytes));
    }

    /// Takes so many bytes off. What left before it is not answered for again.
    fn cut(&mut self, bytes: u32, next: u32) {
        self.set(self.window.saturating_sub(bytes.min(self.window - 1)));
        (self.threshold, self.answered) = (self.window, next);
    }

    fn set(&mut self, bytes: u32) {
        self.window = bytes.max(LEAST_BYTES);
    }
}

/// Delay beyond the least that a window of so many bytes is allowed to cause, in microseconds.
fn target_us(window: u32) -> u32 {
    // The logarithm with eight fractional bits, between powers of two as a straight line: monotonous, and near enough.
    let log2 = |bytes: u32| {
        let whole = bytes.ilog2();
        (whole << 8) + ((bytes << (31 - whole) >> 23) & 0xFF)
    };
    let less_than = |bytes: u32| log2(bytes).saturating_sub(log2(window.max(1)));
    let usual = QUEUE_US + ((HALF_US * less_than(LARGE_BYTES)) >> 8);
    usual.min(QUEUE_MAX_US) + ((TINY_HALF_US * less_than(STEP_BYTES)) >> 8)
}

/// Places in an order of transmission wrap.
const fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

#[cfg(test)]
mod tests;
