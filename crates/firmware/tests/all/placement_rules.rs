//! Where payload goes, and what is told of it when.

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::{DoneStatus, Flags, Kind, Message, NotReadyCause, Pull, Put};

const NONE: Flags = Flags(0);

fn pattern(seed: u32, bytes: u32) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + seed * 31 + (i >> 8)) as u8).collect()
}

/// Frames of a train are taken at their place and length only; and of two trains under way each by its own first frame.
#[test]
fn each_frame_of_a_train_has_its_place() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let bytes = [pattern(1, 2_500), pattern(2, 2_500)];
    let mut trains = Vec::new();
    for (i, bytes) in bytes.iter().enumerate() {
        real.receive_at(Selector::bits(i as u64), INTO + 10_000 * i as u64, 2_500);
        let first = peer.sequence;
        let mut frames =
            vec![peer.message(NONE, long(2_500, 2_500, 1_000), i as u64, &bytes[..1_000])];
        frames.push(peer.next(Kind::Data, NONE, 1, &bytes[1_000..2_000]));
        frames.push(peer.next(Kind::Data, Flags::LAST, 2, &bytes[2_000..]));
        trains.push((first, frames));
    }
    for (_, frames) in &trains {
        real.hear(&peer, &frames[0]);
    }
    let first = trains[0].0;
    let bad = [
        peer.frame(Kind::Data, NONE, first + 1, 1, &[0; 999]),
        peer.frame(Kind::Data, NONE, first + 1, 1, &[0; 1_001]),
        peer.frame(Kind::Data, NONE, first + 2, 2, &[0; 1_000]),
        peer.frame(Kind::Data, NONE, first + 2, 2, &[0; 499]),
    ];
    for (i, frame) in bad.iter().enumerate() {
        real.hear(&peer, frame);
        assert_eq!(real.count(Counter::DropBadPlace), i as u64 + 1);
    }
    for place in [2, 1] {
        for (_, frames) in &trains {
            real.hear(&peer, &frames[place]);
        }
    }
    assert_eq!(real.done.len(), 2);
    for (i, bytes) in bytes.iter().enumerate() {
        assert!(real.bytes(INTO + 10_000 * i as u64, 2_500) == *bytes, "message {i}");
    }
}

/// What was posted after a put is not told of before the put is in its region (`PUT-4`).
#[test]
fn a_message_behind_a_put_is_told_of_when_the_put_is_there() {
    let mut real = Real::new(&Profile::DEFAULT);
    let memory = Segment { address: INTO, bytes: 10_000 };
    real.firmware.export_region(Some(4), memory, Rights::REMOTE_WRITE, 0).unwrap();
    let mut peer = Forged::met(2, &mut real);
    real.receive_at(Selector::ANY, INTO + 20_000, 10);
    let put = Put { target: peer.target(4), long: long(200, 200, 100), immediate: None };
    let mut body = vec![0; Put::body_bytes_for(put.flags())];
    put.emit(&mut body);
    body.extend_from_slice(&[1; 100]);
    let number = peer.number;
    peer.number += 1;
    let first = peer.next(Kind::Put, put.flags(), number, &body);
    let rest = peer.next(Kind::Data, Flags::LAST, 1, &[2; 100]);
    let message = peer.message(NONE, None, 0, b"all there");
    real.hear(&peer, &first);
    real.hear(&peer, &message);
    assert!(real.done.is_empty(), "the put is not there yet");
    real.hear(&peer, &rest);
    assert_eq!(real.done.len(), 1);
    assert_eq!(real.bytes(INTO + 100, 100), [2; 100]);
}

/// The handle of a message, as its first frame names it.
fn handle(said: &[Said]) -> u32 {
    let first = of_kind(said, Kind::Message).remove(0);
    Message::parse(first.header.flags, &first.body).unwrap().0.handle
}

fn pull(peer: &mut Forged, handle: u32, offset: u64, bytes: u32) -> Vec<u8> {
    let mut body = vec![0; emp_wire::PULL_BYTES];
    Pull { node: peer.node, offset, bytes, pull: 3 }.emit(&mut body);
    peer.next(Kind::Pull, NONE, handle, &body)
}

/// A pull reaches what is in its message, and messages to the peer that asks.
#[test]
fn a_pull_reaches_no_further_than_its_message() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let mut third = Forged::met(3, &mut real);
    let total = 200_000;
    real.send(&peer, total);
    let said = real.speak();
    let handle = handle(&said);
    let last = said.last().unwrap().header.sequence.0;
    real.hear(&peer, &peer.ack(last + 1, last, 0));
    real.speak();
    for (i, (offset, bytes)) in
        [(total, 1), (total - 10, 11), (u64::MAX, 1), (u64::MAX - 5, 100)].into_iter().enumerate()
    {
        let frame = pull(&mut peer, handle, offset, bytes);
        real.hear(&peer, &frame);
        assert_eq!(real.count(Counter::DropBadPlace), i as u64 + 1, "{bytes} from {offset}");
    }
    let frame = pull(&mut third, handle, 0, 10);
    real.hear(&third, &frame);
    assert_eq!(real.count(Counter::DropBadHandle), 1);
    assert!(of_kind(&real.speak(), Kind::Block).is_empty());
    let frame = pull(&mut peer, handle, total - 10, 10);
    real.hear(&peer, &frame);
    let blocks = of_kind(&real.speak(), Kind::Block);
    assert_eq!(blocks.len(), 1);
    assert_eq!(blocks[0].body, real.bytes(total - 10, 10));
}

/// A receiver pulls what its buffer holds, not what the message has (`MSG-4`).
#[test]
fn no_more_is_pulled_than_fits_the_receive() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    real.receive(Selector::ANY, 1_000);
    let frame = peer.message(NONE, long(50_000, 0, 1_400), 0, &[]);
    real.hear(&peer, &frame);
    let pulls: Vec<Pull> = of_kind(&real.speak(), Kind::Pull).iter().map(Said::pull).collect();
    assert_eq!(
        pulls.iter().map(|pull| (pull.offset, pull.bytes)).collect::<Vec<_>>(),
        [(0, 1_000)]
    );
    let frame = peer.block(pulls[0].pull, 0, &[9; 1_000]);
    real.hear(&peer, &frame);
    assert_eq!((real.done[0].status, real.done[0].bytes), (Status::Truncated, 1_000));
}

fn done(peer: &mut Forged, handle: u32, status: DoneStatus) -> Vec<u8> {
    let mut body = vec![0; emp_wire::DONE_BYTES];
    emp_wire::Done { node: peer.node, status }.emit(&mut body);
    peer.next(Kind::Done, NONE, handle, &body)
}

/// A message that its receiver says it has is over when its frames are acknowledged too: until then they may be resent.
#[test]
fn done_is_not_the_end_before_the_frames_are_acknowledged() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    real.send(&peer, 200_000);
    let said = real.speak();
    let frame = done(&mut peer, handle(&said), DoneStatus::Complete);
    real.hear(&peer, &frame);
    assert!(real.done.is_empty());
    let last = said.last().unwrap().header.sequence.0;
    real.hear(&peer, &peer.ack(last + 1, last, 0));
    assert_eq!((real.done.len(), real.done[0].status), (1, Status::Ok));
}

/// A receiver that keeps a message's place pulls it: that says as much as its `not-ready`, which may have been lost (`READY-1`).
#[test]
fn a_pull_of_what_was_sent_whole_says_that_it_was_kept() {
    for told in [false, true] {
        let mut real = Real::new(&Profile::DEFAULT);
        let mut peer = Forged::met(2, &mut real);
        real.send(&peer, 3_000);
        let said = real.speak();
        let (first, handle) = (said[0].header, handle(&said));
        if told {
            let (number, sequence) = (first.word, first.sequence.0);
            let frame = peer.not_ready(number, sequence, NotReadyCause::NoRoom, 0);
            real.hear(&peer, &frame);
        }
        let frame = pull(&mut peer, handle, 0, 3_000);
        real.hear(&peer, &frame);
        let after = real.speak();
        let blocks = of_kind(&after, Kind::Block);
        let bytes: Vec<u8> = blocks.iter().flat_map(|block| block.body.clone()).collect();
        assert!(bytes == real.bytes(0, 3_000), "told {told}: {:?}", kinds(&after));
        let last = after.iter().map(|s| s.header.sequence.0).max().unwrap();
        real.hear(&peer, &peer.ack(last + 1, last, 0));
        assert!(real.done.is_empty(), "its receiver has not said that it has it");
        let frame = done(&mut peer, handle, DoneStatus::Complete);
        real.hear(&peer, &frame);
        assert_eq!((real.done.len(), real.done[0].status), (1, Status::Ok));
    }
}

/// Of two copies of a message the train of the later one goes on, whichever is heard first: the other was withdrawn. A copy that is cut
/// otherwise is not that message's.
#[test]
fn of_two_copies_of_a_message_the_later_train_goes_on() {
    let bytes = pattern(3, 2_500);
    for (later_first, alike) in [(false, true), (true, true), (false, false)] {
        let mut real = Real::new(&Profile::DEFAULT);
        let mut peer = Forged::met(2, &mut real);
        real.receive(Selector::ANY, 2_500);
        let number = peer.number;
        let train = |peer: &mut Forged, unscheduled: u32| {
            peer.number = number;
            let parts = long(2_500, unscheduled, 1_000);
            [
                peer.message(NONE, parts, 9, &bytes[..1_000]),
                peer.next(Kind::Data, NONE, 1, &bytes[1_000..2_000]),
                peer.next(Kind::Data, Flags::LAST, 2, &bytes[2_000..]),
            ]
        };
        let former = train(&mut peer, 2_500);
        let later = train(&mut peer, if alike { 2_500 } else { 1_000 });
        let mut firsts = [&former[0], &later[0]];
        if later_first {
            firsts.reverse();
        }
        firsts.into_iter().for_each(|first| real.hear(&peer, first));
        assert_eq!(real.done, []);
        let goes_on = if alike { &later } else { &former };
        goes_on[1..].iter().for_each(|frame| real.hear(&peer, frame));
        let ends: Vec<_> = real.done.iter().map(|end| (end.status, end.bytes)).collect();
        assert_eq!(ends, [(Status::Ok, 2_500)], "later first {later_first}, alike {alike}");
        assert!(real.bytes(INTO, 2_500) == bytes);
    }
}

/// The host of a put's target is told at the endpoint that the put names, and at the region's if nobody has opened that.
#[test]
fn a_put_is_told_of_at_an_endpoint_that_is_open() {
    let mut real = Real::new(&Profile::DEFAULT);
    let memory = Segment { address: INTO, bytes: 100 };
    let (region_endpoint, named, closed) = (7, 3, 5);
    for endpoint in [region_endpoint, named] {
        real.firmware.open_endpoint(endpoint).unwrap();
    }
    real.firmware.export_region(Some(4), memory, Rights::REMOTE_WRITE, region_endpoint).unwrap();
    let mut peer = Forged::met(2, &mut real);
    for (to, told) in [(named, named), (closed, region_endpoint)] {
        let target = emp_wire::Target { destination_endpoint: to, ..peer.target(4) };
        let put = Put { target, long: None, immediate: Some(9) };
        let mut body = vec![0; Put::body_bytes_for(put.flags())];
        put.emit(&mut body);
        body.extend_from_slice(&[1; 8]);
        let number = peer.number;
        peer.number += 1;
        let frame = peer.next(Kind::Put, put.flags(), number, &body);
        real.hear(&peer, &frame);
        let end = real.done.last().map(|end| (end.op.kind(), end.context));
        assert_eq!(end, Some((OpKind::Notified, told.into())), "for {to}");
    }
}
