//! Where a node's firmware runs, and how its callers wait. Plain choices; what they mean is done elsewhere.

/// Where the firmware runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Board {
    /// In the calls of the application: lowest latency, no hand-over between cores.
    Inline {
        /// With a guardian: a thread that takes over when the application has made no call for a few milliseconds, so
        /// that its peers neither stall nor take it for dead. It sleeps as long as the application makes progress
        /// (a look every few of them) and when the node is quiet.
        guardian: bool,
    },
    /// In a progress thread: messages move while the application computes.
    Thread,
    /// In the service `empd`, which owns the links: messages move while the application computes, is stopped, or has ended, and the application
    /// needs no privilege. Two-sided messages only: regions, puts, gets and atomics are refused.
    Daemon,
}

impl Default for Board {
    fn default() -> Self {
        Self::Inline { guardian: true }
    }
}

/// Whether a node shows its state to whoever looks from outside (`emp nodes`, `top`, `why`), by a file in the machine's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateFile {
    /// No.
    Off,
    /// To its user, and root.
    Own,
    /// To everyone on the machine.
    All,
}

/// How callers (and the progress thread) wait for something to happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WaitMode {
    /// Never sleep: the lowest latency, and a whole core for it.
    Spin,
    /// Look again and again for about twice as long as recent waits took (50 to 200 µs; 5 µs where they take longer), then
    /// offer the core to others after each look for as long again, then sleep until something happens.
    /// [`HostCounters`](crate::HostCounters) shows what was learned.
    #[default]
    Adaptive,
    /// Sleep at once.
    Sleep,
}
