//! Messages and puts of which only a part is here when their turn comes: what is missing shows nothing of what the pool held before.

use std::cell::Cell;
use std::rc::Rc;

use crate::common::{HALF, Memory, Pair, frames_of, give, ok, show};
use emp_firmware::*;
use emp_wire::{HEADER_BYTES, Header, Kind, NodeId};

const OLD: u8 = 0xEE;
const SENT: u8 = 0x11;
const UNTOUCHED: u8 = 0x77;

/// What is lost, of what leaves the first node.
#[derive(Clone, Copy, PartialEq)]
enum Lost {
    Nothing,
    /// One frame within each train.
    Data,
    /// The same, and each message's first frame.
    DataAndMessages,
}

/// A pair whose second node's pool has held other bytes.
fn with_old_bytes(memory_link: bool) -> (Pair, Rc<Cell<Lost>>) {
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.memory_link = memory_link;
    let lost = Rc::new(Cell::new(Lost::Nothing));
    let what = lost.clone();
    pair.drop = Box::new(move |from, frame| {
        let (header, _) = Header::parse(frame).unwrap();
        from == 0
            && match header.kind {
                Kind::Data => what.get() != Lost::Nothing && header.word == 3,
                Kind::Message => what.get() == Lost::DataAndMessages,
                _ => false,
            }
    });
    pair.nodes[0].memory.0.fill(OLD);
    for bits in 0..4 {
        pair.send(0, 2, bits, 60_000);
        pair.run(Span::ms(1));
    }
    for _ in 0..4 {
        pair.receive(1, Selector::ANY, HALF);
        pair.run(Span::ms(1));
    }
    assert_eq!(ok(&pair.nodes[1].done, OpKind::Receive), 4);
    pair.nodes[0].memory.0.fill(SENT);
    pair.nodes[1].memory.0.fill(UNTOUCHED);
    (pair, lost)
}

/// Of so many bytes those are here that were sent, and of the others none was written.
fn check(memory: &Memory, start: u64, bytes: usize, missing: usize) {
    let target = &memory.0[start as usize..][..bytes];
    let count = |byte| target.iter().filter(|b| **b == byte).count();
    assert_eq!(count(OLD), 0, "bytes of other messages");
    assert_eq!((count(SENT), count(UNTOUCHED)), (bytes - missing, missing));
}

const BYTES: u64 = 8_000;
/// Payload of a frame in the middle of a train.
const FRAGMENT: usize = 1500 - HEADER_BYTES;

#[test]
fn a_message_that_is_matched_half_arrived() {
    let (mut pair, lost) = with_old_bytes(false);
    lost.set(Lost::Data);
    pair.send(0, 2, 9, BYTES);
    pair.run(Span::ms(2));
    pair.receive(1, Selector::ANY, HALF);
    pair.run(Span::ms(2));
    check(&pair.nodes[1].memory, HALF, BYTES as usize, FRAGMENT);
    lost.set(Lost::Nothing);
    pair.run(Span::ms(500));
    assert_eq!(ok(&pair.nodes[1].done, OpKind::Receive), 5, "{}", show(&pair));
    check(&pair.nodes[1].memory, HALF, BYTES as usize, 0);
    pair.check_quiet();
}

#[test]
fn a_put_whose_turn_comes_half_arrived() {
    let (mut pair, lost) = with_old_bytes(false);
    let region = Segment { address: HALF, bytes: 1 << 20 };
    let target = &mut pair.nodes[1].firmware;
    target.export_region(Some(7), region, Rights::REMOTE_WRITE, 0).unwrap();
    lost.set(Lost::DataAndMessages);
    pair.send(0, 2, 9, 10);
    let put = PutDescriptor {
        endpoint: 0,
        target: RemoteRegion { to: NodeId(2), to_endpoint: 0, key: 7, generation: 0, offset: 100 },
        segments: SegmentList::one(Segment { address: 0, bytes: BYTES }),
        immediate: None,
        completion: CompletionMode::Auto,
        context: 0,
    };
    let node = &mut pair.nodes[0];
    node.firmware.post_put(pair.now, put, &mut node.memory).unwrap();
    pair.run(Span::ms(2));
    check(&pair.nodes[1].memory, HALF, 1 << 20, 1 << 20);
    // The message before it comes, and then it is its turn.
    lost.set(Lost::Data);
    pair.run(Span::ms(20));
    // Its last bytes are there only when all others are (`PUT-5`).
    let placed = BYTES as usize - FRAGMENT - 64;
    check(&pair.nodes[1].memory, HALF, 1 << 20, (1 << 20) - placed);
    lost.set(Lost::Nothing);
    pair.run(Span::ms(500));
    assert_eq!(ok(&pair.nodes[0].done, OpKind::Put), 1, "{}", show(&pair));
    check(&pair.nodes[1].memory, HALF, 1 << 20, (1 << 20) - BYTES as usize);
}

/// A frame of the train was withdrawn (`SEQ-5`): its number has come, its bytes have not.
#[test]
fn a_message_of_which_a_frame_was_withdrawn() {
    // What crosses memory has no sum: frames can be changed here.
    let (mut pair, _) = with_old_bytes(true);
    pair.send(0, 2, 9, BYTES);
    let mut train = frames_of(&mut pair, 0);
    assert_eq!(train.len(), 6);
    let (first, _) = Header::parse(&train[3]).unwrap();
    let skip = Header { kind: Kind::Skip, length: 0, word: 0, ..first };
    let sum: [u8; 4] = train[3][28..32].try_into().unwrap();
    train[3].truncate(HEADER_BYTES);
    skip.emit(train[3].first_chunk_mut().unwrap());
    train[3][28..32].copy_from_slice(&sum);
    for frame in &train[..5] {
        give(&mut pair, 1, frame);
    }
    pair.receive(1, Selector::ANY, HALF);
    let node = &pair.nodes[1];
    assert_eq!(node.firmware.counters().dropped(), 0, "{}", show(&pair));
    check(&node.memory, HALF, BYTES as usize, BYTES as usize);
}
