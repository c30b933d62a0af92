//! Spinning that ends: a lost peer becomes an error instead of a hung program.

use std::time::{Duration, Instant};

use anyhow::bail;

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
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        if since.elapsed() > LIMIT {
            bail!("the other end was silent for {} seconds", LIMIT.as_secs());
        }
        Ok(())
    }
}
