//! Receives for several messages: in place, in order, under way together, until there is no room.

use crate::common::forge::*;
use crate::common::{HALF, Pair};
use emp_firmware::*;
use emp_wire::{Flags, Kind, NodeId};

const NONE: Flags = Flags(0);

fn multi(selector: Selector, address: u64, bytes: u64, context: u64) -> ReceiveDescriptor {
    let segments = SegmentList::one(Segment { address, bytes });
    ReceiveDescriptor { endpoint: 0, selector, segments, claim: None, context }
}

fn post(real: &mut Real, context: u64, bytes: u64, least_free: u64) -> OpId {
    let receive = multi(Selector::ANY, INTO + context * 4096, bytes, context);
    let op = real.firmware.post_multi_receive(real.now, receive, least_free, &mut real.memory);
    op.unwrap()
}

/// Context, offset, bytes, and whether more follow.
fn told(real: &Real) -> Vec<(u64, u64, u64, bool)> {
    let show =
        |done: &Completion| (done.context, done.place.offset(), done.bytes, done.place.is_more());
    real.done.iter().map(show).collect()
}

#[test]
fn two_buffers_are_filled_one_after_the_other() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let ops = [post(&mut real, 0, 100, 30), post(&mut real, 1, 100, 30)];
    for i in 0..6u8 {
        let frame = peer.message(NONE, None, i.into(), &[i; 30]);
        real.hear(&peer, &frame);
    }
    let expected = [
        (0, 0, 30, true),
        (0, 30, 30, true),
        (0, 60, 30, false),
        (1, 0, 30, true),
        (1, 30, 30, true),
        (1, 60, 30, false),
    ];
    assert_eq!(told(&real), expected);
    assert_eq!(
        real.done.iter().map(|d| d.op).collect::<Vec<_>>(),
        [[ops[0]; 3], [ops[1]; 3]].concat()
    );
    for i in 0..6u64 {
        let at = INTO + i / 3 * 4096 + i % 3 * 30;
        assert_eq!(real.bytes(at, 30), [i as u8; 30]);
    }
    // Nothing is left of them: a seventh is unexpected.
    let frame = peer.message(NONE, None, 6, b"x");
    real.hear(&peer, &frame);
    assert!(real.firmware.probe(0, Selector::ANY, false).is_some());
}

/// It takes messages until *fewer* bytes are free than were said.
#[test]
fn as_many_free_bytes_as_were_said_are_room() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    post(&mut real, 0, 100, 30);
    for bytes in [70, 1] {
        let frame = peer.message(NONE, None, 0, &vec![5; bytes]);
        real.hear(&peer, &frame);
    }
    assert_eq!(told(&real), [(0, 0, 70, true), (0, 70, 1, false)]);
}

/// The first frames of three messages come before the rest of any: each has its room, and they end in another order.
#[test]
fn several_are_under_way_into_one() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    post(&mut real, 0, 200, 50);
    let mut rest = Vec::new();
    for i in 0..3u8 {
        let first = peer.message(NONE, long(60, 60, 30), i.into(), &[i; 30]);
        real.hear(&peer, &first);
        rest.push(peer.next(Kind::Data, Flags::LAST, 1, &[i + 10; 30]));
    }
    assert!(real.done.is_empty());
    for (n, i) in [1, 0, 2].into_iter().enumerate() {
        real.hear(&peer, &rest[i]);
        assert_eq!(
            told(&real)[n],
            (0, i as u64 * 60, 60, n < 2),
            "the buffer is the host's with the last"
        );
    }
    for i in 0..3u8 {
        let all = [[i; 30], [i + 10; 30]].concat();
        assert_eq!(real.bytes(INTO + u64::from(i) * 60, 60), all);
    }
}

#[test]
fn what_came_before_the_post_is_put_in_first_and_the_rest_waits_for_the_next() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    for i in 0..5u8 {
        let frame = peer.message(NONE, None, i.into(), &[i; 40]);
        real.hear(&peer, &frame);
    }
    post(&mut real, 0, 120, 1);
    real.collect();
    assert_eq!(told(&real), [(0, 0, 40, true), (0, 40, 40, true), (0, 80, 40, false)]);
    post(&mut real, 1, 120, 1);
    real.collect();
    assert_eq!(told(&real)[3..], [(1, 0, 40, true), (1, 40, 40, true)]);
    assert_eq!(real.bytes(INTO + 4096, 80), [[3; 40], [4; 40]].concat());
    assert_eq!(real.slots_used(), 0);
}

#[test]
fn one_that_is_too_long_for_what_is_left_is_cut_and_ends_it() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let behind = real.bytes(INTO + 100, 40).to_vec();
    post(&mut real, 0, 100, 10);
    for bytes in [70, 70] {
        let frame = peer.message(NONE, None, 1, &vec![9; bytes]);
        real.hear(&peer, &frame);
    }
    assert_eq!(told(&real), [(0, 0, 70, true), (0, 70, 30, false)]);
    assert_eq!(real.done[1].status, Status::Truncated);
    assert_eq!(real.done[1].total_bytes, 70);
    assert_eq!(real.bytes(INTO + 100, 40), behind, "nothing behind the buffer");
}

#[test]
fn cancelled_it_ends_when_what_is_under_way_has() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let op = post(&mut real, 0, 200, 50);
    let first = peer.message(NONE, long(60, 60, 30), 1, &[1; 30]);
    real.hear(&peer, &first);
    assert!(real.firmware.cancel(real.now, op));
    assert!(!real.firmware.cancel(real.now, op), "only once");
    real.collect();
    assert!(real.done.is_empty(), "a message is under way into it");
    let rest = peer.next(Kind::Data, Flags::LAST, 1, &[2; 30]);
    real.hear(&peer, &rest);
    assert_eq!(told(&real), [(0, 0, 60, true), (0, 60, 0, false)]);
    let statuses: Vec<_> = real.done.iter().map(|done| done.status).collect();
    assert_eq!(statuses, [Status::Ok, Status::Cancelled]);
    assert!(!real.firmware.cancel(real.now, op));
    // One that nothing is under way into ends at once.
    let op = post(&mut real, 1, 200, 50);
    assert!(real.firmware.cancel(real.now, op));
    real.collect();
    assert_eq!(told(&real)[2..], [(1, 0, 0, false)]);
}

/// With its endpoint, messages under way end first, and the receive once.
#[test]
fn it_ends_with_its_endpoint() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    post(&mut real, 0, 200, 50);
    for i in 0..2 {
        let first = peer.message(NONE, long(60, 60, 30), i, &[1; 30]);
        real.hear(&peer, &first);
        peer.next(Kind::Data, Flags::LAST, 1, &[2; 30]);
    }
    real.firmware.close_endpoint(real.now, 0);
    real.collect();
    let ends: Vec<_> = real.done.iter().map(|done| (done.status, done.place.is_more())).collect();
    let closed = Status::EndpointClosed;
    assert_eq!(ends, [(closed, true), (closed, true), (closed, false)]);
}

/// Messages of no bytes, which would fit without end: what the application has not asked for bounds them.
#[test]
fn its_completions_are_bounded() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    post(&mut real, 0, 200, 50);
    real.firmware.set_unread(limits::SHARES_MAX - 1);
    let frame = peer.message(NONE, None, 1, b"");
    real.hear(&peer, &frame);
    assert_eq!(real.done.len(), 1);
    real.firmware.set_unread(limits::SHARES_MAX);
    let frame = peer.message(NONE, None, 2, b"");
    real.hear(&peer, &frame);
    assert_eq!(real.done.len(), 1, "it is not taken");
    assert_eq!(of_kind(&real.speak(), Kind::NotReady).len(), 1);
    real.firmware.set_unread(0);
    real.hear(&peer, &frame);
    assert_eq!(real.done.len(), 2);
}

/// Pulled messages of several sizes through two nodes, each buffer taking many.
#[test]
fn long_messages_are_pulled_to_their_room() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    let bytes = 300_000u64;
    let receive = multi(Selector::ANY, HALF, 3 * bytes + 10, 9);
    let node = &mut pair.nodes[1];
    node.firmware.post_multi_receive(pair.now, receive, 11, &mut node.memory).unwrap();
    for (at, byte) in pair.nodes[0].memory.0.iter_mut().enumerate() {
        *byte = (at * 7 % 251) as u8;
    }
    for i in 0..3 {
        pair.send(0, 2, i, bytes);
    }
    pair.run(Span::ms(500));
    let done = &pair.nodes[1].done;
    let mut places: Vec<_> = done.iter().map(|d| (d.place.offset(), d.bytes, d.status)).collect();
    places.sort_unstable_by_key(|place| place.0);
    assert_eq!(places, [0, 1, 2].map(|i| (i * bytes, bytes, Status::Ok)));
    assert_eq!(done.iter().filter(|d| !d.place.is_more()).count(), 1);
    assert!(!done[2].place.is_more(), "with the last that ended");
    let (from, to) = (&pair.nodes[0].memory.0, &pair.nodes[1].memory.0);
    for i in 0..3 {
        let at = HALF as usize + i * bytes as usize;
        assert!(to[at..at + bytes as usize] == from[..bytes as usize], "message {i}");
    }
    pair.check_quiet();
}

/// A peer is lost with a message under way: the others' go on, and the receive stays.
#[test]
fn a_lost_peer_ends_its_messages_only() {
    let mut real = Real::new(&Profile::DEFAULT);
    let (mut lost, mut other) = (Forged::met(2, &mut real), Forged::met(3, &mut real));
    post(&mut real, 0, 200, 50);
    let first = lost.message(NONE, long(60, 60, 30), 1, &[1; 30]);
    real.hear(&lost, &first);
    let close = lost.frame(Kind::Close, NONE, 0, 0, &lost.node.0.to_be_bytes());
    real.hear(&lost, &close);
    assert_eq!(told(&real), [(0, 0, 60, true)]);
    assert_eq!((real.done[0].status, real.done[0].peer), (Status::PeerClosed, NodeId(2)));
    let frame = other.message(NONE, None, 1, &[3; 60]);
    real.hear(&other, &frame);
    assert_eq!(told(&real)[1], (0, 60, 60, true));
    assert_eq!(real.bytes(INTO + 60, 60), [3; 60]);
}
