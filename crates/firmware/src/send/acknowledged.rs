//! Receive acknowledgement (I3): what the peer has is released, what it misses is found lost (RACK's way: by order of
//! transmission, not of sequence). There is one intake, of a range of frames: most often of one, which is all of a message.

use alloc::vec::Vec;

use emp_wire::{AckDelay, SACK_WORDS_MAX, Sequence};

use super::active::Active;
use super::record::{Frame, FrameState, Record, What};
use super::tail::untaken;
use super::window::{Further, on_acked, rtt_mut};
use super::{SendPeer, SendSide, State, Work};
use crate::counters::Counter;
use crate::cross::Explicit;
use crate::descriptor::Status;
use crate::limits::PATHS_MAX;
use crate::path::PathId;
use crate::path::congestion::Acked;
use crate::time::{Span, Time};

/// What an acknowledgement was of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It brought nothing.
    Nothing,
    /// A train of one frame, which was sent once: nothing else can have changed with it.
    Lone,
    Range,
}

/// When an acknowledgement came, and for how long nobody may have looked then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    pub(super) at: Time,
    pub(super) unseen_us: u16,
}

impl Came {
    /// In microseconds (wrapping), as frames are stamped when they leave.
    const fn us(&self) -> u32 {
        (self.at.0 / 1_000) as u32
    }
}

/// What one acknowledgement brought.
#[derive(Default)]
struct Progress {
    /// By path.
    by: [PathProgress; PATHS_MAX],
    /// Paths of which something has arrived, a bit each.
    paths: u8,
    /// Paths of which a question ([`tail`](super::tail)) was answered: the path works, but what was asked after has not got any further by
    /// that. It was not answered by itself, either.
    answered: u8,
    /// A retransmission was among what arrived: frames behind it may have waited for it, not for the wire.
    resent: bool,
}

/// What it brought of one path.
#[derive(Clone, Copy, Default)]
struct PathProgress {
    bytes: u32,
    /// Place of the latest of them in the path's order of transmission.
    last: u32,
    /// Order, send time and bytes of the latest transmission that arrived of those frames that were sent once.
    sample: Option<(u32, u32, u16)>,
    /// When the latest copy left of those frames that were resent and have arrived: what arrived long before and is acknowledged only now,
    /// as a gap before it was filled, waited for that.
    copy_sent: Option<u32>,
}

/// What an acknowledgement says beside the frames that it names.
struct Answer {
    came: Came,
    delay: AckDelay,
    marked: bool,
    /// It names frames beyond a gap.
    selective: bool,
    /// The frame that came last at the receiver, if that is outstanding.
    latest: Option<Frame>,
    /// For so long nothing had been acknowledged.
    waited: Span,
    /// Something that it names was sent again, or is a question.
    resent: bool,
    questioned: bool,
}

impl Answer {
    /// One that rides on another frame says nothing else.
    #[inline(always)]
    fn riding(came: Came, waited: Span) -> Self {
        let (delay, latest) = (AckDelay::default(), None);
        let (marked, selective, resent, questioned) = (false, false, false, false);
        Self { came, delay, marked, selective, latest, waited, resent, questioned }
    }
}

/// How long an acknowledgement was held back on purpose at most, in microseconds: far longer than any profile says. Who says more did not
/// run in between, and may not the next time: that is part of the round trip, which the timer has to be longer than.
const HELD_BACK_MAX_US: u32 = 10_000;

impl SendSide {
    /// The peer acknowledges all before `cumulative`, and what the bits say after it (`ACK-1`, `ACK-2`). What was never sent
    /// can't have come (`ACK-4`).
    pub(crate) fn on_ack(
        &mut self,
        now: Time,
        peer: u32,
        cumulative: Sequence,
        explicit: Option<Explicit>,
    ) {
        self.settle_acks(now);
        self.take_in_and_go_on(now, self.came(now), peer, cumulative, explicit);
    }

    /// An acknowledgement is taken in, and what waited for that has its turn.
    pub(super) fn take_in_and_go_on(
        &mut self,
        now: Time,
        came: Came,
        peer: u32,
        cumulative: Sequence,
        explicit: Option<Explicit>,
    ) {
        if self.take_in(now, came, peer, cumulative, explicit) != Taken::Nothing {
            self.go_on(now, peer);
        }
    }

    /// One that comes now.
    #[inline]
    pub(super) const fn came(&self, now: Time) -> Came {
        Came { at: now, unseen_us: self.unseen_us }
    }

    /// The intake of every acknowledgement: what it names has arrived, what it passes over may be lost, and whole trains are told of. What its arrival makes possible is the caller's ([`go_on`](Self::go_on)).
    #[inline]
    pub(super) fn take_in(
        &mut self,
        now: Time,
        came: Came,
        peer: u32,
        cumulative: Sequence,
        explicit: Option<Explicit>,
    ) -> Taken {
        let entry = &mut self.peers[peer];
        let lone = |active: &Active| lone(active, cumulative).filter(|_| explicit.is_none());
        let Some((message, frame)) = entry.active.as_deref().and_then(lone) else {
            let news = self.take_range(now, came, peer, cumulative, explicit);
            return if news { Taken::Range } else { Taken::Nothing };
        };
        // A range of one frame, which is all of its train and was sent once: so nothing else changes with it.
        let active = entry.active.as_deref_mut().expect("just seen");
        let (first, path) = (active.unacked, frame.path);
        let answer = Answer::riding(came, now.since(active.acked_at));
        active.arrived(&frame);
        active.advance(cumulative);
        active.refusals = 0;
        active.records.pop_front();
        let (further, delay) = (&mut self.further, self.profile.ack_delay);
        entry.path_acked(now, path, &PathProgress::of(&frame), &answer, (further, delay));
        self.tell_measured(now, peer);
        self.train_acked(peer, (message, first, path), Some(came));
        Taken::Lone
    }

    /// The same of any range. False: it brought nothing.
    #[inline(never)]
    fn take_range(
        &mut self,
        now: Time,
        came: Came,
        peer: u32,
        cumulative: Sequence,
        explicit: Option<Explicit>,
    ) -> bool {
        let marked = explicit.is_some_and(|ack| ack.marked);
        if marked {
            // A window of its own, to be shrunk.
            self.congestion_mut(peer, PathId::FIRST);
        }
        let entry = &mut self.peers[peer];
        let sent_end = entry.next;
        let too_far = cumulative.since(sent_end) > 0;
        let active = entry.active.as_deref_mut();
        let knows = |active: &Active| !too_far && acknowledges_only_sent(active, cumulative);
        if active.as_deref().map_or(too_far, |active| !knows(active)) {
            self.counters.count(Counter::DropBadAck);
            return false;
        }
        let Some(active) = active else { return false };
        let ahead = cumulative.since(active.unacked);
        let sack = explicit.as_ref().map(|ack| &ack.sack);
        let sack = sack.filter(|words| words.iter().any(|word| *word != 0));
        let untaken = explicit.and_then(|ack| untaken(active, cumulative, &ack));
        // Looked up before its place may be taken by another frame.
        let latest = explicit.and_then(|ack| latest(active, sent_end, ack.latest));
        if ahead <= 0 && sack.is_none() && untaken.is_none() {
            self.measure_dropped(came, peer, explicit.zip(latest));
            return false;
        }
        let answered = latest.filter(|frame| {
            let windows = (&mut entry.rtt, &mut entry.further);
            let rtt = rtt_mut(windows, &mut self.further, frame.path);
            arrived(frame, came.us(), rtt.answered_us(frame.is_long()))
        });
        let mut progress = Progress::default();
        for _ in 0..ahead.max(0) {
            acknowledge(active, active.unacked, &mut progress);
            active.advance(active.unacked.plus(1));
        }
        if let Some(words) = sack {
            selective(active, cumulative, words, &mut progress);
        }
        let waited = now.since(active.acked_at);
        let delay = explicit.map(|ack| ack.delay).unwrap_or_default();
        let answer = Answer {
            delay,
            marked,
            latest,
            selective: sack.is_some(),
            resent: progress.resent,
            questioned: progress.answered != 0,
            ..Answer::riding(came, waited)
        };
        for path in PathId::of_bits(progress.answered) {
            active.flight_mut(path).delivered_at = now;
        }
        for path in PathId::of_bits(progress.paths) {
            let (further, delay) = (&mut self.further, self.profile.ack_delay);
            entry.path_acked(now, path, &progress.by[path.index()], &answer, (further, delay));
        }
        self.tell_measured(now, peer);
        let active = self.peers[peer].active.as_deref_mut().expect("it was there above");
        if let Some(frame) = answered {
            active.note_arrived(&frame);
        }
        // An answer to a probe says of all frames sent before it that it does not name that they are lost. A question leaves before what
        // has lower numbers: a receiver that takes nothing out of turn has dropped it when it answers those.
        let probed = explicit.is_some() && progress.resent && self.profile.selective_acks;
        if sack.is_some() || probed || untaken.is_some() || active.is_overtaken() {
            self.find_lost(now, peer);
        }
        if let Some(sequence) = untaken {
            self.was_untaken(peer, sequence);
        }
        let waited = Span::us(u64::from(delay.held_us) + u64::from(delay.unseen_us));
        let at = Time(came.at.0.saturating_sub(waited.0));
        self.release(peer, Some(Came { at, ..came }).filter(|_| !progress.resent));
        true
    }

    /// What a receiver dropped behind a gap, as it takes nothing out of turn, has come as what it takes does. If it was sent once it measures the
    /// round trip: nothing else does where most frames are resent (`ACK-5`).
    #[cold]
    fn measure_dropped(&mut self, came: Came, peer: u32, dropped: Option<(Explicit, Frame)>) {
        let Some((Explicit { delay, .. }, frame)) = dropped else { return };
        let counts = !frame.resent && frame.state != FrameState::Acked;
        if !counts || u32::from(delay.held_us) >= HELD_BACK_MAX_US {
            return;
        }
        let Some(us) = passed_us(came.us(), frame.sent_us) else { return };
        let entry = &mut self.peers[peer];
        let rtt = rtt_mut((&mut entry.rtt, &mut entry.further), &mut self.further, frame.path);
        rtt.on_sample(us.saturating_sub(delay.held_us.into()), came.us());
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

    /// Takes finished records off the front. `came`: when the last of them had arrived and its answer left at once, if nothing of it was sent
    /// again.
    fn release(&mut self, peer: u32, came: Option<Came>) {
        loop {
            let active = self.peers[peer].active.as_deref_mut().expect("caller has seen it");
            let Some(record) = active.records.pop_front_if(|front| front.acked == front.count)
            else {
                return;
            };
            match record.what {
                What::Message { message, .. } => {
                    self.train_acked(peer, (message, record.first, record.path), came);
                }
                What::Control(control) => self.replied.extend(control.values()),
                _ => {}
            }
        }
    }

    /// All of a message's train has arrived, which began with this number and took this path.
    #[inline(always)]
    fn train_acked(
        &mut self,
        peer: u32,
        train @ (index, ..): (u32, Sequence, PathId),
        came: Option<Came>,
    ) {
        if self.times_messages {
            self.time(peer, train, came);
        }
        let Some(message) = self.messages.at_mut(index) else { return };
        let (told, work) = (message.is_told(), message.work);
        let told = match message.state {
            State::AwaitingBoth => {
                message.state = State::AwaitingDone;
                let active = self.peers[peer].active.as_deref_mut().expect("it had a record");
                self.awaiting.push_back(&mut active.awaiting, index);
                return self.note_awaited(peer);
            }
            // Blocks of it may still wait to be sent again.
            State::AwaitingAck => false,
            _ => {
                message.state = State::Over;
                told
            }
        };
        self.over(index, work, if told { None } else { Some(Status::Ok) });
    }

    /// A message is over for its receiver. Its host is told how, if it was not (`None`: it was, and nothing is left to leave), and it is
    /// forgotten.
    #[inline(always)]
    pub(super) fn over(&mut self, index: u32, work: Work, status: Option<Status>) {
        if let Some(status) = status {
            self.end(index, status);
        }
        self.counters.count(match work {
            Work::Message => Counter::MessagesSent,
            Work::Put { .. } => Counter::Puts,
            Work::Atomic { .. } => Counter::Atomics,
        });
        self.forget(index);
    }
}

impl SendPeer {
    /// Something that took this path was acknowledged: its timer begins anew, and its round trip and window take that in.
    #[inline(always)]
    fn path_acked(
        &mut self,
        now: Time,
        path: PathId,
        progress: &PathProgress,
        answer: &Answer,
        (further, ack_delay): (&mut Vec<Further>, Span),
    ) {
        let Answer { came, delay, waited, .. } = *answer;
        let PathProgress { bytes, last, sample, copy_sent } = *progress;
        let Some(active) = self.active.as_deref_mut() else { return };
        active.acked_at = now;
        let flight = active.flight_mut(path);
        let runs = core::mem::take(&mut flight.backoff);
        (flight.progress_at, flight.delivered_at) = (now, now);
        let next = flight.order.wrapping_add(1);
        let drained = flight.in_flight == 0;
        let rtt = rtt_mut((&mut self.rtt, &mut self.further), further, path);
        let since_copy = copy_sent.and_then(|sent_us| passed_us(came.us(), sent_us));
        let resent = answer.resent && !rtt.is_too_soon(since_copy, waited);
        // How long the receiver sat on it is known of the frame that came last, not of those by another path. What came long before, and
        // whose acknowledgements were lost, did not take so long.
        let is_latest =
            |order| answer.latest.is_none_or(|latest| latest.path == path && latest.order == order);
        let measured = sample
            .filter(|(order, ..)| (!resent || answer.selective) && is_latest(*order))
            .filter(|_| !(answer.questioned && answer.selective))
            .and_then(|(_, sent_us, _)| passed_us(came.us(), sent_us))
            .map(|passed_us| {
                passed_us.saturating_sub(u32::from(delay.held_us).min(HELD_BACK_MAX_US))
            });
        match measured {
            Some(sample_us) => rtt.on_sample(sample_us, came.us()),
            None => rtt.on_unclear_answer(since_copy, (waited, runs), ack_delay),
        }
        rtt.on_progress();
        if self.further != 0 {
            // A timer has to be longer than the time for which nobody looked; a window is not to shrink for it (`WINDOW-2`).
            let unseen_us = u32::from(delay.unseen_us) + u32::from(came.unseen_us);
            let sample_us = measured.map(|us| us.saturating_sub(unseen_us));
            let sample_bytes = sample.map_or(0, |(.., bytes)| bytes.into());
            let marked = if answer.marked { bytes } else { 0 };
            let news = Acked { bytes, order: last, next, sample_us, sample_bytes, marked };
            on_acked(self.further, further, path, (&self.rtt, &news, came.at, drained));
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

/// The message and the frame that an acknowledgement up to `cumulative` is of, if it is of one frame, which is all of a train and was sent once.
#[inline(always)]
fn lone(active: &Active, cumulative: Sequence) -> Option<(u32, Frame)> {
    if cumulative != active.unacked.plus(1) {
        return None;
    }
    let &Record { count, what, .. } = active.records.front()?;
    let What::Message { message, .. } = what else { return None };
    let frame = *active.frame(active.unacked);
    let alone = count == 1 && frame.state == FrameState::InFlight && !frame.resent;
    alone.then_some((message, frame))
}

/// Marks one frame as arrived.
fn acknowledge(active: &mut Active, sequence: Sequence, progress: &mut Progress) {
    let frame = *active.frame(sequence);
    if matches!(frame.state, FrameState::Acked | FrameState::Unsent) {
        return;
    }
    active.frame_mut(sequence).state = FrameState::Acked;
    active.arrived(&frame);
    progress.resent |= frame.resent;
    let mut question = false;
    if let Some(index) = active.record_of(sequence) {
        let record = &mut active.records[index];
        record.acked += 1;
        question = matches!(record.what, What::Question);
        // What is acknowledged was taken: messages may follow each other again.
        if matches!(record.what, What::Message { .. }) && sequence == record.first {
            active.refusals = 0;
        }
    }
    if question {
        progress.answered |= frame.path.bit();
    } else {
        let known = progress.paths & frame.path.bit() != 0;
        progress.paths |= frame.path.bit();
        let path = &mut progress.by[frame.path.index()];
        *path = if known { path.with(&frame) } else { PathProgress::of(&frame) };
    }
}

impl Active {
    /// A frame that was in flight, or was found lost, has arrived.
    #[inline(always)]
    fn arrived(&mut self, frame: &Frame) {
        if frame.state == FrameState::Lost {
            self.flights.finds(frame.path);
            // It had only been overtaken, unless a timer found it, or it came too early to be taken.
            let flight = self.flight_mut(frame.path);
            if !frame.is_long() && flight.backoff == 0 {
                flight.recovery.on_reordering();
            }
        } else {
            self.flights.arrives(frame.path, frame.load);
        }
        if frame.is_long() {
            let flight = self.flight_mut(frame.path);
            flight.strikes = flight.strikes.saturating_sub(1);
        }
        // Karn: a retransmitted frame does not say which copy was acknowledged.
        if !frame.resent {
            self.note_arrived(frame);
            self.repairs = 0;
        }
    }

    /// The oldest frame is acknowledged, and this is the next.
    #[inline(always)]
    fn advance(&mut self, next: Sequence) {
        *self.frame_mut(self.unacked) = Frame::default();
        self.unacked = next;
    }
}

impl PathProgress {
    /// One frame's.
    #[inline(always)]
    fn of(frame: &Frame) -> Self {
        let Frame { order, sent_us, resent, load, .. } = *frame;
        let sample = if resent { None } else { Some((order, sent_us, load.bytes)) };
        let copy_sent = if resent { Some(sent_us) } else { None };
        Self { bytes: load.bytes.into(), last: order, sample, copy_sent }
    }

    /// Its and another frame's.
    fn with(self, frame: &Frame) -> Self {
        let more = Self::of(frame);
        let later = |order: u32, than: u32| (order.wrapping_sub(than) as i32) > 0;
        let sample = match (self.sample, more.sample) {
            (Some(known), Some(other)) if !later(other.0, known.0) => Some(known),
            (known, other) => other.or(known),
        };
        let copy_sent = match (self.copy_sent, more.copy_sent) {
            (Some(known), Some(other)) if passed_us(other, known).is_none() => Some(known),
            (known, other) => other.or(known),
        };
        let last = if later(more.last, self.last) { more.last } else { self.last };
        Self { bytes: self.bytes + more.bytes, last, sample, copy_sent }
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
