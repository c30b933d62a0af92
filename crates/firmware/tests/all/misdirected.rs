//! Frames for another process whose 16-bit tag is the same: whoever gets them shows itself now and then, not for each (`EPOCH-3`).

use std::cell::RefCell;
use std::rc::Rc;

use crate::common::{HALF, Memory, Pair, make};
use emp_firmware::*;
use emp_wire::{Header, Kind, LinkAddress, NodeId};

/// A node with the tag of node 2, on the same wire.
fn other() -> NodeId {
    let tag = NodeId(2).destination_tag();
    (3..).map(NodeId).find(|node| node.destination_tag() == tag).expect("one of 65,534")
}

/// What the first of a pair sends to the second: frames of all kinds that a stream has.
fn stream() -> Vec<Vec<u8>> {
    let frames = Rc::new(RefCell::new(Vec::new()));
    let mut pair = Pair::new(&Profile::DEFAULT);
    let seen = frames.clone();
    pair.drop = Box::new(move |from, frame| {
        let (header, _) = Header::parse(frame).unwrap();
        if from == 0 && !header.kind.contact() {
            seen.borrow_mut().push(frame.to_vec());
        }
        false
    });
    for bits in 0..10 {
        pair.receive(1, Selector::ANY, HALF);
        pair.send(0, 2, bits, 20_000);
        pair.run(Span::ms(1));
    }
    frames.take()
}

/// Hellos that the node sends while it hears `frames` again and again, 100,000 a second for ten seconds.
fn hellos(node: &mut Firmware, frames: &[Vec<u8>], start: Time) -> usize {
    let mut memory = Memory(vec![0; 1 << 16]);
    let mut batch = TransmitBatch::new(1500);
    let mut hellos = 0;
    for turn in 0..1_000_000 {
        let now = start + Span::us(10 * turn);
        let frame = &frames[turn as usize % frames.len()];
        node.handle_frame(now, LinkIndex(0), LinkAddress::index(0), frame, &mut memory);
        batch.clear();
        node.poll_transmit(now, &mut memory, &mut batch);
        for at in 0..batch.frames().len() {
            let (header, _) = Header::parse(batch.inline(at)).unwrap();
            assert_eq!(header.kind, Kind::Hello);
            hellos += 1;
        }
    }
    hellos
}

#[test]
fn strangers_hear_of_it_seldom() {
    let frames = stream();
    let kind = |frame: &[u8]| Header::parse(frame).unwrap().0.kind;
    assert!(frames.iter().any(|frame| kind(frame) == Kind::Message));
    assert!(frames.iter().any(|frame| kind(frame) == Kind::Data));
    let mut node = make(other().0, 0x5555, &Profile::DEFAULT);
    let hellos = hellos(&mut node, &frames, Time(1));
    assert!((1..=25).contains(&hellos), "{hellos} hellos in ten seconds");
}

/// The same of a node that is known, as it speaks to both.
#[test]
fn peers_hear_of_it_seldom() {
    let frames = stream();
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.nodes[1].firmware = make(other().0, 0x5555, &Profile::DEFAULT);
    pair.receive(1, Selector::ANY, HALF);
    pair.send(0, other().0, 1, 100);
    pair.run(Span::ms(50));
    assert_eq!(pair.nodes[1].done.len(), 1, "they have met");
    let start = pair.now;
    let hellos = hellos(&mut pair.nodes[1].firmware, &frames, start);
    assert!((1..=25).contains(&hellos), "{hellos} hellos in ten seconds");
}

/// A node that restarts is found again at once by all that speak to it.
#[test]
fn a_node_that_restarts_shows_itself_at_once() {
    for other_first in [false, true] {
        let mut pair = Pair::new(&Profile::DEFAULT);
        pair.receive(1, Selector::ANY, HALF);
        pair.send(0, 2, 1, 100);
        pair.run(Span::ms(50));
        pair.nodes[1].firmware = make(2, 0x7777, &Profile::DEFAULT);
        if other_first {
            hellos(&mut pair.nodes[1].firmware, &stream(), Time(1));
            pair.now = pair.now + Span::ms(10_100);
        }
        pair.send(0, 2, 2, 100);
        pair.run(Span::ms(5));
        pair.receive(1, Selector::ANY, HALF);
        pair.send(0, 2, 3, 100);
        pair.run(Span::ms(5));
        let done = &pair.nodes[1].done;
        assert_eq!(done.last().map(|end| end.match_bits), Some(3), "it does not wait");
    }
}
