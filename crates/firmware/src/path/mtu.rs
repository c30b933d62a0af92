//! Finding the longest frame that gets through to a peer by one of its paths (`LIMIT-3`, RFC 8899): where long frames are lost and short ones are not,
//! nobody says so, and a sender would resend for ever.
//!
//! Two hellos leave together, a padded one ahead of a short one. Both answered: that length gets through. The short one alone,
//! three times: it does not. Neither: this says nothing of lengths. A bisection finds the limit.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use emp_wire::{Epoch, Header, Hello, LinkAddress, ReplyWord};

use crate::counters::Counter;
use crate::engine::Firmware;
use crate::event::NodeEvent;
use crate::limits::{SIZE_SEARCHES_MAX, SLICED_FOR_BYTES_MIN, push_bounded};
use crate::path::PathId;
use crate::time::{Span, Time};
use crate::transmit::LinkIndex;

/// Short hellos that must be answered, while the padded one beside them is not, before a length counts as lost: at 1 % random loss one
/// length in a million is judged wrongly.
const TRIES: u8 = 3;
/// Time between two tries of one length, and how long the first answer is waited for; doubled while there is none.
const RETRY: Span = Span::ms(2);
const WAIT: Span = Span::ms(20);
/// Waits without any answer after which the search ends: the peer is silent, which is another matter.
const WAITS_MAX: u8 = 5;
/// What the limit is found to, in bytes: less than 3 % of the smallest usual MTU.
const EXACT_BYTES: u16 = 32;

/// A search for the longest frame that reaches one peer by one link.
struct SizeSearch {
    peer: u32,
    link: LinkIndex,
    /// Longest that gets through, shortest that does not, and the one that is tried.
    works: u16,
    lost: Option<u16>,
    tried: u16,
    /// Nonces of the padded hellos of this length, and of the short one of this try.
    padded: u64,
    short: u64,
    tries: u8,
    waits: u8,
    due: Time,
}

/// The searches that are under way.
pub(crate) struct SizeSearches {
    list: Vec<SizeSearch>,
    /// Nonces of short hellos whose padded ones were answered first: their answers are still to come, and say nothing more.
    late: VecDeque<u64>,
}

/// Such nonces that are remembered: those of one round trip of all searches.
const LATE_MAX: usize = 2 * SIZE_SEARCHES_MAX;

/// What an answer, or its absence, leads to.
enum Step {
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

    fn got_through(&mut self) -> Step {
        self.works = self.works.max(self.tried);
        if self.next_length() { Step::Ask } else { Step::Ended }
    }

    fn short_alone(&mut self, now: Time) -> Step {
        (self.tries, self.waits) = (self.tries + 1, 0);
        if self.tries < TRIES {
            self.due = now + RETRY;
            return Step::Wait;
        }
        self.lost = Some(self.tried);
        if self.next_length() { Step::Ask } else { Step::Ended }
    }
}

impl Firmware {
    /// Frames to a peer are lost again and again by one of its paths: begins to find out whether that is because of their length.
    pub(crate) fn doubt_size(&mut self, now: Time, peer: u32, path: PathId) {
        let (path, way) = self.peers.paths(peer).pick(path);
        let Some((link, _)) = way else { return };
        let entry = &self.peers[peer];
        let tried = self.peers.bytes_by(peer, path);
        let works = SLICED_FOR_BYTES_MIN as u16;
        let is_it = |search: &SizeSearch| (search.peer, search.link) == (peer, link);
        let searching = self.sizes.list.iter().any(is_it);
        let known = entry.remote_epoch != Epoch::UNKNOWN && tried > works + EXACT_BYTES;
        if searching || !known {
            return;
        }
        if self.sizes.list.len() >= SIZE_SEARCHES_MAX {
            self.counters.count(Counter::SearchesRefused);
            return;
        }
        let (padded, short) = (self.routes.draw(), 0);
        let (lost, tries, waits, due) = (None, 0, 0, now);
        self.sizes.list.push(SizeSearch {
            peer,
            link,
            works,
            lost,
            tried,
            padded,
            short,
            tries,
            waits,
            due,
        });
        self.try_length(now, self.sizes.list.len() - 1);
    }

    /// Sends the two hellos of one try.
    fn try_length(&mut self, now: Time, index: usize) {
        let search = &mut self.sizes.list[index];
        search.short = self.routes.draw();
        search.due = now + Span(WAIT.0 << search.waits);
        let &mut SizeSearch { peer, link, tried, padded, short, .. } = search;
        let Some((_, to)) = self.peers.path_by(peer, link) else { return };
        if to == LinkAddress::LOOPBACK || to.is_memory() {
            return;
        }
        self.ask_by(padded, (link, to), peer, tried);
        self.ask_by(short, (link, to), peer, 0);
    }

    /// Takes a reply that answers a hello of a search, and is of the pair's `current` epochs. False: it does not.
    pub(crate) fn answers_for_size(
        &mut self,
        now: Time,
        (peer, current): (u32, bool),
        header: &Header,
        hello: &Hello,
    ) -> bool {
        let of = |search: &SizeSearch| {
            search.peer == peer && [search.padded, search.short].contains(&hello.nonce)
        };
        let Some(index) = self.sizes.list.iter().position(of).filter(|_| current) else {
            return self.sizes.late.contains(&hello.nonce);
        };
        let search = &mut self.sizes.list[index];
        let step = if hello.nonce == search.padded {
            if search.short != search.padded {
                push_bounded(&mut self.sizes.late, search.short, LATE_MAX);
            }
            let whole = ReplyWord::parse(header.word).arrived_bytes >= search.tried;
            if whole { search.got_through() } else { Step::Wait }
        } else {
            // An answer counts once.
            search.short = search.padded;
            search.short_alone(now)
        };
        self.go_on(now, index, step);
        self.send.heard(peer, now);
        true
    }

    fn go_on(&mut self, now: Time, index: usize, step: Step) {
        match step {
            Step::Wait => {}
            Step::Ask => {
                self.sizes.list[index].padded = self.routes.draw();
                self.try_length(now, index);
            }
            Step::Ended => {
                let search = self.sizes.list.swap_remove(index);
                if let Some(lost) = search.lost {
                    self.limit_path(&search, lost);
                }
            }
        }
    }

    /// Longer frames are lost on the way to a peer: new ones are no longer, what was cut before leaves in slices.
    fn limit_path(&mut self, search: &SizeSearch, lost: u16) {
        let (peer, link) = (search.peer, search.link);
        if !self.peers.shorten(peer, link, search.works) {
            return;
        }
        let node = self.peers[peer].node;
        self.counters.count(Counter::PathsLimited);
        let (passed_bytes, lost_bytes) = (search.works.into(), lost.into());
        self.push_event(NodeEvent::LostBySize { node, link, passed_bytes, lost_bytes });
    }

    /// Goes on with searches whose time has come.
    pub(crate) fn run_size_searches(&mut self, now: Time) {
        let mut index = 0;
        while index < self.sizes.list.len() {
            let search = &mut self.sizes.list[index];
            if search.due <= now {
                // The last try was answered, in part: this is the next. Else it is a wait for nothing.
                let answered = search.short == search.padded;
                search.waits += u8::from(!answered);
                // Nothing waits to be sent there any more, so nothing is to be gained.
                let gone = !self.send.is_active(search.peer)
                    || self.peers[search.peer].remote_epoch == Epoch::UNKNOWN;
                if gone || search.waits > WAITS_MAX {
                    self.sizes.list.swap_remove(index);
                    continue;
                }
                self.try_length(now, index);
            }
            index += 1;
        }
    }
}
