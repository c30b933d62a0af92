//! What the profiles promise, counted on the wire (the papers' numbers in brackets).

use crate::support::{acquainted, count, finish, lose_first, sent, settle, wait};
use emp_firmware::{AckTrigger, Counter, Profile, Span};
use emp_model::{MessageSpec, Want, World};
use emp_wire::{Flags, Kind};

/// One message of so many full frames from node 0 to node 1, with a receive posted.
fn one_way(world: &mut World, frames: u64) {
    let bytes = frames * world.firmware(0).single_frame_bytes_max() as u64;
    world.receive(1, Want::ANY, bytes);
    world.send(MessageSpec::plain(0, 1, bytes));
    finish(world);
}

fn data_frames(world: &World, node: usize) -> usize {
    world.network().trace().count(node, |line| line.header.is_some_and(|h| h.kind.sequenced()))
}

/// E24, E27, E28, V19: one acknowledgement per collection, and each is one small frame.
#[test]
fn one_acknowledgement_covers_a_collection() {
    for profile in Profile::ALL.into_iter().filter(|p| p.ack_trigger == AckTrigger::Frames) {
        for collection in [1, 3, 6, 16] {
            let mut profile = profile.clone();
            profile.collection = collection;
            // Neither requests of the sender nor delay shall add any.
            profile.request_ack_below = 0;
            profile.eager_bytes = u64::MAX;
            profile.unscheduled_bytes = u32::MAX;
            let mut world = acquainted(2, &profile);
            one_way(&mut world, 96);
            let frames = data_frames(&world, 0);
            let acks = sent(&world, 1, Kind::Ack);
            let expected = frames / collection as usize;
            assert!(
                (expected..=expected + 2).contains(&acks),
                "{}, collection {collection}: {acks} acknowledgements for {frames} frames",
                profile.name
            );
        }
    }
}

/// E24: "changeable on the fly".
#[test]
fn the_collection_changes_on_a_live_node() {
    let mut profile = Profile::VMMC2;
    profile.request_ack_below = 0;
    let mut world = acquainted(2, &profile);
    let mut acks_per_run = Vec::new();
    for collection in [6, 24, 2] {
        world.poke(1, |firmware, _, _| firmware.set_collection(collection));
        world.network_mut().trace_mut().clear();
        one_way(&mut world, 96);
        acks_per_run.push(sent(&world, 1, Kind::Ack));
    }
    assert!(acks_per_run[0] > 2 * acks_per_run[1], "{acks_per_run:?}");
    assert!(acks_per_run[2] > 2 * acks_per_run[0], "{acks_per_run:?}");
}

/// E24: the collection of one peer is its own, and changes with that of all.
#[test]
fn the_collection_of_one_peer_is_its_own() {
    let mut profile = Profile::VMMC2;
    profile.request_ack_below = 0;
    let mut world = acquainted(3, &profile);
    let peer = world.id(0);
    let acks = |world: &mut World| {
        world.network_mut().trace_mut().clear();
        one_way(world, 96);
        sent(world, 1, Kind::Ack)
    };
    let usual = acks(&mut world);
    world.poke(1, |firmware, _, _| assert!(firmware.set_collection_of(peer, 24)));
    let own = acks(&mut world);
    assert!(usual > 2 * own, "{usual} {own}");
    // Another peer's does not matter here, and one that is not known is refused.
    let other = world.id(2);
    world.poke(1, |firmware, _, _| {
        assert!(firmware.set_collection_of(other, 1));
        assert!(!firmware.set_collection_of(emp_wire::NodeId(99), 1));
    });
    assert_eq!(acks(&mut world), own);
    world.poke(1, |firmware, _, _| firmware.set_collection(6));
    assert_eq!(acks(&mut world), usual);
}

/// V20: the sender asks when its window gets short, and is answered at once.
#[test]
fn a_sender_short_of_window_asks_for_an_acknowledgement() {
    let mut profile = Profile::VMMC2;
    profile.collection = 100_000;
    profile.ack_delay = Span::ms(50);
    let mut world = acquainted(2, &profile);
    let start = world.now();
    let bytes = 1_000_000;
    world.receive(1, Want::ANY, bytes);
    let message = world.send(MessageSpec::plain(0, 1, bytes));
    wait(&mut world, Span::ms(1_000), |world| world.arrived(message));
    let asked = world
        .network()
        .trace()
        .count(0, |line| line.header.is_some_and(|h| h.flags.has(Flags::ACK_REQUEST)));
    // Not with each of its 700 frames, though most leave when the window has just opened by a few: a few times a window.
    assert!((3..=30).contains(&asked), "asked {asked} times");
    let took = world.now().since(start);
    assert!(took < Span::ms(20), "700 frames waited for delays: {} µs", took.as_us());
    settle(&mut world);
}

/// V13, V15: after a loss the receiver drops all later packets, and the sender resends the lost and all after it.
#[test]
fn vmmc2_goes_back_n() {
    let mut profile = Profile::VMMC2;
    profile.collection = 1_000;
    let mut world = acquainted(2, &profile);
    lose_first(&mut world, 0, 1, |header| header.kind == Kind::Data && header.word == 5);
    one_way(&mut world, 30);
    let dropped = count(&world, 1, Counter::DropOutOfOrder);
    let resent = count(&world, 0, Counter::FramesResent);
    assert!(dropped >= 20, "{dropped} of about 25 later frames dropped");
    assert!(resent >= 20, "{resent} frames resent");
}

/// The default profile resends exactly what is missing.
#[test]
fn default_resends_only_what_is_missing() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    lose_first(&mut world, 0, 1, |header| header.kind == Kind::Data && header.word == 5);
    one_way(&mut world, 30);
    assert_eq!(count(&world, 1, Counter::DropOutOfOrder), 0);
    let resent = count(&world, 0, Counter::FramesResent);
    assert!((1..=2).contains(&resent), "{resent} frames resent for one lost");
}

/// E26, E30: a collection whose acknowledgement stays out is resent, all of it and not more.
#[test]
fn emp2001_resends_the_collection() {
    let mut world = acquainted(2, &Profile::EMP2001);
    lose_first(&mut world, 0, 1, |header| header.kind == Kind::Data && header.word == 3);
    one_way(&mut world, 12);
    let resent = count(&world, 0, Counter::FramesResent);
    assert_eq!(resent, 3, "the lost frame and the two that came after it in its collection");
}

/// E20: nothing unexpected is kept. The bytes are dropped, and sent again when a receive is there.
#[test]
fn emp2001_keeps_no_unexpected_messages() {
    let mut world = acquainted(2, &Profile::EMP2001);
    let message = world.send(MessageSpec::plain(0, 1, 5_000));
    world.pass(Span::ms(20));
    let (free, all) = world.firmware(1).pool_slots();
    assert_eq!(free, all, "nothing is kept");
    assert_eq!(world.sent(message), None);
    assert_eq!(
        sent(&world, 0, Kind::Data),
        3,
        "the message was sent, and is not sent again without need"
    );
    world.receive(1, Want::ANY, 5_000);
    let took = wait(&mut world, Span::ms(100), |world| world.arrived(message));
    assert!(took <= Span::us(100), "a request and the message; took {} µs", took.as_us());
    finish(&mut world);
}

/// E20 again: a message without a receive does not keep others from those that have one.
#[test]
fn emp2001_refusals_do_not_block_other_messages() {
    let mut world = acquainted(2, &Profile::EMP2001);
    let first = world.send(MessageSpec { tag: 1, ..MessageSpec::plain(0, 1, 5_000) });
    let second = world.send(MessageSpec { tag: 2, ..MessageSpec::plain(0, 1, 5_000) });
    world.receive(1, Want::tag(2), 5_000);
    wait(&mut world, Span::ms(1_000), |world| world.arrived(second));
    world.receive(1, Want::tag(1), 5_000);
    wait(&mut world, Span::ms(1_000), |world| world.arrived(first));
    finish(&mut world);
}

/// Both ends of a pair send what the other has no receive for, at the same time; then both post. The large messages have
/// more frames than a window: what refuses them must get past them.
#[test]
fn nodes_that_refuse_each_other_do_not_deadlock() {
    for (from, to) in [(0, 1), (0, 0)] {
        for bytes in [100, 5_000, 1_000_000] {
            let mut world = acquainted(2, &Profile::EMP2001);
            let there = world.send(MessageSpec::plain(from, to, bytes));
            let back = world.send(MessageSpec::plain(to, from, bytes));
            world.pass(Span::ms(20));
            world.receive(to, Want::ANY, bytes);
            world.receive(from, Want::ANY, bytes);
            wait(&mut world, Span::ms(100), |world| world.arrived(there) && world.arrived(back));
            finish(&mut world);
        }
    }
}

/// E32: a send is complete when the receiver's buffer has everything, not before.
#[test]
fn emp2001_sends_complete_when_delivered() {
    let mut world = acquainted(2, &Profile::EMP2001);
    let message = world.send(MessageSpec::plain(0, 1, 100));
    world.pass(Span::ms(10));
    assert_eq!(world.sent(message), None);
    world.receive(1, Want::ANY, 100);
    wait(&mut world, Span::ms(100), |world| world.sent(message).is_some());
    assert!(world.arrived(message));
    finish(&mut world);
}

/// O6, O7: beyond 32 KB nothing leaves unasked, and the receiver pulls 32 KB at a time, four at most.
#[test]
fn openmx_pulls_blocks_of_32_kb() {
    let mut world = acquainted(2, &Profile::OPENMX);
    let bytes = 1 << 20;
    world.receive(1, Want::ANY, bytes);
    world.send(MessageSpec::plain(0, 1, bytes));
    finish(&mut world);
    assert_eq!(sent(&world, 1, Kind::Pull), 32);
    assert_eq!(sent(&world, 0, Kind::Data), 0, "nothing is sent unasked");

    // Never more than four unanswered: count pulls minus finished blocks along the trace.
    let mut open = 0i32;
    for line in world.network().trace().lines() {
        let Some(header) = line.header else { continue };
        open += i32::from(header.kind == Kind::Pull);
        open -= i32::from(header.kind == Kind::Block && header.flags.has(Flags::LAST));
        assert!(open <= 4, "{open} pulls under way");
    }
}

/// O6: up to 32 KB is eager, without a pull.
#[test]
fn openmx_sends_32_kb_eagerly() {
    let mut world = acquainted(2, &Profile::OPENMX);
    world.receive(1, Want::ANY, 32 << 10);
    world.send(MessageSpec::plain(0, 1, 32 << 10));
    finish(&mut world);
    assert_eq!(sent(&world, 1, Kind::Pull), 0);
    assert_eq!(sent(&world, 0, Kind::Block), 0);
}

/// Open-MX acknowledges messages, not frames.
#[test]
fn openmx_acknowledges_every_fourth_message() {
    let mut profile = Profile::OPENMX;
    profile.request_ack_below = 0;
    // The delay must not add any while the messages flow.
    profile.ack_delay = Span::ms(10);
    let mut world = acquainted(2, &profile);
    for _ in 0..40 {
        world.receive(1, Want::ANY, 1_000);
    }
    for _ in 0..40 {
        world.send(MessageSpec::plain(0, 1, 1_000));
    }
    finish(&mut world);
    let acks = sent(&world, 1, Kind::Ack);
    assert!((10..=12).contains(&acks), "{acks} acknowledgements for 40 messages");
}

/// The default profile sends 60 KB unasked and lets the receiver pull the rest in blocks of 60 KB: ⌈(1024 − 60) ÷ 60⌉.
#[test]
fn default_pulls_what_is_not_sent_unasked() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    world.receive(1, Want::ANY, 1 << 20);
    world.send(MessageSpec::plain(0, 1, 1 << 20));
    finish(&mut world);
    assert_eq!(sent(&world, 1, Kind::Pull), 17);
}

/// Nodes of different profiles understand each other: profiles are parameters, not protocols.
#[test]
fn every_profile_talks_to_every_other() {
    for a in Profile::ALL {
        for b in Profile::ALL {
            let mut setup = emp_model::WorldSetup::lan(2, a);
            setup.nodes[1].profile = b.clone();
            let mut world = crate::support::acquainted_setup(setup);
            for bytes in [0, 1, 1_400, 1_500, 30_000, 70_000, 300_000] {
                for (from, to) in [(0, 1), (1, 0)] {
                    world.receive(to, Want::ANY, bytes);
                    world.send(MessageSpec::plain(from, to, bytes));
                }
            }
            finish(&mut world);
        }
    }
}
