//! What relays leave to whom: both ways round a ring add up, and streams that share a relay have equal parts of it.

use std::collections::VecDeque;

use emp_firmware::{Counter, Profile, Span};
use emp_model::{Action, FabricSetup, MessageId, MessageSpec, Want, Wiring, World};

use crate::support::cabled::{HOPS, arrive, cabled_by, say};
use crate::support::count;

/// Cables of 1 Gb/s: what a message takes is theirs, not the nodes'.
fn gigabit() -> FabricSetup {
    FabricSetup { bits_per_second: 1_000_000_000, ..FabricSetup::lan() }
}

fn ring() -> World {
    cabled_by(Wiring::ring(4).relayed(HOPS), &Profile::DEFAULT, gigabit(), |_, _| 1_500)
}

/// Time for so many messages of 4 MiB between opposite corners.
fn takes(ring: &mut World, messages: usize) -> Span {
    takes_to(ring, 2, messages)
}

/// The same from the first node to one.
fn takes_to(world: &mut World, to: usize, messages: usize) -> Span {
    let all: Vec<MessageId> = (0..messages).map(|_| say(world, 0, to, 4 << 20)).collect();
    arrive(world, Span::ms(60_000), &all)
}

/// `PATH-13`, `RELAY-8`: messages of 4 MiB take both ways round, in little more than half of the time.
#[test]
fn both_ways_round_carry_nearly_twice_as_much() {
    let mut one_way = ring();
    one_way.apply(Action::SetPlug { cable: 3, side: 0, is_in: false });
    one_way.pass(Span::ms(20));
    let mut both_ways = ring();
    let [one, both] = [&mut one_way, &mut both_ways].map(|ring| {
        takes(ring, 2);
        takes(ring, 12)
    });
    let factor = one.0 as f64 / both.0 as f64;
    println!("4 MiB between opposite corners: both ways {factor:.2} of one");
    assert!(factor >= 1.8, "{factor:.2}: {one:?} by one way, {both:?} by both");
}

/// A stream that always has two messages posted.
struct Stream {
    ends: (usize, usize),
    posted: VecDeque<MessageId>,
    bytes: u64,
}

const MESSAGE_BYTES: u64 = 256 << 10;

impl Stream {
    fn new(from: usize, to: usize) -> Self {
        Self { ends: (from, to), posted: VecDeque::new(), bytes: 0 }
    }

    fn go_on(&mut self, world: &mut World) {
        while self.posted.front().is_some_and(|first| world.arrived(*first)) {
            self.posted.pop_front();
            self.bytes += MESSAGE_BYTES;
        }
        let (from, to) = self.ends;
        while self.posted.len() < 2 {
            world.receive(to, Want { from: Some(from), ..Want::ANY }, MESSAGE_BYTES);
            self.posted.push_back(world.send(MessageSpec::plain(from, to, MESSAGE_BYTES)));
        }
    }
}

/// Jain's index: 1 if all have the same, 1/n if one has everything.
fn jain(parts: &[u64]) -> f64 {
    let sum: f64 = parts.iter().map(|part| *part as f64).sum();
    let squares: f64 = parts.iter().map(|part| (*part as f64).powi(2)).sum();
    sum * sum / (parts.len() as f64 * squares)
}

/// What ten streams through a relay and one of its own, the last, have brought by one cable in each of these times.
fn ten_and_one(cable: FabricSetup, spans: &[Span]) -> Vec<Vec<u64>> {
    let (streams, relay, target) = (10, 10, 11);
    let mut wiring = Wiring::bare(12);
    wiring.switches = 1;
    (0..streams).for_each(|from| wiring.hang(from, 0));
    wiring.hang(relay, 0);
    wiring.join(relay, target);
    let wiring = wiring.relayed_by(HOPS, |node| node == relay);
    let mut world = cabled_by(wiring, &Profile::DEFAULT, cable, |_, _| 1_500);
    let mut all: Vec<Stream> = (0..=relay).map(|from| Stream::new(from, target)).collect();
    let parts = spans.iter().map(|span| run(&mut world, &mut all, *span)).collect();
    let neighbours = world.firmware(relay).relay_neighbours();
    let left: u64 = neighbours.iter().map(|of| of.frames).sum();
    assert_eq!(left, count(&world, relay, Counter::Relayed));
    parts
}

/// What each stream brings in this time.
fn run(world: &mut World, all: &mut [Stream], span: Span) -> Vec<u64> {
    all.iter_mut().for_each(|stream| stream.bytes = 0);
    let end = world.now() + span;
    while world.now() < end {
        all.iter_mut().for_each(|stream| stream.go_on(world));
        world.pass(Span::us(100));
    }
    assert_eq!(world.violation(), None);
    all.iter().map(|stream| stream.bytes).collect()
}

/// They have equal parts, but for so much, of a cable that is full.
fn is_shared(parts: &[u64], span: Span, cable: &FabricSetup, least: f64) {
    let (index, sum) = (jain(parts), parts.iter().sum::<u64>());
    let rate = sum as f64 * 8.0 / span.as_us() as f64 * 1e6;
    println!("{index:.3}, {:.0} Mb/s: {parts:?}", rate / 1e6);
    assert!(index >= least, "{index:.3}: {parts:?}");
    assert!(rate > 0.8 * cable.bits_per_second as f64, "the cable stays full: {rate}");
}

/// `RELAY-6`: ten streams through a relay and one of its own, by one cable, share that fairly.
#[test]
fn ten_streams_through_a_relay_and_one_of_its_own_share_fairly() {
    // The first tenth of a second is for who meets whom first.
    let spans = [Span::ms(100), Span::ms(400)];
    let parts = ten_and_one(gigabit(), &spans);
    is_shared(&parts[1], spans[1], &gigabit(), 0.9);
}

/// The same where first windows overflow the queue and round trips are a hundred times as long by it: the streams come to share it, and no train of
/// the relay's own waits for a batch that others' frames leave whole.
#[test]
fn they_share_a_slow_cable_that_all_began_to_fill_at_once() {
    let cable = FabricSetup { bits_per_second: 200_000_000, ..FabricSetup::lan() };
    let spans = [Span::ms(2_500), Span::ms(4_000)];
    let parts = ten_and_one(cable.clone(), &spans);
    is_shared(&parts[1], spans[1], &cable, 0.9);
}

/// Eleven to one without a relay: most have never measured a round trip when the queue stands, which takes longer than their first timer.
#[test]
fn eleven_streams_share_a_slow_cable_that_all_began_to_fill_at_once() {
    let cable = FabricSetup { bits_per_second: 200_000_000, ..FabricSetup::lan() };
    let (streams, target) = (11, 11);
    let mut wiring = Wiring::bare(12);
    wiring.switches = 1;
    (0..=target).for_each(|node| wiring.hang(node, 0));
    let mut world = cabled_by(wiring, &Profile::DEFAULT, cable.clone(), |_, _| 1_500);
    let mut all: Vec<Stream> = (0..streams).map(|from| Stream::new(from, target)).collect();
    run(&mut world, &mut all, Span::ms(2_500));
    let span = Span::ms(4_000);
    is_shared(&run(&mut world, &mut all, span), span, &cable, 0.8);
}

/// Two cables to a relay, which has so many to the target, all of 1 Gb/s: what 4 messages of 4 MiB take, and what each of the two carried of them.
fn by_two_cables_to_a_relay(behind: usize) -> (Span, [u64; 2]) {
    let mut wiring = Wiring::bare(3);
    [(0, 1), (0, 1)].into_iter().chain(vec![(1, 2); behind]).for_each(|(a, b)| wiring.join(a, b));
    let mut world = cabled_by(wiring.relayed(HOPS), &Profile::DEFAULT, gigabit(), |_, _| 1_500);
    takes_to(&mut world, 2, 4);
    let carried = |world: &World| [0, 1].map(|cable| world.network().port(cable, 1).frames);
    let before = carried(&world);
    let took = takes_to(&mut world, 2, 4);
    let after = carried(&world);
    assert_eq!(world.firmware(0).paths(world.id(2)).len(), 2);
    (took, [0, 1].map(|cable| after[cable] - before[cable]))
}

/// `PATH-13`: ways that a relay sends on by one cable are alternatives, as that carries no more than one of them brings.
#[test]
fn ways_by_one_cable_of_a_relay_are_alternatives() {
    let (took, carried) = by_two_cables_to_a_relay(1);
    let mut line =
        cabled_by(Wiring::line(3).relayed(HOPS), &Profile::DEFAULT, gigabit(), |_, _| 1_500);
    takes_to(&mut line, 2, 4);
    let alone = takes_to(&mut line, 2, 4);
    println!("{carried:?} frames in {took:?}; {alone:?} by one cable");
    assert!(took.0 <= alone.0 + alone.0 / 50, "{took:?} against {alone:?}");
    assert!(carried[0].min(carried[1]) * 20 < carried[0].max(carried[1]), "{carried:?}");
}

/// Two that it sends on by a cable each are additions.
#[test]
fn ways_by_two_cables_of_a_relay_add_up() {
    let (by_one, _) = by_two_cables_to_a_relay(1);
    let (took, carried) = by_two_cables_to_a_relay(2);
    println!("{carried:?} frames in {took:?}; {by_one:?} by one cable");
    assert!(took.0 * 10 <= by_one.0 * 7, "{took:?} against {by_one:?}");
    assert!(carried[0].min(carried[1]) * 2 > carried[0].max(carried[1]), "{carried:?}");
}
