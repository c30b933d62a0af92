//! Worlds of relays in the swarm: lines, rings, meshes and random graphs of nodes of which most relay (`emp sim --relays`). What befalls their
//! cables is drawn where that of other worlds is ([`cabling`](crate::cabling)); relays crash as nodes do, and cuts of one direction make links
//! that lead one way.

use emp_firmware::Span;
use emp_wire::HOP_LIMIT;

use crate::faults::FaultPlan;
use crate::network::Wiring;
use crate::prng::{Ppm, Prng};
use crate::swarm::{SwarmOptions, Temper};
use crate::world::{World, WorldSetup};

/// The shortest patience. A search that is lost beyond neighbours is repeated after 0.3 and then each 0.8 s (`RELAY-10`): this has room for eight of
/// them, of which each crosses a dozen cables both ways.
const PATIENCE_MIN: Span = Span::ms(4_000);

/// Most frames of a kind that a cable loses, damages or cuts short, each: what is lost on one cable adds up over all.
const LOSS_MAX: Ppm = Ppm(10_000);

/// Longest burst in which a cable swallows all frames.
const BURST_MAX: Span = Span::ms(5);

/// Cables of a node in a random graph.
const DEGREE: usize = 4;

/// Nodes of a mesh: with a cable to each other one, no node has more links than the engine has paths for.
const MESH_NODES_MAX: usize = 6;

/// Searches beyond neighbours that a node may begin for one other: those of the first second, and then a few each second (`RELAY-10`), for the
/// node itself and for paths to it. Four times as many as any world needed.
const SEARCHES_AT_ONCE: u64 = 100;
const SEARCHES_A_SECOND: u64 = 40;

/// Draws the cables, and makes the rest of a world such that only what the judge knows of explains an error.
pub fn draw(
    prng: &mut Prng,
    setup: &mut WorldSetup,
    temper: &mut Temper,
    options: &SwarmOptions,
) -> Wiring {
    if !options.calm {
        temper.restarts |= prng.percent(30);
        temper.cuts |= prng.percent(50);
    }
    // Who moves takes its cables along.
    temper.moves = false;
    temper.patience = temper.patience.max(PATIENCE_MIN);
    for fabric in &mut setup.fabrics {
        soften(&mut fabric.faults);
    }
    for node in &mut setup.nodes {
        node.profile.unreachable_after = temper.patience;
        node.shares_with = None;
        // Relays are for raw Ethernet, which has a broadcast.
        node.links.iter_mut().for_each(|link| (link.broadcast, link.tells) = (true, None));
    }
    let nodes = setup.nodes.len();
    let wiring = shape(nodes, prng);
    let all = prng.percent(60);
    let relays: Vec<bool> = (0..nodes).map(|_| all || prng.percent(75)).collect();
    wiring.relayed_by(HOP_LIMIT.into(), |node| relays[node])
}

fn shape(nodes: usize, prng: &mut Prng) -> Wiring {
    let mut wiring = match prng.below(5) {
        0 => Wiring::line(nodes),
        1 if nodes <= MESH_NODES_MAX => Wiring::mesh(nodes),
        2 if nodes > DEGREE => return Wiring::random(nodes, DEGREE, prng),
        _ => Wiring::ring(nodes),
    };
    // Some neighbours have a second cable between them, or one across.
    if prng.percent(30) {
        let one = prng.index(nodes);
        let other = (one + 1 + prng.index(nodes - 1)) % nodes;
        wiring.join(one, other);
    }
    wiring
}

fn soften(faults: &mut FaultPlan) {
    for rates in faults.all_mut() {
        for rate in [&mut rates.drop, &mut rates.corrupt, &mut rates.truncate] {
            rate.0 = rate.0.min(LOSS_MAX.0);
        }
    }
    faults.burst_max = Span(faults.burst_max.0.min(BURST_MAX.0));
}

impl World {
    /// Checks that nodes have begun few searches beyond their neighbours. (How often each crosses a cable is looked at as it is sent.)
    pub fn judge_searches(&self) -> Result<(), String> {
        let seconds = self.now().since(self.began()).0 / 1_000_000_000 + 1;
        let nodes = self.nodes().len() as u64;
        let most = nodes * (nodes - 1) * (SEARCHES_AT_ONCE + SEARCHES_A_SECOND * seconds);
        let begun = self.network().searches().len() as u64;
        if begun > most {
            return Err(format!("{begun} searches of {nodes} nodes in {seconds} s"));
        }
        Ok(())
    }
}
