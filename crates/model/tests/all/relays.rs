//! Nodes that are cabled to each other, without a switch: who is not a neighbour is found through relays and reached by lists of hops.

use emp_firmware::{Counter, Profile, Span, Status};
use emp_model::{Action, FabricSetup, FaultPlan, MessageId, Ppm, Prng, Rates, Wiring, World};

use crate::support::cabled::{HOPS, arrive, cabled, cabled_by, is_over, relayed, say};
use crate::support::{count, finish, wait};

const PATIENCE: Span = Span::ms(20_000);

/// What all nodes counted of something.
fn count_all(world: &World, counter: Counter) -> u64 {
    let running = world.nodes().iter().filter_map(|node| node.firmware.as_ref());
    running.map(|firmware| firmware.counters().get(counter)).sum()
}

fn plug(world: &mut World, cable: usize, is_in: bool) {
    world.apply(Action::SetPlug { cable, side: 0, is_in });
}

/// `RELAY-3`, `RELAY-4` (V24, V26): nobody is configured, and the ends of a line of three talk, by as many frames as it takes.
#[test]
fn the_ends_of_a_line_find_each_other_through_a_relay() {
    let mut line = relayed(Wiring::line(3));
    for bytes in [0, 32, 1_400, 20_000, 3_000_000] {
        let both = [say(&mut line, 0, 2, bytes), say(&mut line, 2, 0, bytes)];
        arrive(&mut line, PATIENCE, &both);
    }
    assert!(count(&line, 1, Counter::Relayed) > 0);
    let neighbours = line.firmware(1).relay_neighbours();
    assert!(
        neighbours.len() == 2 && neighbours.iter().all(|of| of.frames > 0 && of.dropped() == 0)
    );
    let paths = line.firmware(0).paths(line.id(2));
    assert_eq!(paths.len(), 1);
    assert_eq!(paths[0].address.as_relayed().map(|(_, _, hops)| hops), Some(1));
    assert_eq!(paths[0].frame_bytes_max, 1_500 - 24);
    assert_eq!(count_all(&line, Counter::FramesResent), 0, "nothing was lost");
    finish(&mut line);
}

/// `RELAY-8`: opposite corners of a ring know both ways round.
#[test]
fn opposite_corners_of_a_ring_know_both_ways_round() {
    let mut ring = relayed(Wiring::ring(4));
    let pairs = [(0, 2), (2, 0), (1, 3), (0, 1), (3, 2)];
    let small = pairs.map(|(from, to)| say(&mut ring, from, to, 100));
    arrive(&mut ring, PATIENCE, &small);
    let long = say(&mut ring, 0, 2, 4 << 20);
    arrive(&mut ring, PATIENCE, &[long]);
    for (from, to) in [(0, 2), (2, 0)] {
        let paths = ring.firmware(from).paths(ring.id(to));
        assert_eq!(paths.len(), 2, "{from}: {paths:?}");
        assert!(paths.iter().all(|path| path.address.is_behind_relays()));
        assert_ne!(paths[0].link, paths[1].link);
    }
    // Neighbours have the cable between them.
    let paths = ring.firmware(0).paths(ring.id(1));
    assert!(!paths[0].address.is_behind_relays(), "{paths:?}");
    finish(&mut ring);
}

/// One frame of a hundred is lost on each cable: nothing is lost, doubled or changed by that.
#[test]
fn a_ring_that_loses_one_in_a_hundred_delivers_everything_once() {
    let faults = FaultPlan::uniform(Rates { drop: Ppm(10_000), ..Rates::default() });
    let lossy = FabricSetup { faults, ..FabricSetup::lan() };
    let wiring = Wiring::ring(4).relayed(HOPS);
    let mut ring = cabled_by(wiring, &Profile::DEFAULT, lossy, |_, _| 1_500);
    let mut all = Vec::new();
    for round in 0..30_usize {
        for from in 0..4 {
            for to in (0..4).filter(|to| *to != from) {
                let bytes = [0, 32, 4_000, 200_000][(round + to) % 4];
                all.push(say(&mut ring, from, to, bytes));
            }
        }
        ring.pass(Span::us(300));
    }
    arrive(&mut ring, PATIENCE, &all);
    assert!(count_all(&ring, Counter::Relayed) > 1_000);
    finish(&mut ring);
}

/// `RELAY-5`, `RELAY-9`: a relay that has lost its next cable says so, and the other way round is taken at once.
#[test]
fn a_cable_that_is_pulled_behind_a_relay_sends_traffic_the_other_way_round() {
    for pulled in 0..4 {
        let mut ring = relayed(Wiring::ring(4));
        let first = say(&mut ring, 0, 2, 32);
        arrive(&mut ring, PATIENCE, &[first]);
        ring.pass(Span::ms(50));
        let mut under_way: Vec<MessageId> =
            (0..10).map(|_| say(&mut ring, 0, 2, 1 << 20)).collect();
        ring.pass(Span::ms(2));
        plug(&mut ring, pulled, false);
        let next = say(&mut ring, 0, 2, 32);
        let took = arrive(&mut ring, PATIENCE, &[next]);
        // Hosts hear of it from the kernel within 10 ms.
        assert!(took < Span::ms(30), "{pulled}: {took:?}");
        under_way.push(next);
        arrive(&mut ring, PATIENCE, &under_way);
        if pulled == 1 {
            // It is between the relay that is taken and the target.
            assert!(count_all(&ring, Counter::CutOffsSent) > 0, "{pulled}");
            assert!(count_all(&ring, Counter::CutOffsHeard) > 0, "{pulled}");
        }
        // It is plugged in again, and the other one is pulled.
        plug(&mut ring, pulled, true);
        ring.pass(Span::ms(20));
        plug(&mut ring, (pulled + 2) % 4, false);
        let next = say(&mut ring, 0, 2, 32);
        arrive(&mut ring, PATIENCE, &[next]);
        finish(&mut ring);
    }
}

/// `PATH-2`, `RELAY-10`: a way round that is there later than the first is found too, by a cable of this node's own or another's, while
/// messages go by the first.
#[test]
fn a_second_way_round_is_found_when_it_is_cabled() {
    for late in [2, 3] {
        let mut ring = relayed(Wiring::ring(4));
        plug(&mut ring, late, false);
        ring.pass(Span::ms(20));
        let first = say(&mut ring, 0, 2, 32);
        arrive(&mut ring, PATIENCE, &[first]);
        assert_eq!(ring.firmware(0).paths(ring.id(2)).len(), 1, "{late}");
        ring.pass(Span::ms(300));
        plug(&mut ring, late, true);
        let mut found = false;
        for _ in 0..1_000 {
            // Long enough to be worth another path.
            let next = say(&mut ring, 0, 2, 1 << 20);
            arrive(&mut ring, PATIENCE, &[next]);
            ring.pass(Span::ms(1));
            found = ring.firmware(0).paths(ring.id(2)).len() == 2;
            if found {
                break;
            }
        }
        assert!(found, "{late}: {:?}", ring.firmware(0).paths(ring.id(2)));
        finish(&mut ring);
    }
}

/// `RELAY-10`: neighbours whose cable is pulled go on the other way round, through relays, while their hosts know that nothing can be heard by
/// it; and by the cable again when it is in.
#[test]
fn neighbours_go_the_other_way_round_while_their_cable_is_out() {
    for side in 0..2 {
        let mut ring = relayed(Wiring::ring(4));
        let first = [say(&mut ring, 0, 1, 32), say(&mut ring, 1, 0, 32)];
        arrive(&mut ring, PATIENCE, &first);
        let under_way: Vec<MessageId> = (0..4).map(|_| say(&mut ring, 0, 1, 1 << 20)).collect();
        ring.pass(Span::ms(1));
        ring.apply(Action::SetPlug { cable: 0, side, is_in: false });
        let next = say(&mut ring, 1, 0, 32);
        let took = arrive(&mut ring, PATIENCE, &[next]);
        assert!(took < Span::ms(60), "{took:?}");
        arrive(&mut ring, PATIENCE, &under_way);
        ring.apply(Action::SetPlug { cable: 0, side, is_in: true });
        ring.pass(Span::ms(500));
        let again = say(&mut ring, 0, 1, 1 << 20);
        arrive(&mut ring, PATIENCE, &[again]);
        finish(&mut ring);
    }
}

/// `RELAY-6`: a relay that restarts knows nothing, and needs nothing.
#[test]
fn a_relay_that_restarts_goes_on() {
    let mut line = relayed(Wiring::line(3));
    let mut all = Vec::new();
    for round in 0..20 {
        all.extend([say(&mut line, 0, 2, 300_000), say(&mut line, 2, 0, 32)]);
        line.pass(Span::us(200));
        if round % 5 == 2 {
            line.apply(Action::Stop { node: 1, goodbye: false });
            line.pass(Span::ms(20));
            line.apply(Action::Start { node: 1 });
        }
    }
    arrive(&mut line, PATIENCE, &all);
    finish(&mut line);
}

/// `RELAY-10`: nobody in between relays: the node is not found, and that is said; searches that find nobody are few.
#[test]
fn without_a_relay_there_is_no_way() {
    let mut line = cabled(Wiring::line(3).relayed_by(HOPS, |_| false), &Profile::DEFAULT);
    let message = say(&mut line, 0, 2, 32);
    wait(&mut line, Span::ms(60_000), |line| is_over(line, message));
    assert_eq!(line.sent(message), Some(Status::NotFound));
    let crossings = line.network().searches();
    assert!(crossings.iter().all(|crossed| *crossed == 1), "{crossings:?}");
    assert!(!crossings.is_empty() && crossings.len() < 40, "{crossings:?}");
}

/// `RELAY-4`: so many cables and no more.
#[test]
fn a_search_goes_as_far_as_its_limit() {
    let mut line = relayed(Wiring::line(10));
    let (near, far) = (say(&mut line, 0, 8, 32), say(&mut line, 0, 9, 32));
    wait(&mut line, Span::ms(60_000), |line| is_over(line, near) && is_over(line, far));
    assert_eq!(line.sent(near), Some(Status::Ok));
    assert_eq!(line.sent(far), Some(Status::NotFound));
    assert!(count_all(&line, Counter::DropSearchLimit) > 0);
}

/// Small and large cables: each path has what the smallest on its way takes.
#[test]
fn the_smallest_cable_on_the_way_counts() {
    let wiring = Wiring::line(4).relayed(HOPS);
    // The cable in the middle is the small one.
    let bytes = |node: usize, link: usize| match (node, link) {
        (1, 1) | (2, 0) => 1_500,
        _ => 9_000,
    };
    let mut line = cabled_by(wiring, &Profile::DEFAULT, FabricSetup::lan(), bytes);
    let both = [say(&mut line, 0, 3, 1 << 20), say(&mut line, 3, 0, 1 << 20)];
    arrive(&mut line, PATIENCE, &both);
    for (from, to) in [(0, 3), (3, 0)] {
        let paths = line.firmware(from).paths(line.id(to));
        assert_eq!(paths[0].frame_bytes_max, 1_500 - 36);
    }
    assert_eq!(count_all(&line, Counter::DropHopTooLong), 0);
    finish(&mut line);
}

/// `RELAY-7`: in any graph a node within the limit is found, and no search crosses a cable more than twice.
#[test]
fn in_random_graphs_every_pair_within_the_limit_talks() {
    for seed in 0..3 {
        let nodes = 40;
        let wiring = Wiring::random(nodes, 4, &mut Prng::new(seed));
        let cables = wiring.cables.len();
        let mut graph = relayed(wiring);
        let mut all = Vec::new();
        for at in 0..nodes {
            for step in [1, 7, 31] {
                all.push(say(&mut graph, at, (at + step) % nodes, 100 + all.len() as u64));
            }
            graph.pass(Span::us(100));
        }
        arrive(&mut graph, PATIENCE, &all);
        let most = graph.network().searches().into_iter().max();
        assert!(most.is_some_and(|most| most as usize <= 2 * cables), "seed {seed}: {most:?}");
        finish(&mut graph);
    }
}
