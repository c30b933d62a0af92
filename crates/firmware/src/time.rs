//! Time as the firmware sees it: an argument, never a clock.

use core::ops::{Add, Sub};

/// Nanoseconds since a point that the caller chose and keeps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Time(pub u64);

/// A span of time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Span(pub u64);

impl Span {
    /// A span of so many microseconds.
    pub const fn us(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// A span of so many milliseconds.
    pub const fn ms(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// Whole microseconds.
    pub const fn as_us(self) -> u64 {
        self.0 / 1_000
    }
}

impl Time {
    /// Later than every time that occurs.
    pub const NEVER: Self = Self(u64::MAX);

    /// The span from `earlier` to `self`; zero if `self` is not later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Time {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}
