//! When a receiver acknowledges (`ACK-3`): at once where a sender waits or something is missing, else every so many frames, by
//! delay, or on data that goes back.

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::{Ack, Flags, Kind};

const NONE: Flags = Flags(0);

/// A node with receives posted for all that comes, and a peer that it has met: numbers begin with 1.
fn listening(profile: &Profile) -> (Real, Forged) {
    let mut real = Real::new(profile);
    let peer = Forged::met(2, &mut real);
    for _ in 0..100 {
        real.receive(Selector::ANY, 100);
    }
    (real, peer)
}

/// The cumulative number and the first word of bits of each acknowledgement.
fn acks(said: &[Said]) -> Vec<(u32, u64)> {
    let ack = |said: &Said| (said.header.acknowledge.0, Ack::parse(&said.body).unwrap().sack[0]);
    of_kind(said, Kind::Ack).iter().map(ack).collect()
}

#[test]
fn a_lone_frame_is_acknowledged_after_the_delay_once() {
    let (mut real, mut peer) = listening(&Profile::DEFAULT);
    let frame = peer.message(NONE, None, 0, b"x");
    real.hear(&peer, &frame);
    let heard = real.now;
    assert_eq!(acks(&real.pass(Span::us(59))), []);
    let said = real.pass(Span::us(2));
    assert_eq!(acks(&said), [(2, 0)]);
    assert_eq!(said[0].at.since(heard), Profile::DEFAULT.ack_delay);
    assert_eq!(said[0].header.word, 60, "it says how long it waited, in microseconds");
    assert_eq!(acks(&real.pass(Span::ms(50))), []);
}

/// How long it was held back is a time of what it answers (`ACK-5`), not of what was taken long before.
#[test]
fn the_answer_to_what_is_not_taken_was_not_held_back() {
    for (profile, number) in [(&Profile::VMMC2, 3), (&Profile::DEFAULT, 1)] {
        let (mut real, mut peer) = listening(profile);
        let frame = peer.message(NONE, None, 0, b"x");
        real.hear(&peer, &frame);
        real.pass(Span::ms(5));
        // Out of turn, or again.
        peer.sequence = number;
        let frame = peer.message(NONE, None, 0, b"x");
        real.hear(&peer, &frame);
        let said = of_kind(&real.speak(), Kind::Ack);
        assert_eq!(said.len(), 1, "{}", profile.name);
        assert_eq!(
            (said[0].header.sequence.0, said[0].header.word),
            (number, 0),
            "{}",
            profile.name
        );
    }
}

#[test]
fn every_collection_is_acknowledged_at_once() {
    let (mut real, mut peer) = listening(&Profile::DEFAULT);
    let collection = Profile::DEFAULT.collection;
    for round in 1..=3 {
        for i in 1..=collection {
            assert_eq!(acks(&real.speak()), [], "after {} of {collection}", i - 1);
            let frame = peer.message(NONE, None, 0, b"x");
            real.hear(&peer, &frame);
        }
        assert_eq!(acks(&real.speak()), [(1 + round * collection, 0)]);
    }
    // One more begins another.
    let frame = peer.message(NONE, None, 0, b"x");
    real.hear(&peer, &frame);
    assert_eq!(acks(&real.speak()), []);
    real.firmware.set_collection(2);
    let frame = peer.message(NONE, None, 0, b"x");
    real.hear(&peer, &frame);
    assert_eq!(acks(&real.speak()).len(), 1, "a node's collection can be changed while it runs");
}

#[test]
fn messages_are_counted_where_the_profile_counts_messages() {
    let (mut real, mut peer) = listening(&Profile::OPENMX);
    for i in 1..=4 {
        let frame = peer.message(Flags::LAST, None, 0, b"x");
        real.hear(&peer, &frame);
        assert_eq!(acks(&real.speak()).len(), usize::from(i == 4), "after {i}");
    }
}

#[test]
fn a_request_is_answered_at_once() {
    let (mut real, mut peer) = listening(&Profile::DEFAULT);
    for number in 2..6 {
        let frame = peer.message(Flags::ACK_REQUEST, None, 0, b"x");
        real.hear(&peer, &frame);
        assert_eq!(acks(&real.speak()), [(number, 0)]);
    }
}

#[test]
fn a_duplicate_is_answered_each_time() {
    let (mut real, mut peer) = listening(&Profile::DEFAULT);
    let frame = peer.message(NONE, None, 0, b"x");
    real.hear(&peer, &frame);
    real.pass(Span::us(100));
    for _ in 0..5 {
        real.hear(&peer, &frame);
        assert_eq!(acks(&real.speak()), [(2, 0)]);
    }
    assert_eq!(real.count(Counter::DropDuplicate), 5);
    assert_eq!(real.done.len(), 1);
}

#[test]
fn gaps_are_told_of_when_they_open_and_when_they_close() {
    let (mut real, mut peer) = listening(&Profile::DEFAULT);
    let frames: Vec<_> = (0..8).map(|_| peer.message(NONE, None, 0, b"x")).collect();
    // The first is missing: numbers 2 and 3 have come.
    real.hear(&peer, &frames[1]);
    assert_eq!(acks(&real.speak()), [(1, 0b1)], "a gap opens");
    real.hear(&peer, &frames[2]);
    assert_eq!(acks(&real.speak()), [], "it is the same gap");
    real.hear(&peer, &frames[4]);
    assert_eq!(acks(&real.speak()), [(1, 0b1011)], "another opens");
    real.hear(&peer, &frames[0]);
    assert_eq!(acks(&real.speak()), [(4, 0b1)], "the first closes");
    real.hear(&peer, &frames[3]);
    assert_eq!(acks(&real.speak()), [(6, 0)], "the second closes");
    real.hear(&peer, &frames[5]);
    assert_eq!(acks(&real.speak()), []);
    assert_eq!(real.done.len(), 6);
}

/// Data that goes back carries the acknowledgement, and it does not leave a second time (V18).
#[test]
fn data_that_goes_back_carries_it() {
    let (mut real, mut peer) = listening(&Profile::DEFAULT);
    for number in 2..5 {
        let frame = peer.message(NONE, None, 0, b"x");
        real.hear(&peer, &frame);
        real.send(&peer, 10);
        let said = real.speak();
        assert_eq!(kinds(&said), [Kind::Message]);
        assert!(said[0].header.flags.has(Flags::ACK));
        assert_eq!(said[0].header.acknowledge.0, number);
        let latest = said[0].header.sequence.0;
        real.hear(&peer, &peer.ack(latest + 1, latest, 0));
        assert_eq!(kinds(&real.pass(Span::ms(5))), []);
    }
    // What comes afterwards is owed anew.
    let frame = peer.message(NONE, None, 0, b"x");
    real.hear(&peer, &frame);
    assert_eq!(acks(&real.pass(Span::us(61))), [(5, 0)]);
}

/// A profile without selective acknowledgement says where the gap begins, and no more.
#[test]
fn bits_are_not_told_where_the_profile_has_none() {
    let profile = Profile { selective_acks: false, ..Profile::DEFAULT };
    let (mut real, mut peer) = listening(&profile);
    peer.sequence += 1;
    let frame = peer.message(NONE, None, 0, b"x");
    real.hear(&peer, &frame);
    assert_eq!(acks(&real.speak()), [(1, 0)]);
}
