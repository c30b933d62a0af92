//! Many messages, sends and receives: what a posted receive matches arrives however much stands before it, what cannot is told, and nobody
//! waits for himself.

use crate::common::forge::{Forged, Real, of_kind};
use crate::common::{HALF, Pair, limits_told};
use emp_firmware::*;
use emp_wire::{Flags, Kind, NodeId, NotReadyCause};

/// More than the names of 16 bits that there once were.
const MANY: u64 = 70_000;

fn receive(pair: &mut Pair, at: usize, bits: u64, bytes: u64) {
    pair.receive(at, Selector::bits(bits), bytes);
}

/// `READY-1`: a message that is waited for comes from behind any number of others of the same sender, short ones whose bytes are kept, and
/// longer ones that their sender keeps.
#[test]
fn a_message_is_received_from_behind_many() {
    for bytes in [8, 100] {
        let mut pair = Pair::new(&Profile::DEFAULT);
        receive(&mut pair, 1, 2, 1);
        for _ in 0..MANY {
            pair.send(0, 2, 1, bytes);
        }
        pair.send(0, 2, 2, 1);
        pair.run(Span::ms(2_000));
        let wanted: Vec<u64> = pair.nodes[1].done.iter().map(|done| done.match_bits).collect();
        assert_eq!(wanted, [2], "{bytes} bytes");
        for _ in 0..MANY {
            receive(&mut pair, 1, 1, bytes);
        }
        pair.run(Span::ms(2_000));
        let [sender, receiver] = &pair.nodes;
        assert_eq!(
            (sender.done.len(), receiver.done.len()),
            (MANY as usize + 1, MANY as usize + 1)
        );
        let all = sender.done.iter().chain(&receiver.done);
        assert!(all.into_iter().all(|done| done.status == Status::Ok));
        assert!(receiver.done.iter().skip(1).all(|done| done.total_bytes == bytes));
        let (free, slots) = receiver.firmware.pool_slots();
        assert_eq!(free, slots);
        assert_eq!(receiver.memory.0[HALF as usize..][..8], sender.memory.0[..8]);
    }
}

/// Frames are lost, and what overtakes them finds no room for its bytes: it keeps its place all the same.
#[test]
fn many_messages_that_overtake_others_keep_their_order() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    let mut frames = 0u32;
    pair.drop = Box::new(move |from, _| {
        frames += 1;
        from == 0 && frames.is_multiple_of(50)
    });
    let count = 12_000u64;
    receive(&mut pair, 1, 1 << 20, 1);
    for bits in 0..count {
        pair.send(0, 2, bits, 300);
    }
    pair.send(0, 2, 1 << 20, 1);
    pair.run(Span::ms(5_000));
    assert_eq!(pair.nodes[1].done.len(), 1, "the last is waited for");
    for _ in 0..count {
        pair.receive(1, Selector::ANY, 300);
        pair.run(Span::us(50));
    }
    pair.run(Span::ms(5_000));
    let order: Vec<u64> = pair.nodes[1].done.iter().skip(1).map(|done| done.match_bits).collect();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..count).collect::<Vec<_>>());
    let refused = pair.nodes[1].firmware.counters().get(Counter::DropEarly);
    assert!(refused < count / 10, "{refused} had to come again");
}

/// A node of which little may be outstanding, as users may ask for.
fn few(most: usize) -> Profile {
    Profile { operations_max: most, incoming_max: most, ..Profile::DEFAULT }
}

/// `READY-5`: a receiver that is full of others than it waits for says so after its patience; who sent too many is told, and the one that is
/// waited for arrives. Told once.
#[test]
fn a_receiver_that_is_full_of_others_ends_what_is_too_much() {
    let most = 1_024;
    let mut pair = Pair::new(&few(most));
    receive(&mut pair, 1, 2, 1);
    let sent = most as u64;
    for _ in 0..sent - 1 {
        pair.send(0, 2, 1, 8);
    }
    pair.send(0, 2, 2, 1);
    let patience = Profile::DEFAULT.unreachable_after;
    pair.run(Span(patience.0 / 2));
    assert_eq!(pair.nodes[1].done.len(), 0, "it waits behind those that there is no room for");
    let failed = |pair: &Pair| {
        pair.nodes[0].done.iter().filter(|done| done.status == Status::ReceiverFull).count()
    };
    assert_eq!(failed(&pair), 0, "others may still be received");
    pair.run(patience);
    assert_eq!(pair.nodes[1].done.len(), 1, "it has come");
    let (kept, failed) = (most as u64 / 8 * 6, failed(&pair) as u64);
    assert_eq!(kept + failed, sent - 1, "{failed} have failed");
    assert_eq!(limits_told(&mut pair.nodes[1].firmware), [(Limit::Unexpected, most)]);
    // Nobody is lost, and what has its place is received.
    for _ in 0..kept {
        receive(&mut pair, 1, 1, 8);
    }
    pair.run(Span::ms(100));
    assert_eq!(pair.nodes[1].done.len() as u64, 1 + kept);
    receive(&mut pair, 1, 3, 1);
    pair.send(0, 2, 3, 1);
    pair.run(Span::ms(100));
    assert_eq!(pair.nodes[1].done.len() as u64, 2 + kept);
    assert_eq!(limits_told(&mut pair.nodes[1].firmware), []);
}

/// Who waits for nothing, or receives what is there, however slowly, fails nobody.
#[test]
fn a_receiver_that_is_only_slow_fails_nobody() {
    let most = 1_024;
    let patience = Profile::DEFAULT.unreachable_after;
    for waits in [false, true] {
        let mut pair = Pair::new(&few(most));
        if waits {
            receive(&mut pair, 1, 2, 1);
        }
        for _ in 0..1_000 {
            pair.send(0, 2, 1, 8);
        }
        for _ in 0..1_000 {
            pair.run(Span(if waits { patience.0 / 20 } else { patience.0 / 50 }));
            receive(&mut pair, 1, 1, 8);
        }
        pair.run(Span::ms(100));
        assert_eq!(pair.nodes[1].done.len(), 1_000);
        assert!(pair.nodes[0].done.iter().all(|done| done.status == Status::Ok));
    }
}

/// One that floods a node leaves room to others.
#[test]
fn one_sender_locks_no_other_out() {
    let mut real = Real::new(&few(1_024));
    let mut flood = Forged::met(2, &mut real);
    for _ in 0..1_024 {
        let frame = flood.message(Flags(0), None, 1, b"x");
        real.hear(&flood, &frame);
        let said = of_kind(&real.speak(), Kind::NotReady);
        if !said.is_empty() {
            assert_eq!(said[0].not_ready().cause, NotReadyCause::Full);
            break;
        }
    }
    let mut other = Forged::met(3, &mut real);
    for _ in 0..4 {
        let frame = other.message(Flags(0), None, 2, b"x");
        real.hear(&other, &frame);
    }
    assert_eq!(of_kind(&real.speak(), Kind::NotReady).len(), 0);
    let from = |node| Selector { from: node, ..Selector::ANY };
    real.receive(from(other.node), 1);
    assert_eq!(real.done.len(), 1);
}

/// Sends and receives that are as many as may be: one more is refused while one of them may end, then it is an error; the host is told once.
#[test]
fn who_posts_too_much_is_told() {
    let most = 512;
    let patience = Profile::DEFAULT.unreachable_after;
    for sends in [true, false] {
        let mut pair = Pair::new(&few(most));
        let post = |pair: &mut Pair| {
            let (now, node) = (pair.now, &mut pair.nodes[0]);
            let segments = SegmentList::one(Segment { address: HALF, bytes: 100_000 });
            if sends {
                let send = SendDescriptor {
                    to: NodeId(2),
                    endpoint: 0,
                    to_endpoint: 0,
                    match_bits: 1,
                    segments,
                    immediate: None,
                    synchronous: false,
                    completion: CompletionMode::Auto,
                    context: 0,
                };
                return node.firmware.post_send(now, send, &mut node.memory);
            }
            let selector = Selector::bits(1);
            let receive =
                ReceiveDescriptor { endpoint: 0, selector, segments, claim: None, context: 0 };
            node.firmware.post_receive(now, receive, &mut node.memory)
        };
        let ops: Vec<_> = (0..most).map(|_| post(&mut pair).expect("there is room")).collect();
        assert_eq!(post(&mut pair), Err(PostError::Busy));
        for _ in 0..3 {
            pair.run(Span(patience.0 / 8));
            assert_eq!(post(&mut pair), Err(PostError::Busy), "some may end");
            // Time passes though nothing happens.
            pair.now = pair.now + Span(patience.0 / 8);
        }
        let limit = if sends { Limit::Sends } else { Limit::Receives };
        assert_eq!(limits_told(&mut pair.nodes[0].firmware), [(limit, most)]);
        pair.now = pair.now + patience;
        assert_eq!(post(&mut pair), Err(PostError::Exhausted));
        // One ends, and there is room.
        if sends {
            receive(&mut pair, 1, 1, 100_000);
        } else {
            let now = pair.now;
            assert!(pair.nodes[0].firmware.cancel(now, ops[most / 2]));
        }
        pair.run(Span::ms(10));
        post(&mut pair).expect("there is room again");
        assert_eq!(post(&mut pair), Err(PostError::Busy), "it is asked anew");
        assert_eq!(limits_told(&mut pair.nodes[0].firmware), []);
    }
}
