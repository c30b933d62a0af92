//! Whom a node believes (`HELLO-2`, `EPOCH-3`): answers to its own questions, with their nonce and its epoch.

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::{Flags, HELLO_BODY_BYTES_MAX, Hello, Kind, LinkAddress, NodeId};

const NONE: Flags = Flags(0);

/// An answer to a hello.
fn reply(from: &Forged, target: NodeId, nonce: u64) -> Vec<u8> {
    let mut body = [0; HELLO_BODY_BYTES_MAX];
    let bytes = Hello::new(from.node, target, nonce, MTU as u16, "answers").emit(&mut body);
    from.frame(Kind::HelloReply, NONE, 0, 0, &body[..bytes])
}

fn nonce(said: &[Said]) -> u64 {
    Hello::parse(&of_kind(said, Kind::Hello).last().expect("it asks").body).unwrap().nonce
}

#[test]
fn an_answer_without_the_nonce_of_the_question_is_not_believed() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::new(2);
    real.send(&peer, 100);
    let asked = nonce(&real.pass(Span::us(1)));
    let liar = LinkAddress::index(66);
    let wrong = [asked ^ 1, asked.wrapping_add(1), !asked, 0, asked.swap_bytes()];
    for (i, nonce) in wrong.into_iter().enumerate() {
        real.hear_at(liar, &reply(&peer, OWN, nonce));
        assert_eq!(real.count(Counter::DropBadReply), i as u64 + 1);
        assert_eq!(real.firmware.route(peer.node), None);
        assert!(of_kind(&real.speak(), Kind::Message).is_empty());
    }
    // The right one for somebody else, or in the name of somebody else.
    real.hear_at(liar, &reply(&peer, NodeId(3), asked));
    real.hear_at(liar, &reply(&Forged::new(3), OWN, asked));
    assert_eq!(real.count(Counter::DropBadReply), wrong.len() as u64 + 2);
    assert_eq!(real.firmware.route(peer.node), None);

    real.hear(&peer, &reply(&peer, OWN, asked));
    assert_eq!(real.firmware.route(peer.node), Some((LinkIndex(0), peer.address())));
    assert_eq!(of_kind(&real.speak(), Kind::Message).len(), 1);
    // Said again from elsewhere it moves nothing: its question was answered.
    real.hear_at(liar, &reply(&peer, OWN, asked));
    assert_eq!(real.count(Counter::DropBadReply), wrong.len() as u64 + 3);
    assert_eq!(real.firmware.route(peer.node), Some((LinkIndex(0), peer.address())));
}

/// Who names himself carries the tag that fits (`FRAME-4`): what does not is dropped, whatever else is right.
#[test]
fn who_carries_the_tag_of_another_is_not_believed() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::new(2);
    real.send(&peer, 100);
    let asked = nonce(&real.pass(Span::us(1)));
    let mut hello = [0; HELLO_BODY_BYTES_MAX];
    let bytes = Hello::new(peer.node, OWN, 5, MTU as u16, "asks").emit(&mut hello);
    let question = peer.frame(Kind::Hello, NONE, 0, 0, &hello[..bytes]);
    for (frame, answers) in [(question, 1), (reply(&peer, OWN, asked), 0)] {
        let mut other = frame.clone();
        // The source tag is at bytes 8 to 11.
        other[9] ^= 0x10;
        let sum = emp_wire::begin_checksum(&mut other, emp_wire::Seed::CONTACT);
        emp_wire::store_checksum(&mut other, sum);
        let before = real.count(Counter::DropField);
        real.hear(&peer, &other);
        assert_eq!(real.count(Counter::DropField), before + 1);
        assert!(of_kind(&real.speak(), Kind::HelloReply).is_empty());
        assert_eq!(real.firmware.route(peer.node), None);
        real.hear(&peer, &frame);
        assert_eq!(of_kind(&real.speak(), Kind::HelloReply).len(), answers);
    }
    assert_eq!(real.firmware.route(peer.node), Some((LinkIndex(0), peer.address())));
}

#[test]
fn an_answer_to_an_earlier_epoch_of_ours_is_not_believed() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::new(2);
    real.send(&peer, 100);
    let asked = nonce(&real.pass(Span::us(1)));
    let mut frame = reply(&peer, OWN, asked);
    // The destination's check is at bytes 6 and 7.
    frame[6] ^= 0x40;
    let sum = emp_wire::begin_checksum(&mut frame, emp_wire::Seed::CONTACT);
    emp_wire::store_checksum(&mut frame, sum);
    real.hear(&peer, &frame);
    assert_eq!(real.count(Counter::DropBadReply), 1);
    assert_eq!(real.firmware.route(peer.node), None);
}

#[test]
fn a_pair_is_not_ended_by_an_answer_that_was_not_asked_for() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    real.receive(Selector::ANY, 2_000);
    let first = peer.message(NONE, long(2_000, 2_000, 1_000), 0, &[1; 1_000]);
    real.hear(&peer, &first);
    let mut next = Forged::new(2);
    next.epoch = emp_wire::Epoch::new(peer.epoch.0 ^ 0x5A5A_0000);
    // No question is open.
    real.hear(&next, &reply(&next, OWN, 0));
    // A frame from another epoch makes it ask, and its answer must have the nonce.
    let frame = next.message(NONE, None, 0, b"other");
    real.hear(&next, &frame);
    let asked = nonce(&real.speak());
    real.hear(&next, &reply(&next, OWN, asked ^ 2));
    assert_eq!(real.count(Counter::PeersRestarted), 0);
    assert_eq!(real.count(Counter::DropStaleSource), 1);
    // The pair goes on as it was.
    let rest = peer.next(Kind::Data, Flags::LAST, 1, &[1; 1_000]);
    real.hear(&peer, &rest);
    assert_eq!((real.done.len(), real.done[0].status), (1, Status::Ok));
    real.hear(&next, &reply(&next, OWN, asked));
    assert_eq!(real.count(Counter::PeersRestarted), 1);
}

#[test]
fn two_questions_have_two_nonces() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut seen = Vec::new();
    for id in 2..10 {
        let peer = Forged::new(id);
        real.send(&peer, 100);
        let asked = nonce(&real.pass(Span::us(1)));
        assert!(!seen.contains(&asked));
        seen.push(asked);
        real.hear(&peer, &reply(&peer, OWN, asked));
    }
    assert_eq!(real.count(Counter::DropBadReply), 0);
}

/// The inverse of splitmix64's finaliser, a mix that anyone can undo.
fn undo_mix(mixed: u64) -> u64 {
    let z = mixed ^ mixed >> 31 ^ mixed >> 62;
    let z = z.wrapping_mul(0x3196_42b2_d24d_8ec3);
    let z = z ^ z >> 27 ^ z >> 54;
    let z = z.wrapping_mul(0x96de_1b17_3f11_9089);
    (z ^ z >> 30 ^ z >> 60).wrapping_sub(0x9e37_79b9_7f4a_7c15)
}

/// Who was asked once cannot make the nonce of a question to somebody else (`HELLO-2`): what two nonces of a node have in common is not
/// the same for every node, neither as they are nor with such a mix undone.
#[test]
fn a_nonce_tells_nothing_of_others() {
    assert_eq!(undo_mix(0xe220_a839_7b1d_cdaf), 0, "the first number of splitmix64 from 0");
    let asks = |seed: u64| {
        let mut real = Real::seeded(&Profile::DEFAULT, vec![LinkInfo::new(MTU, true)], seed);
        [2, 3].map(|id| {
            let peer = Forged::new(id);
            real.send(&peer, 100);
            let asked = nonce(&real.pass(Span::us(1)));
            real.hear(&peer, &reply(&peer, OWN, asked));
            asked
        })
    };
    for (one, other) in [(1, 2), (3, 1 << 63), (7, u64::MAX)] {
        let (a, b) = (asks(one), asks(other));
        for undo in [|nonce| nonce, undo_mix] {
            let between = |[first, second]: [u64; 2]| {
                let (first, second) = (undo(first), undo(second));
                (first ^ second, first.wrapping_sub(second))
            };
            let ((xor, difference), (other_xor, other_difference)) = (between(a), between(b));
            assert!(xor != other_xor && difference != other_difference);
        }
    }
}

/// A hello for this node, or for everyone, is answered; one for another node is not, whatever its tag says.
#[test]
fn hellos_for_others_are_not_answered() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::new(2);
    for (target, answers) in [(OWN, 1), (NodeId::ANY, 1), (NodeId(55), 0)] {
        let mut body = [0; HELLO_BODY_BYTES_MAX];
        let bytes = Hello::new(peer.node, target, 8, MTU as u16, "asks").emit(&mut body);
        real.hear(&peer, &peer.frame(Kind::Hello, NONE, 0, 0, &body[..bytes]));
        assert_eq!(of_kind(&real.speak(), Kind::HelloReply).len(), answers, "{target:?}");
    }
    assert_eq!(real.count(Counter::DropHello), 1);
}

/// Stale frames make a node ask, but not more often than once a millisecond (`HELLO_INTERVAL`).
#[test]
fn stale_frames_do_not_make_a_node_flood() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::met(2, &mut real);
    let mut stale = Forged::new(2);
    stale.epoch = peer.epoch.next();
    let mut asked = 0;
    for i in 0..500u64 {
        let frame = stale.message(NONE, None, 0, b"stale");
        real.hear(&stale, &frame);
        asked += of_kind(&real.speak(), Kind::Hello).len() as u64;
        // The clock that it goes by has whole milliseconds.
        assert!(asked <= 2 + i / 50, "{asked} hellos in {} µs", i * 20);
        real.now = real.now + Span::us(20);
    }
    assert!(asked >= 9, "but it asks: {asked}");
    assert_eq!(real.count(Counter::DropStaleSource), 500);
}

/// A frame for an earlier incarnation of ours is dropped, and its sender hears of this one (`EPOCH-3`).
#[test]
fn frames_for_an_earlier_incarnation_are_dropped_and_answered() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    real.receive(Selector::ANY, 10);
    let mut frame = peer.message(NONE, None, 0, b"x");
    frame[6] ^= 0x40;
    real.now = real.now + Span::ms(2);
    real.hear(&peer, &frame);
    assert_eq!(real.count(Counter::DropStaleDestination), 1);
    assert_eq!(kinds(&real.speak()), [Kind::Hello]);
    assert!(real.done.is_empty());
}

/// Who gives a peer up by itself speaks in another epoch to it from then on (`EPOCH-4`).
#[test]
fn a_pair_that_was_given_up_begins_in_another_epoch() {
    let profile = Profile { unreachable_after: Span::ms(500), ..Profile::DEFAULT };
    let mut real = Real::new(&profile);
    let mut peer = Forged::met(2, &mut real);
    real.send(&peer, 100);
    real.pass(Span::ms(800));
    assert_eq!((real.done.len(), real.done[0].status), (1, Status::Unreachable));
    real.send(&peer, 100);
    let hello = of_kind(&real.pass(Span::us(1)), Kind::Hello).remove(0);
    assert_eq!(hello.header.source_epoch, OWN_EPOCH.next());
    // Frames of the old pair are not taken any more.
    let taken = real.count(Counter::FramesReceived);
    let frame = peer.message(NONE, None, 0, b"old");
    real.hear(&peer, &frame);
    assert_eq!(real.count(Counter::FramesReceived), taken);
    assert_eq!(real.count(Counter::DropStaleDestination), 1);
}

/// A peer that owes data and says nothing is asked whether it lives, long before it is given up (`RESEND-3`).
#[test]
fn a_silent_peer_that_owes_data_is_asked() {
    let profile = Profile { unreachable_after: Span::ms(500), ..Profile::DEFAULT };
    let mut real = Real::new(&profile);
    let mut peer = Forged::met(2, &mut real);
    real.receive(Selector::ANY, 2_000);
    let frame = peer.message(NONE, long(2_000, 2_000, 1_000), 0, &[1; 1_000]);
    real.hear(&peer, &frame);
    let said = real.pass(Span::ms(240));
    let asked = of_kind(&said, Kind::Hello);
    assert!(asked.iter().any(|hello| hello.to == peer.address()), "{:?}", kinds(&said));
    assert!(real.done.is_empty());
    real.pass(Span::ms(700));
    assert_eq!((real.done.len(), real.done[0].status), (1, Status::Unreachable));
}

/// A peer on the same machine is met by what answers first, and reached through memory as soon as it answers there (`PATH-6`).
#[test]
fn memory_is_preferred_whichever_answers_first() {
    let (wire, memory) = (LinkIndex(0), LinkIndex(1));
    for memory_first in [false, true] {
        let links = vec![LinkInfo::new(MTU, true), LinkInfo::new(MTU, true)];
        let mut real = Real::over(&Profile::DEFAULT, links);
        let peer = Forged::new(2);
        real.send(&peer, 100);
        let asked = nonce(&real.pass(Span::us(1)));
        let answer = reply(&peer, OWN, asked);
        let mut ways = [(wire, peer.address()), (memory, LinkAddress::shm(77))];
        if memory_first {
            ways.reverse();
        }
        for (link, from) in ways {
            let Real { firmware, memory, now, .. } = &mut real;
            firmware.handle_frame(*now, link, from, &answer, memory);
        }
        real.collect();
        assert_eq!(real.firmware.route(peer.node), Some((memory, LinkAddress::shm(77))));
        let said = real.speak();
        assert_eq!(of_kind(&said, Kind::Message)[0].to, LinkAddress::shm(77));
    }
}
