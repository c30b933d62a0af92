//! What is kept of a peer while something is under way to it: its records, the frames of its window, what waits to leave.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use arrayvec::ArrayVec;
use emp_wire::Sequence;

use super::flight::{Flight, Flights};
use super::record::{Frame, FrameState, Load, Record, What};
use super::tail::Tail;
use crate::cross::Control;
use crate::limits::{INTERFACES_MAX, WINDOW_FRAMES};
use crate::path::PathId;
use crate::tables::by_peer::List;
use crate::time::Time;

/// What a long frame counts as until the next acknowledgement is requested, where others count as one: every ninth of a window of twelve
/// requests one, so that some are left to be received while the answer is under way, which takes as long as a quarter of a frame.
const REQUEST_LONG: u32 = 2;

/// As how many bytes the frames are taken at whose room left in the window has acknowledgements asked for.
const ASK_UNIT_BYTES: u32 = 1_500;

/// What a peer costs while something is under way to it. Boxed, and reused when it is idle again.
pub(super) struct Active {
    pub(super) window: [Frame; WINDOW_FRAMES as usize],
    pub(super) records: VecDeque<Record>,
    /// Messages to be sent, in order.
    pub(super) pending: VecDeque<u32>,
    /// Messages whose unscheduled part is acknowledged and that wait for a `done`.
    pub(super) awaiting: List,
    /// Blocks that the peer has asked for.
    pub(super) blocks: VecDeque<What>,
    pub(super) controls: VecDeque<Control>,
    /// Oldest sequence number that is not acknowledged.
    pub(super) unacked: Sequence,
    pub(super) flights: Flights,
    /// What left since an acknowledgement was last requested: a frame counts as one, a long one as [`REQUEST_LONG`].
    pub(super) since_request: u32,
    /// The frame that requested one last.
    pub(super) requested: Sequence,
    /// Timer runs since a frame was acknowledged that had been sent only once.
    pub(super) repairs: u32,
    /// Lost frames that may be resent although the window is full: what the last run of the timer found, within reason.
    pub(super) credit: u32,
    /// Refusals since the last message that was taken.
    pub(super) refusals: u32,
    /// When long frames were last found to get through, in microseconds (wrapping): what was last sent before that left in slices, and what
    /// becomes of it says nothing of the way. `None`: nothing was.
    pub(super) long_from_us: Option<u32>,
    /// Last time something was acknowledged, or nothing was in flight; timers do not move it.
    pub(super) acked_at: Time,
    /// The frame that left when nothing had been under way, the last time, and when that was.
    pub(super) began: (Sequence, Time),
    /// Last time that any frame came from the peer, or that we began to wait for one.
    pub(super) heard_at: Time,
    /// What is not here then is lost, if nothing else says so sooner (`RESEND-1`).
    pub(super) lost_at: Option<Time>,
    /// A frame that is longer than its path's window may leave then (`WINDOW-4`).
    pub(super) paced: Option<Time>,
    /// Slots of the pool that its messages have (`SHARE-1`).
    pub(super) copied_slots: u32,
    /// No message may be started before.
    pub(super) ready_at: Time,
    /// The node was told to look for another route.
    pub(super) suspected: bool,
    /// What of the current train was never sent: `train_next .. train_end`.
    pub(super) train_next: Sequence,
    pub(super) train_end: Sequence,
    /// The same of trains that wait for their path's window while the current one takes another interface ([`striping`](super::striping)).
    pub(super) parked: ArrayVec<(Sequence, Sequence), INTERFACES_MAX>,
    /// A frame of no train that has its number and has not left: there was no room for it in a batch.
    pub(super) alone: Option<Sequence>,
    /// Whose turn it is between blocks and messages.
    pub(super) message_turn: bool,
    /// The long frame that left last.
    pub(super) tail: Tail,
}

impl Active {
    /// One that is made where it is to be: few are, and nobody needs room for it on the stack.
    #[cold]
    #[inline(never)]
    pub(super) fn fresh() -> Box<Self> {
        Box::new(Self::new())
    }

    fn new() -> Self {
        Self {
            window: [Frame::default(); WINDOW_FRAMES as usize],
            records: VecDeque::new(),
            pending: VecDeque::new(),
            awaiting: List::default(),
            blocks: VecDeque::new(),
            controls: VecDeque::new(),
            unacked: Sequence(0),
            flights: Flights::default(),
            since_request: 0,
            requested: Sequence(u32::MAX),
            repairs: 0,
            credit: 0,
            refusals: 0,
            long_from_us: None,
            acked_at: Time::default(),
            began: (Sequence(0), Time::default()),
            heard_at: Time::default(),
            lost_at: None,
            paced: None,
            copied_slots: 0,
            ready_at: Time::default(),
            suspected: false,
            train_next: Sequence(0),
            train_end: Sequence(0),
            parked: ArrayVec::new(),
            alone: None,
            message_turn: false,
            tail: Tail::new(Sequence(u32::MAX)),
        }
    }

    /// A frame that requests an acknowledgement is under way: it will be answered, or resent.
    pub(super) fn is_requesting(&self) -> bool {
        let ahead = self.requested.since(self.unacked) as u32;
        ahead < WINDOW_FRAMES && self.frame(self.requested).state == FrameState::InFlight
    }

    /// An acknowledgement is to be asked for with a frame of so many bytes: there is room for less than `below` frames behind it, and
    /// `collection` left since it was last asked for; or there is room for none.
    #[inline]
    pub(super) fn asks(
        &self,
        (path, sequence): (PathId, Sequence),
        (bytes, window): (u32, u32),
        (below, collection): (u32, u32),
    ) -> bool {
        let left = window.saturating_sub(self.flight(path).in_flight + bytes);
        let numbers = WINDOW_FRAMES.saturating_sub(sequence.since(self.unacked) as u32 + 1);
        let (little, none) = (left / ASK_UNIT_BYTES < below, left < bytes);
        little | (numbers < below)
            && (self.since_request >= collection || none | (numbers == 0) && !self.is_requesting())
    }

    /// A frame requests an acknowledgement.
    #[inline]
    fn note_request(&mut self, sequence: Sequence) {
        (self.since_request, self.requested) = (0, sequence);
    }

    /// A frame leaves by this path; gives its place in the path's order of transmission.
    #[inline(always)]
    fn note_departure(
        &mut self,
        sequence: Sequence,
        (path, load): (PathId, Load),
        now: Time,
    ) -> u32 {
        self.since_request += if load.long { REQUEST_LONG } else { 1 };
        if !self.is_flying() {
            (self.acked_at, self.heard_at, self.began) = (now, now, (sequence, now));
        }
        let flight = self.flight_mut(path);
        // What a probe found lost begins anew. What a question did without one goes on: it would be asked for ever.
        if !flight.is_waiting() || flight.in_flight == 0 && flight.backoff > 0 {
            flight.progress_at = now;
        }
        flight.order = flight.order.wrapping_add(1);
        flight.left_at = now;
        let order = flight.order;
        self.flights.departs(path, load);
        order
    }

    /// A frame leaves by this path, for the first time or again, and may request an acknowledgement. True if it had been found lost.
    #[inline(always)]
    pub(super) fn on_left(
        &mut self,
        sequence: Sequence,
        (path, load): (PathId, Load),
        request: bool,
        now: Time,
    ) -> bool {
        let order = self.note_departure(sequence, (path, load), now);
        let frame = self.frame_mut(sequence);
        let (before, lost_by) = (frame.state, frame.path);
        *frame = Frame {
            order,
            sent_us: (now.0 / 1_000) as u32,
            state: FrameState::InFlight,
            resent: before != FrameState::Unsent,
            path,
            load,
        };
        if request {
            self.note_request(sequence);
        }
        if load.long {
            self.tail.left(sequence, now);
        }
        let lost = before == FrameState::Lost;
        self.alone = self.alone.filter(|alone| *alone != sequence);
        if lost {
            self.flights.finds(lost_by);
            self.credit = self.credit.saturating_sub(1);
        } else if sequence == self.train_next {
            // What is of no train leaves none behind it, either.
            if self.train_next == self.train_end {
                self.train_end = sequence.plus(1);
            }
            self.train_next = sequence.plus(1);
        }
        lost
    }

    /// A transmission has arrived.
    #[inline]
    pub(super) const fn note_arrived(&mut self, frame: &Frame) {
        self.flight_mut(frame.path).recovery.on_arrived(frame.departure());
    }

    pub(super) const fn flight(&self, path: PathId) -> &Flight {
        self.flights.of(path)
    }

    pub(super) const fn flight_mut(&mut self, path: PathId) -> &mut Flight {
        self.flights.of_mut(path)
    }

    /// Frames found lost and not sent again yet.
    pub(super) const fn lost(&self) -> u32 {
        self.flights.lost
    }

    /// Something waits for an acknowledgement or to be sent again.
    pub(super) const fn is_flying(&self) -> bool {
        self.flights.waiting > 0
    }

    /// Makes it as new for a peer whose next sequence number is `next`. Its queues keep their memory, within reason.
    pub(super) fn restart(&mut self, next: Sequence, now: Time) {
        /// Entries that an idle queue may keep room for.
        const KEPT: usize = 64;
        self.records.clear();
        self.pending.clear();
        self.awaiting = List::default();
        self.blocks.clear();
        self.controls.clear();
        if self.pending.capacity() > KEPT || self.blocks.capacity() > KEPT {
            self.pending.shrink_to(KEPT);
            self.blocks.shrink_to(KEPT);
            self.records.shrink_to(KEPT);
            self.controls.shrink_to(KEPT);
        }
        if self.is_flying() {
            self.window = [Frame::default(); WINDOW_FRAMES as usize];
        }
        (self.unacked, self.train_next, self.train_end) = (next, next, next);
        self.parked.clear();
        self.alone = None;
        // Transmissions are counted on from the frames' number: only their order counts, and so tests reach their wrap as well.
        self.flights.restart(next.0, now);
        (self.since_request, self.repairs, self.refusals) = (0, 0, 0);
        self.credit = 0;
        self.copied_slots = 0;
        (self.long_from_us, self.requested) = (None, next.minus(1));
        self.tail = Tail::new(next.minus(1));
        (self.acked_at, self.heard_at, self.began) = (now, now, (next, now));
        (self.ready_at, self.paced, self.lost_at) = (Time::default(), None, None);
        (self.suspected, self.message_turn) = (false, false);
    }

    pub(super) fn frame(&self, sequence: Sequence) -> &Frame {
        &self.window[(sequence.0 % WINDOW_FRAMES) as usize]
    }

    pub(super) fn frame_mut(&mut self, sequence: Sequence) -> &mut Frame {
        &mut self.window[(sequence.0 % WINDOW_FRAMES) as usize]
    }

    /// Index of the record that a sequence number belongs to.
    pub(super) fn record_of(&self, sequence: Sequence) -> Option<usize> {
        // Acknowledgements concern the first record, transmissions the last: seldom is a search needed.
        for index in [0, self.records.len().wrapping_sub(1)] {
            if self.is_in(sequence, index)? {
                return Some(index);
            }
        }
        let after = self.records.partition_point(|record| !sequence.before(record.first));
        let index = after.checked_sub(1)?;
        let record = &self.records[index];
        ((sequence.since(record.first) as u32) < record.count).then_some(index)
    }

    /// Whether a sequence number belongs to this record, if there is such a record.
    #[inline]
    fn is_in(&self, sequence: Sequence, index: usize) -> Option<bool> {
        let record = self.records.get(index)?;
        Some((0..record.count as i32).contains(&sequence.since(record.first)))
    }

    /// Marks a frame that is in flight as lost.
    pub(super) fn mark_lost(&mut self, sequence: Sequence) {
        let frame = self.frame_mut(sequence);
        if frame.state == FrameState::InFlight {
            frame.state = FrameState::Lost;
            let (path, load) = (frame.path, frame.load);
            self.flights.loses(path, load);
        }
    }

    /// After a refusal: the first frame of the current train is not known to be taken, so the rest is not worth sending.
    pub(super) fn in_doubt(&self) -> bool {
        self.refusals > 0
            && self.record_of(self.train_next).is_some_and(|index| {
                let record = &self.records[index];
                let begun = record.first != self.train_next;
                matches!(record.what, What::Message { .. }) && begun && record.acked == 0
            })
    }

    /// The next message may begin: after a refusal only one tries its luck, until it is taken.
    pub(super) fn may_begin_message(&self, now: Time) -> bool {
        let barred = self.refusals > 0 && self.trying();
        !self.pending.is_empty() && now >= self.ready_at && !barred
    }

    /// A message's train is under way.
    pub(super) fn trying(&self) -> bool {
        self.records.iter().any(|record| matches!(record.what, What::Message { .. }))
    }

    /// If the current train was withdrawn, its end that was never sent need not be sent at all: gives the first number
    /// that is free again. Only if no control frame has taken a number behind it.
    pub(super) fn drop_unsent(&mut self) -> Option<Sequence> {
        let last = self.records.back()?;
        let (first, last_end) = (last.first, last.first.plus(last.count));
        let sent = self.sent_of(first, last.count);
        if !matches!(last.what, What::Skip) || sent == 0 || sent == last.count {
            return None;
        }
        self.records.back_mut()?.count = sent;
        let (end, free) = (last_end, first.plus(sent));
        if self.train_end == end {
            self.train_end = self.train_next;
        }
        self.parked.retain(|(_, parked)| *parked != end);
        Some(free)
    }

    /// Replaces what is left of a message's frames by skips, and takes it out of the queue of messages to be sent, which may be long, if it
    /// is `queued` there.
    pub(super) fn skip_message(&mut self, index: u32, queued: bool) {
        self.skip(|what| what.message() == Some(index));
        if queued {
            self.pending.retain(|other| *other != index);
        }
    }

    /// Replaces what is left of a message's blocks by skips, and takes those out that wait.
    pub(super) fn skip_blocks(&mut self, index: u32) {
        self.skip(|what| matches!(what, What::Block { message, .. } if *message == index));
    }

    /// Replaces what is left of some frames by skips, and takes blocks of the same out that wait.
    fn skip(&mut self, mut is_of: impl FnMut(&What) -> bool) {
        for record in &mut self.records {
            if is_of(&record.what) {
                record.what = What::Skip;
            }
        }
        self.blocks.retain(|block| !is_of(block));
    }

    /// Replaces what is left of a region's blocks by skips and takes those out that wait; calls `refuse` with the name of
    /// each get that will not be answered.
    pub(super) fn skip_region(&mut self, region: u32, mut refuse: impl FnMut(u32)) {
        self.skip(|what| match what {
            What::Region(block) if block.region == region => {
                refuse(block.handle);
                true
            }
            _ => false,
        });
    }

    /// True if nothing is queued, under way or awaited.
    pub(super) fn is_idle(&self) -> bool {
        self.records.is_empty()
            && self.pending.is_empty()
            && self.awaiting.first().is_none()
            && self.blocks.is_empty()
            && self.controls.is_empty()
    }

    /// True if nothing could be sent before more is acknowledged or posted, whatever the window.
    pub(super) fn is_waiting(&self) -> bool {
        self.lost() == 0
            && self.train_next == self.train_end
            && self.parked.is_empty()
            && self.alone.is_none()
            && self.pending.is_empty()
            && self.blocks.is_empty()
            && self.controls.is_empty()
    }
}

#[cfg(test)]
mod tests;
