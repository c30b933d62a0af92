//! Numbers that wrap: of frames (`SEQ-1`) and of messages (`MSG-3`), with refusals, losses and messages before their turn across it.

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::{Flags, Kind, NotReadyCause, Put};

const NONE: Flags = Flags(0);

/// A node and a peer whose streams begin so many numbers before they wrap.
fn near_the_wrap(frames: u32, messages: u32) -> (Real, Forged) {
    let mut real = Real::new(&Profile::DEFAULT);
    let (sequence, number) = (0u32.wrapping_sub(frames), 0u32.wrapping_sub(messages));
    real.firmware.set_first_numbers(sequence, number);
    let mut peer = Forged::new(2);
    (peer.sequence, peer.number) = (sequence, number);
    let frame = peer.message(Flags::VOID, None, 0, &[]);
    real.hear(&peer, &frame);
    real.pass(Span::us(100));
    (real, peer)
}

/// Messages that were refused are sent again in the order of their numbers, also where these wrap (`READY-2`).
#[test]
fn refused_messages_keep_their_order_across_the_wrap() {
    let (mut real, peer) = near_the_wrap(3, 2);
    for _ in 0..6 {
        real.send(&peer, 100);
    }
    let first = of_kind(&real.speak(), Kind::Message);
    let numbers: Vec<u32> = first.iter().map(|said| said.header.word).collect();
    assert_eq!(numbers, [u32::MAX - 1, u32::MAX, 0, 1, 2, 3]);
    // All of them are refused, and the last ones are heard of first.
    for said in first.iter().rev() {
        let (number, sequence) = (said.header.word, said.header.sequence.0);
        real.hear(&peer, &peer.not_ready(number, sequence, NotReadyCause::Full, 0));
    }
    let skips = of_kind(&real.speak(), Kind::Skip);
    assert_eq!(skips.len(), 6);
    let mut acked = first[0].header.sequence.0.wrapping_add(6);
    real.hear(&peer, &peer.ack(acked, acked.wrapping_sub(1), 0));
    let mut again = Vec::new();
    while again.len() < 6 {
        // First copies; the timer may have run.
        let said = of_kind(&real.pass(Span::ms(6)), Kind::Message);
        assert!(!said.is_empty(), "after {again:?}");
        for said in said {
            if said.header.sequence.0 == acked {
                again.push(said.header.word);
                acked = acked.wrapping_add(1);
            }
        }
        real.hear(&peer, &peer.ack(acked, acked.wrapping_sub(1), 0));
    }
    assert_eq!(again[0], u32::MAX - 1, "the first one tries its luck");
    assert_eq!(again, numbers);
    assert_eq!(real.done.len(), 6);
}

/// Messages that overtook others are matched in their order, also where their numbers wrap.
#[test]
fn messages_before_their_turn_keep_their_order_across_the_wrap() {
    let (mut real, mut peer) = near_the_wrap(4, 4);
    let frames: Vec<_> = (0..9).map(|bits| peer.message(NONE, None, bits, b"x")).collect();
    for order in [8, 1, 5, 2, 7, 3, 6, 4] {
        real.hear(&peer, &frames[order]);
    }
    assert!(real.firmware.probe(0, Selector::ANY, false).is_none(), "the first is missing");
    real.hear(&peer, &frames[0]);
    for _ in 0..9 {
        real.receive(Selector::ANY, 1);
    }
    let bits: Vec<u64> = real.done.iter().map(|done| done.match_bits).collect();
    assert_eq!(bits, (0..9).collect::<Vec<_>>());
    for frame in &frames {
        real.hear(&peer, frame);
    }
    assert_eq!(real.count(Counter::DropDuplicate), 9, "each is taken once");
}

/// A train whose numbers wrap is sent, its losses found, and each acknowledged once.
#[test]
fn losses_are_found_across_the_wrap() {
    let (mut real, peer) = near_the_wrap(10, 1);
    real.send(&peer, 60_000);
    let said = real.speak();
    let first = said[0].header.sequence.0;
    assert_eq!(first, 0u32.wrapping_sub(10));
    // All have come but the first: forty of them, beyond the wrap too.
    real.hear(&peer, &peer.ack(first, first.wrapping_add(40), (1 << 40) - 1));
    let resent = real.speak();
    assert_eq!(resent.iter().map(|s| s.header.sequence.0).collect::<Vec<_>>(), [first]);
    assert!(real.done.is_empty());
    let end = said.last().unwrap().header.sequence.0.wrapping_add(1);
    // What was never sent is on the other side of the numbers.
    real.hear(&peer, &peer.ack(end.wrapping_add(1), end, 0));
    assert_eq!(real.count(Counter::DropBadAck), 1);
    real.hear(&peer, &peer.ack(end, end.wrapping_sub(1), 0));
    assert_eq!(real.done.len(), 1);
    assert!(real.firmware.is_drained());
}

/// Long messages are received whole where their frames' numbers wrap, in any order.
#[test]
fn trains_arrive_across_the_wrap() {
    for before in 1..12 {
        let (mut real, mut peer) = near_the_wrap(before, 1);
        real.receive(Selector::ANY, 10_000);
        let bytes: Vec<u8> = (0..10_000u32).map(|i| ((i * 7) >> 3) as u8).collect();
        let mut frames = vec![peer.message(NONE, long(10_000, 10_000, 1_000), 0, &bytes[..1_000])];
        for (place, part) in bytes.chunks(1_000).enumerate().skip(1) {
            let last = if place == 9 { Flags::LAST } else { NONE };
            frames.push(peer.next(Kind::Data, last, place as u32, part));
        }
        for order in [0, 9, 3, 4, 1, 8, 2, 5, 7, 6] {
            real.hear(&peer, &frames[order]);
        }
        assert_eq!((real.done.len(), real.done[0].status), (1, Status::Ok), "{before}");
        assert!(real.bytes(INTO, 10_000) == bytes, "{before}");
    }
}

/// Posts a receive at endpoint 5.
fn receive_at_five(real: &mut Real) {
    let segments = SegmentList::one(Segment { address: INTO, bytes: 1 });
    let (selector, claim) = (Selector::ANY, None);
    let receive = ReceiveDescriptor { endpoint: 5, selector, segments, claim, context: 0 };
    real.firmware.post_receive(real.now, receive, &mut real.memory).unwrap();
}

/// Messages that this node refused are taken when they come again, in their turn and once, also where the numbers wrap (`MSG-3`, `READY-1`).
#[test]
fn what_was_refused_has_its_turn_across_the_wrap() {
    const LAST: u32 = u32::MAX;
    let (mut real, mut peer) = near_the_wrap(6, 3);
    // Of four in a row the first is late, and two are for an endpoint that is not open yet.
    let first = peer.message(NONE, None, 0, b"x");
    for endpoint in [5, 0, 5] {
        let bits = u64::from(peer.number.wrapping_sub(LAST - 1));
        let frame = peer.message_for(endpoint, NONE, None, bits, b"x");
        real.hear(&peer, &frame);
    }
    let refused = of_kind(&real.speak(), Kind::NotReady);
    let refused: Vec<_> = refused.iter().map(|s| (s.header.word, s.not_ready().cause)).collect();
    assert_eq!(refused, [(LAST, NotReadyCause::Full), (1, NotReadyCause::Full)]);
    real.firmware.open_endpoint(5).unwrap();
    for _ in 0..2 {
        real.receive(Selector::ANY, 1);
        receive_at_five(&mut real);
    }
    real.hear(&peer, &first);
    assert_eq!(real.done.len(), 1, "the next one was refused");
    let mut again = |real: &mut Real, number: u32| {
        peer.number = number;
        let bits = u64::from(number.wrapping_sub(LAST - 1));
        let frame = peer.message_for(5, NONE, None, bits, b"x");
        real.hear(&peer, &frame);
    };
    again(&mut real, LAST);
    assert_eq!(real.done.len(), 3, "and the one behind it was here");
    again(&mut real, 1);
    let bits: Vec<u64> = real.done.iter().map(|done| done.match_bits).collect();
    assert_eq!(bits, [0, 1, 2, 3]);
    // Other copies of them may be under way.
    for number in [LAST, 1, LAST] {
        again(&mut real, number);
    }
    assert_eq!((real.done.len(), real.count(Counter::DropDuplicate)), (4, 3));
}

/// Messages that leave within their posts are numbered across the wrap, and one of them that was refused keeps its number.
#[test]
fn messages_that_leave_at_once_are_numbered_across_the_wrap() {
    let (mut real, peer) = near_the_wrap(3, 2);
    let mut batch = TransmitBatch::new(MTU);
    let mut sent = Vec::new();
    for _ in 0..4 {
        batch.clear();
        let send = SendDescriptor {
            to: peer.node,
            endpoint: 0,
            to_endpoint: 0,
            match_bits: 9,
            segments: SegmentList::one(Segment { address: 0, bytes: 8 }),
            immediate: None,
            synchronous: false,
            completion: CompletionMode::Auto,
            context: 0,
        };
        let (now, memory) = (real.now, &mut real.memory);
        let exit = Exit { batch: &mut batch, lends: false };
        let posted = real.firmware.post_send_into(now, send, memory, Some(exit), |_| now).unwrap();
        assert!(posted.over.is_some(), "it left");
        let (header, _) = emp_wire::Header::parse(batch.inline(0)).unwrap();
        sent.push((header.word, header.sequence.0));
    }
    assert_eq!(sent.iter().map(|sent| sent.0).collect::<Vec<_>>(), [u32::MAX - 1, u32::MAX, 0, 1]);
    let (number, sequence) = sent[1];
    real.hear(&peer, &peer.not_ready(number, sequence, NotReadyCause::Full, 0));
    assert_eq!(of_kind(&real.speak(), Kind::Skip).len(), 1);
    let end = sent[3].1.wrapping_add(1);
    real.hear(&peer, &peer.ack(end, end.wrapping_sub(1), 0));
    let again = of_kind(&real.pass(Span::ms(6)), Kind::Message).remove(0);
    assert_eq!((again.header.word, again.header.sequence.0), (u32::MAX, end));
}

/// What came behind a put that arrives is told in the order of its numbers, also where these wrap.
#[test]
fn what_waits_for_a_put_is_told_in_order_across_the_wrap() {
    let (mut real, mut peer) = near_the_wrap(3, 3);
    let memory = Segment { address: INTO + 4_096, bytes: 2_000 };
    real.firmware.export_region(Some(4), memory, Rights::REMOTE_WRITE, 0).unwrap();
    for place in 0..2 {
        real.receive_at(Selector::ANY, INTO + place * 2_000, 2_000);
    }
    let put = Put { target: peer.target(4), long: long(2_000, 2_000, 1_000), immediate: None };
    let mut body = vec![0; Put::body_bytes_for(put.flags())];
    put.emit(&mut body);
    body.extend_from_slice(&[9; 1_000]);
    let number = peer.number;
    peer.number = number.wrapping_add(1);
    let put = peer.next(Kind::Put, put.flags(), number, &body);
    let rest_of_put = peer.next(Kind::Data, Flags::LAST, 1, &[9; 1_000]);
    let last = peer.message(NONE, long(2_000, 2_000, 1_000), 1, &[1; 1_000]);
    let rest_of_last = peer.next(Kind::Data, Flags::LAST, 1, &[1; 1_000]);
    let zero = peer.message(Flags::LAST, None, 2, &[2; 8]);
    for frame in [&put, &last, &zero, &rest_of_last] {
        real.hear(&peer, frame);
    }
    assert!(real.done.is_empty(), "the put may be what they speak of");
    real.hear(&peer, &rest_of_put);
    let bits: Vec<u64> = real.done.iter().map(|done| done.match_bits).collect();
    assert_eq!(bits, [1, 2]);
}
