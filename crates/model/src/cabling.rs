//! Worlds of cables in the swarm: several between the same nodes, or trees of switches, with plugs that are pulled, put in again and
//! moved. Drawn from numbers of its own, so that all else of a seed's world is as it was before there were any.
//!
//! Every node has a cable or a switch in common with every other one, unless nodes relay ([`relaying`]).

use emp_firmware::Span;

use crate::action::Action;
use crate::network::{Jack, Plug, Wiring};
use crate::prng::Prng;
use crate::reduce::Part;
use crate::relaying;
use crate::swarm::{SwarmOptions, Temper};
use crate::world::{World, WorldSetup};

/// Links that a node may have: one bit each in the engine's words about them, and no host has more cards.
const LINKS_MAX: usize = 8;

/// One world of so many has cables, in percent.
const WORLDS: u32 = 20;

fn numbers(seed: u64) -> Prng {
    Prng::new(seed ^ 0xcab1_e5ee)
}

/// Draws cables for a world, if it is to have such: its nodes get a link for each, and one to spare.
pub fn draw(
    seed: u64,
    setup: &mut WorldSetup,
    temper: &mut Temper,
    options: &SwarmOptions,
) -> Option<Wiring> {
    let mut prng = numbers(seed);
    if options.relays {
        let wiring = relaying::draw(&mut prng, setup, temper, options);
        return Some(fit(wiring, setup, &mut prng));
    }
    let nodes = setup.nodes.len();
    // What moves whole nodes, or has two at one address, knows nothing of cables.
    let shares = setup.nodes.iter().any(|node| node.shares_with.is_some());
    let apart = temper.moves || shares || options.without.is_without(Part::Cables);
    if !prng.percent(WORLDS) || apart {
        return None;
    }
    let wiring = match prng.below(3) {
        0 => Wiring::trees(nodes, 1 + prng.index(2), 1 + prng.index(3), 2),
        _ => several(nodes, &mut prng),
    };
    Some(fit(wiring, setup, &mut prng))
}

/// Gives each node a link for each of its cables and one to spare, and each cable one of the setups.
fn fit(mut wiring: Wiring, setup: &mut WorldSetup, prng: &mut Prng) -> Wiring {
    wiring.links.iter_mut().for_each(|links| *links += 1);
    for cable in &mut wiring.cables {
        cable.setup = prng.index(setup.fabrics.len());
    }
    for (node, links) in setup.nodes.iter_mut().zip(&wiring.links) {
        let mut link = node.links[0];
        // Which link is for bulk is a matter of fabrics that lead to all.
        (link.cost, link.beside) = (None, Default::default());
        node.links = vec![link; *links];
    }
    wiring
}

/// One to three cables between any two nodes, as far as a node has links.
fn several(nodes: usize, prng: &mut Prng) -> Wiring {
    let mut wiring = Wiring::mesh(nodes);
    for a in 0..nodes {
        for b in a + 1..nodes {
            for _ in 0..prng.below(3) {
                if wiring.links[a].max(wiring.links[b]) < LINKS_MAX - 1 {
                    wiring.join(a, b);
                }
            }
        }
    }
    wiring
}

/// What befalls the cables: only where the network is cut in other worlds too, as that is what explains the errors of it.
pub fn schedule(seed: u64, world: &mut World, temper: &Temper, options: &SwarmOptions) {
    let mut prng = numbers(seed ^ 0x9a11);
    let cables = world.network().cables();
    if cables == 0 || !temper.cuts {
        return;
    }
    let last = world.actions.last_key_value().map_or(world.began(), |((at, _), _)| *at);
    let span = last.since(world.began()).0.max(20_000_000);
    // Who was told where the others are, and can't ask, does not find who moved.
    let mut links = world.nodes().iter().flat_map(|node| &node.setup.links);
    let may_move = links.all(|link| link.broadcast);
    for _ in 0..prng.within(1..=6) {
        let (cable, side) = (prng.index(cables), prng.index(2));
        let at = world.began() + Span(prng.below(span));
        if prng.percent(30) && may_move {
            // With relays it may be another node's that the cable leads to from then on.
            let node = options.relays.then(|| prng.index(world.nodes().len()));
            move_to_spare(world, (cable, side), node, at, &mut prng);
            continue;
        }
        world.schedule(at, Action::SetPlug { cable, side, is_in: false });
        let away = match prng.percent(60) {
            true => Span(prng.log_uniform(temper.patience.0 / 8)),
            false => Span(prng.within(temper.patience.0..=temper.patience.0 * 3)),
        };
        world.schedule(at + away, Action::SetPlug { cable, side, is_in: true });
    }
}

/// A plug goes to the spare link of its node, or of another one, and perhaps back.
fn move_to_spare(
    world: &mut World,
    (cable, side): (usize, usize),
    node: Option<usize>,
    at: emp_firmware::Time,
    prng: &mut Prng,
) {
    let Some((now, _)) = world.network().cable(cable) else { return };
    let Some(from) = now.ends[side].jack() else { return };
    let node = node.unwrap_or(from.node);
    let spare = Jack { node, link: world.network().links(node) - 1 };
    world.schedule(at, Action::MovePlug { cable, side, to: Plug::Node(spare) });
    if prng.percent(60) {
        let back = at + Span(prng.log_uniform(500_000_000));
        world.schedule(back, Action::MovePlug { cable, side, to: Plug::Node(from) });
    }
}
