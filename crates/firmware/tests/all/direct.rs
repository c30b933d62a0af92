//! Long messages between nodes of one machine: named by the sender, read by the receiver (`DIRECT-1` to `DIRECT-4`).

use std::cell::RefCell;
use std::rc::Rc;

use crate::common::ok;
use emp_firmware::*;
use emp_wire::{Checksum, LinkAddress, NodeId};

const HALF: u64 = 16 << 20;

/// The memory of both hosts, as the machine has it.
struct Machine {
    hosts: [Vec<u8>; 2],
    stamp: u64,
    reads: bool,
    refuses: Option<FetchError>,
    fetches: u64,
}

struct View {
    machine: Rc<RefCell<Machine>>,
    own: usize,
}

impl View {
    fn span(of: Segment) -> std::ops::Range<usize> {
        of.address as usize..(of.address + of.bytes) as usize
    }
}

impl HostMemory for View {
    fn read(&self, from: Segment, into: &mut [u8]) -> Result<(), MemoryFault> {
        into.copy_from_slice(&self.machine.borrow().hosts[self.own][Self::span(from)]);
        Ok(())
    }

    fn write(&mut self, to: Segment, from: &[u8]) -> Result<(), MemoryFault> {
        self.machine.borrow_mut().hosts[self.own][Self::span(to)].copy_from_slice(from);
        Ok(())
    }

    fn checksum(&self, of: Segment, sum: &mut Checksum) -> Result<(), MemoryFault> {
        sum.update(&self.machine.borrow().hosts[self.own][Self::span(of)]);
        Ok(())
    }

    fn stamp(&self, _link: LinkIndex, _peer: LinkAddress) -> Option<u64> {
        let machine = self.machine.borrow();
        machine.reads.then_some(machine.stamp)
    }

    fn fetch(
        &mut self,
        from: &PeerMemory<'_>,
        to: &[Segment],
        last: &mut [u8],
    ) -> Result<(), FetchError> {
        let mut machine = self.machine.borrow_mut();
        machine.fetches += 1;
        if let Some(error) = machine.refuses {
            return Err(error);
        }
        if from.stamp != machine.stamp {
            return Err(FetchError::Refused);
        }
        assert_eq!(from.peer, LinkAddress::index(1 - self.own as u32));
        let mut bytes = Vec::new();
        for piece in from.pieces {
            let there = machine.hosts[1 - self.own].get(Self::span(*piece));
            bytes.extend_from_slice(there.ok_or(FetchError::Refused)?);
        }
        let mut rest = &bytes[..];
        for segment in to {
            let (here, others) = rest.split_at(segment.bytes as usize);
            machine.hosts[self.own][Self::span(*segment)].copy_from_slice(here);
            rest = others;
        }
        assert_eq!(rest.len(), last.len(), "as long as each other");
        last.copy_from_slice(rest);
        Ok(())
    }
}

struct Pair {
    machine: Rc<RefCell<Machine>>,
    nodes: Vec<(Firmware, View, Vec<Completion>)>,
    now: Time,
    frames: u64,
    /// Whether a frame of node 0 arrives.
    arrives: Box<dyn FnMut(u64) -> bool>,
}

impl Pair {
    fn new() -> Self {
        Self::with(true)
    }

    fn with(reads_memory: bool) -> Self {
        let host = |id: u64| (0..2 * HALF).map(|i| (i * 31 + (i >> 12) * 7 + id) as u8).collect();
        let hosts = [host(1), host(2)];
        let machine = Machine { hosts, stamp: 1, reads: true, refuses: None, fetches: 0 };
        let machine = Rc::new(RefCell::new(machine));
        let node = |own: usize| {
            let mut firmware = Firmware::new(Config {
                node: NodeId(own as u64 + 1),
                epoch: 70 + own as u32,
                name: format!("n{own}"),
                profile: Profile::DEFAULT,
                links: vec![LinkInfo { reads_memory, ..LinkInfo::new(1500, true) }],
                seed: own as u64,
            });
            firmware.open_endpoint(0).unwrap();
            (firmware, View { machine: Rc::clone(&machine), own }, Vec::new())
        };
        let nodes = vec![node(0), node(1)];
        Self { machine, nodes, now: Time(1), frames: 0, arrives: Box::new(|_| true) }
    }

    fn run(&mut self, span: Span) {
        let end = self.now + span;
        let mut batch = TransmitBatch::new(1500);
        for _ in 0..100_000 {
            let mut moved = false;
            for i in 0..2 {
                batch.clear();
                let (firmware, view, _) = &mut self.nodes[i];
                firmware.poll_transmit(self.now, view, &mut batch);
                let mut frames = Vec::new();
                for (k, frame) in batch.frames().iter().enumerate() {
                    let mut bytes = batch.inline(k).to_vec();
                    for segment in frame.segments() {
                        let machine = self.machine.borrow();
                        bytes.extend_from_slice(&machine.hosts[i][View::span(*segment)]);
                    }
                    frames.push(bytes);
                }
                for bytes in frames {
                    moved = true;
                    self.frames += 1;
                    if i == 0 && !(self.arrives)(self.frames) {
                        continue;
                    }
                    let from = LinkAddress::index(i as u32);
                    let (firmware, view, _) = &mut self.nodes[1 - i];
                    firmware.handle_frame(self.now, LinkIndex(0), from, &bytes, view);
                }
            }
            for (firmware, _, done) in &mut self.nodes {
                done.extend(std::iter::from_fn(|| firmware.poll_completion()));
            }
            self.now = self.now + Span::us(1);
            if moved {
                continue;
            }
            match self.nodes.iter().filter_map(|node| node.0.poll_timeout()).min() {
                Some(next) if next <= end => self.now = self.now.max(next),
                _ => return,
            }
            for (firmware, view, _) in &mut self.nodes {
                firmware.handle_timeout(self.now, view);
            }
        }
        panic!("never quiet");
    }

    fn send(&mut self, segments: &[(u64, u64)], synchronous: bool) {
        let send = SendDescriptor {
            to: NodeId(2),
            endpoint: 0,
            to_endpoint: 0,
            match_bits: 5,
            segments: list(segments),
            immediate: Some(6),
            synchronous,
            completion: CompletionMode::Auto,
            context: 0,
        };
        let (firmware, view, _) = &mut self.nodes[0];
        firmware.post_send(self.now, send, view).unwrap();
    }

    fn receive(&mut self, segments: &[(u64, u64)]) {
        let receive = ReceiveDescriptor {
            endpoint: 0,
            selector: Selector::bits(5),
            segments: list(segments),
            claim: None,
            context: 0,
        };
        let (firmware, view, _) = &mut self.nodes[1];
        firmware.post_receive(self.now, receive, view).unwrap();
    }

    fn count(&self, node: usize, counter: Counter) -> u64 {
        self.nodes[node].0.counters().get(counter)
    }

    /// The bytes at these places, one after the other.
    fn bytes(&self, host: usize, places: &[(u64, u64)]) -> Vec<u8> {
        let host = &self.machine.borrow().hosts[host];
        let span =
            |place: &(u64, u64)| host[place.0 as usize..(place.0 + place.1) as usize].to_vec();
        places.iter().flat_map(span).collect()
    }

    /// Sends from one list of places to another, all of which must arrive, and be read if `read`.
    fn passes(&mut self, from: &[(u64, u64)], to: &[(u64, u64)], read: bool) {
        let wanted = self.bytes(0, from);
        let before = self.count(1, Counter::BytesFetched);
        for (.., done) in &mut self.nodes {
            done.clear();
        }
        self.receive(to);
        self.send(from, false);
        self.run(Span::ms(100));
        assert!(self.bytes(1, to) == wanted, "other bytes");
        assert_eq!(ok(&self.nodes[0].2, OpKind::Send), 1);
        assert_eq!(ok(&self.nodes[1].2, OpKind::Receive), 1);
        let fetched = self.count(1, Counter::BytesFetched) - before;
        assert_eq!(fetched, if read { wanted.len() as u64 } else { 0 });
    }

    fn check_quiet(&mut self) {
        self.run(Span::ms(1000));
        for (firmware, ..) in &self.nodes {
            assert!(firmware.is_drained() && !firmware.is_receiving());
            assert_eq!(firmware.poll_timeout(), None);
            assert_eq!(firmware.counters().dropped(), 0, "{:?}", firmware.counters());
        }
    }
}

fn list(places: &[(u64, u64)]) -> SegmentList {
    let segment = |place: &(u64, u64)| Segment { address: place.0, bytes: place.1 };
    SegmentList::new(&places.iter().map(segment).collect::<Vec<_>>()).unwrap()
}

#[test]
fn a_long_message_is_read_and_not_sent() {
    let mut pair = Pair::new();
    pair.passes(&[(3, 1 << 20)], &[(HALF + 1, 1 << 20)], true);
    // Hellos, the first frame, its answer, an acknowledgement or two.
    assert!(pair.frames < 12, "{} frames", pair.frames);
    assert_eq!(pair.machine.borrow().fetches, 1);
    // Several turns for a very long one; none for a short one.
    pair.passes(&[(3, 10 << 20)], &[(HALF + 1, 10 << 20)], true);
    assert_eq!(pair.machine.borrow().fetches, 1 + 3);
    pair.passes(&[(3, 8 << 10)], &[(HALF + 1, 8 << 10)], false);
    pair.check_quiet();
}

#[test]
fn lists_are_read_piece_by_piece() {
    let mut pair = Pair::new();
    let pieces = |count: u64, base: u64, bytes: u64| -> Vec<(u64, u64)> {
        (0..count).map(|i| (base + 70_000 * i, bytes)).collect()
    };
    pair.passes(&pieces(8, 0, 5_000), &[(HALF, 40_000)], true);
    // More places here than are filled at a time.
    pair.passes(&pieces(3, 0, 40_000), &pieces(60, HALF, 2_000), true);
    // More pieces there than a first frame names.
    pair.passes(&pieces(9, 0, 5_000), &[(HALF, 45_000)], false);
    pair.check_quiet();
}

#[test]
fn unexpected_and_truncated_ones_are_read_when_their_time_comes() {
    let mut pair = Pair::new();
    pair.send(&[(0, 100_000)], true);
    pair.run(Span::ms(10));
    assert_eq!((pair.machine.borrow().fetches, pair.nodes[0].2.len()), (0, 0));
    pair.receive(&[(HALF, 60_000)]);
    pair.run(Span::ms(10));
    let done = pair.nodes[1].2[0];
    assert_eq!((done.status, done.bytes, done.total_bytes), (Status::Truncated, 60_000, 100_000));
    assert_eq!(done.immediate, Some(6));
    assert_eq!(pair.bytes(1, &[(HALF, 60_000)]), pair.bytes(0, &[(0, 60_000)]));
    assert_eq!(pair.count(1, Counter::BytesFetched), 60_000);
    assert_eq!(ok(&pair.nodes[0].2, OpKind::Send), 1);
    pair.check_quiet();
}

/// `DIRECT-2`.
#[test]
fn what_cannot_be_read_is_pulled() {
    let mut pair = Pair::new();
    pair.machine.borrow_mut().refuses = Some(FetchError::Refused);
    pair.passes(&[(3, 300_000)], &[(HALF, 300_000)], false);
    assert_eq!(pair.count(1, Counter::FetchRefused), 1);
    pair.machine.borrow_mut().refuses = None;
    pair.passes(&[(3, 300_000)], &[(HALF, 300_000)], true);
    // Nothing is named to a peer that does not read.
    pair.machine.borrow_mut().reads = false;
    pair.passes(&[(3, 300_000)], &[(HALF, 300_000)], false);
    assert_eq!(pair.count(1, Counter::FetchRefused), 1);
    pair.check_quiet();
}

/// `DIRECT-3`.
#[test]
fn memory_that_is_not_what_was_announced_is_not_taken_for_the_message() {
    let mut pair = Pair::new();
    pair.send(&[(0, 100_000)], false);
    pair.run(Span::ms(10));
    // An operation of the sender fails: what it had announced may be anything now.
    pair.machine.borrow_mut().stamp += 1;
    pair.receive(&[(HALF, 100_000)]);
    pair.run(Span::ms(10));
    assert_eq!(pair.count(1, Counter::FetchRefused), 1);
    assert_eq!(pair.bytes(1, &[(HALF, 100_000)]), pair.bytes(0, &[(0, 100_000)]));
    assert_eq!(ok(&pair.nodes[1].2, OpKind::Receive), 1);
    pair.check_quiet();
}

#[test]
fn a_lost_first_frame_comes_again() {
    for lost in 1..8 {
        let mut pair = Pair::new();
        pair.arrives = Box::new(move |number| number != lost);
        pair.passes(&[(3, 300_000)], &[(HALF, 300_000)], true);
    }
}

#[test]
fn a_sender_that_is_gone_is_reported() {
    let mut pair = Pair::new();
    pair.machine.borrow_mut().refuses = Some(FetchError::Gone);
    pair.receive(&[(HALF, 300_000)]);
    pair.send(&[(0, 300_000)], false);
    pair.run(Span::ms(10));
    assert_eq!(pair.nodes[1].2[0].status, Status::Unreachable);
    assert_eq!(pair.count(1, Counter::PeersLost), 1);
}

#[test]
fn addresses_that_come_from_afar_are_dropped() {
    let mut pair = Pair::with(false);
    pair.receive(&[(HALF, 300_000)]);
    pair.send(&[(0, 300_000)], false);
    pair.run(Span::ms(10));
    assert!(pair.count(1, Counter::DropPieces) > 0);
    assert_eq!(pair.machine.borrow().fetches, 0);
    assert!(pair.nodes[1].2.is_empty());
}

#[test]
fn puts_are_read_into_their_region() {
    let mut pair = Pair::new();
    let memory = Segment { address: HALF, bytes: HALF };
    pair.nodes[1].0.export_region(Some(9), memory, Rights::REMOTE_WRITE, 0).unwrap();
    let target =
        RemoteRegion { to: NodeId(2), to_endpoint: 0, key: 9, generation: 0, offset: 1_000 };
    let segments = list(&[(5, 50_000), (80_000, 50_000)]);
    let completion = CompletionMode::Auto;
    let put =
        PutDescriptor { target, endpoint: 0, segments, immediate: None, completion, context: 0 };
    let now = pair.now;
    let (firmware, view, _) = &mut pair.nodes[0];
    firmware.post_put(now, put, view).unwrap();
    pair.run(Span::ms(10));
    assert_eq!(ok(&pair.nodes[0].2, OpKind::Put), 1);
    let wanted = pair.bytes(0, &[(5, 50_000), (80_000, 50_000)]);
    assert_eq!(pair.bytes(1, &[(HALF + 1_000, 100_000)]), wanted);
    assert_eq!(pair.count(1, Counter::BytesFetched), 100_000);
    pair.check_quiet();
}
