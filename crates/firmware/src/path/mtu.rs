//! Finding the longest frame that gets through to a peer by one of its paths (`LIMIT-3`, RFC 8899): where long frames are lost and short ones are not,
//! nobody says so, and a sender would resend for ever.
//!
//! Two hellos leave together, a padded one ahead of a short one. Both answered: that length gets through. The short one alone,
//! three times: it does not. Neither: this says nothing of lengths. A bisection finds the limit.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::limits::SIZE_SEARCHES_MAX;
use crate::link::LinkIndex;
use crate::time::{Span, Time};

/// Short hellos that must be answered, while the padded one beside them is not, before a length counts as lost: at 1 % random loss one
/// length in a million is judged wrongly.
const TRIES: u8 = 3;
/// Time between two tries of one length, and how long the first answer is waited for; doubled while there is none.
const RETRY: Span = Span::ms(2);
pub(crate) const WAIT: Span = Span::ms(20);
/// Waits without any answer after which the search ends: the peer is silent, which is another matter.
pub(crate) const WAITS_MAX: u8 = 5;
/// What the limit is found to, in bytes: less than 3 % of the smallest usual MTU.
pub(crate) const EXACT_BYTES: u16 = 32;

/// A search for the longest frame that reaches one peer by one link.
pub(crate) struct SizeSearch {
    pub(crate) peer: u32,
    pub(crate) link: LinkIndex,
    /// Longest that gets through, shortest that does not, and the one that is tried.
    pub(crate) works: u16,
    pub(crate) lost: Option<u16>,
    pub(crate) tried: u16,
    /// Nonces of the padded hellos of this length, and of the short one of this try.
    pub(crate) padded: u64,
    pub(crate) short: u64,
    pub(crate) tries: u8,
    pub(crate) waits: u8,
    pub(crate) due: Time,
}

/// The searches that are under way.
pub(crate) struct SizeSearches {
    pub(crate) list: Vec<SizeSearch>,
    /// Nonces of short hellos whose padded ones were answered first: their answers are still to come, and say nothing more.
    pub(crate) late: VecDeque<u64>,
}

/// Such nonces that are remembered: those of one round trip of all searches.
pub(crate) const LATE_MAX: usize = 2 * SIZE_SEARCHES_MAX;

/// What an answer, or its absence, leads to.
pub(crate) enum Step {
    Wait,
    Ask,
    Ended,
}

impl SizeSearches {
    pub(crate) const fn new() -> Self {
        Self { list: Vec::new(), late: VecDeque::new() }
    }

    /// What was found so far by a link was on paths that have changed.
    pub(crate) fn forget(&mut self, link: LinkIndex) {
        self.list.retain(|search| search.link != link);
    }

    /// Searches that are under way.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.list.iter().map(|search| search.due).min()
    }
}

impl SizeSearch {
    /// Goes on with another length, or ends: `true` if there is one to try.
    fn next_length(&mut self) -> bool {
        let Some(lost) = self.lost else { return false };
        self.tried = self.works + (lost - self.works) / 2;
        (self.tries, self.waits) = (0, 0);
        lost - self.works > EXACT_BYTES
    }

    pub(crate) fn got_through(&mut self) -> Step {
        self.works = self.works.max(self.tried);
        if self.next_length() { Step::Ask } else { Step::Ended }
    }

    pub(crate) fn short_alone(&mut self, now: Time) -> Step {
        (self.tries, self.waits) = (self.tries + 1, 0);
        if self.tries < TRIES {
            self.due = now + RETRY;
            return Step::Wait;
        }
        self.lost = Some(self.tried);
        if self.next_length() { Step::Ask } else { Step::Ended }
    }
}
