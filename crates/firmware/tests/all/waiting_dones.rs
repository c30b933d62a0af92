//! The `done` of a put that the target's program is told of waits for the program's answer, as an acknowledgement does (`ACK-6`, `PUT-2`).

use crate::common::{HALF, Pair, frames_of, give, ok};
use emp_firmware::{
    CompletionMode, Counter, OpKind, Profile, PutDescriptor, RemoteRegion, Rights, Segment,
    SegmentList, Selector, SendDescriptor, Span,
};
use emp_wire::{Header, Kind, NodeId};

const KEY: u64 = 0xFEED;

/// Two nodes that know each other and have exported the second half of their memory.
fn exported(profile: &Profile) -> Pair {
    let mut pair = Pair::new(profile);
    for (from, to) in [(0, 2), (1, 1)] {
        pair.receive(1 - from, Selector::ANY, 8);
        pair.send(from, to, 1, 8);
        pair.run(Span::ms(50));
    }
    for node in &mut pair.nodes {
        let memory = Segment { address: HALF, bytes: HALF };
        node.firmware.export_region(Some(KEY), memory, Rights::BOTH, 0).unwrap();
        node.done.clear();
    }
    pair
}

fn put(pair: &mut Pair, from: usize, immediate: Option<u64>) {
    let target = RemoteRegion {
        to: NodeId(2 - from as u64),
        to_endpoint: 0,
        key: KEY,
        generation: 0,
        offset: 0,
    };
    let put = PutDescriptor {
        target,
        endpoint: 0,
        segments: SegmentList::one(Segment { address: 0, bytes: 32 }),
        immediate,
        completion: CompletionMode::Auto,
        context: 4,
    };
    let node = &mut pair.nodes[from];
    node.firmware.post_put(pair.now, put, &mut node.memory).unwrap();
}

/// What `from` sends now, as kinds in link frames; the other node has it.
fn said(pair: &mut Pair, from: usize) -> Vec<Vec<Kind>> {
    let kind = |frame: &[u8]| Header::parse(frame).expect("a frame").0.kind;
    let mut said = Vec::new();
    loop {
        let frames = frames_of(pair, from);
        if frames.is_empty() {
            return said;
        }
        for frame in frames {
            said.push(emp_wire::frames(&frame).map(kind).collect());
            give(pair, 1 - from, &frame);
        }
    }
}

/// A put of the first node that tells the second one's program arrives.
fn told(pair: &mut Pair) {
    put(pair, 0, Some(5));
    assert_eq!(said(pair, 0).concat(), [Kind::Put]);
}

/// Notifications that a node's program takes, and operations of its own that end.
fn looks(pair: &mut Pair, at: usize) -> (usize, usize) {
    let node = &mut pair.nodes[at];
    let ends: Vec<_> = std::iter::from_fn(|| node.firmware.poll_completion()).collect();
    (ok(&ends, OpKind::Notified), ok(&ends, OpKind::Put))
}

#[test]
fn it_leaves_with_the_answer_in_one_link_frame() {
    let mut pair = exported(&Profile::DEFAULT);
    told(&mut pair);
    for round in 0..50 {
        let at = 1 - round % 2;
        assert_eq!(said(&mut pair, at), Vec::<Vec<Kind>>::new(), "round {round}");
        assert_eq!(looks(&mut pair, at).0, 1);
        put(&mut pair, at, Some(6));
        assert_eq!(said(&mut pair, at), [[Kind::Done, Kind::Put]], "round {round}");
        pair.now = pair.now + Span::us(2);
    }
    pair.run(Span::ms(50));
    pair.check_quiet();
}

/// The answer may be a message as well.
#[test]
fn it_leaves_before_a_message() {
    let mut pair = exported(&Profile::DEFAULT);
    pair.receive(0, Selector::ANY, 64);
    told(&mut pair);
    pair.send(1, 1, 3, 32);
    assert_eq!(said(&mut pair, 1), [[Kind::Done, Kind::Message]]);
    pair.run(Span::ms(50));
    pair.check_quiet();
}

#[test]
fn who_is_not_told_and_who_takes_whole_trains_answers_at_once() {
    let mut pair = exported(&Profile::DEFAULT);
    put(&mut pair, 0, None);
    said(&mut pair, 0);
    assert_eq!(said(&mut pair, 1), [[Kind::Done]], "nobody there will answer");
    for profile in [&Profile::EMP2001, &Profile::VMMC2] {
        let mut pair = exported(profile);
        told(&mut pair);
        assert!(said(&mut pair, 1).concat().contains(&Kind::Done), "{}", profile.name);
    }
}

/// Without an answer it leaves when a look finds nothing else to do; who did not answer is not waited for the next times.
#[test]
fn who_does_not_answer_says_it_by_itself() {
    let mut pair = exported(&Profile::DEFAULT);
    let mut put_off = 0;
    for round in 0..600 {
        told(&mut pair);
        let mut left = said(&mut pair, 1);
        if left.is_empty() {
            put_off += 1;
            pair.now = pair.now + Span::us(1);
            let now = pair.now;
            assert!(!pair.nodes[1].firmware.idle(now), "round {round}: it may answer still");
            pair.now = pair.now + Span::us(3);
            let now = pair.now;
            assert!(pair.nodes[1].firmware.idle(now) && !pair.nodes[1].firmware.idle(now));
            left = said(&mut pair, 1);
        }
        assert_eq!(left, [[Kind::Done]], "round {round}: it is the acknowledgement as well");
        assert!(pair.nodes[0].firmware.is_drained());
        assert_eq!((looks(&mut pair, 0), looks(&mut pair, 1)), ((0, 1), (1, 0)));
        pair.now = pair.now + Span::us(10);
        said(&mut pair, 0);
    }
    // 0, 2, 6, 14 … 254, and then one of 128.
    assert_eq!(put_off, 10);
}

#[test]
fn without_any_look_it_leaves_when_the_delay_is_over() {
    let mut pair = exported(&Profile::DEFAULT);
    told(&mut pair);
    assert_eq!(said(&mut pair, 1), Vec::<Vec<Kind>>::new());
    let firmware = &pair.nodes[1].firmware;
    assert!(!firmware.is_drained(), "who closes waits for it");
    let due = firmware.poll_timeout().expect("it is not forgotten");
    assert!(due <= pair.now + Span::us(60));
    pair.now = due;
    assert_eq!(said(&mut pair, 1), [[Kind::Done]]);
    assert_eq!(looks(&mut pair, 0), (0, 1));
    pair.run(Span::ms(50));
    pair.check_quiet();
}

#[test]
fn another_frame_instead_of_an_answer_has_it_leave() {
    let mut pair = exported(&Profile::DEFAULT);
    told(&mut pair);
    told(&mut pair);
    let left = said(&mut pair, 1).concat();
    assert_eq!(left.iter().filter(|kind| **kind == Kind::Done).count(), 2, "{left:?}");
    // A third node's put would do as well: one waits at a time.
    pair.run(Span::ms(50));
    assert_eq!(pair.nodes[0].firmware.counters().get(Counter::FramesResent), 0);
    pair.check_quiet();
}

/// It is of an operation of the peer that left, and not of one that its successor posts.
#[test]
fn a_peer_that_comes_back_is_not_told_of_what_another_posted() {
    let mut pair = exported(&Profile::DEFAULT);
    told(&mut pair);
    pair.nodes[0].firmware = crate::common::make(1, 9_999, &Profile::DEFAULT);
    pair.receive(1, Selector::ANY, 8);
    pair.send(0, 2, 1, 8);
    let mut dones = 0;
    for _ in 0..20 {
        said(&mut pair, 0);
        dones += said(&mut pair, 1).concat().iter().filter(|kind| **kind == Kind::Done).count();
        pair.now = pair.now + Span::us(20);
    }
    assert_eq!(dones, 0);
    assert!(looks(&mut pair, 1) == (1, 0) && pair.nodes[1].firmware.is_drained());
}

/// What stood before a put in the order is not taken, and so nothing is owed for it: the `done` of the put whose turn that makes it leaves all the
/// same. (It once stayed until something else was owed, if that was to another peer for good.)
#[test]
fn it_leaves_where_nothing_is_owed_for_what_ended_it() {
    let mut pair = exported(&Profile::DEFAULT);
    // For an endpoint that is not open, and overtaken by the put.
    let node = &mut pair.nodes[0];
    let send = SendDescriptor {
        to: NodeId(2),
        endpoint: 0,
        to_endpoint: 9,
        match_bits: 1,
        segments: SegmentList::one(Segment { address: 0, bytes: 200 }),
        immediate: None,
        synchronous: false,
        completion: CompletionMode::Delivered,
        context: 3,
    };
    node.firmware.post_send(pair.now, send, &mut node.memory).unwrap();
    let late = frames_of(&mut pair, 0);
    told(&mut pair);
    for frame in late {
        give(&mut pair, 1, &frame);
    }
    let said = said(&mut pair, 1).concat();
    assert!(said.contains(&Kind::NotReady) && said.contains(&Kind::Done), "{said:?}");
    pair.run(Span::ms(50));
    assert_eq!(ok(&pair.nodes[0].done, OpKind::Put), 1, "the put ended");
    assert_eq!(ok(&pair.nodes[1].done, OpKind::Notified), 1, "its target was told");
}
