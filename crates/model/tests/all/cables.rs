//! Worlds of cables: several between the same nodes, rings, trees of switches, ten thousand nodes; plugs that are pulled and moved.

use emp_firmware::{LinkInfo, NodeEvent, Profile, Span, Time};
use emp_model::{
    Action, Cable, FabricSetup, Jack, MessageSpec, NodeSetup, Plug, Prng, Want, Wiring, World,
    WorldSetup,
};

use crate::support::cabled::cabled;
use crate::support::{finish, wait};

/// Two nodes with so many cables.
fn joined(cables: usize, profile: &Profile) -> World {
    let mut wiring = Wiring::bare(2);
    (0..cables).for_each(|_| wiring.join(0, 1));
    cabled(wiring, profile)
}

fn lost(world: &World) -> Option<&(Time, usize, NodeEvent)> {
    let is_loss = |event: &NodeEvent| {
        matches!(event, NodeEvent::Unreachable(_) | NodeEvent::Restarted(_) | NodeEvent::GaveUp(_))
    };
    world.events().iter().find(|(_, _, what)| is_loss(what))
}

#[test]
fn neighbours_of_a_ring_talk_and_others_are_not_found() {
    let mut world = cabled(Wiring::ring(4), &Profile::DEFAULT);
    let mut messages = Vec::new();
    for from in 0..4 {
        let to = (from + 1) % 4;
        world.receive(to, Want::ANY, 50_000);
        messages.push(world.send(MessageSpec::plain(from, to, 50_000)));
    }
    wait(&mut world, Span::ms(2_000), |world| messages.iter().all(|one| world.arrived(*one)));
    let across = world.send(MessageSpec::plain(0, 2, 100));
    // Once the search has been given up; nothing explains more than that.
    wait(&mut world, Span::ms(60_000), |world| world.sent(across).is_some());
    assert!(!world.arrived(across));
    assert!(world.violation().is_none(), "{:?}", world.violation());
}

/// With a second cable nothing is lost or doubled, whichever is pulled, for however long; and traffic goes on.
#[test]
fn a_second_cable_is_taken_when_the_first_is_pulled() {
    for cable in 0..2 {
        for side in 0..2 {
            let mut world = joined(2, &Profile::DEFAULT);
            let say = |world: &mut World, bytes: u64| {
                world.receive(1, Want::ANY, bytes);
                let message = world.send(MessageSpec::plain(0, 1, bytes));
                wait(world, Span::ms(5_000), |world| world.arrived(message));
            };
            say(&mut world, 100_000);
            world.receive(1, Want::ANY, 8 << 20);
            let long = world.send(MessageSpec::plain(0, 1, 8 << 20));
            world.pass(Span::ms(1));
            world.apply(Action::SetPlug { cable, side, is_in: false });
            wait(&mut world, Span::ms(10_000), |world| world.arrived(long));
            world.pass(Span::ms(30_000));
            say(&mut world, 100);
            world.apply(Action::SetPlug { cable, side, is_in: true });
            world.pass(Span::ms(100));
            say(&mut world, 1 << 20);
            assert_eq!(lost(&world), None, "cable {cable}, side {side}");
            finish(&mut world);
        }
    }
}

/// Without a second one, what waits goes on when the plug is in again.
#[test]
fn a_message_outlives_the_only_cable_that_is_out_for_seconds() {
    let mut world = joined(1, &Profile::DEFAULT);
    world.receive(1, Want::ANY, 4 << 20);
    let message = world.send(MessageSpec::plain(0, 1, 4 << 20));
    world.pass(Span::ms(1));
    world.apply(Action::SetPlug { cable: 0, side: 1, is_in: false });
    world.pass(Span::ms(5_000));
    assert!(!world.arrived(message));
    world.apply(Action::SetPlug { cable: 0, side: 1, is_in: true });
    wait(&mut world, Span::ms(1_000), |world| world.arrived(message));
    assert_eq!(lost(&world), None);
    finish(&mut world);
}

#[test]
fn a_plug_that_moves_to_another_link_is_found_there() {
    let mut wiring = Wiring::bare(2);
    wiring.join(0, 1);
    wiring.links[0] += 1;
    let mut world = cabled(wiring, &Profile::DEFAULT);
    for to in [Jack { node: 0, link: 1 }, Jack { node: 0, link: 0 }] {
        world.receive(0, Want::ANY, 100);
        let message = world.send(MessageSpec::plain(1, 0, 100));
        wait(&mut world, Span::ms(20_000), |world| world.arrived(message));
        world.apply(Action::MovePlug { cable: 0, side: 0, to: Plug::Node(to) });
    }
    world.receive(0, Want::ANY, 100);
    let message = world.send(MessageSpec::plain(1, 0, 100));
    wait(&mut world, Span::ms(20_000), |world| world.arrived(message));
    finish(&mut world);
}

/// Who cannot ask everyone is told by a launcher, which knows where the others are whatever cable is out at that moment.
#[test]
fn nodes_that_start_while_their_cable_is_out_meet_when_it_is_in_again() {
    let mut wiring = Wiring::bare(2);
    wiring.join(0, 1);
    let mut hung = Wiring::bare(2);
    (hung.switches, hung.links) = (2, vec![0; 2]);
    (0..2).for_each(|node| hung.hang(node, node));
    hung.cables.push(Cable { ends: [Plug::Switch(0), Plug::Switch(1)], setup: 0 });
    for (wiring, cable) in [(wiring, 0), (hung, 2)] {
        let node = |index| NodeSetup {
            links: vec![LinkInfo::new(1_500, false)],
            ..NodeSetup::new(index, Profile::DEFAULT)
        };
        let setup = WorldSetup {
            fabrics: vec![FabricSetup::lan()],
            nodes: (0..2).map(node).collect(),
            seed: 3,
        };
        let mut world = World::cabled(Time(0), setup, Some(wiring));
        world.apply(Action::SetPlug { cable, side: 1, is_in: false });
        for node in 0..2 {
            world.apply(Action::Stop { node, goodbye: false });
            world.apply(Action::Start { node });
        }
        world.apply(Action::SetPlug { cable, side: 1, is_in: true });
        world.pass(Span::ms(100));
        world.receive(1, Want::ANY, 100);
        let message = world.send(MessageSpec::plain(0, 1, 100));
        wait(&mut world, Span::ms(1_000), |world| world.arrived(message));
        finish(&mut world);
    }
}

/// Ten thousand nodes, each with four cables: as many as anybody simulates here. What waits costs nothing but its memory.
#[test]
fn ten_thousand_nodes_of_a_random_graph_meet_their_neighbours() {
    let wiring = Wiring::random(10_000, 4, &mut Prng::new(11));
    let ends: Vec<(usize, usize)> = wiring
        .cables
        .iter()
        .step_by(50)
        .filter_map(|cable| Some((cable.ends[0].jack()?.node, cable.ends[1].jack()?.node)))
        .collect();
    let mut world = cabled(wiring, &Profile::DEFAULT);
    let messages: Vec<_> = ends
        .iter()
        .map(|(from, to)| {
            world.receive(*to, Want::ANY, 1_000);
            world.send(MessageSpec::plain(*from, *to, 1_000))
        })
        .collect();
    assert_eq!(messages.len(), 400);
    wait(&mut world, Span::ms(1_000), |world| messages.iter().all(|one| world.arrived(*one)));
    // Nobody heard of it but those at the four cables of each sender.
    let knows = |node: usize| world.firmware(node).peers();
    let known: usize = (0..10_000).map(knows).sum();
    assert!(known <= 400 * (1 + 4) * 2, "{known} peers known");
}
