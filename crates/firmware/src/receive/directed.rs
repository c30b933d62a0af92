//! Which receives wait for one node by name: asked when it is given up, so that they end.
//!
//! Nothing is noted with the post, as most receives are matched before anybody asks: each is looked at by the first such question after
//! it, and not again. So all questions together cost no more than all posts and what they found.

use alloc::vec::Vec;

use emp_wire::NodeId;
use hashbrown::HashMap;

use super::ReceiveSide;

/// What earlier questions have seen.
#[derive(Default)]
pub(super) struct Directed {
    /// By node: receives that wait for it, with their generations. Some are over.
    by_node: HashMap<u64, Vec<(u32, u32)>>,
    /// How many these are.
    noted: usize,
    /// Posts before this one were looked at.
    seen: u64,
}

/// Notes of receives that are over are thrown away when there are so many more than receives.
const STALE_MAX: usize = 1_024;

impl ReceiveSide {
    /// Notes receives that were posted since the last question.
    fn note_directed(&mut self) {
        if self.directed.noted > self.posted.len() + STALE_MAX {
            self.directed = Directed::default();
        }
        let Self { directed, endpoints, posted, posted_links, posts, .. } = self;
        for endpoint in endpoints.iter().flatten() {
            // In post order.
            for index in posted_links.iter_back(endpoint.posted) {
                let Some(receive) = posted.at(index) else { continue };
                if receive.post < directed.seen {
                    break;
                }
                if receive.selector.from != NodeId::ANY {
                    let of = directed.by_node.entry(receive.selector.from.0).or_default();
                    of.push((index, posted.generation(index)));
                    directed.noted += 1;
                }
            }
        }
        directed.seen = *posts;
    }

    /// Receives that wait for this node by name, and have no message yet.
    pub(super) fn waiting_for(&mut self, node: NodeId) -> Vec<u32> {
        self.note_directed();
        let Self { directed, posted, .. } = self;
        let noted = directed.by_node.remove(&node.0).unwrap_or_default();
        directed.noted -= noted.len();
        // What had a message of that node has ended with it.
        let waits = |(index, generation): &(u32, u32)| posted.get(*index, *generation).is_some();
        let mut own: Vec<u32> = noted.into_iter().filter(waits).map(|(index, _)| index).collect();
        own.sort_unstable();
        own
    }

    /// Nodes that unmatched receives wait for by name, in no order. Of each the receives are looked at up to the first that waits; those
    /// that are over are forgotten.
    pub(crate) fn awaited_nodes(&mut self) -> Vec<NodeId> {
        self.note_directed();
        let Self { directed: Directed { by_node, noted, .. }, posted, .. } = self;
        let mut nodes = Vec::with_capacity(by_node.len());
        by_node.retain(|node, receives| {
            let of = |(index, generation): &(u32, u32)| posted.get(*index, *generation);
            while receives.last().is_some_and(|last| of(last).is_none()) {
                receives.pop();
                *noted -= 1;
            }
            if receives.iter().rev().any(|receive| of(receive).is_some_and(|p| !p.bound)) {
                nodes.push(NodeId(*node));
            }
            !receives.is_empty()
        });
        nodes
    }
}
