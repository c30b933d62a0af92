//! How the switch waits: asleep, spinning for a while after work, or always spinning on a core of its own.

use std::time::{Duration, Instant};

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

/// Empty turns between two looks at the clock, which costs as much as a few of them.
const TURNS_PER_LOOK: u32 = 16;

/// Turns between two looks at the bells of a switch that does not sleep: a system call of 0.3 µs, for which a client that was quiet waits
/// some microseconds at most.
pub const TURNS_PER_BELL: u32 = 32;

/// The switch's waiting.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    polling: Polling,
    empty: u32,
    since: Option<Instant>,
}

impl Pace {
    /// As said.
    #[must_use]
    pub const fn new(polling: Polling) -> Self {
        Self { polling, empty: 0, since: None }
    }

    /// A turn had work.
    #[inline]
    pub fn worked(&mut self) {
        (self.empty, self.since) = (0, None);
    }

    /// A turn had none.
    #[inline]
    pub fn idled(&mut self, now: impl FnOnce() -> Instant) -> Next {
        self.empty = self.empty.saturating_add(1);
        match self.polling {
            Polling::Dedicated(_) => Next::Look,
            Polling::Sleeping => Next::Sleep,
            Polling::Adaptive if self.empty < LOOKS => {
                if self.since.is_none() {
                    self.since = Some(now());
                }
                Next::Look
            }
            Polling::Adaptive => {
                if self.empty.is_multiple_of(TURNS_PER_LOOK) {
                    let now = now();
                    let since = *self.since.get_or_insert(now);
                    if now.saturating_duration_since(since) >= SPIN {
                        return Next::Sleep;
                    }
                }
                Next::Yield
            }
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

    #[test]
    fn the_others_do_what_they_are_told() {
        let now = Instant::now;
        let mut sleeping = Pace::new(Polling::Sleeping);
        assert_eq!(sleeping.idled(now), Next::Sleep);
        let mut dedicated = Pace::new(Polling::Dedicated(1));
        assert!((0..100_000).all(|_| dedicated.idled(now) == Next::Look));
    }
}
