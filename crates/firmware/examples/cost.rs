//! What the protocol itself costs: two nodes in one thread hand each other frames through memory, no link between.
//!
//! `cargo run --release -p emp-firmware --example cost [BYTES…]`; for instruction counts that repeat exactly, run the built
//! example under `valgrind --tool=callgrind`.

use std::time::Instant;

use emp_firmware::{
    CompletionMode, Config, Firmware, HostMemory, LinkIndex, LinkInfo, MemoryFault, OpKind,
    Profile, ReceiveDescriptor, Segment, SegmentList, Selector, SendDescriptor, Time,
    TransmitBatch,
};
use emp_wire::{Checksum, LinkAddress, NodeId};

struct Memory(Vec<u8>);

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

struct Node {
    firmware: Firmware,
    memory: Memory,
    completed: u64,
}

fn node(id: u64) -> Node {
    let links = vec![LinkInfo { frame_bytes_max: 1500, broadcast: true }];
    let profile = Profile::DEFAULT;
    let name = String::new();
    let config = Config { node: NodeId(id), epoch: id as u32, name, profile, links, seed: id };
    let mut firmware = Firmware::new(config);
    firmware.open_endpoint(0).expect("the first endpoint");
    Node { firmware, memory: Memory(vec![7; 8 << 20]), completed: 0 }
}

/// Carries what `from` has to send.
fn carry(from: &mut Node, to: &mut Node, now: Time, batch: &mut TransmitBatch) {
    batch.clear();
    if from.firmware.poll_timeout().is_some_and(|due| due <= now) {
        from.firmware.handle_timeout(now, &mut from.memory);
    }
    from.firmware.poll_transmit(now, &mut from.memory, batch);
    let mut frame = [0u8; 1500];
    for (i, f) in batch.frames().iter().enumerate() {
        let inline = batch.inline(i);
        let mut end = inline.len();
        frame[..end].copy_from_slice(inline);
        for s in f.segments() {
            let n = s.bytes as usize;
            frame[end..end + n].copy_from_slice(&from.memory.0[s.address as usize..][..n]);
            end += n;
        }
        let address = LinkAddress::index(1);
        to.firmware.handle_frame(now, LinkIndex(0), address, &frame[..end], &mut to.memory);
    }
    while from.firmware.poll_completion().is_some() {}
    while let Some(completion) = to.firmware.poll_completion() {
        to.completed += u64::from(completion.op.kind() == OpKind::Receive);
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

fn send(from: &mut Node, to: u64, bytes: u64, now: Time) {
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
    from.firmware.post_send(now, send, &mut from.memory).expect("room");
}

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

fn main() {
    println!("{:>9} {:>14} {:>12}", "bytes", "ns one way", "Gb/s");
    let asked: Vec<u64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let usual = [0u64, 32, 256, 1024, 1400, 16 << 10, 64 << 10, 1 << 20];
    for bytes in if asked.is_empty() { usual.to_vec() } else { asked } {
        let (mut a, mut b) = (node(1), node(2));
        let mut batch = TransmitBatch::new(1500);
        let rounds = (200_000_000 / (2_000 + bytes)).max(20);
        let start = Instant::now();
        for round in 0..rounds {
            // Virtual time, so that timers do the same in every run and under every tool.
            let now = Time(1 + round * 4_000);
            receive(&mut b, bytes, now);
            send(&mut a, 2, bytes, now);
            exchange(&mut a, &mut b, now, &mut batch);
            let now = Time(1 + round * 4_000 + 2_000);
            receive(&mut a, bytes, now);
            send(&mut b, 1, bytes, now);
            exchange(&mut b, &mut a, now, &mut batch);
        }
        let ns = start.elapsed().as_nanos() as f64 / rounds as f64 / 2.0;
        println!("{bytes:>9} {ns:>14.0} {:>12.1}", bytes as f64 * 8.0 / ns);
    }
}
