//! Looking for paths to a peer beside the first, and for a first one that had failed (`PATH-1`, `PATH-2`, `PATH-6`).

use emp_wire::{Epoch, Header, Hello, LinkAddress, ReplyWord};

use crate::counters::Counter;
use crate::engine::Firmware;
use crate::event::NodeEvent;
use crate::link::LinkIndex;
use crate::path::table::{Question, Target};
use crate::time::Time;

impl Firmware {
    /// A link has ceased to carry several frames in one call, or does so again ([`LinkInfo::segments`](crate::LinkInfo::segments)): trains
    /// gain by it only if it does. True if they take another path for that.
    pub fn set_segments(&mut self, link: LinkIndex, segments: bool) -> bool {
        self.peers.costs.set_segments(link, segments)
    }

    /// Looks for a path to a peer, unless that was done without success not long ago. `at`: where the peer was seen on that link.
    pub(crate) fn seek_path(
        &mut self,
        now: Time,
        peer: u32,
        target: Target,
        at: Option<LinkAddress>,
    ) {
        if self.closing.is_some() || !self.peers.may_seek(now, peer, target) {
            return;
        }
        let nonce = self.routes.draw();
        if !self.peers.table.seek(now, peer, target, nonce) {
            self.counters.count(Counter::SearchesRefused);
            return;
        }
        if let Target::Link(link) = target {
            let hinted = || {
                let hints = self.routes.hints(self.peers[peer].node);
                hints.iter().find(|(by, _)| *by == link).map(|(_, address)| *address)
            };
            if let Some(at) = at.or_else(hinted) {
                self.peers.table.suppose(peer, link, at);
            }
        }
        self.run_seeks(now);
    }

    /// Looks for all paths to a peer that are missing: one that it has may have failed.
    pub(crate) fn seek_paths(&mut self, now: Time, peer: u32) {
        self.seek_path(now, peer, Target::First, None);
        let Some((first, _)) = self.peers[peer].route() else { return };
        let beside = self.links.get(usize::from(first.0)).map(|link| link.beside);
        for (link, _) in beside.into_iter().flatten().flatten() {
            self.seek_path(now, peer, Target::Link(link), None);
        }
    }

    /// Asks the questions that are due.
    pub(crate) fn run_seeks(&mut self, now: Time) {
        while self.routes.has_room() {
            let Some(question) = self.peers.table.pop_due(now) else { return };
            if self.peers[question.peer].remote_epoch == Epoch::UNKNOWN {
                self.peers.table.forget(question.peer);
                continue;
            }
            match question.target {
                Target::Link(link) => self.ask_by_link(link, &question),
                Target::First => self.ask_for_first(&question),
            }
        }
    }

    /// On the link where the peer is supposed to be; while that is not known, by the first path: the answer tells.
    fn ask_by_link(&mut self, link: LinkIndex, question: &Question) {
        if let Some(to) = question.address {
            self.ask_by(question.nonce, (link, to), question.peer, 0);
        }
        if (question.address.is_none() || question.again)
            && let Some((link, &to)) = self.peers[question.peer].route()
        {
            self.ask_by(question.nonce, (link, to), question.peer, 0);
        }
    }

    /// Where the first path led that has failed. If there is a better link, or nobody answers there (the peer may have moved), everyone
    /// on those.
    fn ask_for_first(&mut self, question: &Question) {
        let Some((route, to)) = self.peers[question.peer].route().map(|(link, to)| (link, *to))
        else {
            return;
        };
        let failed = !self.peers[question.peer].is_first_up();
        if failed {
            self.ask_by(question.nonce, (route, to), question.peer, 0);
        }
        if failed && !(question.again && question.everyone) {
            return;
        }
        for index in 0..self.links.len() {
            let link = LinkIndex(index as u8);
            let wanted = if failed { link == route } else { self.peers.is_better(link, route) };
            if self.links[index].broadcast && wanted {
                let everyone = (link, LinkAddress::EVERYONE);
                self.ask_by(question.nonce, everyone, question.peer, 0);
            }
        }
    }

    /// Takes a reply that answers the search for a path, or a question that was answered on another link before. False:
    /// it is neither.
    pub(crate) fn answers_for_path(
        &mut self,
        now: Time,
        peer: u32,
        (link, from): (LinkIndex, LinkAddress),
        header: &Header,
        hello: &Hello,
    ) -> bool {
        let entry = &self.peers[peer];
        let before = entry.challenge.wrapping_sub(1);
        let sought = self.peers.table.sought(hello.nonce).filter(|(whose, _)| *whose == peer);
        let taken = match sought {
            Some((_, Target::Link(wanted))) if link != wanted => {
                // It only tells where to ask.
                if let Some(told) = self.told(link, wanted, hello) {
                    self.peers.table.learn(now, hello.nonce, told);
                    self.run_seeks(now);
                }
                return true;
            }
            Some(_) => self.peers.answered(now, peer, (link, from), hello.largest.here()),
            None if hello.nonce == self.routes.nonce(hello.node, before) => {
                let usable = self.peers.paths(peer).hop(self.peers.path_of(peer, link)).is_some();
                let first = entry.route().is_some_and(|(first, _)| first == link);
                let told = hello.largest.here();
                (first || !usable) && self.peers.answered(now, peer, (link, from), told)
            }
            None => return false,
        };
        if taken {
            self.counters.count(Counter::PathsFound);
            self.push_event(NodeEvent::PathFound { node: hello.node, link });
        }
        let (told, arrived) = (hello.largest.here(), ReplyWord::parse(header.word).arrived_bytes);
        let limit = self.told_limit(now, peer, (link, from), told, arrived);
        taken || limit || sought.is_some()
    }

    /// Where the sender of an answer that came by `link` says that it is on the link `wanted`: the address there that is as this
    /// node's own, the n-th of its family.
    fn told(&self, link: LinkIndex, wanted: LinkIndex, hello: &Hello) -> Option<LinkAddress> {
        let beside = self.links.get(usize::from(link.0))?.beside.into_iter().flatten();
        let own = beside.clone().find(|(link, _)| *link == wanted)?.1;
        let before = beside.take_while(|(link, _)| *link != wanted);
        let place = before.filter(|(_, other)| other.family() == own.family()).count();
        let mut alike = hello.addresses().filter(|told| told.family() == own.family());
        alike.nth(place)
    }
}
