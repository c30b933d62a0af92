//! The clock of a node: nanoseconds of `CLOCK_MONOTONIC`.
//!
//! One reading costs about 25 ns through the vDSO; the rest of the crate therefore reads it once per turn and passes
//! the value on. Counting the processor's cycles instead saves 10 ns a reading, which did not show in a ping-pong.

use std::time::Duration;

use emp_firmware::{Span, Time};

/// The current time. The same for all nodes of a machine, which makes traces of several processes comparable.
#[inline]
pub(crate) fn now() -> Time {
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
