//! Two nodes on a wire that can lose what a test wants lost.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod forge;

use emp_firmware::*;

use emp_wire::{Checksum, LinkAddress, NodeId};

pub struct Memory(pub Vec<u8>);

impl HostMemory for Memory {
    fn read(&self, from: Segment, into: &mut [u8]) -> Result<(), MemoryFault> {
        let start = from.address as usize;
        into.copy_from_slice(self.0.get(start..start + into.len()).ok_or(MemoryFault)?);
        Ok(())
    }
    fn write(&mut self, to: Segment, from: &[u8]) -> Result<(), MemoryFault> {
        let start = to.address as usize;
        self.0.get_mut(start..start + from.len()).ok_or(MemoryFault)?.copy_from_slice(from);
        Ok(())
    }
    fn checksum(&self, of: Segment, sum: &mut Checksum) -> Result<(), MemoryFault> {
        let (start, end) = (of.address as usize, (of.address + of.bytes) as usize);
        sum.update(self.0.get(start..end).ok_or(MemoryFault)?);
        Ok(())
    }
}

pub struct Node {
    pub firmware: Firmware,
    pub memory: Memory,
    pub done: Vec<Completion>,
}

/// Decides whether a frame from a node is lost.
pub type DropHook = Box<dyn FnMut(usize, &[u8]) -> bool>;

pub struct Pair {
    pub nodes: [Node; 2],
    pub now: Time,
    pub frames: u64,
    pub sync: bool,
    pub drop: DropHook,
    pub address: [u32; 2],
    /// The nodes are processes of one machine: their frames cross its memory.
    pub memory_link: bool,
    /// The longest frame that the link takes.
    pub longest: usize,
}

pub const HALF: u64 = 8 << 20;

pub fn make(id: u64, epoch: u32, profile: &Profile) -> Firmware {
    let mut firmware = Firmware::new(Config {
        node: NodeId(id),
        epoch,
        name: format!("n{id}"),
        profile: profile.clone(),
        links: vec![LinkInfo::new(1500, true)],
        seed: epoch as u64,
    });
    firmware.open_endpoint(0).unwrap();
    firmware
}

impl Pair {
    pub fn new(profile: &Profile) -> Self {
        Self::over(profile, LinkInfo::new(1500, true))
    }

    /// Two nodes with one link of this kind each.
    pub fn over(profile: &Profile, link: LinkInfo) -> Self {
        let node = |id: u64| {
            let mut firmware = Firmware::new(Config {
                node: NodeId(id),
                epoch: 77 + id as u32,
                name: format!("n{id}"),
                profile: profile.clone(),
                links: vec![link],
                seed: id,
            });
            firmware.open_endpoint(0).unwrap();
            let bytes = (0..2 * HALF).map(|i| (i * 31 + id) as u8).collect();
            Node { firmware, memory: Memory(bytes), done: Vec::new() }
        };
        Self {
            nodes: [node(1), node(2)],
            now: Time(1),
            frames: 0,
            sync: false,
            drop: Box::new(|_, _| false),
            address: [0, 1],
            memory_link: false,
            longest: if link.long_frames { emp_wire::LONG_FRAME_BYTES } else { 1500 },
        }
    }

    pub fn link_address(&self, i: usize) -> LinkAddress {
        let number = self.address[i];
        if self.memory_link { LinkAddress::shm(number.into()) } else { LinkAddress::index(number) }
    }

    /// Carries frames until both are quiet, letting timers run for at most `span`.
    pub fn run(&mut self, span: Span) {
        let end = self.now + span;
        let mut batch = TransmitBatch::new(1500);
        for _ in 0..1_000_000 {
            let mut moved = false;
            for i in 0..2 {
                batch.clear();
                let node = &mut self.nodes[i];
                let expected = node.firmware.has_transmit(self.now);
                node.firmware.poll_transmit(self.now, &mut node.memory, &mut batch);
                assert!(expected || batch.is_empty(), "who looks first is not told of frames");
                let mut frames = Vec::new();
                for (k, frame) in batch.frames().iter().enumerate() {
                    let mut bytes = batch.inline(k).to_vec();
                    for s in frame.segments() {
                        let at = s.address as usize;
                        bytes.extend_from_slice(&node.memory.0[at..at + s.bytes as usize]);
                    }
                    assert_eq!(bytes.len(), frame.bytes());
                    assert!(bytes.len() <= self.longest);
                    let ok = match frame.to.as_index() {
                        Some(a) => a == self.address[1 - i],
                        None => true,
                    };
                    if !ok || (self.drop)(i, &bytes) {
                        moved = true;
                        continue;
                    }
                    frames.push(bytes);
                }
                moved |= !frames.is_empty();
                self.frames += frames.len() as u64;
                let from = self.link_address(i);
                let other = &mut self.nodes[1 - i];
                for bytes in frames {
                    other.firmware.handle_frame(
                        self.now,
                        LinkIndex(0),
                        from,
                        &bytes,
                        &mut other.memory,
                    );
                }
            }
            for node in &mut self.nodes {
                take_completions(&mut node.firmware, &mut node.done);
            }
            if moved {
                self.now = self.now + Span::us(1);
                continue;
            }
            let next = self.nodes.iter().filter_map(|n| n.firmware.poll_timeout()).min();
            match next {
                Some(t) if t <= end => self.now = self.now.max(t),
                _ => return,
            }
            for node in &mut self.nodes {
                node.firmware.handle_timeout(self.now, &mut node.memory);
            }
        }
        panic!("never quiet");
    }

    pub fn send(&mut self, from: usize, to: u64, bits: u64, bytes: u64) -> OpId {
        let sync = self.sync;
        let node = &mut self.nodes[from];
        node.firmware
            .post_send(
                self.now,
                SendDescriptor {
                    to: NodeId(to),
                    endpoint: 0,
                    to_endpoint: 0,
                    match_bits: bits,
                    segments: SegmentList::one(Segment { address: 0, bytes }),
                    immediate: Some(bits + 1),
                    synchronous: sync,
                    completion: CompletionMode::Auto,
                    context: bits,
                },
                &mut node.memory,
            )
            .unwrap()
    }

    pub fn receive(&mut self, at: usize, selector: Selector, bytes: u64) -> OpId {
        let node = &mut self.nodes[at];
        node.firmware
            .post_receive(
                self.now,
                ReceiveDescriptor {
                    endpoint: 0,
                    selector,
                    segments: SegmentList::one(Segment { address: HALF, bytes }),
                    claim: None,
                    context: 0,
                },
                &mut node.memory,
            )
            .unwrap()
    }

    /// Nothing is left to be done, and nothing was dropped.
    pub fn check_quiet(&mut self) {
        self.check_idle();
        for node in &self.nodes {
            let counters = node.firmware.counters();
            assert_eq!(counters.dropped(), 0, "{counters:?}");
        }
    }

    /// Nothing is left to be done, and no memory of the node's is in use.
    pub fn check_idle(&mut self) {
        // The last look after peers that owed something finds that none does.
        self.run(Span::ms(1000));
        for node in &self.nodes {
            let fw = &node.firmware;
            assert!(fw.is_drained());
            assert!(!fw.has_transmit(self.now), "nothing is left to be said");
            assert_eq!(fw.poll_timeout(), None);
            let (free, all) = fw.pool_slots();
            assert_eq!(free, all);
        }
    }
}

/// Takes what has ended, as a host does that looks before it polls; what it sees must be what it would have polled.
pub fn take_completions(firmware: &mut Firmware, done: &mut Vec<Completion>) {
    loop {
        let (news, first) = (firmware.has_news(), firmware.first_completion().copied());
        let next = match first {
            Some(first) if first.context % 2 == 0 => {
                firmware.drop_first_completion();
                Some(first)
            }
            _ => firmware.poll_completion(),
        };
        assert!(next.is_none() || news, "there was nothing new, and yet {next:?}");
        let Some(next) = next else { return };
        assert!(first.is_none_or(|first| first == next));
        done.push(next);
    }
}

pub fn ok(c: &[Completion], kind: OpKind) -> usize {
    c.iter().filter(|c| c.op.kind() == kind && c.status == Status::Ok).count()
}

pub fn show(pair: &Pair) -> String {
    (0..2).map(|i| { let f = &pair.nodes[i].firmware;
        format!("node{i}: sends ok {} recvs ok {} all {} drained {} timeout {:?} pool {:?} receiving {}\n   {:?}\n", ok(&pair.nodes[i].done, OpKind::Send), ok(&pair.nodes[i].done, OpKind::Receive), pair.nodes[i].done.len(), f.is_drained(), f.poll_timeout(), f.pool_slots(), f.is_receiving(),
            f.counters().iter().filter(|(_, n)| *n > 0).collect::<Vec<_>>()) }).collect()
}

/// One exchange only: both speak, then both hear.
pub fn step(pair: &mut Pair) -> bool {
    let mut batch = TransmitBatch::new(1500);
    let mut air = Vec::new();
    for i in 0..2 {
        batch.clear();
        let node = &mut pair.nodes[i];
        node.firmware.handle_timeout(pair.now, &mut node.memory);
        node.firmware.poll_transmit(pair.now, &mut node.memory, &mut batch);
        for (k, frame) in batch.frames().iter().enumerate() {
            let mut bytes = batch.inline(k).to_vec();
            for s in frame.segments() {
                let at = s.address as usize;
                bytes.extend_from_slice(&node.memory.0[at..at + s.bytes as usize]);
            }
            air.push((i, bytes));
        }
    }
    let moved = !air.is_empty();
    for (i, bytes) in air {
        let from = pair.link_address(i);
        let other = &mut pair.nodes[1 - i];
        if !(pair.drop)(i, &bytes) {
            other.firmware.handle_frame(pair.now, LinkIndex(0), from, &bytes, &mut other.memory);
        }
    }
    for node in &mut pair.nodes {
        while let Some(c) = node.firmware.poll_completion() {
            node.done.push(c);
        }
    }
    pair.now = pair.now + Span::us(5);
    moved
}

pub fn steps(pair: &mut Pair, span: Span) {
    let end = pair.now + span;
    while pair.now < end {
        if !step(pair) {
            let next = pair.nodes.iter().filter_map(|n| n.firmware.poll_timeout()).min();
            match next {
                Some(t) if t <= end => pair.now = pair.now.max(t),
                _ => return,
            }
        }
    }
}

pub fn frames_of(pair: &mut Pair, i: usize) -> Vec<Vec<u8>> {
    let mut batch = TransmitBatch::new(1500);
    let node = &mut pair.nodes[i];
    node.firmware.handle_timeout(pair.now, &mut node.memory);
    let expected = node.firmware.has_transmit(pair.now);
    node.firmware.poll_transmit(pair.now, &mut node.memory, &mut batch);
    assert!(expected || batch.is_empty(), "who looks first is not told of frames");
    (0..batch.frames().len())
        .map(|k| {
            let mut b = batch.inline(k).to_vec();
            for s in batch.frames()[k].segments() {
                let at = s.address as usize;
                b.extend_from_slice(&node.memory.0[at..at + s.bytes as usize]);
            }
            b
        })
        .collect()
}

pub fn give(pair: &mut Pair, to: usize, bytes: &[u8]) {
    let from = pair.link_address(1 - to);
    let o = &mut pair.nodes[to];
    o.firmware.handle_frame(pair.now, LinkIndex(0), from, bytes, &mut o.memory);
}

/// Posts a send that may leave at once, into this batch.
pub fn post_into(
    node: &mut Node,
    now: Time,
    send: SendDescriptor,
    batch: &mut TransmitBatch,
) -> Result<Posted, PostError> {
    let exit = Exit { batch, lends: false };
    node.firmware.post_send_into(now, send, &mut node.memory, Some(exit), |_| now)
}

/// The bounds that the host is told of since it was asked last, and how many there may be.
pub fn limits_told(firmware: &mut Firmware) -> Vec<(Limit, usize)> {
    let reached = |event| match event {
        NodeEvent::LimitReached { limit, most } => Some((limit, most)),
        _ => None,
    };
    std::iter::from_fn(|| firmware.poll_event()).filter_map(reached).collect()
}
