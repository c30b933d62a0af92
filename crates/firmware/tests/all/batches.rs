//! What a host does with a batch: frames that name memory take it in, so that the memory may change before they have left.

use emp_firmware::*;
use emp_wire::{Header, Kind};

use crate::common::Memory;
use crate::common::forge::*;

/// What a frame is when it leaves.
fn gathered(batch: &TransmitBatch, index: usize, memory: &Memory) -> Vec<u8> {
    let mut bytes = batch.inline(index).to_vec();
    for segment in batch.frames()[index].segments() {
        bytes.extend_from_slice(&memory.0[segment.address as usize..][..segment.bytes as usize]);
    }
    assert_eq!(bytes.len(), batch.frames()[index].bytes());
    bytes
}

/// A batch with one frame, which names memory.
fn naming() -> (Real, Forged, TransmitBatch) {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::met(2, &mut real);
    let mut batch = TransmitBatch::new(MTU);
    real.send(&peer, 1_200);
    assert_eq!(real.firmware.poll_transmit(real.now, &mut real.memory, &mut batch), 1);
    assert!(!batch.frames()[0].segments().is_empty(), "it is worth no copy");
    (real, peer, batch)
}

#[test]
fn a_frame_that_took_its_memory_in_is_what_it_was() {
    let (mut real, peer, mut batch) = naming();
    let before = gathered(&batch, 0, &real.memory);
    assert!(batch.take_in(&real.memory));
    assert!(batch.frames()[0].segments().is_empty());
    real.memory.0.fill(0);
    assert_eq!(gathered(&batch, 0, &real.memory), before);
    assert!(batch.take_in(&real.memory), "there is nothing left to do");
    // What is added stands behind what was taken in.
    real.send(&peer, 5);
    assert_eq!(real.firmware.poll_transmit(real.now, &mut real.memory, &mut batch), 1);
    assert_eq!(gathered(&batch, 0, &real.memory), before);
    let next = gathered(&batch, 1, &real.memory);
    assert_eq!(Header::parse(&next).unwrap().0.kind, Kind::Message);
    assert!(!batch.take_in(&real.memory), "there are two");
}

#[test]
fn memory_that_cannot_be_read_is_not_taken_in() {
    let (real, _, mut batch) = naming();
    let before = gathered(&batch, 0, &real.memory);
    assert!(!batch.take_in(&Memory(Vec::new())));
    assert_eq!(gathered(&batch, 0, &real.memory), before, "it names what it did");
    assert!(!TransmitBatch::new(MTU).take_in(&real.memory), "there is no frame");
}
