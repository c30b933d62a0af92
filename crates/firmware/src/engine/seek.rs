//! Looking for paths to a peer beside the first, and for a first one that had failed (`PATH-1`, `PATH-2`, `PATH-6`).

use emp_wire::{Epoch, Header, Hello, LinkAddress, ReplyWord};

use crate::counters::Counter;
use crate::engine::Firmware;
use crate::engine::contact::HINTS_ALONE;
use crate::event::NodeEvent;
use crate::limits::{DOUBTED_MAX, push_bounded};
use crate::link::LinkIndex;
use crate::path::table::{Question, Target};
use crate::path::{Hop, PathId};
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

    /// On the link where the peer is supposed to be; while that is not known, by a path over the same interface, or else the first: the answer
    /// tells. On a link of another interface than those that lead to the peer whoever hears it is asked, as for a node that is not known.
    fn ask_by_link(&mut self, link: LinkIndex, question: &Question) {
        let peer = question.peer;
        if let Some(to) = question.address {
            self.ask_by(question.nonce, (link, to), peer, 0);
        }
        if question.address.is_some() && !question.again {
            return;
        }
        if question.everyone && !self.peers.leads_over(peer, link) {
            self.ask_all_by(link, question);
        }
        let interface = self.peers.costs.interface(link);
        let paths = self.peers.paths(peer);
        let same =
            |(by, _): &(LinkIndex, LinkAddress)| self.peers.costs.interface(*by) == interface;
        let near = paths.each().map(|(_, (by, to))| (by, *to)).find(same);
        let first = self.peers[peer].route().map(|(by, to)| (by, *to));
        if let Some((by, to)) = near.or(first).filter(|(by, _)| *by != link) {
            self.ask_by(question.nonce, (by, to), peer, 0);
        }
    }

    /// Everyone on a link; and the relays there, if the peer is reached through such, or by nothing while its cable is out.
    fn ask_all_by(&mut self, link: LinkIndex, question: &Question) {
        let Some(info) = self.links.get(usize::from(link.0)) else { return };
        let (broadcast, hops) = (info.broadcast, info.hops_from.is_some());
        if broadcast {
            self.ask_by(question.nonce, (link, LinkAddress::EVERYONE), question.peer, 0);
        }
        let beyond = hops && question.beyond && !self.carriers.is_away(link);
        if beyond && (self.peers.is_behind_relays(question.peer) || self.is_deaf_to(question.peer))
        {
            self.ask_by(question.nonce, (link, LinkAddress::BEYOND), question.peer, 0);
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
            if wanted {
                self.ask_all_by(link, question);
            }
        }
    }

    /// Asks a peer by a path that brings nothing, and by another: what it answers shows whether that is the path's fault (`PATH-5`).
    pub(crate) fn ask_after_path(&mut self, peer: u32, path: PathId) {
        let paths = self.peers.paths(peer);
        let well = |path| self.send.is_well(peer, path);
        let (doubted, other) = (paths.hop(path), paths.other_lane(path, well));
        let hop = |hop: Option<Hop<'_>>| hop.map(|(link, to)| (link, *to));
        let (doubted, beside) = (hop(doubted), hop(other.and_then(|other| paths.hop(other))));
        let (Some(doubted), Some(beside), Some(other)) = (doubted, beside, other) else {
            // With one path there is nothing to compare.
            return self.send.end_doubt(peer, path);
        };
        for (path, hop) in [(path, doubted), (other, beside)] {
            let nonce = self.routes.draw();
            push_bounded(&mut self.doubted, (nonce, peer, path), DOUBTED_MAX);
            self.ask_by(nonce, hop, peer, 0);
        }
    }

    /// Takes a reply that answers such a question. False: it is none.
    pub(crate) fn answers_doubt(
        &mut self,
        now: Time,
        peer: u32,
        link: LinkIndex,
        nonce: u64,
    ) -> bool {
        let asked = self.doubted.iter().find(|(asked, whom, _)| (*asked, *whom) == (nonce, peer));
        let Some((_, _, path)) = asked.copied() else { return false };
        if self.peers.path_of(peer, link) == path {
            self.send.path_spoke(peer, path, now);
        }
        true
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
            // On a socket: the kernel's routes may lead by another interface than this link's to an address that is not beside its own.
            Some((_, Target::Link(_))) if self.nearer(link, &from, hello).is_some() => {
                if let Some(told) = self.nearer(link, &from, hello) {
                    self.peers.table.learn(now, hello.nonce, told);
                    self.run_seeks(now);
                }
                return true;
            }
            Some(_) => self.peers.answered(now, peer, (link, from), hello.largest.here()),
            None if hello.nonce == self.routes.nonce(hello.node, before) => {
                let usable = self.peers.paths(peer).hop(self.peers.path_of(peer, link)).is_some();
                let first = entry.route().is_some_and(|(first, _)| first == link);
                let nearer = self.nearer(link, &from, hello);
                if let Some(nearer) = nearer.filter(|_| !first && !usable) {
                    // The same: another link was answered sooner.
                    self.seek_path(now, peer, Target::Link(link), Some(nearer));
                    return true;
                }
                let told = hello.largest.here();
                (first || !usable) && self.peers.answered(now, peer, (link, from), told)
            }
            None => return false,
        };
        self.note_lanes(peer);
        if taken {
            self.counters.count(Counter::PathsFound);
            self.push_event(NodeEvent::PathFound { node: hello.node, link });
        }
        let (told, arrived) = (hello.largest.here(), ReplyWord::parse(header.word).arrived_bytes);
        let limit = self.told_limit(now, peer, (link, from), told, arrived);
        taken || limit || sought.is_some()
    }

    /// An address that the sender of an answer tells which is nearer to this node's own on a link than the one that it answered from.
    fn nearer(&self, link: LinkIndex, from: &LinkAddress, hello: &Hello) -> Option<LinkAddress> {
        let own = self.own_on(link)?;
        if own.link_scope().is_some() {
            // What came by it came from where it leads.
            return None;
        }
        let near = |address: &LinkAddress| leading_bits(address, &own);
        let nearest = hello.addresses().max_by_key(|told| near(told))?;
        (near(&nearest) > near(from)).then_some(nearest)
    }

    /// The same of one who is being looked for and is not known yet: it shall be met where this link leads, not at an address of the other end of
    /// another cable, to which the kernel knows a way. If it does not answer there it is taken where it does (`PATH-14`).
    pub(crate) fn nearer_at_first(
        &self,
        peer: u32,
        (link, from): (LinkIndex, &LinkAddress),
        hello: &Hello,
    ) -> Option<LinkAddress> {
        let asked = self.routes.searches.asked(peer)?;
        self.nearer(link, from, hello).filter(|_| asked <= HINTS_ALONE)
    }

    /// Where this node is on a link that stands beside others.
    fn own_on(&self, link: LinkIndex) -> Option<LinkAddress> {
        let mut all = self.links.iter().flat_map(|info| info.beside.into_iter().flatten());
        all.find(|(other, _)| *other == link).map(|(_, address)| address)
    }

    /// Where the sender of an answer that came by `link` says that it is on the link `wanted`: of its addresses of the family of this node's own
    /// there, the one that has most leading bits in common with that; of several, as many of this node's come before. Those that are valid on one
    /// cable only mean nothing elsewhere, are told in the order of the other's links, and are counted by themselves.
    fn told(&self, link: LinkIndex, wanted: LinkIndex, hello: &Hello) -> Option<LinkAddress> {
        let beside = self.links.get(usize::from(link.0))?.beside.into_iter().flatten();
        let own = beside.clone().find(|(link, _)| *link == wanted)?.1;
        // Those that are valid on their cable only are alike, whatever cable that is.
        let on_link = own.link_scope().is_some();
        let kind = |address: &LinkAddress| (address.family(), address.link_scope().is_some());
        let before = beside.take_while(|(link, _)| *link != wanted);
        let place = before.filter(|(_, other)| kind(other) == kind(&own)).count();
        let alike = || hello.addresses().filter(|told| kind(told) == kind(&own));
        let near = |told: &LinkAddress| if on_link { 0 } else { leading_bits(told, &own) };
        let most = alike().map(|told| near(&told)).max()?;
        let nearest = || alike().filter(|told| near(told) == most);
        let told = nearest().nth(place).or_else(|| nearest().next())?;
        Some(told.with_scope_of(&own).unwrap_or(told))
    }
}

/// Bits at the front of two IP addresses that are the same: more than of others, if they are of one subnet. 0 for others.
fn leading_bits(a: &LinkAddress, b: &LinkAddress) -> u32 {
    use core::net::IpAddr::{V4, V6};
    match (a.as_udp().map(|a| a.ip()), b.as_udp().map(|b| b.ip())) {
        (Some(V4(a)), Some(V4(b))) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (Some(V6(a)), Some(V6(b))) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => 0,
    }
}
