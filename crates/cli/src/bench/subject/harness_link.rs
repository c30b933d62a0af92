//! A link between EMP and the real one, for runs that want faults or a smaller MTU; other runs do without it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use emp_link::{
    Capabilities, Condition, FaultLink, FaultPlan, Link, LinkAddress, LinkStatistics, PeerMemory,
    TxFrame,
};

/// The wrapper.
pub struct HarnessLink<L> {
    inner: FaultLink<L>,
    capabilities: Capabilities,
    /// Those of all links, shared with whoever wants to know while the node has them.
    faults: Arc<AtomicU64>,
    /// Of this link, as far as they are in the sum.
    published: u64,
}

impl<L: Link> HarnessLink<L> {
    /// Wraps a link; frames are at most `frame_bytes_max` long if that is less than the link's own limit.
    pub fn new(link: L, plan: &FaultPlan, frame_bytes_max: usize, faults: Arc<AtomicU64>) -> Self {
        let mut capabilities = link.capabilities().clone();
        if frame_bytes_max < capabilities.frame_bytes_max {
            // Who wants short frames wants no long ones.
            (capabilities.frame_bytes_max, capabilities.long_frame_bytes) = (frame_bytes_max, 0);
        }
        Self { inner: FaultLink::new(link, plan), capabilities, faults, published: 0 }
    }

    fn publish(&mut self) {
        let c = self.inner.faults();
        let all = [c.dropped, c.duplicated, c.reordered, c.delayed, c.corrupted, c.truncated];
        let all = all.iter().sum();
        self.faults.fetch_add(all - std::mem::replace(&mut self.published, all), Ordering::Relaxed);
    }
}

impl<L: Link> Link for HarnessLink<L> {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        let taken = self.inner.send(batch);
        self.publish();
        taken
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        self.inner.receive(budget, sink)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.inner.readiness()
    }

    fn wait(&mut self, timeout: Option<Duration>) -> bool {
        self.inner.wait(timeout)
    }

    fn next_due(&self) -> Option<Duration> {
        self.inner.next_due()
    }

    fn peer_memory(&self) -> Option<Arc<PeerMemory>> {
        self.inner.peer_memory()
    }

    fn condition(&mut self) -> Option<Condition<'_>> {
        self.inner.condition()
    }

    fn statistics(&self) -> LinkStatistics {
        self.inner.statistics()
    }
}
