//! Two nodes on a perfect wire: the plain ways of a message. Faults are the simulator's business (`emp-model`).

use emp_firmware::*;
use emp_wire::{Checksum, LinkAddress, NodeId};

struct Memory(Vec<u8>);

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

struct Node {
    firmware: Firmware,
    memory: Memory,
    done: Vec<Completion>,
}

struct Pair {
    nodes: [Node; 2],
    now: Time,
    frames: u64,
}

const HALF: u64 = 8 << 20;

impl Pair {
    fn new(profile: &Profile) -> Self {
        let node = |id: u64| {
            let mut firmware = Firmware::new(Config {
                node: NodeId(id),
                epoch: 77 + id as u32,
                name: format!("n{id}"),
                profile: profile.clone(),
                links: vec![LinkInfo::new(1500, true)],
                seed: id,
            });
            firmware.open_endpoint(0).unwrap();
            let bytes = (0..2 * HALF).map(|i| (i * 31 + id) as u8).collect();
            Node { firmware, memory: Memory(bytes), done: Vec::new() }
        };
        Self { nodes: [node(1), node(2)], now: Time(1), frames: 0 }
    }

    /// Carries frames until both are quiet, letting timers run for at most `span`.
    fn run(&mut self, span: Span) {
        let end = self.now + span;
        let mut batch = TransmitBatch::new(1500);
        for _ in 0..1_000_000 {
            let mut moved = false;
            for i in 0..2 {
                batch.clear();
                let node = &mut self.nodes[i];
                node.firmware.poll_transmit(self.now, &mut node.memory, &mut batch);
                let mut frames = Vec::new();
                for (k, frame) in batch.frames().iter().enumerate() {
                    let mut bytes = batch.inline(k).to_vec();
                    for s in frame.segments() {
                        let at = s.address as usize;
                        bytes.extend_from_slice(&node.memory.0[at..at + s.bytes as usize]);
                    }
                    assert_eq!(bytes.len(), frame.bytes());
                    assert!(bytes.len() <= 1500);
                    frames.push(bytes);
                }
                moved |= !frames.is_empty();
                self.frames += frames.len() as u64;
                let other = &mut self.nodes[1 - i];
                for bytes in frames {
                    other.firmware.handle_frame(
                        self.now,
                        LinkIndex(0),
                        LinkAddress::index(i as u32),
                        &bytes,
                        &mut other.memory,
                    );
                }
            }
            for node in &mut self.nodes {
                while let Some(c) = node.firmware.poll_completion() {
                    node.done.push(c);
                }
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

    fn send(&mut self, from: usize, to: u64, bits: u64, bytes: u64) -> OpId {
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
                    synchronous: false,
                    completion: CompletionMode::Auto,
                    context: bits,
                },
                &mut node.memory,
            )
            .unwrap()
    }

    fn receive(&mut self, at: usize, selector: Selector, bytes: u64) -> OpId {
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

    fn check_quiet(&mut self) {
        // The last look after peers that owed something finds that none does.
        self.run(Span::ms(1000));
        for node in &self.nodes {
            let fw = &node.firmware;
            assert!(fw.is_drained());
            assert_eq!(fw.poll_timeout(), None);
            let (free, all) = fw.pool_slots();
            assert_eq!(free, all);
            // On this wire only frames of a message that was not taken may be dropped.
            let counters = fw.counters();
            let refused =
                counters.get(Counter::DropBeforeMessage) + counters.get(Counter::DropOutOfOrder);
            assert!(refused == 0 || counters.get(Counter::NotTaken) > 0);
            assert_eq!(counters.dropped(), refused, "{counters:?}");
        }
    }
}

#[test]
fn every_size_arrives_whole_in_every_profile() {
    for profile in Profile::ALL {
        for bytes in [
            0,
            1,
            31,
            256,
            257,
            1024,
            1025,
            1400,
            1436,
            1437,
            1500,
            3000,
            32 << 10,
            65_536,
            65_537,
            100_000,
            1 << 20,
            5_000_001,
        ] {
            for late in [false, true] {
                let mut pair = Pair::new(profile);
                if !late {
                    pair.receive(1, Selector::bits(9), HALF);
                }
                pair.send(0, 2, 9, bytes);
                if late {
                    pair.run(Span::us(300));
                    pair.receive(1, Selector::bits(9), HALF);
                }
                pair.run(Span::ms(100));
                let what = format!("{} {bytes} late {late}", profile.name);
                let received = &pair.nodes[1].done;
                assert_eq!(
                    received.len(),
                    1,
                    "{what}: {:?} {:?}",
                    pair.nodes[0].firmware.counters(),
                    pair.nodes[1].firmware.counters()
                );
                assert_eq!((received[0].status, received[0].bytes), (Status::Ok, bytes), "{what}");
                assert_eq!(received[0].immediate, Some(10));
                assert_eq!(pair.nodes[0].done.len(), 1, "{what}");
                assert_eq!(pair.nodes[0].done[0].status, Status::Ok, "{what}");
                let (n, half) = (bytes as usize, HALF as usize);
                assert!(
                    pair.nodes[0].memory.0[..n] == pair.nodes[1].memory.0[half..half + n],
                    "{what}"
                );
                pair.check_quiet();
            }
        }
    }
}

#[test]
fn a_node_sends_to_itself() {
    for bytes in [0, 100, 5000, 3_000_000] {
        let mut pair = Pair::new(&Profile::DEFAULT);
        pair.send(0, 1, 3, bytes);
        pair.run(Span::ms(1));
        pair.receive(0, Selector::ANY, HALF);
        pair.run(Span::ms(50));
        assert_eq!(pair.nodes[0].done.len(), 2, "{bytes}");
        let (n, half) = (bytes as usize, HALF as usize);
        assert!(pair.nodes[0].memory.0[..n] == pair.nodes[0].memory.0[half..half + n]);
        assert_eq!(pair.frames, 0);
        pair.check_quiet();
    }
}

#[test]
fn a_flood_of_unexpected_messages_loses_nothing() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    const N: u64 = 20_000;
    for i in 0..N {
        pair.send(0, 2, i, 700);
    }
    pair.run(Span::ms(200));
    let (free, all) = pair.nodes[1].firmware.pool_slots();
    assert!(free < all);
    for _ in 0..N {
        pair.receive(1, Selector::ANY, 700);
    }
    pair.run(Span::ms(2000));
    let bits: Vec<u64> = pair.nodes[1].done.iter().map(|c| c.match_bits).collect();
    assert_eq!(bits.len() as u64, N);
    assert!(bits.iter().enumerate().all(|(i, b)| i as u64 == *b), "in order");
    assert_eq!(pair.nodes[0].done.len() as u64, N);
}

#[test]
fn silence_ends_in_an_error() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.send(0, 99, 1, 50_000);
    pair.run(Span::ms(11_000));
    assert_eq!(pair.nodes[0].done.len(), 1);
    assert_eq!(pair.nodes[0].done[0].status, Status::NotFound);
    pair.check_quiet_after_loss();
}

impl Pair {
    fn check_quiet_after_loss(&self) {
        assert!(self.nodes[0].firmware.is_drained());
        assert_eq!(self.nodes[0].firmware.poll_timeout(), None);
    }
}
