//! Messages that will not arrive though their senders were told that they were over, or had gone: nobody hears of them
//! unless closing says so.

use emp_firmware::Status;
use emp_wire::NodeId;

/// Peers that are named; losses of others are counted only.
const NAMED_MAX: usize = 16;

/// What was lost, and to whom. Bounded.
#[derive(Default)]
pub(crate) struct Losses {
    total: usize,
    named: Vec<(NodeId, &'static str, usize)>,
}

impl Losses {
    /// One message to this node was lost, for this reason.
    pub(crate) fn note(&mut self, node: NodeId, status: Status) {
        self.add(node, status.describe());
    }

    /// One message to this node is not acknowledged yet.
    pub(crate) fn note_unacknowledged(&mut self, node: NodeId) {
        self.add(node, "not acknowledged in time");
    }

    fn add(&mut self, node: NodeId, why: &'static str) {
        self.total += 1;
        let same =
            |(known, reason, _): &&mut (NodeId, &str, usize)| (*known, *reason) == (node, why);
        if let Some((_, _, count)) = self.named.iter_mut().find(same) {
            *count += 1;
        } else if self.named.len() < NAMED_MAX {
            self.named.push((node, why, 1));
        }
    }

    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// How many to whom, and why; `show` names a node.
    pub(crate) fn details(&self, show: impl Fn(NodeId) -> String) -> Vec<String> {
        let line = |(node, why, count): &(NodeId, &str, usize)| {
            format!("{count} to node {}: {why}", show(*node))
        };
        self.named.iter().map(line).collect()
    }
}

/// A node was closed, and not everything that it had sent is known to have arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CutShort {
    /// Sends and one-sided operations that had not ended. Their requests end with an error.
    pub sends: usize,
    /// Messages whose sends were over when they were copied, or whose requests were dropped, and that are not known to have
    /// been delivered: those that were under way, and those lost since the start to peers that vanished.
    pub undelivered: usize,
    /// Of the latter, how many to whom, and why.
    pub details: Vec<String>,
}

impl std::fmt::Display for CutShort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { sends, undelivered, details } = self;
        f.write_str("the node was closed with ")?;
        if *sends != 0 || *undelivered == 0 {
            write!(f, "{sends} sends or one-sided operations unfinished")?;
        }
        if *undelivered != 0 {
            let and = if *sends == 0 { "" } else { " and " };
            write!(f, "{and}{undelivered} messages that are not known to have been delivered")?;
        }
        if details.is_empty() { Ok(()) } else { write!(f, " ({})", details.join(", ")) }
    }
}

impl std::error::Error for CutShort {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_counted_by_peer_and_reason_and_are_bounded() {
        let mut losses = Losses::default();
        for _ in 0..3 {
            losses.note(NodeId(1), Status::Unreachable);
        }
        losses.note_unacknowledged(NodeId(1));
        (0..100).for_each(|id| losses.note(NodeId(100 + id), Status::PeerClosed));
        assert_eq!(losses.total(), 104);
        let details = losses.details(|node| node.0.to_string());
        assert_eq!(details.len(), NAMED_MAX);
        assert_eq!(details[0], "3 to node 1: peer unreachable");
        assert_eq!(details[1], "1 to node 1: not acknowledged in time");
    }
}
