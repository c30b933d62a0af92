//! Searches for the longest frame that gets through by a path ([`mtu`](crate::path::mtu)): what begins them, their hellos, and what
//! they find (`LIMIT-3`).

use emp_wire::{Epoch, Header, Hello, LinkAddress, ReplyWord};

use crate::counters::Counter;
use crate::engine::Firmware;
use crate::event::NodeEvent;
use crate::limits::{SIZE_SEARCHES_MAX, SLICED_FOR_BYTES_MIN, push_bounded};
use crate::path::PathId;
use crate::path::mtu::{EXACT_BYTES, LATE_MAX, SizeSearch, Step, WAIT, WAITS_MAX};
use crate::time::{Span, Time};

impl Firmware {
    /// Frames to a peer are lost again and again by one of its paths: begins to find out whether that is because of their length.
    pub(crate) fn doubt_size(&mut self, now: Time, peer: u32, path: PathId) {
        let (path, hop) = self.peers.paths(peer).pick(path);
        let Some((link, _)) = hop else { return };
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
