//! What a run came to, for people and for `emp sim`.

use core::fmt;
use std::collections::BTreeMap;

use emp_firmware::{Span, Time};

use crate::network::Totals;

/// One line that says what went wrong and how to see it again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// Virtual time of the violation.
    pub at: Time,
    /// What happened.
    pub what: String,
    /// The options of the run as arguments of `emp sim`.
    pub arguments: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {}: {:.3} µs: {}; replay: emp sim --seed {}{}",
            self.seed,
            self.at.0 as f64 / 1_000.0,
            self.what.replace('\n', " "),
            self.seed,
            self.arguments
        )
    }
}

impl std::error::Error for Failure {}

/// How much a run did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Nodes.
    pub nodes: usize,
    /// Messages posted.
    pub messages: usize,
    /// Messages received.
    pub received: usize,
    /// Operations that ended with an error that something explains; cancelled ones are not counted.
    pub errors: usize,
    /// Bytes of all messages posted.
    pub bytes: u64,
    /// Virtual time of the whole run.
    pub virtual_time: Span,
    /// Virtual time from the healing of the network to the last message.
    pub recovery: Span,
    /// What the network did.
    pub network: Totals,
    /// Frames that came while a node's receive ring was full.
    pub ring_lost: u64,
    /// Sequenced frames sent again, over all nodes that lived to the end.
    pub resent: u64,
}

impl Statistics {
    /// Frames that no node took, whatever the reason.
    pub fn lost(&self) -> u64 {
        let network = &self.network;
        network.dropped + network.congested + network.undeliverable + self.ring_lost
    }
}

/// A run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// What went wrong, if anything did.
    pub failure: Option<Failure>,
    /// How much it did.
    pub statistics: Statistics,
    /// Equal for runs that did the same.
    pub digest: u64,
    /// What all nodes counted, in the order of [`Counter::ALL`](emp_firmware::Counter::ALL).
    pub counts: Vec<u64>,
    /// Most that a node held of each thing, by name.
    pub peaks: BTreeMap<&'static str, usize>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(failure) = &self.failure {
            return failure.fmt(f);
        }
        let s = &self.statistics;
        write!(
            f,
            "seed {}: ok; {} nodes, {} of {} messages, {} errors explained, {} B, {} frames ({} lost, {} of them at full \
             rings, {} disturbed), {} resent, {:.3} ms, recovered in {:.3} ms",
            self.seed,
            s.nodes,
            s.received,
            s.messages,
            s.errors,
            s.bytes,
            s.network.sent,
            s.lost(),
            s.ring_lost,
            s.network.disturbed,
            s.resent,
            s.virtual_time.0 as f64 / 1e6,
            s.recovery.0 as f64 / 1e6,
        )
    }
}
