//! What it costs when all nodes of a job start at once and each sends to all others: frames per pair, and who is asked.

use std::cell::Cell;
use std::rc::Rc;

use crate::support::settle;
use emp_firmware::{LinkIndex, Profile, Span};
use emp_model::{MessageSpec, Verdict, Want, World, WorldSetup};
use emp_wire::{Header, Kind};

/// Ranks of the job.
const NODES: usize = 256;

/// Frames for each message of 8 bytes from one node to another: a hello to it and, as it looks for this one, too, one back, their answers,
/// the message, and its acknowledgement.
const FRAMES_PER_PAIR_MAX: u64 = 6;

/// How many hellos arrive from now on.
fn count_hellos(world: &mut World) -> Rc<Cell<u64>> {
    let hellos = Rc::new(Cell::new(0u64));
    let counted = hellos.clone();
    world.network_mut().set_script(Some(Box::new(move |_, _, _, frame| {
        let hello = Header::parse(frame).is_ok_and(|(header, _)| header.kind == Kind::Hello);
        counted.set(counted.get() + u64::from(hello));
        Some(Verdict::default())
    })));
    hellos
}

#[test]
fn a_job_of_256_nodes_that_start_at_once_asks_nobody_but_whom_it_looks_for() {
    let mut world = World::new(WorldSetup::lan(NODES, &Profile::DEFAULT));
    // As a launcher tells each rank where all others are.
    for node in 0..NODES {
        for other in (0..NODES).filter(|other| *other != node) {
            let (id, address) = (world.id(other), world.network().address(other));
            world.poke(node, |firmware, _, _| firmware.hint(id, LinkIndex(0), address));
        }
    }
    let hellos = count_hellos(&mut world);
    let (before, start) = (world.network().totals(), world.now());
    let mut messages = Vec::new();
    for node in 0..NODES {
        for other in (0..NODES).filter(|other| *other != node) {
            world.receive(node, Want { from: Some(other), ..Want::ANY }, 8);
            messages.push(world.send(MessageSpec::plain(node, other, 8)));
        }
    }
    world.run_until(Span::ms(2_000), |world| messages.iter().rev().all(|m| world.arrived(*m)));
    assert!(messages.iter().all(|message| world.arrived(*message)), "{:?}", world.violation());
    let took = world.now().since(start);
    settle(&mut world);
    let pairs = (NODES * (NODES - 1)) as u64;
    let sent = world.network().totals().sent - before.sent;
    println!(
        "{NODES} nodes, {pairs} messages: {sent} frames, {} hellos arrived, {} ms",
        hellos.get(),
        took.0 / 1_000_000
    );
    assert!(sent <= FRAMES_PER_PAIR_MAX * pairs, "{sent} frames for {pairs} messages");
    assert!(hellos.get() <= 2 * pairs, "{} hellos arrived for {pairs} messages", hellos.get());
}

/// Who is told nothing asks everyone, once for each node that it sends to, and for no other: 256 nodes that start at once and each send to
/// eight, as in a job's tree, ask 2,048 times, and not for each of 65,280 pairs.
#[test]
fn nodes_without_hints_that_start_at_once_ask_everyone_once_for_each_that_they_send_to() {
    let mut world = World::new(WorldSetup::lan(NODES, &Profile::DEFAULT));
    let hellos = count_hellos(&mut world);
    let mut messages = Vec::new();
    for node in 0..NODES {
        for bit in 0..8 {
            let other = node ^ (1 << bit);
            world.receive(node, Want { from: Some(other), ..Want::ANY }, 8);
            messages.push(world.send(MessageSpec::plain(node, other, 8)));
        }
    }
    world.run_until(Span::ms(2_000), |world| messages.iter().rev().all(|m| world.arrived(*m)));
    assert!(messages.iter().all(|message| world.arrived(*message)), "{:?}", world.violation());
    settle(&mut world);
    let (sent, asked) = (world.network().totals().sent, messages.len() as u64);
    // A broadcast arrives at all others; the other end of each pair asks back alone.
    let broadcasts = hellos.get() / (NODES as u64 - 1);
    println!("{NODES} nodes, {asked} messages: {sent} frames, {broadcasts} broadcasts or so");
    assert!(sent <= FRAMES_PER_PAIR_MAX * asked, "{sent} frames for {asked} messages");
    assert!(broadcasts <= asked + asked / 64, "{broadcasts} broadcasts for {asked} messages");
}
