//! Nodes that can ask nobody but those that they know, as on datagrams between subnets, find others by them (`HELLO-11`).

use crate::support::{count, finish, settle, wait};
use emp_firmware::{Counter, LinkInfo, Profile, Span, Status};
use emp_model::{Action, MessageSpec, NodeSetup, Want, World, WorldSetup};
use emp_wire::AddressFamily;

/// The node that all others know, and they nobody else.
const HUB: usize = 0;

/// So many nodes and the hub, to which they have spoken; node 0 knows no one.
fn around_a_hub(others: usize, patience: Span) -> World {
    let tells = Some(AddressFamily::Index);
    let link = LinkInfo { tells, ..LinkInfo::new(1_500, false) };
    let profile = Profile { unreachable_after: patience, ..Profile::DEFAULT };
    let nodes = (0..=others).map(|index| NodeSetup {
        links: vec![link],
        told_of: Some(if index == HUB { Vec::new() } else { vec![HUB] }),
        ..NodeSetup::new(index, profile.clone())
    });
    let setup = WorldSetup { nodes: nodes.collect(), ..WorldSetup::lan(others + 1, &profile) };
    let mut world = World::new(setup);
    for node in 1..=others {
        world.receive(HUB, Want::ANY, 10);
        world.send(MessageSpec::plain(node, HUB, 10));
    }
    finish(&mut world);
    world
}

const PATIENCE: Span = Span::ms(5_000);

#[test]
fn nodes_that_know_one_node_find_each_other() {
    let mut world = around_a_hub(2, PATIENCE);
    world.receive(2, Want::ANY, 100_000);
    let message = world.send(MessageSpec::plain(1, 2, 100_000));
    let took = wait(&mut world, PATIENCE, |world| world.arrived(message));
    // The second time that it asks is a millisecond after the first.
    assert!(took < Span::ms(5), "{} µs", took.as_us());
    assert_eq!(count(&world, 1, Counter::PeersAsked), 1);
    assert_eq!(count(&world, HUB, Counter::PeersTold), 1);
    // The way back is known by what came.
    world.receive(1, Want::ANY, 100_000);
    let back = world.send(MessageSpec::plain(2, 1, 100_000));
    wait(&mut world, Span::ms(5), |world| world.arrived(back));
    assert_eq!(count(&world, 2, Counter::PeersAsked), 0);
    finish(&mut world);
}

/// All of thirty find all others, by few questions.
#[test]
fn a_job_finds_itself_by_one_node() {
    const NODES: usize = 30;
    let mut world = around_a_hub(NODES, PATIENCE);
    let mut messages = Vec::new();
    for (from, to) in (1..=NODES).flat_map(|from| (1..=NODES).map(move |to| (from, to))) {
        if from != to {
            world.receive(to, Want::ANY, 100);
            messages.push(world.send(MessageSpec::plain(from, to, 100)));
        }
    }
    wait(&mut world, PATIENCE, |world| messages.iter().all(|message| world.arrived(*message)));
    finish(&mut world);
    let questions: u64 = (1..=NODES).map(|node| count(&world, node, Counter::PeersAsked)).sum();
    assert!(questions < 8 * (NODES * NODES) as u64, "{questions}");
}

#[test]
fn who_is_known_to_nobody_is_not_found_and_costs_little() {
    let mut world = around_a_hub(2, PATIENCE);
    world.apply(Action::Stop { node: 2, goodbye: true });
    settle(&mut world);
    let before = world.network().totals().sent;
    // So long that it is over only when it is delivered.
    let lost = world.send(MessageSpec::plain(1, 2, 100_000));
    wait(&mut world, Span::ms(6_000), |world| world.sent(lost).is_some());
    assert_eq!(world.sent(lost), Some(Status::NotFound));
    let frames = world.network().totals().sent - before;
    assert!(frames < 60, "{frames} frames in five seconds");
}

/// A node that comes back elsewhere and speaks to the hub is found by those that knew it before.
#[test]
fn who_has_moved_is_found_again() {
    let mut world = around_a_hub(2, PATIENCE);
    world.receive(2, Want::ANY, 100);
    let first = world.send(MessageSpec::plain(1, 2, 100));
    wait(&mut world, PATIENCE, |world| world.arrived(first));
    finish(&mut world);
    world.apply(Action::Relocate { node: 2 });
    world.receive(HUB, Want::ANY, 10);
    let told = world.send(MessageSpec::plain(2, HUB, 10));
    wait(&mut world, PATIENCE, |world| world.arrived(told));
    world.receive(2, Want::ANY, 100);
    let second = world.send(MessageSpec::plain(1, 2, 100));
    wait(&mut world, PATIENCE, |world| world.arrived(second));
    assert!(count(&world, 1, Counter::PeersAsked) > 1);
    finish(&mut world);
}
