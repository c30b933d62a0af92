//! Alarms: descriptors that are readable when something has ended, for faces whose callers sleep in a `poll(2)` of their
//! own, together with other descriptors.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::endpoint::handle::Endpoint;
use crate::machine::wakeup::Bell;
use crate::node::handle::Node;

/// A descriptor that becomes readable when it is rung and stays so until it is hushed.
pub struct Alarm {
    bell: Bell,
    muted: AtomicBool,
}

impl Alarm {
    /// A new one, silent.
    ///
    /// # Errors
    ///
    /// No more descriptors are to be had.
    pub fn new() -> io::Result<Self> {
        Ok(Self { bell: Bell::new()?, muted: AtomicBool::new(false) })
    }

    /// Makes it readable.
    pub fn ring(&self) {
        self.bell.ring();
    }

    /// Completions ring it, or don't: whoever is about to take what has ended of all endpoints that ring it mutes it for the
    /// time of that, so that nobody is woken for what will be gone.
    pub fn mute(&self, muted: bool) {
        self.muted.store(muted, Ordering::SeqCst);
    }

    /// An operation has ended.
    pub(crate) fn ended(&self) {
        if !self.muted.load(Ordering::SeqCst) {
            self.bell.ring();
        }
    }

    /// Makes it unreadable. Look for what may have rung it after this, not before.
    pub fn hush(&self) {
        self.bell.hush();
    }

    /// The descriptor, for as long as this value lives.
    pub fn descriptor(&self) -> RawFd {
        self.bell.fd()
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
