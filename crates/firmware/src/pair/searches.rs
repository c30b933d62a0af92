//! Which nodes are being looked for: found by peer and by time without a walk, as a job of hundreds of ranks looks for all of them at
//! once.

use alloc::collections::{BTreeSet, VecDeque};

use hashbrown::HashMap;

use crate::limits::{DISCOVERIES_MAX, push_bounded};
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

/// A search that begins so soon after one that found nobody goes on where that one was: a program that tries again and again asks everyone
/// no more often than one that goes on trying. Longer than any interval, so that nothing is gained by giving up early.
const REMEMBERED: Span = Span::ms(10_000);

/// Searches without an answer that are remembered: more than one program tries anew in [`REMEMBERED`], few enough to be looked through.
const FAILED_MAX: usize = 64;

/// A node that is being looked for.
#[derive(Clone, Copy)]
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
    /// How it goes on.
    search: Search,
}

/// All searches.
#[derive(Default)]
pub(crate) struct Searches {
    by_peer: HashMap<u32, Search>,
    /// When each asks next.
    due: BTreeSet<(Time, u32)>,
    /// Those that found nobody, with when they ended, the last one last.
    failed: VecDeque<(Time, u32, Search)>,
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
        let new = Search { since: now, next: now, interval: SEARCH_INTERVAL.0, asked: 0 };
        let search = self.take_failed(now, peer).map_or(new, |failed| {
            let next = failed.next.max(now);
            // It lasts from its first question on, however late that is.
            Search { since: next, next, ..failed }
        });
        self.by_peer.insert(peer, search);
        self.due.insert((search.next, peer));
        true
    }

    /// The search for a peer that found nobody not long ago.
    fn take_failed(&mut self, now: Time, peer: u32) -> Option<Search> {
        self.failed.retain(|(ended, ..)| now.since(*ended) < REMEMBERED);
        let at = self.failed.iter().position(|(_, whose, _)| *whose == peer)?;
        self.failed.remove(at).map(|(.., search)| search)
    }

    /// Nobody has answered: the search ends, and is remembered for a while.
    pub(crate) fn fail(&mut self, now: Time, due: &DueSearch) {
        self.stop(due.peer);
        push_bounded(&mut self.failed, (now, due.peer, due.search), FAILED_MAX);
    }

    /// Ends a search, and forgets that one for this peer found nobody.
    pub(crate) fn stop(&mut self, peer: u32) {
        self.failed.retain(|(_, whose, _)| *whose != peer);
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
        Some(DueSearch { peer, since, asked, search: *search })
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

    #[test]
    fn a_search_after_one_that_found_nobody_goes_on_where_that_was() {
        let mut searches = Searches::default();
        let (mut now, mut asked) = (Time(0), 0);
        // A program that gives up after 20 ms, waits for 1 ms and tries again, for two seconds.
        while now < Time(2_000_000_000) {
            assert!(searches.begin(now, 7));
            let first = searches.next_deadline().expect("it asks");
            assert!(first.since(now) <= SEARCH_INTERVAL.1);
            let mut last = searches.pop_due(first).expect("due");
            assert_eq!(last.since, first, "its time counts from its first question");
            now = first + Span::ms(20);
            asked += 1;
            while let Some(due) = searches.pop_due(now) {
                (last, asked) = (due, asked + 1);
            }
            searches.fail(now, &last);
            now = now + Span::ms(1);
        }
        assert!((10..40).contains(&asked), "asked {asked} times, and not some hundreds");
        assert!(searches.begin(now + REMEMBERED, 7), "long ago: anew");
        assert_eq!(searches.asked(7), Some(0));
    }

    #[test]
    fn few_searches_that_found_nobody_are_remembered_and_none_of_who_was_found() {
        let mut searches = Searches::default();
        let fail = |searches: &mut Searches, peer| {
            assert!(searches.begin(Time(0), peer));
            let due = searches.pop_due(Time(0)).expect("due");
            searches.fail(Time(0), &due);
        };
        fail(&mut searches, 7);
        assert!(searches.begin(Time(0), 7) && searches.asked(7) == Some(1));
        searches.stop(7);
        assert!(searches.begin(Time(0), 7) && searches.asked(7) == Some(0), "it was found");
        searches.stop(7);
        (0..FAILED_MAX as u32 + 100).for_each(|peer| fail(&mut searches, peer));
        assert_eq!(searches.failed.len(), FAILED_MAX);
    }
}
