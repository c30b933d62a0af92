//! A link that is looked at less often while nothing comes.
//!
//! A node has a UDP link for the ranks of its own machine beside its packet link. Looking at a socket is a system call,
//! looking at a mapped ring is not: with both in each turn, the ring's low latency would be gone although most nodes
//! never use their second link.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use emp_link::{
    Capabilities, FaultCounters, Link, LinkAddress, LinkStatistics, PeerMemory, TxFrame,
};

/// Looks in vain after which the link counts as quiet: many round trips.
const QUIET_AFTER: u32 = 2_000;
/// A quiet link is looked at once in so many turns: a few microseconds.
const LOOK_EVERY: u32 = 32;

/// Looks at a quiet link seldom.
pub struct Seldom<L> {
    inner: L,
    in_vain: u32,
    skipped: u32,
}

impl<L: Link> Seldom<L> {
    pub fn new(inner: L) -> Self {
        Self { inner, in_vain: QUIET_AFTER, skipped: 0 }
    }
}

impl<L: Link> Link for Seldom<L> {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        // Answers come soon.
        self.in_vain = 0;
        self.inner.send(batch)
    }

    #[inline]
    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        if self.in_vain >= QUIET_AFTER {
            self.skipped += 1;
            if self.skipped < LOOK_EVERY {
                return 0;
            }
            self.skipped = 0;
        }
        let received = self.inner.receive(budget, sink);
        self.in_vain = if received == 0 { (self.in_vain + 1).min(QUIET_AFTER) } else { 0 };
        received
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

    fn statistics(&self) -> LinkStatistics {
        self.inner.statistics()
    }

    fn peer_memory(&self) -> Option<Arc<PeerMemory>> {
        self.inner.peer_memory()
    }

    fn faults(&self) -> Option<FaultCounters> {
        self.inner.faults()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use emp_link::{UdpLink, UdpOptions};
    use std::io::IoSlice;

    fn link() -> UdpLink {
        let mut options = UdpOptions::new(7);
        options.bind = Some(std::net::Ipv4Addr::LOCALHOST.into());
        options.port = 0;
        UdpLink::open(&options).expect("loopback is there")
    }

    #[test]
    fn frames_come_within_a_few_looks() {
        let (mut seldom, mut other) = (Seldom::new(link()), link());
        let to = seldom.capabilities().address;
        let mut bytes = [0u8; 64];
        let tag = emp_wire::DESTINATION_TAG_OFFSET;
        bytes[tag..tag + 2].copy_from_slice(&7u16.to_be_bytes());
        assert_eq!(other.send(&[TxFrame { to, parts: &[IoSlice::new(&bytes)] }]), 1);
        assert!(seldom.wait(Some(Duration::from_secs(10))));
        let mut looks = 0;
        while seldom.receive(1, &mut |frame, _| assert_eq!(frame, bytes)) == 0 {
            looks += 1;
            assert!(looks < LOOK_EVERY);
        }
        assert_eq!(seldom.in_vain, 0);
    }
}
