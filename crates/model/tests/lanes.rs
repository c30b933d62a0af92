//! Two links to one node at once (`LANE-1` to `LANE-6`): a quick lane for small frames, a slower and wider one for long trains.

mod support;

use std::cell::RefCell;
use std::rc::Rc;

use emp_firmware::{Counter, Firmware, LinkIndex, LinkInfo, Profile, Span};
use emp_model::{
    FabricSetup, FaultPlan, MessageSpec, NodeSetup, Ppm, Rates, Want, World, WorldSetup,
};
use emp_wire::{Kind, LinkAddress};
use support::{acquainted_setup, count, finish, sent, wait};

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

/// A world in which both nodes hold their small lanes for failed: the first fabric is cut.
fn by_bulk_alone() -> World {
    let mut world = two_lanes([Span::us(2), Span::us(20)]);
    cut(&mut world, 0, &BOTH_WAYS, true);
    // A lane counts as failed if it brings nothing while the other does.
    for _ in 0..200 {
        for (from, to) in BOTH_WAYS {
            for bytes in [100, 100_000] {
                world.receive(to, Want::ANY, bytes);
                world.send(MessageSpec::plain(from, to, bytes));
            }
        }
        world.pass(Span::us(100));
    }
    finish(&mut world);
    let small = |node| world.firmware(node).lanes(world.id(1 - node)).and_then(|lanes| lanes.small);
    assert_eq!((small(0), small(1)), (None, None));
    world
}

/// A peer of which only the bulk link is heard has moved: its frames come from elsewhere, and what answers them must not go
/// on to where it was (`LANE-8`).
#[test]
fn a_peer_that_is_heard_by_bulk_alone_may_move() {
    for bytes in [100, 100_000, 1 << 20] {
        let mut world = by_bulk_alone();
        world.network_mut().relocate(1);
        // What the application does not take at once is answered, too.
        let message = world.send(MessageSpec::plain(1, 0, bytes));
        world.pass(Span::ms(200));
        world.receive(0, Want::ANY, bytes);
        let took = wait(&mut world, Span::ms(400), |world| world.arrived(message));
        assert!(took < Span::ms(150), "{} µs, {bytes} B", took.as_us());
        finish(&mut world);
        exchange(&mut world, 0, 1, bytes);
        assert!(has_bulk(&world, 0) && has_bulk(&world, 1));
    }
}

/// The same after the small lane works again: it is found again although its address is another one.
#[test]
fn a_small_lane_is_found_again_where_the_peer_has_moved_to() {
    let mut world = by_bulk_alone();
    world.network_mut().relocate(1);
    exchange(&mut world, 1, 0, 100_000);
    cut(&mut world, 0, &BOTH_WAYS, false);
    for _ in 0..8 {
        world.pass(Span::ms(500));
        exchange(&mut world, 0, 1, 100_000);
    }
    let lanes = world.firmware(0).lanes(world.id(1)).expect("known");
    let here = Some(world.network().address(1));
    assert_eq!(lanes.small.map(|(_, to)| to), here);
    assert_eq!(lanes.bulk.map(|(_, to)| to), here);
}

/// Frames that say that they come from a peer, but from elsewhere, move nothing: who is there must answer (`LANE-8`).
#[test]
fn frames_from_elsewhere_alone_move_no_lane() {
    let mut world = by_bulk_alone();
    let (there, elsewhere) = (world.network().address(1), LinkAddress::index(77));
    // Genuine frames of node 1, kept by who listened, come again and again from another address.
    let heard: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
    let keeps = Rc::clone(&heard);
    world.network_mut().set_script(Some(Box::new(move |_, from, _, frame| {
        if from == 1 {
            keeps.borrow_mut().push(frame.to_vec());
        }
        None
    })));
    exchange(&mut world, 1, 0, 100_000);
    world.network_mut().set_script(None);
    let frames = heard.take();
    assert!(frames.len() > 20);
    let hellos = sent(&world, 0, Kind::Hello);
    for round in 0..100 {
        world.pass(Span::ms(10));
        let now = world.now();
        for frame in &frames {
            world.network_mut().inject(now, 0, BULK, elsewhere, frame);
        }
        let bulk = world.firmware(0).lanes(world.id(1)).and_then(|lanes| lanes.bulk);
        assert_eq!(bulk.map(|(_, to)| to), Some(there), "round {round}");
    }
    let asked = sent(&world, 0, Kind::Hello) - hellos;
    assert!((1..=100).contains(&asked), "{asked} questions for {} frames", frames.len() * 100);
    for (from, to) in BOTH_WAYS {
        exchange(&mut world, from, to, 100_000);
    }
    assert_eq!(sum(&world, Counter::PeersLost), 0);
}

/// "Not ready" that leaves by a lane that has failed one way does not arrive: it takes the lane by which the frame came that
/// it answers.
#[test]
fn what_is_not_taken_is_answered_by_the_lane_it_came_by() {
    let mut setup = setup([Span::us(2), Span::us(20)]);
    for node in &mut setup.nodes {
        node.profile.unreachable_after = Span::ms(200);
    }
    let mut world = acquainted_setup(setup);
    for (from, to) in BOTH_WAYS {
        exchange(&mut world, from, to, 100_000);
    }
    cut(&mut world, 0, &[(0, 1)], true);
    // More than the pool holds, in messages of one frame.
    let messages = 4_200;
    for _ in 0..messages {
        world.send(MessageSpec::plain(1, 0, 1_000));
    }
    world.pass(Span::ms(2_000));
    for _ in 0..messages {
        world.receive(0, Want::ANY, 1_000);
    }
    finish(&mut world);
    assert!(count(&world, 0, Counter::NotReadySent) > 0);
    assert_eq!(sum(&world, Counter::PeersLost), 0);
}
