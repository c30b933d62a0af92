//! A node under hostile frames and odd posts. The input is a script of one-byte commands with operands.
//!
//! Frames get a right destination, source and checksum, so that they pass the outer checks and reach the protocol; what is
//! inside is the fuzzer's. A second, honest node is connected through a wire that the script may lose frames on.
#![no_main]

use emp_firmware::{
    AtomicDescriptor, AtomicOp, CompletionMode, Config, Datatype, Firmware, GetDescriptor,
    HostMemory, LinkIndex, LinkInfo, MemoryFault, OpId, Profile, PutDescriptor, ReceiveDescriptor,
    RemoteRegion, Rights, Segment, SegmentList, Selector, SendDescriptor, Span, Time,
    TransmitBatch,
};
use emp_wire::{
    Checksum, Epoch, Flags, HEADER_BYTES, Header, Kind, LinkAddress, NodeId, Seed, Sequence,
    begin_checksum, covered_bytes, store_checksum,
};
use libfuzzer_sys::fuzz_target;

/// Memory of one node: one flat run; addresses beyond it fault.
struct Memory(Vec<u8>);

const MEMORY_BYTES: usize = 1 << 18;
const FRAME_BYTES_MAX: usize = 1_500;

impl Memory {
    fn range(&self, of: Segment) -> Result<core::ops::Range<usize>, MemoryFault> {
        let start = usize::try_from(of.address).map_err(|_| MemoryFault)?;
        let end = start.checked_add(of.bytes as usize).ok_or(MemoryFault)?;
        if end <= self.0.len() { Ok(start..end) } else { Err(MemoryFault) }
    }
}

impl HostMemory for Memory {
    fn read(&self, from: Segment, into: &mut [u8]) -> Result<(), MemoryFault> {
        into.copy_from_slice(&self.0[self.range(from)?]);
        Ok(())
    }
    fn write(&mut self, to: Segment, from: &[u8]) -> Result<(), MemoryFault> {
        let range = self.range(to)?;
        self.0[range].copy_from_slice(from);
        Ok(())
    }
    fn checksum(&self, of: Segment, sum: &mut Checksum) -> Result<(), MemoryFault> {
        sum.update(&self.0[self.range(of)?]);
        Ok(())
    }
}

struct Node {
    firmware: Firmware,
    memory: Memory,
    ops: Vec<OpId>,
}

const IDS: [NodeId; 2] = [NodeId(0x1111), NodeId(0x2222)];
const EPOCHS: [u32; 2] = [0x0001_0001, 0x0002_0002];

impl Node {
    fn new(index: usize, profile: &Profile) -> Self {
        let mut firmware = Firmware::new(Config {
            node: IDS[index],
            epoch: EPOCHS[index],
            name: "fuzz".into(),
            profile: profile.clone(),
            links: vec![LinkInfo::new(FRAME_BYTES_MAX, true)],
            seed: index as u64,
        });
        firmware.open_endpoint(0).expect("the first endpoint");
        Self { firmware, memory: Memory(vec![0x5A; MEMORY_BYTES]), ops: Vec::new() }
    }

    /// What leaves the node now.
    fn transmit(&mut self, now: Time, batch: &mut TransmitBatch) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        // More batches than a window has frames would be an endless loop.
        for _ in 0..1_000 {
            batch.clear();
            if self.firmware.poll_transmit(now, &mut self.memory, batch) == 0 {
                return frames;
            }
            for (i, frame) in batch.frames().iter().enumerate() {
                let mut bytes = batch.inline(i).to_vec();
                for segment in frame.segments() {
                    let at = bytes.len();
                    bytes.resize(at + segment.bytes as usize, 0);
                    let _ = self.memory.read(*segment, &mut bytes[at..]);
                }
                assert!(bytes.len() <= FRAME_BYTES_MAX, "frame of {} bytes", bytes.len());
                frames.push(bytes);
            }
        }
        panic!("a node sends without end");
    }
}

/// The script's bytes; zeros after its end.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }
    fn word(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }
    /// Small numbers are likelier to be near what the node expects.
    fn number(&mut self) -> u32 {
        match self.byte() {
            255 => self.word(),
            small => u32::from(small),
        }
    }
}

/// A frame as if from the honest node, with the script's content and a right checksum.
fn hostile(script: &mut Script<'_>) -> Vec<u8> {
    let kind = Kind::ALL[usize::from(script.byte()) % Kind::ALL.len()];
    let flags = Flags(script.byte());
    let mut fields = script.bytes(8);
    if kind.identified() && script.byte() != 0 {
        fields.copy_from_slice(&IDS[1].0.to_be_bytes());
    }
    let rest = usize::from(script.byte());
    fields.extend(script.bytes(rest));
    let header = Header {
        kind,
        flags,
        length: fields.len() as u16,
        destination_tag: IDS[0].destination_tag(),
        destination_epoch: Epoch(EPOCHS[0]).check(),
        source_tag: IDS[1].source_tag(),
        source_epoch: Epoch(EPOCHS[1].wrapping_add(script.number())),
        sequence: Sequence(script.number()),
        acknowledge: Sequence(script.number()),
        word: script.number(),
    };
    let mut head = [0; HEADER_BYTES];
    header.emit(&mut head);
    let mut frame = head.to_vec();
    frame.extend_from_slice(&fields[..covered_bytes(&header)]);
    let seed = if kind.contact() {
        Seed::CONTACT
    } else {
        Seed::between(IDS[1], IDS[0], Epoch(EPOCHS[0]))
    };
    let sum = begin_checksum(&mut frame, seed);
    frame.extend_from_slice(&fields[covered_bytes(&header)..]);
    store_checksum(&mut frame, sum);
    frame
}

fn segments(script: &mut Script<'_>) -> SegmentList {
    let mut list = Vec::new();
    for _ in 0..script.byte() % 4 {
        let address = u64::from(script.word()) % MEMORY_BYTES as u64;
        let bytes = u64::from(script.word()) % 100_000;
        // Mostly within memory; what is not must end in an error, not in a panic.
        list.push(Segment { address, bytes });
    }
    SegmentList::new(&list).unwrap_or_else(|_| SegmentList::empty())
}

fn selector(script: &mut Script<'_>) -> Selector {
    let from = [NodeId::ANY, IDS[0], IDS[1]][usize::from(script.byte()) % 3];
    Selector {
        from,
        from_endpoint: (script.byte() % 2 == 0).then_some(0),
        match_bits: u64::from(script.byte()),
        ignore_bits: if script.byte() % 2 == 0 { u64::MAX } else { 3 },
    }
}

/// A place in a region that may be there.
fn target(script: &mut Script<'_>) -> RemoteRegion {
    RemoteRegion {
        to: IDS[usize::from(script.byte()) % 2],
        to_endpoint: u16::from(script.byte() % 2),
        key: u64::from(script.byte() % 4),
        generation: u32::from(script.byte() % 3),
        offset: u64::from(script.number()),
    }
}

/// A post, export or removal of the one-sided kind.
fn reach_out(script: &mut Script<'_>, node: &mut Node, now: Time) {
    let Node { firmware, memory, ops } = node;
    match script.byte() % 5 {
        0 => {
            let put = PutDescriptor {
                target: target(script),
                endpoint: 0,
                segments: segments(script),
                immediate: (script.byte() % 2 == 0).then_some(9),
                completion: CompletionMode::Auto,
                context: 4,
            };
            ops.extend(firmware.post_put(now, put, memory));
        }
        1 => {
            let (target, segments) = (target(script), segments(script));
            let get = GetDescriptor { target, endpoint: 0, segments, context: 5 };
            ops.extend(firmware.post_get(now, get, memory));
        }
        2 => {
            let operation = AtomicOp::ALL[usize::from(script.byte()) % AtomicOp::ALL.len()];
            let datatype = Datatype::ALL[usize::from(script.byte()) % Datatype::ALL.len()];
            let count = script.number();
            let bytes = datatype.bytes() as u64 * u64::from(count);
            let place = u64::from(script.word()) % MEMORY_BYTES as u64;
            let list = || SegmentList::one(Segment { address: place, bytes });
            let operands = if operation.has_operands() { list() } else { SegmentList::empty() };
            let atomic = AtomicDescriptor {
                target: target(script),
                endpoint: 0,
                operation,
                datatype,
                count,
                operands,
                compare: operation.compares().then(list),
                fetch_into: (script.byte() % 2 == 0).then(list),
                context: 6,
            };
            ops.extend(firmware.post_atomic(now, atomic, memory));
        }
        3 => {
            let address = u64::from(script.word()) % MEMORY_BYTES as u64;
            let memory = Segment { address, bytes: u64::from(script.word()) % 100_000 };
            let rights = [Rights::NONE, Rights::REMOTE_READ, Rights::REMOTE_WRITE, Rights::BOTH];
            let rights = rights[usize::from(script.byte()) % 4];
            let key = Some(u64::from(script.byte() % 4));
            let _ = firmware.export_region(key, memory, rights, 0);
        }
        _ => {
            firmware.remove_region(now, u64::from(script.byte() % 4));
        }
    }
}

fn command(script: &mut Script<'_>, nodes: &mut [Node; 2], now: &mut Time) {
    let which = usize::from(script.byte()) % 2;
    let node = &mut nodes[which];
    let op = script.byte() % 16;
    if (9..=11).contains(&op) {
        return reach_out(script, node, *now);
    }
    let Node { firmware, memory, ops } = node;
    match op {
        0 | 1 => {
            let send = SendDescriptor {
                to: IDS[usize::from(script.byte()) % 2],
                endpoint: 0,
                to_endpoint: u16::from(script.byte() % 2),
                match_bits: u64::from(script.byte()),
                segments: segments(script),
                immediate: (script.byte() % 2 == 0).then_some(7),
                synchronous: script.byte() % 2 == 0,
                completion: [
                    CompletionMode::Auto,
                    CompletionMode::Buffered,
                    CompletionMode::Delivered,
                ][usize::from(script.byte()) % 3],
                context: 1,
            };
            ops.extend(firmware.post_send(*now, send, memory));
        }
        2 | 3 => {
            let receive = ReceiveDescriptor {
                endpoint: 0,
                selector: selector(script),
                segments: segments(script),
                claim: None,
                context: 2,
            };
            ops.extend(firmware.post_receive(*now, receive, memory));
        }
        4 => {
            if !ops.is_empty() {
                let op = ops[usize::from(script.byte()) % ops.len()];
                firmware.cancel(*now, op);
            }
        }
        5 => {
            let claim = script.byte() % 2 == 0;
            let found = firmware.probe(0, selector(script), claim);
            if let Some(claim) = found.and_then(|info| info.claim) {
                if script.byte() % 2 == 0 {
                    assert!(firmware.discard(*now, claim), "a fresh claim can be given up");
                } else {
                    let receive = ReceiveDescriptor {
                        endpoint: 0,
                        selector: Selector::ANY,
                        segments: segments(script),
                        claim: Some(claim),
                        context: 3,
                    };
                    ops.extend(firmware.post_receive(*now, receive, memory));
                }
            }
        }
        6 => firmware.set_collection(script.number()),
        7 => *now = *now + Span::us(u64::from(script.word()) % 10_000_000),
        8 => {
            if script.byte() % 8 == 0 {
                firmware.close_endpoint(*now, 0);
                let _ = firmware.open_endpoint(0);
            }
        }
        _ => {
            // Hostile frames go to node 0 only: node 1 shows that an honest peer survives them.
            let frame = hostile(script);
            let Node { firmware, memory, .. } = &mut nodes[0];
            firmware.handle_frame(*now, LinkIndex(0), LinkAddress::index(1), &frame, memory);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let mut script = Script(data);
    let profile = Profile::ALL[usize::from(script.byte()) % Profile::ALL.len()];
    let lossy = script.byte();
    let mut nodes = [Node::new(0, profile), Node::new(1, profile)];
    let mut batch = TransmitBatch::new(FRAME_BYTES_MAX);
    let mut now = Time(1_000_000);
    // Long scripts find nothing that short ones don't, and cost more.
    for step in 0..400u32 {
        if script.0.is_empty() && step > 0 {
            break;
        }
        command(&mut script, &mut nodes, &mut now);
        now = now + Span::us(5);
        for from in 0..2 {
            let frames = nodes[from].transmit(now, &mut batch);
            let Node { firmware, memory, .. } = &mut nodes[1 - from];
            for (i, frame) in frames.iter().enumerate() {
                if lossy != 0 && (step as usize + i).is_multiple_of(usize::from(lossy)) {
                    continue;
                }
                let address = LinkAddress::index(from as u32);
                firmware.handle_frame(now, LinkIndex(0), address, frame, memory);
            }
        }
        for node in &mut nodes {
            if node.firmware.poll_timeout().is_some_and(|due| due <= now) {
                node.firmware.handle_timeout(now, &mut node.memory);
            }
            while let Some(done) = node.firmware.poll_completion() {
                assert!(done.bytes <= done.total_bytes);
            }
            while node.firmware.poll_event().is_some() {}
            let (free, all) = node.firmware.pool_slots();
            assert!(free <= all, "{free} of {all} slots free");
            assert!(node.firmware.peers() <= 16, "{} peers", node.firmware.peers());
        }
    }
});
