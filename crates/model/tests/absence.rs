//! Nodes that do not run for a while: processes that are stopped or starved, machines whose clocks go on while they stand
//! still. The silence that such a node finds when it runs again is its own, and no peer is given up for it.

mod support;

use emp_firmware::{NodeEvent, Profile, Span, Status};
use emp_model::{Action, MessageSpec, Want, World};
use support::{acquainted, finish, settle, wait};

/// How long a node stands still: three times the patience.
const STANDSTILL: Span = Span::ms(3_000);

/// Patience, and a second for back-off and questions.
const NOTICED_WITHIN: Span = Span::ms(2_000);

/// All profiles, with less patience.
fn impatient() -> impl Iterator<Item = Profile> {
    Profile::ALL.into_iter().map(|profile| {
        let mut profile = profile.clone();
        profile.unreachable_after = Span::ms(1_000);
        profile
    })
}

/// So many milliseconds more than the standstill.
const fn beyond(ms: u64) -> Span {
    Span(STANDSTILL.0 + Span::ms(ms).0)
}

fn pause(world: &mut World, node: usize, span: Span) {
    world.apply(Action::Pause { node, span });
}

fn nobody_was_lost(world: &World, profile: &Profile) {
    let lost = world.events().iter().find(|(_, _, what)| !matches!(what, NodeEvent::Found { .. }));
    assert_eq!(lost, None, "{}", profile.name);
}

/// A receive that asks for a message of a peer by name; the peer has nothing to say until long after.
#[test]
fn who_waits_and_stands_still_does_not_give_the_peer_up() {
    for profile in impatient() {
        let mut world = acquainted(2, &profile);
        let receive = world.receive(0, Want { from: Some(1), ..Want::ANY }, 100);
        world.pass(Span::ms(300));
        pause(&mut world, 0, STANDSTILL);
        world.pass(beyond(1));
        world.pass(Span::ms(700));
        assert!(world.received(receive).is_none(), "{}", profile.name);
        let message = world.send(MessageSpec::plain(1, 0, 100));
        wait(&mut world, Span::ms(50), |world| world.arrived(message));
        nobody_was_lost(&world, &profile);
        finish(&mut world);
    }
}

/// What was under way is lost on the wire, and the sender stands still before it can send it again.
#[test]
fn who_sends_and_stands_still_does_not_give_the_peer_up() {
    for profile in impatient() {
        for bytes in [100, 4 << 20] {
            let mut world = acquainted(2, &profile);
            world.receive(1, Want::ANY, bytes);
            world.cut(0, 1, Span::ms(20));
            let message = world.send(MessageSpec::plain(0, 1, bytes));
            world.pass(Span::ms(10));
            pause(&mut world, 0, STANDSTILL);
            wait(&mut world, beyond(500), |world| world.arrived(message));
            nobody_was_lost(&world, &profile);
            finish(&mut world);
        }
    }
}

/// A machine with both nodes stands still, at any time of a large message; either runs again first.
#[test]
fn a_machine_that_stands_still_loses_nothing() {
    for profile in impatient() {
        for (first, after_us) in [(0, 0), (1, 0), (0, 300), (1, 300), (0, 2_000), (1, 2_000)] {
            let mut world = acquainted(2, &profile);
            world.receive(1, Want::ANY, 4 << 20);
            let message = world.send(MessageSpec::plain(0, 1, 4 << 20));
            world.pass(Span::us(after_us));
            pause(&mut world, first, STANDSTILL);
            pause(&mut world, 1 - first, beyond(5));
            wait(&mut world, beyond(1_000), |world| world.arrived(message));
            nobody_was_lost(&world, &profile);
            finish(&mut world);
        }
    }
}

/// It is looking for a node that it does not know when it stands still; the answer is lost.
#[test]
fn a_search_goes_on_after_a_standstill() {
    for profile in impatient() {
        let mut world = World::new(emp_model::WorldSetup::lan(2, &profile));
        world.cut(0, 1, Span::ms(500));
        world.receive(1, Want::ANY, 100);
        let message = world.send(MessageSpec::plain(0, 1, 100));
        world.pass(Span::ms(400));
        pause(&mut world, 0, STANDSTILL);
        wait(&mut world, beyond(500), |world| world.arrived(message));
        nobody_was_lost(&world, &profile);
        finish(&mut world);
    }
}

/// A node that gets to run only now and then, as one process of many that spin: far more than its patience in all.
#[test]
fn a_starved_node_keeps_its_peers() {
    for profile in impatient() {
        let mut world = acquainted(2, &profile);
        world.receive(0, Want { from: Some(1), ..Want::ANY }, 100);
        for _ in 0..8 {
            pause(&mut world, 0, Span::ms(700));
            world.pass(Span::ms(701));
        }
        let message = world.send(MessageSpec::plain(1, 0, 100));
        wait(&mut world, Span::ms(50), |world| world.arrived(message));
        nobody_was_lost(&world, &profile);
        finish(&mut world);
    }
}

/// A peer that ends while this node stands still is noticed in the time that it takes otherwise.
#[test]
fn an_end_during_a_standstill_is_noticed() {
    for profile in impatient() {
        for bytes in [100, 4 << 20] {
            let mut world = acquainted(2, &profile);
            let gone = world.id(1);
            world.cut(0, 1, Span::ms(20));
            let lost =
                world.send(MessageSpec { synchronous: true, ..MessageSpec::plain(0, 1, bytes) });
            world.pass(Span::ms(10));
            pause(&mut world, 0, STANDSTILL);
            world.apply(Action::Stop { node: 1, goodbye: false });
            world.pass(STANDSTILL);
            wait(&mut world, NOTICED_WITHIN, |world| world.sent(lost).is_some());
            assert_eq!(world.sent(lost), Some(Status::Unreachable), "{}", profile.name);
            let event = NodeEvent::Unreachable(gone);
            assert!(world.events().iter().any(|(_, at, what)| *at == 0 && *what == event));
            settle(&mut world);
        }
    }
}
