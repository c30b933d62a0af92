//! Peers that are waited for, and peers that have ended as their hosts tell (`RESEND-3`, `RESEND-9`).

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::{Flags, Kind, NodeId};

const NONE: Flags = Flags(0);

/// As the faces have it.
fn patient() -> Profile {
    Profile { unreachable_after: Span::ms(120_000), ..Profile::DEFAULT }
}

fn events(real: &mut Real) -> Vec<NodeEvent> {
    std::iter::from_fn(|| real.firmware.poll_event()).collect()
}

fn silent(real: &mut Real) -> Vec<NodeId> {
    std::iter::from_fn(|| real.firmware.poll_silent()).collect()
}

fn statuses(real: &Real) -> Vec<Status> {
    real.done.iter().map(|done| done.status).collect()
}

/// A peer that is stopped for a minute and a half goes on where it was; it is asked for elsewhere as soon as one that is given up after 10 s.
#[test]
fn a_patient_node_waits_and_looks_for_other_ways_soon() {
    let mut real = Real::new(&patient());
    let mut peer = Forged::met(2, &mut real);
    real.send(&peer, 100);
    let said = real.pass(Span::ms(3_000));
    let everyone = emp_wire::LinkAddress::EVERYONE;
    let looked = said.iter().find(|said| said.kind() == Kind::Hello && said.to == everyone);
    let looked = looked.expect("it is looked for").at.since(said[0].at);
    assert!(looked >= Span::ms(2_500) && looked <= Span::ms(2_700), "{looked:?}");
    let said = real.pass(Span::ms(87_000));
    assert!(real.done.is_empty(), "{:?}", real.done);
    let resent = of_kind(&said, Kind::Message).len();
    assert!((40..2_000).contains(&resent), "{resent} copies in 87 s");
    let hellos = of_kind(&said, Kind::Hello).len();
    assert!(hellos < 2_500, "{hellos} hellos in 87 s");
    peer.acknowledge = Some(1);
    let frame = peer.ack(1, 0, 0);
    real.hear(&peer, &frame);
    assert_eq!(statuses(&real), [Status::Ok]);
    // The next silence is measured anew.
    real.send(&peer, 100);
    real.pass(Span::ms(119_000));
    assert_eq!(real.done.len(), 1);
    real.pass(Span::ms(2_000));
    assert_eq!(statuses(&real), [Status::Ok, Status::Unreachable]);
}

#[test]
fn who_has_ended_is_given_up_at_once() {
    let mut real = Real::new(&patient());
    let peer = Forged::met(2, &mut real);
    let other = Forged::met(3, &mut real);
    assert_eq!(silent(&mut real), []);
    real.send(&peer, 100);
    real.receive(Selector { from: peer.node, ..Selector::ANY }, 10);
    real.send(&other, 100);
    real.pass(Span::ms(100));
    let frame = other.ack(1, 0, 0);
    real.hear(&other, &frame);
    assert_eq!(silent(&mut real), [], "a moment is no silence");
    real.pass(Span::ms(400));
    assert_eq!(silent(&mut real), [peer.node], "of the other nothing is due");
    assert!(real.firmware.silence(real.now, peer.node) >= Some(Span::ms(400)));
    assert!(!real.firmware.has_silent());
    events(&mut real);
    assert!(real.firmware.peer_ended(real.now, peer.node));
    real.collect();
    assert_eq!(statuses(&real), [Status::Ok, Status::PeerEnded, Status::PeerEnded]);
    assert_eq!(events(&mut real), [NodeEvent::Ended(peer.node)]);
    assert_eq!(real.count(Counter::PeersLost), 1);
    // Nobody else is, and nobody unknown.
    assert!(!real.firmware.peer_ended(real.now, NodeId(77)));
    assert!(!real.firmware.peer_ended(real.now, OWN));
}

/// A peer that owes data, and no acknowledgement, is told of as well.
#[test]
fn who_is_only_waited_for_is_told_of_too() {
    let mut real = Real::new(&patient());
    let peer = Forged::met(2, &mut real);
    real.receive(Selector { from: peer.node, ..Selector::ANY }, 10);
    real.pass(Span::ms(1_300));
    assert_eq!(silent(&mut real), [peer.node]);
}

/// What is sent to a lost peer is over when it is delivered: a program that goes on sending hears that it is lost. And so does one that waits
/// for it by name.
#[test]
fn a_lost_peer_is_told_of_again() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    real.send_with(&peer, 100, CompletionMode::Auto).unwrap();
    assert_eq!(statuses(&real), [Status::Ok], "it was copied");
    real.pass(Span::ms(11_000));
    assert_eq!(statuses(&real), [Status::Ok, Status::Unreachable]);
    assert_eq!(real.done[1].op.kind(), OpKind::Undelivered);
    real.done.clear();
    let op = real.send_with(&peer, 100, CompletionMode::Auto).unwrap();
    assert_eq!(real.done, [], "nobody knows");
    // Its host may know sooner.
    real.pass(Span::ms(500));
    assert_eq!(silent(&mut real), [peer.node]);
    real.pass(Span::ms(11_000));
    assert_eq!(
        real.done.iter().map(|d| (d.op, d.status)).collect::<Vec<_>>(),
        [(op, Status::NotFound)]
    );
    real.done.clear();
    let op = real.receive(Selector { from: peer.node, ..Selector::ANY }, 10);
    real.pass(Span::ms(12_000));
    assert_eq!(
        real.done.iter().map(|d| (d.op, d.status)).collect::<Vec<_>>(),
        [(op, Status::NotFound)]
    );
    real.done.clear();
    // It comes again, and all is as it was.
    peer.sequence = 0;
    peer.number = 0;
    real.speak();
    let hello = peer.message(NONE, None, 0, b"x");
    real.hear(&peer, &hello);
    real.pass(Span::ms(10));
}
