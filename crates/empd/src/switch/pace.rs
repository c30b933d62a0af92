//! How the switch waits: asleep, spinning for a while after work, or always spinning on a core of its own.

use std::time::{Duration, Instant};

use emp_link::service::yields::Yields;

/// How to wait for frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Polling {
    /// Sleeps as soon as there is nothing to do.
    Sleeping,
    /// Looks on for a while after there was something.
    #[default]
    Adaptive,
    /// Always looks, on this core, which nothing else should run on.
    Dedicated(usize),
}

/// What to do after a turn without work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Look again.
    Look,
    /// Let others run, and look again.
    Yield,
    /// Sleep until somebody rings.
    Sleep,
}

/// Empty turns before others are let run: about as long as an answer takes that comes from another core.
const LOOKS: u32 = 64;

/// How long an adaptive switch looks on after work: what a wake across cores costs, three times over. Longer would take a core from programs
/// for what they do not notice.
const SPIN: Duration = Duration::from_micros(60);

/// Turns between two looks at the bells of a switch that does not sleep: a system call of 0.3 µs, for which a client that was quiet waits
/// some microseconds at most.
pub const TURNS_PER_BELL: u32 = 32;

/// The switch's waiting.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    polling: Polling,
    empty: u32,
    since: Option<Instant>,
    /// What giving the core away has shown, in times since `start`.
    others: Yields,
    start: Instant,
    /// It gave the core away, and when.
    away: Option<Duration>,
    /// Others computed on the core when it was last looked.
    lost: bool,
}

impl Pace {
    /// As said.
    #[must_use]
    pub fn new(polling: Polling) -> Self {
        Self {
            polling,
            empty: 0,
            since: None,
            others: Yields::new(),
            start: Instant::now(),
            away: None,
            lost: false,
        }
    }

    /// A turn had work.
    #[inline]
    pub fn worked(&mut self) {
        (self.empty, self.since, self.away) = (0, None, None);
    }

    /// A turn had none.
    #[inline]
    pub fn idled(&mut self, now: impl FnOnce() -> Instant) -> Next {
        self.empty = self.empty.saturating_add(1);
        match self.polling {
            Polling::Dedicated(_) => Next::Look,
            Polling::Sleeping => Next::Sleep,
            Polling::Adaptive if self.empty < LOOKS && !self.others.is_crowded() && !self.lost => {
                if self.since.is_none() {
                    self.since = Some(now());
                }
                Next::Look
            }
            Polling::Adaptive => {
                let now = now();
                let since = *self.since.get_or_insert(now);
                let at = now.saturating_duration_since(self.start);
                self.lost = self.others.is_lost(at);
                if self.lost || now.saturating_duration_since(since) >= SPIN {
                    Next::Sleep
                } else {
                    self.away = Some(at);
                    Next::Yield
                }
            }
        }
    }

    /// The core is back after [`Next::Yield`].
    #[inline]
    pub fn is_back(&mut self, now: Instant) {
        if let Some(from) = self.away.take() {
            self.others.yielded(from, now.saturating_duration_since(self.start));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adaptive_switch_looks_then_lets_others_run_then_sleeps() {
        let mut pace = Pace::new(Polling::Adaptive);
        let start = Instant::now();
        for round in 0..3 {
            pace.worked();
            let mut turns = [0u32; 2];
            // A turn takes a tenth of a microsecond here.
            let slept = (0..100_000u64).find(|turn| {
                match pace.idled(|| start + Duration::from_nanos(100 * turn)) {
                    Next::Look => turns[0] += 1,
                    Next::Yield => turns[1] += 1,
                    Next::Sleep => return true,
                }
                false
            });
            let slept = Duration::from_nanos(100 * slept.expect("it sleeps"));
            assert!(slept >= SPIN && slept < 2 * SPIN, "round {round}: after {slept:?}");
            assert!(turns[0] == LOOKS - 1 && turns[1] > 0, "{turns:?}");
        }
    }

    /// Where others wait as well, it lets them run after each look; where others compute, it sleeps at once for a while.
    #[test]
    fn an_adaptive_switch_learns_who_wants_its_core() {
        let mut pace = Pace::new(Polling::Adaptive);
        let mut now = Instant::now();
        let yields = |pace: &mut Pace, now: &mut Instant, took: Duration| {
            pace.worked();
            let looks = (0..2 * LOOKS).find(|_| pace.idled(|| *now) == Next::Yield);
            *now += took;
            pace.is_back(*now);
            looks
        };
        assert_eq!(yields(&mut pace, &mut now, Duration::from_micros(8)), Some(LOOKS - 1));
        assert_eq!(yields(&mut pace, &mut now, Duration::from_micros(8)), Some(0), "crowded");
        assert_eq!(yields(&mut pace, &mut now, Duration::from_nanos(200)), Some(0));
        assert_eq!(yields(&mut pace, &mut now, Duration::from_millis(3)), Some(LOOKS - 1));
        for _ in 0..50 {
            pace.worked();
            let slept = (0..=LOOKS).find(|_| pace.idled(|| now) == Next::Sleep);
            assert!(slept.is_some(), "others compute");
            now += Duration::from_millis(1);
        }
        now += Duration::from_millis(20);
        pace.worked();
        assert_eq!(pace.idled(|| now), Next::Yield, "it tries again");
    }

    #[test]
    fn the_others_do_what_they_are_told() {
        let now = Instant::now;
        let mut sleeping = Pace::new(Polling::Sleeping);
        assert_eq!(sleeping.idled(now), Next::Sleep);
        let mut dedicated = Pace::new(Polling::Dedicated(1));
        assert!((0..100_000).all(|_| dedicated.idled(now) == Next::Look));
    }
}
