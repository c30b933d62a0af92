//! Searches that were seen lately: each is repeated once, and answered for each of a few ways that it came (`RELAY-7`, `RELAY-8`).

use alloc::collections::VecDeque;

use arrayvec::ArrayVec;
use emp_wire::NodeId;
use hashbrown::HashMap;

use crate::limits::{SEARCHES_SEEN_MAX, WAYS_ANSWERED_MAX};

/// Who searches, and the nonce of the search.
type Search = (u64, u64);

/// All that are remembered: the latest.
#[derive(Default)]
pub(crate) struct Seen {
    /// By search: the first and last hops of the copies that were answered; none where it was repeated.
    searches: HashMap<Search, ArrayVec<(u64, u64), WAYS_ANSWERED_MAX>>,
    order: VecDeque<Search>,
}

impl Seen {
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// A search that is for others came. True: for the first time.
    pub(crate) fn is_new(&mut self, node: NodeId, nonce: u64) -> bool {
        let search = (node.0, nonce);
        let new = !self.searches.contains_key(&search);
        if new {
            self.note(search);
        }
        new
    }

    /// A search for this node came. True: its first or last hop differs from those of each copy that was answered, and these were not many.
    pub(crate) fn is_new_way(&mut self, node: NodeId, nonce: u64, ends: (u64, u64)) -> bool {
        let search = (node.0, nonce);
        if !self.searches.contains_key(&search) {
            self.note(search);
        }
        let answered = self.searches.get_mut(&search);
        answered
            .is_some_and(|answered| !answered.contains(&ends) && answered.try_push(ends).is_ok())
    }

    fn note(&mut self, search: Search) {
        if self.order.len() >= SEARCHES_SEEN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.searches.remove(&oldest);
        }
        self.order.push_back(search);
        self.searches.insert(search, ArrayVec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `RELAY-7`.
    #[test]
    fn a_search_is_new_once_and_the_latest_are_remembered() {
        let mut seen = Seen::default();
        for nonce in 0..3 * SEARCHES_SEEN_MAX as u64 {
            assert!(seen.is_new(NodeId(7), nonce) && !seen.is_new(NodeId(7), nonce));
            assert!(seen.is_new(NodeId(8), nonce), "another's");
        }
        assert_eq!((seen.len(), seen.searches.len()), (SEARCHES_SEEN_MAX, SEARCHES_SEEN_MAX));
        assert!(
            !seen.is_new(NodeId(7), 3 * SEARCHES_SEEN_MAX as u64 - SEARCHES_SEEN_MAX as u64 / 2)
        );
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
