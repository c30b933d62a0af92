//! Peers that spoke first and have shown nothing since: identities that somebody made up, or nodes that vanished. What is sent to them
//! is resent within a budget for all of them together, and while that is used up they are given up soon: so they cost others little,
//! however many they are (`RESEND-7`). A node that is looked for, or acknowledges anything, is no stranger.

use alloc::vec::Vec;

use crate::limits::{STRANGERS_BURST, STRANGERS_INTERVAL};
use crate::time::Time;

/// Who is none, and what may still be resent to those who are.
#[derive(Default)]
pub(super) struct Strangers {
    /// Peers that answered a question, one bit each.
    met: Vec<u64>,
    /// When all that was resent to strangers is paid for, at one each [`STRANGERS_INTERVAL`].
    paid_at: Time,
}

impl Strangers {
    /// A peer has answered a question, or, false, the pair was given up.
    pub(super) fn set_met(&mut self, peer: u32, met: bool) {
        let (word, bit) = (peer as usize / 64, 1 << (peer % 64));
        if word >= self.met.len() {
            if !met {
                return;
            }
            self.met.resize(word + 1, 0);
        }
        self.met[word] = if met { self.met[word] | bit } else { self.met[word] & !bit };
    }

    pub(super) fn has_met(&self, peer: u32) -> bool {
        self.met.get(peer as usize / 64).is_some_and(|word| word >> (peer % 64) & 1 == 1)
    }

    /// True if one more may be resent to now; then it is noted.
    pub(super) fn may_resend(&mut self, now: Time) -> bool {
        let may = self.paid_at.since(now) < STRANGERS_BURST;
        if may {
            self.paid_at = self.paid_at.max(now) + STRANGERS_INTERVAL;
        }
        may
    }
}
