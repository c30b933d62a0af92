//! A node that goes away acknowledges what it has, even what it would have let wait, and says so more than once (`CLOSE-1`).

use crate::common::Pair;
use emp_firmware::*;
use emp_wire::{CLOSE_BYTES, Flags, HEADER_BYTES, Header, Kind, NodeId};

#[test]
fn what_came_before_the_end_is_acknowledged_by_it() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.receive(1, Selector::ANY, 64);
    pair.send(0, 2, 1, 64);
    pair.run(Span::ms(1));
    let node = &mut pair.nodes[0];
    let send = SendDescriptor {
        endpoint: 0,
        to: NodeId(2),
        to_endpoint: 0,
        match_bits: 2,
        segments: SegmentList::one(Segment { address: 0, bytes: 64 }),
        immediate: None,
        synchronous: false,
        completion: CompletionMode::Delivered,
        context: 0,
    };
    let op = node.firmware.post_send(pair.now, send, &mut node.memory).unwrap();
    pair.receive(1, Selector::ANY, 64);
    for frame in crate::common::frames_of(&mut pair, 0) {
        crate::common::give(&mut pair, 1, &frame);
    }
    // It waits for the program's answer, which does not come.
    assert!(crate::common::frames_of(&mut pair, 1).is_empty());
    pair.nodes[1].firmware.close(pair.now);
    let frames = crate::common::frames_of(&mut pair, 1);
    assert_eq!(frames.len(), 3);
    for frame in &frames {
        let close = Header::parse(frame).unwrap().0;
        assert_eq!((close.kind, close.flags), (Kind::Close, Flags::ACK));
        assert_eq!(frame.len(), HEADER_BYTES + CLOSE_BYTES, "one in each link frame");
    }
    // One is enough, and those that come after it are not answered.
    crate::common::give(&mut pair, 0, &frames[2]);
    for frame in &frames[..2] {
        crate::common::give(&mut pair, 0, frame);
    }
    assert!(crate::common::frames_of(&mut pair, 0).is_empty());
    let done: Vec<_> = std::iter::from_fn(|| pair.nodes[0].firmware.poll_completion())
        .filter(|done| done.op == op)
        .map(|done| done.status)
        .collect();
    assert_eq!(done, [Status::Ok]);
}
