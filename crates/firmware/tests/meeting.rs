//! Whom a node believes (`HELLO-2`, `EPOCH-3`): answers to its own questions, with their nonce and its epoch.

mod common;

use common::forge::*;
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
    next.epoch = peer.epoch.next();
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
