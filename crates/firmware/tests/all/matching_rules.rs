//! Which message goes to which receive (`MSG-3`), and to which endpoint.

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::Flags;

const NONE: Flags = Flags(0);

#[test]
fn the_first_posted_receive_that_accepts_it_takes_a_message() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let posted: Vec<OpId> = [Selector::bits(7), Selector::ANY, Selector::bits(5), Selector::ANY]
        .into_iter()
        .map(|selector| real.receive(selector, 10))
        .collect();
    for bits in [5, 5, 7, 5] {
        let frame = peer.message(NONE, None, bits, b"x");
        real.hear(&peer, &frame);
    }
    let took: Vec<OpId> = real.done.iter().map(|done| done.op).collect();
    assert_eq!(took, [posted[1], posted[2], posted[0], posted[3]]);
}

/// Longer messages are matched when their first frames come, by the same rule.
#[test]
fn the_first_posted_receive_takes_a_longer_message_too() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let posted: Vec<OpId> = (0..3).map(|_| real.receive(Selector::ANY, 100)).collect();
    for i in 0..3 {
        let first = peer.message(NONE, long(100, 100, 50), i, &[7; 50]);
        let rest = peer.next(emp_wire::Kind::Data, Flags::LAST, 1, &[8; 50]);
        real.hear(&peer, &first);
        real.hear(&peer, &rest);
    }
    let took: Vec<OpId> = real.done.iter().map(|done| done.op).collect();
    assert_eq!(took, posted);
}

/// Messages that overtook others are matched in the order of their numbers, not in that in which they came.
#[test]
fn messages_before_their_turn_wait_in_their_order() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let frames: Vec<_> = (0..9).map(|bits| peer.message(NONE, None, bits, b"x")).collect();
    for order in [8, 1, 5, 2, 7, 3, 6, 4] {
        real.hear(&peer, &frames[order]);
    }
    assert!(real.firmware.probe(0, Selector::ANY, false).is_none(), "the first is missing");
    real.hear(&peer, &frames[0]);
    for _ in 0..9 {
        real.receive(Selector::ANY, 1);
    }
    let bits: Vec<u64> = real.done.iter().map(|done| done.match_bits).collect();
    assert_eq!(bits, (0..9).collect::<Vec<_>>());
}

#[test]
fn the_first_unexpected_message_that_it_accepts_goes_to_a_receive() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peers = [Forged::met(2, &mut real), Forged::met(3, &mut real)];
    for (from, bits) in [(0, 5), (1, 5), (0, 7), (1, 7), (0, 5)] {
        let frame = peers[from].message(NONE, None, bits, b"x");
        real.hear(&peers[from], &frame);
    }
    let from = |node: emp_wire::NodeId, bits| Selector { from: node, ..Selector::bits(bits) };
    let wanted = [from(peers[1].node, 7), Selector::bits(5), Selector::ANY, Selector::ANY];
    for selector in wanted {
        real.receive(selector, 10);
    }
    let seen: Vec<_> = real.done.iter().map(|done| (done.peer.0, done.match_bits)).collect();
    assert_eq!(seen, [(3, 7), (2, 5), (3, 5), (2, 7)]);
    let left = real.firmware.probe(0, Selector::ANY, false).expect("one is left");
    assert_eq!((left.from.0, left.match_bits), (2, 5));
}

#[test]
fn each_part_of_a_selector_counts() {
    let selector = Selector {
        from: emp_wire::NodeId(2),
        from_endpoint: Some(3),
        match_bits: 0b1010,
        ignore_bits: 0b0011,
    };
    let node = emp_wire::NodeId(2);
    assert!(selector.accepts(node, 3, 0b1010) && selector.accepts(node, 3, 0b1001));
    assert!(!selector.accepts(emp_wire::NodeId(4), 3, 0b1010));
    assert!(!selector.accepts(node, 4, 0b1010));
    assert!(!selector.accepts(node, 3, 0b1110));
    let any = Selector { from_endpoint: None, from: emp_wire::NodeId::ANY, ..selector };
    assert!(any.accepts(emp_wire::NodeId(9), 9, 0b1010));
}

/// Messages that came before their endpoint was opened go there, and to no other.
#[test]
fn messages_wait_for_their_own_endpoint() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    for (endpoint, bits) in [(5, 1), (6, 2), (5, 3)] {
        let sequence = peer.sequence;
        let frame = peer.message_for(endpoint, NONE, None, bits, b"x");
        real.hear(&peer, &frame);
        // It has its place in the order; a skip takes that of its frame.
        let skip = peer.frame(emp_wire::Kind::Skip, NONE, sequence, 0, &[]);
        real.hear(&peer, &skip);
    }
    let mut bits_at = |endpoint| {
        real.firmware.open_endpoint(endpoint).unwrap();
        let mut bits = Vec::new();
        while let Some(found) = real.firmware.probe(endpoint, Selector::ANY, true) {
            bits.push(found.match_bits);
        }
        bits
    };
    assert_eq!(bits_at(7), []);
    assert_eq!(bits_at(5), [1, 3]);
    assert_eq!(bits_at(6), [2]);
}

/// A message that is longer than its buffer fills it, and its receiver is told (`MSG-4`).
#[test]
fn what_does_not_fit_is_cut_and_told() {
    for unexpected in [false, true] {
        let mut real = Real::new(&Profile::DEFAULT);
        let mut peer = Forged::met(2, &mut real);
        if !unexpected {
            real.receive(Selector::ANY, 4);
        }
        let beyond = real.bytes(INTO + 4, 4).to_vec();
        let frame = peer.message(NONE, None, 0, b"longer");
        real.hear(&peer, &frame);
        if unexpected {
            real.receive(Selector::ANY, 4);
        }
        let done = real.done[0];
        assert_eq!((done.status, done.bytes, done.total_bytes), (Status::Truncated, 4, 6));
        assert_eq!(real.bytes(INTO, 4), b"long");
        assert_eq!(real.bytes(INTO + 4, 4), beyond, "nothing is written beyond");
    }
}
