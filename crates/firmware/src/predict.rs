//! Predictors: what a node guesses of programs, from what they did before. A wrong guess costs time and nothing else. Each is worth 5 % or more of
//! some message's time (decision 37).

/// Whether a program answers a peer's messages at once, so that an acknowledgement that was asked for at the end of one had
/// better ride on that answer than leave before it, which costs the answer as long as a send takes. Two bytes, as there may be a hundred
/// thousand peers.
#[derive(Clone, Copy)]
pub(crate) struct AnswersSoon {
    /// Misses in a row, up to [`MISSES_MAX`](Self::MISSES_MAX).
    misses: u8,
    /// So many leave at once before one waits again; or [`WAITS`](Self::WAITS): one waits now.
    at_once: u8,
}

impl AnswersSoon {
    /// After so many misses one of 128 is tried all the same.
    const MISSES_MAX: u8 = 7;
    const WAITS: u8 = u8::MAX;
    /// An answer within so many microseconds of the message is a hit.
    pub(crate) const HIT_US: u32 = 20;
    pub(crate) const NEW: Self = Self { misses: 0, at_once: 0 };

    /// True: this one waits.
    pub(crate) fn begin(&mut self) -> bool {
        let begins = self.at_once == 0;
        self.at_once = if begins { Self::WAITS } else { self.at_once - 1 };
        begins
    }

    #[inline]
    pub(crate) const fn waits(&self) -> bool {
        self.at_once == Self::WAITS
    }

    /// None waits any more, and nothing is learnt of it. True if one did.
    pub(crate) fn drop_wait(&mut self) -> bool {
        let waited = self.waits();
        if waited {
            self.at_once = 0;
        }
        waited
    }

    /// None waits any more, because the answer came soon enough (`hit`) or did not. True if one did.
    pub(crate) fn end(&mut self, hit: bool) -> bool {
        let waited = self.waits();
        if waited {
            self.misses = if hit { 0 } else { (self.misses + 1).min(Self::MISSES_MAX) };
            self.at_once = (1 << self.misses) - 1;
        }
        waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_miss_in_a_row_doubles_what_leaves_at_once() {
        let mut answers = AnswersSoon::NEW;
        for misses in 1..=9u32 {
            assert!(answers.begin(), "one is tried");
            assert!(answers.end(false));
            let at_once = (1 << misses.min(AnswersSoon::MISSES_MAX.into())) - 1;
            assert!((0..at_once).all(|_| !answers.begin()), "{misses} misses");
        }
        assert!(answers.begin() && answers.end(true), "a hit");
        assert!(answers.begin() && answers.drop_wait() && !answers.end(true), "only once");
    }
}
