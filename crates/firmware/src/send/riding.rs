//! Acknowledgements that ride on other frames. The frame is an answer most often, the host's next message follows it, and taking in what
//! became of the last one only delays that. So if nobody waits for what the latest such acknowledgement brings, it is kept until the host's
//! message has left, or until the send side is asked for anything else, whichever comes first. To its peer that looks as if it had come
//! then; how long the way took is measured by when it came.

use emp_wire::Sequence;

use super::acknowledged::{Came, Taken};
use super::record::What;
use super::{SendMessage, SendSide};
use crate::time::Time;

/// An acknowledgement that waits to be taken in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Late {
    pub(super) peer: u32,
    cumulative: Sequence,
    came: Came,
}

impl SendSide {
    /// An acknowledgement came on another frame: it is taken in at once, or waits.
    #[inline(always)]
    pub(crate) fn on_riding_ack(&mut self, now: Time, peer: u32, cumulative: Sequence) {
        if self.late.is_some() {
            self.settle_acks(now);
        }
        if self.may_wait(peer, cumulative) {
            self.late = Some(Late { peer, cumulative, came: self.came(now) });
        } else {
            self.on_ack(now, peer, cumulative, None);
        }
    }

    /// Takes in what waits. False: there is nothing.
    pub(crate) fn settle_acks(&mut self, now: Time) -> bool {
        let late = self.late.take();
        if let Some(Late { peer, cumulative, came }) = late {
            self.take_in_and_go_on(now, came, peer, cumulative, None);
        }
        late.is_some()
    }

    /// The same when something has just left to a peer: after one frame of this one no look is needed at what else it could be sent now.
    #[inline]
    pub(super) fn settle_ack_beside(&mut self, now: Time, left_to: u32) {
        let Some(Late { peer, cumulative, came }) = self.late.take() else { return };
        match self.take_in(now, came, peer, cumulative, None) {
            Taken::Nothing => {}
            Taken::Lone if peer == left_to => {}
            Taken::Lone | Taken::Range => self.go_on(now, peer),
        }
    }

    /// True if it is of the oldest message alone, with which its host has done, and nothing waits for room in the window.
    #[inline(always)]
    fn may_wait(&self, peer: u32, cumulative: Sequence) -> bool {
        // Without, as where messages go one way, there is nothing that it could be of.
        let Some(active) = self.peers[peer].active.as_deref() else { return false };
        let Some(record) = active.records.front() else { return false };
        let What::Message { message, .. } = record.what else { return false };
        let message = self.messages.at(message);
        cumulative == record.first.plus(record.count)
            && active.is_waiting()
            && message.is_some_and(SendMessage::is_forgotten_when_acked)
    }
}
