//! Peers whose processes have ended, as somebody can tell who is no part of the protocol: their host's kernel, or this machine's
//! (`RESEND-9`). They are not waited for as silent ones are.

use alloc::collections::BTreeSet;

use emp_wire::{Epoch, NodeId};

use crate::descriptor::Status;
use crate::engine::Firmware;
use crate::limits::SILENT_MAX;
use crate::pair::{mark, milliseconds};
use crate::time::{Span, Time};

/// Peers that were silent for a moment while something was due from them, since that was last asked.
#[derive(Default)]
pub(crate) struct Silent(BTreeSet<u32>);

impl Silent {
    /// One more; others' turn comes when these are asked after.
    pub(crate) fn note(&mut self, peer: u32) {
        if self.0.len() < SILENT_MAX {
            self.0.insert(peer);
        }
    }

    pub(crate) fn forget(&mut self, peer: u32) {
        self.0.remove(&peer);
    }
}

impl Firmware {
    /// The next peer of which nothing is heard although something is due, so that whoever can may ask its host whether it is still there. Each is
    /// told again and again, until it is heard or given up.
    pub fn poll_silent(&mut self) -> Option<NodeId> {
        let peer = self.silent.0.pop_first()?;
        Some(self.peers[peer].node)
    }

    /// True if there is such a peer.
    pub fn has_silent(&self) -> bool {
        !self.silent.0.is_empty()
    }

    /// How long nothing was heard of a node that was met. `None`: it never was.
    pub fn silence(&self, now: Time, node: NodeId) -> Option<Span> {
        let entry = &self.peers[self.peers.peek(node)?];
        let met = entry.remote_epoch != Epoch::UNKNOWN || entry.has(mark::DEPARTED);
        met.then(|| Span::ms(milliseconds(now).wrapping_sub(entry.heard_ms()).into()))
    }

    /// A node's process has ended without closing it, as its host has told: whatever is under way to and from it ends with
    /// [`Status::PeerEnded`]. False: it is not known, or is heard.
    pub fn peer_ended(&mut self, now: Time, node: NodeId) -> bool {
        let Some(peer) = self.peers.peek(node).filter(|_| node != self.peers.own) else {
            return false;
        };
        let entry = &self.peers[peer];
        let known = entry.remote_epoch != Epoch::UNKNOWN;
        if known || entry.has(mark::LOST) {
            self.give_up(now, peer, Status::PeerEnded);
            self.relay(now);
        }
        known
    }
}
