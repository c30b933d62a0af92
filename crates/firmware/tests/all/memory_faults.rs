//! Host memory that cannot be reached: the operation ends, whoever waits hears of it, each is counted, and the pool is whole again.

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::{Done, DoneStatus, Flags, Get, Kind, Message, Put};

const NONE: Flags = Flags(0);
const KEY: u64 = 4;
/// Bytes of the region that can be reached; the rest of it cannot.
const REACHED: u64 = 100;

/// A node with a region that ends beyond its memory, and a peer.
fn exporting() -> (Real, Forged) {
    let mut real = Real::new(&Profile::DEFAULT);
    let memory = Segment { address: MEMORY - REACHED, bytes: 100_000 };
    real.firmware.export_region(Some(KEY), memory, Rights::BOTH, 0).unwrap();
    let peer = Forged::met(2, &mut real);
    (real, peer)
}

/// The first frame of the peer's next put.
fn put(peer: &mut Forged, long: Option<emp_wire::LongPart>, payload: &[u8]) -> Vec<u8> {
    let put = Put { target: peer.target(KEY), long, immediate: None };
    let mut body = vec![0; Put::body_bytes_for(put.flags())];
    put.emit(&mut body);
    body.extend_from_slice(payload);
    let number = peer.number;
    peer.number += 1;
    peer.next(Kind::Put, put.flags(), number, &body)
}

/// How operations ended, as their initiator hears.
fn answers(real: &mut Real) -> Vec<DoneStatus> {
    let said = real.speak();
    of_kind(&said, Kind::Done).iter().map(|done| Done::parse(&done.body).unwrap().status).collect()
}

#[test]
fn a_put_of_one_frame() {
    let (mut real, mut peer) = exporting();
    let frame = put(&mut peer, None, &[7; REACHED as usize]);
    real.hear(&peer, &frame);
    assert_eq!(answers(&mut real), [DoneStatus::Complete]);
    assert_eq!(real.count(Counter::RefusedFault), 0);
    let frame = put(&mut peer, None, &[7; REACHED as usize + 1]);
    real.hear(&peer, &frame);
    assert_eq!(answers(&mut real), [DoneStatus::Fault]);
    assert_eq!(real.count(Counter::RefusedFault), 1);
    assert_eq!(real.count(Counter::PutsServed), 1);
}

#[test]
fn a_put_of_several_frames() {
    let (mut real, mut peer) = exporting();
    let frame = put(&mut peer, long(180, 180, 90), &[7; 90]);
    real.hear(&peer, &frame);
    assert_eq!(answers(&mut real), []);
    let frame = peer.next(Kind::Data, Flags::LAST, 1, &[7; 90]);
    real.hear(&peer, &frame);
    assert_eq!(answers(&mut real), [DoneStatus::Fault]);
    assert_eq!(real.count(Counter::RefusedFault), 1);
    assert!(!real.firmware.has_arrivals());
}

#[test]
fn a_put_that_waited_for_its_turn() {
    let (mut real, mut peer) = exporting();
    peer.number += 1;
    let frame = put(&mut peer, None, &[7; 1_200]);
    real.hear(&peer, &frame);
    assert_eq!(real.slots_used(), 3, "it waits in the pool");
    peer.number = 1;
    let frame = peer.message(Flags::VOID, None, 0, &[]);
    real.hear(&peer, &frame);
    assert_eq!(answers(&mut real), [DoneStatus::Fault]);
    assert_eq!(real.count(Counter::RefusedFault), 1);
    assert_eq!(real.slots_used(), 0, "and leaves it");
    assert!(!real.firmware.has_arrivals() && !real.firmware.is_receiving());
    // What comes after it is told of: nothing holds it back.
    peer.number = 3;
    real.receive(Selector::ANY, 10);
    let frame = peer.message(NONE, None, 0, b"after");
    real.hear(&peer, &frame);
    assert_eq!(real.done.len(), 1);
}

#[test]
fn a_get() {
    let (mut real, mut peer) = exporting();
    // Of what cannot be reached, and of what ends there.
    for offset in [REACHED, 50] {
        let target = emp_wire::Target { offset, ..peer.target(KEY) };
        let mut body = vec![0; emp_wire::GET_BYTES];
        Get { target, bytes: 1_000, pull: 3, fragment_bytes: 1_000 }.emit(&mut body);
        let frame = peer.next(Kind::Get, NONE, 0, &body);
        real.hear(&peer, &frame);
    }
    assert_eq!(answers(&mut real), [DoneStatus::Fault; 2]);
    assert_eq!(real.count(Counter::RefusedFault), 2);
}

#[test]
fn an_unexpected_message_that_is_handed_over() {
    let (mut real, mut peer) = exporting();
    let frame = peer.message(NONE, None, 0, &[7; 700]);
    real.hear(&peer, &frame);
    assert_eq!(real.slots_used(), 2);
    real.receive_at(Selector::ANY, MEMORY - 10, 700);
    assert_eq!(real.done.len(), 1);
    assert_eq!(real.done[0].status, Status::MemoryFault);
    assert_eq!(real.slots_used(), 0);
    assert!(!real.firmware.has_arrivals());
}

#[test]
fn an_unexpected_message_of_which_more_is_to_come() {
    let (mut real, mut peer) = exporting();
    let frame = peer.message(NONE, long(2_100, 2_100, 700), 0, &[7; 700]);
    real.hear(&peer, &frame);
    assert_eq!(real.slots_used(), 5);
    real.receive_at(Selector::ANY, MEMORY - 10, 2_100);
    assert_eq!((real.done.len(), real.done[0].status), (1, Status::MemoryFault));
    assert_eq!(real.slots_used(), 0);
    for place in 1..3 {
        let frame = peer.next(Kind::Data, NONE, place, &[7; 700]);
        real.hear(&peer, &frame);
    }
    assert_eq!(real.count(Counter::Refused), 2, "they are acknowledged and discarded");
    assert_eq!(real.done.len(), 1);
    assert!(!real.firmware.has_arrivals());
}

fn send_from(real: &mut Real, peer: &Forged, address: u64, bytes: u64, put: bool) {
    let segments = SegmentList::one(Segment { address, bytes });
    if put {
        let target =
            RemoteRegion { to: peer.node, to_endpoint: 0, key: KEY, generation: 0, offset: 0 };
        let completion = CompletionMode::Delivered;
        let put = PutDescriptor {
            target,
            endpoint: 0,
            segments,
            immediate: None,
            completion,
            context: 1,
        };
        real.firmware.post_put(real.now, put, &mut real.memory).unwrap();
        return;
    }
    let send = SendDescriptor {
        to: peer.node,
        endpoint: 0,
        to_endpoint: 0,
        match_bits: 0,
        segments,
        immediate: None,
        synchronous: false,
        completion: CompletionMode::Delivered,
        context: 1,
    };
    real.firmware.post_send(real.now, send, &mut real.memory).unwrap();
}

/// What cannot be read before anything of it has left ends alone: an empty message takes its number (`MSG-5`), and the pair goes on.
#[test]
fn what_cannot_be_read_from_the_beginning_ends_alone() {
    for put in [false, true] {
        let mut real = Real::new(&Profile::DEFAULT);
        let peer = Forged::met(2, &mut real);
        send_from(&mut real, &peer, MEMORY - 10, 100, put);
        real.send(&peer, 10);
        let said = of_kind(&real.speak(), Kind::Message);
        let void: Vec<_> = said.iter().map(|said| said.header.flags.has(Flags::VOID)).collect();
        assert_eq!(void, [true, false], "put {put}");
        assert_eq!(said[1].header.word, said[0].header.word + 1);
        let (message, payload) = Message::parse(said[0].header.flags, &said[0].body).unwrap();
        assert_eq!((message.long, payload.len()), (None, 0), "it has no bytes");
        let last = said[1].header.sequence.0;
        real.hear(&peer, &peer.ack(last + 1, last, 0));
        let mut ends: Vec<_> = real.done.iter().map(|end| (end.context, end.status)).collect();
        ends.sort_by_key(|(context, _)| *context);
        assert_eq!(ends, [(0, Status::Ok), (1, Status::MemoryFault)], "put {put}");
        assert_eq!(real.count(Counter::PeersLost), 0);
        assert_eq!(real.slots_used(), 0);
    }
}

/// The receiver of what cannot be read in the middle waits for bytes that will not come: the pair ends, so that both sides know.
#[test]
fn what_cannot_be_read_in_the_middle_ends_the_pair() {
    for put in [false, true] {
        let mut real = Real::new(&Profile::DEFAULT);
        let peer = Forged::met(2, &mut real);
        send_from(&mut real, &peer, MEMORY - 2_000, 4_000, put);
        let said = real.speak();
        assert!(!said.is_empty() && said.iter().all(|s| !s.header.flags.has(Flags::VOID)));
        let ends: Vec<_> = real.done.iter().map(|end| (end.context, end.status)).collect();
        assert_eq!(ends, [(1, Status::MemoryFault)], "put {put}");
        assert_eq!(real.count(Counter::PeersLost), 1, "put {put}");
        let sends = real.firmware.holdings().into_iter().find(|held| held.name == "sends");
        assert_eq!(sends.map(|held| held.held), Some(0), "put {put}: nothing of it stays behind");
    }
}
