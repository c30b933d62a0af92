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

/// Which message goes to which receive does not depend on how many there are: as a walk over all of them would find, whatever the masks, also
/// more of them than are told from each other.
#[test]
fn many_are_matched_as_few_are() {
    let mut x = 3u64;
    let mut random = |below: u64| {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (x >> 33) % below
    };
    for (masks, steps) in [(2, 2_000), (3, 4_000), (14, 4_000)] {
        let mut real = Real::new(&Profile::DEFAULT);
        let mut peers = [2, 3, 4].map(|id| Forged::met(id, &mut real));
        let (mut posted, mut waiting) = (Vec::<(OpId, Selector)>::new(), Vec::<(u64, u64)>::new());
        let mut tag = 0;
        for step in 0..steps {
            // Now more receives, now more messages: each list becomes long, and empty again.
            let receives = if step / 500 % 2 == 0 { 7 } else { 3 };
            let bits = random(5) | random(7) << 16;
            if random(10) < receives {
                let from = if random(3) == 0 {
                    peers[random(3) as usize].node
                } else {
                    emp_wire::NodeId::ANY
                };
                let from_endpoint = (random(4) == 0).then_some(0);
                let ignore_bits =
                    (0xFu64 << random(masks)) | if random(9) == 0 { u64::MAX << 8 } else { 0 };
                let selector = Selector { from, from_endpoint, match_bits: bits, ignore_bits };
                let accepts =
                    |(from, bits): &(u64, u64)| selector.accepts(emp_wire::NodeId(*from), 0, *bits);
                let probed = real.firmware.probe(0, selector, false);
                let found = waiting.iter().position(accepts);
                let seen = probed.map(|info| (info.from.0, info.match_bits, info.immediate));
                assert_eq!(seen.map(|seen| (seen.0, seen.1)), found.map(|at| waiting[at]));
                let done = real.done.len();
                let op = real.receive(selector, 1);
                match found {
                    Some(at) => {
                        let (from, bits) = waiting.remove(at);
                        let end = real.done[done];
                        assert_eq!((end.op, end.peer.0, end.match_bits), (op, from, bits));
                    }
                    None => {
                        assert_eq!(real.done.len(), done);
                        posted.push((op, selector));
                    }
                }
            } else if random(12) == 0 && !posted.is_empty() {
                let (op, _) = posted.remove(random(posted.len() as u64) as usize);
                assert!(real.firmware.cancel(real.now, op));
                real.collect();
            } else {
                let peer = random(3) as usize;
                tag += 1;
                let frame = peers[peer].message(NONE, None, bits, b"x");
                let done = real.done.len();
                real.hear(&peers[peer], &frame);
                let node = peers[peer].node;
                match posted.iter().position(|(_, wanted)| wanted.accepts(node, 0, bits)) {
                    Some(at) => assert_eq!(real.done[done].op, posted.remove(at).0),
                    None => {
                        assert_eq!(real.done.len(), done);
                        waiting.push((node.0, bits));
                    }
                }
            }
        }
        assert!(tag > steps / 3);
    }
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
