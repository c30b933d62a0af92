//! Every resource is bounded, and at its bound nothing is lost and nothing hangs (V16, V17, O26).

use crate::support::{acquainted, count, finish, sent, settle, wait};
use emp_firmware::limits::{POOL_BYTES, POOL_SLOT_BYTES};
use emp_firmware::{CompletionMode, Counter, Profile, Span};
use emp_model::{MessageSpec, Want, World};
use emp_wire::Kind;

/// More unexpected data than the pool holds.
fn flood(world: &mut World, messages: usize, bytes: u64) -> Vec<usize> {
    (0..messages)
        .map(|_| world.send(MessageSpec { tag: 1, ..MessageSpec::plain(0, 1, bytes) }))
        .collect()
}

fn keeping() -> impl Iterator<Item = &'static Profile> {
    Profile::ALL.into_iter().filter(|p| p.unexpected == emp_firmware::Unexpected::Pool)
}

/// A flood of unexpected messages fills the pool and no more; the sender hears "not ready"; nothing is lost.
#[test]
fn an_unexpected_flood_is_bounded_and_nothing_is_lost() {
    for profile in keeping() {
        let mut world = acquainted(2, profile);
        // 24 MB; the pool has 4.
        let messages = flood(&mut world, 800, 30_000);
        world.pass(Span::ms(1_000));
        assert!(count(&world, 1, Counter::NotReadySent) > 0, "{}", profile.name);
        let (free, all) = world.firmware(1).pool_slots();
        let (used, half) = (all - free, POOL_BYTES / POOL_SLOT_BYTES);
        assert!(used > half * 8 / 10 && used <= half, "{}: {used} of {half}", profile.name);
        // While nothing moves, the sender asks again now and then, and does not shout.
        let before = world.network().totals().sent;
        world.pass(Span::ms(1_000));
        let frames = world.network().totals().sent - before;
        assert!(frames < 5_000, "{}: {frames} frames per second of waiting", profile.name);

        for _ in &messages {
            world.receive(1, Want::ANY, 30_000);
        }
        finish(&mut world);
        assert!(messages.iter().all(|message| world.arrived(*message)), "{}", profile.name);
    }
}

/// A full pool is no reason to keep back a message whose receive is posted.
#[test]
fn a_full_pool_does_not_block_another_peer() {
    for profile in keeping() {
        let mut world = acquainted(3, profile);
        let messages = flood(&mut world, 400, 30_000);
        world.pass(Span::ms(50));
        assert!(count(&world, 1, Counter::NotReadySent) > 0);
        for bytes in [100, 20_000, 200_000] {
            world.receive(1, Want { from: Some(2), ..Want::ANY }, bytes);
            let message = world.send(MessageSpec::plain(2, 1, bytes));
            let took = wait(&mut world, Span::ms(1_000), |world| world.arrived(message));
            assert!(took < Span::ms(20), "{}: {bytes} B took {} µs", profile.name, took.as_us());
        }
        for _ in &messages {
            world.receive(1, Want::ANY, 30_000);
        }
        finish(&mut world);
    }
}

/// MPI's promise: a message that matches a posted receive gets through, however much else waits in front of it.
#[test]
fn a_posted_receive_is_served_behind_a_flood_of_the_same_peer() {
    for profile in keeping() {
        let mut world = acquainted(2, profile);
        let messages = flood(&mut world, 400, 30_000);
        let wanted = world.send(MessageSpec { tag: 2, ..MessageSpec::plain(0, 1, 30_000) });
        world.pass(Span::ms(50));
        world.receive(1, Want::tag(2), 30_000);
        let stop = world.run_until(Span::ms(3_000), |world| world.arrived(wanted));
        assert_eq!(stop, emp_model::Stop::Reached, "{}: blocked behind the flood", profile.name);
        for _ in &messages {
            world.receive(1, Want::ANY, 30_000);
        }
        finish(&mut world);
    }
}

/// A peer that never posts a receive costs bounded memory and few frames, for ever.
#[test]
fn a_peer_that_never_posts_is_asked_rarely() {
    for profile in Profile::ALL {
        let mut world = acquainted(2, profile);
        let message = world.send(MessageSpec::plain(0, 1, 1 << 20));
        world.pass(Span::ms(20));
        let before = world.network().totals().sent;
        world.pass(Span::ms(10_000));
        let frames = world.network().totals().sent - before;
        // At most one try per longest back-off (5 ms), of a window of frames at worst, and an answer.
        assert!(frames < 200_000, "{}: {frames} frames in ten seconds", profile.name);
        assert!(!world.arrived(message));
        world.receive(1, Want::ANY, 1 << 20);
        wait(&mut world, Span::ms(1_000), |world| world.arrived(message));
        finish(&mut world);
    }
}

/// A message that waits unexpected costs next to nothing: the sender of a long or synchronous one looks now and then
/// whether its receiver still lives, and that is all.
#[test]
fn waiting_unexpected_messages_need_few_frames() {
    for profile in keeping() {
        let mut world = acquainted(2, profile);
        for bytes in [10, 5_000, 1 << 20] {
            world.send(MessageSpec::plain(0, 1, bytes));
        }
        world.pass(Span::ms(1_000));
        world.network_mut().trace_mut().clear();
        world.pass(Span::ms(60_000));
        // Patience is 5 s: eight questions and answers in that time, and as many acknowledgements at most.
        let frames = world.network().trace().lines().len();
        assert!(frames <= 12 * 8 * 4, "{}: {frames} frames in a minute", profile.name);
        for bytes in [10, 5_000, 1 << 20] {
            world.receive(1, Want::ANY, bytes);
        }
        finish(&mut world);
    }
}

/// Buffered sends fill their share of the pool and are refused; a node that only sends cannot make itself deaf.
#[test]
fn buffered_sends_leave_room_for_what_arrives() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    // Nothing leaves while the peer is cut off.
    world.cut(0, 1, Span::ms(300));
    world.cut(1, 0, Span::ms(300));
    let spec =
        MessageSpec { completion: CompletionMode::Buffered, ..MessageSpec::plain(0, 1, 1_000) };
    let mut taken = 0;
    for _ in 0..6_000 {
        let message = world.send(spec.clone());
        taken += usize::from(world.ledger().messages[message].posted.is_some());
    }
    assert!(taken < 6_000, "a buffered send must be refused at some time");
    let (free, all) = world.firmware(0).pool_slots();
    assert!(free * 100 >= all * 40, "{free} of {all} slots left for what arrives");
    for _ in 0..6_000 {
        world.receive(1, Want::ANY, 1_000);
    }
    settle(&mut world);
    world.judge().unwrap();
}

/// Many operations at a time, all of them matched late.
#[test]
fn thousands_of_unmatched_messages_are_kept() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    for i in 0..5_000 {
        world.send(MessageSpec { tag: (i % 7) as u16, ..MessageSpec::plain(0, 1, i % 50) });
    }
    world.pass(Span::ms(50));
    assert!(sent(&world, 0, Kind::Message) >= 5_000);
    for i in (0..5_000).rev() {
        world.receive(1, Want::tag((i % 7) as u16), 50);
    }
    finish(&mut world);
}

/// A host that never asks how its operations ended is refused new ones, and nothing grows.
#[test]
fn completions_that_nobody_asks_for_are_bounded() {
    let few = Profile { operations_max: 4_096, ..Profile::DEFAULT };
    let mut world = acquainted(2, &few);
    world.poke(0, |firmware, memory, now| {
        let receive = || emp_firmware::ReceiveDescriptor {
            endpoint: 0,
            selector: emp_firmware::Selector::ANY,
            segments: emp_firmware::SegmentList::empty(),
            claim: None,
            context: 0,
        };
        for _ in 0..few.completions_max() {
            let op = firmware.post_receive(now, receive(), memory).expect("there is room");
            assert!(firmware.cancel(now, op));
        }
        let refused = firmware.post_receive(now, receive(), memory);
        assert_eq!(refused, Err(emp_firmware::PostError::Busy));
        while firmware.poll_completion().is_some() {}
        let op = firmware.post_receive(now, receive(), memory).expect("there is room again");
        assert!(firmware.cancel(now, op));
        while firmware.poll_completion().is_some() {}
    });
    finish(&mut world);
}

/// Messages that are pulled take turns: one that has little left does not wait for others that have much.
#[test]
fn a_short_pull_does_not_wait_for_long_ones() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    for _ in 0..6 {
        world.receive(1, Want::ANY, 16 << 20);
    }
    let long: Vec<_> = (0..6).map(|_| world.send(MessageSpec::plain(0, 1, 16 << 20))).collect();
    world.pass(Span::ms(2));
    world.receive(1, Want::ANY, 300_000);
    let short = world.send(MessageSpec::plain(0, 1, 300_000));
    let took = wait(&mut world, Span::ms(1_000), |world| world.arrived(short));
    // Five blocks, each after one of every other message at most: 2 MB in all, at 9.5 Gb/s.
    assert!(took < Span::ms(4), "took {} µs", took.as_us());
    assert!(!long.iter().any(|message| world.arrived(*message)), "they are far from over");
    finish(&mut world);
}
