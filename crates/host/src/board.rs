//! Where a node's firmware runs, and how its callers wait. Plain choices; what they mean is done elsewhere.

use std::time::Duration;

/// Where the firmware runs (DESIGN section 6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Board {
    /// In the calls of the application: lowest latency, no hand-over between cores.
    Inline {
        /// With a guardian: a thread that takes over when the application has made no call for about a millisecond, so
        /// that its peers neither stall nor take it for dead. It sleeps as long as the application makes progress
        /// (a look each millisecond) and when the node is quiet.
        guardian: bool,
    },
    /// In a progress thread: messages move while the application computes.
    Thread,
}

impl Default for Board {
    fn default() -> Self {
        Self::Inline { guardian: true }
    }
}

/// How callers (and the progress thread) wait for something to happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitMode {
    /// Never sleep: the lowest latency, and a whole core for it.
    Spin,
    /// Look again and again for so long without anything happening, then sleep until something does.
    Adaptive(Duration),
    /// Sleep at once.
    Sleep,
}

impl WaitMode {
    /// How long to look without anything happening; `None` without end.
    pub(crate) const fn budget(self) -> Option<Duration> {
        match self {
            Self::Spin => None,
            Self::Adaptive(budget) => Some(budget),
            Self::Sleep => Some(Duration::ZERO),
        }
    }
}

impl Default for WaitMode {
    /// Looks for 50 µs: about what falling asleep and being woken costs, so that waiting never takes more than twice the
    /// time that the better of the two would have taken.
    fn default() -> Self {
        Self::Adaptive(Duration::from_micros(50))
    }
}
