//! What a receiver says of a message beside acknowledgements: that it is done (`DONE-1`), or that it had no room for it (`READY-1`).

use emp_wire::{DoneStatus, NotReadyCause, Sequence};

use super::record::What;
use super::{SendMessage, SendSide, State, Work};
use crate::counters::Counter;
use crate::descriptor::Status;
use crate::limits::NOT_READY_BACKOFF;
use crate::tables::slots::note_look;
use crate::time::{Span, Time};

impl SendSide {
    /// The receiver says what became of a message (`DONE-1`).
    pub(crate) fn on_done(&mut self, peer: u32, handle: u32, status: DoneStatus) {
        let Some(index) = self.by_handle(peer, handle) else {
            self.counters.count(Counter::DropBadHandle);
            return;
        };
        self.held(peer, index, State::Held);
        let Some(message) = self.messages.at_mut(index) else { return };
        let status = match status {
            // That is all that a synchronous message needs; one that is pulled needs its data taken as well.
            DoneStatus::Matched if message.is_pulled() => return,
            DoneStatus::Complete | DoneStatus::Matched => match message.state {
                State::AwaitingBoth => {
                    message.is_done = true;
                    return message.state = State::AwaitingAck;
                }
                // Its train was withdrawn, and comes anew: of the one before that its receiver may have no more than the first frame.
                State::Queued if status == DoneStatus::Matched => return message.is_done = true,
                State::AwaitingAck | State::Sending | State::Void => return,
                _ => Status::Ok,
            },
            DoneStatus::Abandoned if message.state == State::HeldNoEndpoint => Status::NoEndpoint,
            other => other.into(),
        };
        let work = message.work;
        self.over(index, work, Some(status));
        self.settle(peer);
    }

    /// The receiver had no room for a message: it deferred it, without its bytes, or refused it (`READY-1`).
    pub(crate) fn on_not_ready(
        &mut self,
        now: Time,
        peer: u32,
        (number, sequence): (u32, Sequence),
        cause: NotReadyCause,
        backoff_us: u32,
    ) {
        self.counters.count(Counter::NotReadyReceived);
        self.settle_acks(now);
        let Some(active) = self.peers[peer].active.as_deref_mut() else { return };
        let index = active.records.iter().find_map(|record| match record.what {
            What::Message { message, number: sent }
                if sent == number && record.first == sequence =>
            {
                Some(message)
            }
            _ => None,
        });
        // Said again, or too late: another copy was taken meanwhile.
        let Some(index) = index else { return };
        if cause.defers() {
            let endpoint = cause != NotReadyCause::NoEndpoint;
            self.held(peer, index, if endpoint { State::Held } else { State::HeldNoEndpoint });
        } else if cause == NotReadyCause::Stuck {
            self.stuck(peer, index, number);
        } else {
            self.refused(now, peer, index, number, backoff_us);
        }
        self.mark_ready(peer);
        self.arm(peer, now);
    }

    /// The receiver has a message's place in the order, not its bytes: it will pull them, and say `done`. One that is void has none.
    pub(super) fn held(&mut self, peer: u32, index: u32, held: State) {
        use State::{AwaitingDone, Held, HeldNoEndpoint, Over, Queued, Void};
        let Some(message) = self.messages.at_mut(index) else { return };
        let before = message.state;
        // Long or synchronous ones go on: their `done` was to come anyway.
        let goes_on = matches!(before, Held | HeldNoEndpoint | Void | Over)
            || message.needs_done() && held == Held
            || !matches!(message.work, Work::Message);
        if goes_on {
            return;
        }
        let (awaited, queued) = (before == AwaitingDone, before == Queued);
        message.state = held;
        self.withdraw(peer, index);
        if let Some(active) = self.peers[peer].active.as_deref_mut() {
            if queued {
                // It was refused and was to be sent again: the receiver has its place after all. It stands among the first.
                if let Some(at) = active.pending.iter().position(|other| *other == index) {
                    active.pending.remove(at);
                }
            }
            if !awaited {
                self.awaiting.push_back(&mut active.awaiting, index);
            }
        }
        self.note_awaited(peer);
    }

    /// The receiver will never have room for a message: it ends, and only its number is still told, so that those behind it have their turn
    /// (`READY-5`).
    fn stuck(&mut self, peer: u32, index: u32, number: u32) {
        if self.messages.at(index).is_some_and(|message| matches!(message.work, Work::Message)) {
            self.void(index, Status::ReceiverFull);
        }
        self.begin_again(peer, index, number);
        if let Some(active) = self.peers[peer].active.as_deref_mut() {
            active.skip_blocks(index);
        }
    }

    /// The receiver did not take a message: it is sent again under its number, after a while (`READY-2`).
    fn refused(&mut self, now: Time, peer: u32, index: u32, number: u32, backoff_us: u32) {
        self.begin_again(peer, index, number);
        let Some(active) = self.peers[peer].active.as_deref_mut() else { return };
        active.skip_blocks(index);
        active.refusals += 1;
        let (least, most) = NOT_READY_BACKOFF;
        let grown = Span(least.0 << (active.refusals - 1).min(10));
        let delay = grown.max(Span::us(backoff_us.into())).clamp(least, most);
        active.ready_at = now + delay;
    }

    /// A message begins anew under its number: it is the first that is to leave, but for others that have lower ones.
    pub(super) fn begin_again(&mut self, peer: u32, index: u32, number: u32) {
        self.withdraw(peer, index);
        let Some(message) = self.messages.at_mut(index) else { return };
        if message.state != State::Void {
            message.state = State::Queued;
        }
        let messages = &self.messages;
        let Some(active) = self.peers[peer].active.as_deref_mut() else { return };
        // Those that have a number come before those that have none, in order.
        let place = active.pending.partition_point(|other| {
            let other = messages.at(*other).and_then(|message| message.number);
            other.is_some_and(|other| (other.wrapping_sub(number) as i32) < 0)
        });
        active.pending.insert(place, index);
    }

    /// Takes a message's train back: skips go out at once in the place of frames that are not acknowledged.
    fn withdraw(&mut self, peer: u32, index: u32) {
        let entry = &mut self.peers[peer];
        let Some(active) = entry.active.as_deref_mut() else { return };
        let record = active.records.iter_mut().find(
            |record| matches!(record.what, What::Message { message, .. } if message == index),
        );
        let Some(record) = record else { return };
        record.what = What::Skip;
        let (first, count) = (record.first, record.count);
        let sent = active.sent_of(first, count);
        if let Some(unsent) = active.drop_unsent() {
            entry.next = unsent;
        }
        let (mut at, end) = (first, first.plus(sent));
        if at.before(active.unacked) {
            at = active.unacked;
        }
        while at.before(end) {
            active.mark_lost(at);
            at = at.plus(1);
        }
    }
}

impl SendSide {
    /// A message began to wait for a `done` of this peer.
    pub(super) fn note_awaited(&mut self, peer: u32) {
        self.awaits = true;
        self.awaited.insert(peer);
    }

    /// Peers that owe us a `done`: found without a walk over all that is sent.
    pub(crate) fn peers_awaited(&mut self) -> impl Iterator<Item = u32> + '_ {
        let Self { awaited, peers, .. } = self;
        awaited.retain(|peer| {
            note_look();
            peers[*peer].active.as_deref().is_some_and(|active| active.awaiting.first().is_some())
        });
        awaited.iter().copied()
    }
}

impl SendMessage {
    /// Its host has done with it, and its receiver has nothing to say of it.
    #[inline]
    pub(super) const fn is_forgotten_when_acked(&self) -> bool {
        matches!((self.state, self.work), (State::Sending, Work::Message)) && self.is_told()
    }

    /// Its receiver asks for bytes of it.
    fn is_pulled(&self) -> bool {
        matches!(self.state, State::Held | State::HeldNoEndpoint)
            || u64::from(self.plan.cut.unscheduled) != self.descriptor.segments.bytes()
    }
}
