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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    /// More receivers than are noted: those beyond are sent as much as others, and there is room once what was noted is over.
    #[test]
    fn those_that_are_noted_are_bounded() {
        let mut send = SendPath::new(Profile::DEFAULT, 0, 0);
        let most = CROWDED_RECEIVERS_MAX as u32;
        for peer in 0..most + 10 {
            send.note_crowded(Time(0), peer);
        }
        assert_eq!(send.crowded_receivers.until.len(), CROWDED_RECEIVERS_MAX);
        assert!(send.is_crowded(Time(0), most - 1) && !send.is_crowded(Time(0), most));
        let later = Time(0) + LASTS;
        send.note_crowded(later, most);
        assert!(send.is_crowded(later, most) && !send.is_crowded(later, 0));
        assert_eq!(send.crowded_receivers.until.len(), 1);
    }
}
