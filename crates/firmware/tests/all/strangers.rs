//! Peers of which nobody knows whether they are there (`RESEND-7`): who is one, and who is none.

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::{Flags, HELLO_BODY_BYTES_MAX, Hello, Kind};

/// So many that what is resent to them is more than is paid for.
const STRANGERS: u64 = 2_000;

/// While many strangers are silent each of them is given up soon. Who answered a question, or acknowledged anything, is none, and has as long
/// as any peer.
#[test]
fn who_answered_or_acknowledged_is_no_stranger() {
    let mut real = Real::new(&Profile::DEFAULT);
    let acknowledge: Vec<_> = (10..30).map(|id| Forged::met(id, &mut real)).collect();
    for peer in &acknowledge {
        real.send(peer, 10);
        let sequence = real.speak().last().expect("it leaves").header.sequence.0;
        real.hear(peer, &peer.ack(sequence + 1, sequence, 0));
    }
    let strangers: Vec<_> = (0..STRANGERS).map(|i| Forged::met(100 + i, &mut real)).collect();
    let answer: Vec<_> = (30..50).map(Forged::new).collect();
    for peer in &answer {
        real.send(peer, 10);
        let asked = of_kind(&real.pass(Span::us(1)), Kind::Hello);
        let nonce = Hello::parse(&asked[0].body).unwrap().nonce;
        let mut body = [0; HELLO_BODY_BYTES_MAX];
        let bytes = Hello::new(peer.node, OWN, nonce, MTU as u16, "").emit(&mut body);
        real.hear(peer, &peer.frame(Kind::HelloReply, Flags(0), 0, 0, &body[..bytes]));
    }
    real.done.clear();
    for peer in strangers.iter().chain(&acknowledge) {
        real.send(peer, 10);
    }
    real.pass(Span::ms(1_500));
    let over = |peers: &[Forged]| {
        let over = |peer: &&Forged| real.done.iter().any(|end| end.peer == peer.node);
        peers.iter().filter(over).count()
    };
    // Once so many are given up there is enough for the others.
    assert!(over(&strangers) as u64 > STRANGERS / 2, "{} are given up", over(&strangers));
    assert_eq!((over(&acknowledge), over(&answer)), (0, 0));
}
