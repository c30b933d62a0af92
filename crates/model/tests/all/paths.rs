//! Two links to one node at once (`PATH-1` to `PATH-6`): a quick path for small frames, a slower and wider one for long trains.

use std::cell::RefCell;
use std::rc::Rc;

use crate::support::{acquainted_setup, count, finish, sent, wait};
use emp_firmware::{Counter, Firmware, LinkCost, LinkIndex, LinkInfo, Profile, Span};
use emp_model::{
    FabricSetup, FaultPlan, MessageSpec, NodeSetup, Ppm, Rates, Want, World, WorldSetup,
};
use emp_wire::{Kind, LinkAddress};

/// Trains of so many frames are bulk.
const BULK_FRAMES: u32 = 5;

const BULK: LinkIndex = LinkIndex(1);

/// Two nodes, the second path twenty times as late as the first. `second`: what each of them is told of where the other
/// takes bulk is found over the first path only, as with a socket whose port the system chose.
fn setup(latencies: [Span; 2]) -> WorldSetup {
    let mut links = vec![LinkInfo::new(1_472, true), LinkInfo::new(1_472, false)];
    emp_model::divide(&mut links, 1, BULK_FRAMES, BULK_FRAMES);
    let node =
        |index| NodeSetup { links: links.clone(), ..NodeSetup::new(index, Profile::DEFAULT) };
    WorldSetup {
        fabrics: latencies.map(|latency| FabricSetup { latency, ..FabricSetup::lan() }).to_vec(),
        nodes: vec![node(0), node(1)],
        seed: 5,
    }
}

/// A world in which both nodes have found the other's second path.
fn two_paths(latencies: [Span; 2]) -> World {
    let mut world = acquainted_setup(setup(latencies));
    for (from, to) in [(0, 1), (1, 0)] {
        exchange(&mut world, from, to, 100_000);
    }
    assert_eq!((has_bulk(&world, 0), has_bulk(&world, 1)), (true, true));
    world
}

fn has_bulk(world: &World, node: usize) -> bool {
    bulk(world, node).is_some()
}

/// Where its first path to the other leads, and the other.
fn first(world: &World, node: usize) -> Option<LinkAddress> {
    let paths = world.firmware(node).paths(world.id(1 - node));
    paths.iter().find(|path| path.first).map(|path| path.address)
}

fn bulk(world: &World, node: usize) -> Option<LinkAddress> {
    let paths = world.firmware(node).paths(world.id(1 - node));
    paths.iter().find(|path| path.link == BULK && !path.first).map(|path| path.address)
}

fn exchange(world: &mut World, from: usize, to: usize, bytes: u64) {
    world.receive(to, Want::ANY, bytes);
    world.send(MessageSpec::plain(from, to, bytes));
    finish(world);
}

fn sum(world: &World, counter: Counter) -> u64 {
    (0..2).map(|node| count(world, node, counter)).sum()
}

/// `PATH-3`.
#[test]
fn long_trains_take_the_bulk_path_and_all_else_the_small_one() {
    let mut world = two_paths([Span::us(2), Span::us(20)]);
    let before = count(&world, 0, Counter::FramesFurther);
    exchange(&mut world, 0, 1, 64);
    exchange(&mut world, 0, 1, 4 * 1_400);
    assert_eq!(count(&world, 0, Counter::FramesFurther), before, "four frames are no bulk");
    exchange(&mut world, 0, 1, 1 << 20);
    let frames = count(&world, 0, Counter::FramesFurther) - before;
    assert!(frames >= (1 << 20) / 1_472, "{frames} frames of a megabyte took the other path");
    // The pulls and the acknowledgements that the other end sent meanwhile are small.
    assert!(count(&world, 1, Counter::PullsSent) > 10);
    assert_eq!(sum(&world, Counter::PathsFailed), 0);
}

/// Small frames overtake long trains all the time: none of these is taken for lost, and acknowledgements do not multiply.
#[test]
fn what_is_overtaken_is_not_lost() {
    let mut world = two_paths([Span::us(2), Span::us(60)]);
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
    assert_eq!(sum(&world, Counter::PathsFailed), 0);
    let (acks, frames) =
        (sum(&world, Counter::AcksSent) - acks, sum(&world, Counter::FramesSent) - frames);
    assert!(acks * 3 < frames, "{acks} acknowledgements for {frames} frames");
}

/// One path loses and reorders, then the other: everything arrives, and nothing is resent much more often than it is lost (`PATH-4`).
#[test]
fn each_path_repairs_its_own_losses() {
    for fabric in 0..2 {
        let mut world = two_paths([Span::us(2), Span::us(30)]);
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
        assert_eq!(sum(&world, Counter::PathsFailed), 0, "fabric {fabric}");
    }
}

fn cut(world: &mut World, fabric: usize, ways: &[(usize, usize)], cut: bool) {
    for (from, to) in ways {
        world.network_mut().cut(fabric, *from, *to, cut);
    }
}

const BOTH_WAYS: [(usize, usize); 2] = [(0, 1), (1, 0)];

/// A path that dies in the middle of a message, wholly or one way, costs milliseconds; its frames take the other. When
/// it works again it is used again.
#[test]
fn a_dead_path_hands_over_and_comes_back() {
    for (fabric, ways) in [
        (1, &BOTH_WAYS[..]),
        (1, &[(0, 1)]),
        (1, &[(1, 0)]),
        (0, &BOTH_WAYS[..]),
        (0, &[(0, 1)]),
        (0, &[(1, 0)]),
    ] {
        let mut world = two_paths([Span::us(2), Span::us(20)]);
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
        // A failed path is tried again when it is needed; at first after a tenth of a second, then ever later.
        for _ in 0..20 {
            world.pass(Span::ms(500));
            exchange(&mut world, 0, 1, 100_000);
            exchange(&mut world, 1, 0, 100_000);
        }
        for node in 0..2 {
            let paths = world.firmware(node).paths(world.id(1 - node));
            assert_eq!(paths.len(), 2, "node {node}: {paths:?}, fabric {fabric}, {ways:?}");
        }
    }
}

/// A port that a firewall closes: the path never comes up, all goes by the other, and searches get rare.
#[test]
fn a_path_that_never_answers_is_done_without() {
    let mut world = World::new(setup([Span::us(2), Span::us(20)]));
    cut(&mut world, 1, &BOTH_WAYS, true);
    let before = world.network().totals().undeliverable;
    for _ in 0..200 {
        exchange(&mut world, 0, 1, 100_000);
        world.pass(Span::ms(50));
    }
    assert!(!has_bulk(&world, 0) && sum(&world, Counter::FramesFurther) == 0);
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
    // It gets the better link: that is found too, and the other becomes the other path.
    cut(&mut world, 0, &BOTH_WAYS, false);
    for _ in 0..20 {
        world.pass(Span::ms(500));
        exchange(&mut world, 0, 1, 100_000);
        exchange(&mut world, 1, 0, 100_000);
    }
    assert_eq!(route(&world, 0), Some(LinkIndex(0)));
    assert!(has_bulk(&world, 0));
}

/// A world in which both nodes hold their first paths for failed: the first fabric is cut.
fn by_bulk_alone() -> World {
    let mut world = two_paths([Span::us(2), Span::us(20)]);
    cut(&mut world, 0, &BOTH_WAYS, true);
    // A path counts as failed if it brings nothing while the other does.
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
    assert_eq!((first(&world, 0), first(&world, 1)), (None, None));
    world
}

/// Messages that leave within their post take no path that has failed, either.
#[test]
fn small_messages_leave_a_failed_path_alone() {
    let mut world = by_bulk_alone();
    world.network_mut().trace_mut().clear();
    for _ in 0..20 {
        exchange(&mut world, 0, 1, 64);
        exchange(&mut world, 1, 0, 64);
    }
    let trace = world.network().trace();
    let lost = |node| trace.count(node, |line| line.link != BULK && line.is(Kind::Message));
    assert_eq!((lost(0), lost(1)), (0, 0));
}

/// A peer of which only the bulk link is heard has moved: its frames come from elsewhere, and what answers them must not go
/// on to where it was (`PATH-8`).
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

/// The same after the first path works again: it is found again although its address is another one.
#[test]
fn a_small_path_is_found_again_where_the_peer_has_moved_to() {
    let mut world = by_bulk_alone();
    world.network_mut().relocate(1);
    exchange(&mut world, 1, 0, 100_000);
    cut(&mut world, 0, &BOTH_WAYS, false);
    for _ in 0..8 {
        world.pass(Span::ms(500));
        exchange(&mut world, 0, 1, 100_000);
    }
    let here = Some(world.network().address(1));
    assert_eq!((first(&world, 0), bulk(&world, 0)), (here, here));
}

/// The first path has been dead for so long that it is looked for only every half minute. It works again when the other dies: an answer by it
/// to the search for the silent peer is enough to take it (`PAIR-1`, `PATH-8`).
#[test]
fn a_first_path_that_answers_a_search_is_taken() {
    for bytes in [64, 100_000] {
        let mut world = by_bulk_alone();
        for _ in 0..120 {
            world.pass(Span::ms(500));
            BOTH_WAYS.into_iter().for_each(|(from, to)| exchange(&mut world, from, to, 100_000));
        }
        cut(&mut world, 1, &BOTH_WAYS, true);
        cut(&mut world, 0, &BOTH_WAYS, false);
        world.receive(1, Want::ANY, bytes);
        let message = world.send(MessageSpec::plain(0, 1, bytes));
        // A quarter of the time after which it is given up, and the next run of the timer.
        let took = wait(&mut world, Span::ms(60_000), |world| world.arrived(message));
        assert!(took < Span::ms(3_000), "{} ms, {bytes} B", took.as_us() / 1_000);
        // Its acknowledgement comes back by that path as well, although its receiver had nothing to ask for.
        finish(&mut world);
        assert_eq!(sum(&world, Counter::PeersLost), 0);
    }
}

/// Frames that say that they come from a peer, but from elsewhere, move nothing: who is there must answer (`PATH-8`).
#[test]
fn frames_from_elsewhere_alone_move_no_path() {
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
        assert_eq!(bulk(&world, 0), Some(there), "round {round}");
    }
    let asked = sent(&world, 0, Kind::Hello) - hellos;
    assert!((1..=100).contains(&asked), "{asked} questions for {} frames", frames.len() * 100);
    for (from, to) in BOTH_WAYS {
        exchange(&mut world, from, to, 100_000);
    }
    assert_eq!(sum(&world, Counter::PeersLost), 0);
}

/// "Not ready" that leaves by a path that has failed one way does not arrive: it takes the path by which the frame came that
/// it answers.
#[test]
fn what_is_not_taken_is_answered_by_the_path_it_came_by() {
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
    // Its acknowledgements come only after time-outs, which leave it a frame or two at a time.
    world.pass(Span::ms(6_000));
    for _ in 0..messages {
        world.receive(0, Want::ANY, 1_000);
    }
    finish(&mut world);
    assert!(count(&world, 0, Counter::NotReadySent) > 0);
    assert_eq!(sum(&world, Counter::PeersLost), 0);
}

/// Three links lead to the same nodes, of which the third is the best for long trains: all paths are found when they are of use, and
/// any two may fail at once, which costs milliseconds.
#[test]
fn a_pair_has_more_than_two_paths() {
    let mut setup = setup([Span::us(2), Span::us(20)]);
    setup.fabrics.push(FabricSetup { latency: Span::us(30), ..FabricSetup::lan() });
    for node in &mut setup.nodes {
        let mut widest = LinkInfo::new(1_472, false);
        widest.cost =
            Some(LinkCost { first_ns: 20_000, further_ns: 0, ..LinkCost::divided(2, 2)[1] });
        node.links[1].cost = Some(LinkCost { further_ns: 500, ..node.links[1].cost.unwrap() });
        node.links[0].set_beside(LinkIndex(2), LinkAddress::EVERYONE);
        node.links.push(widest);
    }
    let mut world = acquainted_setup(setup);
    // Ten frames are for the second, a hundred for the third.
    for bytes in [10 * 1_400, 140_000, 10 * 1_400, 140_000] {
        for (from, to) in BOTH_WAYS {
            exchange(&mut world, from, to, bytes);
        }
    }
    let links = |world: &World, node: usize| {
        let paths = world.firmware(node).paths(world.id(1 - node));
        let mut links: Vec<_> = paths.iter().map(|path| path.link.0).collect();
        links.sort_unstable();
        links
    };
    assert_eq!((links(&world, 0), links(&world, 1)), (vec![0, 1, 2], vec![0, 1, 2]));
    for (bytes, suits) in [(64, 0), (10 * 1_400, 1), (140_000, 2)] {
        world.network_mut().trace_mut().clear();
        exchange(&mut world, 0, 1, bytes);
        let trace = world.network().trace();
        let sent = [0, 1, 2].map(|link| trace.count(0, |line| line.link == LinkIndex(link)));
        assert_eq!((0..3).max_by_key(|link| sent[*link]), Some(suits), "{bytes} bytes: {sent:?}");
    }
    for alive in 0..3 {
        for fabric in (0..3).filter(|fabric| *fabric != alive) {
            cut(&mut world, fabric, &BOTH_WAYS, true);
        }
        for (from, to) in BOTH_WAYS {
            for bytes in [300_000, 64] {
                world.receive(to, Want::ANY, bytes);
                let message = world.send(MessageSpec::plain(from, to, bytes));
                let took = wait(&mut world, Span::ms(5_000), |world| world.arrived(message));
                println!("by {alive} alone, {bytes} bytes from {from}: {} us", took.as_us());
                assert!(took < Span::ms(60), "by {alive}, {bytes} bytes: {} us", took.as_us());
            }
        }
        finish(&mut world);
        for fabric in (0..3).filter(|fabric| *fabric != alive) {
            cut(&mut world, fabric, &BOTH_WAYS, false);
        }
    }
    assert_eq!(sum(&world, Counter::PeersLost), 0);
}

/// While acknowledgements by the first path are lost they take another; what comes by the first again, in order, brings them back.
#[test]
fn acknowledgements_come_back_to_the_first_path() {
    let mut world = two_paths([Span::us(2), Span::us(20)]);
    let acknowledged_by = |world: &mut World| {
        world.network_mut().trace_mut().clear();
        exchange(world, 0, 1, 64);
        let lines = world.network().trace().lines().iter();
        lines.filter(|line| line.from == 1 && line.is(Kind::Ack)).map(|line| line.link).next_back()
    };
    assert_eq!(acknowledged_by(&mut world), Some(LinkIndex(0)));
    cut(&mut world, 0, &[(1, 0)], true);
    assert_eq!(acknowledged_by(&mut world), Some(BULK));
    cut(&mut world, 0, &[(1, 0)], false);
    assert_eq!(sum(&world, Counter::PathsFailed), 0);
    assert_eq!(acknowledged_by(&mut world), Some(LinkIndex(0)));
}

/// Two cables with two links each, as a ring and a socket, of which the links that are quick fail on both: what was sent by one takes the other
/// at first, and must not go to and fro between the two.
#[test]
fn two_paths_that_fail_at_once_leave_the_others() {
    let mut setup = setup([Span::us(2), Span::us(20)]);
    setup.fabrics.extend(setup.fabrics.clone());
    for node in &mut setup.nodes {
        node.links.extend(node.links.clone());
        for (at, link) in node.links.iter_mut().enumerate() {
            link.interface = at as u8 / 2;
            link.broadcast = true;
            link.beside = LinkInfo::new(1_472, true).beside;
            for other in (0..4).filter(|other| *other != at as u8) {
                link.set_beside(LinkIndex(other), LinkAddress::EVERYONE);
            }
        }
    }
    let mut world = acquainted_setup(setup);
    for _ in 0..4 {
        for (from, to) in BOTH_WAYS {
            exchange(&mut world, from, to, 4 << 20);
        }
    }
    for node in 0..2 {
        assert_eq!(world.firmware(node).paths(world.id(1 - node)).len(), 4);
    }
    cut(&mut world, 0, &BOTH_WAYS, true);
    cut(&mut world, 2, &BOTH_WAYS, true);
    for (from, to) in BOTH_WAYS {
        for bytes in [8, 20_000, 1 << 20] {
            world.receive(to, Want::ANY, bytes);
            let message = world.send(MessageSpec::plain(from, to, bytes));
            let took = wait(&mut world, Span::ms(5_000), |world| world.arrived(message));
            println!("{bytes} bytes from {from}: {} us", took.as_us());
            assert!(took < Span::ms(60), "{bytes} bytes: {} us", took.as_us());
        }
    }
}
