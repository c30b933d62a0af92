//! The frame of a message that leaves within its post is byte for byte as that of one that waited.

use crate::common::{Pair, give};
use emp_firmware::{
    CompletionMode, Profile, Segment, SegmentList, Selector, SendDescriptor, Span, TransmitBatch,
};
use emp_wire::NodeId;

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
