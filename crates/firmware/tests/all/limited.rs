//! The largest frame that a way takes falls while messages are under way (`LIMIT-1`, `SLICE-1`): nothing is lost.

use std::cell::Cell;
use std::rc::Rc;

use crate::common::{HALF, Pair, frames_of, give, ok, show};
use emp_firmware::*;
use emp_wire::{Header, Kind, NodeId};

const LOWERED: usize = 1000;

/// A pair on a wire that loses long frames once so many more have passed as the cell says.
fn narrowing(profile: &Profile) -> (Pair, Rc<Cell<u32>>) {
    let left = Rc::new(Cell::new(u32::MAX));
    let mut pair = Pair::new(profile);
    let passing = left.clone();
    pair.drop = Box::new(move |_, frame| {
        passing.set(passing.get().saturating_sub(1));
        passing.get() == 0 && frame.len() > LOWERED
    });
    (pair, left)
}

fn lower(pair: &mut Pair, at: usize) {
    let now = pair.now;
    assert!(pair.nodes[at].firmware.limit_frame_bytes(now, LinkIndex(0), LOWERED));
    assert!(
        !pair.nodes[at].firmware.limit_frame_bytes(now, LinkIndex(0), LOWERED),
        "once is enough"
    );
}

/// Messages of several lengths, of which each is under way when the wire becomes narrower; then which ends learn of it.
fn messages_survive(profile: &Profile, told: &[usize]) {
    let unreachable = profile.unreachable_after;
    let mut all_sliced = 0;
    for bytes in [900, 1400, 8_000, 60_000, 1 << 20] {
        for before in [1, 2, 5, 30, 300] {
            let (mut pair, left) = narrowing(profile);
            pair.send(0, 2, 1, 10);
            pair.receive(1, Selector::ANY, 100);
            pair.run(Span::ms(50));

            pair.receive(1, Selector::ANY, HALF);
            pair.send(0, 2, 2, bytes);
            left.set(before);
            pair.run(Span::us(100));
            for &node in told {
                lower(&mut pair, node);
            }
            pair.run(unreachable);
            assert_eq!(ok(&pair.nodes[0].done, OpKind::Send), 2, "{bytes} {}", show(&pair));
            assert_eq!(ok(&pair.nodes[1].done, OpKind::Receive), 2, "{bytes} {}", show(&pair));
            let (from, to) = (&pair.nodes[0].memory.0, &pair.nodes[1].memory.0[HALF as usize..]);
            assert!(to[..bytes as usize] == from[..bytes as usize], "{bytes} bytes differ");

            // What is sent now has shorter frames.
            let sliced = pair.nodes[0].firmware.counters().get(Counter::FramesSliced);
            all_sliced += sliced;
            pair.receive(1, Selector::ANY, HALF);
            pair.send(0, 2, 3, 100_000);
            pair.run(unreachable);
            assert_eq!(ok(&pair.nodes[1].done, OpKind::Receive), 3, "{}", show(&pair));
            let counters = pair.nodes[0].firmware.counters();
            assert_eq!(counters.get(Counter::FramesSliced), sliced);
            assert_eq!(counters.get(Counter::PeersLost), 0);
        }
    }
    assert!(all_sliced > 0, "nothing was under way");
}

#[test]
fn messages_under_way_survive_a_lower_limit_of_both_ends() {
    for profile in [&Profile::DEFAULT, &Profile::OPENMX] {
        messages_survive(profile, &[0, 1]);
    }
}

#[test]
fn messages_under_way_survive_a_lower_limit_of_their_sender() {
    messages_survive(&Profile::DEFAULT, &[0]);
}

/// The sender learns of it by the receiver's question.
#[test]
fn messages_under_way_survive_a_lower_limit_of_their_receiver() {
    messages_survive(&Profile::DEFAULT, &[1]);
}

#[test]
fn all_profiles_survive_it() {
    for profile in [&Profile::EMP2001, &Profile::VMMC2] {
        messages_survive(profile, &[0, 1]);
    }
}

/// The receiver that was not told in time is asked by a sender that gets nothing through.
#[test]
fn a_sender_in_doubt_asks() {
    let (mut pair, left) = narrowing(&Profile::DEFAULT);
    pair.send(0, 2, 1, 10);
    pair.receive(1, Selector::ANY, 100);
    pair.run(Span::ms(50));
    left.set(0);
    // Long ago nothing was heard, so nobody is told when the limit falls.
    pair.run(Span::ms(1));
    pair.now = pair.now + Span::ms(60_000);
    lower(&mut pair, 1);
    assert!(frames_of(&mut pair, 1).is_empty());
    pair.receive(1, Selector::ANY, HALF);
    pair.send(0, 2, 2, 50_000);
    pair.run(Span::ms(1_000));
    assert_eq!(ok(&pair.nodes[1].done, OpKind::Receive), 2, "{}", show(&pair));
    assert!(pair.nodes[0].firmware.counters().get(Counter::PeersLimited) == 1);
}

/// A long get, in whose middle the target's limit falls.
fn get_under_way(mut pair: Pair, left: &Cell<u32>) -> Pair {
    let bytes = 300_000;
    let target = &mut pair.nodes[1].firmware;
    let region = Segment { address: 0, bytes };
    target.export_region(Some(7), region, Rights::REMOTE_READ, 0).unwrap();
    let get = GetDescriptor {
        endpoint: 0,
        target: RemoteRegion { to: NodeId(2), to_endpoint: 0, key: 7, generation: 0, offset: 0 },
        segments: SegmentList::one(Segment { address: HALF, bytes }),
        context: 0,
    };
    let node = &mut pair.nodes[0];
    node.firmware.post_get(pair.now, get, &mut node.memory).unwrap();
    left.set(50);
    pair.run(Span::us(100));
    lower(&mut pair, 1);
    pair.run(Span::ms(3_000));
    assert_eq!(ok(&pair.nodes[0].done, OpKind::Get), 1, "{}", show(&pair));
    let (from, to) = (&pair.nodes[1].memory.0, &pair.nodes[0].memory.0[HALF as usize..]);
    assert!(to[..bytes as usize] == from[..bytes as usize]);
    pair
}

#[test]
fn a_get_under_way_survives_it() {
    let (pair, left) = narrowing(&Profile::DEFAULT);
    get_under_way(pair, &left);
}

/// What crosses memory has no sum that slices could be checked by, and no MTU: it stays whole (`SLICE-1`).
#[test]
fn what_crosses_memory_is_not_cut() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.memory_link = true;
    let pair = get_under_way(pair, &Cell::new(0));
    let count = |node: usize, what| pair.nodes[node].firmware.counters().get(what);
    assert_eq!(count(1, Counter::FramesSliced), 0);
    assert_eq!(count(0, Counter::PeersLimited), 1, "the limit was not told");
}

/// A pair whose limit has fallen at these ends, and the wire with it; and the longest frame that a node sent since it was last asked.
fn lowered(at: &[usize]) -> (Pair, Rc<Cell<usize>>, Rc<Cell<usize>>) {
    let (wire, longest) = (Rc::new(Cell::new(LOWERED)), Rc::new(Cell::new(0)));
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.send(0, 2, 1, 10);
    pair.receive(1, Selector::ANY, 100);
    pair.run(Span::ms(50));
    let (most, seen) = (wire.clone(), longest.clone());
    pair.drop = Box::new(move |_, frame| {
        let header = Header::parse(frame).map(|(header, _)| header);
        if header.is_ok_and(|header| !header.kind.contact()) {
            seen.set(frame.len().max(seen.get()));
        }
        frame.len() > most.get()
    });
    for &node in at {
        lower(&mut pair, node);
    }
    pair.run(Span::ms(10));
    exchange(&mut pair, 0);
    exchange(&mut pair, 1);
    assert_eq!(longest.take(), LOWERED);
    (pair, wire, longest)
}

/// A message of 100,000 bytes, from one end to the other.
fn exchange(pair: &mut Pair, from: usize) {
    let before = ok(&pair.nodes[1 - from].done, OpKind::Receive);
    pair.receive(1 - from, Selector::ANY, HALF);
    pair.send(from, 2 - from as u64, 5, 100_000);
    pair.run(Span::ms(200));
    let received = ok(&pair.nodes[1 - from].done, OpKind::Receive);
    assert_eq!(received, before + 1, "{}", show(pair));
}

fn raise(pair: &mut Pair, at: usize) {
    // Peers are asked once a millisecond, and were when the limit fell.
    pair.now = pair.now + Span::ms(1);
    let now = pair.now;
    assert!(pair.nodes[at].firmware.raise_frame_bytes(now, LinkIndex(0), 9000));
    assert!(!pair.nodes[at].firmware.raise_frame_bytes(now, LinkIndex(0), 9000), "once is enough");
    pair.run(Span::ms(10));
}

#[test]
fn a_limit_that_rises_again_is_used_again() {
    for at in [&[0][..], &[1], &[0, 1], &[1, 0]] {
        let (mut pair, wire, longest) = lowered(at);
        wire.set(1500);
        for &node in at {
            raise(&mut pair, node);
        }
        for from in [0, 1] {
            exchange(&mut pair, from);
            assert_eq!(longest.take(), 1500, "from {from}, risen at {at:?}");
        }
        for node in &pair.nodes {
            let counters = node.firmware.counters();
            let all = [Counter::PeersRaised, Counter::FramesSliced, Counter::FramesResent];
            assert_eq!(all.map(|which| counters.get(which)), [1, 0, 0]);
        }
    }
}

#[test]
fn messages_under_way_survive_a_limit_that_rises() {
    for bytes in [8_000, 60_000, 1 << 20] {
        for after_us in [1, 5, 20, 80] {
            let (mut pair, wire, _) = lowered(&[0, 1]);
            wire.set(1500);
            pair.receive(1, Selector::ANY, HALF);
            pair.send(0, 2, 2, bytes);
            pair.run(Span::us(after_us));
            for node in [1, 0] {
                let now = pair.now;
                assert!(pair.nodes[node].firmware.raise_frame_bytes(now, LinkIndex(0), 1500));
                pair.run(Span::us(after_us));
            }
            pair.run(Span::ms(500));
            assert_eq!(ok(&pair.nodes[1].done, OpKind::Receive), 3, "{bytes} {}", show(&pair));
            let (from, to) = (&pair.nodes[0].memory.0, &pair.nodes[1].memory.0[HALF as usize..]);
            assert!(to[..bytes as usize] == from[..bytes as usize], "{bytes} bytes differ");
            exchange(&mut pair, 0);
        }
    }
}

/// The other end's stays low; and what rises by less than it fell.
#[test]
fn it_rises_to_what_both_take() {
    let (mut pair, wire, longest) = lowered(&[0, 1]);
    wire.set(1500);
    raise(&mut pair, 0);
    exchange(&mut pair, 0);
    exchange(&mut pair, 1);
    assert_eq!(longest.take(), LOWERED);
    let now = pair.now;
    assert!(pair.nodes[1].firmware.raise_frame_bytes(now, LinkIndex(0), 1200));
    pair.run(Span::ms(10));
    exchange(&mut pair, 0);
    exchange(&mut pair, 1);
    assert_eq!(longest.take(), 1200);
}

/// Longer frames do not get through although both ends take them again: then none are sent, and nothing is lost but the questions.
#[test]
fn it_does_not_rise_where_longer_frames_do_not_get_through() {
    let (mut pair, wire, longest) = lowered(&[0, 1]);
    for node in [0, 1] {
        raise(&mut pair, node);
    }
    for from in [0, 1, 0, 1] {
        exchange(&mut pair, from);
    }
    assert_eq!(longest.take(), LOWERED);
    let resent = |pair: &Pair| {
        pair.nodes.iter().map(|n| n.firmware.counters().get(Counter::FramesResent)).sum::<u64>()
    };
    assert_eq!(resent(&pair), 0);
    // When they do, whoever repeats it finds out.
    wire.set(1500);
    for node in [0, 1] {
        let now = pair.now;
        pair.nodes[node].firmware.announce(now, LinkIndex(0));
    }
    pair.run(Span::ms(10));
    exchange(&mut pair, 0);
    exchange(&mut pair, 1);
    assert_eq!((longest.take(), resent(&pair)), (1500, 0));
}

/// A hello that was held up, or that somebody repeats, tells of what is no more: nothing is shorter for it.
#[test]
fn an_old_hello_shortens_nothing() {
    let (longest, told) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(None)));
    let mut pair = Pair::new(&Profile::DEFAULT);
    exchange(&mut pair, 0);
    let (note, seen) = (told.clone(), longest.clone());
    pair.drop = Box::new(move |from, frame| {
        let (header, _) = Header::parse(frame).unwrap();
        if from == 1 && header.kind == Kind::Hello {
            let before = note.take();
            note.set(before.or_else(|| Some(frame.to_vec())));
        }
        if !header.kind.contact() {
            seen.set(frame.len().max(seen.get()));
        }
        false
    });
    lower(&mut pair, 1);
    pair.run(Span::ms(10));
    exchange(&mut pair, 0);
    assert_eq!(longest.take(), LOWERED, "it was told");
    raise(&mut pair, 1);
    exchange(&mut pair, 0);
    assert_eq!(longest.take(), 1500);
    let old = told.take().expect("a hello told of it");
    for _ in 0..3 {
        give(&mut pair, 0, &old);
        pair.run(Span::ms(10));
        exchange(&mut pair, 0);
        assert_eq!(longest.take(), 1500);
    }
    assert_eq!(pair.nodes[0].firmware.counters().get(Counter::PeersLimited), 1);
}

/// A link may send what stands in one batch as one datagram that is cut later, so what finds out whether a length gets through
/// (`LIMIT-3`) stands alone.
#[test]
fn what_tries_a_length_leaves_alone() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.send(0, 2, 1, 10);
    pair.receive(1, Selector::ANY, 100);
    pair.run(Span::ms(50));
    for bits in 2..6 {
        pair.receive(1, Selector::ANY, HALF);
        pair.send(0, 2, bits, 20_000);
    }
    let mut tried = 0;
    let end = pair.now + Span::ms(500);
    while pair.now < end && pair.nodes[0].firmware.counters().get(Counter::PathsLimited) == 0 {
        for i in 0..2 {
            let frames = frames_of(&mut pair, i);
            let tries = |frame: &Vec<u8>| {
                frame.len() > LOWERED - 400
                    && Header::parse(frame).is_ok_and(|(header, _)| header.kind == Kind::Hello)
            };
            let lengths = frames.iter().filter(|frame| tries(frame)).count();
            tried += lengths;
            assert!(lengths == 0 || frames.len() == 1, "{} frames with it", frames.len() - 1);
            for frame in frames.iter().filter(|frame| frame.len() <= LOWERED) {
                give(&mut pair, 1 - i, frame);
            }
        }
        pair.now = pair.now + Span::us(20);
    }
    assert_eq!(pair.nodes[0].firmware.counters().get(Counter::PathsLimited), 1);
    assert!(tried >= 5, "{tried}");
}

/// What a host is told of the longest frame that its node takes.
#[test]
fn the_limit_is_told() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    let (now, firmware) = (pair.now, &mut pair.nodes[0].firmware);
    assert_eq!(firmware.takes_bytes_max(LinkIndex(0)), 1_500);
    firmware.limit_frame_bytes(now, LinkIndex(0), 600);
    assert_eq!(firmware.takes_bytes_max(LinkIndex(0)), 600);
    firmware.raise_frame_bytes(now, LinkIndex(0), 1_500);
    assert_eq!(firmware.takes_bytes_max(LinkIndex(0)), 1_500);
}
