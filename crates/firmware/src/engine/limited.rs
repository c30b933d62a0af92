//! The largest frames that this node and its peers take by each link, which may fall while they run, and rise again (`LIMIT-1`,
//! `LIMIT-2`).

use emp_wire::{Epoch, LinkAddress};

use crate::counters::Counter;
use crate::engine::Firmware;
use crate::event::NodeEvent;
use crate::limits::SLICED_FOR_BYTES_MIN;
use crate::link::LinkIndex;
use crate::pair::milliseconds;
use crate::path::PathId;
use crate::profile::Profile;
use crate::time::Time;

impl Firmware {
    /// Frames of more than so many bytes fit a link no longer: new ones are no longer there, what was cut before leaves in slices, and
    /// peers that are reached by it are told. The limit never falls below [`SLICED_FOR_BYTES_MIN`]. False: it was no higher.
    pub fn limit_frame_bytes(&mut self, now: Time, link: LinkIndex, bytes: usize) -> bool {
        let bytes = bytes.max(SLICED_FOR_BYTES_MIN);
        if bytes >= self.takes_bytes_max(link) || !self.has_link(link) {
            return false;
        }
        self.peers.lengths.set(link, bytes);
        for peer in 0..self.peers.len() {
            let Some((_, to)) = self.peers.path_by(peer, link) else { continue };
            let fits = self.peers.hop_lists.fitting(&to, bytes as u16);
            self.peers.shorten(peer, link, fits);
        }
        self.announce(now, link);
        let node = self.peers.own;
        self.push_event(NodeEvent::Limited { node, link, frame_bytes_max: bytes });
        true
    }

    /// Frames of so many bytes fit a link again: peers are told, and whatever gets through to each of them is sent there from then on
    /// (`LIMIT-2`). No more than when the node started. False: the limit was no lower.
    pub fn raise_frame_bytes(&mut self, now: Time, link: LinkIndex, bytes: usize) -> bool {
        let bytes = bytes.min(self.peers.lengths.most_by(link).into());
        if bytes <= self.takes_bytes_max(link) || !self.has_link(link) {
            return false;
        }
        self.peers.lengths.set(link, bytes);
        self.sizes.forget(link);
        for peer in 0..self.peers.len() {
            self.peers.forgive_paths(now, peer);
        }
        self.announce(now, link);
        true
    }

    /// Shows this node by a link to its peers: what it takes there, and, by where the frame comes from, where it is now. What was said before, or
    /// what they asked then, may have been lost: to be called a few times after [`limit_frame_bytes`](Self::limit_frame_bytes) and
    /// [`raise_frame_bytes`](Self::raise_frame_bytes), after the link has got another address, and when its interface is back.
    pub fn announce(&mut self, now: Time, link: LinkIndex) {
        // A hello by the link to those that were heard lately and have a path there, as far as there is room for what waits to be said.
        let silence_ms = (self.profile.unreachable_after.0 / 1_000_000) as u32;
        for peer in 0..self.peers.len() {
            let entry = &self.peers[peer];
            let known = entry.remote_epoch != Epoch::UNKNOWN && entry.node != self.peers.own;
            let lately = milliseconds(now).wrapping_sub(entry.heard_ms()) <= silence_ms;
            if known
                && lately
                && let Some((_, to)) = self.peers.path_by(peer, link)
            {
                self.ask_peer(link, to, peer);
            }
        }
    }

    fn has_link(&self, link: LinkIndex) -> bool {
        usize::from(link.0) < self.links.len()
    }

    /// Longest message in bytes of a buffered send: as long as any that is copied, always or where it leaves at once, and at least one frame's payload.
    pub fn buffered_bytes_max(&self) -> usize {
        let Profile { buffered_bytes, long_buffered_bytes, .. } = self.profile;
        self.single_frame_bytes_max().max(buffered_bytes.max(long_buffered_bytes) as usize)
    }

    /// Largest payload of a message of one of this node's frames.
    pub fn single_frame_bytes_max(&self) -> usize {
        usize::from(self.peers.lengths.usual())
            - emp_wire::HEADER_BYTES
            - emp_wire::MESSAGE_BYTES
            - emp_wire::IMMEDIATE_BYTES
    }

    /// Largest frame that this node builds, in bytes: what a [`TransmitBatch`](crate::TransmitBatch) must be made for.
    pub fn frame_bytes_max(&self) -> usize {
        self.peers.lengths.most().into()
    }

    /// Largest frame that this node takes by a link now, in bytes.
    pub fn takes_bytes_max(&self, link: LinkIndex) -> usize {
        self.peers.lengths.takes(link).into()
    }

    /// Largest frame of the ends that leaves by a link for there: what stands before it is part of what the link takes.
    pub(crate) fn takes_towards(&self, link: LinkIndex, to: &LinkAddress) -> u16 {
        self.peers.hop_lists.fitting(to, self.peers.lengths.takes(link))
    }

    /// A peer's hello by a link says that it takes frames of at most so many bytes there. It may be an old one that was held up or is sent
    /// again by somebody else, so it changes nothing but that the peer is asked.
    pub(crate) fn hear_limit(&mut self, now: Time, (peer, link): (u32, LinkIndex), bytes: u16) {
        let Some((path, to)) = self.peers.path_by(peer, link) else { return };
        let before = self.peers.bytes_by(peer, path);
        let takes = bytes.max(SLICED_FOR_BYTES_MIN as u16).min(self.takes_towards(link, &to));
        if takes != before && self.peers[peer].may_challenge(now) {
            self.probe_limit((peer, link), if takes > before { bytes } else { 0 });
        }
    }

    /// A peer answers from one of its paths that it takes frames of at most so many bytes there; as many `arrived` as the question had. If
    /// longer ones than those that are sent would do it is asked whether they get through. True: something has changed.
    pub(crate) fn told_limit(
        &mut self,
        now: Time,
        peer: u32,
        (link, from): (LinkIndex, LinkAddress),
        bytes: u16,
        arrived: u16,
    ) -> bool {
        let Some((path, to)) = self.peers.path_by(peer, link) else { return false };
        if to != from || to == LinkAddress::LOOPBACK {
            return false;
        }
        let shorter = self.peers.shorten(peer, link, bytes.max(SLICED_FOR_BYTES_MIN as u16));
        let before = self.peers.bytes_by(peer, path);
        if shorter {
            let node = self.peers[peer].node;
            self.counters.count(Counter::PeersLimited);
            let frame_bytes_max = before.into();
            self.push_event(NodeEvent::Limited { node, link, frame_bytes_max });
        }
        let wanted = bytes.min(self.takes_towards(link, &to));
        if wanted <= before {
            return shorter;
        }
        if arrived >= wanted {
            self.peers.set_bytes_by(peer, path, wanted);
            self.counters.count(Counter::PeersRaised);
            self.peers.forgive_paths(now, peer);
        } else {
            self.probe_limit((peer, link), bytes);
        }
        true
    }

    /// Asks how long frames a peer takes by a link, by one of as many bytes as it says, and this node takes: so whether they get through.
    /// Where it is known to be, so that nobody can have others sent such frames.
    fn probe_limit(&mut self, (peer, link): (u32, LinkIndex), bytes: u16) {
        if let Some((_, to)) = self.peers.path_by(peer, link) {
            self.ask_peer_with(link, to, peer, bytes.min(self.takes_towards(link, &to)));
        }
    }

    /// Nothing arrives at a peer by one of its paths: does it still take frames of this length there? The timer that ran out limits how
    /// often that is asked; it must not keep a question from being asked where the peer has moved to.
    pub(crate) fn doubt(&mut self, peer: u32, path: PathId) {
        let (_, hop) = self.peers.paths(peer).pick(path);
        if let Some((link, to)) = hop.filter(|(_, to)| **to != LinkAddress::LOOPBACK) {
            let to = *to;
            self.ask_peer(link, to, peer);
        }
    }
}
