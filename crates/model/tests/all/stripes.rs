//! Several cables between two nodes (`PATH-13`): long messages take all of them, and what one carried the others take when it is pulled.

use crate::support::{acquainted_setup, count, finish, wait};
use emp_firmware::{Counter, LinkCost, LinkInfo, Profile, Span};
use emp_model::{FabricSetup, MessageSpec, NodeSetup, Want, World, WorldSetup};

/// What `tbf` of a lab's cables lets out at once after a pause, in bytes.
const BURST_BYTES: u64 = 16 << 10;

/// Two nodes with a cable of each of these rates, in Mb/s.
fn cabled(rates: &[u64]) -> World {
    cabled_so((rates, 0), 0, LinkInfo::new(1_500, true))
}

/// Sockets by which frames longer than the MTU get through.
fn long_link() -> LinkInfo {
    let (first_ns, further_ns, long_ns) = (3_000, 1_000, Some((4_000, 10_000)));
    let cost = LinkCost { first_ns, further_ns, long_ns, segments: true, named: false };
    LinkInfo {
        cost: Some(cost),
        segments: true,
        long_frames: true,
        long_frames_held: 64,
        ..LinkInfo::new(1_472, true)
    }
}

/// The same; so many cables, the last ones, are not there at the start, and so many bytes go out at once after a pause.
fn cabled_so((rates, plugged_later): (&[u64], usize), burst_bytes: u64, link: LinkInfo) -> World {
    let mut links = vec![link; rates.len()];
    emp_model::cables(&mut links);
    let node = |index| NodeSetup {
        links: links.clone(),
        plugged_later,
        ..NodeSetup::new(index, Profile::DEFAULT)
    };
    let fabric = |mbps: &u64| FabricSetup {
        bits_per_second: mbps * 1_000_000,
        latency: Span::us(20),
        burst_bytes,
        piece_bytes: if link.long_frames { link.frame_bytes_max } else { usize::MAX },
        ..FabricSetup::lan()
    };
    let mut world = acquainted_setup(WorldSetup {
        fabrics: rates.iter().map(fabric).collect(),
        nodes: (0..2).map(node).collect(),
        seed: 11,
    });
    // The first long message finds the other cables, each cable's rate is known after a few.
    transfer(&mut world, 2);
    world
}

/// So many messages of 4 MiB, one after the other; gives what they took.
fn transfer(world: &mut World, messages: u32) -> Span {
    let took = one_by_one(world, messages);
    finish(world);
    took
}

/// The same, and nothing is waited for behind them.
fn one_by_one(world: &mut World, messages: u32) -> Span {
    let start = world.now();
    for _ in 0..messages {
        world.receive(1, Want::ANY, 4 << 20);
        let message = world.send(MessageSpec::plain(0, 1, 4 << 20));
        wait(world, Span::ms(5_000), |world| world.arrived(message));
    }
    world.now().since(start)
}

fn ratio(alone: &[u64], together: &[u64]) -> f64 {
    ratio_of((alone, together), cabled, 4)
}

fn ratio_of(
    (alone, together): (&[u64], &[u64]),
    world: impl Fn(&[u64]) -> World,
    messages: u32,
) -> f64 {
    let of = |rates| transfer(&mut world(rates), messages).0 as f64;
    let ratio = of(alone) / of(together);
    println!("{together:?} Mb/s: {ratio:.3} times {alone:?}");
    ratio
}

#[test]
fn two_equal_cables_carry_nearly_twice_as_much() {
    for mbps in [500, 1_000, 10_000] {
        let ratio = ratio(&[mbps], &[mbps, mbps]);
        assert!(ratio >= 1.9, "{ratio} at {mbps} Mb/s");
    }
}

#[test]
fn four_equal_cables_carry_more_than_two() {
    let ratio = ratio(&[500], &[500; 4]);
    assert!(ratio >= 2.5, "{ratio}");
}

#[test]
fn a_slow_cable_beside_a_fast_one_takes_nothing_from_it() {
    for rates in [[1_000, 100], [100, 1_000], [1_000, 10], [10_000, 1_000], [1_000, 600]] {
        let fast = rates[0].max(rates[1]);
        let ratio = ratio(&[fast], &rates);
        assert!(ratio >= 1.0, "{ratio} with {rates:?} Mb/s");
    }
}

/// The same where a port lets 16 KB out at once after a pause: a block alone is there in a third of the time that the port's rate asks for.
#[test]
fn a_slow_cable_that_begins_fast_takes_nothing_from_a_fast_one() {
    for slow in [100, 300] {
        for link in [LinkInfo::new(1_500, true), long_link()] {
            let world = |rates: &[u64]| cabled_so((rates, 0), BURST_BYTES, link);
            // Long enough that the slow one is tried again several times.
            let ratio = ratio_of((&[1_000], &[1_000, slow]), world, 20);
            assert!(ratio >= 0.995, "{ratio} with {slow} Mb/s");
        }
    }
}

/// Each cable in turn, in the middle of a transfer, without a word from its carrier.
#[test]
fn a_pulled_cable_hands_over_to_the_other() {
    for fabric in 0..2 {
        let mut world = cabled(&[1_000, 1_000]);
        world.receive(1, Want::ANY, 16 << 20);
        let message = world.send(MessageSpec::plain(0, 1, 16 << 20));
        world.pass(Span::ms(20));
        for (from, to) in [(0, 1), (1, 0)] {
            world.network_mut().cut(fabric, from, to, true);
        }
        let port = |world: &World| world.network().port(1 - fabric, 1).frames;
        let (frames, start) = (port(&world), world.now());
        // A fifth of a second of traffic by one is some 16,000 frames: after 20 ms at the latest it flows again.
        world.pass(Span::ms(20));
        let moved = port(&world) - frames;
        assert!(moved > 800, "{moved} frames in 20 ms, fabric {fabric}");
        wait(&mut world, Span::ms(1_000), |world| world.arrived(message));
        let took = world.now().since(start);
        assert!(took < Span::ms(200), "{} ms, fabric {fabric}", took.0 / 1_000_000);
        finish(&mut world);
        assert_eq!(count(&world, 0, Counter::PathsFailed), 1);
        // Plugged in again it carries its part again.
        for (from, to) in [(0, 1), (1, 0)] {
            world.network_mut().cut(fabric, from, to, false);
        }
        world.pass(Span::ms(500));
        transfer(&mut world, 2);
        let one = transfer(&mut cabled(&[1_000]), 2);
        let both = transfer(&mut world, 2);
        assert!(both.0 * 10 < one.0 * 6, "{both:?} with both, {one:?} with one");
    }
}

#[test]
fn blocks_of_one_message_take_both_and_arrive_whole() {
    let mut world = cabled(&[1_000, 1_000]);
    let of = |world: &World| [0, 1].map(|fabric| world.network().port(fabric, 1).frames);
    let before = of(&world);
    transfer(&mut world, 1);
    let after = of(&world);
    let [first, second] = [0, 1].map(|fabric| after[fabric] - before[fabric]);
    assert!(first.min(second) * 10 >= first.max(second) * 8, "{first} and {second} frames");
    let resent = (0..2).map(|node| count(&world, node, Counter::FramesResent)).sum::<u64>();
    assert!(resent < 100, "{resent} sent again");
}

/// What is asked for at a time is less than what is under way then.
#[test]
fn two_cables_far_apart_carry_both() {
    let mut world = cabled(&[1_000, 1_000]);
    for fabric in 0..2 {
        world.network_mut().set_latency(fabric, Span::ms(20));
    }
    one_by_one(&mut world, 4);
    let of = |world: &World| [0, 1].map(|fabric| world.network().port(fabric, 1).frames);
    let before = of(&world);
    one_by_one(&mut world, 4);
    let after = of(&world);
    let [first, second] = [0, 1].map(|fabric| after[fabric] - before[fabric]);
    assert!(first.min(second) * 4 >= first.max(second), "{first} and {second} frames");
}

/// Sockets: frames longer than the MTU get through by both cables, but the first questions by one of them are lost. It is asked about again, and
/// carries as much as the other: blocks that leave in long frames pass by a cable that has none (`LONG-2`, `PATH-13`).
#[test]
fn a_cable_whose_long_frames_open_later_carries_as_well() {
    let mut links = vec![long_link(); 2];
    emp_model::cables(&mut links);
    let node =
        |index| NodeSetup { links: links.clone(), ..NodeSetup::new(index, Profile::DEFAULT) };
    let cable = FabricSetup {
        bits_per_second: 1_000_000_000,
        latency: Span::us(20),
        piece_bytes: 1_472,
        ..FabricSetup::lan()
    };
    for late in 0..2 {
        let mut world = acquainted_setup(WorldSetup {
            fabrics: vec![cable.clone(); 2],
            nodes: (0..2).map(node).collect(),
            seed: 11,
        });
        // What is longer than the MTU is lost there at first.
        world.network_mut().set_pieces(late, 1_472, false);
        one_by_one(&mut world, 8);
        world.network_mut().set_pieces(late, 1_472, true);
        // A question that failed is put again a second later at most.
        world.pass(Span::ms(1_500));
        one_by_one(&mut world, 8);
        let of = |world: &World| [0, 1].map(|fabric| world.network().port(fabric, 1).wire_bytes);
        let before = of(&world);
        one_by_one(&mut world, 8);
        let after = of(&world);
        let [first, second] = [0, 1].map(|fabric| after[fabric] - before[fabric]);
        assert!(first.min(second) * 2 >= first.max(second), "{late}: {first} and {second} bytes");
    }
}

/// A cable whose first answers came late, as when its receiver did not run, is tried again: what was measured once says less and less.
#[test]
fn a_cable_that_was_slow_once_is_tried_again() {
    for fabric in 0..2 {
        let mut world = cabled(&[100_000, 100_000]);
        world.network_mut().set_latency(fabric, Span::ms(60));
        one_by_one(&mut world, 4);
        world.network_mut().set_latency(fabric, Span::us(20));
        let start = world.now();
        loop {
            let of = |world: &World| [0, 1].map(|at| world.network().port(at, 1).frames);
            let before = of(&world);
            let took = one_by_one(&mut world, 4);
            let after = of(&world);
            if (0..2).all(|at| after[at] - before[at] > 3_000) {
                println!("after {} ms", world.now().since(start).0 / 1_000_000);
                break;
            }
            let passed = world.now().since(start);
            println!("took {took:?}, {:?}", [after[0] - before[0], after[1] - before[1]]);
            assert!(passed < Span::ms(6_000), "fabric {fabric}: {before:?} {after:?}, {took:?}");
        }
    }
}

/// What a stream never waits for says nothing of how much more a cable would carry: both are used after seconds as at first.
#[test]
fn a_long_stream_goes_on_by_both() {
    let mut world = cabled(&[10_000, 10_000]);
    let start = world.now();
    while world.now().since(start) < Span::ms(4_000) {
        one_by_one(&mut world, 20);
        world.pass(Span::ms(100));
    }
    let of = |world: &World| [0, 1].map(|at| world.network().port(at, 1).frames);
    let before = of(&world);
    one_by_one(&mut world, 20);
    let after = of(&world);
    let [first, second] = [0, 1].map(|at| after[at] - before[at]);
    assert!(first.min(second) * 10 >= first.max(second) * 8, "{first} and {second} frames");
}

/// A cable that is plugged in while the nodes run is found and used as one that was there from the start (`PATH-15`), whichever end learns of it
/// first; pulled again, the other carries all.
#[test]
fn a_cable_that_is_plugged_in_later_carries() {
    for first in 0..2 {
        let mut world = cabled_so((&[500, 500], 1), 0, LinkInfo::new(1_500, true));
        let alone = transfer(&mut world, 4);
        assert_eq!(world.network().port(1, 1).frames, 0, "there is no second cable");
        world.plug(first);
        transfer(&mut world, 1);
        world.plug(1 - first);
        // The first finds it.
        transfer(&mut world, 2);
        let together = transfer(&mut world, 4);
        let ratio = alone.0 as f64 / together.0 as f64;
        assert!(ratio >= 1.9, "{ratio}");
        for (from, to) in [(0, 1), (1, 0)] {
            world.network_mut().cut(1, from, to, true);
        }
        transfer(&mut world, 2);
    }
}

/// Two nodes on two cables with these latencies, the second of which is plugged in when they know each other by the first.
fn cables_of(latencies: [Span; 2]) -> World {
    let mut links = vec![LinkInfo::new(1_500, true); 2];
    emp_model::cables(&mut links);
    let node = |index| NodeSetup {
        links: links.clone(),
        plugged_later: 1,
        ..NodeSetup::new(index, Profile::DEFAULT)
    };
    let fabric = |latency| FabricSetup { latency, ..FabricSetup::lan() };
    acquainted_setup(WorldSetup {
        fabrics: latencies.map(fabric).into(),
        nodes: (0..2).map(node).collect(),
        seed: 11,
    })
}

/// What a message of 32 bytes takes from a node to the other.
fn small(world: &mut World, from: usize) -> Span {
    let start = world.now();
    world.receive(1 - from, Want::ANY, 32);
    let message = world.send(MessageSpec::plain(from, 1 - from, 32));
    wait(world, Span::ms(1_000), |world| world.arrived(message));
    world.now().since(start)
}

/// `PATH-3`: of two cables what is small takes the one whose round trip is shorter, also where the pair is known by the other; and the other when
/// that is cut.
#[test]
fn small_messages_take_the_cable_with_the_shorter_round_trip() {
    let slow = Span::ms(1);
    let mut world = cables_of([slow, Span::us(20)]);
    assert!(small(&mut world, 0) > slow);
    (0..2).for_each(|node| world.plug(node));
    // The other cable is found by a long message.
    transfer(&mut world, 4);
    for _ in 0..4 {
        let took = [0, 1].map(|from| small(&mut world, from));
        assert!(took[0] < Span(slow.0 / 4), "{took:?}");
        world.pass(Span::ms(20));
    }
    // The one that carries them fails.
    [(0, 1), (1, 0)].into_iter().for_each(|(from, to)| world.network_mut().cut(1, from, to, true));
    for _ in 0..10 {
        small(&mut world, 0);
    }
    finish(&mut world);
}

/// `PATH-3`: what a path took that nothing leaves by is measured again after some seconds, by what is small: it may be the shorter one by now.
#[test]
fn small_messages_try_a_cable_again_that_was_long_when_they_left_it() {
    let mut world = cables_of([Span::us(300), Span::ms(2)]);
    (0..2).for_each(|node| world.plug(node));
    transfer(&mut world, 4);
    // The other node has used both as well.
    for _ in 0..4 {
        world.receive(0, Want::ANY, 4 << 20);
        let message = world.send(MessageSpec::plain(1, 0, 4 << 20));
        wait(&mut world, Span::ms(60_000), |world| world.arrived(message));
    }
    world.network_mut().set_latency(1, Span::us(20));
    let mut took = Vec::new();
    for _ in 0..120 {
        took.push([0, 1].map(|from| small(&mut world, from)));
        world.pass(Span::ms(100));
    }
    let [first, last] = [0, took.len() - 1].map(|at| took[at]);
    assert!(first[0] >= Span::us(300), "{first:?}");
    assert!(last.iter().all(|took| *took < Span::us(150)), "{last:?}");
    finish(&mut world);
}
