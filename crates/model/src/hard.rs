//! What makes a seed's world hard: numbers and times that wrap, cards that take part of a batch, trains, tags that several nodes have,
//! frames that no longer fit. All drawn from numbers of its own, so that the rest of a seed's world does not depend on it.

use emp_firmware::{Span, Time};
use emp_wire::NodeId;

use crate::action::Action;
use crate::outbox::Card;
use crate::prng::Prng;
use crate::reduce::{Part, Reduction};
use crate::swarm::Temper;
use crate::world::{World, WorldSetup};

/// Spans after which a clock that the firmware keeps in fewer bits starts again: 16 and 32 bits of microseconds, and of
/// milliseconds.
const WRAPS: [u64; 4] = [65_536_000, 4_294_967_296_000, 65_536_000_000, 4_294_967_296_000_000];

/// Longest that a world begins before a wrap: traffic goes on for some seconds in most.
const BEFORE_WRAP: u64 = 10_000_000_000;

/// Makes a world hard, and says when it begins.
pub fn harden(seed: u64, world: &mut WorldSetup, reduction: &Reduction) -> Time {
    let began = draw_numbers(seed, world);
    draw_cards(seed, world, reduction);
    draw_tags(seed, world, reduction);
    if reduction.is_without(Part::Wraps) {
        world.nodes.iter_mut().for_each(|node| node.first_numbers = (0, 0));
        return Time(0);
    }
    began
}

/// A number so close below one at which counting starts again, or changes its sign, that most worlds get there.
fn near_wrap(prng: &mut Prng) -> u32 {
    match prng.below(4) {
        0 => 0,
        1 => u32::MAX - prng.log_uniform(2_000) as u32,
        2 => (1 << 31) - prng.log_uniform(2_000) as u32,
        _ => prng.bits() as u32,
    }
}

fn draw_numbers(seed: u64, world: &mut WorldSetup) -> Time {
    let mut prng = Prng::new(seed ^ 0x3f1a_77e5);
    let first = (near_wrap(&mut prng), near_wrap(&mut prng));
    world.nodes.iter_mut().for_each(|node| node.first_numbers = first);
    let wrap = *prng.pick(&WRAPS);
    let at = wrap * prng.within(1..=16);
    match prng.below(4) {
        0 => Time(0),
        1 => Time(prng.below(WRAPS[3])),
        _ => Time(at.saturating_sub(prng.log_uniform(BEFORE_WRAP))),
    }
}

fn draw_cards(seed: u64, world: &mut WorldSetup, reduction: &Reduction) {
    let mut prng = Prng::new(seed ^ 0xca2d_0b0e);
    let partial = prng.percent(40);
    for node in &mut world.nodes {
        let takes_max = (partial && prng.percent(70)).then(|| prng.log_uniform(128).max(1) as u32);
        let mut card = Card {
            takes_max,
            gathers_posts: prng.percent(40),
            trains: prng.percent(50),
            places: prng.percent(50),
            stamps: false,
        };
        if reduction.is_without(Part::Partial) {
            (card.takes_max, card.gathers_posts) = (None, false);
        }
        if reduction.is_without(Part::Trains) {
            (card.trains, card.places) = (false, false);
        }
        node.card = card;
    }
}

/// In some worlds two nodes have one destination tag, and perhaps one source tag; and some nodes live at one address, as
/// processes of one host do.
fn draw_tags(seed: u64, world: &mut WorldSetup, reduction: &Reduction) {
    let mut prng = Prng::new(seed ^ 0x7a65_0b0e);
    let (collides, shares) = (prng.percent(15), prng.percent(15));
    let both = prng.percent(30);
    let nodes = world.nodes.len();
    let first = prng.index(nodes);
    let second = (first + 1 + prng.index(nodes - 1)) % nodes;
    if reduction.is_without(Part::Tags) {
        return;
    }
    if collides {
        let other = world.nodes[first].id;
        world.nodes[second].id = namesake(other, both, &mut prng);
    }
    if shares {
        let (low, high) = (first.min(second), first.max(second));
        world.nodes[high].shares_with = Some(low);
    }
}

/// Another identity with the same destination tag, and with the same source tag if `both`.
fn namesake(of: NodeId, both: bool, prng: &mut Prng) -> NodeId {
    let tags = finalise(of.0);
    // The source tag is the first half, the destination tag the first half of that.
    let free = if both { 0x0000_0000_FFFF_FFFF } else { 0x0000_FFFF_FFFF_FFFF };
    loop {
        let id = NodeId(unfinalise(tags & !free | prng.bits() & free));
        if id != of && id.0 != 0 && id.destination_tag() == of.destination_tag() {
            return id;
        }
    }
}

/// The finaliser of splitmix64, from which tags are taken (`FRAME-3`).
const fn finalise(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What that makes this number of. The factors are the inverses of its own, modulo 2^64.
const fn unfinalise(mut z: u64) -> u64 {
    z = (z ^ (z >> 31) ^ (z >> 62)).wrapping_mul(0x3196_42b2_d24d_8ec3);
    z = (z ^ (z >> 27) ^ (z >> 54)).wrapping_mul(0x96de_1b17_3f11_9089);
    z ^ (z >> 30) ^ (z >> 60)
}

/// In some worlds interfaces get another MTU while the traffic lasts, and have the first again at its end or before.
pub fn schedule_limits(seed: u64, world: &mut World, temper: &Temper) {
    let mut prng = Prng::new(seed ^ 0x0171_3170);
    if !temper.limits {
        return;
    }
    let last = world.actions.last_key_value().map_or(world.began(), |((at, _), _)| *at);
    let span = last.since(world.began()).0.max(20_000_000);
    for _ in 0..prng.within(1..=3) {
        let node = prng.index(world.nodes.len());
        let usual = world.nodes[node].setup.links.iter().map(|link| link.frame_bytes_max).min();
        let bytes = prng.within(520..=usual.unwrap_or(1_500) as u64 - 8) as usize;
        let at = world.began() + Span(prng.below(span));
        world.schedule(at, Action::SetMtu { node, frame_bytes: Some(bytes) });
        if prng.percent(70) {
            let again = at + Span(prng.log_uniform(200_000_000));
            world.schedule(again, Action::SetMtu { node, frame_bytes: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namesakes_have_the_tags_they_should_have() {
        let mut prng = Prng::new(5);
        for _ in 0..100 {
            let id = NodeId(prng.bits());
            assert_eq!(unfinalise(finalise(id.0)), id.0);
            let other = namesake(id, false, &mut prng);
            assert!(other != id && other.destination_tag() == id.destination_tag());
            assert_eq!(namesake(id, true, &mut prng).source_tag(), id.source_tag());
        }
    }
}
