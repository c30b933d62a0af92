//! What somebody who polls learns from giving its core away: who else wants it. A service and its clients go by the same.

use std::ops::Range;
use std::time::Duration;

/// A yield that took so long gave the core to others that wait as well, and give it back soon: one that finds nobody takes a tenth of the
/// shorter, a switch there and back as much as that. One that lets a program compute takes a slice of the scheduler, at least thrice the longer.
/// Yielding to such a program at each look would leave it nearly all of the core.
const TO_WAITERS: Range<Duration> = Duration::from_micros(3)..Duration::from_micros(250);

/// Who has lost its core to a program that computes sleeps instead of looking, for so many times as long as that took. Whoever is woken gets
/// the core at once, whoever gave it away waits for a slice; and trying again costs a twentieth of the time at most.
const SLEEPS_FOR: u32 = 20;

/// Longest, so that who was stopped by a debugger or a suspended machine looks again soon.
const SLEEPS_FOR_MAX: Duration = Duration::from_millis(200);

/// What is known of the core. Times are spans since any moment, always the same one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Yields {
    crowded: bool,
    sleeps_until: Duration,
}

impl Yields {
    /// At first: nobody else wants the core.
    #[must_use]
    pub const fn new() -> Self {
        Self { crowded: false, sleeps_until: Duration::ZERO }
    }

    /// The core was given away at `from`, and was back at `to`.
    #[inline]
    pub fn yielded(&mut self, from: Duration, to: Duration) {
        let took = to.saturating_sub(from);
        self.crowded = TO_WAITERS.contains(&took);
        if took >= TO_WAITERS.end {
            self.sleeps_until = to + (SLEEPS_FOR * took).min(SLEEPS_FOR_MAX);
        }
    }

    /// Others that wait want the core: what one looks for may be waiting for it.
    #[inline]
    #[must_use]
    pub const fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// Others compute on the core: whoever waits is to sleep at once.
    #[inline]
    #[must_use]
    pub fn is_lost(&self, now: Duration) -> bool {
        now < self.sleeps_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn only_others_that_wait_are_yielded_to_always() {
        let mut yields = Yields::new();
        for (took, crowded) in [(0, false), (20, true), (1, false), (20, true), (3_000, false)] {
            yields.yielded(us(1_000), us(1_000 + took));
            assert_eq!(yields.is_crowded(), crowded, "{took} us");
        }
    }

    #[test]
    fn who_lost_its_core_sleeps_for_a_while() {
        let mut yields = Yields::new();
        for took in [0, 20, 249] {
            yields.yielded(us(10), us(10 + took));
            assert!(!yields.is_lost(us(10 + took)), "{took} us");
        }
        yields.yielded(us(1_000), us(4_000));
        assert!(yields.is_lost(us(4_000)) && yields.is_lost(us(63_000)));
        assert!(!yields.is_lost(us(64_000)));
        yields.yielded(us(100_000), us(100_001));
        assert!(!yields.is_lost(us(100_001)));
        // Away for an hour.
        yields.yielded(us(0), us(3_600_000_000));
        assert!(!yields.is_lost(us(3_600_000_000) + SLEEPS_FOR_MAX));
    }
}
