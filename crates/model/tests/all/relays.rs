//! Boxes that are cabled to each other, without a switch: who is not a neighbour is found through relays and reached by lists of hops.

use emp_firmware::{Counter, Profile, Span, Status};
use emp_model::{BoxCable, Boxes, Ppm};

const PATIENCE: Span = Span::ms(20_000);

fn cabled(nodes: usize, cables: &[BoxCable]) -> Boxes {
    Boxes::new(nodes, cables, &Profile::DEFAULT, 7, |_| true)
}

/// `RELAY-3`, `RELAY-4` (V24, V26): nobody is configured, and the ends of a line of three talk, by as many frames as it takes.
#[test]
fn the_ends_of_a_line_find_each_other_through_a_relay() {
    let mut line = cabled(3, &Boxes::line(3));
    for bytes in [0, 32, 1_400, 20_000, 3_000_000] {
        line.send(0, 2, bytes);
        line.send(2, 0, bytes);
        line.settle(PATIENCE);
    }
    assert!(line.count(1, Counter::Relayed) > 0);
    let neighbours = line.firmware(1).relay_neighbours();
    assert!(neighbours.len() == 2 && neighbours.iter().all(|of| of.frames > 0 && of.dropped == 0));
    let paths = line.firmware(0).paths(line.id(2));
    assert_eq!(paths.len(), 1);
    assert_eq!(paths[0].address.as_relayed().map(|(_, _, hops)| hops), Some(1));
    assert_eq!(paths[0].frame_bytes_max, 1_500 - 24);
    assert_eq!(line.count_all(Counter::FramesResent), 0, "nothing was lost");
}

/// `RELAY-8`: opposite corners of a ring know both ways round.
#[test]
fn opposite_corners_of_a_ring_know_both_ways_round() {
    let mut ring = cabled(4, &Boxes::ring(4));
    for (from, to) in [(0, 2), (2, 0), (1, 3), (0, 1), (3, 2)] {
        ring.send(from, to, 100);
    }
    ring.settle(PATIENCE);
    ring.send(0, 2, 4 << 20);
    ring.settle(PATIENCE);
    for (from, to) in [(0, 2), (2, 0)] {
        let paths = ring.firmware(from).paths(ring.id(to));
        assert_eq!(paths.len(), 2, "{from}: {paths:?}");
        assert!(paths.iter().all(|path| path.address.is_behind_relays()));
        assert_ne!(paths[0].link, paths[1].link);
    }
    // Neighbours have the cable between them.
    let paths = ring.firmware(0).paths(ring.id(1));
    assert!(!paths[0].address.is_behind_relays(), "{paths:?}");
}

/// One frame of a hundred is lost on each cable: nothing is lost, doubled or changed by that.
#[test]
fn a_ring_that_loses_one_in_a_hundred_delivers_everything_once() {
    let lossy = Boxes::ring(4).into_iter().map(|cable| BoxCable { loss: Ppm(10_000), ..cable });
    let mut ring = cabled(4, &lossy.collect::<Vec<_>>());
    for round in 0..30_u64 {
        for from in 0..4 {
            for to in (0..4).filter(|to| *to != from) {
                ring.send(from, to, [0, 32, 4_000, 200_000][(round as usize + to) % 4]);
            }
        }
        ring.run(Span::us(300));
    }
    ring.settle(PATIENCE);
    assert!(ring.messages().iter().all(|sent| sent.ended == Some(Status::Ok)));
}

/// `RELAY-5`, `RELAY-9`: a relay that has lost its next cable says so, and the other way round is taken at once.
#[test]
fn a_cable_that_is_pulled_behind_a_relay_sends_traffic_the_other_way_round() {
    for pulled in 0..4 {
        let mut ring = cabled(4, &Boxes::ring(4));
        ring.send(0, 2, 32);
        ring.settle(PATIENCE);
        ring.run(Span::ms(50));
        for _ in 0..10 {
            ring.send(0, 2, 1 << 20);
        }
        ring.run(Span::ms(2));
        ring.plug(pulled, false);
        let at = ring.now;
        let next = ring.send(0, 2, 32);
        ring.settle(PATIENCE);
        assert!(ring.messages().iter().all(|sent| sent.ended == Some(Status::Ok)), "{pulled}");
        let took = ring.message(next).arrived.expect("it arrived").since(at);
        assert!(took < Span::ms(20), "{pulled}: {took:?}");
        if pulled == 1 {
            // It is between the relay that is taken and the target.
            assert!(ring.count_all(Counter::CutOffsSent) > 0, "{pulled}");
            assert!(ring.count_all(Counter::CutOffsHeard) > 0, "{pulled}");
        }
        // It is plugged in again, and the other one is pulled.
        ring.plug(pulled, true);
        ring.run(Span::ms(10));
        ring.plug((pulled + 2) % 4, false);
        let next = ring.send(0, 2, 32);
        ring.settle(PATIENCE);
        assert_eq!(ring.message(next).ended, Some(Status::Ok), "{pulled}");
    }
}

/// `RELAY-6`: a relay that restarts knows nothing, and needs nothing.
#[test]
fn a_relay_that_restarts_goes_on() {
    let mut line = cabled(3, &Boxes::line(3));
    for round in 0..20 {
        line.send(0, 2, 300_000);
        line.send(2, 0, 32);
        line.run(Span::us(200));
        if round % 5 == 2 {
            line.kill(1);
            line.run(Span::ms(20));
            line.start(1, &Profile::DEFAULT);
        }
    }
    line.settle(PATIENCE);
    assert!(line.messages().iter().all(|sent| sent.ended == Some(Status::Ok)));
}

/// `RELAY-10`: nobody in between relays: the node is not found, and that is said; searches that find nobody are few.
#[test]
fn without_a_relay_there_is_no_way() {
    let cables = Boxes::line(3);
    let mut line = Boxes::new(3, &cables, &Profile::DEFAULT, 7, |_| false);
    let message = line.send(0, 2, 32);
    line.settle(Span::ms(60_000));
    assert_eq!(line.message(message).ended, Some(Status::NotFound));
    let few = u64::from(line.search_frames_max());
    assert!(few <= 1 && line.searches() < 40, "{few} {}", line.searches());
}

/// `RELAY-4`: so many cables and no more.
#[test]
fn a_search_goes_as_far_as_its_limit() {
    let mut line = cabled(10, &Boxes::line(10));
    let near = line.send(0, 8, 32);
    let far = line.send(0, 9, 32);
    line.settle(Span::ms(60_000));
    assert_eq!(line.message(near).ended, Some(Status::Ok));
    assert_eq!(line.message(far).ended, Some(Status::NotFound));
    assert!(line.count_all(Counter::DropSearchLimit) > 0);
}

/// Small and large cables: each path has what the smallest on its way takes.
#[test]
fn the_smallest_cable_on_the_way_counts() {
    let mut cables = Boxes::line(4);
    cables[0].frame_bytes_max = 9_000;
    cables[2].frame_bytes_max = 9_000;
    let mut line = cabled(4, &cables);
    line.send(0, 3, 1 << 20);
    line.send(3, 0, 1 << 20);
    line.settle(PATIENCE);
    for (from, to) in [(0, 3), (3, 0)] {
        let paths = line.firmware(from).paths(line.id(to));
        assert_eq!(paths[0].frame_bytes_max, 1_500 - 36);
    }
    assert_eq!(line.count_all(Counter::DropHopTooLong), 0);
}

/// `RELAY-7`: in any graph a node within the limit is found, and no search crosses a cable more than twice.
#[test]
fn in_random_graphs_every_pair_within_the_limit_talks() {
    for seed in 0..3 {
        let nodes = 40;
        let mut graph = cabled(nodes, &Boxes::random(nodes, 4, seed));
        let mut count = 0;
        for at in 0..nodes {
            for step in [1, 7, 31] {
                graph.send(at, (at + step) % nodes, 100 + count);
                count += 1;
            }
            graph.run(Span::us(100));
        }
        graph.settle(PATIENCE);
        let lost = graph.messages().iter().filter(|sent| sent.ended != Some(Status::Ok));
        assert_eq!(lost.count(), 0, "seed {seed}");
    }
}
