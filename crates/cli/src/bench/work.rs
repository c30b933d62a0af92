//! User code that takes a known time: so many steps of a computation that touches no memory.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Steps that are timed to learn how long one takes: about a tenth of a millisecond.
const TIMED: u64 = 100_000;

/// Times that they are timed. The shortest counts: nothing else ran on the core meanwhile.
const TRIES: u32 = 40;

/// So many steps.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    steps: u64,
}

impl Work {
    /// Work that takes so long on a core of its own.
    pub fn of(duration: Duration) -> Self {
        Self { steps: (duration.as_secs_f64() / step_seconds()).round() as u64 }
    }

    /// Does it, all of it, however often the core is taken away meanwhile.
    #[inline]
    pub fn run(&self) {
        steps(self.steps);
    }
}

/// Each step needs the one before, so that they take their time one after the other.
fn steps(count: u64) {
    let mut number = 1u64;
    for _ in 0..count {
        // Knuth's multiplier of a linear congruential generator; any odd number of many bits would do.
        number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    black_box(number);
}

/// Measured once in a process.
fn step_seconds() -> f64 {
    static STEP: OnceLock<f64> = OnceLock::new();
    *STEP.get_or_init(|| {
        let tries = (0..TRIES).map(|_| {
            let start = Instant::now();
            steps(TIMED);
            start.elapsed()
        });
        let least = tries.min().unwrap_or_default().max(Duration::from_nanos(1));
        least.as_secs_f64() / TIMED as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_proportional_to_its_time() {
        let steps = |ms| Work::of(Duration::from_millis(ms)).steps;
        assert_eq!(steps(0), 0);
        assert!(steps(1) > 1000, "a step takes under a microsecond anywhere");
        assert!((steps(10) as f64 / steps(1) as f64 - 10.0).abs() < 0.01);
    }

    #[test]
    fn work_takes_at_least_about_its_time() {
        let work = Work::of(Duration::from_millis(4));
        // The shortest of some tries: the processor may have sped up since the step was timed, though not twofold.
        let tries = (0..5).map(|_| {
            let start = Instant::now();
            work.run();
            start.elapsed()
        });
        assert!(tries.min().unwrap() > Duration::from_millis(2));
    }
}
