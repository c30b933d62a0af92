//! Looking for a peer's second lane, and for a first one that had failed (`LANE-1`, `LANE-2`, `LANE-6`).

use emp_wire::{Epoch, Header, Hello, Kind, LinkAddress};

use crate::counters::Counter;
use crate::engine::{Firmware, NodeEvent};
use crate::lanes::{Lane, Question};
use crate::routes::Contact;
use crate::time::Time;
use crate::transmit::LinkIndex;

impl Firmware {
    /// A link has ceased to carry several frames in one call, or does so again ([`LinkInfo::segments`](crate::LinkInfo::segments)): trains
    /// gain by a bulk lane only if it does. True if they take another lane for that.
    pub fn set_segments(&mut self, link: LinkIndex, segments: bool) -> bool {
        self.peers.lanes.set_segments(link, segments)
    }

    /// Looks for a lane of a peer, unless it was looked for in vain not long ago. `at`: where the peer was seen on the
    /// bulk link.
    pub(crate) fn seek_lane(&mut self, now: Time, peer: u32, lane: Lane, at: Option<LinkAddress>) {
        if self.closing.is_some() || !self.peers.may_seek(now, peer, lane) {
            return;
        }
        let nonce = self.routes.draw();
        self.peers.lanes.seek(now, peer, lane, nonce);
        let hinted = || {
            let bulk = self.peers.lanes.bulk_link()?;
            let hints = self.routes.hints(self.peers[peer].node);
            hints.iter().find(|(link, _)| *link == bulk).map(|(_, address)| *address)
        };
        if let Some(at) = at.or_else(hinted) {
            self.peers.lanes.suppose(peer, at);
        }
        self.run_seeks(now);
    }

    /// Asks the questions that are due.
    pub(crate) fn run_seeks(&mut self, now: Time) {
        while self.routes.has_room() {
            let Some(question) = self.peers.lanes.pop_due(now) else { return };
            if self.peers[question.peer].remote_epoch == Epoch::UNKNOWN {
                self.peers.lanes.forget(question.peer);
                continue;
            }
            match question.lane {
                Lane::Bulk => self.ask_for_bulk(&question),
                Lane::Small => self.ask_for_small(&question),
            }
        }
    }

    /// On the bulk link where the peer is supposed to be; while that is not known, over the route: the answer tells.
    fn ask_for_bulk(&mut self, question: &Question) {
        if let (Some(link), Some(to)) = (self.peers.lanes.bulk_link(), question.address) {
            self.ask_lane(link, to, question);
        }
        if (question.address.is_none() || question.again)
            && let Some((link, &to)) = self.peers[question.peer].route()
        {
            self.ask_lane(link, to, question);
        }
    }

    /// Where the failed lane led. If there was none, or nobody answers there (the peer may have moved), everyone on the better
    /// links.
    fn ask_for_small(&mut self, question: &Question) {
        let bulk = self.peers.lanes.bulk_link();
        let route = self.peers[question.peer].route().map(|(link, to)| (link, *to));
        let known = route.filter(|(link, _)| Some(*link) != bulk);
        if let Some((link, to)) = known {
            self.ask_lane(link, to, question);
        }
        if known.is_some() && !(question.again && question.everyone) {
            return;
        }
        for index in 0..self.links.len() {
            let link = LinkIndex(index as u8);
            let same = known.is_none_or(|(route, _)| route == link);
            if self.links[index].broadcast && Some(link) != bulk && same {
                self.ask_lane(link, LinkAddress::EVERYONE, question);
            }
        }
    }

    fn ask_lane(&mut self, link: LinkIndex, to: LinkAddress, question: &Question) {
        let entry = &self.peers[question.peer];
        self.routes.push_contact(Contact {
            link,
            to,
            kind: Kind::Hello,
            target: entry.node,
            destination_tag: entry.tag,
            nonce: question.nonce,
            source_epoch: entry.local_epoch,
            destination_epoch: entry.remote_epoch.check(),
            word: 0,
            frame_bytes: 0,
        });
    }

    /// Takes a reply that answers the search for a lane, or a question that was answered on another link before. False:
    /// it is neither.
    pub(crate) fn answers_for_lane(
        &mut self,
        now: Time,
        peer: u32,
        link: LinkIndex,
        from: LinkAddress,
        header: &Header,
        hello: &Hello,
    ) -> bool {
        let entry = &self.peers[peer];
        let current = entry.remote_epoch == header.source_epoch
            && entry.local_epoch.check() == header.destination_epoch;
        if !current {
            return false;
        }
        let before = entry.challenge.wrapping_sub(1);
        let sought = self.peers.lanes.sought(hello.nonce).filter(|(whose, _)| *whose == peer);
        let (bulk, ways) = (self.peers.lanes.bulk_link(), self.peers.ways(peer));
        let taken = match sought {
            Some((_, Lane::Bulk)) if Some(link) != bulk => {
                // It only tells where to ask.
                if let Some(told) = hello.second {
                    self.peers.lanes.learn(now, hello.nonce, told);
                    self.run_seeks(now);
                }
                return true;
            }
            Some(_) => self.peers.answered(now, peer, link, from),
            None if hello.nonce == self.routes.nonce(hello.node, before) => {
                ways.bulk.is_none() && self.peers.answered(now, peer, link, from)
            }
            None => return false,
        };
        if taken {
            self.counters.count(Counter::LanesFound);
            self.push_event(NodeEvent::PathFound { node: hello.node, link });
        }
        taken || sought.is_some()
    }
}
