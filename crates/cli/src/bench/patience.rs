//! Spinning that ends: a lost peer becomes an error instead of a hung program.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;

use super::lifeline;

/// Without any progress for so many milliseconds the other end is gone: see [`outlast`].
static LIMIT_MS: AtomicU64 = AtomicU64::new(12_000);

/// How many times its limit EMP may wait while the own interface has no carrier, and for a peer that is heard but takes nothing; and
/// once more, so that EMP's diagnosis comes first.
const TIMES: u32 = 8;

/// For how long nothing may happen before the other end is gone.
pub fn limit() -> Duration {
    Duration::from_millis(LIMIT_MS.load(Ordering::Relaxed))
}

/// Waits are longer than EMP's, which gives a silent peer up after `silence`.
pub fn outlast(silence: Duration) {
    let limit = u64::try_from((silence * TIMES).as_millis()).unwrap_or(u64::MAX);
    LIMIT_MS.fetch_max(limit, Ordering::Relaxed);
}

/// Empty rounds between two looks at the clock, which costs about as much as a round.
const ROUNDS_PER_LOOK: u32 = 1 << 12;

/// Counts rounds without progress.
#[derive(Debug, Default)]
pub struct Patience {
    rounds: u32,
    idle_since: Option<Instant>,
    /// When it is looked again whether the other end is there, after [`idle_since`](Self::idle_since).
    check_after: Duration,
    /// What `moved` said when it was asked last.
    moved: u64,
}

impl Patience {
    /// Something happened.
    #[inline]
    pub fn progress(&mut self) {
        self.rounds = 0;
        self.idle_since = None;
    }

    /// Nothing happened in this round. Fails once that has been so for too long.
    #[inline]
    pub fn idle(&mut self) -> anyhow::Result<()> {
        self.idle_unless(|| 0)
    }

    /// The same where much may happen between two rounds in which something does, as while a long message crosses a slow
    /// link: then `moved` has grown. It is asked as rarely as the clock.
    #[inline]
    pub fn idle_unless(&mut self, moved: impl FnOnce() -> u64) -> anyhow::Result<()> {
        self.rounds += 1;
        if self.rounds >= ROUNDS_PER_LOOK { self.look(moved()) } else { Ok(()) }
    }

    #[cold]
    fn look(&mut self, moved: u64) -> anyhow::Result<()> {
        self.rounds = 0;
        let began = self.idle_since.filter(|_| moved == self.moved);
        self.moved = moved;
        let Some(since) = began else {
            (self.idle_since, self.check_after) = (Some(Instant::now()), lifeline::INTERVAL);
            return Ok(());
        };
        let elapsed = since.elapsed();
        if elapsed > self.check_after {
            self.check_after = elapsed + lifeline::INTERVAL;
            lifeline::check()?;
        }
        if elapsed > limit() {
            bail!("the other end was silent for {} seconds", limit().as_secs());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round before which nothing had happened for longer than the limit.
    fn after_a_long_time(moved: u64) -> anyhow::Result<()> {
        let long_ago = Instant::now().checked_sub(limit() + Duration::from_secs(1));
        let mut patience = Patience {
            rounds: ROUNDS_PER_LOOK,
            idle_since: Some(long_ago.expect("the machine runs for longer than the limit")),
            check_after: Duration::MAX,
            moved: 7,
        };
        patience.idle_unless(|| moved)
    }

    #[test]
    fn an_end_is_silent_only_if_nothing_of_a_long_message_moved_either() {
        assert!(after_a_long_time(8).is_ok());
        let silent = after_a_long_time(7).unwrap_err().to_string();
        assert_eq!(silent, "the other end was silent for 12 seconds");
    }
}
