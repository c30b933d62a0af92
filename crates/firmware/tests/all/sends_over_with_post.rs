//! Small sends that are over when their posts return, and those of a sender that is far ahead of its receiver, which are not.

use crate::common::{Pair, ok};
use emp_firmware::limits::{BUFFERED_MAX, WINDOW_FRAMES};
use emp_firmware::{
    CompletionMode, Counter, LinkInfo, OpKind, PostError, Profile, Segment, SegmentList, Selector,
    SendDescriptor, Span, Status, TransmitBatch,
};
use emp_wire::{Flags, Header, NodeId};

fn small(bits: u64, completion: CompletionMode) -> SendDescriptor {
    SendDescriptor {
        to: NodeId(2),
        endpoint: 0,
        to_endpoint: 0,
        match_bits: bits,
        segments: SegmentList::one(Segment { address: 0, bytes: 48 }),
        immediate: Some(7),
        synchronous: false,
        completion,
        context: 1_000 + bits,
    }
}

/// Two nodes that know each other, with nothing under way.
fn acquainted() -> Pair {
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.receive(1, Selector::ANY, 8);
    pair.send(0, 2, 1, 8);
    pair.run(Span::ms(50));
    pair.nodes.iter_mut().for_each(|node| node.done.clear());
    pair
}

#[test]
fn what_is_copied_is_over_with_its_post_and_only_once() {
    let mut pair = acquainted();
    pair.receive(1, Selector::bits(5), 48);
    let mut batch = TransmitBatch::new(1500);
    let node = &mut pair.nodes[0];
    let send = small(5, CompletionMode::Auto);
    let posted = crate::common::post_into(node, pair.now, send, &mut batch).unwrap();
    let over = posted.over.expect("nothing stands before it");
    assert_eq!((over.op, over.status, over.context), (posted.op, Status::Ok, 1_005));
    assert_eq!((over.bytes, over.match_bits, over.immediate), (48, 5, Some(7)));
    assert!(!node.firmware.cancel(pair.now, posted.op), "it has left");
    let frame = batch.inline(0).to_vec();
    crate::common::give(&mut pair, 1, &frame);
    pair.run(Span::ms(50));
    assert_eq!(ok(&pair.nodes[1].done, OpKind::Receive), 1);
    assert_eq!(pair.nodes[0].done, [], "no other completion follows");
    pair.check_quiet();
}

#[test]
fn a_sender_far_ahead_learns_when_its_messages_are_taken() {
    let mut pair = acquainted();
    let free = pair.nodes[0].firmware.pool_slots().0;
    let most = WINDOW_FRAMES as usize + BUFFERED_MAX;
    for bits in 0..2 * most as u64 {
        let node = &mut pair.nodes[0];
        let send = small(bits, CompletionMode::Auto);
        node.firmware.post_send(pair.now, send, &mut node.memory).unwrap();
    }
    let node = &mut pair.nodes[0];
    let at_once = std::iter::from_fn(|| node.firmware.poll_completion()).count();
    assert_eq!(at_once, BUFFERED_MAX, "the rest waits");
    assert_eq!(free - node.firmware.pool_slots().0, BUFFERED_MAX, "and is not copied");
    // Who must have its memory back at once gets it.
    let must = small(1, CompletionMode::Buffered);
    node.firmware.post_send(pair.now, must, &mut node.memory).unwrap();
    assert_eq!(node.firmware.poll_completion().map(|end| end.status), Some(Status::Ok));

    for bits in 0..2 * most as u64 {
        pair.receive(1, Selector::bits(bits), 48);
    }
    pair.receive(1, Selector::bits(1), 48);
    pair.run(Span::ms(500));
    assert_eq!(ok(&pair.nodes[0].done, OpKind::Send), 2 * most - BUFFERED_MAX);
    assert_eq!(ok(&pair.nodes[1].done, OpKind::Receive), 2 * most + 1);
    pair.check_quiet();
}

/// A message of `from` that leaves at once and arrives.
fn there(pair: &mut Pair, from: usize, completion: CompletionMode) {
    pair.receive(1 - from, Selector::ANY, 48);
    let mut batch = TransmitBatch::new(1500);
    let node = &mut pair.nodes[from];
    let send = SendDescriptor { to: NodeId(2 - from as u64), ..small(5, completion) };
    crate::common::post_into(node, pair.now, send, &mut batch).unwrap();
    if batch.is_empty() {
        node.firmware.poll_transmit(pair.now, &mut node.memory, &mut batch);
    }
    let frame = batch.inline(0).to_vec();
    crate::common::give(pair, 1 - from, &frame);
    pair.now = pair.now + Span::us(2);
}

#[test]
fn an_acknowledgement_that_nobody_waits_for_waits_for_the_next_message() {
    let mut pair = acquainted();
    let held = |pair: &Pair| {
        let (free, all) = pair.nodes[0].firmware.pool_slots();
        all - free
    };
    for _ in 0..5 {
        there(&mut pair, 0, CompletionMode::Auto);
        assert_eq!(held(&pair), 1, "that of the message before is taken in");
        there(&mut pair, 1, CompletionMode::Auto);
        assert_eq!(held(&pair), 1, "this one's is not");
    }
    let now = pair.now;
    let firmware = &mut pair.nodes[0].firmware;
    assert!(!firmware.is_drained() && firmware.catch_up(now));
    assert!(firmware.is_drained() && !firmware.catch_up(now));
    assert_eq!(held(&pair), 0);
    pair.run(Span::ms(50));
    pair.check_quiet();
}

#[test]
fn an_acknowledgement_that_was_put_off_does_not_count_as_missing() {
    for rest in [Span::us(50), Span::ms(5), Span::ms(100_000)] {
        let mut pair = acquainted();
        there(&mut pair, 0, CompletionMode::Auto);
        there(&mut pair, 1, CompletionMode::Auto);
        // The program computes, and nobody looks.
        pair.now = pair.now + rest;
        let mut batch = TransmitBatch::new(1500);
        let node = &mut pair.nodes[0];
        if let Some(due) = node.firmware.poll_timeout().filter(|due| *due <= pair.now) {
            node.firmware.handle_timeout(due.max(pair.now), &mut node.memory);
        }
        there(&mut pair, 0, CompletionMode::Auto);
        let node = &mut pair.nodes[0];
        node.firmware.handle_timeout(pair.now, &mut node.memory);
        node.firmware.poll_transmit(pair.now, &mut node.memory, &mut batch);
        pair.run(Span::ms(50));
        let counters = pair.nodes[0].firmware.counters();
        assert_eq!(counters.get(Counter::FramesResent), 0, "after {rest:?}");
        assert_eq!(pair.nodes[0].firmware.poll_event().into_iter().count(), 1, "found, no more");
        pair.check_quiet();
    }
}

#[test]
fn an_acknowledgement_that_a_host_waits_for_is_taken_in_at_once() {
    let mut pair = acquainted();
    there(&mut pair, 0, CompletionMode::Delivered);
    assert_eq!(pair.nodes[0].firmware.poll_completion(), None);
    there(&mut pair, 1, CompletionMode::Auto);
    let kinds: Vec<_> = std::iter::from_fn(|| pair.nodes[0].firmware.poll_completion())
        .map(|end| end.op.kind())
        .collect();
    assert_eq!(kinds, [OpKind::Receive, OpKind::Send]);
    pair.run(Span::ms(50));
    pair.check_quiet();
}

/// Frames that the second node sends now.
fn leaves(pair: &mut Pair) -> usize {
    let mut batch = TransmitBatch::new(1500);
    let node = &mut pair.nodes[1];
    let frames = node.firmware.poll_transmit(pair.now, &mut node.memory, &mut batch);
    for index in 0..frames {
        let frame = batch.inline(index).to_vec();
        crate::common::give(pair, 0, &frame);
    }
    frames
}

/// `ACK-6`: the sender waits for it, and gets it with the answer.
#[test]
fn an_acknowledgement_that_is_asked_for_waits_for_the_answer() {
    let mut pair = acquainted();
    let acks = |pair: &Pair| pair.nodes[1].firmware.counters().get(Counter::AcksSent);
    let before = acks(&pair);
    for _ in 0..50 {
        there(&mut pair, 0, CompletionMode::Delivered);
        assert_eq!(leaves(&mut pair), 0);
        there(&mut pair, 1, CompletionMode::Auto);
        assert!(pair.nodes[0].firmware.is_drained(), "it came with the answer");
    }
    assert_eq!(acks(&pair), before);
    pair.run(Span::ms(50));
    pair.check_quiet();
}

#[test]
fn who_does_not_answer_acknowledges_at_once() {
    let mut pair = acquainted();
    let idle = |pair: &mut Pair| pair.nodes[1].firmware.idle(pair.now);
    let mut put_off = 0;
    for round in 0..600 {
        there(&mut pair, 0, CompletionMode::Delivered);
        if leaves(&mut pair) == 0 {
            put_off += 1;
            // Taking the message in took long, so the first look after it comes late: the program may answer still.
            pair.now = pair.now + Span::us(5);
            assert!(!idle(&mut pair), "round {round}");
            pair.now = pair.now + Span::us(1);
            assert!(!idle(&mut pair), "round {round}");
            pair.now = pair.now + Span::us(2);
            assert!(idle(&mut pair) && !idle(&mut pair));
            assert_eq!(leaves(&mut pair), 1);
        }
        assert!(pair.nodes[0].firmware.is_drained());
        pair.now = pair.now + Span::us(10);
    }
    // 0, 2, 6, 14 … 254, and then one of 128.
    assert_eq!(put_off, 10);
}

#[test]
fn a_late_answer_is_none() {
    let mut pair = acquainted();
    there(&mut pair, 0, CompletionMode::Delivered);
    assert_eq!(leaves(&mut pair), 0);
    pair.now = pair.now + Span::us(40);
    there(&mut pair, 1, CompletionMode::Auto);
    there(&mut pair, 0, CompletionMode::Delivered);
    assert_eq!(leaves(&mut pair), 1, "the sender waited for too long");
    // Without any look it leaves when the delay is over.
    there(&mut pair, 0, CompletionMode::Delivered);
    assert_eq!(leaves(&mut pair), 0);
    assert!(pair.nodes[1].firmware.poll_timeout() <= Some(pair.now + Span::us(60)));
    pair.now = pair.now + Span::us(60);
    assert_eq!(leaves(&mut pair), 1);
}

/// What its host waits for leaves as soon as what it does not; sent again it comes from the host's memory, as nothing was copied.
#[test]
fn what_is_to_be_delivered_leaves_at_once_and_is_not_copied() {
    let mut pair = acquainted();
    pair.receive(1, Selector::bits(5), 48);
    let mut batch = TransmitBatch::new(1500);
    let node = &mut pair.nodes[0];
    let (free, copied) = (node.firmware.pool_slots().0, Counter::BytesCopied);
    let before = node.firmware.counters().get(copied);
    let send = small(5, CompletionMode::Delivered);
    let posted = crate::common::post_into(node, pair.now, send, &mut batch).unwrap();
    assert_eq!((posted.over, batch.frames().len()), (None, 1), "it has left, and is not over");
    assert_eq!(node.firmware.pool_slots().0, free);
    assert_eq!(node.firmware.counters().get(copied) - before, 48, "into its frame");
    let (header, _) = Header::parse(batch.inline(0)).unwrap();
    assert!(header.flags.has(Flags::ACK_REQUEST), "its host waits");
    assert!(!node.firmware.cancel(pair.now, posted.op));
    // That frame is lost.
    assert_eq!(node.firmware.poll_completion(), None);
    pair.run(Span::ms(50));
    assert_eq!(pair.nodes[0].firmware.counters().get(Counter::FramesResent), 1);
    let ends: Vec<_> = pair.nodes[0].done.iter().map(|end| (end.op, end.status)).collect();
    assert_eq!(ends, [(posted.op, Status::Ok)]);
    assert_eq!(ok(&pair.nodes[1].done, OpKind::Receive), 1);
    let got = &pair.nodes[1].memory.0[crate::common::HALF as usize..][..48];
    assert_eq!(got, &pair.nodes[0].memory.0[..48]);
    pair.check_quiet();
}

/// What must be copied and is longer than what is copied of all messages is refused at any time: also while nothing is under way, and a
/// frame that takes it would get through.
#[test]
fn what_must_be_copied_is_no_longer_than_what_may_be() {
    let link = LinkInfo { long_frames: true, long_frames_held: 64, ..LinkInfo::new(1500, true) };
    let mut pair = Pair::over(&Profile::DEFAULT, link);
    for _ in 0..3 {
        pair.receive(1, Selector::ANY, 300_000);
        pair.send(0, 2, 1, 300_000);
        pair.run(Span::ms(50));
    }
    let most = pair.nodes[0].firmware.buffered_bytes_max() as u64;
    assert_eq!(most, u64::from(Profile::DEFAULT.long_buffered_bytes));
    for bytes in [most + 1, 40_000, 50_000] {
        let segments = SegmentList::one(Segment { address: 0, bytes });
        let mut post = |completion| {
            let mut batch = TransmitBatch::new(1500);
            let node = &mut pair.nodes[0];
            let send = SendDescriptor { segments: segments.clone(), ..small(5, completion) };
            let posted = crate::common::post_into(node, pair.now, send, &mut batch);
            (posted.map(|_| ()), batch.frames().len())
        };
        assert_eq!(post(CompletionMode::Buffered), (Err(PostError::TooLong), 0), "{bytes}");
        assert_eq!(post(CompletionMode::Delivered), (Ok(()), 1), "{bytes}: it leaves at once");
        assert_eq!(post(CompletionMode::Buffered), (Err(PostError::TooLong), 0), "{bytes}");
        pair.receive(1, Selector::ANY, bytes);
        pair.run(Span::ms(500));
    }
    let firmware = &Pair::new(&Profile::EMP2001).nodes[0].firmware;
    assert_eq!(firmware.buffered_bytes_max(), firmware.single_frame_bytes_max());
}

/// What must be copied and takes several frames of the MTU is over with its post, and arrives as it was then, by frames of either kind.
#[test]
fn what_must_be_copied_may_take_several_frames() {
    for long_frames in [false, true] {
        let link = LinkInfo { long_frames, long_frames_held: 64, ..LinkInfo::new(1500, true) };
        let mut pair = Pair::over(&Profile::DEFAULT, link);
        for _ in 0..3 {
            pair.receive(1, Selector::ANY, 300_000);
            pair.send(0, 2, 1, 300_000);
            pair.run(Span::ms(50));
        }
        let most = pair.nodes[0].firmware.buffered_bytes_max() as u64;
        for bytes in [1_500, 5_000, 20_000, most] {
            pair.nodes.iter_mut().for_each(|node| node.done.clear());
            pair.receive(1, Selector::ANY, bytes);
            let node = &mut pair.nodes[0];
            let was = node.memory.0[..bytes as usize].to_vec();
            let segments = SegmentList::one(Segment { address: 0, bytes });
            let send = SendDescriptor { segments, ..small(5, CompletionMode::Buffered) };
            node.firmware.post_send(pair.now, send, &mut node.memory).unwrap();
            let over = node.firmware.poll_completion().expect("it is over with its post");
            assert_eq!((over.status, over.bytes), (Status::Ok, bytes));
            node.memory.0[..bytes as usize].iter_mut().for_each(|byte| *byte ^= 0x55);
            pair.run(Span::ms(50));
            assert_eq!(ok(&pair.nodes[1].done, OpKind::Receive), 1);
            let got = &pair.nodes[1].memory.0[crate::common::HALF as usize..][..bytes as usize];
            assert!(got == was, "{bytes} bytes, long {long_frames}");
            pair.check_quiet();
        }
    }
}
