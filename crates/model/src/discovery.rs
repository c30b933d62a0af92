//! How nodes find each other as there are more of them: time, frames and bytes of searches in worlds of cables.

use emp_firmware::{Profile, Span, Time};

use crate::action::Action;
use crate::host::Want;
use crate::ledger::{MessageId, MessageSpec};
use crate::network::{FabricSetup, Wiring};
use crate::node::NodeSetup;
use crate::prng::Prng;
use crate::world::{World, WorldSetup};

/// How the nodes are cabled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Each to the next.
    Line,
    /// The same, and the last to the first.
    Ring,
    /// Each to each other.
    Mesh,
    /// 32 to a switch, 32 switches to one above.
    Tree,
    /// Random, each with four cables.
    Random,
}

impl Shape {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 5] = [
        ("line", Self::Line),
        ("ring", Self::Ring),
        ("mesh", Self::Mesh),
        ("tree", Self::Tree),
        ("random", Self::Random),
    ];

    /// The cables.
    fn wiring(self, nodes: usize, prng: &mut Prng) -> Wiring {
        match self {
            Self::Line => Wiring::line(nodes),
            Self::Ring => Wiring::ring(nodes),
            Self::Mesh => Wiring::mesh(nodes),
            Self::Tree => Wiring::trees(nodes, 1, 32, 32),
            Self::Random => Wiring::random(nodes, 4, prng),
        }
    }
}

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// The cables.
    pub shape: Shape,
    /// Nodes.
    pub nodes: usize,
    /// Searches, by random nodes, each a millisecond after the one before.
    pub searches: usize,
    /// Most cables between a node and whom it looks for; beyond one, nodes relay.
    pub hops: usize,
    /// Seed of who looks for whom.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Discovery {
    /// Searches: nodes that would have looked for themselves are left out.
    pub asked: usize,
    /// First messages that arrived.
    pub found: usize,
    /// From a first message's post to its arrival at the other end: half of them took less, and the longest.
    pub time: [Span; 2],
    /// Frames for each search, the message and its acknowledgement too. A broadcast counts once.
    pub frames: f64,
    /// Most times that one search through relays crossed a cable.
    pub crossings_max: u32,
    /// Bytes on the wire for each node.
    pub wire_bytes: f64,
    /// Most peers that one node knows in the end.
    pub peers_max: usize,
}

/// How long nodes may look for each other.
const LIMIT: Span = Span::ms(10_000);

/// Runs it.
pub fn discover(search: &Search) -> Discovery {
    let mut prng = Prng::new(search.seed);
    let relayed = if search.hops > 1 { search.hops } else { 0 };
    let wiring = search.shape.wiring(search.nodes, &mut prng).relayed(relayed);
    let nodes = wiring.links.iter().enumerate().map(|(index, links)| {
        let node = NodeSetup::new(index, Profile::DEFAULT);
        NodeSetup { links: vec![node.links[0]; *links], ..node }
    });
    let setup =
        WorldSetup { fabrics: vec![FabricSetup::lan()], nodes: nodes.collect(), seed: search.seed };
    let mut world = World::cabled(Time(0), setup, Some(wiring));
    let began: Vec<(Time, MessageId)> = (0..search.searches)
        .filter_map(|number| {
            let from = prng.index(search.nodes);
            let to = walk(&world, from, search.hops, &mut prng).filter(|to| *to != from)?;
            let at = Time(0) + Span::ms(number as u64);
            let message = world.ledger.plan(MessageSpec::plain(from, to, 32));
            world.receive(to, Want::exactly(message), 32);
            world.schedule(at, Action::Send(message));
            Some((at, message))
        })
        .collect();
    let mut ends: Vec<Option<Time>> = vec![None; began.len()];
    world.run_until(LIMIT, |world| {
        for (end, (_, message)) in ends.iter_mut().zip(&began) {
            if end.is_none() && world.arrived(*message) {
                *end = Some(world.now());
            }
        }
        ends.iter().all(Option::is_some)
    });
    let took = ends.iter().zip(&began).filter_map(|(end, (at, _))| Some(end.as_ref()?.since(*at)));
    let mut took: Vec<Span> = took.collect();
    took.sort_unstable();
    let totals = world.network().totals();
    let peers = world.nodes().iter().filter_map(|node| node.firmware.as_ref());
    Discovery {
        asked: began.len(),
        found: took.len(),
        time: [took.get(took.len() / 2), took.last()].map(|time| time.copied().unwrap_or_default()),
        frames: totals.sent as f64 / began.len().max(1) as f64,
        crossings_max: world.network().searches().into_iter().max().unwrap_or(0),
        wire_bytes: totals.bytes as f64 / search.nodes as f64,
        peers_max: peers.map(emp_firmware::Firmware::peers).max().unwrap_or(0),
    }
}

/// A node that so many cables at most lead to.
fn walk(world: &World, from: usize, hops: usize, prng: &mut Prng) -> Option<usize> {
    let network = world.network();
    let mut at = from;
    for _ in 0..prng.within(1..=hops.max(1) as u64) {
        let fabric = network.fabric_of(at, prng.index(network.links(at).max(1)))?;
        let others = network.members(fabric).iter().filter(|other| other.node != at);
        at = others.clone().nth(prng.index(others.count().max(1)))?.node;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_found_in_each_shape_by_a_few_frames() {
        for (name, shape) in Shape::ALL {
            let search = Search { shape, nodes: 40, searches: 30, hops: 1, seed: 5 };
            let found = discover(&search);
            assert!(found.found == found.asked && found.found > 15, "{name}: {found:?}");
            assert!(found.time[0] <= found.time[1] && found.time[1] < Span::ms(50), "{name}");
            // A mesh's node asks by 39 cables.
            let most = if shape == Shape::Mesh { 90.0 } else { 30.0 };
            assert!(found.frames > 1.0 && found.frames < most, "{name}: {found:?}");
            assert_eq!(found, discover(&search), "{name}: the same again");
        }
    }

    /// `RELAY-4`, `RELAY-7`: whoever is within the limit is found through relays, and a search costs no more than two frames a cable.
    #[test]
    fn through_relays_all_within_the_limit_are_found_by_two_frames_a_cable() {
        for (shape, nodes, cables) in [(Shape::Ring, 16, 16), (Shape::Random, 60, 120)] {
            let search = Search { shape, nodes, searches: 40, hops: 8, seed: 5 };
            let found = discover(&search);
            assert!(found.found == found.asked && found.found > 20, "{shape:?}: {found:?}");
            assert!((1..=2 * cables).contains(&found.crossings_max), "{shape:?}: {found:?}");
            assert!(found.time[1] < Span::ms(50), "{shape:?}: {found:?}");
        }
    }
}
