//! The clock of a node: nanoseconds of `CLOCK_MONOTONIC`, at most half a microsecond old.
//!
//! A reading costs 25 to 40 ns through the vDSO, and a spinning wait does little else. The firmware counts in
//! microseconds, so a thread that asked a moment ago gets the same answer again; the processor's cycle counter, which costs
//! 8 ns, only says how long ago that was. It is never converted to time, so its rate and its jumps do not matter.

use std::cell::Cell;
use std::time::Duration;

use emp_firmware::{Span, Time};

/// Cycles for which an answer is good: a quarter to a half of a microsecond on processors of 2 to 4 GHz.
const FRESH_CYCLES: u64 = 1_000;

thread_local! {
    /// The thread's last reading: cycle count and time.
    static LAST: Cell<(u64, Time)> = const { Cell::new((0, Time(0))) };
}

/// The current time. The same for all nodes of a machine, which makes traces of several processes comparable.
#[inline]
pub(crate) fn now() -> Time {
    let Some(cycles) = cycles() else { return read() };
    let (read_at, time) = LAST.get();
    if cycles.wrapping_sub(read_at) < FRESH_CYCLES {
        return time;
    }
    let time = read();
    LAST.set((cycles, time));
    time
}

/// The cycle counter, on processors that have one.
#[inline]
fn cycles() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has the instruction; it reads a register and touches no memory.
        Some(unsafe { core::arch::x86_64::_rdtsc() })
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

fn read() -> Time {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result for the whole call. CLOCK_MONOTONIC exists on every Linux, so the
    // call cannot fail; if it did, `time` would still be initialised.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    Time(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// A duration as a span; longer than 584 years is cut to that.
pub(crate) fn span(duration: Duration) -> Span {
    Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// A span as a duration.
pub(crate) const fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on() {
        let before = now();
        std::thread::sleep(Duration::from_millis(2));
        let passed = duration(now().since(before));
        assert!(passed >= Duration::from_millis(2));
    }

    #[test]
    fn endless_durations_are_cut() {
        assert_eq!(span(Duration::MAX), Span(u64::MAX));
        assert_eq!(Time(5) + span(Duration::MAX), Time::NEVER);
    }
}
