//! Receive acknowledgement (I3): what the peer has is released, what it misses is found lost (RACK's way: by order of
//! transmission, not of sequence).

use alloc::vec::Vec;
use emp_wire::{DoneStatus, NotReadyCause, SACK_WORDS_MAX, Sequence};

use super::SendPath;
use super::record::{Active, FrameState, What};
use crate::counters::Counter;
use crate::cross::{Control, ToReceive};
use crate::descriptor::Status;
use crate::limits::NOT_READY_BACKOFF;
use crate::profile::RetransmitUnit;
use crate::time::{Span, Time};

/// What one acknowledgement brought.
#[derive(Default)]
struct Progress {
    acked: u32,
    /// Order and send time of the latest transmission that arrived, if it was not a retransmission.
    sample: Option<(u32, u32)>,
    /// How many of our "not ready" the peer has now.
    confirmed: u32,
}

impl SendPath {
    /// The peer acknowledges all before `cumulative`, and what the bits say after it (`ACK-1`, `ACK-2`).
    pub(crate) fn on_ack(
        &mut self,
        now: Time,
        peer: u32,
        cumulative: Sequence,
        sack: Option<(&[u64; SACK_WORDS_MAX], u32)>,
    ) {
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
        let has_sack = sack.is_some_and(|(words, _)| words.iter().any(|word| *word != 0));
        if ahead <= 0 && !has_sack {
            return;
        }
        let mut progress = Progress::default();
        for _ in 0..ahead.max(0) {
            let sequence = active.unacked;
            acknowledge(active, sequence, &mut progress);
            *active.frame_mut(sequence) = Default::default();
            active.unacked = sequence.plus(1);
        }
        if let Some((words, _)) = sack.filter(|_| has_sack) {
            selective(active, cumulative, words, &mut progress);
        }
        for _ in 0..progress.confirmed {
            self.to_receive.push_back(ToReceive::Confirmed { peer });
        }
        if progress.acked > 0 {
            active.progress_at = now;
            active.backoff = 0;
            let now_us = (now.0 / 1_000) as u32;
            let delay_us = sack.map_or(0, |(_, delay)| delay);
            match progress.sample {
                Some((_, sent_us)) => {
                    let sample = now_us.wrapping_sub(sent_us).saturating_sub(delay_us);
                    entry.window.on_round_trip(sample, progress.acked, now_us);
                }
                None => entry.window.grow(progress.acked),
            }
        }
        if has_sack {
            self.find_lost(peer);
        }
        self.release(peer);
        self.mark_ready(peer);
        self.settle(peer);
    }

    /// Frames that were sent well before one that arrived are lost.
    fn find_lost(&mut self, peer: u32) {
        let active = self.peers[peer].active.as_deref_mut().expect("caller has seen it");
        let horizon = active.acked_order.wrapping_sub(self.profile.reorder_frames);
        let end = self.peers[peer].next;
        let active = self.peers[peer].active.as_deref_mut().expect("caller has seen it");
        let mut sequence = active.unacked;
        let span = (end.since(sequence) as u32).min(crate::limits::WINDOW_FRAMES);
        for _ in 0..span {
            let frame = active.frame(sequence);
            let late = (frame.order.wrapping_sub(horizon) as i32) < 0;
            if frame.state == FrameState::InFlight && late {
                mark_unit_lost(active, sequence, self.profile.retransmit, self.profile.collection);
            }
            sequence = sequence.plus(1);
        }
    }

    /// Takes finished records off the front, and tells their messages.
    fn release(&mut self, peer: u32) {
        loop {
            let active = self.peers[peer].active.as_deref_mut().expect("caller has seen it");
            match active.records.front() {
                Some(front) if front.acked == front.count => {}
                _ => break,
            }
            let record = active.records.pop_front().expect("seen above");
            if let What::Message { message, .. } = record.what {
                self.train_acked(peer, message);
            }
        }
    }

    fn train_acked(&mut self, peer: u32, index: u32) {
        let Some(message) = self.messages.at_mut(index) else { return };
        (message.acked, message.in_train) = (true, false);
        let active = self.peers[peer].active.as_deref_mut().expect("it had a record");
        if message.needs_done && !message.is_done() {
            active.awaiting.push(index);
            self.awaits = true;
        } else {
            self.complete(index);
        }
    }

    fn complete(&mut self, index: u32) {
        let Some(message) = self.messages.at(index) else { return };
        let status = match message.done {
            Some(DoneStatus::Abandoned) if message.homeless => Status::NoEndpoint,
            Some(DoneStatus::Abandoned) => Status::Abandoned,
            _ => Status::Ok,
        };
        self.counters.count(Counter::MessagesSent);
        self.finish(index, status);
    }

    /// The receiver says what became of a message (`DONE-1`).
    pub(crate) fn on_done(&mut self, peer: u32, handle: u32, status: DoneStatus) {
        let Some((index, _)) = self.by_handle(peer, handle) else {
            self.counters.count(Counter::DropBadHandle);
            return;
        };
        let message = self.messages.at_mut(index).expect("found by handle");
        if !message.needs_done {
            self.counters.count(Counter::DropBadHandle);
            return;
        }
        message.done = Some(status);
        if !message.is_done() {
            return;
        }
        if message.acked || status == DoneStatus::Abandoned {
            self.complete(index);
            self.settle(peer);
        }
    }

    /// The receiver has no room for a message: it kept it without its bytes, or refused it.
    pub(crate) fn on_not_ready(
        &mut self,
        now: Time,
        peer: u32,
        number: u32,
        attempt: u8,
        cause: NotReadyCause,
        backoff_us: u32,
    ) {
        self.counters.count(Counter::NotReadyReceived);
        if cause.kept() {
            self.on_kept(peer, number, cause);
        } else {
            self.on_refused(now, peer, number, attempt, backoff_us);
        }
    }

    /// The receiver kept a message without its bytes: it will pull them, and say `done` (`READY-1`).
    fn on_kept(&mut self, peer: u32, number: u32, cause: NotReadyCause) {
        let entry = &mut self.peers[peer];
        let Some(active) = entry.active.as_deref_mut() else { return };
        let position = active.records.iter().position(
            |record| matches!(record.what, What::Message { number: sent, .. } if sent == number),
        );
        let index = match position {
            Some(position) => {
                let Some(index) = active.records[position].what.message() else { return };
                active.records[position].what = What::Skip;
                active.awaiting.push(index);
                index
            }
            // All its frames are acknowledged: it waits for a `done` anyway.
            None => {
                let messages = &self.messages;
                let numbered = |i: &&u32| {
                    messages.at(**i).is_some_and(|message| message.number == Some(number))
                };
                let Some(index) = active.awaiting.iter().find(numbered) else { return };
                *index
            }
        };
        if let Some(unsent) = active.drop_unsent() {
            entry.next = unsent;
        }
        let Some(message) = self.messages.at_mut(index) else { return };
        (message.in_train, message.acked, message.needs_done) = (false, true, true);
        message.kept = true;
        message.homeless = cause == NotReadyCause::NoEndpoint;
        self.awaits = true;
        self.mark_ready(peer);
    }

    /// The receiver took neither this message nor a later one: they go back to the queue (`READY-2`).
    fn on_refused(&mut self, now: Time, peer: u32, number: u32, attempt: u8, backoff_us: u32) {
        let entry = &mut self.peers[peer];
        let Some(active) = entry.active.as_deref_mut() else { return };
        if attempt.wrapping_sub(entry.attempt) as i8 <= 0 {
            return;
        }
        entry.attempt = attempt;
        let mut again: Vec<(u32, u32)> = Vec::new();
        for record in &mut active.records {
            if let What::Message { message, number: sent } = record.what
                && (sent.wrapping_sub(number) as i32) >= 0
            {
                record.what = What::Skip;
                again.push((sent, message));
            }
        }
        if let Some(unsent) = active.drop_unsent() {
            entry.next = unsent;
        }
        let messages = &self.messages;
        active.awaiting.retain(|index| {
            let sent = messages.at(*index).and_then(|message| message.number);
            let kept = messages.at(*index).is_some_and(|message| message.kept);
            let refused = !kept && sent.is_some_and(|sent| (sent.wrapping_sub(number) as i32) >= 0);
            if let (true, Some(sent)) = (refused, sent) {
                again.push((sent, *index));
            }
            !refused
        });
        again.sort_unstable_by_key(|(sent, _)| sent.wrapping_sub(number));
        active.blocks.retain(|block| !again.iter().any(|(_, index)| *index == block.message));
        for (_, index) in again.iter().rev() {
            active.pending.push_front(*index);
        }
        active.refusals += 1;
        active.refused = again.first().filter(|(sent, _)| *sent == number).map(|(_, i)| *i);
        let (least, most) = NOT_READY_BACKOFF;
        let grown = Span(least.0 << (active.refusals - 1).min(10));
        let delay = grown.max(Span::us(backoff_us.into())).clamp(least, most);
        active.ready_at = now + delay;
        for (_, index) in &again {
            if let Some(message) = self.messages.at_mut(*index) {
                (message.in_train, message.acked, message.done) = (false, false, None);
            }
        }
        self.release(peer);
        self.arm(peer, now);
        self.settle(peer);
    }
}

impl super::SendMessage {
    fn is_done(&self) -> bool {
        match self.done {
            None => false,
            // Matched is all that a synchronous message needs; one that is pulled needs its data taken as well.
            Some(DoneStatus::Matched) => {
                !self.kept && u64::from(self.unscheduled) == self.descriptor.segments.bytes()
            }
            Some(DoneStatus::Complete | DoneStatus::Abandoned) => true,
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

/// Marks one frame as arrived.
fn acknowledge(active: &mut Active, sequence: Sequence, progress: &mut Progress) {
    let frame = *active.frame(sequence);
    match frame.state {
        FrameState::Acked | FrameState::Unsent => return,
        FrameState::InFlight => active.in_flight -= 1,
        FrameState::Lost => active.lost -= 1,
    }
    active.frame_mut(sequence).state = FrameState::Acked;
    progress.acked += 1;
    if (frame.order.wrapping_sub(active.acked_order) as i32) > 0 {
        active.acked_order = frame.order;
    }
    // Karn: a retransmitted frame does not say which copy was acknowledged.
    if !frame.resent
        && progress.sample.is_none_or(|(order, _)| (frame.order.wrapping_sub(order) as i32) > 0)
    {
        progress.sample = Some((frame.order, frame.sent_us));
    }
    if let Some(index) = active.record_of(sequence) {
        let record = &mut active.records[index];
        record.acked += 1;
        if matches!(record.what, What::Control(Control::NotReady { .. })) {
            progress.confirmed += 1;
        }
        // What is acknowledged was taken: messages may follow each other again.
        if matches!(record.what, What::Message { .. }) && sequence == record.first {
            active.refusals = 0;
        }
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

/// Marks what must be resent for one lost frame, as the profile has it.
pub(super) fn mark_unit_lost(
    active: &mut Active,
    sequence: Sequence,
    unit: RetransmitUnit,
    collection: u32,
) {
    active.mark_lost(sequence);
    if unit == RetransmitUnit::Frame {
        return;
    }
    let Some(index) = active.record_of(sequence) else { return };
    let (first, end) = {
        let record = &active.records[index];
        let place = sequence.since(record.first) as u32;
        match unit {
            RetransmitUnit::Frame => return,
            RetransmitUnit::Collection => {
                let n = collection.max(1);
                let start = place / n * n;
                (record.first.plus(start), record.first.plus((start + n).min(record.count)))
            }
            RetransmitUnit::Train => (record.first, record.first.plus(record.count)),
            RetransmitUnit::Window => {
                let last = active.records.back().expect("there is a record");
                (sequence, last.first.plus(last.count))
            }
        }
    };
    let mut at = if first.before(active.unacked) { active.unacked } else { first };
    let limit = active.unacked.plus(crate::limits::WINDOW_FRAMES);
    while at.before(end) && at.before(limit) {
        active.mark_lost(at);
        at = at.plus(1);
    }
}
