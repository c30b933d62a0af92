//! The clock of a node: nanoseconds of `CLOCK_MONOTONIC`, at most half a microsecond off.
//!
//! A reading costs 25 to 40 ns through the vDSO, and a spinning wait does little else. The processor's cycle counter costs
//! 8 ns. So a thread reads the clock now and then and counts cycles between: for a short while only, so that neither a
//! slewed clock nor a counter that jumps (a virtual machine that moves) can lead far astray. Where the counter's rate
//! is not constant, it only says how long ago the last reading was, and that is used again while it is fresh.

use std::cell::Cell;
use std::time::Duration;

use emp_firmware::{Span, Time};

/// Cycles for which a reading is good as it is: a quarter to a half of a microsecond on processors of 2 to 4 GHz.
const FRESH_CYCLES: u64 = 1_000;

/// Cycles for which time is counted from a reading: 50 to 100 µs, in which a clock slewed by the most that Linux
/// allows (500 ppm) is off by 50 ns.
const COUNTED_CYCLES: u64 = 200_000;

/// Two readings between which the counter's rate is measured lie so far apart: at least 1 ms, so that what the readings
/// themselves take (30 ns) does not count, and at most 1 s, so that the machine has hardly been suspended between.
const RATE_MEASURED_OVER: std::ops::Range<u64> = 1_000_000..1_000_000_000;

/// What a thread knows of the time.
#[derive(Clone, Copy)]
struct Known {
    /// The last reading: cycle count and time.
    cycles: u64,
    time: Time,
    /// The reading from which the rate is measured.
    first: (u64, Time),
    /// Nanoseconds in 2³² cycles; 0: not known.
    rate: u64,
}

/// Tries to read clock and counter undisturbed. A machine where three fail is too busy for this to matter.
const READ_TRIES: u32 = 3;

thread_local! {
    static KNOWN: Cell<Known> =
        const { Cell::new(Known { cycles: 0, time: Time(0), first: (0, Time(0)), rate: 0 }) };
}

/// The current time. The same for all nodes of a machine, which makes traces of several processes comparable.
#[inline]
pub(crate) fn now() -> Time {
    let Some(cycles) = cycles() else { return read() };
    let known = KNOWN.get();
    let passed = cycles.wrapping_sub(known.cycles);
    if passed < FRESH_CYCLES || passed < COUNTED_CYCLES && known.rate != 0 {
        return Time(known.time.0 + ((passed * known.rate) >> 32));
    }
    renew(known)
}

/// Reads the clock and the counter together: if the thread lost its core between the two, once more. The count is taken
/// last, so that counted time is late at worst, and never goes back.
fn read_both() -> (u64, Time) {
    let mut before = cycles().unwrap_or(0);
    for _ in 0..READ_TRIES {
        let time = read();
        let after = cycles().unwrap_or(0);
        if after.wrapping_sub(before) < FRESH_CYCLES {
            return (after, time);
        }
        before = after;
    }
    (before, read())
}

/// Reads the clock; measures the counter's rate when it is time to.
fn renew(known: Known) -> Time {
    let (cycles, time) = read_both();
    let mut next = Known { cycles, time, ..known };
    let passed = time.0.saturating_sub(known.first.1.0);
    if passed >= RATE_MEASURED_OVER.end {
        next.first = (cycles, time);
    } else if passed >= RATE_MEASURED_OVER.start && known.rate == 0 && rate_is_constant() {
        let counted = u128::from(cycles.wrapping_sub(known.first.0)).max(1);
        // A counter slower than 1 GHz (a rate of 2³²) is taken for broken.
        next.rate = u64::try_from((u128::from(passed) << 32) / counted)
            .ok()
            .filter(|rate| *rate <= 1 << 32)
            .unwrap_or(0);
        if next.rate == 0 {
            next.first = (cycles, time);
        }
    }
    KNOWN.set(next);
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

/// True if the processor says that its counter runs at one rate whatever its clock does (the invariant TSC).
fn rate_is_constant() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        const POWER_MANAGEMENT: u32 = 0x8000_0007;
        const INVARIANT_TSC: u32 = 1 << 8;
        use core::arch::x86_64::__cpuid;
        __cpuid(0x8000_0000).eax >= POWER_MANAGEMENT
            && __cpuid(POWER_MANAGEMENT).edx & INVARIANT_TSC != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
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

/// A span for people.
pub(crate) fn seconds(span: Span) -> String {
    format!("{:.1} s", span.0 as f64 / 1e9)
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
    fn counted_time_is_clock_time() {
        let mut worst = 0;
        for _ in 0..200_000 {
            let (before, counted, after) = (read(), now(), read());
            let early = before.0.saturating_sub(counted.0);
            worst = worst.max(early.max(counted.0.saturating_sub(after.0)));
        }
        // Half a microsecond is promised; a thread that lost its core between two lines sees more, but in 10 µs.
        assert!(worst < 10_000, "{worst} ns off");
    }

    #[test]
    fn endless_durations_are_cut() {
        assert_eq!(span(Duration::MAX), Span(u64::MAX));
        assert_eq!(Time(5) + span(Duration::MAX), Time::NEVER);
    }
}
