//! Alarms: descriptors that are readable when something has ended, for faces whose callers sleep in a `poll(2)` of their
//! own, together with other descriptors.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use crate::endpoint::Endpoint;
use crate::node::Node;
use crate::wakeup::Bell;

/// A descriptor that becomes readable when it is rung and stays so until it is hushed.
pub struct Alarm(Bell);

impl Alarm {
    /// A new one, silent.
    ///
    /// # Errors
    ///
    /// No more descriptors are to be had.
    pub fn new() -> io::Result<Self> {
        Bell::new().map(Self)
    }

    /// Makes it readable.
    pub fn ring(&self) {
        self.0.ring();
    }

    /// Makes it unreadable. Look for what may have rung it after this, not before.
    pub fn hush(&self) {
        self.0.hush();
    }

    /// The descriptor, for as long as this value lives.
    pub fn descriptor(&self) -> RawFd {
        self.0.fd()
    }
}

impl Endpoint {
    /// Rings `alarm` whenever an operation of the raw API ends from now on, as long as the endpoint is open: whoever
    /// makes progress, the completion is there for [`poll_completions`](Self::poll_completions).
    pub fn add_alarm(&self, alarm: &Arc<Alarm>) {
        self.inner.node.shared.lock().queues.add_alarm(self.inner.queue, alarm);
    }
}

impl Node {
    /// Descriptors that are readable when frames have arrived on a link: time to make progress, if the guardian does not
    /// do it before. Valid for as long as the node is not closed.
    pub fn link_descriptors(&self) -> Vec<RawFd> {
        self.inner.shared.lock().descriptors()
    }
}
