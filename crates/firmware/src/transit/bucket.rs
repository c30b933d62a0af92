//! A rate limit: a token bucket.

use crate::time::{Span, Time};

/// So many at once, and one more each interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    most: u32,
    every: Span,
    tokens: u32,
    /// When the last token came.
    at: Time,
}

impl Bucket {
    pub(crate) const fn new(most: u32, every: Span) -> Self {
        Self { most, every, tokens: most, at: Time(0) }
    }

    /// Takes a token. False: there is none.
    pub(crate) fn take(&mut self, now: Time) -> bool {
        let came = now.since(self.at).0 / self.every.0;
        if came >= u64::from(self.most - self.tokens) {
            (self.tokens, self.at) = (self.most, now);
        } else {
            self.tokens += came as u32;
            self.at = self.at + Span(came * self.every.0);
        }
        let any = self.tokens > 0;
        self.tokens -= u32::from(any);
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_so_many_at_once_and_then_one_each_interval() {
        let mut bucket = Bucket::new(3, Span::us(10));
        let mut now = Time(0) + Span::ms(5);
        assert_eq!([0; 5].map(|_| bucket.take(now)), [true, true, true, false, false]);
        now = now + Span::us(9);
        assert!(!bucket.take(now));
        now = now + Span::us(1);
        assert!(bucket.take(now) && !bucket.take(now));
        now = now + Span::us(25);
        assert!(bucket.take(now) && bucket.take(now) && !bucket.take(now));
        now = now + Span::us(5);
        assert!(bucket.take(now), "what was left of the interval counts");
        now = now + Span::ms(1_000_000);
        assert_eq!([0; 4].map(|_| bucket.take(now)), [true, true, true, false]);
    }
}
