//! What a sender makes of acknowledgements: only what was sent can have come (`ACK-4`), a copy's answer measures nothing (Karn),
//! and a peer that acknowledges nothing is given up although it is heard (`RESEND-4`).

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::{Flags, Kind};

/// Sequence numbers of frames, in the order in which they left.
fn numbers(said: &[Said]) -> Vec<u32> {
    said.iter().filter(|s| s.kind().sequenced()).map(|s| s.header.sequence.0).collect()
}

/// Two messages of which the second's frames have numbers but do not all fit the window: the number after the last that left, and
/// the messages.
fn half_a_train(real: &mut Real, peer: &Forged) -> (u32, [OpId; 2]) {
    let messages = [(); 2].map(|()| real.send(peer, 64_000));
    let sent = numbers(&real.speak());
    assert_eq!(sent, (0..sent.len() as u32).collect::<Vec<_>>());
    assert!((46..85).contains(&sent.len()), "the second train is under way: {}", sent.len());
    (sent.len() as u32, messages)
}

#[test]
fn numbered_frames_that_never_left_cannot_be_acknowledged() {
    for rides in [false, true] {
        let mut real = Real::new(&Profile::DEFAULT);
        let mut peer = Forged::met(2, &mut real);
        let (sent, _) = half_a_train(&mut real, &peer);
        let lie = sent + 5;
        if rides {
            peer.acknowledge = Some(lie);
            let frame = peer.message(Flags::VOID, None, 0, &[]);
            real.hear(&peer, &frame);
        } else {
            real.hear(&peer, &peer.ack(lie, lie - 1, 0));
        }
        assert_eq!(real.count(Counter::DropBadAck), 1, "rides {rides}");
        assert_eq!(real.count(Counter::MessagesSent), 0);
        // Nothing came of it: the truth frees as much of the window as it says, and no number is left out.
        real.hear(&peer, &peer.ack(sent, sent - 1, 0));
        let rest = of_kind(&real.speak(), Kind::Data);
        let last = rest.last().expect("the rest of the train leaves").header;
        assert_eq!(numbers(&rest), (sent..sent + rest.len() as u32).collect::<Vec<_>>());
        assert!(last.flags.has(Flags::LAST));
        assert_eq!(real.done.len(), 1);
        real.hear(&peer, &peer.ack(last.sequence.0 + 1, last.sequence.0, 0));
        assert_eq!(real.done.len(), 2, "{:?}", real.done);
        assert!(real.firmware.is_drained());
    }
}

#[test]
fn bits_for_numbered_frames_that_never_left_mean_nothing() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::met(2, &mut real);
    let (sent, _) = half_a_train(&mut real, &peer);
    // All before the last two that left, and by its bits those after it that did not.
    let cumulative = sent - 2;
    real.hear(&peer, &peer.ack(cumulative, sent - 1, !1));
    let rest = of_kind(&real.speak(), Kind::Data);
    assert_eq!(numbers(&rest), (sent..sent + rest.len() as u32).collect::<Vec<_>>());
    let last = rest.last().expect("all of the rest leaves").header;
    assert!(last.flags.has(Flags::LAST));
    // Still every one of them must be acknowledged.
    real.hear(&peer, &peer.ack(last.sequence.0, last.sequence.0 - 1, 0));
    assert_eq!(real.done.len(), 1);
    real.hear(&peer, &peer.ack(last.sequence.0 + 1, last.sequence.0, 0));
    assert_eq!(real.done.len(), 2);
}

#[test]
fn beyond_all_numbers_nothing_is_acknowledged_either() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::met(2, &mut real);
    // Nothing is under way.
    real.hear(&peer, &peer.ack(1, 0, 0));
    assert_eq!(real.count(Counter::DropBadAck), 1);
    real.send(&peer, 100);
    assert_eq!(numbers(&real.speak()), [0]);
    for lie in [2, 300, 1 << 31, u32::MAX >> 1] {
        real.hear(&peer, &peer.ack(lie, 0, 0));
        assert!(real.done.is_empty(), "{lie}");
    }
    real.hear(&peer, &peer.ack(1, 0, 0));
    assert_eq!(real.done.len(), 1);
}

/// Time until the first frame of a message leaves again, if nothing is heard.
fn until_resent(real: &mut Real, peer: &Forged, bytes: u64) -> Span {
    real.send(peer, bytes);
    let first = numbers(&real.speak())[0];
    let start = real.now;
    loop {
        let said = real.pass(Span::us(20));
        if let Some(again) = said.iter().find(|s| s.header.sequence.0 == first) {
            return again.at.since(start);
        }
        assert!(real.now.since(start) < Span::ms(500), "it is never resent");
    }
}

/// Acknowledges everything before `cumulative`, alone or on another frame.
fn acknowledge(real: &mut Real, peer: &mut Forged, cumulative: u32, rides: bool) {
    if rides {
        peer.acknowledge = Some(cumulative);
        let frame = peer.message(Flags::VOID, None, 0, &[]);
        real.hear(peer, &frame);
    } else {
        real.hear(peer, &peer.ack(cumulative, cumulative - 1, 0));
    }
}

/// Karn's rule: nobody knows which copy of a resent frame an acknowledgement is of, so it measures no round trip.
#[test]
fn the_answer_to_a_copy_measures_no_round_trip() {
    for rides in [false, true] {
        let mut real = Real::new(&Profile::DEFAULT);
        let mut peer = Forged::met(2, &mut real);
        let unmeasured = until_resent(&mut real, &peer, 100);
        // The first one's acknowledgement, a moment after the copy left.
        real.now = real.now + Span::us(10);
        acknowledge(&mut real, &mut peer, 1, rides);
        let then = until_resent(&mut real, &peer, 100);
        assert!(then.0 * 10 >= unmeasured.0 * 9, "rides {rides}: {then:?} for {unmeasured:?}");
        // One that was sent once does: the timer is shorter from then on.
        real.now = real.now + Span::us(10);
        acknowledge(&mut real, &mut peer, 2, rides);
        real.send(&peer, 100);
        real.speak();
        real.now = real.now + Span::us(10);
        acknowledge(&mut real, &mut peer, 3, rides);
        let measured = until_resent(&mut real, &peer, 100);
        assert!(measured.0 * 2 < unmeasured.0, "rides {rides}: {measured:?} for {unmeasured:?}");
    }
}

/// A receiver that takes nothing out of turn (V13) has nothing new to acknowledge behind a gap, but names what came: that measures the round
/// trip, which nothing else does where most frames are resent (`ACK-5`). Not if it is a copy.
#[test]
fn what_was_dropped_behind_a_gap_measures_the_round_trip() {
    for resent in [false, true] {
        let mut real = Real::new(&Profile::DEFAULT);
        let peer = Forged::met(2, &mut real);
        let unmeasured = until_resent(&mut real, &peer, 100);
        let named = if resent {
            0
        } else {
            real.send(&peer, 100);
            numbers(&real.speak())[0]
        };
        real.now = real.now + Span::us(10);
        real.hear(&peer, &peer.ack(0, named, 0));
        assert_eq!(numbers(&real.speak()), [], "it finds nothing lost");
        real.hear(&peer, &peer.ack(named + 1, named, 0));
        let then = until_resent(&mut real, &peer, 100);
        if resent {
            assert!(then.0 * 10 >= unmeasured.0 * 9, "{then:?} for {unmeasured:?}");
        } else {
            assert!(then.0 * 2 < unmeasured.0, "{then:?} for {unmeasured:?}");
        }
    }
}

/// Nor does it say that what left before the copy is lost, unless it answers the copy (`ACK-5`).
#[test]
fn the_acknowledgement_of_a_resent_frame_finds_nothing_lost() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    for _ in 0..10 {
        real.send(&peer, 100);
    }
    assert_eq!(numbers(&real.speak()), (0..10).collect::<Vec<_>>());
    let start = real.now;
    while numbers(&real.pass(Span::us(20))).is_empty() {
        assert!(real.now.since(start) < Span::ms(20), "the first is resent");
    }
    // The first copy of frame 0 had come; then frame 2, before the copy.
    acknowledge(&mut real, &mut peer, 1, true);
    real.hear(&peer, &peer.ack(1, 2, 1));
    assert_eq!(numbers(&real.speak()), [0u32; 0], "none of the others is resent");
    // Three that were sent later have come: 1 is lost, and nothing else.
    real.hear(&peer, &peer.ack(1, 5, 0b1_1101));
    assert_eq!(numbers(&real.speak()), [1]);
}

/// An answer that names the copy and comes sooner than a round trip takes is to the first copy (`ACK-5`).
#[test]
fn an_early_answer_to_a_copy_is_to_the_first_one() {
    for (after, resent) in [(Span::us(50), false), (Span::us(5_000), true)] {
        let mut real = Real::new(&Profile::DEFAULT);
        let peer = Forged::met(2, &mut real);
        for number in 0..8 {
            real.send(&peer, 100);
            real.speak();
            real.now = real.now + Span::us(5_000);
            real.hear(&peer, &peer.ack(number + 1, number, 0));
        }
        for _ in 0..10 {
            real.send(&peer, 100);
        }
        assert_eq!(numbers(&real.speak()).len(), 10);
        // The first run of the timer only asks.
        let start = real.now;
        while !numbers(&real.pass(Span::us(20))).contains(&8) {
            assert!(real.now.since(start) < Span::ms(100), "the first is resent");
        }
        real.now = real.now + after;
        real.hear(&peer, &peer.ack(9, 8, 0));
        assert_eq!(!numbers(&real.speak()).is_empty(), resent, "after {after:?}");
    }
}

/// The timer leaves room for how much round trips vary (`RESEND-2`).
#[test]
fn the_timer_waits_for_the_variation_too() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::met(2, &mut real);
    for number in 0..40 {
        real.send(&peer, 100);
        real.speak();
        real.now = real.now + Span::us(if number % 2 == 0 { 1_000 } else { 3_000 });
        real.hear(&peer, &peer.ack(number + 1, number, 0));
    }
    // 2 ms and four times about 1 ms.
    let timer = until_resent(&mut real, &peer, 100);
    assert!((Span::us(4_500)..Span::us(8_000)).contains(&timer), "{timer:?}");
}

/// Control frames leave although the window is full: they are what opens it again.
#[test]
fn a_full_window_has_room_for_control_frames() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    half_a_train(&mut real, &peer);
    real.receive(Selector::ANY, 10);
    let frame = peer.message(Flags::SYNCHRONOUS, None, 0, b"x");
    real.hear(&peer, &frame);
    assert_eq!(of_kind(&real.speak(), Kind::Done).len(), 1);
}

/// A receiver takes numbers within a window of the first that is missing, and none farther off (`SEQ-3`).
#[test]
fn numbers_beyond_the_window_are_not_taken() {
    use emp_firmware::limits::WINDOW_FRAMES;
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::met(2, &mut real);
    for number in [1 + WINDOW_FRAMES, WINDOW_FRAMES, 1 << 31] {
        let skip = peer.frame(Kind::Skip, Flags::ACK_REQUEST, number, 0, &[]);
        real.hear(&peer, &skip);
        let acks = of_kind(&real.speak(), Kind::Ack);
        let bits = |said: &Said| emp_wire::Ack::parse(&said.body).unwrap().sack;
        let told = acks.iter().filter(|ack| bits(ack)[3] == 1 << 62).count();
        assert_eq!(told, usize::from(number == WINDOW_FRAMES), "{number}");
    }
    assert_eq!(real.count(Counter::DropOutOfWindow), 2);
}

/// A frame is lost when one that was sent three later was acknowledged, and not sooner (`RESEND-1`).
#[test]
fn three_later_ones_show_a_loss() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::met(2, &mut real);
    for _ in 0..6 {
        real.send(&peer, 100);
    }
    real.speak();
    // Bit 0 is number 1: frame 0 is missing.
    for (latest, sack, resent) in [(1, 0b1, 0), (2, 0b11, 0), (3, 0b111, 0), (4, 0b1111, 1)] {
        real.hear(&peer, &peer.ack(0, latest, sack));
        assert_eq!(numbers(&real.speak()).len(), resent, "after frame {latest}");
    }
}

#[test]
fn a_peer_that_is_heard_and_acknowledges_nothing_is_given_up() {
    let profile = Profile { unreachable_after: Span::ms(500), ..Profile::DEFAULT };
    let mut real = Real::new(&profile);
    let peer = Forged::met(2, &mut real);
    real.send(&peer, 100);
    let start = real.now;
    while real.done.is_empty() {
        real.pass(Span::ms(20));
        // It lives, and that is all.
        real.hear(&peer, &peer.ack(0, u32::MAX, 0));
        assert!(real.now.since(start) < Span::ms(20 * 500), "it is never given up");
    }
    assert_eq!(real.done[0].status, Status::Unreachable);
    let took = real.now.since(start);
    assert!(took >= Span::ms(12 * 500), "silence is twelve times as long: {took:?}");
    assert!(took <= Span::ms(13 * 500), "{took:?}");
}

/// The same peer, if it acknowledges now and then, is not.
#[test]
fn a_peer_that_acknowledges_something_is_not_given_up() {
    let profile = Profile { unreachable_after: Span::ms(500), ..Profile::DEFAULT };
    let mut real = Real::new(&profile);
    let peer = Forged::met(2, &mut real);
    let start = real.now;
    for _ in 0..7 {
        real.send(&peer, 100);
    }
    real.speak();
    for acked in 0..7 {
        let until = start + Span::ms(1_500 * (acked + 1));
        while real.now < until {
            real.pass(Span::ms(20));
            real.hear(&peer, &peer.ack(acked as u32, u32::MAX, 0));
        }
        assert_eq!(real.done.len() as u64, acked, "{:?}", real.done);
        real.hear(&peer, &peer.ack(acked as u32 + 1, acked as u32, 0));
    }
    assert!(real.done.iter().all(|done| done.status == Status::Ok));
}
