//! Peers that spoke first and have shown nothing since: identities that somebody made up, or nodes that vanished. What is sent to them
//! is resent within a budget for all of them together, and while that is used up they are given up soon: so they cost others little,
//! however many they are (`RESEND-7`). A node that is looked for, or acknowledges anything, is no stranger.

use crate::limits::{STRANGERS_BURST, STRANGERS_INTERVAL};
use crate::time::Time;

/// What of a peer is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// Its epoch or its route is not.
    No,
    /// Nor are they any more: it was lost. What is sent to it is over when it is delivered, and not when it is copied.
    Lost,
    /// Both are, and it has shown nothing more.
    Found,
    /// It has answered a question: it is not only made up.
    Met,
}

/// What may still be resent to strangers.
#[derive(Default)]
pub(super) struct Strangers {
    /// When all that was resent to strangers is paid for, at one each [`STRANGERS_INTERVAL`].
    paid_at: Time,
}

impl Strangers {
    /// True if one more may be resent to now; then it is noted.
    pub(super) fn may_resend(&mut self, now: Time) -> bool {
        let may = self.paid_at.since(now) < STRANGERS_BURST;
        if may {
            self.paid_at = self.paid_at.max(now) + STRANGERS_INTERVAL;
        }
        may
    }
}
