//! Long frames that nothing behind them shows to be lost: asking early after the last (`RESEND-6`), and hearing of those that came
//! too early to be taken (`ACK-7`).
//!
//! What follows a lost frame shows that it is lost; behind the last of a message nothing does, and its timer is as long as an
//! ordinary kernel may keep a receiver from running: ten times as long as such a frame takes. To resend 60 KB each time that
//! an answer is a little late would fill the socket of a receiver that has no processor just then. A `skip` costs nobody
//! anything: it takes the next number, so its answer says what became of all before it.

use emp_wire::Sequence;

use super::SendSide;
use super::active::Active;
use super::record::{FrameState, Record, What};
use crate::counters::Counter;
use crate::cross::Explicit;
use crate::limits::WINDOW_FRAMES;
use crate::path::PathId;
use crate::time::Time;

/// The long frame that left last, whenever it had left before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    frame: Sequence,
    sent_at: Time,
    /// When it was asked after one last.
    asked_at: Time,
    /// The path by which the question is to leave.
    question: Option<PathId>,
}

impl Tail {
    pub(super) const fn new(next: Sequence) -> Self {
        Self { frame: next, sent_at: Time(0), asked_at: Time(0), question: None }
    }

    /// A long frame leaves.
    #[inline]
    pub(super) const fn left(&mut self, frame: Sequence, now: Time) {
        (self.frame, self.sent_at) = (frame, now);
    }
}

impl Active {
    /// The path of the long frame that left last, if it is not known to have arrived or to be lost.
    fn tail_path(&self) -> Option<PathId> {
        let sequence = self.tail.frame;
        let near = (sequence.since(self.unacked) as u32) < WINDOW_FRAMES;
        let frame = self.frame(sequence);
        (near && frame.state == FrameState::InFlight && frame.is_long()).then_some(frame.path)
    }

    /// The same, and since when nothing is heard of it. It is asked after once.
    fn unanswered_tail(&self) -> Option<(PathId, Time)> {
        let path = self.tail_path()?;
        let flight = self.flight(path);
        let since = self.tail.sent_at.max(flight.progress_at);
        (flight.backoff == 0 && self.tail.asked_at < since).then_some((path, since))
    }

    /// A question is asked by a path in place of a frame that would be resent, if a number, `next`, is free for it. False: it is not
    /// asked.
    pub(super) fn ask_in_place(&mut self, next: Sequence, path: PathId, now: Time) -> bool {
        let free = (next.since(self.unacked) as u32) < WINDOW_FRAMES;
        let asks = free && self.flight(path).in_flight > 0;
        if asks {
            (self.tail.asked_at, self.tail.question) = (now, Some(path));
        }
        asks
    }
}

impl SendSide {
    /// When a peer is asked after the last long frame.
    pub(super) fn tail_due(&self, peer: u32) -> Option<Time> {
        let entry = &self.peers[peer];
        let active = entry.active.as_deref().filter(|_| self.profile.tail_probe)?;
        let (path, since) = active.unanswered_tail()?;
        // Who was not asked to answer at once may wait for a frame on which the acknowledgement rides.
        let delay =
            if active.is_requesting() { Default::default() } else { self.profile.ack_delay };
        Some(since + entry.rtt(&self.further, path).answer_within(delay)?)
    }

    /// Asks, if it is time to.
    pub(super) fn ask_after_tail(&mut self, peer: u32, now: Time) {
        if self.tail_due(peer).is_none_or(|due| due > now) {
            return;
        }
        let Some(active) = self.peers[peer].active.as_deref_mut() else { return };
        let Some((path, _)) = active.unanswered_tail() else { return };
        (active.tail.asked_at, active.tail.question) = (now, Some(path));
    }

    /// The number of the question that is to leave, if there is one.
    #[inline]
    pub(super) fn begin_question(&mut self, peer: u32) -> Option<Sequence> {
        let entry = &mut self.peers[peer];
        let path = entry.active.as_deref_mut()?.tail.question.take()?;
        let sequence = entry.next;
        let active = entry.active.as_deref().filter(|_| entry.is_found())?;
        let free = (sequence.since(active.unacked) as u32) < WINDOW_FRAMES;
        if !free || active.flight(path).in_flight == 0 {
            return None;
        }
        self.counters.count(Counter::TailProbes);
        Some(entry.open_alone(path, What::Question))
    }

    /// A long frame came and was not taken: if that is because its train's first was lost, it is to come again, too (`ACK-7`).
    pub(super) fn was_untaken(&mut self, peer: u32, sequence: Sequence) {
        let Some(active) = self.peers[peer].active.as_deref_mut() else { return };
        let Some(index) = active.record_of(sequence) else { return };
        let Record { first, what, .. } = active.records[index];
        let behind = sequence != first && !first.before(active.unacked);
        if behind
            && matches!(what, What::Message { .. })
            && active.frame(first).state != FrameState::Acked
        {
            active.mark_lost(sequence);
        }
    }
}

/// The long frame that came last at the receiver, if that says that it was not taken, and it was sent once.
pub(super) fn untaken(active: &Active, cumulative: Sequence, ack: &Explicit) -> Option<Sequence> {
    let near = (ack.latest.since(active.unacked) as u32) < WINDOW_FRAMES;
    let frame = active.frame(ack.latest);
    let single = frame.is_long() && frame.state == FrameState::InFlight && !frame.resent;
    let ahead = ack.latest.since(cumulative) >= 0;
    (ack.untaken && ahead && near && single).then_some(ack.latest)
}
