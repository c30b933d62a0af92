//! Nodes that do not run for a while: processes that are stopped or starved, machines whose clocks go on while they stand
//! still. The silence that such a node finds when it runs again is its own, and no peer is given up for it.

use crate::support::{acquainted, finish, settle, wait};
use emp_firmware::{NodeEvent, Profile, Span, Status, Time};
use emp_model::{Action, MessageSpec, Prng, Want, World};

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

/// A receive that asks for a message of a peer by name; the peer has nothing to say until long after (`RESEND-5`).
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

/// It has waited for longer than its patience already, and the peer was heard all the time, when it stands still; several times.
#[test]
fn who_has_waited_long_and_stands_still_does_not_give_the_peer_up() {
    for profile in impatient() {
        for synchronous in [false, true] {
            let mut world = acquainted(2, &profile);
            // A message that the peer's program asks for much later, or one that it has yet to send.
            let spec = MessageSpec { synchronous, ..MessageSpec::plain(0, 1, 100) };
            let receive = world.receive(0, Want { from: Some(1), ..Want::ANY }, 100);
            let sent = synchronous.then(|| world.send(spec));
            for _ in 0..4 {
                world.pass(Span::ms(2_500));
                pause(&mut world, 0, STANDSTILL);
                world.pass(beyond(1));
            }
            nobody_was_lost(&world, &profile);
            let message = world.send(MessageSpec::plain(1, 0, 100));
            wait(&mut world, Span::ms(50), |world| world.arrived(message));
            assert_eq!(world.received(receive).map(|end| end.status), Some(Status::Ok));
            if let Some(sent) = sent {
                world.receive(1, Want::ANY, 100);
                wait(&mut world, Span::ms(50), |world| world.sent(sent).is_some());
            }
            nobody_was_lost(&world, &profile);
            finish(&mut world);
        }
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

/// The processes of an overloaded machine: each runs for a few milliseconds now and then, both at about the same times, and stands
/// still for up to three times its patience between them, at whatever point of whatever messages.
#[test]
fn starved_nodes_keep_each_other() {
    const END: Time = Time(15_000_000_000);
    let profile = Profile { unreachable_after: Span::ms(1_000), ..Profile::DEFAULT };
    for seed in 0..30 {
        let mut world = acquainted(2, &profile);
        let mut prng = Prng::new(seed);
        let mut at = world.now();
        while at < END {
            let span = prng.below(STANDSTILL.0);
            for node in 0..2 {
                let span = Span(span + prng.below(Span::ms(3).0));
                world.schedule(at, Action::Pause { node, span });
            }
            at = at + Span(span + Span::ms(6).0);
        }
        while world.now() < END {
            let (from, bytes) = (prng.below(2) as usize, [0, 100, 20_000, 1 << 20]);
            if prng.below(2) == 0 {
                world.receive(1 - from, Want { from: Some(from), ..Want::ANY }, 1 << 20);
            }
            let bytes = bytes[prng.below(4) as usize];
            world.send(MessageSpec::plain(from, 1 - from, bytes));
            world.pass(Span(prng.below(STANDSTILL.0)));
            assert!(world.violation().is_none(), "seed {seed}: {:?}", world.violation());
        }
        nobody_was_lost(&world, &profile);
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
