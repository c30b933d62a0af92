//! Which frames of a path are lost: by when they were sent, not by their numbers (RACK, RFC 8985; `RESEND-1`).
//!
//! A path keeps order, nearly always. So what was sent before a frame that has arrived, and is not here itself, is lost: at once if several
//! left in between, else after a reordering window, for something may have been overtaken after all. What was sent by another path,
//! or before a change of path, says nothing here.

use super::rtt::Rtt;

/// The reordering window is so many times a quarter of the least round trip, at first and at most (RFC 8985, section 6.2).
const QUARTERS: u8 = 1;
const QUARTERS_MAX: u8 = 16;

/// Losses found one after the other without reordering seen, after which the window is the first again.
const CALM_RECOVERIES: u8 = 16;

/// A transmission of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Departure {
    /// Its place among all of the path.
    pub(crate) order: u32,
    /// When it was, in microseconds (wrapping).
    pub(crate) sent_us: u32,
}

/// What is known of a frame in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Nothing sent after it has arrived.
    Open,
    /// Something has: it is lost if it is not there after so many microseconds more.
    Due(u32),
    Lost,
}

/// Loss detection of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recovery {
    /// The latest transmission that is known to have arrived.
    latest: Departure,
    /// Frames were found to overtake each other since the last [`CALM_RECOVERIES`] losses: the window in quarters of a round trip.
    quarters: u8,
    calm: u8,
}

impl Recovery {
    /// For a path whose next transmission has the place after this one.
    pub(crate) const fn at(order: u32) -> Self {
        Self { latest: Departure { order, sent_us: 0 }, quarters: 0, calm: 0 }
    }

    /// A transmission has arrived, and no earlier one of the same frame could have.
    #[inline]
    pub(crate) const fn on_arrived(&mut self, departure: Departure) {
        if is_after(departure.order, self.latest.order) {
            self.latest = departure;
        }
    }

    /// Something that left later has arrived.
    pub(crate) const fn is_past(&self, departure: Departure) -> bool {
        is_after(self.latest.order, departure.order)
    }

    /// The place of the latest transmission that has arrived.
    #[cfg(test)]
    pub(crate) const fn arrived_order(&self) -> u32 {
        self.latest.order
    }

    /// A frame that had been found lost had only been overtaken.
    pub(crate) const fn on_reordering(&mut self) {
        let wider = if self.quarters == 0 { QUARTERS } else { self.quarters.saturating_add(1) };
        self.quarters = if wider > QUARTERS_MAX { QUARTERS_MAX } else { wider };
        self.calm = CALM_RECOVERIES;
    }

    /// Frames were found lost, and sent again.
    pub(crate) const fn on_recovery(&mut self) {
        self.calm = self.calm.saturating_sub(1);
        if self.calm == 0 {
            self.quarters = 0;
        }
    }

    /// How much later than a frame another may have been sent that arrives before it, in microseconds.
    fn window_us(&self, rtt: &Rtt) -> u32 {
        let quarters = self.quarters.max(QUARTERS);
        let window = rtt.least_us().min(1 << 24) / 4 * u32::from(quarters);
        window.min(rtt.smoothed_us()).max(1)
    }

    /// What became of a frame in flight. It is lost at once if `ahead` or more transmissions after it one has arrived, as long as no frame was
    /// seen to be overtaken.
    #[inline]
    pub(crate) fn judge(&self, frame: Departure, ahead: u32, now_us: u32, rtt: &Rtt) -> Fate {
        if !is_after(self.latest.order, frame.order) {
            return Fate::Open;
        }
        let between = self.latest.order.wrapping_sub(frame.order);
        if self.quarters == 0 && between > ahead {
            return Fate::Lost;
        }
        // What a path takes in order, and the window: then it would be here.
        let due_us = frame.sent_us.wrapping_add(rtt.smoothed_us() + self.window_us(rtt));
        let left = due_us.wrapping_sub(now_us);
        if left == 0 || left.cast_signed() < 0 { Fate::Lost } else { Fate::Due(left) }
    }
}

/// Places in an order of transmission wrap.
const fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rtt(us: u32) -> Rtt {
        let mut rtt = Rtt::new();
        for i in 0..50 {
            rtt.on_sample(us, i);
        }
        rtt
    }

    const fn at(order: u32, sent_us: u32) -> Departure {
        Departure { order, sent_us }
    }

    #[test]
    fn nothing_is_lost_before_something_later_has_come() {
        let mut recovery = Recovery::at(0);
        let rtt = rtt(100);
        recovery.on_arrived(at(5, 1_000));
        assert_eq!(recovery.judge(at(6, 900), 3, 90_000, &rtt), Fate::Open);
        assert_eq!(recovery.judge(at(5, 1_000), 3, 90_000, &rtt), Fate::Open);
    }

    #[test]
    fn several_later_ones_show_it_at_once_and_one_after_a_while() {
        let mut recovery = Recovery::at(0);
        let rtt = rtt(100);
        recovery.on_arrived(at(5, 1_000));
        let now = 1_100;
        assert_eq!(recovery.judge(at(1, 990), 3, now, &rtt), Fate::Lost);
        // 100 µs and a quarter after its departure.
        assert_eq!(recovery.judge(at(4, 999), 3, now, &rtt), Fate::Due(24));
        assert_eq!(recovery.judge(at(4, 999), 3, now + 24, &rtt), Fate::Lost);
        assert_eq!(
            recovery.judge(at(4, 999), 0, now, &rtt),
            Fate::Lost,
            "order is known to be kept"
        );
    }

    #[test]
    fn what_overtakes_makes_it_patient_for_sixteen_losses() {
        let mut recovery = Recovery::at(0);
        let rtt = rtt(100);
        recovery.on_arrived(at(20, 1_000));
        recovery.on_reordering();
        let now = 1_100;
        assert_eq!(recovery.judge(at(1, 990), 3, now, &rtt), Fate::Due(15));
        recovery.on_reordering();
        assert_eq!(recovery.judge(at(1, 990), 3, now, &rtt), Fate::Due(40));
        for _ in 0..100 {
            recovery.on_reordering();
        }
        // Never longer than a round trip.
        assert_eq!(recovery.judge(at(1, 990), 3, now, &rtt), Fate::Due(90));
        for _ in 0..CALM_RECOVERIES {
            recovery.on_recovery();
        }
        assert_eq!(recovery.judge(at(1, 990), 3, now, &rtt), Fate::Lost);
    }

    /// Clocks and counts wrap.
    #[test]
    fn wraps() {
        let mut recovery = Recovery::at(u32::MAX - 2);
        let rtt = rtt(100);
        recovery.on_arrived(at(3, 20));
        assert_eq!(recovery.judge(at(u32::MAX, u32::MAX - 5), 3, 100, &rtt), Fate::Lost);
        assert_eq!(recovery.judge(at(2, u32::MAX - 5), 3, 100, &rtt), Fate::Due(19));
        assert_eq!(recovery.judge(at(4, 30), 3, 100, &rtt), Fate::Open);
    }
}
