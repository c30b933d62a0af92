//! Nodes that vanish, come back, move and say goodbye (V5–V7, V26–V29).

use crate::support::{acquainted, acquainted_setup, finish, sent, settle, wait};
use emp_firmware::{NodeEvent, Profile, Span, Status};
use emp_model::{Action, FaultPlan, MessageSpec, Ppm, Rates, Want, World, WorldSetup};
use emp_wire::Kind;

/// All profiles, with less patience.
fn impatient() -> impl Iterator<Item = Profile> {
    Profile::ALL.into_iter().map(|profile| {
        let mut profile = profile.clone();
        profile.unreachable_after = Span::ms(1_000);
        profile
    })
}

/// Patience, and a second for back-off and questions.
const NOTICED_WITHIN: Span = Span::ms(2_000);

fn reported(world: &World, node: usize, event: &NodeEvent) -> bool {
    world.events().iter().any(|(_, at, what)| *at == node && what == event)
}

/// V7: a peer that vanishes mid-message ends the send with an error that names it, in bounded time; the sender's other
/// peers notice nothing.
#[test]
fn a_receiver_that_vanishes_mid_message_is_reported() {
    for profile in impatient() {
        let mut world = acquainted(3, &profile);
        let gone = world.id(1);
        world.receive(1, Want::ANY, 4 << 20);
        let lost = world.send(MessageSpec::plain(0, 1, 4 << 20));
        world.pass(Span::us(500));
        world.apply(Action::Stop { node: 1, goodbye: false });
        let mut others = Vec::new();
        for _ in 0..50 {
            world.receive(2, Want::ANY, 10_000);
            let message = world.send(MessageSpec::plain(0, 2, 10_000));
            others.push(wait(&mut world, Span::ms(50), |world| world.arrived(message)));
            world.pass(Span::ms(10));
        }
        wait(&mut world, NOTICED_WITHIN, |world| world.sent(lost).is_some());
        assert_eq!(world.sent(lost), Some(Status::Unreachable), "{}", profile.name);
        assert!(reported(&world, 0, &NodeEvent::Unreachable(gone)), "{}", profile.name);
        let slowest = others.iter().max().unwrap();
        assert!(*slowest < Span::ms(1), "{}: others waited {} µs", profile.name, slowest.as_us());
        finish(&mut world);
    }
}

/// The same at the other end: a receive that had matched ends when its sender is gone for long.
#[test]
fn a_sender_that_vanishes_mid_message_is_reported() {
    for profile in impatient() {
        let mut world = acquainted(2, &profile);
        let receive = world.receive(1, Want::ANY, 4 << 20);
        world.send(MessageSpec::plain(0, 1, 4 << 20));
        world.pass(Span::us(500));
        world.apply(Action::Stop { node: 0, goodbye: false });
        wait(&mut world, NOTICED_WITHIN, |world| world.received(receive).is_some());
        let done = world.received(receive).unwrap();
        assert_eq!(done.status, Status::Unreachable, "{}", profile.name);
        assert_eq!(done.peer, world.id(0), "{}", profile.name);
        finish(&mut world);
    }
}

/// A message that waits unmatched at a peer which then vanishes: its sender is told too.
#[test]
fn a_receiver_that_vanishes_before_matching_is_reported() {
    for profile in impatient() {
        for (bytes, synchronous) in [(100, true), (4 << 20, false)] {
            let mut world = acquainted(2, &profile);
            let lost = world.send(MessageSpec { synchronous, ..MessageSpec::plain(0, 1, bytes) });
            world.pass(Span::ms(200));
            if world.sent(lost).is_some() {
                // Whole messages leave at once in some profiles: delivered is delivered.
                continue;
            }
            world.apply(Action::Stop { node: 1, goodbye: false });
            wait(&mut world, NOTICED_WITHIN, |world| world.sent(lost).is_some());
            assert_eq!(world.sent(lost), Some(Status::Unreachable), "{}", profile.name);
            finish(&mut world);
        }
    }
}

/// A node that is not there at all.
#[test]
fn a_node_that_never_was_is_unreachable() {
    for profile in impatient() {
        let mut world = World::new(WorldSetup::lan(2, &profile));
        world.apply(Action::Stop { node: 1, goodbye: false });
        world.network_mut().trace_mut().switch(true);
        let message = world.send(MessageSpec::plain(0, 1, 50_000));
        wait(&mut world, NOTICED_WITHIN, |world| world.sent(message).is_some());
        assert_eq!(world.sent(message), Some(Status::NotFound));
        let questions = sent(&world, 0, Kind::Hello);
        assert!((2..=200).contains(&questions), "{}: asked {questions} times", profile.name);
        finish(&mut world);
    }
}

/// A peer that was restarted is known again at once; what was under way ends with `PeerRestarted`.
#[test]
fn a_restart_mid_message_is_noticed_quickly() {
    for profile in impatient() {
        let mut world = acquainted(2, &profile);
        world.receive(1, Want::ANY, 4 << 20);
        let lost = world.send(MessageSpec::plain(0, 1, 4 << 20));
        world.pass(Span::us(500));
        world.apply(Action::Stop { node: 1, goodbye: false });
        world.pass(Span::ms(5));
        world.apply(Action::Start { node: 1 });
        let took = wait(&mut world, NOTICED_WITHIN, |world| world.sent(lost).is_some());
        assert_eq!(world.sent(lost), Some(Status::PeerRestarted), "{}", profile.name);
        assert!(took < Span::ms(250), "{}: noticed after {} µs", profile.name, took.as_us());

        world.receive(1, Want::ANY, 50_000);
        let next = world.send(MessageSpec::plain(0, 1, 50_000));
        wait(&mut world, Span::ms(100), |world| world.arrived(next));
        finish(&mut world);
    }
}

/// A sender that was restarted mid-message: the receive that had matched ends, and the next message arrives (`PAIR-1`).
#[test]
fn a_restarted_sender_starts_afresh() {
    for profile in impatient() {
        let mut world = acquainted(2, &profile);
        let receive = world.receive(1, Want::ANY, 4 << 20);
        world.send(MessageSpec::plain(0, 1, 4 << 20));
        world.pass(Span::us(500));
        world.apply(Action::Stop { node: 0, goodbye: false });
        world.apply(Action::Start { node: 0 });
        let next = world.send(MessageSpec::plain(0, 1, 50_000));
        wait(&mut world, NOTICED_WITHIN, |world| world.received(receive).is_some());
        let status = world.received(receive).unwrap().status;
        assert_eq!(status, Status::PeerRestarted, "{}", profile.name);
        world.receive(1, Want::ANY, 50_000);
        wait(&mut world, Span::ms(200), |world| world.arrived(next));
        finish(&mut world);
    }
}

/// Frames of an old session that arrive late mean nothing (V29).
#[test]
fn frames_of_an_old_epoch_are_dropped() {
    for profile in impatient() {
        let mut world = acquainted(2, &profile);
        // Every frame comes once more, up to two seconds later.
        let rates = Rates { replay: Ppm::ALWAYS, ..Rates::default() };
        world.network_mut().set_faults(0, FaultPlan::uniform(rates));
        for round in 0..6 {
            for bytes in [10, 50_000] {
                deliver(&mut world, bytes);
            }
            world.pass(Span::ms(20));
            let node = round % 2;
            world.apply(Action::Stop { node, goodbye: false });
            world.apply(Action::Start { node });
        }
        deliver(&mut world, 5_000);
        world.network_mut().heal();
        settle(&mut world);
        world.judge().unwrap();
        assert!(world.violation().is_none());
    }
}

/// Sends a message from node 0 to node 1 until it arrives: one that is posted before the sender knows of a restart is lost.
fn deliver(world: &mut World, bytes: u64) {
    for _ in 0..3 {
        world.receive(1, Want::ANY, bytes);
        let message = world.send(MessageSpec::plain(0, 1, bytes));
        world.run_until(Span::ms(500), |world| world.arrived(message));
        if world.arrived(message) {
            return;
        }
    }
    panic!("three messages in a row were lost: {:?}", world.violation());
}

/// V28: moving a cable or a node is transparent.
#[test]
fn a_node_that_moves_is_found_again() {
    for profile in impatient() {
        let mut world = acquainted(2, &profile);
        world.receive(1, Want::ANY, 4 << 20);
        let message = world.send(MessageSpec::plain(0, 1, 4 << 20));
        world.pass(Span::us(500));
        world.apply(Action::Relocate { node: 1 });
        wait(&mut world, NOTICED_WITHIN, |world| world.arrived(message));
        world.receive(1, Want::ANY, 100);
        world.send(MessageSpec::plain(0, 1, 100));
        world.receive(0, Want::ANY, 100);
        world.send(MessageSpec::plain(1, 0, 100));
        finish(&mut world);
        let broken = world.events().iter().any(|(_, _, event)| {
            matches!(
                event,
                NodeEvent::Unreachable(_) | NodeEvent::Restarted(_) | NodeEvent::GaveUp(_)
            )
        });
        assert!(!broken, "{}: {:?}", profile.name, world.events());
    }
}

/// The same when both ends send, and their timers go off together: the question that nobody answers where the node was must not
/// be in place of the one where it is.
#[test]
fn a_node_that_moves_is_found_by_what_it_sends() {
    let mut setup = WorldSetup::lan(2, &Profile::DEFAULT);
    // Nobody is found by asking everyone.
    setup.nodes.iter_mut().for_each(|node| node.links[0].broadcast = false);
    let mut world = acquainted_setup(setup);
    world.apply(Action::Relocate { node: 1 });
    let messages = [(0, 1), (1, 0)].map(|(from, to)| {
        world.receive(to, Want::ANY, 100);
        world.send(MessageSpec::plain(from, to, 100))
    });
    let arrived = |world: &World| messages.iter().all(|message| world.arrived(*message));
    let took = wait(&mut world, Span::ms(5_000), arrived);
    assert!(took < Span::ms(400), "{} ms", took.as_us() / 1_000);
    finish(&mut world);
}

/// An interruption shorter than patience is repaired without a word.
#[test]
fn a_short_cut_is_transparent() {
    for profile in impatient() {
        for (out, back) in [(true, true), (true, false), (false, true)] {
            let mut world = acquainted(2, &profile);
            world.receive(1, Want::ANY, 4 << 20);
            let message = world.send(MessageSpec::plain(0, 1, 4 << 20));
            world.pass(Span::us(300));
            let span = Span::ms(300);
            if out {
                world.cut(0, 1, span);
            }
            if back {
                world.cut(1, 0, span);
            }
            let took = wait(&mut world, Span::ms(2_000), |world| world.arrived(message));
            // The retransmission timer's ceiling bounds how late the mended wire is noticed.
            assert!(took < Span::ms(550), "{}: took {} µs", profile.name, took.as_us());
            finish(&mut world);
        }
    }
}

/// A cut longer than patience ends what was under way, at both ends; afterwards the nodes talk again (`PAIR-1`).
#[test]
fn nodes_find_each_other_again_after_a_long_cut() {
    for profile in impatient() {
        let mut world = acquainted(2, &profile);
        let receive = world.receive(1, Want::ANY, 4 << 20);
        let lost = world.send(MessageSpec::plain(0, 1, 4 << 20));
        world.pass(Span::us(300));
        world.cut(0, 1, Span::ms(5_000));
        world.cut(1, 0, Span::ms(5_000));
        wait(&mut world, NOTICED_WITHIN, |world| {
            world.sent(lost).is_some() && world.received(receive).is_some()
        });
        assert_eq!(world.sent(lost), Some(Status::Unreachable), "{}", profile.name);
        world.pass(Span::ms(5_000));
        for (from, to) in [(0, 1), (1, 0), (0, 1)] {
            world.receive(to, Want::ANY, 20_000);
            let message = world.send(MessageSpec::plain(from, to, 20_000));
            wait(&mut world, Span::ms(200), |world| world.arrived(message));
        }
        finish(&mut world);
    }
}

/// A goodbye ends what was due at once, without patience (`PAIR-1`).
#[test]
fn a_goodbye_ends_what_was_due() {
    for profile in impatient() {
        let mut world = acquainted(2, &profile);
        world.receive(1, Want::ANY, 4 << 20);
        let lost = world.send(MessageSpec::plain(0, 1, 4 << 20));
        world.pass(Span::us(300));
        world.apply(Action::Stop { node: 1, goodbye: true });
        let took = wait(&mut world, NOTICED_WITHIN, |world| world.sent(lost).is_some());
        assert_eq!(world.sent(lost), Some(Status::PeerClosed), "{}", profile.name);
        assert!(took < Span::ms(1), "{}: took {} µs", profile.name, took.as_us());
        finish(&mut world);
    }
}

/// With a second link, the loss of the first is repaired over it, long before patience ends.
#[test]
fn a_second_link_takes_over() {
    let mut setup = WorldSetup::lan(2, &Profile::DEFAULT);
    setup.fabrics.push(setup.fabrics[0].clone());
    for node in &mut setup.nodes {
        node.links.push(node.links[0]);
    }
    let mut world = acquainted_setup(setup);
    world.receive(1, Want::ANY, 4 << 20);
    let message = world.send(MessageSpec::plain(0, 1, 4 << 20));
    world.pass(Span::us(500));
    for (from, to) in [(0, 1), (1, 0)] {
        world.apply(Action::Cut { fabric: 0, from, to, span: Span::ms(60_000) });
    }
    let took = wait(&mut world, Span::ms(5_000), |world| world.arrived(message));
    assert!(took < Span::ms(4_000), "took {} ms", took.as_us() / 1_000);
    finish(&mut world);
}

/// Nothing runs while nothing is due: no keep-alives, no timers, no frames (quiescence).
#[test]
fn an_idle_fabric_is_silent() {
    for profile in Profile::ALL {
        let mut world = acquainted(4, profile);
        finish(&mut world);
        let frames = world.network().totals().sent;
        let start = world.now();
        world.run(Span::ms(3_600_000));
        assert_eq!(world.network().totals().sent, frames);
        assert_eq!(world.now(), start, "nothing was due");
    }
}
