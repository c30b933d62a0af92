//! What a receiver grants to be sent unasked: whom it tells (`CREDIT-4`), and what its senders make of that (`CREDIT-5`).

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::{Ack, Flags, GRANT_UNBOUNDED, Kind, LinkAddress, Message, Pull};

const NONE: Flags = Flags(0);

/// The peer has all that was said so far, and grants so much.
fn grant(real: &mut Real, peer: &Forged, next: u32, bytes: u32) {
    let frame = peer.ack_granting(next, next.wrapping_sub(1), Some(bytes));
    real.hear(peer, &frame);
}

/// Sends a message; bytes of it that leave unasked, and of these at once. The number behind its frames is noted in `next`.
fn unasked(real: &mut Real, peer: &Forged, bytes: u64, next: &mut u32) -> (u64, u64) {
    real.send(peer, bytes);
    let said = real.speak();
    let first = of_kind(&said, Kind::Message).remove(0);
    let (message, payload) = Message::parse(first.header.flags, &first.body).unwrap();
    let more = of_kind(&said, Kind::Data);
    let at_once = payload.len() + more.iter().map(|said| said.body.len()).sum::<usize>();
    *next = said.iter().map(|said| said.header.sequence.0).max().unwrap() + 1;
    (message.long.map_or(bytes, |long| long.unscheduled_bytes.into()), at_once as u64)
}

#[test]
fn a_sender_sends_as_much_unasked_as_it_is_granted() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::met(2, &mut real);
    let mut next = 0;
    assert_eq!(unasked(&mut real, &peer, 50_000, &mut next), (50_000, 50_000));
    grant(&mut real, &peer, next, 4_096);
    // As much is under way at most, and the rest of it is pulled.
    let (whole, at_once) = unasked(&mut real, &peer, 50_000, &mut next);
    assert_eq!(whole, 4_096);
    assert!((1..=4_096).contains(&at_once), "{at_once} bytes left");
}

/// What fits a frame of the usual length leaves whatever is granted.
#[test]
fn a_message_of_one_frame_is_never_too_much() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::met(2, &mut real);
    let mut next = 0;
    unasked(&mut real, &peer, 50_000, &mut next);
    grant(&mut real, &peer, next, 1);
    assert_eq!(unasked(&mut real, &peer, 1_000, &mut next), (1_000, 1_000));
    grant(&mut real, &peer, next, GRANT_UNBOUNDED);
    assert_eq!(unasked(&mut real, &peer, 50_000, &mut next), (50_000, 50_000));
}

/// Who hears nothing more of it heeds it no longer.
#[test]
fn a_grant_is_forgotten_after_a_while() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::met(2, &mut real);
    let mut next = 0;
    unasked(&mut real, &peer, 50_000, &mut next);
    grant(&mut real, &peer, next, 4_096);
    real.pass(Span(limits::GRANT_LASTS.0 - 1_000));
    assert_eq!(unasked(&mut real, &peer, 50_000, &mut next).0, 4_096);
    grant(&mut real, &peer, next, 4_096);
    real.pass(limits::GRANT_LASTS);
    assert_eq!(unasked(&mut real, &peer, 50_000, &mut next).0, 50_000);
}

/// Messages of more than a window, so that something waits, of which a frame more has left since so little is granted; and the number behind the frames before
/// that one.
fn begun_and_bounded() -> (Real, Forged, u32) {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::met(2, &mut real);
    for _ in 0..4 {
        real.send(&peer, 60_000);
    }
    let said = real.speak();
    let next = said.iter().map(|said| said.header.sequence.0).max().unwrap() + 1;
    grant(&mut real, &peer, next, 2_048);
    let more = real.speak();
    assert_eq!(more.len(), 1, "{:?}", kinds(&more));
    (real, peer, next)
}

/// What was begun before is bounded as well: a frame at a time, and not one more until that is acknowledged.
#[test]
fn what_is_under_way_is_bounded_too() {
    let (mut real, peer, next) = begun_and_bounded();
    grant(&mut real, &peer, next + 1, GRANT_UNBOUNDED);
    assert!(real.speak().len() > 10);
}

/// What the receiver asks for goes on by the window, whatever is granted, although a message is under way beside it.
#[test]
fn what_was_asked_for_is_not_bounded() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let mut next = 0;
    real.send(&peer, 400_000);
    let said = real.speak();
    let first = of_kind(&said, Kind::Message).remove(0);
    let handle = Message::parse(first.header.flags, &first.body).unwrap().0.handle;
    next = said.iter().map(|said| said.header.sequence.0).max().unwrap().max(next) + 1;
    grant(&mut real, &peer, next, 2_048);
    // A short one, which nobody acknowledges.
    real.send(&peer, 100);
    assert_eq!(kinds(&real.speak()), [Kind::Message]);
    for block in 0..3 {
        let mut body = [0; emp_wire::PULL_BYTES];
        let offset = (60 << 10) * (1 + block);
        Pull { node: peer.node, offset, bytes: 60 << 10, pull: 3 + block as u16 }.emit(&mut body);
        let pull = peer.next(Kind::Pull, NONE, handle, &body);
        real.hear(&peer, &pull);
    }
    let there = of_kind(&real.speak(), Kind::Block).len() as u32;
    assert!((20..64).contains(&there), "{there} frames of blocks");
    // The grant is told again in the midst of that, and then they are there.
    grant(&mut real, &peer, next, 2_048);
    let frame = peer.ack(next, next + there, (1 << there) - 1);
    real.hear(&peer, &frame);
    let more = of_kind(&real.speak(), Kind::Block).len();
    assert!(more > 20, "{more} frames of blocks");
}

/// A train that had begun under a grant is as free as any once that is forgotten.
#[test]
fn what_began_under_a_grant_does_not_keep_it() {
    let (mut real, peer, next) = begun_and_bounded();
    real.pass(Span(limits::GRANT_LASTS.0 + 1_000_000));
    let frame = peer.ack(next + 1, next, 0);
    real.hear(&peer, &frame);
    assert!(real.speak().len() > 10);
}

/// A profile that stands for another system has no such credit.
#[test]
fn other_systems_know_no_grants() {
    let mut real = Real::new(&Profile::EMP2001);
    let peer = Forged::met(2, &mut real);
    let mut next = 0;
    unasked(&mut real, &peer, 50_000, &mut next);
    grant(&mut real, &peer, next, 2_048);
    assert_eq!(unasked(&mut real, &peer, 50_000, &mut next).0, 50_000);
}

/// An acknowledgement whose last item is cut is dropped and counted; it grants nothing.
#[test]
fn what_is_cut_is_dropped() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::met(2, &mut real);
    let mut next = 0;
    unasked(&mut real, &peer, 50_000, &mut next);
    let mut body = [0; emp_wire::ACK_BODY_BYTES_MAX];
    let bytes = Ack { node: peer.node, sack: [0; 4], grant: Some(2_048) }.emit(&mut body);
    let before = real.count(Counter::DropBodyShort);
    for cut in [bytes - 1, bytes - 4, bytes - 5] {
        let acknowledges = Forged { acknowledge: Some(next), ..Forged::new(2) };
        let frame = acknowledges.frame(Kind::Ack, NONE, next - 1, 0, &body[..cut]);
        real.hear(&peer, &frame);
    }
    assert_eq!(real.count(Counter::DropBodyShort), before + 3);
    grant(&mut real, &peer, next, GRANT_UNBOUNDED);
    assert_eq!(unasked(&mut real, &peer, 50_000, &mut next).0, 50_000);
}

/// Each of several senders is told its part at once; one or two are told nothing.
#[test]
fn a_receiver_tells_each_of_several_senders() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peers: Vec<_> = (0..16).map(|i| Forged::met(2 + i, &mut real)).collect();
    let mut told = vec![GRANT_UNBOUNDED; peers.len()];
    for (i, peer) in peers.iter_mut().enumerate() {
        real.receive(Selector::ANY, 60_000);
        let frame = peer.message(NONE, long(60_000, 60_000, 1_400), 0, &[0; 1_400]);
        real.hear(peer, &frame);
        for said in of_kind(&real.speak(), Kind::Ack) {
            if let Some(grant) = Ack::parse(&said.body).unwrap().grant {
                let to = (0..16).find(|i| said.to == LinkAddress::index(1_002 + i)).unwrap();
                told[to as usize] = grant;
            }
        }
        if i < 2 {
            assert!(told.iter().all(|grant| *grant == GRANT_UNBOUNDED), "{told:?}");
        }
    }
    let room = Profile::DEFAULT.unasked_bytes_max;
    let sum: u64 = told.iter().map(|grant| u64::from(*grant)).sum();
    assert!((room / 2..2 * room).contains(&sum), "{told:?}");
}
