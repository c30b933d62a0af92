//! A fabric in memory: links between threads or within one, without a network, for tests.
//!
//! Frames arrive in the order they were sent, at once, and none is lost unless a queue is full:
//! what goes wrong is up to a wrapper such as [`FaultLink`](crate::FaultLink). Nothing depends on
//! time.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use emp_wire::{AddressFamily, LinkAddress};

use crate::system::{self, Polled};
use crate::{Capabilities, Link, LinkStatistics, TxFrame, Wire, is_for};

/// Frames that wait for one node before more are lost: as many as the packet link's ring holds.
const QUEUE_FRAMES: usize = 2048;
/// Largest frame in bytes unless said otherwise: Ethernet's.
const FRAME_BYTES: usize = 1500;
/// Most parts of one frame, and most frames in one send: like the real links.
const PARTS_MAX: usize = 16;
const BATCH_MAX: usize = 64;

/// What waits for one node.
#[derive(Default)]
struct Queue {
    frames: VecDeque<(u32, Vec<u8>)>,
    /// Emptied buffers, used again so that a long test does not allocate for each frame.
    spare: Vec<Vec<u8>>,
    lost: u64,
}

struct Node {
    queue: Mutex<Queue>,
    /// Readable while the queue has frames.
    event: OwnedFd,
}

impl Node {
    /// The queue. A thread that panicked while it held the lock left it whole: each change is one
    /// step.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, from: u32, frame: &TxFrame<'_>) {
        let mut queue = self.lock();
        if queue.frames.len() >= QUEUE_FRAMES {
            queue.lost += 1;
            return;
        }
        let mut bytes = queue.spare.pop().unwrap_or_default();
        bytes.clear();
        frame.parts.iter().for_each(|part| bytes.extend_from_slice(part));
        queue.frames.push_back((from, bytes));
        if queue.frames.len() == 1 {
            system::event_set(self.event.as_fd());
        }
    }

    fn pop(&self) -> Option<(u32, Vec<u8>)> {
        let mut queue = self.lock();
        let frame = queue.frames.pop_front();
        if queue.frames.is_empty() && frame.is_some() {
            system::event_clear(self.event.as_fd());
        }
        frame
    }

    fn give_back(&self, buffer: Vec<u8>) {
        self.lock().spare.push(buffer);
    }
}

/// A fabric of so many nodes, each of which can reach each other.
#[derive(Clone)]
pub struct Fabric {
    nodes: Arc<[Node]>,
    frame_bytes_max: usize,
    long_frame_bytes: usize,
}

impl Fabric {
    /// A fabric of `nodes` nodes, for frames of up to 1500 bytes. Fails only without descriptors.
    pub fn new(nodes: usize) -> io::Result<Self> {
        Self::with_frame_bytes(nodes, FRAME_BYTES)
    }

    /// A fabric for frames of up to `frame_bytes_max` bytes.
    pub fn with_frame_bytes(nodes: usize, frame_bytes_max: usize) -> io::Result<Self> {
        let nodes: io::Result<Vec<Node>> = (0..nodes)
            .map(|_| Ok(Node { queue: Mutex::default(), event: system::event()? }))
            .collect();
        Ok(Self { nodes: nodes?.into(), frame_bytes_max, long_frame_bytes: 0 })
    }

    /// Links opened from now on also take frames of up to so many bytes, as one that segments does
    /// ([`Capabilities::long_frame_bytes`]).
    #[must_use]
    pub fn with_long_frames(self, long_frame_bytes: usize) -> Self {
        Self { long_frame_bytes, ..self }
    }

    /// The link of node `index`, which takes frames with `node_tag` (or all: [`TAG_ANY`](crate::TAG_ANY)); `None` beyond the fabric's
    /// size. Frames sent to the node before wait for it.
    pub fn link(&self, index: u32, node_tag: u16) -> Option<SimLink> {
        self.nodes.get(index as usize)?;
        let capabilities = Capabilities {
            kind: "sim",
            interface: format!("node {index}"),
            frame_bytes_max: self.frame_bytes_max,
            long_frame_bytes: self.long_frame_bytes,
            long_frames_held: 0,
            parts_max: PARTS_MAX,
            batch_max: BATCH_MAX,
            segmentation: false,
            sums: false,
            past_ip: false,
            broadcast: true,
            privileged: false,
            address: LinkAddress::index(index),
        };
        let counts = LinkStatistics::default();
        Some(SimLink { nodes: self.nodes.clone(), index, node_tag, capabilities, counts })
    }
}

/// One node's link to a [`Fabric`].
pub struct SimLink {
    nodes: Arc<[Node]>,
    index: u32,
    node_tag: u16,
    capabilities: Capabilities,
    counts: LinkStatistics,
}

impl SimLink {
    fn own(&self) -> &Node {
        // In range: `Fabric::link` checked it, and a fabric never changes its size.
        &self.nodes[self.index as usize]
    }

    fn send_one(&mut self, frame: &TxFrame<'_>) {
        let bytes = frame.len();
        let fits = (1..=self.capabilities.sent_bytes_max()).contains(&bytes)
            && frame.parts.len() <= PARTS_MAX;
        let to = frame.to.as_index().and_then(|to| self.nodes.get(to as usize));
        match (frame.to.family(), to) {
            (AddressFamily::Everyone, _) if fits => {
                for (_, node) in
                    self.nodes.iter().enumerate().filter(|(at, _)| *at != self.index as usize)
                {
                    node.push(self.index, frame);
                }
            }
            (_, Some(node)) if fits => node.push(self.index, frame),
            _ => {
                self.counts.send_refused += 1;
                return;
            }
        }
        self.counts.frames_sent += 1;
        self.counts.bytes_sent += bytes as u64;
    }
}

impl Wire for SimLink {}

impl Link for SimLink {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        self.counts.send_calls += 1;
        batch.iter().for_each(|frame| self.send_one(frame));
        batch.len()
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        self.counts.receive_calls += 1;
        let mut handed = 0;
        while handed < budget {
            let Some((from, bytes)) = self.own().pop() else { break };
            if is_for(&bytes, self.node_tag) {
                self.counts.frames_received += 1;
                self.counts.bytes_received += bytes.len() as u64;
                handed += 1;
                sink(&bytes, &LinkAddress::index(from));
            } else {
                self.counts.not_for_us += 1;
            }
            self.own().give_back(bytes);
        }
        handed
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        Some(self.own().event.as_fd())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> bool {
        system::poll_until(self.own().event.as_fd(), timeout, |_| ()) == Polled::Readable
    }

    fn statistics(&self) -> LinkStatistics {
        let mut counts = self.counts;
        counts.receive_lost += self.own().lock().lost;
        counts
    }
}
