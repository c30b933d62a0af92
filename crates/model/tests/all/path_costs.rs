//! Costs of paths that were measured wrong, or change: what messages take by each corrects them (`PATH-9`).

use crate::support::{acquainted_setup, count, finish, settle};
use emp_firmware::{Counter, LinkCost, LinkIndex, LinkInfo, Profile, Span};
use emp_model::{FabricSetup, MessageSpec, NodeSetup, Want, World, WorldSetup};
use emp_wire::LinkAddress;

/// Bytes of a frame, and of the datagrams that a long one is cut into.
const FRAME_BYTES: usize = 1_472;

/// Messages after which a path that is better than it was measured to be is in use, and after which one that has become so is.
const FOUND_AFTER: u32 = 600;
const FOLLOWED_AFTER: u32 = 1_200;

/// Two nodes with two links, of which the second carries long frames if `long`. Messages of a few frames are said to take the first 2 µs
/// and the second 5; by the fabrics they take what these say.
fn two_links(latencies: [Span; 2], long: bool) -> World {
    let cost = |first_ns| LinkCost {
        first_ns,
        further_ns: 500,
        long_ns: long.then_some((first_ns, 100)),
        segments: false,
        named: false,
    };
    let mut first = LinkInfo::new(FRAME_BYTES, true);
    first.cost = Some(LinkCost { long_ns: None, ..cost(1_500) });
    first.set_beside(LinkIndex(1), LinkAddress::EVERYONE);
    let mut second = LinkInfo::new(FRAME_BYTES, false);
    (second.cost, second.long_frames) = (Some(cost(3_000)), long);
    let links = vec![first, second];
    let node =
        |index| NodeSetup { links: links.clone(), ..NodeSetup::new(index, Profile::DEFAULT) };
    let fabric = |latency| FabricSetup { latency, piece_bytes: FRAME_BYTES, ..FabricSetup::lan() };
    acquainted_setup(WorldSetup {
        fabrics: latencies.map(fabric).to_vec(),
        nodes: vec![node(0), node(1)],
        seed: 5,
    })
}

/// So many messages to the other node, one after the other, each of which is answered; gives how many of them took the second path.
fn rounds(world: &mut World, rounds: u32, bytes: u64) -> u32 {
    let mut by_second = 0;
    for _ in 0..rounds {
        let before = count(world, 0, Counter::FramesFurther);
        for (from, to) in [(0, 1), (1, 0)] {
            world.receive(to, Want::ANY, bytes);
            world.send(MessageSpec::plain(from, to, bytes));
            settle(world);
        }
        by_second += u32::from(count(world, 0, Counter::FramesFurther) > before);
    }
    finish(world);
    by_second
}

#[test]
fn a_path_that_was_measured_too_dear_is_found() {
    for long in [false, true] {
        for bytes in [2_000, 5_000, 20_000] {
            let mut world = two_links([Span::us(25), Span::us(10)], long);
            rounds(&mut world, FOUND_AFTER, bytes);
            let by_second = rounds(&mut world, 200, bytes);
            assert!(by_second >= 180, "{by_second} of 200, {bytes} bytes, long {long}");
        }
    }
}

#[test]
fn a_path_that_was_measured_right_stays() {
    for long in [false, true] {
        let mut world = two_links([Span::us(10), Span::us(25)], long);
        rounds(&mut world, FOUND_AFTER, 2_000);
        let by_second = rounds(&mut world, 500, 2_000);
        assert!(by_second <= 16, "{by_second} of 500 tried the other, long {long}");
    }
}

#[test]
fn paths_that_change_while_they_are_used_are_chosen_anew() {
    let slow_and_quick = [Span::us(25), Span::us(10)];
    let mut world = two_links(slow_and_quick, true);
    for slow in [0, 1, 0, 1] {
        world.network_mut().set_latency(slow, slow_and_quick[0]);
        world.network_mut().set_latency(1 - slow, slow_and_quick[1]);
        rounds(&mut world, FOLLOWED_AFTER, 2_000);
        let by_second = rounds(&mut world, 200, 2_000);
        let right = if slow == 0 { by_second } else { 200 - by_second };
        assert!(right >= 180, "{right} of 200 by the quicker path, {slow} is slow");
    }
}

/// Sizes are learned by themselves: what is best for one says nothing of another.
#[test]
fn each_size_has_its_path() {
    // By the second path the way is longer, and each byte takes a fifth.
    let mut world = two_links([Span::us(10), Span::us(40)], false);
    world.network_mut().set_rate(0, 2_000_000_000);
    for _ in 0..FOUND_AFTER {
        for bytes in [2_000, 20_000] {
            rounds(&mut world, 1, bytes);
        }
    }
    let (short, long) = (rounds(&mut world, 100, 1_600), rounds(&mut world, 100, 20_000));
    assert!(short <= 16 && long >= 84, "{short} short ones by the second, {long} long ones");
}

/// A trial has an end, also if the messages of its size are from then on longer than what leaves unasked, and tell nothing.
#[test]
fn a_trial_ends_with_messages_that_are_pulled() {
    let mut world = two_links([Span::us(10), Span::us(25)], false);
    // Of one class: up to 64 frames. The shorter ones leave whole.
    let (whole, pulled) = (50_000, 80_000);
    let began = (0..2 * FOLLOWED_AFTER).any(|_| rounds(&mut world, 1, whole) > 0);
    assert!(began, "the other path was never tried");
    let by_second = rounds(&mut world, 200, pulled);
    assert!(by_second <= 16, "{by_second} of 200 by the path that was tried");
}
