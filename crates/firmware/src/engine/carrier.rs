//! Links that nothing can cross, because their interface is down or has no carrier. A peer that is reached by nothing else is not
//! silent meanwhile: this node could not have heard it (`RESEND-8`).

use alloc::vec::Vec;

use emp_wire::Epoch;

use crate::descriptor::Status;
use crate::engine::Firmware;
use crate::link::LinkIndex;
use crate::pair::Peers;
use crate::path::Paths;
use crate::profile::Profile;
use crate::time::{Span, Time};

/// Since when which links have no carrier, as far as the node was told.
#[derive(Default)]
pub(crate) struct Carriers {
    /// By link; `None`: it has one. Empty until one is lost.
    away_since: Vec<Option<Time>>,
}

impl Carriers {
    pub(crate) fn is_away(&self, link: LinkIndex) -> bool {
        self.since(link).is_some()
    }

    /// There are so many links; new ones have a carrier.
    pub(crate) fn extend(&mut self, links: usize) {
        if !self.away_since.is_empty() {
            self.away_since.resize(links, None);
        }
    }

    fn since(&self, link: LinkIndex) -> Option<Time> {
        self.away_since.get(usize::from(link.0)).copied().flatten()
    }

    /// Since when nothing can come from a peer that is reached so. `None`: it can.
    fn deaf_since(&self, paths: &Paths<'_>) -> Option<Time> {
        if self.away_since.is_empty() {
            return None;
        }
        let all = paths.each().map(|(_, (link, _))| self.since(link));
        all.reduce(|a, b| Some(a?.max(b?))).flatten()
    }

    /// Nobody looked for so long, which is excused for itself.
    pub(crate) fn excuse(&mut self, now: Time, absent: Span) {
        for since in self.away_since.iter_mut().flatten() {
            *since = now.min(*since + absent);
        }
    }

    /// How long a peer may be silent now.
    pub(crate) fn patience(&self, peers: &Peers, peer: u32, profile: &Profile) -> Span {
        let deaf = !self.away_since.is_empty() && self.deaf_since(&peers.paths(peer)).is_some();
        if deaf { profile.outage_patience() } else { profile.unreachable_after }
    }
}

impl Firmware {
    /// Says whether frames can cross a link now: its interface is up and has a carrier. To be called when that changes; more often
    /// does no harm.
    pub fn set_carrier(&mut self, now: Time, link: LinkIndex, carrier: bool) {
        if usize::from(link.0) >= self.links.len() || carrier != self.carriers.is_away(link) {
            return;
        }
        // Nobody looked until now: that is excused first, and once.
        self.notice_absence(now);
        if carrier {
            self.carrier_is_back(now, link);
        } else {
            self.carriers.away_since.resize(self.links.len(), None);
            self.carriers.away_since[usize::from(link.0)] = Some(now);
            self.fail_paths(now, link);
        }
    }

    /// Nothing can come from a peer: all that it is reached by has no carrier.
    pub(crate) fn is_deaf_to(&self, peer: u32) -> bool {
        self.carriers.deaf_since(&self.peers.paths(peer)).is_some()
    }

    /// Nothing can cross a link: what was under way by it goes by others at once, where there are any (`PATH-5`).
    #[cold]
    fn fail_paths(&mut self, now: Time, link: LinkIndex) {
        if !self.peers.has_several() {
            return;
        }
        for peer in 0..self.peers.len() {
            if let Some((path, _)) = self.peers.path_by(peer, link) {
                self.path_failed(now, peer, path);
                // It was the only one: another may be found while this is away.
                if self.peers.path_by(peer, link).is_some() && self.send.is_active(peer) {
                    // A search beside it that has found nothing was not urgent then: relays were not asked.
                    self.peers.forgive_paths(now, peer);
                    self.peers.table.stop_seeks(peer);
                    self.seek_paths(now, peer);
                }
            }
        }
    }

    /// Whoever could not be heard meanwhile, and can now, gets the rest of its time.
    #[cold]
    fn carrier_is_back(&mut self, now: Time, link: LinkIndex) {
        let searched = self.searches_deaf_since();
        let since = self.carriers.away_since[usize::from(link.0)].take();
        for peer in 0..self.peers.len() {
            let paths = self.peers.paths(peer);
            let uses = paths.each().any(|(_, (by, _))| by == link);
            // A peer that is reached by several links is deaf until the first is back, and was since the last was lost.
            if uses && self.carriers.deaf_since(&paths).is_none() {
                let others = paths.each().filter_map(|(_, (by, _))| self.carriers.since(by)).max();
                let since = since.max(others);
                self.excuse_peer(now, peer, now.since(since.unwrap_or(now)));
            }
            // A path by it that had failed may be looked for at once.
            if uses || self.peers.may_lead_over(peer, link) {
                self.peers.forgive_paths(now, peer);
            }
            if uses {
                self.send.resume(peer, now);
            }
        }
        if let Some(since) = searched {
            self.routes.searches.excuse(now, now.since(since));
        }
        if self.carriers.away_since.iter().all(Option::is_none) {
            self.carriers.away_since.clear();
        }
    }

    /// Links of which the node was told that nothing will cross them soon, as a cable's outage may be over: operations that wait for a peer which is
    /// reached by these alone, or is looked for by these alone, end (`RESEND-8`). Its address is known still, should it be asked for again.
    #[cold]
    pub fn give_up_cut_off(&mut self, now: Time, is_cut_off: impl Fn(LinkIndex) -> bool) {
        let out = (0..self.links.len()).filter(|index| !self.links[*index].reads_memory);
        let nowhere = out.map(|index| is_cut_off(LinkIndex(index as u8))).reduce(|a, b| a && b);
        let owing = self.peers_owing();
        for peer in 0..self.peers.len() {
            let entry = &self.peers[peer];
            let waits = self.send.is_active(peer)
                || self.receive.fetches_from(peer)
                || owing.binary_search(&peer).is_ok();
            if !waits || entry.node == self.peers.own {
                continue;
            }
            if entry.remote_epoch == Epoch::UNKNOWN {
                if nowhere == Some(true) {
                    self.give_up(now, peer, Status::NotFound);
                }
                continue;
            }
            let all = self.peers.paths(peer).each().map(|(_, (link, _))| is_cut_off(link));
            if all.reduce(|a, b| a && b) == Some(true) {
                self.give_up(now, peer, Status::Unreachable);
            }
        }
        self.relay(now);
    }

    /// How long a node may be looked for without an answer now.
    pub(crate) fn search_patience(&self) -> Span {
        let profile = &self.profile;
        self.searches_deaf_since().map_or(profile.unreachable_after, |_| profile.outage_patience())
    }

    /// Since when no link that leads out of this machine has a carrier.
    fn searches_deaf_since(&self) -> Option<Time> {
        if self.carriers.away_since.is_empty() {
            return None;
        }
        let out = (0..self.links.len()).filter(|index| !self.links[*index].reads_memory);
        let all = out.map(|index| self.carriers.since(LinkIndex(index as u8)));
        all.reduce(|a, b| Some(a?.max(b?))).flatten()
    }
}
