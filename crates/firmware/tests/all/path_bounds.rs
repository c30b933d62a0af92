//! Bounds of `limits.rs` that concern paths, searches and what is asked of peers, each exceeded once: what is beyond is refused and told,
//! and goes on by other means or later.

use crate::common::forge::*;
use emp_firmware::limits::*;
use emp_firmware::*;
use emp_wire::{Flags, HELLO_BODY_BYTES_MAX, Hello, Kind, LinkAddress, NodeId};

const NONE: Flags = Flags(0);
const OTHER: LinkIndex = LinkIndex(1);

/// A node with two links by which the same nodes are reached.
fn two_links() -> Real {
    let mut links = vec![LinkInfo::new(MTU, true); 2];
    for (link, cost) in links.iter_mut().zip(LinkCost::divided(5, 5)) {
        link.cost = Some(cost);
    }
    links[0].set_beside(OTHER, LinkAddress::index(1));
    links[1].set_beside(LinkIndex(0), LinkAddress::index(0));
    Real::over(&Profile::DEFAULT, links)
}

fn contact(from: &Forged, kind: Kind, nonce: u64) -> Vec<u8> {
    let mut body = [0; HELLO_BODY_BYTES_MAX];
    let bytes = Hello::new(from.node, OWN, nonce, MTU as u16, "").emit(&mut body);
    from.frame(kind, NONE, 0, 0, &body[..bytes])
}

/// Where a peer is on the other link.
fn there(peer: &Forged) -> LinkAddress {
    LinkAddress::index(peer.node.0 as u32 + 1_000_000)
}

fn hear_there(real: &mut Real, peer: &Forged, frame: &[u8]) {
    real.firmware.handle_frame(real.now, OTHER, there(peer), frame, &mut real.memory);
}

/// A peer looks for a path to the node by the other link; the nonce with which it is asked for the same, if it is.
fn is_asked_back(real: &mut Real, peer: &Forged) -> Option<u64> {
    hear_there(real, peer, &contact(peer, Kind::Hello, 5));
    let said = real.speak();
    assert_eq!(of_kind(&said, Kind::HelloReply).len(), 1, "it is answered in any case");
    let asked = said.iter().find(|said| said.kind() == Kind::Hello && said.to == there(peer))?;
    Some(Hello::parse(&asked.body).unwrap().nonce)
}

/// How much of a thing the node holds, by the name that it gives it.
fn held(real: &Real, name: &str) -> usize {
    real.firmware.holdings().iter().find(|holding| holding.name == name).expect("it is named").held
}

/// A message of a peer arrives, whatever paths it has.
fn takes_a_message(real: &mut Real, peer: &mut Forged) {
    let before = real.done.len();
    real.receive(Selector::ANY, 1);
    let frame = peer.message(NONE, None, 0, b"x");
    real.hear(peer, &frame);
    assert_eq!(real.done.len(), before + 1);
}

#[test]
fn paths_that_are_looked_for_at_a_time_are_bounded() {
    let mut real = two_links();
    let beyond = 10;
    let mut peers: Vec<_> =
        (0..SEEKS_MAX + beyond).map(|id| Forged::met(100 + id as u64, &mut real)).collect();
    let at = real.now;
    for (i, peer) in peers.iter().enumerate() {
        assert_eq!(is_asked_back(&mut real, peer).is_some(), i < SEEKS_MAX, "{i}");
        assert_eq!(held(&real, "searches for paths"), (i + 1).min(SEEKS_MAX));
    }
    assert_eq!((real.now, real.count(Counter::SearchesRefused)), (at, beyond as u64));
    let last = peers.last_mut().expect("there are many");
    takes_a_message(&mut real, last);
    assert_eq!(real.firmware.paths(last.node).len(), 1);
    // Nobody answers. Then there is room, and an answer opens the path.
    real.pass(Span::ms(100));
    assert_eq!(held(&real, "searches for paths"), 0);
    let nonce = is_asked_back(&mut real, last).expect("there is room");
    hear_there(&mut real, last, &contact(last, Kind::HelloReply, nonce));
    assert_eq!(real.firmware.paths(last.node).len(), 2);
    assert_eq!(real.count(Counter::PathsFound), 1);
}

#[test]
fn peers_with_several_paths_are_bounded() {
    let mut real = two_links();
    let beyond = 3;
    for id in 0..FURTHER_PATHS_MAX + beyond {
        let mut peer = Forged::met(100 + id as u64, &mut real);
        let asked = is_asked_back(&mut real, &peer);
        assert_eq!(asked.is_some(), id < FURTHER_PATHS_MAX, "{id}");
        if let Some(nonce) = asked {
            hear_there(&mut real, &peer, &contact(&peer, Kind::HelloReply, nonce));
        }
        let paths = 1 + usize::from(id < FURTHER_PATHS_MAX);
        assert_eq!(real.firmware.paths(peer.node).len(), paths);
        if id >= FURTHER_PATHS_MAX {
            takes_a_message(&mut real, &mut peer);
        }
    }
    assert_eq!(held(&real, "peers with paths"), FURTHER_PATHS_MAX);
    assert_eq!(real.count(Counter::PathsFound), FURTHER_PATHS_MAX as u64);
    assert_eq!(real.count(Counter::SearchesRefused), beyond as u64);
    // One leaves: another may have its place.
    let gone = Forged::new(100);
    let goodbye = gone.frame(Kind::Close, NONE, 0, 0, &gone.node.0.to_be_bytes());
    real.hear(&gone, &goodbye);
    let last = Forged::new(99 + (FURTHER_PATHS_MAX + beyond) as u64);
    assert!(is_asked_back(&mut real, &last).is_some());
    assert_eq!(held(&real, "peers with paths"), FURTHER_PATHS_MAX);
}

/// A pair has four paths: a fifth link that would do as well is done without.
#[test]
fn a_link_stands_beside_so_many_and_no_more() {
    let mut link = LinkInfo::new(MTU, true);
    for other in 1..PATHS_MAX as u8 {
        assert!(link.set_beside(LinkIndex(other), LinkAddress::index(other.into())));
    }
    assert!(!link.set_beside(LinkIndex(9), LinkAddress::index(9)));
    assert!(link.set_beside(LinkIndex(1), LinkAddress::index(77)), "that one is known");
    assert_eq!(link.beside[0], Some((LinkIndex(1), LinkAddress::index(77))));
}

/// Frames of more than 1,000 bytes are lost on the way to many peers: the longest that gets through is looked for a few at a time, and
/// found for each.
#[test]
fn lengths_that_are_looked_for_at_a_time_are_bounded() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peers = 2 * SIZE_SEARCHES_MAX as u64;
    let peers: Vec<_> = (0..peers).map(|id| Forged::met(100 + id, &mut real)).collect();
    for peer in &peers {
        real.send(peer, 1_400);
    }
    let mut most = 0;
    for _ in 0..4_000 {
        let said = of_kind(&real.pass(Span::ms(1)), Kind::Hello);
        most = most.max(held(&real, "searches for lengths"));
        for hello in said.iter().filter(|said| 32 + said.body.len() <= 1_000) {
            let Some(peer) = peers.iter().find(|peer| peer.address() == hello.to) else { continue };
            let nonce = Hello::parse(&hello.body).unwrap().nonce;
            let mut body = [0; HELLO_BODY_BYTES_MAX];
            let bytes = Hello::new(peer.node, OWN, nonce, MTU as u16, "").emit(&mut body);
            let arrived = 32 + hello.body.len() as u32;
            let frame = peer.frame(Kind::HelloReply, NONE, 0, arrived, &body[..bytes]);
            real.hear(peer, &frame);
        }
    }
    assert_eq!(most, SIZE_SEARCHES_MAX);
    assert!(real.count(Counter::SearchesRefused) > 0);
    assert_eq!(real.count(Counter::PathsLimited), peers.len() as u64);
    let found = std::iter::from_fn(|| real.firmware.poll_event());
    let passed = |event| match event {
        NodeEvent::LostBySize { passed_bytes, .. } => Some(passed_bytes),
        _ => None,
    };
    let found: Vec<_> = found.filter_map(passed).collect();
    assert_eq!(found.len(), peers.len());
    assert!(found.iter().all(|bytes| (1_000 - 32..=1_000).contains(bytes)), "{found:?}");
}

/// Nodes that are looked for: one more is an error to its caller, and once one was given up there is room.
#[test]
fn nodes_that_are_looked_for_are_bounded() {
    let mut real = Real::new(&Profile::DEFAULT);
    for id in 0..DISCOVERIES_MAX as u64 {
        real.send(&Forged::new(100 + id), 1);
    }
    assert_eq!(held(&real, "searches"), DISCOVERIES_MAX);
    let one_more = Forged::new(99);
    let refused = real.send_with(&one_more, 1, CompletionMode::Delivered);
    assert_eq!(refused, Err(PostError::Busy));
    // One that is found is not looked for any more.
    let mut found = Forged::new(100);
    let frame = found.message(Flags::VOID, None, 0, &[]);
    real.hear(&found, &frame);
    assert_eq!(held(&real, "searches"), DISCOVERIES_MAX - 1);
    real.send(&one_more, 1);
    assert_eq!(held(&real, "searches"), DISCOVERIES_MAX);
}

/// Posts so many gets of eight bytes.
fn get_from(real: &mut Real, peer: &Forged, gets: usize) {
    let target = RemoteRegion { to: peer.node, to_endpoint: 0, key: 4, generation: 0, offset: 0 };
    for i in 0..gets as u64 {
        let segments = SegmentList::one(Segment { address: INTO + 8 * i, bytes: 8 });
        let get = GetDescriptor { target, endpoint: 0, segments, context: i };
        real.firmware.post_get(real.now, get, &mut real.memory).unwrap();
    }
}

/// Those of many that do not answer: none of them has more than its part, and all together leave some to whoever comes next.
#[test]
fn blocks_that_many_are_asked_for_are_bounded() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peers = (PULLS_MAX / PULLS_OF_PEER_MAX + 2) as u64;
    for id in 0..peers {
        let peer = Forged::met(100 + id, &mut real);
        get_from(&mut real, &peer, PULLS_OF_PEER_MAX + 1);
        // It falls silent, and others are asked.
        real.pass(Span::ms(3));
        assert!(held(&real, "pulls") <= PULLS_MAX.min((id as usize + 1) * PULLS_OF_PEER_MAX));
    }
    let held = held(&real, "pulls");
    assert!(
        held > PULLS_MAX / 10 * 9 && held < PULLS_MAX - 2 * POOL_SHARE_PARTS as usize,
        "{held}"
    );
}

/// Blocks that a node has asked one peer for: those of further gets are asked for when some are here.
#[test]
fn blocks_that_are_asked_for_are_bounded() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let gets = PULLS_OF_PEER_MAX + 50;
    get_from(&mut real, &peer, gets);
    assert_eq!(held(&real, "pulls"), PULLS_OF_PEER_MAX);
    let mut answered = 0;
    for _ in 0..gets {
        let asked = of_kind(&real.speak(), Kind::Get);
        let Some(last) = asked.last() else { break };
        let next = last.header.sequence.0 + 1;
        real.hear(&peer, &peer.ack(next, next - 1, 0));
        for one in &asked {
            let get = emp_wire::Get::parse(&one.body).unwrap();
            let frame = peer.block(get.pull, 0, &[7; 8]);
            real.hear(&peer, &frame);
            answered += 1;
        }
        assert!(held(&real, "pulls") <= PULLS_OF_PEER_MAX);
    }
    assert_eq!((answered, real.done.len(), held(&real, "pulls")), (gets, gets, 0));
    assert!(real.done.iter().all(|done| done.status == Status::Ok));
}

/// Answers that wait to be sent to a peer which asks and never acknowledges: those beyond its part are lost to it, nothing grows, and others
/// are answered.
#[test]
fn answers_that_wait_for_a_peer_are_bounded() {
    let few = Profile { operations_max: 1_024, incoming_max: 512, ..Profile::DEFAULT };
    let most = few.controls_max() / 2;
    let mut real = Real::new(&few);
    let [mut peer, mut other] = [2, 3].map(|id| Forged::met(id, &mut real));
    let beyond = 100;
    // Nobody has exported such a region: each is answered by a `done`.
    let ask = |real: &mut Real, peer: &mut Forged| {
        let mut body = vec![0; emp_wire::GET_BYTES];
        let get =
            emp_wire::Get { target: peer.target(9), bytes: 1, pull: 0, fragment_bytes: 1_000 };
        get.emit(&mut body);
        let frame = peer.next(Kind::Get, NONE, 77, &body);
        real.hear(peer, &frame);
    };
    (0..most + beyond).for_each(|_| ask(&mut real, &mut peer));
    assert_eq!(held(&real, "queued controls"), most);
    assert_eq!(real.count(Counter::RefusedKey), (most + beyond) as u64);
    ask(&mut real, &mut other);
    assert_eq!(held(&real, "queued controls"), most + 1);
    let mut answers = [0, 0];
    loop {
        let said = of_kind(&real.speak(), Kind::Done);
        for (answers, peer) in answers.iter_mut().zip([&peer, &other]) {
            let own: Vec<_> = said.iter().filter(|said| said.to == peer.address()).collect();
            *answers += own.len();
            let Some(last) = own.last() else { continue };
            let last = last.header.sequence.0;
            real.hear(peer, &peer.ack(last + 1, last, 0));
        }
        if said.is_empty() {
            break;
        }
    }
    assert_eq!(answers, [most, 1]);
    assert_eq!(held(&real, "queued controls"), 0);
}

/// Old values that fetching atomics are answered with are kept until they have arrived: atomics beyond that are not executed, and
/// have their turn once there is room.
#[test]
fn values_that_are_kept_for_answers_are_bounded() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let memory = Segment { address: INTO, bytes: 8 };
    let rights = Rights::BOTH;
    real.firmware.export_region(Some(4), memory, rights, 0).unwrap();
    let before = u64::from_le_bytes(real.bytes(INTO, 8).try_into().unwrap());
    let add = |peer: &mut Forged| {
        let (operation, datatype) = (AtomicOp::Sum, Datatype::Uint64);
        let atomic = emp_wire::Atomic { target: peer.target(4), operation, datatype, count: 1 };
        let mut body = vec![0; emp_wire::ATOMIC_BYTES];
        atomic.emit(&mut body);
        body.extend_from_slice(&1u64.to_le_bytes());
        let number = peer.number;
        peer.number += 1;
        peer.next(Kind::Atomic, Flags::FETCH, number, &body)
    };
    // A peer's part of the store.
    let all = REPLY_POOL_BYTES / POOL_SLOT_BYTES / (POOL_SHARE_PARTS as usize + 1);
    for _ in 0..all {
        let frame = add(&mut peer);
        real.hear(&peer, &frame);
    }
    assert_eq!(real.count(Counter::AtomicsServed), all as u64);
    let value = |real: &Real| u64::from_le_bytes(real.bytes(INTO, 8).try_into().unwrap()) - before;
    let frame = add(&mut peer);
    real.hear(&peer, &frame);
    assert_eq!((value(&real), real.count(Counter::NotTaken)), (all as u64, 1));
    // What was said arrives: there is room, and the one that was refused is executed when it comes again.
    peer.sequence -= 1;
    let said = real.speak();
    assert_eq!(of_kind(&said, Kind::NotReady).len(), 1);
    let last = of_kind(&said, Kind::Done).last().expect("it answers").header.sequence.0;
    real.hear(&peer, &peer.ack(last + 1, last, 0));
    peer.number -= 1;
    let frame = add(&mut peer);
    real.hear(&peer, &frame);
    assert_eq!((value(&real), real.count(Counter::NotTaken)), (all as u64 + 1, 1));
}

/// Addresses that a node is told of: those of one more node are not noted, and of one node the latest few are.
#[test]
fn hints_are_bounded() {
    let mut real = Real::new(&Profile::DEFAULT);
    for id in 0..DISCOVERIES_MAX as u64 {
        real.firmware.hint(NodeId(100 + id), LinkIndex(0), LinkAddress::index(5));
    }
    let asked_at = |real: &mut Real, id: u64| {
        real.send(&Forged::new(id), 1);
        let said = of_kind(&real.pass(Span::ms(1)), Kind::Hello);
        said.into_iter().map(|said| said.to).collect::<Vec<_>>()
    };
    real.firmware.hint(NodeId(99), LinkIndex(0), LinkAddress::index(6));
    assert!(!asked_at(&mut real, 99).contains(&LinkAddress::index(6)));
    for place in 10..20 {
        real.firmware.hint(NodeId(100), LinkIndex(0), LinkAddress::index(place));
    }
    let mut at: Vec<_> = asked_at(&mut real, 100).into_iter().collect();
    at.retain(|to| *to != LinkAddress::EVERYONE);
    at.dedup();
    assert_eq!(&at[..8], [12, 13, 14, 15, 16, 17, 18, 19].map(LinkAddress::index));
}
