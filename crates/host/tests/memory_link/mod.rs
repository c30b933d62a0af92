//! A link that costs next to nothing: two ends in one thread hand each other frames through memory.
#![allow(dead_code, reason = "each test uses some of it")]

use std::cell::UnsafeCell;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use emp_host::link::{Capabilities, Link, LinkStatistics, TxFrame};
use emp_host::{
    Board, Completion, CompletionMode, Endpoint, LinkAddress, Node, NodeId, Profile,
    ReceiveDescriptor, Segment, SegmentList, Selector, SendDescriptor,
};

const FRAME: usize = 1500;
const SLOTS: usize = 64;

/// Frames that wait for one end.
struct Queue {
    frames: [[u8; FRAME]; SLOTS],
    lengths: [usize; SLOTS],
    head: usize,
    tail: usize,
}

/// Both queues, for one thread only.
struct Wire([UnsafeCell<Queue>; 2]);

// SAFETY: this program has one thread that touches links: boards are inline and without guardian.
unsafe impl Send for Wire {}
// SAFETY: as above.
unsafe impl Sync for Wire {}

struct Memory {
    wire: Arc<Wire>,
    end: usize,
    capabilities: Capabilities,
    frames_sent: u64,
}

impl Link for Memory {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        // SAFETY: one thread, and no other reference lives while this method runs.
        let queue = unsafe { &mut *self.wire.0[1 - self.end].get() };
        for frame in batch {
            let slot = queue.tail % SLOTS;
            let mut length = 0;
            for part in frame.parts {
                queue.frames[slot][length..length + part.len()].copy_from_slice(part);
                length += part.len();
            }
            queue.lengths[slot] = length;
            queue.tail += 1;
        }
        self.frames_sent += batch.len() as u64;
        batch.len()
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        // SAFETY: as above; the sink does not send.
        let queue = unsafe { &mut *self.wire.0[self.end].get() };
        let mut count = 0;
        while queue.head != queue.tail && count < budget {
            let slot = queue.head % SLOTS;
            let from = LinkAddress::index(1 - self.end as u32);
            sink(&queue.frames[slot][..queue.lengths[slot]], &from);
            queue.head += 1;
            count += 1;
        }
        count
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn wait(&mut self, _timeout: Option<Duration>) -> bool {
        false
    }

    fn statistics(&self) -> LinkStatistics {
        LinkStatistics { frames_sent: self.frames_sent, ..LinkStatistics::default() }
    }
}

/// Two nodes of one thread, without guardians, and an endpoint on each. Nothing else may use them.
pub fn pair() -> ([Node; 2], [Endpoint; 2]) {
    pair_with(&Profile::DEFAULT)
}

/// The same with another profile.
pub fn pair_with(profile: &Profile) -> ([Node; 2], [Endpoint; 2]) {
    let queue = || {
        UnsafeCell::new(Queue {
            frames: [[0; FRAME]; SLOTS],
            lengths: [0; SLOTS],
            head: 0,
            tail: 0,
        })
    };
    let wire = Arc::new(Wire([queue(), queue()]));
    let start = |end: usize, name: &str| {
        let capabilities = Capabilities {
            kind: "memory",
            interface: name.into(),
            frame_bytes_max: FRAME,
            long_frame_bytes: 0,
            long_frames_held: 0,
            parts_max: 16,
            batch_max: SLOTS,
            segmentation: false,
            sums: false,
            past_ip: false,
            broadcast: true,
            privileged: false,
            address: LinkAddress::index(end as u32),
        };
        let link = Memory { wire: Arc::clone(&wire), end, capabilities, frames_sent: 0 };
        let board = Board::Inline { guardian: false };
        let node = Node::builder().name(name).link(link).board(board).profile(profile.clone());
        node.start().expect("the node starts")
    };
    let nodes = [start(0, "a"), start(1, "b")];
    let ends = [0, 1].map(|end| nodes[end].endpoint(1).expect("the endpoint opens"));
    (nodes, ends)
}

/// One message: a receive is posted, a send is posted, completions are polled on both sides. The buffers are leaked.
pub fn message(
    from: &Endpoint,
    to: &Endpoint,
    node: NodeId,
    out: &mut [u8],
    into: &mut [u8],
    done: &mut Vec<Completion>,
) {
    let whole = |buffer: &mut [u8]| {
        let address = buffer.as_mut_ptr().expose_provenance() as u64;
        SegmentList::one(Segment { address, bytes: buffer.len() as u64 })
    };
    let receive = ReceiveDescriptor {
        endpoint: 1,
        selector: Selector::ANY,
        segments: whole(into),
        claim: None,
        context: 0,
    };
    // SAFETY: the buffer is leaked, hence valid for ever.
    unsafe { to.post_receive_raw(receive) }.expect("there is room");
    let send = SendDescriptor {
        to: node,
        endpoint: 1,
        to_endpoint: 1,
        match_bits: 0,
        segments: whole(out),
        immediate: None,
        synchronous: false,
        completion: CompletionMode::Auto,
        context: 0,
    };
    // SAFETY: as above.
    unsafe { from.post_send_raw(send) }.expect("there is room");
    done.clear();
    while to.poll_completions(done) == 0 {
        from.poll_completions(done);
    }
}
