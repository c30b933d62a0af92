//! Receive acknowledgement (I3): what the peer has is released, what it misses is found lost (RACK's way: by order of
//! transmission, not of sequence).

use emp_wire::{AckDelay, DoneStatus, NotReadyCause, SACK_WORDS_MAX, Sequence};

use super::active::Active;
use super::record::{Frame, FrameState, What};
use super::tail::untaken;
use super::window::{on_acked, rtt_mut};
use super::{Held, SendMessage, SendPath, Stage, Work};
use crate::counters::Counter;
use crate::descriptor::Status;
use crate::limits::{NOT_READY_BACKOFF, PATHS_MAX};
use crate::path::PathId;
use crate::path::congestion::Acked;
use crate::predict::SendsFirst;
use crate::time::{Span, Time};

/// What an acknowledgement says that is a frame of its own.
#[derive(Clone, Copy)]
pub(crate) struct Explicit<'a> {
    /// The frame that came last at the receiver: what this answers.
    pub(crate) latest: Sequence,
    /// It was not taken (`ACK-7`).
    pub(crate) untaken: bool,
    /// Something of what it acknowledges came marked (`ACK-9`).
    pub(crate) marked: bool,
    /// Numbers beyond the cumulative one that were taken (`ACK-2`).
    pub(crate) sack: &'a [u64; SACK_WORDS_MAX],
    /// The receiver's own part of the round trip.
    pub(crate) delay: AckDelay,
}

/// What one acknowledgement brought.
#[derive(Default)]
struct Progress {
    /// By path.
    acked: [u32; PATHS_MAX],
    /// Place of the latest of them in the path's order of transmission.
    last: [Option<u32>; PATHS_MAX],
    /// A question ([`tail`](super::tail)) was answered, by path: the path works, but what was asked after has not got any further by
    /// that. It was not answered by itself, either.
    answered: [bool; PATHS_MAX],
    /// Order and send time of the latest transmission that arrived, by path.
    sample: [Option<(u32, u32)>; PATHS_MAX],
    /// When the latest copy left of those frames that were resent and have arrived, by path: what arrived long before and is acknowledged
    /// only now, as a gap before it was filled, waited for that.
    copy_sent: [Option<u32>; PATHS_MAX],
    /// A retransmission was among what arrived: frames behind it may have waited for it, not for the wire.
    resent: bool,
    /// The record of what was acknowledged last.
    record: usize,
}

/// How long an acknowledgement was held back on purpose at most, in microseconds: far longer than any profile says. Who says more did not
/// run in between, and may not the next time: that is part of the round trip, which the timer has to be longer than.
const HELD_BACK_MAX_US: u32 = 10_000;

impl SendPath {
    /// The peer acknowledges all before `cumulative`, and what the bits say after it (`ACK-1`, `ACK-2`). What was never sent
    /// can't have come (`ACK-4`).
    pub(crate) fn on_ack(
        &mut self,
        now: Time,
        peer: u32,
        cumulative: Sequence,
        sack: Option<Explicit<'_>>,
    ) {
        self.settle_acks(now);
        if sack.is_none() && self.on_single_ack(now, peer, cumulative) {
            return;
        }
        let marked = sack.is_some_and(|ack| ack.marked);
        if marked {
            // A window of its own, to be shrunk.
            self.congestion_mut(peer, PathId::FIRST);
        }
        let entry = &mut self.peers[peer];
        let sent_end = entry.next;
        let Some(active) = entry.active.as_deref_mut() else {
            if cumulative.since(sent_end) > 0 {
                self.counters.count(Counter::DropBadAck);
            }
            return;
        };
        let ahead = cumulative.since(active.unacked);
        if cumulative.since(sent_end) > 0 || !acknowledges_only_sent(active, cumulative) {
            self.counters.count(Counter::DropBadAck);
            return;
        }
        let has_sack = sack.is_some_and(|ack| ack.sack.iter().any(|word| *word != 0));
        let untaken = sack.and_then(|ack| untaken(active, cumulative, &ack));
        if ahead <= 0 && !has_sack && untaken.is_none() {
            return;
        }
        let now_us = (now.0 / 1_000) as u32;
        // Looked up before its place may be taken by another frame.
        let latest = sack.and_then(|ack| latest(active, sent_end, ack.latest));
        let windows = (&mut entry.rtt, &mut entry.further);
        let least_us = latest.map_or(0, |frame| {
            rtt_mut(windows, &mut self.further, frame.path).answered_us(frame.is_long())
        });
        let answered = latest.filter(|frame| arrived(frame, now_us, least_us));
        let mut progress = Progress::default();
        for _ in 0..ahead.max(0) {
            let sequence = active.unacked;
            acknowledge(active, sequence, &mut progress);
            *active.frame_mut(sequence) = Default::default();
            active.unacked = sequence.plus(1);
        }
        if let Some(ack) = sack.filter(|_| has_sack) {
            selective(active, cumulative, ack.sack, &mut progress);
        }
        let waited = now.since(active.acked_at);
        let mut sample_of = [None; PATHS_MAX];
        for path in PathId::all() {
            let acked = progress.acked[path.index()];
            if progress.answered[path.index()] {
                active.flight_mut(path).delivered_at = now;
            }
            if acked == 0 {
                continue;
            }
            active.acked_at = now;
            let flight = active.flight_mut(path);
            (flight.progress_at, flight.delivered_at, flight.backoff) = (now, now, 0);
            let AckDelay { held_us, unseen_us } = sack.map(|ack| ack.delay).unwrap_or_default();
            let held_us = u32::from(held_us).min(HELD_BACK_MAX_US);
            // A timer has to be longer than that; a window is not to shrink for it (`WINDOW-2`).
            let unseen_us = u32::from(unseen_us) + u32::from(self.unseen_us);
            // How long the receiver sat on it is known of the frame that came last, not of those by the other path.
            let timed = latest.is_none_or(|frame| frame.path == path);
            let next = flight.order.wrapping_add(1);
            let rtt = rtt_mut((&mut entry.rtt, &mut entry.further), &mut self.further, path);
            let copy = progress.copy_sent[path.index()];
            let since_copy = copy.and_then(|sent_us| passed_us(now_us, sent_us));
            let resent = progress.resent && !rtt.is_too_soon(since_copy, waited);
            let sample = progress.sample[path.index()];
            let sample = sample
                .filter(|_| timed && (!resent || has_sack))
                // What came long before, and whose acknowledgements were lost, did not take so long.
                .filter(|(order, _)| latest.is_none_or(|frame| frame.order == *order))
                .filter(|_| !(progress.answered.contains(&true) && has_sack));
            match sample.and_then(|(_, sent_us)| passed_us(now_us, sent_us)) {
                Some(passed_us) => {
                    let sample_us = passed_us.saturating_sub(held_us);
                    rtt.on_sample(sample_us, now_us);
                    sample_of[path.index()] = Some(sample_us.saturating_sub(unseen_us));
                }
                None => {
                    rtt.on_unclear_answer(since_copy, waited, self.profile.ack_delay);
                }
            }
            rtt.on_progress();
            let order = progress.last[path.index()].unwrap_or(next.wrapping_sub(1));
            let sample_us = sample_of[path.index()];
            let marked = if marked { acked } else { 0 };
            let news = Acked { bytes: acked, order, next, sample_us, marked };
            on_acked(entry.further, &mut self.further, path, (&entry.rtt, &news, now));
        }
        let probed = sack.is_some() && progress.resent && self.profile.selective_acks;
        if let Some(frame) = answered {
            active.note_arrived(&frame);
        }
        // An answer to a probe says of all frames sent before it that it does not name that they are lost. A question leaves before what
        // has lower numbers: a receiver that takes nothing out of turn has dropped it when it answers those.
        let overtaken = active.is_overtaken();
        if has_sack || probed || overtaken || untaken.is_some() {
            self.find_lost(now, peer);
        }
        if let Some(sequence) = untaken {
            self.came_in_vain(peer, sequence);
        }
        let AckDelay { held_us, unseen_us } = sack.map(|ack| ack.delay).unwrap_or_default();
        let waited = Span::us(u64::from(held_us) + u64::from(unseen_us));
        let came = Time(now.0.saturating_sub(waited.0));
        self.release(peer, Some(came).filter(|_| !progress.resent));
        self.go_on(now, peer);
    }

    /// After something was acknowledged: what waited for that has its turn.
    pub(super) fn go_on(&mut self, now: Time, peer: u32) {
        self.settle(peer);
        match self.peers[peer].active.as_deref() {
            // Its deadline comes to nothing, or is that of what is sent until then.
            None => {}
            // Most acknowledgements free nothing that waits: then only the deadline moves.
            Some(active) if active.is_waiting() && active.lost_at.is_none() => {
                self.arm_later(peer, now);
            }
            Some(_) => self.mark_ready(peer),
        }
    }

    /// Takes finished records off the front, and tells their messages. `came`: when the last of it had arrived and its answer left at once, if
    /// nothing of it was sent again.
    fn release(&mut self, peer: u32, came: Option<Time>) {
        loop {
            let active = self.peers[peer].active.as_deref_mut().expect("caller has seen it");
            match active.records.front() {
                Some(front) if front.acked == front.count => {}
                _ => break,
            }
            let record = active.records.pop_front().expect("seen above");
            match record.what {
                What::Message { message, .. } => {
                    if self.times_messages {
                        self.time(peer, (message, record.first, record.path), came);
                    }
                    self.train_acked(peer, message);
                }
                What::Control(control) => self.replied.extend(control.values()),
                _ => {}
            }
        }
    }

    pub(super) fn train_acked(&mut self, peer: u32, index: u32) {
        if self.messages.at(index).is_some_and(SendMessage::is_forgotten_when_acked) {
            return self.forget(index);
        }
        let Some(message) = self.messages.at_mut(index) else { return };
        message.stage = Stage::Acked;
        let active = self.peers[peer].active.as_deref_mut().expect("it had a record");
        if message.needs_done && !message.is_done() {
            active.awaiting.push_back(index);
            self.note_awaited(peer);
        } else {
            self.complete(index);
        }
    }

    /// Forgets a message that is with its receiver, and that nothing names any more.
    #[inline]
    fn forget(&mut self, index: u32) {
        let chain = self.messages.discard(index, |message| message.chain.take());
        if let Some(chain) = chain.flatten() {
            self.pool.free(chain);
        }
        self.counters.count(Counter::MessagesSent);
    }

    fn complete(&mut self, index: u32) {
        let Some(message) = self.messages.at(index) else { return };
        let status = match message.done {
            Some(DoneStatus::Abandoned) if message.held == Held::NoEndpoint => Status::NoEndpoint,
            Some(done) => done.into(),
            None => Status::Ok,
        };
        // What waits for a `done` ends later than with its acknowledgement.
        let acknowledged = !message.completed && !message.work.needs_done() && !message.needs_done;
        if acknowledged && message.descriptor.segments.bytes() >= SendsFirst::ANSWER_BYTES {
            self.long_ended = Some(message.descriptor.endpoint);
        }
        self.counters.count(match message.work {
            Work::Message => Counter::MessagesSent,
            Work::Put { .. } => Counter::Puts,
            Work::Atomic { .. } => Counter::Atomics,
        });
        self.finish(index, status);
    }

    /// The receiver says what became of a message (`DONE-1`).
    pub(crate) fn on_done(&mut self, peer: u32, handle: u32, status: DoneStatus) {
        let Some((index, _)) = self.by_handle(peer, handle) else {
            self.counters.count(Counter::DropBadHandle);
            return;
        };
        self.held(peer, index, Held::Place);
        let Some(message) = self.messages.at_mut(index) else { return };
        message.done = Some(status);
        if !message.is_done() {
            return;
        }
        if message.is_acked() || !matches!(status, DoneStatus::Complete | DoneStatus::Matched) {
            self.complete(index);
            self.settle(peer);
        }
    }

    /// The receiver had no room for a message: it kept it without its bytes, or refused it (`READY-1`).
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
        self.note_crowded(now, peer);
        if cause.kept() {
            let endpoint = cause != NotReadyCause::NoEndpoint;
            self.held(peer, index, if endpoint { Held::Place } else { Held::NoEndpoint });
        } else {
            self.refused(now, peer, index, number, backoff_us);
        }
        self.mark_ready(peer);
        self.arm(peer, now);
    }

    /// The receiver has a message's place in the order, not its bytes: it will pull them, and say `done`.
    pub(super) fn held(&mut self, peer: u32, index: u32, held: Held) {
        let Some(message) = self.messages.at_mut(index) else { return };
        // Long or synchronous ones go on: their `done` was to come anyway.
        let awaits = message.needs_done && held == Held::Place;
        if message.held != Held::No || awaits || !matches!(message.work, Work::Message) {
            return;
        }
        let awaited = message.is_acked() && message.needs_done;
        let queued = message.stage == Stage::Queued;
        (message.stage, message.needs_done, message.held) = (Stage::Acked, true, held);
        self.withdraw(peer, index);
        if let Some(active) = self.peers[peer].active.as_deref_mut() {
            if queued {
                // It was refused and was to be sent again: the receiver has its place after all.
                active.pending.retain(|other| *other != index);
            }
            if !awaited {
                active.awaiting.push_back(index);
            }
        }
        self.note_awaited(peer);
    }

    /// The receiver did not take a message: it is sent again under its number, after a while (`READY-2`).
    fn refused(&mut self, now: Time, peer: u32, index: u32, number: u32, backoff_us: u32) {
        self.withdraw(peer, index);
        let Some(message) = self.messages.at_mut(index) else { return };
        message.stage = Stage::Queued;
        let messages = &self.messages;
        let Some(active) = self.peers[peer].active.as_deref_mut() else { return };
        // Those that have a number come before those that have none, in order.
        let place = active.pending.partition_point(|other| {
            let other = messages.at(*other).and_then(|message| message.number);
            other.is_some_and(|other| (other.wrapping_sub(number) as i32) < 0)
        });
        active.pending.insert(place, index);
        active.refusals += 1;
        let (least, most) = NOT_READY_BACKOFF;
        let grown = Span(least.0 << (active.refusals - 1).min(10));
        let delay = grown.max(Span::us(backoff_us.into())).clamp(least, most);
        active.ready_at = now + delay;
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
        let (first, sent) = (record.first, record.sent);
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

impl SendMessage {
    /// Its host has done with it, and its receiver has nothing to say of it.
    #[inline]
    pub(super) const fn is_forgotten_when_acked(&self) -> bool {
        let plain = matches!(self.work, Work::Message) && !matches!(self.stage, Stage::Queued);
        plain && self.completed && !self.needs_done
    }

    /// All of its train is acknowledged.
    pub(super) fn is_acked(&self) -> bool {
        self.stage == Stage::Acked
    }

    fn is_done(&self) -> bool {
        match self.done {
            None => false,
            // Matched is all that a synchronous message needs; one that is pulled needs its data taken as well.
            Some(DoneStatus::Matched) => {
                self.held == Held::No
                    && u64::from(self.plan.cut.unscheduled) == self.descriptor.segments.bytes()
            }
            Some(_) => true,
        }
    }
}

/// No frame that was never sent may be acknowledged.
fn acknowledges_only_sent(active: &Active, cumulative: Sequence) -> bool {
    if cumulative.since(active.unacked) <= 0 {
        return true;
    }
    let last = cumulative.minus(1);
    active.frame(last).state != FrameState::Unsent
        && (last.since(active.unacked) as u32) < crate::limits::WINDOW_FRAMES
}

/// True if the place of this frame, which came last at the receiver, in the order of transmission is known: of a resent one
/// it is not if the answer came sooner than a round trip takes, for then the first copy came.
fn arrived(frame: &Frame, now_us: u32, least_us: u32) -> bool {
    !frame.resent || passed_us(now_us, frame.sent_us).is_some_and(|passed| passed >= least_us)
}

/// The frame that came last at the receiver, if it is still outstanding.
fn latest(active: &Active, sent_end: Sequence, latest: Sequence) -> Option<Frame> {
    let outstanding = latest.since(active.unacked) >= 0 && latest.before(sent_end);
    let near = (latest.since(active.unacked) as u32) < crate::limits::WINDOW_FRAMES;
    if !outstanding || !near {
        return None;
    }
    let frame = *active.frame(latest);
    (frame.state != FrameState::Unsent).then_some(frame)
}

/// Microseconds from one wrapping time to another. `None` if it was the other way round: the clocks of a host's threads may
/// differ a little, and that must not read as an hour.
pub(super) fn passed_us(now_us: u32, then_us: u32) -> Option<u32> {
    let passed = now_us.wrapping_sub(then_us);
    (passed.cast_signed() >= 0).then_some(passed)
}

/// Marks one frame as arrived.
fn acknowledge(active: &mut Active, sequence: Sequence, progress: &mut Progress) {
    let frame = *active.frame(sequence);
    match frame.state {
        FrameState::Acked | FrameState::Unsent => return,
        FrameState::InFlight => {
            active.flights.arrives(frame.path, frame.load);
        }
        FrameState::Lost => {
            active.flights.finds(frame.path);
            // It had only been overtaken, unless a timer found it, or it came too early to be taken.
            let flight = active.flight_mut(frame.path);
            if !frame.is_long() && flight.backoff == 0 {
                flight.recovery.on_reordering();
            }
        }
    }
    active.frame_mut(sequence).state = FrameState::Acked;
    if frame.is_long() {
        let flight = active.flight_mut(frame.path);
        flight.strikes = flight.strikes.saturating_sub(1);
    }
    // Karn: a retransmitted frame does not say which copy was acknowledged.
    if !frame.resent {
        active.note_arrived(&frame);
    }
    progress.resent |= frame.resent;
    if !frame.resent {
        active.repairs = 0;
    }
    let mut question = false;
    if let Some(index) = active.record_near(sequence, progress.record) {
        progress.record = index;
        let record = &mut active.records[index];
        record.acked += 1;
        question = matches!(record.what, What::Question);
        // What is acknowledged was taken: messages may follow each other again.
        if matches!(record.what, What::Message { .. }) && sequence == record.first {
            active.refusals = 0;
        }
    }
    if question {
        progress.answered[frame.path.index()] = true;
        return;
    }
    progress.acked[frame.path.index()] += u32::from(frame.load.bytes);
    progress.last[frame.path.index()].get_or_insert(frame.order);
    if let Some(last) = &mut progress.last[frame.path.index()]
        && (frame.order.wrapping_sub(*last) as i32) > 0
    {
        *last = frame.order;
    }
    if frame.resent {
        let copy = &mut progress.copy_sent[frame.path.index()];
        if copy.is_none_or(|sent_us| passed_us(frame.sent_us, sent_us).is_some()) {
            *copy = Some(frame.sent_us);
        }
    }
    let sample = &mut progress.sample[frame.path.index()];
    let later = |order: u32| (frame.order.wrapping_sub(order) as i32) > 0;
    if !frame.resent && sample.is_none_or(|(order, _)| later(order)) {
        *sample = Some((frame.order, frame.sent_us));
    }
}

fn selective(
    active: &mut Active,
    cumulative: Sequence,
    words: &[u64; SACK_WORDS_MAX],
    progress: &mut Progress,
) {
    for (w, word) in words.iter().enumerate() {
        let mut bits = *word;
        while bits != 0 {
            let bit = bits.trailing_zeros();
            bits &= bits - 1;
            let sequence = cumulative.plus(1 + 64 * w as u32 + bit);
            let offset = sequence.since(active.unacked);
            if (0..crate::limits::WINDOW_FRAMES as i32).contains(&offset) {
                acknowledge(active, sequence, progress);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::passed_us;

    #[test]
    fn time_that_went_back_is_no_time() {
        assert_eq!(passed_us(10, 5), Some(5));
        assert_eq!(passed_us(3, u32::MAX - 1), Some(5));
        assert_eq!(passed_us(5, 10), None);
    }
}
