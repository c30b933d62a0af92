//! Two links to one node at once (`LANE-1` to `LANE-6`): a quick lane for small frames, a slower and wider one for long trains.

mod support;

use emp_firmware::{Counter, Firmware, LinkIndex, LinkInfo, Profile, Span};
use emp_model::{
    FabricSetup, FaultPlan, MessageSpec, NodeSetup, Ppm, Rates, Want, World, WorldSetup,
};
use support::{acquainted_setup, count, finish, wait};

/// Trains of so many frames are bulk.
const BULK_FRAMES: u32 = 5;

const BULK: LinkIndex = LinkIndex(1);

/// Two nodes, the second lane twenty times as late as the first. `second`: what each of them is told of where the other
/// takes bulk is found over the first lane only, as with a socket whose port the system chose.
fn setup(latencies: [Span; 2]) -> WorldSetup {
    let mut small = LinkInfo::new(1_472, true);
    small.bulk_frames = None;
    let mut bulk = LinkInfo::new(1_472, false);
    bulk.bulk_frames = Some(BULK_FRAMES);
    let links = vec![small, bulk];
    let node =
        |index| NodeSetup { links: links.clone(), ..NodeSetup::new(index, Profile::DEFAULT) };
    WorldSetup {
        fabrics: latencies.map(|latency| FabricSetup { latency, ..FabricSetup::lan() }).to_vec(),
        nodes: vec![node(0), node(1)],
        seed: 5,
    }
}

/// A world in which both nodes have found the other's second lane.
fn two_lanes(latencies: [Span; 2]) -> World {
    let mut world = acquainted_setup(setup(latencies));
    for (from, to) in [(0, 1), (1, 0)] {
        exchange(&mut world, from, to, 100_000);
    }
    assert_eq!((has_bulk(&world, 0), has_bulk(&world, 1)), (true, true));
    world
}

fn has_bulk(world: &World, node: usize) -> bool {
    let lanes = world.firmware(node).lanes(world.id(1 - node)).expect("they know each other");
    lanes.bulk.is_some()
}

fn exchange(world: &mut World, from: usize, to: usize, bytes: u64) {
    world.receive(to, Want::ANY, bytes);
    world.send(MessageSpec::plain(from, to, bytes));
    finish(world);
}

fn sum(world: &World, counter: Counter) -> u64 {
    (0..2).map(|node| count(world, node, counter)).sum()
}

#[test]
fn long_trains_take_the_bulk_lane_and_all_else_the_small_one() {
    let mut world = two_lanes([Span::us(2), Span::us(20)]);
    let before = count(&world, 0, Counter::FramesBulk);
    exchange(&mut world, 0, 1, 64);
    exchange(&mut world, 0, 1, 4 * 1_400);
    assert_eq!(count(&world, 0, Counter::FramesBulk), before, "four frames are no bulk");
    exchange(&mut world, 0, 1, 1 << 20);
    let frames = count(&world, 0, Counter::FramesBulk) - before;
    assert!(frames >= (1 << 20) / 1_472, "{frames} frames of a megabyte took the bulk lane");
    // The pulls and the acknowledgements that the other end sent meanwhile are small.
    assert!(count(&world, 1, Counter::PullsSent) > 10);
    assert_eq!(sum(&world, Counter::LanesFailed), 0);
}

/// Small frames overtake long trains all the time: none of these is taken for lost, and acknowledgements do not multiply.
#[test]
fn what_is_overtaken_is_not_lost() {
    let mut world = two_lanes([Span::us(2), Span::us(60)]);
    let (resent, acks) = (sum(&world, Counter::FramesResent), sum(&world, Counter::AcksSent));
    let frames = sum(&world, Counter::FramesSent);
    for (from, to) in [(0, 1), (1, 0)] {
        for round in 0..40u64 {
            for bytes in [50_000, 10, 20, 30 + round, 9_000] {
                world.receive(to, Want::ANY, bytes);
                world.send(MessageSpec::plain(from, to, bytes));
            }
        }
    }
    finish(&mut world);
    assert_eq!(sum(&world, Counter::FramesResent), resent);
    assert_eq!(sum(&world, Counter::LanesFailed), 0);
    let (acks, frames) =
        (sum(&world, Counter::AcksSent) - acks, sum(&world, Counter::FramesSent) - frames);
    assert!(acks * 3 < frames, "{acks} acknowledgements for {frames} frames");
}

/// One lane loses and reorders, then the other: everything arrives, and nothing is resent much more often than it is lost.
#[test]
fn each_lane_repairs_its_own_losses() {
    for fabric in 0..2 {
        let mut world = two_lanes([Span::us(2), Span::us(30)]);
        let rates = Rates { drop: Ppm::percent(2), reorder: Ppm::percent(2), ..Rates::default() };
        world.network_mut().set_faults(fabric, FaultPlan::uniform(rates));
        let before = (sum(&world, Counter::FramesResent), world.network().totals().dropped);
        for _ in 0..30 {
            exchange(&mut world, 0, 1, 200_000);
            exchange(&mut world, 1, 0, 1_000);
        }
        let resent = sum(&world, Counter::FramesResent) - before.0;
        let lost = world.network().totals().dropped - before.1;
        assert!(
            lost > 0 && resent <= 3 * lost + 40,
            "{resent} resent, {lost} lost, fabric {fabric}"
        );
        assert_eq!(sum(&world, Counter::LanesFailed), 0, "fabric {fabric}");
    }
}

fn cut(world: &mut World, fabric: usize, ways: &[(usize, usize)], cut: bool) {
    for (from, to) in ways {
        world.network_mut().cut(fabric, *from, *to, cut);
    }
}

const BOTH_WAYS: [(usize, usize); 2] = [(0, 1), (1, 0)];

/// A lane that dies in the middle of a message, wholly or one way, costs milliseconds; its frames take the other. When
/// it works again it is used again.
#[test]
fn a_dead_lane_hands_over_and_comes_back() {
    for (fabric, ways) in [
        (1, &BOTH_WAYS[..]),
        (1, &[(0, 1)]),
        (1, &[(1, 0)]),
        (0, &BOTH_WAYS[..]),
        (0, &[(0, 1)]),
        (0, &[(1, 0)]),
    ] {
        let mut world = two_lanes([Span::us(2), Span::us(20)]);
        world.receive(1, Want::ANY, 4 << 20);
        let message = world.send(MessageSpec::plain(0, 1, 4 << 20));
        world.pass(Span::us(300));
        cut(&mut world, fabric, ways, true);
        let took = wait(&mut world, Span::ms(1_000), |world| world.arrived(message));
        assert!(took < Span::ms(60), "{} µs, fabric {fabric}, {ways:?}", took.as_us());
        // What is small does not wait for long either, in any direction.
        for (from, to) in BOTH_WAYS {
            world.receive(to, Want::ANY, 100);
            let small = world.send(MessageSpec::plain(from, to, 100));
            let took = wait(&mut world, Span::ms(1_000), |world| world.arrived(small));
            assert!(took < Span::ms(60), "{} µs, fabric {fabric}, {ways:?}", took.as_us());
        }
        finish(&mut world);
        cut(&mut world, fabric, ways, false);
        // A failed lane is tried again when it is needed; at first after a tenth of a second, then ever later.
        for _ in 0..20 {
            world.pass(Span::ms(500));
            exchange(&mut world, 0, 1, 100_000);
            exchange(&mut world, 1, 0, 100_000);
        }
        for node in 0..2 {
            let lanes = world.firmware(node).lanes(world.id(1 - node)).expect("known");
            let both = lanes.small.is_some() && lanes.bulk.is_some();
            assert!(both, "node {node}: {lanes:?}, fabric {fabric}, {ways:?}");
        }
    }
}

/// A port that a firewall closes: the lane never comes up, all goes by the other, and searches get rare.
#[test]
fn a_lane_that_never_answers_is_done_without() {
    let mut world = World::new(setup([Span::us(2), Span::us(20)]));
    cut(&mut world, 1, &BOTH_WAYS, true);
    let before = world.network().totals().undeliverable;
    for _ in 0..200 {
        exchange(&mut world, 0, 1, 100_000);
        world.pass(Span::ms(50));
    }
    assert!(!has_bulk(&world, 0) && sum(&world, Counter::FramesBulk) == 0);
    let asked = world.network().totals().undeliverable - before;
    assert!((1..=80).contains(&asked), "{asked} frames into the void in ten seconds");
}

/// A node that has only the bulk link (no privilege for the other) is spoken to over that, small frames and all.
#[test]
fn a_node_without_the_better_link_is_reached_by_the_other() {
    let mut setup = setup([Span::us(2), Span::us(20)]);
    setup.nodes[1].links[0].frame_bytes_max = 1_472;
    let mut world = World::new(setup);
    // Node 1 is not on the first fabric.
    cut(&mut world, 0, &BOTH_WAYS, true);
    for bytes in [10, 100_000, 1 << 20] {
        exchange(&mut world, 0, 1, bytes);
        exchange(&mut world, 1, 0, bytes);
    }
    let route = |world: &World, node: usize| {
        let firmware: &Firmware = world.firmware(node);
        firmware.route(world.id(1 - node)).map(|(link, _)| link)
    };
    assert_eq!((route(&world, 0), route(&world, 1)), (Some(BULK), Some(BULK)));
    // It gets the better link: that is found too, and the other becomes the bulk lane.
    cut(&mut world, 0, &BOTH_WAYS, false);
    for _ in 0..20 {
        world.pass(Span::ms(500));
        exchange(&mut world, 0, 1, 100_000);
        exchange(&mut world, 1, 0, 100_000);
    }
    assert_eq!(route(&world, 0), Some(LinkIndex(0)));
    assert!(has_bulk(&world, 0));
}
