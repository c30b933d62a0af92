//! Receivers that had less room than they were sent: for a while they are asked to pull again what is longer than usual (`LONG-6`).
//!
//! Where long frames get through, messages of several leave whole, because a receiver that has posted for them loses time by
//! asking. One that has no room for so much (many send at once to a socket with a small buffer, or nothing is posted) shows that by
//! frames that are lost and messages that are not kept.

use hashbrown::HashMap;

use super::SendPath;
use crate::limits::{CROWDED_RECEIVERS_MAX, RETRANSMIT_FLOOR};
use crate::time::{Span, Time};

/// How long a receiver is sent less: a loss costs one run of the timer or more, so what sending too much costs stays below a fiftieth.
const LASTS: Span = Span(50 * RETRANSMIT_FLOOR.0);

/// Whom to send less.
#[derive(Default)]
pub(super) struct Crowded {
    /// Until when, by peer.
    until: HashMap<u32, Time>,
    /// The latest of these.
    latest: Time,
}

impl SendPath {
    /// A peer had less room than it was sent.
    pub(super) fn note_crowded(&mut self, now: Time, peer: u32) {
        let Crowded { until, latest } = &mut self.crowded_receivers;
        if until.len() >= CROWDED_RECEIVERS_MAX && !until.contains_key(&peer) {
            until.retain(|_, until| *until > now);
        }
        if until.len() < CROWDED_RECEIVERS_MAX || until.contains_key(&peer) {
            until.insert(peer, now + LASTS);
            *latest = now + LASTS;
        }
    }

    /// True if that was lately.
    #[inline]
    pub(super) fn is_crowded(&self, now: Time, peer: u32) -> bool {
        let Crowded { until, latest } = &self.crowded_receivers;
        *latest > now && until.get(&peer).is_some_and(|until| *until > now)
    }
}
