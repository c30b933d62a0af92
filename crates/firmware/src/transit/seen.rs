//! Searches that were seen lately: each is repeated once, or again if it may go further than before, and answered for each of a few ways that it came (`RELAY-7`, `RELAY-8`).

use alloc::collections::VecDeque;

use arrayvec::ArrayVec;
use emp_wire::NodeId;
use hashbrown::HashMap;

use crate::limits::{SEARCHES_SEEN_MAX, WAYS_ANSWERED_MAX};

/// Who searches, and the nonce of the search.
type Search = (u64, u64);

/// What is remembered of one.
#[derive(Default)]
struct Copies {
    /// The first and last hops of those that were answered; none where it was repeated.
    answered: ArrayVec<(u64, u64), WAYS_ANSWERED_MAX>,
    /// Most cables that one which was repeated might still cross.
    left: Option<u8>,
}

/// All that are remembered: the latest.
#[derive(Default)]
pub(crate) struct Seen {
    searches: HashMap<Search, Copies>,
    order: VecDeque<Search>,
}

impl Seen {
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// A search that is for others came, and may cross so many cables more. True: for the first time, or no copy that came before might go as far: a
    /// way of few slow cables is longer in time than one of many quick ones.
    pub(crate) fn goes_further(&mut self, node: NodeId, nonce: u64, left: u8) -> bool {
        let copies = self.note((node.0, nonce));
        let further = copies.left.is_none_or(|before| left > before);
        if further {
            copies.left = Some(left);
        }
        further
    }

    /// A search for this node came. True: its first or last hop differs from those of each copy that was answered, and these were not many.
    pub(crate) fn is_new_way(&mut self, node: NodeId, nonce: u64, ends: (u64, u64)) -> bool {
        let answered = &mut self.note((node.0, nonce)).answered;
        !answered.contains(&ends) && answered.try_push(ends).is_ok()
    }

    /// What is remembered of a search, from now on if nothing was.
    fn note(&mut self, search: Search) -> &mut Copies {
        if !self.searches.contains_key(&search) {
            if self.order.len() >= SEARCHES_SEEN_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.searches.remove(&oldest);
            }
            self.order.push_back(search);
        }
        self.searches.entry(search).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `RELAY-7`.
    #[test]
    fn a_search_is_repeated_once_or_if_it_goes_further_and_the_latest_are_remembered() {
        let mut seen = Seen::default();
        for nonce in 0..3 * SEARCHES_SEEN_MAX as u64 {
            let mut repeats = |left| seen.goes_further(NodeId(7), nonce, left);
            assert!(repeats(3) && !repeats(3) && !repeats(2) && repeats(5) && !repeats(4));
            assert!(seen.goes_further(NodeId(8), nonce, 0), "another's");
        }
        assert_eq!((seen.len(), seen.searches.len()), (SEARCHES_SEEN_MAX, SEARCHES_SEEN_MAX));
        let late = 3 * SEARCHES_SEEN_MAX as u64 - SEARCHES_SEEN_MAX as u64 / 2;
        assert!(!seen.goes_further(NodeId(7), late, 5));
    }

    /// `RELAY-8`.
    #[test]
    fn copies_that_came_another_way_are_answered_up_to_a_few() {
        let mut seen = Seen::default();
        let mut ask = |ends| seen.is_new_way(NodeId(7), 1, ends);
        assert!(ask((1, 1)) && !ask((1, 1)) && ask((1, 2)) && ask((2, 1)) && ask((2, 2)));
        assert!(!ask((3, 3)), "{WAYS_ANSWERED_MAX} are enough");
        assert!(seen.is_new_way(NodeId(7), 2, (3, 3)));
    }
}
