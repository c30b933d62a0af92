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
        if elapsed > LIMIT {
            bail!("the other end was silent for {} seconds", LIMIT.as_secs());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round before which nothing had happened for longer than the limit.
    fn after_a_long_time(moved: u64) -> anyhow::Result<()> {
        let long_ago = Instant::now().checked_sub(LIMIT + Duration::from_secs(1));
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
