//! The end of a node: what was sent is acknowledged, or somebody hears that it is not.

use std::time::Duration;

use crate::node::running::{Node, NodeInner};
use crate::told::losses::CutShort;

impl Node {
    /// Waits until all that was sent is delivered and all operations have ended, at most for `linger`; then says goodbye to the
    /// peers and ends the firmware. What is still in flight ends with an error, calls that wait return, and all posts are refused
    /// from then on.
    ///
    /// # Errors
    ///
    /// [`CutShort`] if not all that was sent is known to be delivered: the time was too short, or messages whose sends were over
    /// when they were copied went to nodes that were lost or never found. `Ok` a second time.
    pub fn close(&self, linger: Duration) -> Result<(), CutShort> {
        self.inner.seat.close(linger)
    }

    /// Waits until all that was sent is delivered and all operations have ended, for as long as that goes on: until nothing of it has happened
    /// for `stalled`. True: all of it is over.
    pub fn drain(&self, stalled: Duration) -> bool {
        self.inner.seat.drain(stalled)
    }
}

impl Drop for NodeInner {
    fn drop(&mut self) {
        if !self.seat.is_ours() {
            return self.seat.forget_workers();
        }
        let mut last = None;
        if self.seat.is_broken() || std::thread::panicking() {
            self.seat.dismiss_workers();
        } else if let Err(cut) = self.seat.close(self.linger) {
            // No call is left to return it.
            last = Some(cut.to_string());
        }
        self.seat.leave(last.as_deref());
    }
}
