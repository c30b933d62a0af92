//! Boards in the simulator, which has one thread: what can be seen from outside of where a node's engine runs, drawn for each node (decision 125).

use emp_firmware::Span;

use crate::prng::Prng;
use crate::reduce::{Part, Reduction};
use crate::world::WorldSetup;

/// Most nanoseconds that a thread takes to look when something has come for it: it slept, or shares its core.
const LOOKS_AFTER: u64 = 200_000;

/// The same where frames cross from one core to another that spins.
const CROSSES_IN: u64 = 20_000;

/// Frames of a batch that crosses.
const CROSSING_FRAMES: u64 = 32;

/// A quarter of the nodes runs in its callers' thread, as without this. Another has its engine in halves. The third has a thread of its own: posts
/// wait for it, and it comes late. The others have the engine on one and the links' calls on another: frames cross in batches, late, and it is known how long each has
/// waited.
pub(crate) fn draw(seed: u64, world: &mut WorldSetup, without: &Reduction) {
    let mut prng = Prng::new(seed ^ 0xb0a2_d5ee);
    for node in &mut world.nodes {
        let (kind, late) = (prng.below(4), prng.log_uniform(LOOKS_AFTER));
        let frames = prng.within(1..=CROSSING_FRAMES) as usize;
        if without.is_without(Part::Boards) {
            continue;
        }
        match kind {
            0 => {}
            1 if without.is_without(Part::Halves) => {}
            1 => {
                node.halves = true;
                // Its frames come by way of a copy, one by one.
                (node.card.trains, node.card.places) = (false, false);
            }
            2 => {
                node.pace.posts_at_once = false;
                node.pace.late = Span(late);
            }
            _ => {
                node.pace.late = Span(late.min(CROSSES_IN));
                node.pace.frames_per_turn = node.pace.frames_per_turn.min(frames);
                node.card.stamps = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeSetup;
    use crate::swarm::{self, SwarmOptions};

    #[test]
    fn nodes_of_one_world_have_boards_of_their_own() {
        let of = |seed| {
            let (_, mut world, _) = swarm::draw(seed, &SwarmOptions::default());
            draw(seed, &mut world, &Reduction::default());
            let board = |node: &NodeSetup| (node.card.stamps, node.pace.late, node.halves);
            world.nodes.iter().map(board).collect::<Vec<_>>()
        };
        let worlds: Vec<_> = (0..60).map(of).collect();
        let mixed = worlds.iter().filter(|nodes| nodes.windows(2).any(|two| two[0] != two[1]));
        assert!(mixed.count() > 40);
        let all = worlds.iter().flatten().count();
        let crossing = worlds.iter().flatten().filter(|node| node.0).count();
        let halved = worlds.iter().flatten().filter(|node| node.2).count();
        assert!((all / 6..all / 2).contains(&crossing), "{crossing} of {all}");
        assert!((all / 6..all / 2).contains(&halved), "{halved} of {all}");
    }
}
