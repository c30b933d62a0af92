//! Descriptors for faces whose callers sleep in a `poll(2)` of their own.

use std::os::fd::RawFd;
use std::sync::Arc;

use crate::endpoint::mailbox::Endpoint;
use crate::flying::alarm::Alarm;
use crate::node::running::Node;

impl Endpoint {
    /// Rings `alarm` whenever an operation of the raw API ends from now on, as long as the endpoint is open: whoever
    /// makes progress, the completion is there for [`poll_completions`](Self::poll_completions).
    pub fn add_alarm(&self, alarm: &Arc<Alarm>) {
        self.inner.node.seat.add_alarm(self.inner.queue, alarm);
    }
}

impl Node {
    /// Descriptors that are readable when frames have arrived on a link: time to make progress, if the guardian does not
    /// do it before. Valid for as long as the node is not closed.
    pub fn link_descriptors(&self) -> Vec<RawFd> {
        self.inner.seat.descriptors()
    }
}
