//! Numbers that wrap: of frames (`SEQ-1`) and of messages (`MSG-3`), with refusals, losses and messages before their turn across it.

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::{Flags, Kind, NotReadyCause};

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
    for _ in 0..6 {
        let said = real.pass(Span::ms(6));
        // The first copy; the timer may have run.
        let said = of_kind(&said, Kind::Message).remove(0);
        again.push(said.header.word);
        acked = said.header.sequence.0.wrapping_add(1);
        real.hear(&peer, &peer.ack(acked, acked.wrapping_sub(1), 0));
        if again.len() == 6 {
            break;
        }
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
