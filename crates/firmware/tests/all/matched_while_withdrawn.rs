//! A receiver says once that it has matched a message (`DONE-1`). If its sender has taken the frames back by then, to send them anew (`READY-2`,
//! `LONG-7`), what the receiver has of it may be the first frame only.

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::{DONE_BYTES, Done, DoneStatus, Flags, Kind, NotReadyCause};

/// Four frames, which leave unasked.
const BYTES: u64 = 5_000;

/// A node that has sent a synchronous message, and its frames.
fn sent() -> (Real, Forged, Vec<Said>) {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::met(2, &mut real);
    let send = SendDescriptor {
        to: peer.node,
        endpoint: 0,
        to_endpoint: 0,
        match_bits: 9,
        segments: SegmentList::one(Segment { address: 0, bytes: BYTES }),
        immediate: None,
        synchronous: true,
        completion: CompletionMode::Delivered,
        context: 0,
    };
    real.firmware.post_send(real.now, send, &mut real.memory).unwrap();
    let said = real.speak();
    assert_eq!(kinds(&said), [Kind::Message, Kind::Data, Kind::Data, Kind::Data]);
    (real, peer, said)
}

/// The copy whose first frame this is has no room, says the peer.
fn refuse(real: &mut Real, peer: &Forged, first: &Said) {
    let (number, sequence) = (first.header.word, first.header.sequence.0);
    real.hear(peer, &peer.not_ready(number, sequence, NotReadyCause::Full, 0));
}

/// It has matched another copy of it.
fn matched(real: &mut Real, peer: &mut Forged, first: &Said) {
    let message = emp_wire::Message::parse(first.header.flags, &first.body).unwrap().0;
    let mut body = vec![0; DONE_BYTES];
    Done { node: peer.node, status: DoneStatus::Matched }.emit(&mut body);
    let done = peer.next(Kind::Done, Flags::default(), message.handle, &body);
    real.hear(peer, &done);
}

/// The peer acknowledges all that has left so far, as often as something leaves; gives all of that.
fn acknowledged(real: &mut Real, peer: &Forged) -> Vec<Said> {
    let mut all = Vec::new();
    for _ in 0..20 {
        let said = real.pass(Span::us(100));
        let last = said.iter().rev().find(|said| said.kind().sequenced());
        if let Some(last) = last.map(|said| said.header.sequence.0) {
            real.hear(peer, &peer.ack(last + 1, last, 0));
        }
        all.extend(said);
    }
    all
}

/// All of the message has left again, and then it has ended, once.
fn is_sent_again(real: &Real, first: &Said, said: &[Said]) {
    let again = of_kind(said, Kind::Message);
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].header.word, first.header.word, "its number stays");
    assert_eq!(of_kind(said, Kind::Data).len(), 3);
    assert_eq!(real.done.iter().map(|done| done.status).collect::<Vec<_>>(), [Status::Ok]);
    assert!(real.firmware.is_drained());
}

#[test]
fn what_was_taken_back_is_sent_again_though_it_was_matched_meanwhile() {
    let (mut real, mut peer, said) = sent();
    refuse(&mut real, &peer, &said[0]);
    matched(&mut real, &mut peer, &said[0]);
    assert!(real.done.is_empty(), "it ended before its bytes had left again");
    let again = acknowledged(&mut real, &peer);
    is_sent_again(&real, &said[0], &again);
}

/// That it was matched is not said again.
#[test]
fn what_was_matched_and_is_then_taken_back_ends_when_it_is_acknowledged() {
    let (mut real, mut peer, said) = sent();
    matched(&mut real, &mut peer, &said[0]);
    refuse(&mut real, &peer, &said[0]);
    let again = acknowledged(&mut real, &peer);
    is_sent_again(&real, &said[0], &again);
}
