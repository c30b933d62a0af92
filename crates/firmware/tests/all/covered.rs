//! What the checksum covers (`CRC-1`, `CRC-3`), and what a frame may name (`DIRECT-1`): seen by what changes nothing.

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::{
    Atomic, Flags, HEADER_BYTES, Kind, Largest, LongPart, Message, Put, emit_pieces, pieces_bytes,
};

const NONE: Flags = Flags(0);
const KEY: u64 = 4;

fn exporting() -> (Real, Forged) {
    let mut real = Real::new(&Profile::DEFAULT);
    let memory = Segment { address: INTO, bytes: 100_000 };
    real.firmware.export_region(Some(KEY), memory, Rights::BOTH, 0).unwrap();
    let peer = Forged::met(2, &mut real);
    (real, peer)
}

fn put(peer: &Forged, long: Option<LongPart>, immediate: Option<u64>) -> (Flags, Vec<u8>) {
    let put = Put { target: peer.target(KEY), long, immediate };
    let mut body = vec![0; Put::body_bytes_for(put.flags())];
    put.emit(&mut body);
    (put.flags(), body)
}

/// Each byte of `frame` before `fields_end` is changed in turn: none of these copies may be taken. Then the frame itself.
fn only_whole(real: &mut Real, peer: &Forged, frame: &[u8], fields_end: usize) {
    let before = (real.bytes(INTO, 2_000).to_vec(), real.done.len());
    for at in 0..fields_end {
        for bit in [0x01, 0x80] {
            let mut bad = frame.to_vec();
            bad[at] ^= bit;
            let (dropped, taken) =
                (real.firmware.counters().dropped(), real.count(Counter::FramesReceived));
            real.hear(peer, &bad);
            let what = format!("byte {at}, bit {bit:#x}");
            assert_eq!(real.count(Counter::FramesReceived), taken, "{what}");
            assert!(real.firmware.counters().dropped() > dropped, "{what}");
        }
    }
    assert!(before.0 == real.bytes(INTO, 2_000) && before.1 == real.done.len());
    let taken = real.count(Counter::FramesReceived);
    real.hear(peer, frame);
    assert_eq!(real.count(Counter::FramesReceived), taken + 1);
}

/// Where a put goes, how long it is, and what its target is told are under the checksum, whatever its payload is.
#[test]
fn the_fields_of_an_unchecked_put_are_covered() {
    for (long, immediate) in
        [(None, None), (None, Some(5)), (long(200, 100, 100), None), (long(200, 100, 100), Some(5))]
    {
        let (mut real, mut peer) = exporting();
        peer.unchecked = true;
        let (flags, mut body) = put(&peer, long, immediate);
        let fields_end = HEADER_BYTES + body.len();
        body.extend_from_slice(&[0xEE; 100]);
        let number = peer.number;
        let mut frame = peer.next(Kind::Put, flags, number, &body);
        // The payload is not: it was meant to be 0xEE everywhere, and nobody minds.
        frame[fields_end + 7] = 0x11;
        only_whole(&mut real, &peer, &frame, fields_end);
        assert_eq!(real.bytes(INTO + 6, 3), [0xEE, 0x11, 0xEE]);
    }
}

#[test]
fn the_fields_of_an_unchecked_message_are_covered() {
    for long in [None, long(200, 100, 100)] {
        let (mut real, mut peer) = exporting();
        peer.unchecked = true;
        real.receive(Selector::ANY, 1_000);
        let mut frame = peer.message(NONE, long, 5, &[0xEE; 100]);
        let fields_end = frame.len() - 100;
        frame[fields_end + 7] = 0x11;
        only_whole(&mut real, &peer, &frame, fields_end);
        assert_eq!(real.bytes(INTO + 6, 3), [0xEE, 0x11, 0xEE]);
    }
}

/// The operands of an atomic are fields: it is whole or nothing.
#[test]
fn all_of_an_atomic_is_covered() {
    let (mut real, mut peer) = exporting();
    peer.unchecked = true;
    let atomic = Atomic {
        target: peer.target(KEY),
        operation: AtomicOp::Write,
        datatype: Datatype::Uint64,
        count: 1,
    };
    let mut body = vec![0; emp_wire::ATOMIC_BYTES];
    atomic.emit(&mut body);
    body.extend_from_slice(&0xFEED_u64.to_le_bytes());
    let number = peer.number;
    let frame = peer.next(Kind::Atomic, NONE, number, &body);
    only_whole(&mut real, &peer, &frame, frame.len());
    assert_eq!(real.bytes(INTO, 8), 0xFEED_u64.to_le_bytes());
}

/// With the payload under the checksum nothing at all may change.
#[test]
fn all_of_a_checked_put_is_covered() {
    let (mut real, mut peer) = exporting();
    let (flags, mut body) = put(&peer, None, Some(5));
    body.extend_from_slice(&[0xEE; 100]);
    let number = peer.number;
    let frame = peer.next(Kind::Put, flags, number, &body);
    only_whole(&mut real, &peer, &frame, frame.len());
}

/// A frame of another machine may not name memory: neither a message nor a put in pieces (`DIRECT-1`).
#[test]
fn what_names_memory_is_dropped_on_a_wire() {
    let (mut real, mut peer) = exporting();
    real.receive(Selector::ANY, 1_000);
    let long =
        Some(LongPart { total_bytes: 64, unscheduled_bytes: 0, fragment_bytes: 9, pieces: 1 });
    let mut pieces = vec![0; pieces_bytes(1)];
    emit_pieces(3, [(4_096, 64)].into_iter(), &mut pieces);
    let message = Message {
        node: peer.node,
        source_endpoint: 0,
        destination_endpoint: 0,
        largest: Largest::from(MTU as u16),
        match_bits: 0,
        handle: 5,
        long,
        immediate: None,
    };
    let mut body = vec![0; message.body_bytes()];
    message.emit(&mut body);
    body.extend_from_slice(&pieces);
    let number = peer.number;
    let frame = peer.frame(Kind::Message, message.flags(), 1, number, &body);
    real.hear(&peer, &frame);
    assert_eq!(real.count(Counter::DropPieces), 1);

    for immediate in [None, Some(5)] {
        let (flags, mut body) = put(&peer, long, immediate);
        body.extend_from_slice(&pieces);
        let frame = peer.frame(Kind::Put, flags, 1, number, &body);
        real.hear(&peer, &frame);
    }
    assert_eq!(real.count(Counter::DropPieces), 3);
    assert_eq!(kinds(&real.pass(Span::ms(1))), [], "nothing was taken, nothing is pulled");
    assert!(!real.firmware.has_arrivals());
    // A put that names none is taken.
    let (flags, mut body) = put(&peer, None, None);
    body.extend_from_slice(&[0xEE; 10]);
    let frame = peer.next(Kind::Put, flags, number, &body);
    real.hear(&peer, &frame);
    assert_eq!(real.bytes(INTO, 10), [0xEE; 10]);
}
