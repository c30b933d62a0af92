//! What a node is told of its links' carriers (`RESEND-8`), as far as the simulator's `carrier` does not go: told more often than it
//! changes, and of links that lead elsewhere.

use emp_firmware::*;
use emp_wire::{Flags, HELLO_BODY_BYTES_MAX, Hello, Kind};

use crate::common::forge::*;

/// A node with two links that have nothing to do with each other, and a message under way to a peer on the first that says nothing more.
fn waiting() -> Real {
    let mut real = Real::over(&Profile::DEFAULT, vec![LinkInfo::new(MTU, true); 2]);
    let peer = Forged::met(2, &mut real);
    real.pass(Span::ms(1_500));
    real.send(&peer, 100);
    real
}

fn carrier(real: &mut Real, link: u8, there: bool) {
    real.firmware.set_carrier(real.now, LinkIndex(link), there);
}

/// Whether the peer has been given up.
fn is_over(real: &mut Real, after_ms: u64) -> bool {
    real.pass(Span::ms(after_ms));
    real.done.iter().any(|end| end.status == Status::Unreachable)
}

#[test]
fn a_carrier_that_is_told_of_again_and_again_is_away_since_the_first_time() {
    let mut real = waiting();
    for _ in 0..8 {
        carrier(&mut real, 0, false);
        assert!(!is_over(&mut real, 1_000));
    }
    for _ in 0..2 {
        carrier(&mut real, 0, true);
    }
    // Eight seconds are no silence: it has nearly all of the usual ten from here.
    assert!(!is_over(&mut real, 8_500));
    assert!(is_over(&mut real, 2_000));
}

#[test]
fn a_carrier_that_comes_back_excuses_those_alone_whom_it_leads_to() {
    let mut real = waiting();
    carrier(&mut real, 1, false);
    carrier(&mut real, 7, false);
    assert!(!is_over(&mut real, 8_000));
    carrier(&mut real, 1, true);
    carrier(&mut real, 7, true);
    assert!(is_over(&mut real, 3_500), "it was silent where it could have been heard");
}

/// Nobody looked for a while within an outage: that is excused once, not twice, whether it ends with a look at the time or with the carrier.
#[test]
fn an_absence_within_an_outage_is_excused_once() {
    for looks_first in [true, false] {
        let mut real = waiting();
        // It is silent for four seconds before either.
        assert!(!is_over(&mut real, 4_000));
        carrier(&mut real, 0, false);
        real.now = real.now + Span::ms(6_000);
        if looks_first {
            real.firmware.handle_timeout(real.now, &mut real.memory);
        }
        carrier(&mut real, 0, true);
        real.firmware.handle_timeout(real.now, &mut real.memory);
        assert!(!is_over(&mut real, 5_500), "{looks_first}");
        assert!(is_over(&mut real, 2_000), "{looks_first}");
    }
}

/// The same of a peer that was heard, and of which only a receive by name waits: what was put off is never in the future.
#[test]
fn an_absence_that_ends_with_the_carrier_gives_nobody_up() {
    let mut real = Real::over(&Profile::DEFAULT, vec![LinkInfo::new(MTU, true); 2]);
    let peer = Forged::met(2, &mut real);
    real.receive(Selector { from: peer.node, ..Selector::bits(7) }, 10);
    real.pass(Span::ms(1_500));
    carrier(&mut real, 0, false);
    real.pass(Span::ms(20));
    real.now = real.now + Span::ms(250);
    carrier(&mut real, 0, true);
    real.firmware.handle_timeout(real.now, &mut real.memory);
    assert!(!is_over(&mut real, 1_000), "{:?}", real.done);
}

/// What waits for a peer that was cut off for seconds leaves as soon as it shows itself again, or this node's own carrier is back, and not when
/// a timer that has backed off runs out (`PATH-12`).
#[test]
fn a_peer_that_is_back_is_not_kept_waiting() {
    // Steps of 20 ms until it sends the message again.
    let wait = |real: &mut Real| {
        let sends = |_: &u32| !of_kind(&real.pass(Span::ms(20)), Kind::Message).is_empty();
        (0..400).find(sends).expect("it tries on")
    };
    let cut_off = || {
        let mut real = Real::over(&Profile::DEFAULT, vec![LinkInfo::new(MTU, true); 2]);
        let peer = Forged::met(2, &mut real);
        real.send(&peer, 100);
        real.pass(Span::ms(4_000));
        wait(&mut real);
        let usual = wait(&mut real);
        (real, peer, usual)
    };
    let (mut real, peer, usual) = cut_off();
    let mut body = [0; HELLO_BODY_BYTES_MAX];
    let bytes = Hello::new(peer.node, OWN, 7, MTU as u16, "").emit(&mut body);
    real.hear(&peer, &peer.frame(Kind::Hello, Flags(0), 0, 0, &body[..bytes]));
    let after = wait(&mut real);
    assert!(after < usual / 4, "it has said hello: {after} of {usual} steps");
    let (mut real, _, usual) = cut_off();
    carrier(&mut real, 0, false);
    carrier(&mut real, 0, true);
    let after = wait(&mut real);
    assert!(after < usual / 4, "the carrier is back: {after} of {usual} steps");
}

/// Of links that nothing will cross soon: whoever is reached by another goes on being waited for, the others are not.
#[test]
fn who_is_cut_off_is_waited_for_no_longer() {
    let mut real = waiting();
    real.firmware.give_up_cut_off(real.now, |link| link == LinkIndex(1));
    assert!(!is_over(&mut real, 100), "it is reached by the first");
    carrier(&mut real, 0, false);
    real.firmware.give_up_cut_off(real.now, |link| link == LinkIndex(0));
    assert!(is_over(&mut real, 0), "it ends at once");
    // What is posted then ends likewise, once nobody can be looked for by any link; a receive from a peer that was met, too.
    real.done.clear();
    let (met, stranger) = (Forged::new(2), Forged::new(3));
    real.send(&met, 100);
    real.send(&stranger, 100);
    real.firmware.give_up_cut_off(real.now, |link| link == LinkIndex(0));
    real.pass(Span::ms(10));
    assert!(real.done.is_empty(), "the second link may lead there: {:?}", real.done);
    real.firmware.give_up_cut_off(real.now, |_| true);
    real.pass(Span::ms(10));
    let ended = real.done.iter().filter(|end| end.status == Status::NotFound).count();
    assert_eq!(ended, 2, "{:?}", real.done);
}

/// A receive from a peer of which nothing else is due ends with it; one from anybody waits on.
#[test]
fn a_receive_from_who_is_cut_off_ends() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::met(2, &mut real);
    let from = Selector { from: peer.node, ..Selector::bits(7) };
    let (of_it, of_anybody) = (real.receive(from, 10), real.receive(Selector::bits(8), 10));
    real.firmware.give_up_cut_off(real.now, |_| true);
    real.pass(Span::ms(10));
    let ended: Vec<_> = real.done.iter().map(|end| (end.op, end.status)).collect();
    assert_eq!(ended, [(of_it, Status::Unreachable)], "not {of_anybody:?}");
}
