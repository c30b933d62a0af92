//! A message for a node that has gone is not for the one that is started in its place, where who posts has asked for that.

mod common;

use std::time::{Duration, Instant};

use common::{LONG, on};
use emp_host::{Board, CompletionMode, NodeId, RawSend, SegmentList, SendDescriptor};
use emp_link::Fabric;

#[test]
fn what_was_told_since_a_look_holds_back_a_post() {
    let fabric = Fabric::new(3).expect("descriptors");
    let board = Board::Inline { guardian: false };
    let ann = on(&fabric, 0, "ann").board(board).start().expect("the node starts");
    let bob = on(&fabric, 1, "bob").board(Board::Thread).start().expect("the node starts");
    let (from, to) = (ann.endpoint(1).unwrap(), bob.endpoint(1).unwrap());
    from.send_wait(to.address(), 1, vec![1; 8], LONG).expect("bob is there");
    while ann.poll_event().is_some() {}

    // The look: nobody has gone.
    let seen = ann.events_told();
    let send = || SendDescriptor {
        to: NodeId::from_name("bob"),
        endpoint: 1,
        to_endpoint: 1,
        match_bits: 2,
        segments: SegmentList::empty(),
        immediate: None,
        synchronous: false,
        completion: CompletionMode::Auto,
        context: 7,
    };
    // Between look and post bob goes, another comes, and the node hears of it.
    drop(to);
    drop(bob);
    let start = Instant::now();
    let mut ended = Vec::with_capacity(8);
    while ann.events_told() == seen {
        from.poll_completions(&mut ended);
        assert!(start.elapsed() < LONG, "nobody says that bob has gone");
    }
    let heir = on(&fabric, 2, "bob").board(Board::Thread).start().expect("the node starts");
    let there = heir.endpoint(1).unwrap();

    // SAFETY: there is no memory in it.
    let posted = unsafe { from.post_send_raw_unless_told(send(), seen) };
    assert!(matches!(posted, Ok(None)), "it was posted to somebody: {posted:?}");
    let end = Instant::now() + Duration::from_millis(30);
    while Instant::now() < end {
        from.poll_completions(&mut ended);
    }
    assert!(there.probe(emp_host::Selector::ANY).is_none(), "the heir has it");

    // Who has looked again and means the heir reaches it: nothing else was in the way.
    // SAFETY: as above.
    let posted = unsafe { from.post_send_raw_unless_told(send(), ann.events_told()) };
    assert!(matches!(posted, Ok(Some(RawSend::Flying(_) | RawSend::Over(_)))), "{posted:?}");
    let start = Instant::now();
    while there.probe(emp_host::Selector::ANY).is_none() {
        from.poll_completions(&mut ended);
        assert!(start.elapsed() < LONG, "the heir cannot be reached at all");
    }
}
