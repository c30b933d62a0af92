//! What ends when a peer is lost: all that it had to do with, whatever its state, each once; and nothing else.

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::{Flags, Kind, NodeId, NotReadyCause, Put};

const NONE: Flags = Flags(0);

fn leave(real: &mut Real, peer: &Forged) {
    let goodbye = peer.frame(Kind::Close, NONE, 0, 0, &peer.node.0.to_be_bytes());
    real.hear(peer, &goodbye);
}

fn receive_from(real: &mut Real, from: NodeId, context: u64) {
    let selector = Selector { from, ..Selector::ANY };
    let segments = SegmentList::one(Segment { address: INTO, bytes: 100 });
    let receive = ReceiveDescriptor { endpoint: 0, selector, segments, claim: None, context };
    real.firmware.post_receive(real.now, receive, &mut real.memory).unwrap();
    real.collect();
}

fn send(real: &mut Real, to: &Forged, context: u64, bytes: u64, synchronous: bool) {
    let send = SendDescriptor {
        to: to.node,
        endpoint: 0,
        to_endpoint: 0,
        match_bits: 0,
        segments: SegmentList::one(Segment { address: 0, bytes }),
        immediate: None,
        synchronous,
        completion: CompletionMode::Delivered,
        context,
    };
    real.firmware.post_send(real.now, send, &mut real.memory).unwrap();
}

/// One that waits for its receive, one whose bytes the peer did not keep, one that it pulls, one that it refused, one under way, one that
/// did not leave.
#[test]
fn sends_end_whatever_their_state() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::met(2, &mut real);
    let other = Forged::met(3, &mut real);
    send(&mut real, &other, 99, 10, true);
    for (context, (bytes, synchronous)) in
        [(10, true), (10, false), (1 << 20, false), (10, false), (10, false)]
            .into_iter()
            .enumerate()
    {
        send(&mut real, &peer, context as u64, bytes, synchronous);
    }
    let said = real.speak();
    let firsts = of_kind(&said, Kind::Message);
    let to_peer: Vec<_> = firsts.iter().filter(|said| said.to == peer.address()).collect();
    let first = |at: usize| to_peer[at].header.sequence.0;
    // The first is acknowledged.
    real.hear(&peer, &peer.ack(first(1), first(1) - 1, 0));
    let number = |at: usize| to_peer[at].header.word;
    real.hear(&peer, &peer.not_ready(number(1), first(1), NotReadyCause::NoRoom, 0));
    real.hear(&peer, &peer.not_ready(number(3), first(3), NotReadyCause::Full, 0));
    send(&mut real, &peer, 5, 10, false);
    assert!(real.done.is_empty(), "{:?}", real.done);
    leave(&mut real, &peer);
    let mut ended: Vec<_> = real.done.iter().map(|done| (done.context, done.status)).collect();
    ended.sort_by_key(|(context, _)| *context);
    assert_eq!(ended, [0, 1, 2, 3, 4, 5].map(|context| (context, Status::PeerClosed)));
    leave(&mut real, &other);
    assert_eq!(real.done.last().map(|done| (done.context, real.done.len())), Some((99, 7)));
}

/// Receives that name a peer end with it, those posted before and after another was lost; what has had its message does not, nor does
/// the receive that has its place now.
#[test]
fn receives_by_name_end_with_their_peer() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peers: Vec<_> = (2..6).map(|id| Forged::met(id, &mut real)).collect();
    for (context, peer) in peers.iter().enumerate() {
        receive_from(&mut real, peer.node, context as u64);
    }
    leave(&mut real, &peers[3]);
    assert_eq!(real.done.iter().map(|done| done.context).collect::<Vec<_>>(), [3]);
    // The first has its message, and its place is another's.
    let frame = peers[0].message(NONE, None, 0, b"x");
    real.hear(&peers[0], &frame);
    for context in 10..14 {
        receive_from(&mut real, NodeId::ANY, context);
    }
    receive_from(&mut real, peers[0].node, 20);
    real.done.clear();
    leave(&mut real, &peers[0]);
    let ended: Vec<_> = real.done.iter().map(|done| (done.context, done.status)).collect();
    assert_eq!(ended, [(20, Status::PeerClosed)]);
    // Those of others wait on, and are matched in the order of their posts.
    real.done.clear();
    for (peer, context) in [(1, 1), (1, 10), (2, 2)] {
        let frame = peers[peer].message(NONE, None, 0, b"x");
        real.hear(&peers[peer], &frame);
        assert_eq!(real.done.last().map(|done| done.context), Some(context));
    }
    leave(&mut real, &peers[1]);
    leave(&mut real, &peers[2]);
    assert_eq!(real.done.len(), 3, "{:?}", real.done);
}

/// So many receives were looked at and are over that what was noted of them is forgotten: those that wait still end.
#[test]
fn receives_end_after_many_others_are_over() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut busy = Forged::met(2, &mut real);
    let quiet = Forged::met(3, &mut real);
    receive_from(&mut real, quiet.node, 7);
    for round in 0..40u64 {
        for _ in 0..100 {
            receive_from(&mut real, busy.node, 0);
        }
        let passing = Forged::met(100 + round, &mut real);
        leave(&mut real, &passing);
        for _ in 0..100 {
            let frame = busy.message(NONE, None, 0, b"x");
            real.hear(&busy, &frame);
        }
    }
    assert_eq!(real.done.len(), 4_000);
    assert!(real.done.iter().all(|done| done.status == Status::Ok));
    leave(&mut real, &quiet);
    let last = real.done.last().map(|done| (done.context, done.status));
    assert_eq!((last, real.done.len()), (Some((7, Status::PeerClosed)), 4_001));
}

/// A receive that stands behind one for several messages is off the list once it is matched: who has its place in the table afterwards
/// has its own turn.
#[test]
fn a_receive_behind_one_for_several_is_taken_off_the_list() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let segments = SegmentList::one(Segment { address: INTO, bytes: 100 });
    let (selector, claim) = (Selector::bits(1), None);
    let several = ReceiveDescriptor { endpoint: 0, selector, segments, claim, context: 0 };
    real.firmware.post_multi_receive(real.now, several, 1, &mut real.memory).unwrap();
    real.receive(Selector::bits(2), 10);
    let other = real.receive(Selector::bits(9), 10);
    assert!(real.firmware.cancel(real.now, other));
    let frame = peer.message(NONE, None, 2, b"x");
    real.hear(&peer, &frame);
    assert_eq!(real.done.len(), 2, "one was cancelled, one has its message");
    // The second of these has the place of the one that was matched.
    let first = real.receive(Selector::bits(3), 10);
    let second = real.receive(Selector::bits(3), 10);
    for turn in [first, second] {
        let frame = peer.message(NONE, None, 3, b"x");
        real.hear(&peer, &frame);
        assert_eq!(real.done.last().map(|done| done.op), Some(turn));
    }
}

/// A peer that says goodbye leaves its whole messages to be received (they are delivered): not what it had only begun, or would have had to
/// be told of.
#[test]
fn only_whole_messages_outlast_their_sender() {
    for (outlasts, flags, parts, bytes) in [
        (true, NONE, None, 9),
        (false, NONE, long(3_000, 3_000, 1_000), 1_000),
        (false, NONE, long(90_000, 1_000, 1_000), 1_000),
        (false, Flags::SYNCHRONOUS, None, 9),
    ] {
        let mut real = Real::new(&Profile::DEFAULT);
        let mut peer = Forged::met(2, &mut real);
        let frame = peer.message(flags, parts, 7, &vec![7; bytes]);
        real.hear(&peer, &frame);
        let is_here = |real: &mut Real| real.firmware.probe(0, Selector::ANY, false).is_some();
        assert!(is_here(&mut real), "{flags:?} {parts:?}");
        leave(&mut real, &peer);
        assert_eq!(is_here(&mut real), outlasts, "{flags:?} {parts:?}");
        assert_eq!(real.slots_used() > 0, outlasts, "{flags:?} {parts:?}");
    }
}

/// What waited behind a put that was arriving ends with its sender; the room that was promised to notifications is free again, and so
/// are the places of receives.
#[test]
fn what_waited_for_a_put_ends_with_its_sender() {
    let few = Profile { operations_max: 1_024, ..Profile::DEFAULT };
    let mut real = Real::new(&few);
    let memory = Segment { address: INTO + 1_000, bytes: 10_000 };
    real.firmware.export_region(Some(4), memory, Rights::REMOTE_WRITE, 0).unwrap();
    let held = |real: &Real, name: &str| {
        real.firmware.holdings().iter().find(|holding| holding.name == name).unwrap().held
    };
    let rounds = 5;
    for round in 0..rounds {
        let mut peer = Forged::met(10 + round, &mut real);
        let mut put = |long: Option<emp_wire::LongPart>, immediate: Option<u64>| {
            let put = Put { target: peer.target(4), long, immediate };
            let mut body = vec![0; Put::body_bytes_for(put.flags())];
            put.emit(&mut body);
            body.extend_from_slice(&[1; 100]);
            let number = peer.number;
            peer.number += 1;
            peer.next(Kind::Put, put.flags(), number, &body)
        };
        let frames = [put(long(200, 200, 100), None), put(None, Some(7))];
        let message = peer.message(NONE, None, 0, b"x");
        receive_from(&mut real, peer.node, round);
        frames.iter().chain([&message]).for_each(|frame| real.hear(&peer, frame));
        assert_eq!(real.done.len() as u64, round, "the first put is not there yet");
        assert_eq!(held(&real, "notifications"), 1);
        leave(&mut real, &peer);
        let last = real.done.last().map(|end| (end.context, end.status));
        assert_eq!(last, Some((round, Status::PeerClosed)));
        assert_eq!(held(&real, "notifications"), 0);
    }
    assert_eq!(real.done.len() as u64, rounds, "nobody is told of the notifications");
    let (mut posted, most) = (0, few.operations_max);
    let segments = SegmentList::one(Segment { address: INTO, bytes: 1 });
    let (selector, claim) = (Selector::ANY, None);
    let receive = ReceiveDescriptor { endpoint: 0, selector, segments, claim, context: 99 };
    while real.firmware.post_receive(real.now, receive.clone(), &mut real.memory).is_ok() {
        posted += 1;
    }
    assert_eq!(posted, most);
}

/// What an acknowledgement brought that rode on an answer, and waits to be taken in, is not forgotten because another peer leaves.
#[test]
fn a_peer_that_leaves_takes_no_others_acknowledgement_along() {
    for own in [false, true] {
        let mut real = Real::new(&Profile::DEFAULT);
        let mut peer = Forged::met(2, &mut real);
        let other = Forged::met(3, &mut real);
        real.send_with(&peer, 10, CompletionMode::Buffered).unwrap();
        let sequence = real.speak().last().expect("it leaves").header.sequence.0;
        real.receive(Selector::ANY, 10);
        peer.acknowledge = Some(sequence + 1);
        let answer = peer.message(NONE, None, 0, b"answer");
        real.hear(&peer, &answer);
        leave(&mut real, if own { &peer } else { &other });
        let again = real.pass(Span::ms(50));
        assert_eq!(of_kind(&again, Kind::Message).len(), 0, "it was acknowledged");
        assert_eq!((real.firmware.undelivered().count(), real.slots_used()), (0, 0));
        let ends: Vec<_> = real.done.iter().map(|end| end.status).collect();
        assert_eq!(ends, [Status::Ok; 2], "own {own}");
    }
}

/// What others are to be told of their messages stays; what the lost peer was to be told means nothing to it any more.
#[test]
fn others_still_hear_that_their_messages_were_not_taken() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peers = [2, 3].map(|id| Forged::met(id, &mut real));
    for peer in &mut peers {
        let frame = peer.message_for(5, NONE, None, 0, b"nobody is there");
        real.hear(peer, &frame);
    }
    leave(&mut real, &peers[0]);
    let said = of_kind(&real.speak(), Kind::NotReady);
    assert_eq!(said.iter().map(|said| said.to).collect::<Vec<_>>(), [peers[1].address()]);
}
