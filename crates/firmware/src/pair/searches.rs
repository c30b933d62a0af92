//! Which nodes are being looked for: found by peer and by time without a walk, as a job of hundreds of ranks looks for all of them at
//! once.

use alloc::collections::BTreeSet;

use hashbrown::HashMap;

use crate::limits::DISCOVERIES_MAX;
use crate::time::{Span, Time};

/// First and longest interval between hellos of one search: a LAN answers within the first; the longest bounds both the
/// traffic of a search that finds nobody and how late a node is found that comes up meanwhile.
const SEARCH_INTERVAL: (Span, Span) = (Span::ms(1), Span::ms(100));

/// Times that a node is asked for before that: ten seconds, in which most come back that do.
const ASKED_OFTEN: u32 = 100;

/// Interval from then on: a node that is stopped for minutes is looked for by each of its peers.
const SEARCH_INTERVAL_LATER: Span = Span::ms(400);

/// Searches for which memory is kept while there are none: what a node looks for once a job runs.
const SEARCHES_USUAL: usize = 16;

/// A node that is being looked for.
struct Search {
    since: Time,
    next: Time,
    interval: Span,
    /// Times that it was asked for.
    asked: u32,
}

/// A search whose next hello is due.
pub(crate) struct DueSearch {
    pub(crate) peer: u32,
    /// When it began.
    pub(crate) since: Time,
    /// Times that it was asked for before.
    pub(crate) asked: u32,
}

/// All searches.
#[derive(Default)]
pub(crate) struct Searches {
    by_peer: HashMap<u32, Search>,
    /// When each asks next.
    due: BTreeSet<(Time, u32)>,
}

impl Searches {
    /// Begins to look for a peer, unless that is going on already. False: too many searches.
    pub(crate) fn begin(&mut self, now: Time, peer: u32) -> bool {
        if self.by_peer.contains_key(&peer) {
            return true;
        }
        if self.by_peer.len() >= DISCOVERIES_MAX {
            return false;
        }
        let search = Search { since: now, next: now, interval: SEARCH_INTERVAL.0, asked: 0 };
        self.by_peer.insert(peer, search);
        self.due.insert((now, peer));
        true
    }

    pub(crate) fn stop(&mut self, peer: u32) {
        if let Some(search) = self.by_peer.remove(&peer) {
            self.due.remove(&(search.next, peer));
        }
        if self.by_peer.is_empty() {
            // Those of a job that starts are many, and gone a moment later.
            self.by_peer.shrink_to(SEARCHES_USUAL);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_peer.len()
    }

    pub(crate) fn contains(&self, peer: u32) -> bool {
        self.by_peer.contains_key(&peer)
    }

    /// How often a peer was asked for that is being looked for.
    pub(crate) fn asked(&self, peer: u32) -> Option<u32> {
        self.by_peer.get(&peer).map(|search| search.asked)
    }

    /// Nobody listened for answers for so long: that is no part of any search.
    pub(crate) fn excuse(&mut self, now: Time, absent: Span) {
        for search in self.by_peer.values_mut() {
            search.since = now.min(search.since + absent);
        }
    }

    /// When the next hello of a search is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.due.first().map(|(next, _)| *next)
    }

    /// The next peer to ask for again now, those first that have waited longest.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<DueSearch> {
        let (next, peer) = self.due.first().copied().filter(|(next, _)| *next <= now)?;
        self.due.remove(&(next, peer));
        let search = self.by_peer.get_mut(&peer)?;
        let (since, asked) = (search.since, search.asked);
        search.next = now + search.interval;
        let most =
            if search.asked < ASKED_OFTEN { SEARCH_INTERVAL.1 } else { SEARCH_INTERVAL_LATER };
        search.interval = Span(search.interval.0 * 2).min(most);
        search.asked += 1;
        self.due.insert((search.next, peer));
        Some(DueSearch { peer, since, asked })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_take_turns_and_ask_ever_more_seldom() {
        let mut searches = Searches::default();
        assert!((0..DISCOVERIES_MAX as u32).all(|peer| searches.begin(Time(0), peer)));
        assert!(!searches.begin(Time(0), u32::MAX) && searches.begin(Time(0), 7), "full");
        searches.stop(7);
        assert!(!searches.contains(7) && searches.contains(8));
        let mut asked = [0u32; DISCOVERIES_MAX];
        let mut now = Time(0);
        for _ in 0..9 {
            while let Some(due) = searches.pop_due(now) {
                assert_eq!(due.asked, asked[due.peer as usize]);
                asked[due.peer as usize] += 1;
            }
            let next = searches.next_deadline().expect("they go on");
            assert!(next > now && next.since(now) <= SEARCH_INTERVAL.1);
            now = next;
        }
        assert!(
            asked.iter().enumerate().all(|(peer, asked)| *asked == if peer == 7 { 0 } else { 9 })
        );
        assert_eq!(now.since(Time(0)), Span::ms(1 + 2 + 4 + 8 + 16 + 32 + 64 + 100 + 100));
        for peer in 0..DISCOVERIES_MAX as u32 {
            searches.stop(peer);
        }
        assert_eq!(searches.next_deadline(), None);
    }
}
