//! The predictor of the host: how long looking again pays, learnt from how long recent waits took (decisions 19 and 37).
//!
//! A wait that ends while it spins costs nothing but the core; one that sleeps costs the fall asleep and the waking. So
//! a thread spins for about twice as long as waits usually take, if that is worth it at all, then offers its core after
//! each look for as long again, then sleeps. Waits that usually take longer than that are slept through nearly at once.

use std::time::Duration;

use emp_firmware::{Span, Time};
use emp_link::service::yields::Yields;

use crate::choices::WaitMode;

/// Shortest spin where spinning pays: about what falling asleep and being woken costs, so that a wait that is a little
/// late never takes more than twice the time that the better of the two would have taken.
const SPIN_MIN: Span = Span::us(50);

/// Longest: twice the round trip between two that have both fallen asleep (66 µs on the machines of the notebook, 100 on
/// slow ones), so that such a pair finds its waits short enough to spin again.
const SPIN_MAX: Span = Span::us(200);

/// Spin where waits usually take longer: a few round trips of a fast link, for the answer that is there at once.
const SPIN_LEAST: Span = Span::us(5);

/// The estimate goes no higher, so that a program that has computed for long gets used to short waits again within some
/// sixteen of them.
const TYPICAL_MAX: Span = Span(4 * SPIN_MAX.0);

/// Nor lower: below it clocks are not read often enough to tell.
const TYPICAL_MIN: Span = Span(500);

/// Each wait moves the estimate by this part of itself: up if it took longer, down if not. So it settles at the median.
const STEP: u64 = 8;

/// What a node has learned of its waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitTimes {
    mode: WaitMode,
    typical: Span,
    /// What giving the core away has shown.
    others: Yields,
    /// Times that waiting threads offered their core to others, and times that they slept.
    pub(crate) yields: u64,
    pub(crate) sleeps: u64,
}

impl WaitTimes {
    pub(crate) const fn new(mode: WaitMode) -> Self {
        Self { mode, typical: SPIN_MIN, others: Yields::new(), yields: 0, sleeps: 0 }
    }

    /// How long to spin without anything happening; `None` without end.
    pub(crate) fn budget(&self, now: Time) -> Option<Span> {
        match self.mode {
            WaitMode::Spin => None,
            WaitMode::Sleep => Some(Span(0)),
            WaitMode::Adaptive if self.others.is_lost(since_start(now)) => Some(Span(0)),
            WaitMode::Adaptive => {
                let twice = 2 * self.typical.0;
                Some(if twice > SPIN_MAX.0 {
                    SPIN_LEAST
                } else if twice < SPIN_MIN.0 {
                    SPIN_MIN
                } else {
                    Span(twice)
                })
            }
        }
    }

    /// Whether that is little because waits are long: what a caller does while it waits is then for others rather than for itself. Who sleeps
    /// because it lost its core still waits for what is its own.
    pub(crate) fn are_long(&self) -> bool {
        match self.mode {
            WaitMode::Spin => false,
            WaitMode::Sleep => true,
            WaitMode::Adaptive => 2 * self.typical.0 > SPIN_MAX.0,
        }
    }

    /// Learns from a wait that has ended. One that was cut short only shows that waits take at least so long.
    #[inline]
    pub(crate) fn learn(&mut self, took: Span, cut_short: bool) {
        let typical = self.typical.0;
        if took.0 > typical {
            self.typical = Span((typical + typical / STEP).min(TYPICAL_MAX.0));
        } else if !cut_short {
            self.typical = Span((typical - typical / STEP).max(TYPICAL_MIN.0));
        }
    }

    /// Learns from a yield whether others want this core.
    #[inline]
    pub(crate) fn yielded(&mut self, from: Time, to: Time) {
        self.yields += 1;
        self.others.yielded(since_start(from), since_start(to));
    }

    /// Others that wait want the cores: what one spins for may be waiting for this one.
    pub(crate) const fn is_crowded(&self) -> bool {
        self.others.is_crowded()
    }
}

const fn since_start(time: Time) -> Duration {
    Duration::from_nanos(time.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(waits: impl IntoIterator<Item = u64>) -> Option<Span> {
        let mut times = WaitTimes::new(WaitMode::Adaptive);
        waits.into_iter().for_each(|us| times.learn(Span::us(us), false));
        times.budget(Time(0))
    }

    #[test]
    fn the_budget_follows_the_median() {
        assert_eq!(after([2; 100]), Some(SPIN_MIN));
        let budget = after([70; 100]).unwrap();
        assert!((Span::us(110)..Span::us(180)).contains(&budget), "{budget:?}");
        // Two long waits of five move no median.
        let mixed = [60, 900, 60, 900, 60].repeat(40);
        let budget = after(mixed).unwrap();
        assert!((Span::us(90)..=SPIN_MAX).contains(&budget), "{budget:?}");
    }

    #[test]
    fn long_waits_are_slept_through_and_forgotten() {
        assert_eq!(after([5_000; 100]), Some(SPIN_LEAST));
        assert_eq!(after([5_000; 10_000].into_iter().chain([3; 30])), Some(SPIN_MIN));
    }

    #[test]
    fn what_was_cut_short_shows_only_that_waits_are_long() {
        let mut times = WaitTimes::new(WaitMode::Adaptive);
        (0..100).for_each(|_| times.learn(Span(0), true));
        assert_eq!(times.budget(Time(0)), Some(Span::us(100)));
        (0..100).for_each(|_| times.learn(Span::ms(1), true));
        assert_eq!(times.budget(Time(0)), Some(SPIN_LEAST));
    }

    #[test]
    fn who_lost_its_core_sleeps_at_once() {
        let later = Time(10_000_000_000);
        for (mode, budget) in [
            (WaitMode::Adaptive, Some(Span(0))),
            (WaitMode::Sleep, Some(Span(0))),
            (WaitMode::Spin, None),
        ] {
            let mut times = WaitTimes::new(mode);
            let before = times.budget(Time(1_000));
            times.yielded(Time(1_000), Time(3_001_000));
            assert_eq!(times.budget(Time(3_002_000)), budget, "{mode:?}");
            assert_eq!(times.budget(later), before, "{mode:?}");
            assert_eq!(times.yields, 1);
        }
    }

    #[test]
    fn the_other_modes_learn_nothing() {
        for (mode, budget) in [(WaitMode::Spin, None), (WaitMode::Sleep, Some(Span(0)))] {
            let mut times = WaitTimes::new(mode);
            (0..100).for_each(|_| times.learn(Span::us(20), false));
            assert_eq!(times.budget(Time(0)), budget);
        }
    }
}
