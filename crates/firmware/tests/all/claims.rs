//! Who is whom: nodes that share an identity are told of (`EPOCH-5`), nodes that were met have names, and what a host was
//! told is over is counted until it is delivered.

use crate::common::{HALF, Memory, Pair};
use emp_firmware::*;
use emp_wire::{LinkAddress, NodeId};

/// Three nodes on one segment.
struct Segment3 {
    nodes: Vec<(Firmware, Memory)>,
    events: Vec<Vec<NodeEvent>>,
    now: Time,
}

impl Segment3 {
    fn new(ids: [u64; 3]) -> Self {
        let epochs = [0x1000_0001, 0x2222_0001, 0x3333_0001];
        let node = |(id, epoch): (u64, u32)| {
            (crate::common::make(id, epoch, &Profile::DEFAULT), Memory(vec![7; 2 * HALF as usize]))
        };
        let nodes = ids.into_iter().zip(epochs).map(node).collect();
        Self { nodes, events: vec![Vec::new(); 3], now: Time(1) }
    }

    fn send(&mut self, from: usize, to: u64) {
        let (firmware, memory) = &mut self.nodes[from];
        let send = SendDescriptor {
            to: NodeId(to),
            endpoint: 0,
            to_endpoint: 0,
            match_bits: 0,
            segments: SegmentList::one(Segment { address: 0, bytes: 100 }),
            immediate: None,
            synchronous: false,
            completion: CompletionMode::Auto,
            context: 0,
        };
        firmware.post_send(self.now, send, memory).expect("there is room");
    }

    /// Exchanges frames for so long, in steps of 10 µs.
    fn run(&mut self, span: Span) {
        let mut batch = TransmitBatch::new(1500);
        for _ in 0..span.0 / 10_000 {
            let mut air = Vec::new();
            for (i, (firmware, memory)) in self.nodes.iter_mut().enumerate() {
                batch.clear();
                firmware.handle_timeout(self.now, memory);
                firmware.poll_transmit(self.now, memory, &mut batch);
                for (k, frame) in batch.frames().iter().enumerate() {
                    let mut bytes = batch.inline(k).to_vec();
                    frame.segments().iter().for_each(|s| bytes.extend(vec![7; s.bytes as usize]));
                    air.push((i, frame.to.as_index(), bytes));
                }
                while firmware.poll_completion().is_some() {}
            }
            for (from, to, bytes) in air {
                for (i, (firmware, memory)) in self.nodes.iter_mut().enumerate() {
                    if i != from && to.is_none_or(|to| to == i as u32) {
                        let address = LinkAddress::index(from as u32);
                        firmware.handle_frame(self.now, LinkIndex(0), address, &bytes, memory);
                    }
                }
            }
            for ((firmware, _), events) in self.nodes.iter_mut().zip(&mut self.events) {
                events.extend(std::iter::from_fn(|| firmware.poll_event()));
            }
            self.now = self.now + Span::us(10);
        }
    }

    fn claims(&self, at: usize) -> Vec<&NodeEvent> {
        let claims = |event: &&NodeEvent| matches!(event, NodeEvent::Claimed { .. });
        self.events[at].iter().filter(claims).collect()
    }
}

fn at(index: u32) -> (LinkIndex, LinkAddress) {
    (LinkIndex(0), LinkAddress::index(index))
}

#[test]
fn a_peer_that_is_two_is_told_of_once() {
    let mut segment = Segment3::new([1, 1, 2]);
    for _ in 0..200 {
        segment.send(0, 2);
        segment.run(Span::us(300));
        segment.send(1, 2);
        segment.run(Span::ms(2));
    }
    let restarts = segment.events[2].iter().filter(|e| matches!(e, NodeEvent::Restarted(_)));
    assert!(restarts.count() > 2, "each is taken for the other");
    let told = segment.claims(2);
    let [NodeEvent::Claimed { node: NodeId(1), known: Some(known), other }] = told[..] else {
        panic!("{told:?}")
    };
    let mut both = [*known, *other];
    both.sort_by_key(|(_, address)| address.as_index());
    assert_eq!(both, [at(0), at(1)]);
}

#[test]
fn a_node_hears_of_its_double() {
    let mut segment = Segment3::new([1, 3, 2]);
    segment.nodes[0].0.claim_identity();
    segment.run(Span::ms(1));
    assert!(segment.events.iter().all(Vec::is_empty), "others take no notice");
    let mut segment = Segment3::new([1, 1, 2]);
    for _ in 0..3 {
        segment.nodes[1].0.claim_identity();
        segment.run(Span::ms(50));
    }
    let claimed = |other| NodeEvent::Claimed { node: NodeId(1), known: None, other };
    assert_eq!(segment.claims(0), [&claimed(at(1))], "told once");
    assert_eq!(segment.claims(1), [&claimed(at(0))], "it is answered");
    assert!(segment.events[2].is_empty());
}

#[test]
fn an_echo_is_no_double() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.send(0, 99, 1, 10);
    for frame in crate::common::frames_of(&mut pair, 0) {
        crate::common::give(&mut pair, 0, &frame);
    }
    assert_eq!(pair.nodes[0].firmware.poll_event(), None);
}

#[test]
fn who_was_met_by_a_message_has_a_name() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.send(0, 2, 1, 64);
    pair.run(Span::ms(1));
    let found = NodeEvent::Found {
        node: NodeId(1),
        link: LinkIndex(0),
        address: LinkAddress::index(0),
        name: "n1".into(),
    };
    assert_eq!(pair.nodes[1].firmware.poll_event(), Some(found));
}

#[test]
fn what_is_over_and_not_delivered_is_counted() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.send(0, 2, 1, 64);
    pair.run(Span::ms(1));
    assert_eq!(pair.nodes[0].firmware.undelivered().count(), 0, "delivered");
    pair.drop = Box::new(|_, _| true);
    for bits in 0..3 {
        pair.send(0, 2, bits, 64);
    }
    pair.send(0, 2, 4, 1 << 20);
    pair.run(Span::ms(1));
    let sends = pair.nodes[0].done.iter().filter(|done| done.op.kind() == OpKind::Send).count();
    assert_eq!(sends, 4, "small ones are over when they are copied");
    assert!(pair.nodes[0].firmware.undelivered().eq([NodeId(2); 3]));
}
