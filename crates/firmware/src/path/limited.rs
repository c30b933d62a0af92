//! The largest frames that this node and its peers take, which may fall while they run, and rise again (`LIMIT-1`, `LIMIT-2`).

use emp_wire::{Epoch, LinkAddress};

use crate::counters::Counter;
use crate::engine::{FRAME_BYTES_MIN, Firmware};
use crate::event::NodeEvent;
use crate::limits::SLICED_FOR_BYTES_MIN;
use crate::peers::{Peer, milliseconds};
use crate::time::Time;

impl Firmware {
    /// Frames of more than so many bytes fit some link no longer: new ones are no longer, what was cut before leaves in slices,
    /// and peers are told. The limit never falls below [`SLICED_FOR_BYTES_MIN`]. False: it was no higher.
    pub fn limit_frame_bytes(&mut self, now: Time, bytes: usize) -> bool {
        let bytes = bytes.max(SLICED_FOR_BYTES_MIN);
        if bytes >= usize::from(self.takes_bytes_max) {
            return false;
        }
        self.takes_bytes_max = bytes as u16;
        for peer in 0..self.peers.len() {
            if self.peers[peer].node != self.peers.own {
                self.peers[peer].shorten(bytes as u16);
            }
        }
        self.tell_limit(now);
        let node = self.peers.own;
        self.push_event(NodeEvent::Limited { node, frame_bytes_max: bytes });
        true
    }

    /// Frames of so many bytes fit every link again: peers are told, and whatever gets through to each of them is sent from then
    /// on (`LIMIT-2`). No more than when the node started. False: the limit was no lower.
    pub fn raise_frame_bytes(&mut self, now: Time, bytes: usize) -> bool {
        let bytes = bytes.min(self.frame_bytes_max.into());
        if bytes <= usize::from(self.takes_bytes_max) {
            return false;
        }
        self.takes_bytes_max = bytes as u16;
        self.sizes.forget();
        for peer in 0..self.peers.len() {
            self.peers.forgive_paths(now, peer);
        }
        self.tell_limit(now);
        true
    }

    /// Tells peers again: what was said, or what they asked then, may have been lost. To be called a few times after [`limit_frame_bytes`](Self::limit_frame_bytes) and
    /// [`raise_frame_bytes`](Self::raise_frame_bytes).
    pub fn repeat_limit(&mut self, now: Time) {
        self.tell_limit(now);
    }

    /// Says hello to the peers that were heard lately, as far as there is room for what waits to be said.
    fn tell_limit(&mut self, now: Time) {
        let silence_ms = (self.profile.unreachable_after.0 / 1_000_000) as u32;
        for peer in 0..self.peers.len() {
            let entry = &self.peers[peer];
            let known = entry.remote_epoch != Epoch::UNKNOWN && entry.node != self.peers.own;
            let lately = milliseconds(now).wrapping_sub(entry.heard_ms) <= silence_ms;
            if known
                && lately
                && let Some((link, to)) = self.peers.paths(peer).first()
            {
                let to = *to;
                self.ask_peer(link, to, peer);
            }
        }
    }

    /// Largest payload of a message of one of this node's frames: the limit of buffered sends.
    pub fn single_frame_bytes_max(&self) -> usize {
        usize::from(self.frame_bytes_max)
            - emp_wire::HEADER_BYTES
            - emp_wire::MESSAGE_BYTES
            - emp_wire::IMMEDIATE_BYTES
    }

    /// Largest frame that this node builds, in bytes: what a [`TransmitBatch`] must be made for.
    pub fn frame_bytes_max(&self) -> usize {
        usize::from(self.frame_bytes_max)
    }

    /// Learns what a peer takes: frames to it are no larger.
    pub(crate) fn limit_frames(&mut self, peer: u32, bytes: u16) {
        let own = self.takes_bytes_max;
        self.peers[peer].frame_bytes_max = bytes.clamp(FRAME_BYTES_MIN as u16, own);
    }

    /// Largest frame that this node takes now, in bytes.
    pub fn takes_bytes_max(&self) -> usize {
        self.takes_bytes_max.into()
    }

    /// A peer's hello says that it takes frames of at most so many bytes. It may be an old one that was held up or is sent again by
    /// somebody else, so it changes nothing but that the peer is asked.
    pub(crate) fn hear_limit(&mut self, now: Time, peer: u32, bytes: u16) {
        let entry = &mut self.peers[peer];
        let takes = bytes.max(SLICED_FOR_BYTES_MIN as u16).min(self.takes_bytes_max);
        if takes != entry.frame_bytes_max && entry.may_challenge(now) {
            self.probe_limit(
                peer,
                if takes > self.peers[peer].frame_bytes_max { bytes } else { 0 },
            );
        }
    }

    /// A peer answers that it takes frames of at most so many bytes; as many `arrived` as the question had. True: longer ones than
    /// those that are sent would do, if they get through.
    pub(crate) fn told_limit(&mut self, now: Time, peer: u32, bytes: u16, arrived: u32) -> bool {
        if self.peers[peer].shorten(bytes) {
            let node = self.peers[peer].node;
            self.counters.count(Counter::PeersLimited);
            let frame_bytes_max = self.peers[peer].frame_bytes_max.into();
            self.push_event(NodeEvent::Limited { node, frame_bytes_max });
        }
        let wanted = bytes.min(self.takes_bytes_max);
        if wanted <= self.peers[peer].frame_bytes_max {
            return false;
        }
        let through = arrived >= wanted.into();
        if through {
            self.peers[peer].frame_bytes_max = wanted;
            self.counters.count(Counter::PeersRaised);
            self.peers.forgive_paths(now, peer);
        }
        !through
    }

    /// Asks how long frames a peer takes, by one of as many bytes as it says, and this node takes: so whether they get through. By the
    /// way that it is known by, so that nobody can have others sent such frames.
    pub(crate) fn probe_limit(&mut self, peer: u32, bytes: u16) {
        if let Some((link, to)) = self.peers.paths(peer).first() {
            let to = *to;
            self.ask_peer_with(link, to, peer, bytes.min(self.takes_bytes_max));
        }
    }

    /// Nothing arrives at a peer by one of its paths: does it still take frames of this length? The timer that ran out limits how
    /// often that is asked; it must not keep a question from being asked where the peer has moved to.
    pub(crate) fn doubt(&mut self, peer: u32) {
        let way = self.peers.paths(peer).first();
        if let Some((link, to)) = way.filter(|(_, to)| **to != LinkAddress::LOOPBACK) {
            let to = *to;
            self.ask_peer(link, to, peer);
        }
    }
}

impl Peer {
    /// True if that is less than before.
    fn shorten(&mut self, bytes: u16) -> bool {
        let bytes = bytes.max(SLICED_FOR_BYTES_MIN as u16);
        let shorter = bytes < self.frame_bytes_max;
        self.frame_bytes_max = self.frame_bytes_max.min(bytes);
        shorter
    }
}
