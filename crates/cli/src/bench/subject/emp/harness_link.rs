//! A link between EMP and the real one, for runs that want faults or a smaller MTU; other runs do without it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use emp_link::{
    Capabilities, Condition, FaultLink, FaultPlan, FrameSink, Link, LinkAddress, LinkStatistics,
    PeerMemory, TxFrame,
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

    /// What a link can do may end, and begin again.
    fn follow(&mut self) {
        let now = self.inner.capabilities();
        self.capabilities.segmentation = now.segmentation;
        if self.capabilities.frame_bytes_max == now.frame_bytes_max {
            self.capabilities.long_frame_bytes = now.long_frame_bytes;
        }
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
        self.follow();
        self.publish();
        taken
    }

    fn send_lent(&mut self, frame: &TxFrame<'_>) -> bool {
        let taken = self.inner.send_lent(frame);
        self.follow();
        self.publish();
        taken
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        self.inner.receive(budget, sink)
    }

    /// What the fault link lets pass: losses on the way out leave the receiver its quickest way, as it has without them.
    fn receive_into(&mut self, budget: usize, sink: &mut dyn FrameSink) -> usize {
        self.inner.receive_into(budget, sink)
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

    fn notice(&mut self) -> Option<String> {
        self.inner.notice()
    }

    fn statistics(&self) -> LinkStatistics {
        self.inner.statistics()
    }
}

#[cfg(test)]
mod tests {
    use emp_link::Fabric;
    use emp_wire::LinkAddress;

    use super::*;

    /// A link that notes how it was asked for frames, and whether it segments.
    struct Asked {
        capabilities: Capabilities,
        placed: Arc<AtomicU64>,
    }

    impl Link for Asked {
        fn capabilities(&self) -> &Capabilities {
            &self.capabilities
        }

        fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
            self.capabilities.segmentation = !self.capabilities.segmentation;
            self.capabilities.long_frame_bytes = 5000 - self.capabilities.long_frame_bytes;
            batch.len()
        }

        fn receive(&mut self, _: usize, _: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
            0
        }

        fn receive_into(&mut self, _: usize, _: &mut dyn FrameSink) -> usize {
            self.placed.fetch_add(1, Ordering::Relaxed);
            0
        }

        fn readiness(&self) -> Option<BorrowedFd<'_>> {
            None
        }

        fn wait(&mut self, _: Option<Duration>) -> bool {
            false
        }

        fn statistics(&self) -> LinkStatistics {
            LinkStatistics::default()
        }
    }

    struct Takes;

    impl FrameSink for Takes {
        fn frame(&mut self, _: &[u8], _: &LinkAddress) {}
    }

    #[test]
    fn losses_on_the_way_out_leave_the_way_in_as_it_is() {
        for (plan, placed) in [("drop:0.001", 1), ("drop:0.001,on:both", 0)] {
            let counter = Arc::<AtomicU64>::default();
            let fabric = Fabric::new(1).unwrap();
            let capabilities = fabric.link(0, 1).unwrap().capabilities().clone();
            let link = Asked { capabilities, placed: Arc::clone(&counter) };
            let mut link =
                HarnessLink::new(link, &plan.parse().unwrap(), usize::MAX, Arc::default());
            link.receive_into(8, &mut Takes);
            assert_eq!(counter.load(Ordering::Relaxed), placed, "{plan}");
        }
    }

    #[test]
    fn what_the_link_can_do_is_followed_but_for_what_was_forbidden() {
        for (most, long) in [(usize::MAX, 5000), (1500, 5000), (1000, 0)] {
            let capabilities = Fabric::new(1).unwrap().link(0, 1).unwrap().capabilities().clone();
            let link = Asked { capabilities, placed: Arc::default() };
            let plan = FaultPlan::default();
            let mut link = HarnessLink::new(link, &plan, most, Arc::default());
            for on in [true, false, true] {
                link.send(&[]);
                assert_eq!(link.capabilities().segmentation, on);
                assert_eq!(link.capabilities().long_frame_bytes, if on { long } else { 0 });
                assert_eq!(link.capabilities().frame_bytes_max, most.min(1500));
            }
        }
    }
}
