//! Who may be silent for as long as it likes (`RESEND-3`): a node towards itself, and one that is not there yet.

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::{Flags, Kind, NodeId};

/// Several times as long as a peer may be silent.
const LONG: Span = Span::ms(40_000);

#[test]
fn a_node_is_not_silent_to_itself() {
    let mut real = Real::new(&Profile::DEFAULT);
    let send = SendDescriptor {
        to: OWN,
        endpoint: 0,
        to_endpoint: 0,
        match_bits: 5,
        segments: SegmentList::one(Segment { address: 0, bytes: 10 }),
        immediate: None,
        synchronous: true,
        completion: CompletionMode::Delivered,
        context: 0,
    };
    real.firmware.post_send(real.now, send, &mut real.memory).unwrap();
    real.pass(LONG);
    assert_eq!(real.done, [], "it waits for its receive");
    real.receive(Selector::bits(5), 10);
    real.pass(Span::ms(1));
    let mut ends: Vec<_> = real.done.iter().map(|end| (end.op.kind(), end.status)).collect();
    ends.sort_by_key(|(kind, _)| *kind as u8);
    assert_eq!(ends.len(), 2);
    assert!(ends.iter().all(|(_, status)| *status == Status::Ok), "{ends:?}");
    assert_eq!(real.count(Counter::PeersLost), 0);
}

/// A receive that names a node that has left waits for it to come again.
#[test]
fn a_receive_waits_for_a_node_that_is_not_there() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut present = Forged::met(3, &mut real);
    let gone = Forged::met(2, &mut real);
    let goodbye = gone.frame(Kind::Close, Flags(0), 0, 0, &gone.node.0.to_be_bytes());
    real.hear(&gone, &goodbye);
    let op = real.receive(Selector { from: NodeId(2), ..Selector::ANY }, 10);
    // Somebody owes something, so that it is looked at all: and is heard, all the time.
    let frame = present.message(Flags(0), long(2_000, 2_000, 1_000), 1, &[1; 1_000]);
    real.hear(&present, &frame);
    for _ in 0..40 {
        real.pass(Span::ms(1_000));
        let frame = present.message(Flags(0), None, 2, b"I live");
        real.hear(&present, &frame);
    }
    assert_eq!(real.done, []);
    assert!(real.firmware.cancel(real.now, op), "it waits still");
}
