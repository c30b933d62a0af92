//! Bounds of `limits.rs`, each exceeded once: what is beyond is refused and told, what is within stays whole.

use crate::common::forge::*;
use crate::common::limits_told;
use emp_firmware::limits::*;
use emp_firmware::*;
use emp_wire::{
    Done, DoneStatus, Flags, Get, Kind, Message, NodeId, NotReadyCause, Pull, Put, SliceWord,
};

const NONE: Flags = Flags(0);

/// A node of which little may be outstanding.
const FEW: Profile = Profile { operations_max: 4_096, incoming_max: 4_096, ..Profile::DEFAULT };

/// Why messages were not taken, by number. As the protocol has it, a `skip` takes the place of each.
fn refusals(real: &mut Real, peer: &mut Forged) -> Vec<(u32, NotReadyCause)> {
    let said = of_kind(&real.speak(), Kind::NotReady);
    for one in &said {
        let skip = peer.frame(Kind::Skip, NONE, one.header.sequence.0, 0, &[]);
        real.hear(peer, &skip);
    }
    said.iter().map(|one| (one.header.word, one.not_ready().cause)).collect()
}

#[test]
fn messages_before_their_turn_are_bounded_by_peer() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    // Message 1 was refused once and is not here yet: those behind it wait for it.
    peer.number = 2;
    let beyond = 30;
    let mut refused = Vec::new();
    for i in 0..EARLY_MAX as u64 + beyond {
        assert_eq!(real.slots_used() as u64, i.min(EARLY_MAX as u64));
        let frame = peer.message(NONE, None, i, b"x");
        real.hear(&peer, &frame);
        refused.extend(refusals(&mut real, &mut peer));
    }
    let first = 2 + EARLY_MAX as u32;
    let wanted: Vec<_> = (first..first + beyond as u32).map(|n| (n, NotReadyCause::Full)).collect();
    assert_eq!(refused, wanted);
    assert_eq!(real.count(Counter::DropEarly), beyond);
    assert_eq!(real.slots_used(), EARLY_MAX);
    // What they waited for comes, and they have their turn.
    peer.number = 1;
    let frame = peer.message(NONE, None, 999, b"x");
    real.hear(&peer, &frame);
    for _ in 0..EARLY_MAX + 2 {
        real.receive(Selector::ANY, 1);
    }
    let bits: Vec<u64> = real.done.iter().map(|done| done.match_bits).collect();
    assert_eq!(bits, std::iter::once(999).chain(0..EARLY_MAX as u64).collect::<Vec<_>>());
    // And so has one that was refused.
    peer.number = first;
    let frame = peer.message(NONE, None, EARLY_MAX as u64, b"x");
    real.hear(&peer, &frame);
    assert_eq!(real.done.len(), EARLY_MAX + 2);
    assert_eq!(real.slots_used(), 0);
}

#[test]
fn messages_for_endpoints_that_are_not_open_are_bounded() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    for i in 0..WITHOUT_ENDPOINT_MAX {
        let frame = peer.message_for(5, NONE, None, i as u64, &[b'x'; 1000]);
        let number = peer.number - 1;
        real.hear(&peer, &frame);
        assert_eq!(refusals(&mut real, &mut peer), [(number, NotReadyCause::NoEndpoint)]);
    }
    // Of any peer.
    let mut other = Forged::met(3, &mut real);
    for _ in 0..3 {
        let frame = other.message_for(5, NONE, None, 0, b"x");
        real.hear(&other, &frame);
        assert_eq!(refusals(&mut real, &mut other), [(1, NotReadyCause::Full)]);
        other.number = 1;
    }
    assert_eq!(limits_told(&mut real.firmware), [(Limit::WithoutEndpoint, WITHOUT_ENDPOINT_MAX)]);
    // For one that is open there is room.
    real.receive(Selector::ANY, 1);
    let frame = other.message(NONE, None, 0, b"x");
    real.hear(&other, &frame);
    assert_eq!(real.done.len(), 1);
    assert_eq!(real.slots_used(), 0, "their bytes are not kept");
    // Once it is open they are all there, in order.
    real.firmware.open_endpoint(5).unwrap();
    let frame = other.message_for(5, NONE, None, 4_096, b"x");
    real.hear(&other, &frame);
    assert_eq!(refusals(&mut real, &mut other), []);
    for i in 0..=WITHOUT_ENDPOINT_MAX as u64 {
        let found = real.firmware.probe(5, Selector::ANY, true).expect("it was kept");
        assert_eq!(found.match_bits, i);
    }
    assert!(real.firmware.probe(5, Selector::ANY, true).is_none());
}

/// Unexpected messages leave an eighth of the table to those that a receive waits for, and another to peers that have few; those before their
/// turn leave half of it.
#[test]
fn unexpected_messages_leave_room_for_expected_ones() {
    let most = FEW.incoming_max;
    let mut real = Real::new(&FEW);
    let mut flood = Forged::met(2, &mut real);
    let mut early = Forged::met(3, &mut real);
    early.number += 1;
    let before_its_turn = |real: &mut Real, early: &mut Forged| {
        let frame = early.message(NONE, None, 0, &[]);
        real.hear(early, &frame);
        refusals(real, early).len()
    };
    let unexpected = most / 8 * 6;
    // One of them is the early one.
    assert_eq!(before_its_turn(&mut real, &mut early), 0);
    for i in 1..unexpected {
        if i == most / 2 {
            assert_eq!(before_its_turn(&mut real, &mut early), 1, "half is for those in turn");
        }
        let frame = flood.message(NONE, None, 1, &[]);
        real.hear(&flood, &frame);
    }
    assert_eq!(refusals(&mut real, &mut flood), []);
    let number = flood.number;
    let frame = flood.message(NONE, None, 1, &[]);
    real.hear(&flood, &frame);
    assert_eq!(refusals(&mut real, &mut flood), [(number, NotReadyCause::Full)]);
    assert_eq!(real.firmware.unexpected_so_far(), unexpected as u64 - 1);
    // Peers that have few have a part each of the next eighth.
    let part = most / 256 + 1;
    let mut held = unexpected;
    for id in 100.. {
        let mut other = Forged::met(id, &mut real);
        let left = (most / 8 * 7 - held).min(part);
        for _ in 0..left {
            let frame = other.message(NONE, None, 1, &[]);
            real.hear(&other, &frame);
        }
        assert_eq!(refusals(&mut real, &mut other), []);
        held += left;
        let frame = other.message(NONE, None, 1, &[]);
        real.hear(&other, &frame);
        assert_eq!(refusals(&mut real, &mut other).len(), 1, "it has its part");
        if left < part {
            break;
        }
    }
    // What a receive waits for is taken although it does not end at once, until the table is full.
    let mut wanted = Forged::met(4, &mut real);
    for i in held..most {
        real.receive(Selector::bits(2), 100);
        let frame = wanted.message(NONE, long(100, 50, 50), 2, &[]);
        real.hear(&wanted, &frame);
        assert!(!kinds(&real.speak()).contains(&Kind::NotReady), "{i}");
    }
    real.receive(Selector::bits(2), 100);
    let frame = wanted.message(NONE, long(100, 50, 50), 2, &[]);
    real.hear(&wanted, &frame);
    assert_eq!(of_kind(&real.speak(), Kind::NotReady).len(), 1);
    // One that is whole in its first frame needs no place.
    wanted.number -= 1;
    let frame = wanted.message(NONE, None, 2, &[]);
    real.hear(&wanted, &frame);
    assert_eq!(real.done.len(), 1);
}

/// A longer unexpected message than usual is kept while half of the pool is left to others, then only its place is
/// (`LONG-6`); those of the usual length have all of it.
#[test]
fn long_unexpected_messages_leave_half_of_the_pool() {
    let total = 200_000u32;
    let slots = |bytes: u32| (bytes as usize).div_ceil(POOL_SLOT_BYTES);
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let all = real.firmware.pool_slots().1;
    let receive_slots = POOL_BYTES / POOL_SLOT_BYTES;
    let half = receive_slots / 2;
    let mut kept = 0;
    loop {
        let number = peer.number;
        let frame = peer.message(NONE, long(total.into(), total, 61_000), 0, b"x");
        real.hear(&peer, &frame);
        match refusals(&mut real, &mut peer)[..] {
            [] => kept += 1,
            [refused] => {
                assert_eq!(refused, (number, NotReadyCause::NoRoom));
                break;
            }
            _ => panic!("one message, one answer"),
        }
        assert_eq!(real.slots_used(), kept * slots(total), "of {all}");
        assert!(real.slots_used() <= half, "{kept} kept");
    }
    assert_eq!(kept, half / slots(total));
    // The usual ones have the rest.
    let usual = Profile::DEFAULT.eager_bytes as u32;
    let mut more = 0;
    loop {
        let frame = peer.message(NONE, long(usual.into(), usual, 1_000), 0, b"x");
        real.hear(&peer, &frame);
        if !refusals(&mut real, &mut peer).is_empty() {
            break;
        }
        more += 1;
    }
    assert_eq!(more, (receive_slots - kept * slots(total)) / slots(usual));
    assert!(real.slots_used() <= receive_slots);
}

/// Blocks that a peer may have asked for at a time. What it asks for beyond is not answered; nothing grows.
#[test]
fn blocks_that_wait_to_be_sent_are_bounded() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    real.send(&peer, 1 << 20);
    let said = real.speak();
    let first = of_kind(&said, Kind::Message).remove(0);
    let handle = Message::parse(first.header.flags, &first.body).unwrap().0.handle;
    let beyond = 500;
    for i in 0..BLOCKS_QUEUED_MAX + beyond {
        let mut body = vec![0; emp_wire::PULL_BYTES];
        Pull { node: peer.node, offset: i as u64, bytes: 1, pull: i as u16 }.emit(&mut body);
        let frame = peer.next(Kind::Pull, NONE, handle, &body);
        real.hear(&peer, &frame);
    }
    assert_eq!(real.count(Counter::DropBadPlace), beyond as u64);
    let mut blocks = 0;
    let mut next = 0;
    loop {
        let last = said_to_end(&mut real, &mut blocks);
        let Some(last) = last.filter(|last| *last >= next) else { break };
        next = last + 1;
        real.hear(&peer, &peer.ack(next, last, 0));
    }
    assert_eq!(blocks, BLOCKS_QUEUED_MAX);
}

/// Counts blocks; the last number that left.
fn said_to_end(real: &mut Real, blocks: &mut usize) -> Option<u32> {
    let said = real.speak();
    *blocks += of_kind(&said, Kind::Block).len();
    said.iter().filter(|s| s.kind().sequenced()).map(|s| s.header.sequence.0).max()
}

/// The same of regions, whose askers are told.
#[test]
fn blocks_of_regions_that_wait_to_be_sent_are_bounded() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let memory = Segment { address: INTO, bytes: 10_000 };
    real.firmware.export_region(Some(4), memory, Rights::REMOTE_READ, 0).unwrap();
    let beyond = 500;
    for i in 0..BLOCKS_QUEUED_MAX + beyond {
        let target = peer.target(4);
        let mut body = vec![0; emp_wire::GET_BYTES];
        Get { target, bytes: 1, pull: i as u16, fragment_bytes: 1_000 }.emit(&mut body);
        let frame = peer.next(Kind::Get, NONE, 0, &body);
        real.hear(&peer, &frame);
    }
    let (mut blocks, mut abandoned) = (0, 0);
    let mut next = 0;
    loop {
        let said = real.speak();
        blocks += of_kind(&said, Kind::Block).len();
        for done in of_kind(&said, Kind::Done) {
            assert!(done.header.flags.has(Flags::REPLY));
            assert_eq!(Done::parse(&done.body).unwrap().status, DoneStatus::Abandoned);
            abandoned += 1;
        }
        let last = said.iter().filter(|s| s.kind().sequenced()).map(|s| s.header.sequence.0).max();
        let Some(last) = last.filter(|last| *last >= next) else { break };
        next = last + 1;
        real.hear(&peer, &peer.ack(next, last, 0));
    }
    assert_eq!((blocks, abandoned), (BLOCKS_QUEUED_MAX, beyond));
}

/// What a host may post, open and export: one more is an error, and after one is over there is room again.
#[test]
fn posts_are_bounded() {
    let mut real = Real::new(&Profile::DEFAULT);
    // Endpoint 0 is open.
    for number in 1..ENDPOINTS_MAX {
        real.firmware.open_endpoint(number as u16).unwrap();
    }
    assert_eq!(real.firmware.open_endpoint(9_999), Err(PostError::TooManyEndpoints));
    real.firmware.open_endpoint(9_999).unwrap_err();
    assert_eq!(limits_told(&mut real.firmware), [(Limit::Endpoints, ENDPOINTS_MAX)]);
    real.firmware.open_endpoint(5).expect("it is open already");
    real.firmware.close_endpoint(real.now, 5);
    real.firmware.open_endpoint(9_999).expect("there is room again");

    let memory = Segment { address: 0, bytes: 8 };
    for key in 0..REGIONS_MAX as u64 {
        real.firmware.export_region(Some(key), memory, Rights::NONE, 0).unwrap();
    }
    let one_more = real.firmware.export_region(None, memory, Rights::NONE, 0);
    assert_eq!(one_more, Err(PostError::TooManyRegions));
    real.firmware.export_region(None, memory, Rights::NONE, 0).unwrap_err();
    assert_eq!(limits_told(&mut real.firmware), [(Limit::Regions, REGIONS_MAX)]);
    assert!(real.firmware.remove_region(real.now, 7));
    real.firmware.export_region(None, memory, Rights::NONE, 0).expect("there is room again");

    let segments = vec![Segment { address: 0, bytes: 1 }; SEGMENTS_MAX + 1];
    assert!(SegmentList::new(&segments).is_err());
    assert!(SegmentList::new(&segments[1..]).is_ok());
}

/// Hellos that wait to be answered: more are dropped, and whoever asked asks again.
#[test]
fn answers_to_hellos_are_bounded() {
    let mut real = Real::new(&Profile::DEFAULT);
    let beyond = 40;
    for id in 0..(REPLIES_MAX + beyond) as u64 {
        let stranger = Forged::new(100 + id);
        let mut body = vec![0; emp_wire::HELLO_BODY_BYTES_MAX];
        let hello = emp_wire::Hello::new(stranger.node, OWN, id, MTU as u16, "stranger");
        let bytes = hello.emit(&mut body);
        let mut frame = stranger.frame(Kind::Hello, NONE, 0, 0, &body[..bytes]);
        frame.truncate(32 + bytes);
        real.hear(&stranger, &frame);
    }
    assert_eq!(real.count(Counter::DropHello), beyond as u64);
    assert_eq!(of_kind(&real.speak(), Kind::HelloReply).len(), REPLIES_MAX);
    assert_eq!(real.firmware.peers(), 0, "they cost no state");
}

/// How much of a thing the node holds, by the name that it gives it.
fn held(real: &Real, name: &str) -> usize {
    real.firmware.holdings().iter().find(|holding| holding.name == name).expect("it is named").held
}

/// Frames that are put together from slices: those of further peers find no room, and what was begun becomes whole.
#[test]
fn frames_in_slices_are_bounded() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peers = 3 * ASSEMBLIES_MAX as u64;
    let mut peers: Vec<_> = (2..2 + peers).map(|id| Forged::met(id, &mut real)).collect();
    let slice = |peer: &Forged, frame: &[u8], from: usize, to: usize| {
        let word = SliceWord { offset: from as u16, total: frame.len() as u16 }.emit();
        peer.frame(Kind::Slice, NONE, peer.sequence - 1, word, &frame[from..to])
    };
    let frames: Vec<_> = peers.iter_mut().map(|p| p.message(NONE, None, 7, &[5; 600])).collect();
    for (peer, frame) in peers.iter().zip(&frames) {
        real.hear(peer, &slice(peer, frame, 0, 320));
    }
    assert_eq!(held(&real, "assemblies"), ASSEMBLIES_MAX);
    assert_eq!(real.count(Counter::DropSlice), 2 * ASSEMBLIES_MAX as u64);
    for (peer, frame) in peers.iter().zip(&frames) {
        real.receive(Selector::ANY, 600);
        real.hear(peer, &slice(peer, frame, 320, frame.len()));
    }
    assert_eq!(real.done.len(), ASSEMBLIES_MAX, "whole are those that were begun first");
    assert_eq!(held(&real, "assemblies"), ASSEMBLIES_MAX);
}

/// Notifications that nobody looks at: puts beyond them are refused, and taken when the host has looked.
#[test]
fn notifications_that_wait_are_bounded() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let memory = Segment { address: INTO, bytes: 64 };
    real.firmware.export_region(Some(4), memory, Rights::REMOTE_WRITE, 0).unwrap();
    let put = |peer: &mut Forged, number: u32| {
        let put = Put { target: peer.target(4), long: None, immediate: Some(number.into()) };
        let mut body = vec![0; Put::body_bytes_for(put.flags())];
        put.emit(&mut body);
        body.extend_from_slice(&[9; 8]);
        peer.next(Kind::Put, put.flags(), number, &body)
    };
    // Number 0 is that of the message by which they met. The host takes none of its completions.
    let last = NOTIFICATIONS_MAX as u32;
    let hear = |real: &mut Real, peer: &Forged, frame: &[u8]| {
        real.firmware.handle_frame(real.now, LinkIndex(0), peer.address(), frame, &mut real.memory);
    };
    for number in 1..=last {
        let frame = put(&mut peer, number);
        hear(&mut real, &peer, &frame);
    }
    assert_eq!(held(&real, "notifications"), NOTIFICATIONS_MAX);
    assert_eq!(real.count(Counter::NotTaken), 0);
    for again in 0..2 {
        let frame = put(&mut peer, last + 1);
        peer.sequence -= 1;
        hear(&mut real, &peer, &frame);
        assert_eq!(real.count(Counter::NotTaken), again + 1);
    }
    assert_eq!(held(&real, "notifications"), NOTIFICATIONS_MAX);
    // The host looks: there is room.
    let notified =
        |real: &Real| real.done.iter().filter(|d| d.op.kind() == OpKind::Notified).count();
    while let Some(completion) = real.firmware.poll_completion() {
        real.done.push(completion);
    }
    assert_eq!(notified(&real), NOTIFICATIONS_MAX);
    assert_eq!(held(&real, "notifications"), 0);
    let frame = put(&mut peer, last + 1);
    real.hear(&peer, &frame);
    assert_eq!(notified(&real), NOTIFICATIONS_MAX + 1);
    assert_eq!(real.count(Counter::PutsServed), NOTIFICATIONS_MAX as u64 + 1);
    real.speak();
    assert_eq!(limits_told(&mut real.firmware), [(Limit::Notifications, NOTIFICATIONS_MAX)]);
}

/// Gets that are not complete: one more than a peer may have is an error, and each of the others ends, here with that nobody has that name.
#[test]
fn gets_are_bounded() {
    let mut real = Real::new(&Profile::DEFAULT);
    let target = RemoteRegion { to: NodeId(9), to_endpoint: 0, key: 4, generation: 0, offset: 0 };
    let get = |real: &mut Real, context| {
        let segments = SegmentList::one(Segment { address: INTO, bytes: 8 });
        let get = GetDescriptor { target, endpoint: 0, segments, context };
        real.firmware.post_get(real.now, get, &mut real.memory)
    };
    let most = GETS_MAX / (POOL_SHARE_PARTS as usize + 1);
    for context in 0..most as u64 {
        get(&mut real, context).unwrap();
    }
    assert_eq!(get(&mut real, 0), Err(PostError::Busy));
    assert_eq!(get(&mut real, 0), Err(PostError::Busy));
    assert_eq!(limits_told(&mut real.firmware), [(Limit::Gets, GETS_MAX)]);
    assert_eq!(held(&real, "gets"), most);
    real.pass(Span::ms(30_000));
    let ended = real.done.iter().filter(|done| done.status == Status::NotFound).count();
    assert_eq!((ended, held(&real, "gets")), (most, 0));
    get(&mut real, 0).expect("there is room again");
}

/// What nobody asks for goes, the oldest first.
#[test]
fn events_are_bounded() {
    let mut real = Real::new(&Profile::DEFAULT);
    while real.firmware.poll_event().is_some() {}
    let beyond = 20;
    for id in 0..EVENTS_MAX as u64 + beyond {
        let mut peer = Forged::new(100 + id);
        let frame = peer.message(Flags::VOID, None, 0, &[]);
        real.hear(&peer, &frame);
        let goodbye = peer.frame(Kind::Close, NONE, 0, 0, &peer.node.0.to_be_bytes());
        real.hear(&peer, &goodbye);
    }
    assert_eq!(held(&real, "events"), EVENTS_MAX);
    let events: Vec<_> = std::iter::from_fn(|| real.firmware.poll_event()).collect();
    // Two of each peer: that it was found, and that it left.
    let left = |event: &NodeEvent| matches!(event, NodeEvent::Closed(_));
    let closed: Vec<_> = events.into_iter().filter(left).collect();
    let end = 100 + EVENTS_MAX as u64 + beyond;
    let first = end - EVENTS_MAX as u64 / 2;
    let wanted: Vec<_> = (first..end).map(|id| NodeEvent::Closed(NodeId(id))).collect();
    assert!(closed == wanted, "{:?} to {:?}", closed.first(), closed.last());
}

/// Where what must be copied finds no room, it is refused; what may be copied is not, and is over when it is delivered.
#[test]
fn what_need_not_be_copied_needs_no_room() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let mut copied = 0;
    // In long messages, as those that wait are to be few, and then to the last slot.
    let [_, refused] = [16_000, 500].map(|bytes| {
        loop {
            match real.send_with(&peer, bytes, CompletionMode::Buffered) {
                Ok(_) => copied += 1,
                Err(refused) => break refused,
            }
        }
    });
    assert_eq!((refused, real.done.len()), (PostError::PoolFull, copied));
    assert_eq!(limits_told(&mut real.firmware), [(Limit::Buffered, SEND_POOL_BYTES)]);
    let (full, auto) = (real.slots_used(), CompletionMode::Auto);
    let op = real.send_with(&peer, 1_000, auto).expect("its bytes stay where they are");
    assert_eq!((real.slots_used(), real.done.len()), (full, copied), "it is not over");
    for _ in 0..copied + 1 {
        let said = real.speak();
        if let Some(last) = said
            .iter()
            .filter(|said| said.kind().sequenced())
            .map(|said| said.header.sequence.0)
            .max()
        {
            real.hear(&peer, &peer.ack(last + 1, last, 0));
        }
    }
    assert_eq!(real.done.last().map(|end| (end.op, end.status)), Some((op, Status::Ok)));
    let goodbye = peer.next(Kind::Close, NONE, 0, &peer.node.0.to_be_bytes());
    real.hear(&peer, &goodbye);
    assert_eq!(real.slots_used(), 0);
}

/// A fetching atomic that finds no place among the sends leaves none among what is fetched.
#[test]
fn an_atomic_that_is_refused_waits_for_no_values() {
    let mut real = Real::new(&FEW);
    let peer = Forged::new(2);
    for _ in 0..FEW.operations_max {
        real.send_with(&peer, 0, CompletionMode::Delivered).unwrap();
    }
    let segments = |address| SegmentList::one(Segment { address, bytes: 8 });
    let target = RemoteRegion { to: peer.node, to_endpoint: 0, key: 4, generation: 0, offset: 0 };
    for _ in 0..3 {
        let atomic = AtomicDescriptor {
            target,
            endpoint: 0,
            operation: emp_wire::AtomicOp::Sum,
            datatype: emp_wire::Datatype::Uint64,
            count: 1,
            operands: segments(0),
            compare: None,
            fetch_into: Some(segments(INTO)),
            context: 0,
        };
        let refused = real.firmware.post_atomic(real.now, atomic, &mut real.memory);
        assert_eq!(refused, Err(PostError::Busy));
        assert_eq!(held(&real, "gets"), 0);
    }
}

/// Whoever waits for a `done` keeps its bytes anyway, and need not be told that there is no room for them; but that there is no such
/// endpoint it is told.
#[test]
fn who_waits_for_a_done_is_told_that_nobody_is_there() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let frame = peer.message_for(5, Flags::SYNCHRONOUS, None, 0, b"x");
    real.hear(&peer, &frame);
    assert_eq!(refusals(&mut real, &mut peer), [(1, NotReadyCause::NoEndpoint)]);
    let number = loop {
        let frame = peer.message(NONE, None, 0, &[1; 1_400]);
        real.hear(&peer, &frame);
        if let [(number, cause)] = refusals(&mut real, &mut peer)[..] {
            assert_eq!(cause, NotReadyCause::NoRoom);
            break number;
        }
    };
    assert!(number > 1_000, "{number}: the pool is full");
    let frame = peer.message(Flags::SYNCHRONOUS, None, 0, &[1; 1_400]);
    real.hear(&peer, &frame);
    assert_eq!(refusals(&mut real, &mut peer), []);
}

/// Nodes that are looked for: one more is asked after when one of these is found or given up.
#[test]
fn searches_are_bounded() {
    let mut real = Real::new(&Profile::DEFAULT);
    let strangers: Vec<_> = (100..101 + DISCOVERIES_MAX as u64).map(Forged::new).collect();
    let send = |real: &mut Real, to: &Forged| real.send_with(to, 1, CompletionMode::Delivered);
    for stranger in &strangers[1..] {
        send(&mut real, stranger).expect("there is room");
    }
    for _ in 0..2 {
        assert_eq!(send(&mut real, &strangers[0]), Err(PostError::Busy));
    }
    assert_eq!(limits_told(&mut real.firmware), [(Limit::Searches, DISCOVERIES_MAX)]);
    real.pass(Span::ms(30_000));
    let ended = real.done.iter().filter(|done| done.status == Status::NotFound).count();
    assert_eq!(ended, DISCOVERIES_MAX);
    send(&mut real, &strangers[0]).expect("there is room again");
}
