//! How much each user may send: a token bucket, shared by all of a user's clients.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What a user may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// In the long run, in bytes a second; frames count as [`cost`](super::rounds::cost) says.
    pub bytes_per_second: u64,
    /// At once, in bytes, after a while without sending.
    pub burst_bytes: u64,
}

/// One user's bucket.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: Rate,
    /// What may be sent now; below zero after a frame that went beyond.
    level: i64,
    since: Instant,
    clients: u32,
}

impl Bucket {
    fn fill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.since);
        let most = i64::try_from(self.rate.burst_bytes).unwrap_or(i64::MAX);
        let rate = u128::from(self.rate.bytes_per_second);
        let more = passed.as_nanos() * rate / 1_000_000_000;
        // Less than a byte's time waits for the next look.
        if more > 0 {
            let more = i64::try_from(more).unwrap_or(i64::MAX);
            self.level = self.level.saturating_add(more).min(most);
            self.since = now;
        }
    }

    /// When it is above zero again.
    fn full_at(&self) -> Instant {
        let missing = (1 - self.level).max(0) as u128;
        let nanos = missing * 1_000_000_000 / u128::from(self.rate.bytes_per_second.max(1));
        self.since + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 4).max(1))
    }
}

/// The buckets of users that have clients and a rate.
#[derive(Debug, Default)]
pub struct Rates(HashMap<u32, Bucket>);

impl Rates {
    /// True if no user's rate is limited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A user has one more client.
    pub fn enter(&mut self, user: u32, rate: Option<Rate>, now: Instant) {
        let Some(rate) = rate else { return };
        let level = i64::try_from(rate.burst_bytes).unwrap_or(i64::MAX);
        let bucket = self.0.entry(user).or_insert(Bucket { rate, level, since: now, clients: 0 });
        bucket.clients += 1;
    }

    /// A user has one client less.
    pub fn leave(&mut self, user: u32) {
        if let Some(bucket) = self.0.get_mut(&user) {
            bucket.clients -= 1;
            // Only a full bucket may be forgotten: one that comes back at once must not find a new one.
            if bucket.clients == 0 && bucket.level >= 0 {
                self.0.remove(&user);
            }
        }
    }

    /// Whether a user may send now.
    ///
    /// # Errors
    ///
    /// When it may again.
    #[inline]
    pub fn may(&mut self, user: u32, now: Instant) -> Result<(), Instant> {
        if self.0.is_empty() {
            return Ok(());
        }
        let Some(bucket) = self.0.get_mut(&user) else { return Ok(()) };
        bucket.fill(now);
        if bucket.level > 0 { Ok(()) } else { Err(bucket.full_at()) }
    }

    /// A user has sent something.
    #[inline]
    pub fn spend(&mut self, user: u32, cost: u32) {
        if self.0.is_empty() {
            return;
        }
        if let Some(bucket) = self.0.get_mut(&user) {
            bucket.level = bucket.level.saturating_sub(i64::from(cost));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { bytes_per_second: 1_000_000, burst_bytes: 10_000 };

    /// Sends frames of `cost` as soon as may be, for a second. Returns what was sent.
    fn run(rates: &mut Rates, user: u32, start: Instant, cost: u32) -> u64 {
        let (mut now, mut sent) = (start, 0);
        while now < start + Duration::from_secs(1) {
            match rates.may(user, now) {
                Ok(()) => {
                    rates.spend(user, cost);
                    sent += u64::from(cost);
                }
                Err(again) => {
                    assert!(again > now, "it moves on");
                    now = again;
                }
            }
        }
        sent
    }

    #[test]
    fn a_user_sends_at_its_rate() {
        let start = Instant::now();
        let mut rates = Rates::default();
        rates.enter(7, Some(RATE), start);
        for cost in [1, 1500, 9000] {
            let mut rates = Rates::default();
            rates.enter(7, Some(RATE), start);
            let sent = run(&mut rates, 7, start, cost);
            let most = RATE.bytes_per_second + RATE.burst_bytes + u64::from(cost);
            assert!((RATE.bytes_per_second..=most).contains(&sent), "{sent} of {cost}");
        }
    }

    #[test]
    fn clients_of_a_user_share_and_others_are_free() {
        let start = Instant::now();
        let mut rates = Rates::default();
        rates.enter(7, Some(RATE), start);
        rates.enter(7, Some(RATE), start);
        rates.enter(8, None, start);
        rates.spend(7, 20_000);
        assert!(rates.may(7, start).is_err() && rates.may(8, start).is_ok());
        // Leaving and coming back makes no new bucket.
        rates.leave(7);
        rates.leave(7);
        rates.enter(7, Some(RATE), start);
        assert!(rates.may(7, start).is_err());
        let later = start + Duration::from_secs(1);
        assert!(rates.may(7, later).is_ok());
        rates.leave(7);
        assert!(rates.0.is_empty());
    }

    #[test]
    fn time_that_stands_still_or_flies_is_no_panic() {
        let start = Instant::now();
        let mut rates = Rates::default();
        let rate = Rate { bytes_per_second: u64::MAX, burst_bytes: u64::MAX };
        rates.enter(1, Some(rate), start);
        rates.enter(2, Some(Rate { bytes_per_second: 0, burst_bytes: 0 }), start);
        for now in [start, start, start + Duration::from_secs(1 << 30)] {
            assert!(rates.may(1, now).is_ok());
            rates.spend(1, u32::MAX);
            assert!(rates.may(2, now).is_err());
        }
    }
}
