//! What faces need beside the raw API: several endpoints at a time, and looking at messages without making progress.

use std::sync::Arc;
use std::time::Duration;

use emp_firmware::{ClaimId, Completion, ProbeInfo, Selector};

use crate::endpoint::mailbox::Endpoint;
use crate::flying::queues::QueueKey;
use crate::node::running::Node;

impl Endpoint {
    /// As [`poll_completions`](Self::poll_completions), for several endpoints of one node: a face may have several for
    /// what is one endpoint to its callers. Those of other nodes than the first one's are passed by.
    ///
    /// This is what a face's callers spin on: a look that finds nothing takes the lock once and touches as little as it can.
    #[inline]
    pub fn poll_completions_of(endpoints: &[&Endpoint], into: &mut Vec<Completion>) -> usize {
        let [first, ..] = endpoints else { return 0 };
        let beside = endpoints.iter().filter(|endpoint| endpoint.is_beside(first));
        first.inner.node.seat.poll_all(beside.map(|endpoint| endpoint.inner.queue), into)
    }

    /// Waits until one of these endpoints of one node has something for
    /// [`poll_completions_of`](Self::poll_completions_of), at most for `timeout` (`None`: without limit). True if one has.
    pub fn wait_completions_of(
        endpoints: &[&Endpoint],
        timeout: impl Into<Option<Duration>>,
    ) -> bool {
        Self::wait_for_completions(endpoints, None, timeout.into())
    }

    /// The same, and ends as well once threads were nudged more often than [`Node::nudges`] said: asked for before the look
    /// that made a wait necessary, so that no nudge is missed. True if there may be something.
    pub fn wait_completions_unless_nudged(
        endpoints: &[&Endpoint],
        nudges: u64,
        timeout: impl Into<Option<Duration>>,
    ) -> bool {
        Self::wait_for_completions(endpoints, Some(nudges), timeout.into())
    }

    /// As [`wait_completions_unless_nudged`](Self::wait_completions_unless_nudged), and ends as well when a message has come
    /// to the first endpoint that no receive has taken and that `selector` accepts.
    pub fn wait_message_unless_nudged(
        endpoints: &[&Endpoint],
        selector: Selector,
        nudges: u64,
        timeout: impl Into<Option<Duration>>,
    ) -> bool {
        let [first, ..] = endpoints else { return false };
        let what = (first.inner.number, selector);
        first.inner.node.seat.wait_message(what, &queues_of(endpoints), nudges, timeout.into())
    }

    fn wait_for_completions(
        endpoints: &[&Endpoint],
        nudges: Option<u64>,
        timeout: Option<Duration>,
    ) -> bool {
        let [first, ..] = endpoints else { return false };
        first.inner.node.seat.wait_queues(&queues_of(endpoints), nudges, timeout)
    }

    /// As [`probe`](Self::probe), and with `claim` as [`claim`](Self::claim), but without progress: it sees what earlier
    /// calls have brought. A claimed message is taken by a receive with its claim.
    pub fn probe_raw(&self, selector: Selector, claim: bool) -> Option<ProbeInfo> {
        self.inner.node.seat.probe(self.inner.number, selector, (claim, false))
    }

    /// Gives up a message that [`probe_raw`](Self::probe_raw) has set aside: its sender's send ends as abandoned if it still
    /// waits.
    pub fn discard_raw(&self, claim: ClaimId) {
        self.inner.node.seat.discard(claim);
    }

    /// True if the last call of [`poll_completions`](Self::poll_completions) or its like on this node found nothing to do at
    /// all: no completion, and no frame of a long message on its way either. Who looks again may as well let others run.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.inner.node.seat.is_idle()
    }

    /// True if both are endpoints of one node.
    #[inline]
    fn is_beside(&self, other: &Endpoint) -> bool {
        Arc::ptr_eq(&self.inner.node, &other.inner.node)
    }
}

/// The queues of those endpoints that are of one node with the first.
fn queues_of(endpoints: &[&Endpoint]) -> Vec<QueueKey> {
    let beside = endpoints.iter().filter(|endpoint| endpoint.is_beside(endpoints[0]));
    beside.map(|endpoint| endpoint.inner.queue).collect()
}

impl Node {
    /// True if the links were looked at within this time, and what that brought was handed out. A program that asks at once whether there
    /// is more need not have another look made for that.
    #[inline]
    pub fn has_given_all(&self, within: Duration) -> bool {
        self.inner.seat.has_given_all(within)
    }

    /// How often threads that wait were nudged so far.
    #[inline]
    pub fn nudges(&self) -> u64 {
        self.inner.seat.nudges()
    }

    /// Ends all waits of this node in [`Endpoint::wait_completions_unless_nudged`]: what they wait for may be found
    /// elsewhere than among completions.
    pub fn nudge(&self) {
        self.inner.seat.nudge();
    }
}
