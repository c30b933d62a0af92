//! How much receivers grant to be sent unasked (`CREDIT-5`). What of a message is more is pulled, and no more than that is under way of what was not
//! asked for, also of messages that began before: their sender cannot know how many others there are, nor how little room they leave.
//!
//! A grant is forgotten after a while without another, so a peer that nothing is sent to needs nothing for that. Who was never granted
//! anything has no entry for it, and pays for one look.

use emp_wire::GRANT_UNBOUNDED;

use super::SendSide;
use super::transmission::leaves_unasked;
use super::window::rtt_mut;
use crate::limits::GRANT_LASTS;
use crate::path::PathId;
use crate::time::Time;

/// What a receiver has granted, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    bytes: u32,
    at: Time,
}

impl Granted {
    /// Of who never said anything.
    pub(super) const NOTHING_SAID: Self = Self { bytes: GRANT_UNBOUNDED, at: Time(0) };

    /// What it is worth by now.
    const fn bytes(&self, now: Time) -> u64 {
        let bound = self.bytes != GRANT_UNBOUNDED && now.since(self.at).0 < GRANT_LASTS.0;
        if bound { self.bytes as u64 } else { u64::MAX }
    }
}

impl SendSide {
    /// A receiver says how much of a message it may be sent unasked.
    #[cold]
    pub(crate) fn on_grant(&mut self, now: Time, peer: u32, bytes: u32) {
        if self.profile.unasked_bytes_max == u64::MAX {
            return;
        }
        let less = u64::from(bytes) < self.granted(now, peer);
        // There is no room for one more such peer, or nothing to forget.
        let known = self.peers[peer].further_place().is_some() || bytes != GRANT_UNBOUNDED;
        if !known || self.congestion_mut(peer, PathId::FIRST).is_none() {
            return;
        }
        if let Some(place) = self.peers[peer].further_place() {
            self.further[place].granted = Granted { bytes, at: now };
        }
        for path in PathId::all().filter(|_| less) {
            let entry = &mut self.peers[peer];
            rtt_mut((&mut entry.rtt, &mut entry.further), &mut self.further, path).on_crowd();
        }
        if !less {
            // What waits for a time that the old one gave need not wait for that.
            self.mark_ready(peer);
        }
    }

    /// What leaves next to this peer is bounded by what is granted by now, if it leaves unasked.
    #[inline]
    pub(super) fn bound(&mut self, now: Time, peer: u32) {
        let entry = &self.peers[peer];
        let Some(place) = entry.further_place() else { return };
        let granted = u32::try_from(self.further[place].granted.bytes(now)).unwrap_or(u32::MAX);
        let unasked = || entry.active.as_deref().is_some_and(leaves_unasked);
        let bound = if granted != u32::MAX && unasked() { granted } else { u32::MAX };
        self.further[place].bound = bound;
    }

    /// Bytes of one message that its receiver may be sent unasked.
    #[inline]
    pub(crate) fn granted(&self, now: Time, peer: u32) -> u64 {
        let place = self.peers[peer].further_place();
        place.map_or(u64::MAX, |place| self.further[place].granted.bytes(now))
    }
}
