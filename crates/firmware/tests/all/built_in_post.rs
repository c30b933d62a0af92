//! The frame of a message, put or atomic operation that leaves within its post is byte for byte as that of one that waited.

use crate::common::{HALF, Pair, give};
use emp_firmware::{
    AtomicDescriptor, CompletionMode, Exit, Profile, PutDescriptor, RemoteRegion, Rights, Segment,
    SegmentList, Selector, SendDescriptor, Span, Status, TransmitBatch,
};
use emp_wire::{AtomicOp, Datatype, NodeId};

/// Two nodes that know each other.
fn pair(profile: &Profile) -> Pair {
    let mut pair = Pair::new(profile);
    pair.receive(1, Selector::ANY, 8);
    pair.send(0, 2, 1, 8);
    pair.run(Span::ms(50));
    for (at, byte) in pair.nodes[0].memory.0[..4096].iter_mut().enumerate() {
        *byte = (at * 7 + at / 251) as u8;
    }
    pair
}

/// So many bytes, in one piece or in three.
fn pieces(bytes: u64, one: bool) -> SegmentList {
    let whole = Segment { address: 3, bytes };
    if one {
        return SegmentList::one(whole);
    }
    let [first, second] = [whole.part(0, bytes / 2), whole.part(bytes / 2, bytes / 4)];
    let third = whole.part(bytes / 2 + bytes / 4, bytes);
    SegmentList::new(&[second, first, third]).expect("few")
}

/// The bytes of the frame of a message, posted so that it leaves at once or so that it is asked for.
fn frame(pair: &mut Pair, send: SendDescriptor, at_once: bool) -> Vec<u8> {
    let mut batch = TransmitBatch::new(1500);
    let node = &mut pair.nodes[0];
    if at_once {
        let posted = crate::common::post_into(node, pair.now, send, &mut batch);
        assert!(posted.expect("room").over.is_some());
    } else {
        node.firmware.post_send(pair.now, send, &mut node.memory).expect("room");
        node.firmware.poll_transmit(pair.now, &mut node.memory, &mut batch);
    }
    let [frame] = batch.frames() else { panic!("{} frames", batch.frames().len()) };
    let mut bytes = batch.inline(0).to_vec();
    for segment in frame.segments() {
        let start = segment.address as usize;
        bytes.extend_from_slice(&node.memory.0[start..start + segment.bytes as usize]);
    }
    bytes
}

#[test]
fn it_is_as_any_other() {
    for (checksum_payload, bundles) in [(true, true), (true, false), (false, true)] {
        let profile = Profile { checksum_payload, bundles, ..Profile::DEFAULT };
        let mut pairs = [true, false].map(|at_once| (pair(&profile), at_once));
        let mut match_bits = 100;
        for bytes in [0, 1, 7, 48, 187, 188, 189, 225, 256, 300, 1_400] {
            for (immediate, one) in [(None, true), (Some(9), true), (None, false), (Some(9), false)]
            {
                match_bits += 1;
                let [first, second] = pairs.each_mut().map(|(pair, at_once)| {
                    let send = SendDescriptor {
                        to: NodeId(2),
                        endpoint: 0,
                        to_endpoint: 0,
                        match_bits,
                        segments: pieces(bytes, one),
                        immediate,
                        synchronous: false,
                        completion: CompletionMode::Auto,
                        context: 5,
                    };
                    let frame = frame(pair, send, *at_once);
                    pair.receive(1, Selector::ANY, 4096);
                    give(pair, 1, &frame);
                    pair.run(Span::ms(5));
                    let arrived = pair.nodes[1].done.iter().any(|done| {
                        (done.match_bits, done.bytes, done.immediate)
                            == (match_bits, bytes, immediate)
                    });
                    assert!(arrived, "{bytes} bytes");
                    frame
                });
                assert!(first == second, "{bytes} bytes, {immediate:?}, one piece: {one}");
            }
        }
    }
}

/// Two nodes of which the second exports the end of its memory.
fn with_region() -> Pair {
    let mut pair = pair(&Profile::DEFAULT);
    let memory = Segment { address: HALF, bytes: HALF };
    pair.nodes[1].firmware.export_region(Some(7), memory, Rights::BOTH, 0).expect("the first");
    pair
}

fn put(bytes: u64, immediate: Option<u64>, completion: CompletionMode) -> PutDescriptor {
    let target =
        RemoteRegion { to: NodeId(2), to_endpoint: 0, key: 7, generation: 0, offset: bytes };
    let segments = pieces(bytes, true);
    PutDescriptor { target, endpoint: 0, segments, immediate, completion, context: bytes }
}

/// Frames that a put leaves in, within its post or in its turn.
fn put_frames(pair: &mut Pair, put: PutDescriptor, at_once: bool) -> Vec<Vec<u8>> {
    let mut batch = TransmitBatch::new(1500);
    let node = &mut pair.nodes[0];
    let (now, memory) = (pair.now, &mut node.memory);
    if at_once {
        let exit = Exit { batch: &mut batch, lends: false };
        let posted = node.firmware.post_put_into(now, put, memory, Some(exit), |_| now);
        assert!(posted.expect("room").over.is_none(), "its target says when it is over");
    } else {
        node.firmware.post_put(now, put, memory).expect("room");
        node.firmware.poll_transmit(now, memory, &mut batch);
    }
    let frame = |at: usize| {
        let mut bytes = batch.inline(at).to_vec();
        for segment in batch.frames()[at].segments() {
            let start = segment.address as usize;
            bytes.extend_from_slice(&memory.0[start..start + segment.bytes as usize]);
        }
        bytes
    };
    (0..batch.frames().len()).map(frame).collect()
}

#[test]
fn a_put_is_as_any_other() {
    let mut pairs = [(with_region(), true), (with_region(), false)];
    for bytes in [0, 1, 32, 188, 300, 1_300] {
        for immediate in [None, Some(9)] {
            for completion in [CompletionMode::Auto, CompletionMode::Buffered] {
                let [first, second] = pairs.each_mut().map(|(pair, at_once)| {
                    let [frame] =
                        &put_frames(pair, put(bytes, immediate, completion), *at_once)[..]
                    else {
                        panic!("{bytes} bytes are one frame")
                    };
                    give(pair, 1, frame);
                    pair.run(Span::ms(5));
                    let done = pair.nodes[0].done.drain(..).filter(|done| done.context == bytes);
                    assert_eq!(done.map(|done| done.status).collect::<Vec<_>>(), [Status::Ok]);
                    frame.clone()
                });
                assert!(first == second, "{bytes} bytes, {immediate:?}, {completion:?}");
            }
        }
    }
    let [(first, _), (second, _)] = &mut pairs;
    assert!(first.nodes[1].memory.0[HALF as usize..] == second.nodes[1].memory.0[HALF as usize..]);
    for (pair, _) in &mut pairs {
        pair.check_idle();
    }
}

/// What left within its post and was lost is sent again: from its memory, or from the copy that was made of it.
#[test]
fn a_put_that_is_lost_is_sent_again() {
    for completion in [CompletionMode::Delivered, CompletionMode::Buffered] {
        let mut pair = with_region();
        let posted = pair.nodes[0].memory.0[3..303].to_vec();
        let (free, _) = pair.nodes[0].firmware.pool_slots();
        assert_eq!(put_frames(&mut pair, put(300, None, completion), true).len(), 1);
        let copied = completion == CompletionMode::Buffered;
        let (left, _) = pair.nodes[0].firmware.pool_slots();
        assert_eq!(left < free, copied);
        if copied {
            pair.nodes[0].memory.0[3..303].fill(0xEE);
        }
        pair.run(Span::ms(100));
        let done = pair.nodes[0].done.iter().filter(|done| done.context == 300);
        assert_eq!(done.map(|done| done.status).collect::<Vec<_>>(), [Status::Ok]);
        let placed = HALF as usize + 300;
        assert!(pair.nodes[1].memory.0[placed..placed + 300] == posted[..], "{completion:?}");
        pair.check_idle();
    }
}

/// So is an atomic operation: executed once, its old value brought back, what was copied of it given back.
#[test]
fn an_atomic_is_as_any_other() {
    let mut pairs = [(with_region(), true), (with_region(), false)];
    let free = pairs[0].0.nodes[0].firmware.pool_slots();
    let elements = [(AtomicOp::Sum, false), (AtomicOp::Sum, true), (AtomicOp::Cswap, true)];
    for (count, (operation, fetches)) in (1..=100).step_by(33).zip(elements.into_iter().cycle()) {
        let bytes = u64::from(count) * 8;
        let list = |address| SegmentList::one(Segment { address, bytes });
        let target =
            RemoteRegion { to: NodeId(2), to_endpoint: 0, key: 7, generation: 0, offset: 3 };
        let atomic = AtomicDescriptor {
            target,
            endpoint: 0,
            operation,
            datatype: Datatype::Uint64,
            count,
            operands: list(8),
            compare: operation.compares().then(|| list(4_096)),
            fetch_into: fetches.then(|| list(8_192)),
            context: bytes,
        };
        let [first, second] = pairs.each_mut().map(|(pair, at_once)| {
            let mut batch = TransmitBatch::new(1500);
            let node = &mut pair.nodes[0];
            let (now, memory) = (pair.now, &mut node.memory);
            if *at_once {
                let exit = Exit { batch: &mut batch, lends: false };
                let atomic = atomic.clone();
                let posted =
                    node.firmware.post_atomic_into(now, atomic, memory, Some(exit), |_| now);
                assert!(posted.expect("room").over.is_none(), "its target says when it is over");
            } else {
                node.firmware.post_atomic(now, atomic.clone(), memory).expect("room");
                node.firmware.poll_transmit(now, memory, &mut batch);
            }
            assert_eq!(batch.frames().len(), 1);
            let frame = batch.inline(0).to_vec();
            give(pair, 1, &frame);
            pair.run(Span::ms(5));
            let done = pair.nodes[0].done.drain(..).filter(|done| done.context == bytes);
            assert_eq!(done.map(|done| done.status).collect::<Vec<_>>(), [Status::Ok]);
            assert_eq!(pair.nodes[0].firmware.pool_slots(), free);
            frame
        });
        assert!(first == second, "{count} times {operation:?}");
    }
    let [(first, _), (second, _)] = &mut pairs;
    for node in [0, 1] {
        assert!(first.nodes[node].memory.0 == second.nodes[node].memory.0);
    }
    for (pair, _) in &mut pairs {
        pair.check_idle();
    }
}
