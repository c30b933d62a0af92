//! Peers that fall silent while they hold much: what they have is their part, and others go on (`SHARE-1`).

use std::time::{Duration, Instant};

use crate::common::forge::*;
use emp_firmware::limits::*;
use emp_firmware::*;
use emp_wire::{Atomic, AtomicOp, Datatype, Flags, Kind, NodeId};

fn region(of: NodeId) -> RemoteRegion {
    RemoteRegion { to: of, to_endpoint: 0, key: 1, generation: 0, offset: 0 }
}

fn get(real: &mut Real, from: NodeId, bytes: u64) -> Result<OpId, PostError> {
    let segments = SegmentList::one(Segment { address: INTO, bytes });
    let get = GetDescriptor { target: region(from), endpoint: 0, segments, context: from.0 };
    real.firmware.post_get(real.now, get, &mut real.memory)
}

/// How long the longest turn takes of those in which nothing is heard for so long.
fn longest_turn(real: &mut Real, ms: u64) -> Duration {
    let mut longest = Duration::ZERO;
    for _ in 0..ms / 5 {
        real.now = real.now + Span::ms(5);
        let began = Instant::now();
        real.firmware.handle_timeout(real.now, &mut real.memory);
        longest = longest.max(began.elapsed());
        real.speak();
    }
    longest
}

/// 96 peers of whom 512 gets each are asked fall silent, and are given up in one turn: that is no stall of the node, whose turn would grow with
/// the square of what they owe. (It took 2.6 s.)
#[test]
fn many_gets_of_silent_peers_end_in_a_moment() {
    const PEERS: u64 = 96;
    const GETS: u64 = 512;
    let mut real = Real::new(&Profile::DEFAULT);
    let peers: Vec<_> = (2..2 + PEERS).map(|id| Forged::met(id, &mut real)).collect();
    let mut posted = 0;
    for _ in 0..GETS {
        for peer in &peers {
            posted += usize::from(get(&mut real, peer.node, 8_000).is_ok());
        }
    }
    assert!(posted > 40_000, "{posted}");
    let longest = longest_turn(&mut real, 30_000);
    assert_eq!(real.done.len(), posted);
    assert!(real.done.iter().all(|done| done.status == Status::Unreachable));
    assert!(longest < Duration::from_millis(700), "{longest:?}");
}

/// 40 peers with as many gets as they may have, one after the other, and none answers: from the next one still as much is fetched as if it were
/// alone, but for its part of the table.
#[test]
fn what_silent_peers_owe_leaves_room_to_ask_others() {
    let mut real = Real::new(&Profile::DEFAULT);
    for id in 2..42 {
        let peer = Forged::met(id, &mut real);
        while get(&mut real, peer.node, 100).is_ok() {}
        real.pass(Span::ms(5));
    }
    let mut live = Forged::met(100, &mut real);
    for _ in 0..10 {
        get(&mut real, live.node, 100).unwrap();
    }
    let said = real.speak();
    let asked = of_kind(&said, Kind::Get);
    let asked: Vec<_> = asked.iter().filter(|said| said.to == live.address()).collect();
    assert_eq!(asked.len(), 10);
    for said in asked {
        let get = emp_wire::Get::parse(&said.body).unwrap();
        let frame = live.block(get.pull, 0, &[7; 100]);
        real.hear(&live, &frame);
    }
    let ended = real.done.iter().filter(|done| done.context == 100 && done.status == Status::Ok);
    assert_eq!(ended.count(), 10);
}

/// A peer that takes nothing has buffered sends until it has its part of the pool; others' are not refused.
#[test]
fn buffered_sends_to_a_silent_peer_leave_room_for_others() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut live = Forged::met(100, &mut real);
    for id in 2..34 {
        let silent = Forged::met(id, &mut real);
        let send = |real: &mut Real| real.send_with(&silent, 8_000, CompletionMode::Buffered);
        let mut posted = 0;
        while send(&mut real).is_ok() {
            posted += 1;
        }
        assert_eq!(send(&mut real), Err(PostError::PoolFull));
        assert!(posted >= 3, "{posted} to node {id}");
    }
    // All that one has under way is acknowledged, and it goes on for as long as it likes.
    for _ in 0..1_000 {
        real.send_with(&live, 8_000, CompletionMode::Buffered).unwrap();
        let said = real.speak();
        let last = said.iter().filter(|said| said.to == live.address() && said.kind().sequenced());
        if let Some(last) = last.map(|said| said.header.sequence.0).max() {
            live.acknowledge = Some(last + 1);
            let frame = live.ack(last + 1, last, 0);
            real.hear(&live, &frame);
        }
    }
    // Once they are given up, all of it is there again.
    real.pass(Span::ms(30_000));
    assert_eq!(real.slots_used(), 0);
}

/// A fetching atomic of one element.
fn fetch_add(peer: &mut Forged) -> Vec<u8> {
    let (operation, datatype) = (AtomicOp::Sum, Datatype::Uint64);
    let atomic = Atomic { target: peer.target(1), operation, datatype, count: 1 };
    let mut body = vec![0; emp_wire::ATOMIC_BYTES];
    atomic.emit(&mut body);
    body.extend_from_slice(&1u64.to_le_bytes());
    let number = peer.number;
    peer.number += 1;
    peer.next(Kind::Atomic, Flags::FETCH, number, &body)
}

/// Eight initiators acknowledge none of the answers to their fetching atomics, and go on until they are refused: each has its part of the
/// store, and those of others are executed.
#[test]
fn who_acknowledges_no_reply_leaves_room_for_others() {
    let mut real = Real::new(&Profile::DEFAULT);
    let memory = Segment { address: INTO, bytes: 4_096 };
    real.firmware.export_region(Some(1), memory, Rights::BOTH, 0).unwrap();
    for id in 2..10 {
        let mut silent = Forged::met(id, &mut real);
        let (served, refused) = (real.count(Counter::AtomicsServed), real.count(Counter::NotTaken));
        for _ in 0..REPLY_POOL_BYTES / POOL_SLOT_BYTES {
            if real.count(Counter::NotTaken) == refused {
                let frame = fetch_add(&mut silent);
                real.hear(&silent, &frame);
            }
        }
        let served = real.count(Counter::AtomicsServed) - served;
        assert!(served >= 256, "{served}: a window of them is no burden");
        assert_eq!(
            real.count(Counter::NotTaken),
            refused + 1,
            "there is room for all: this shows nothing"
        );
    }
    let mut live = Forged::met(100, &mut real);
    let before = real.count(Counter::AtomicsServed);
    for _ in 0..64 {
        let frame = fetch_add(&mut live);
        real.hear(&live, &frame);
    }
    assert_eq!(real.count(Counter::AtomicsServed), before + 64);
}
