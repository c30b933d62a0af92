//! CPU time in which a thread has worked. One that spins takes all of its core, whatever it has to do; what it has to do is the time of those
//! pieces of work in which anything was done.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What was counted for a thread; it adds, anybody reads. Nothing is counted, and no clock read, before [`count`](Self::count).
#[derive(Default)]
pub struct Worked {
    counting: AtomicBool,
    nanoseconds: AtomicU64,
    pieces: AtomicU64,
}

/// Nanoseconds of CPU time that the calling thread has had.
#[must_use]
pub fn cpu_nanoseconds() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock is every thread's own, and `time` is written within the call.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    if failed != 0 { 0 } else { time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64 }
}

impl Worked {
    /// Counts from now on.
    pub fn count(&self) {
        self.counting.store(true, Ordering::Relaxed);
    }

    /// Whether it counts.
    #[inline]
    pub fn is_counting(&self) -> bool {
        self.counting.load(Ordering::Relaxed)
    }

    /// Counts a piece of work that took so long.
    pub fn add(&self, nanoseconds: u64) {
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        self.pieces.fetch_add(1, Ordering::Relaxed);
    }

    /// Does a piece of work, and counts it.
    #[inline]
    pub fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        let since = self.is_counting().then(cpu_nanoseconds);
        let result = work();
        if let Some(since) = since {
            self.add(cpu_nanoseconds().saturating_sub(since));
        }
        result
    }

    /// CPU time of all pieces, without what reading the clock took.
    #[must_use]
    pub fn time(&self) -> Duration {
        let clock = clock_nanoseconds() * self.pieces.load(Ordering::Relaxed);
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed).saturating_sub(clock))
    }
}

/// What a reading of the clock takes: one lies within each piece.
fn clock_nanoseconds() -> u64 {
    const READINGS: u32 = 64;
    let one = |_| {
        let start = Instant::now();
        for _ in 0..READINGS {
            std::hint::black_box(cpu_nanoseconds());
        }
        start.elapsed() / READINGS
    };
    // The least of many: the others were disturbed.
    (0..32).map(one).min().map_or(0, |least| least.as_nanos() as u64)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no such clock")]
    fn only_work_counts_and_only_when_asked() {
        let worked = Worked::default();
        let spin = || {
            let since = cpu_nanoseconds();
            while cpu_nanoseconds() < since + 2_000_000 {}
        };
        worked.during(spin);
        assert_eq!(worked.time(), Duration::ZERO);
        worked.count();
        spin();
        assert_eq!(worked.time(), Duration::ZERO);
        worked.during(spin);
        worked.during(|| std::thread::sleep(Duration::from_millis(20)));
        let time = worked.time();
        assert!((1_900..12_000).contains(&time.as_micros()), "{time:?}");
    }
}
