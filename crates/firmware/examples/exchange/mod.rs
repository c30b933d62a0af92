//! Two nodes in one thread that hand each other frames through memory, in virtual time.

use emp_firmware::{
    CompletionMode, Config, Exit, Firmware, HostMemory, LinkIndex, LinkInfo, MemoryFault, OpKind,
    Profile, ReceiveDescriptor, Segment, SegmentList, Selector, SendDescriptor, Time,
    TransmitBatch,
};
use emp_wire::{Checksum, LinkAddress, NodeId};

/// Plain memory, addressed from 0.
pub struct Memory(Vec<u8>);

impl HostMemory for Memory {
    fn read(&self, from: Segment, into: &mut [u8]) -> Result<(), MemoryFault> {
        into.copy_from_slice(&self.0[from.address as usize..][..into.len()]);
        Ok(())
    }
    fn write(&mut self, to: Segment, from: &[u8]) -> Result<(), MemoryFault> {
        self.0[to.address as usize..][..from.len()].copy_from_slice(from);
        Ok(())
    }
    fn checksum(&self, of: Segment, sum: &mut Checksum) -> Result<(), MemoryFault> {
        sum.update(&self.0[of.address as usize..][..of.bytes as usize]);
        Ok(())
    }
}

/// A node and what it has received.
pub struct Node {
    firmware: Firmware,
    memory: Memory,
    completed: u64,
    /// The frame that has just arrived. Made once: filling it with zeros each time took as many instructions as all sums.
    frame: [u8; 1500],
}

/// A node with this identity and one endpoint.
fn node(id: u64) -> Node {
    let links = vec![LinkInfo::new(1500, true)];
    let profile = Profile::DEFAULT;
    let name = String::new();
    let config = Config { node: NodeId(id), epoch: id as u32, name, profile, links, seed: id };
    let mut firmware = Firmware::new(config);
    firmware.open_endpoint(0).expect("the first endpoint");
    Node { firmware, memory: Memory(vec![7; 8 << 20]), completed: 0, frame: [0; 1500] }
}

/// Carries what `from` has to send: what is in the batch already, or what it gives when asked.
fn carry(from: &mut Node, to: &mut Node, now: Time, batch: &mut TransmitBatch) {
    if from.firmware.poll_timeout().is_some_and(|due| due <= now) {
        from.firmware.handle_timeout(now, &mut from.memory);
    }
    if batch.is_empty() {
        from.firmware.poll_transmit(now, &mut from.memory, batch);
    }
    for (i, f) in batch.frames().iter().enumerate() {
        let inline = batch.inline(i);
        let mut end = inline.len();
        to.frame[..end].copy_from_slice(inline);
        for s in f.segments() {
            let n = s.bytes as usize;
            to.frame[end..end + n].copy_from_slice(&from.memory.0[s.address as usize..][..n]);
            end += n;
        }
        let address = LinkAddress::index(1);
        to.firmware.handle_frame(now, LinkIndex(0), address, &to.frame[..end], &mut to.memory);
    }
    batch.clear();
    while from.firmware.poll_completion().is_some() {}
    // As the host does: looked at where it lies.
    while let Some(completion) = to.firmware.first_completion() {
        to.completed += u64::from(completion.op.kind() == OpKind::Receive);
        to.firmware.drop_first_completion();
    }
}

/// Carries frames both ways until a message of `from` is wholly there.
fn exchange(from: &mut Node, to: &mut Node, now: Time, batch: &mut TransmitBatch) {
    let wanted = to.completed + 1;
    while to.completed < wanted {
        carry(from, to, now, batch);
        if to.completed < wanted {
            carry(to, from, now, batch);
        }
    }
}

/// Posts a send. A small one is in the batch then.
fn send(from: &mut Node, to: u64, bytes: u64, now: Time, batch: &mut TransmitBatch) {
    let send = SendDescriptor {
        to: NodeId(to),
        endpoint: 0,
        to_endpoint: 0,
        match_bits: 1,
        segments: SegmentList::one(Segment { address: 0, bytes }),
        immediate: None,
        synchronous: false,
        completion: CompletionMode::Auto,
        context: 0,
    };
    let exit = Exit { batch, lends: false };
    let posted = from.firmware.post_send_into(now, send, &mut from.memory, Some(exit), |_| now);
    posted.expect("room");
}

/// Posts a receive.
fn receive(at: &mut Node, bytes: u64, now: Time) {
    let receive = ReceiveDescriptor {
        endpoint: 0,
        selector: Selector::bits(1),
        segments: SegmentList::one(Segment { address: 4 << 20, bytes }),
        claim: None,
        context: 0,
    };
    at.firmware.post_receive(now, receive, &mut at.memory).expect("room");
}

/// Two nodes that send each other messages in turn.
pub struct Pair {
    ends: [Node; 2],
    batch: TransmitBatch,
    round: u64,
}

/// Virtual time between two messages in ns: within it no timer of a loss-free exchange runs out.
const STEP_NS: u64 = 2_000;

impl Pair {
    /// Two nodes that know nothing of each other.
    pub fn new() -> Self {
        Self { ends: [node(1), node(2)], batch: TransmitBatch::new(1500), round: 0 }
    }

    /// A message of this length each way.
    pub fn exchange(&mut self, bytes: u64) {
        let [a, b] = &mut self.ends;
        // Virtual time, so that timers do the same in every run and under every tool.
        let now = Time(1 + 2 * self.round * STEP_NS);
        receive(b, bytes, now);
        send(a, 2, bytes, now, &mut self.batch);
        exchange(a, b, now, &mut self.batch);
        let now = Time(now.0 + STEP_NS);
        receive(a, bytes, now);
        send(b, 1, bytes, now, &mut self.batch);
        exchange(b, a, now, &mut self.batch);
        self.round += 1;
    }
}
