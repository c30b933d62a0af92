//! The acknowledgement that comes most often where messages are small: it rides on another frame, and says of the oldest
//! frame alone, a message of its own that was sent once, that it has arrived. It does what the general way does
//! ([`on_ack`](SendPath::on_ack)), without looking at what cannot have changed.
//!
//! If nobody waits for what it brings, it waits itself: the frame that it rides on is an answer, the host's next message
//! follows it, and taking in what became of the last one only delays that. So the last such acknowledgement is kept until
//! the host's message has left, or until the send path is asked for anything else, whichever comes first. To its peer that
//! looks as if it had come then; how long the way took is measured by when it came.

use emp_wire::Sequence;

use super::acknowledged::passed_us;
use super::active::Active;
use super::record::{Frame, FrameState, Record, What};
use super::window::{on_acked, rtt_mut};
use super::{SendMessage, SendPath};
use crate::path::congestion::Acked;
use crate::time::Time;

/// An acknowledgement that waits to be taken in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Late {
    pub(super) peer: u32,
    cumulative: Sequence,
    came: Time,
    /// For how long it had not been seen then.
    unseen_us: u16,
}

impl SendPath {
    /// An acknowledgement came on another frame: it is taken in at once, or waits.
    #[inline]
    pub(crate) fn on_riding_ack(&mut self, now: Time, peer: u32, cumulative: Sequence) {
        if self.late.is_some() {
            self.settle_acks(now);
        }
        if self.may_wait(peer, cumulative) {
            let unseen_us = self.unseen_us;
            self.late = Some(Late { peer, cumulative, came: now, unseen_us });
        } else {
            self.on_ack(now, peer, cumulative, None);
        }
    }

    /// Takes in what waits. False: there is nothing.
    pub(crate) fn settle_acks(&mut self, now: Time) -> bool {
        let late = self.late.take();
        if let Some(late) = late {
            self.take_late(now, late);
        }
        late.is_some()
    }

    fn take_late(&mut self, now: Time, late: Late) {
        let Late { peer, cumulative, .. } = late;
        if self.take_late_single(now, late) {
            self.go_on(now, peer);
        } else {
            self.on_ack(now, peer, cumulative, None);
        }
    }

    /// As [`take_single`](Self::take_single), of one that came earlier.
    #[inline]
    fn take_late_single(&mut self, now: Time, late: Late) -> bool {
        let Late { peer, cumulative, came, unseen_us } = late;
        let unseen_now_us = core::mem::replace(&mut self.unseen_us, unseen_us);
        let taken = self.take_single(now, came, peer, cumulative);
        self.unseen_us = unseen_now_us;
        taken
    }

    /// Takes in what waits, if it is of this peer, to which something has just left: so it needs no look at what else it could
    /// be sent now.
    #[inline]
    pub(super) fn settle_ack_beside(&mut self, now: Time, peer: u32) {
        if let Some(late) = self.late.take()
            && (late.peer != peer || !self.take_late_single(now, late))
        {
            self.take_late(now, late);
        }
    }

    /// True if it concerns only a message that its host has done with, and nothing waits for room in the window.
    #[inline]
    fn may_wait(&self, peer: u32, cumulative: Sequence) -> bool {
        // Without, as where messages go one way, there is nothing that it could be of.
        let Some(active) = self.peers[peer].active.as_deref() else { return false };
        let message = single(active, cumulative).and_then(|(message, _)| self.messages.at(message));
        active.is_waiting() && message.is_some_and(SendMessage::is_forgotten_when_acked)
    }

    /// False: it is not of that kind, and nothing was done.
    #[inline]
    pub(super) fn on_single_ack(&mut self, now: Time, peer: u32, cumulative: Sequence) -> bool {
        let taken = self.take_single(now, now, peer, cumulative);
        if taken {
            self.go_on(now, peer);
        }
        taken
    }

    /// The same, without what its arrival makes possible. It came at `came`.
    #[inline]
    fn take_single(&mut self, now: Time, came: Time, peer: u32, cumulative: Sequence) -> bool {
        let entry = &mut self.peers[peer];
        let Some(active) = entry.active.as_deref_mut() else { return false };
        let Some((message, frame)) = single(active, cumulative) else { return false };
        let first = active.unacked;
        let Frame { order, sent_us, path, load, .. } = frame;
        active.records.pop_front();
        *active.frame_mut(active.unacked) = Frame::default();
        active.unacked = cumulative;
        active.note_arrived(&frame);
        (active.repairs, active.refusals, active.acked_at) = (0, 0, now);
        active.flights.arrives(path, load);
        let flight = active.flight_mut(path);
        (flight.progress_at, flight.delivered_at, flight.backoff) = (now, now, 0);
        let next = flight.order.wrapping_add(1);
        let rtt = rtt_mut((&mut entry.rtt, &mut entry.further), &mut self.further, path);
        let came_us = (came.0 / 1_000) as u32;
        let sample_us = passed_us(came_us, sent_us);
        if let Some(sample_us) = sample_us {
            rtt.on_sample(sample_us, came_us);
        }
        rtt.on_progress();
        if entry.further != 0 {
            let bytes = load.bytes.into();
            let sample_us = sample_us.map(|us| us.saturating_sub(self.unseen_us.into()));
            let news = Acked { bytes, order, next, sample_us, marked: 0 };
            on_acked(entry.further, &mut self.further, path, (&entry.rtt, &news, came));
        }
        if self.times_messages {
            self.time(peer, (message, first, path), Some(came));
        }
        self.train_acked(peer, message);
        true
    }
}

/// The message and the frame that an acknowledgement up to `cumulative` is of, if it is of that kind.
#[inline]
fn single(active: &Active, cumulative: Sequence) -> Option<(u32, Frame)> {
    let sequence = active.unacked;
    if cumulative != sequence.plus(1) {
        return None;
    }
    let &Record { first, count, what, .. } = active.records.front()?;
    let What::Message { message, .. } = what else { return None };
    let frame = *active.frame(sequence);
    let alone = count == 1 && first == sequence;
    (alone && frame.state == FrameState::InFlight && !frame.resent).then_some((message, frame))
}
