//! Spinning that ends: a lost peer becomes an error instead of a hung program.

use std::time::{Duration, Instant};

use anyhow::bail;

use super::lifeline;

/// Without any progress for this long the other end is gone. Longer than EMP's own limit (5 s), so that EMP's
/// diagnosis comes first.
const LIMIT: Duration = Duration::from_secs(12);

/// Empty rounds between two looks at the clock, which costs about as much as a round.
const ROUNDS_PER_LOOK: u32 = 1 << 12;

/// Counts rounds without progress.
#[derive(Debug, Default)]
pub struct Patience {
    rounds: u32,
    idle_since: Option<Instant>,
    /// When it is looked again whether the other end is there, after [`idle_since`](Self::idle_since).
    check_after: Duration,
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
        self.rounds += 1;
        if self.rounds >= ROUNDS_PER_LOOK { self.look() } else { Ok(()) }
    }

    #[cold]
    fn look(&mut self) -> anyhow::Result<()> {
        self.rounds = 0;
        let elapsed = match self.idle_since {
            Some(since) => since.elapsed(),
            None => {
                (self.idle_since, self.check_after) = (Some(Instant::now()), lifeline::INTERVAL);
                return Ok(());
            }
        };
        if elapsed > self.check_after {
            self.check_after = elapsed + lifeline::INTERVAL;
            lifeline::check()?;
        }
        if elapsed > LIMIT {
            bail!("the other end was silent for {} seconds", LIMIT.as_secs());
        }
        Ok(())
    }
}
