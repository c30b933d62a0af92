//! Transmission (I2): chooses the next frame of each peer. How it leaves is in [`leaving`](super::leaving).

use emp_wire::{DoneStatus, LONG_FRAME_BYTES, Sequence};

use super::active::Active;
use super::leaving::Leaving;
use super::long::load_of;
use super::record::{FrameState, Load, What};
use super::{SendMessage, SendPeer, SendSide};
use crate::counters::Counter;
use crate::cross::{Control, Cross, Replies, RouteNews};
use crate::descriptor::Status;
use crate::encode::EncodeError;
use crate::limits::WINDOW_FRAMES;
use crate::memory::HostMemory;
use crate::pair::Peers;
use crate::path::stripe::STRIPED_FRAMES_MIN;
use crate::path::table::Target;
use crate::path::unit::room_bytes;
use crate::path::{PathId, Paths, pacing};
use crate::time::Time;
use crate::transmit::TransmitBatch;

/// Bytes that control frames may have in flight beyond the window: they are what opens it again. Of eight frames of Ethernet's usual MTU.
const RESERVE_BYTES: u32 = 12_000;

/// How long a control frame is, or nearly.
const CONTROL_BYTES: u32 = Load::SHORT.bytes as u32;

/// Where frames go, and what is needed to build them.
pub(crate) struct Outlet<'a, M> {
    pub(crate) peers: &'a Peers,
    pub(crate) cross: &'a Cross,
    /// `None` while the receive side has them to itself: then nothing of them is to be sent.
    pub(crate) replies: Option<&'a mut Replies>,
    pub(crate) memory: &'a M,
    pub(crate) batch: &'a mut TransmitBatch,
}

impl SendSide {
    /// Fills the batch from the peers that are ready, a peer at a time in turn.
    pub(crate) fn poll(&mut self, now: Time, out: &mut Outlet<'_, impl HostMemory>) {
        while !out.batch.is_full() {
            let Some(peer) = self.ready.pop_front() else { return };
            self.peers[peer].queued = false;
            let whole = self.serve(now, peer, out);
            if !whole || out.batch.is_full() {
                // It may have more; others come first.
                self.mark_ready(peer);
            }
            if !whole {
                return;
            }
        }
    }

    /// The same for the node itself as a peer.
    pub(crate) fn poll_loopback(&mut self, now: Time, out: &mut Outlet<'_, impl HostMemory>) {
        if let (Some(peer), true) = (self.loopback, self.loopback_ready) {
            self.loopback_ready = false;
            let whole = self.serve(now, peer, out);
            self.loopback_ready |= !whole || out.batch.is_full();
        }
    }

    /// Adds a peer's frames to the batch. False: the batch is to be sent as it is, because the part of a train that it holds is
    /// worth a call, or because the next train would only begin in it, and is better off whole in the next.
    fn serve(&mut self, now: Time, peer: u32, out: &mut Outlet<'_, impl HostMemory>) -> bool {
        let mut whole = true;
        let mut part = None;
        let paths = out.peers.paths(peer);
        if let Some(active) = self.peers[peer].active.as_deref_mut() {
            active.paced = None;
        }
        while !out.batch.is_full() {
            let (peers, memory) = (out.peers, out.memory);
            let reads = || {
                let route = peers[peer].route();
                route.is_some_and(|(link, &to)| memory.stamp(link, to).is_some())
            };
            let Some(sequence) = self.choose(now, peer, &paths, reads) else {
                break;
            };
            // What is no part of a train may have been taken from where it waited, to leave now.
            let of_train = self.train_goes_on_with(peer) == Some(sequence);
            let would_wait = paths.several
                && of_train
                && self.would_wait_for_another(peer, sequence, &paths, out.batch);
            if would_wait {
                out.batch.end();
            }
            if would_wait || self.would_be_cut(peer, sequence, out.batch.room()) {
                whole = false;
                break;
            }
            if of_train {
                part = part.or_else(|| self.part_from(peer, sequence, &paths));
            }
            let (leaving, mut body) = self.leaving(peer, sequence, &paths);
            match self.emit_all(now, peer, &leaving, &mut body, out) {
                // Only a train of which a frame has just left goes on: whether one begins in this batch was not looked at yet.
                Ok(_) if of_train => {
                    part = part.map(|part| part - 1);
                    self.emit_run(now, peer, &paths, &mut part, out);
                }
                Ok(_) => {}
                Err(EncodeError::Unsendable) => {
                    // It counts as sent and lost: whatever its timer then finds out is its cure.
                    self.counters.count(Counter::DropTooLong);
                    let leaving = Leaving { load: Load::SHORT, ..leaving };
                    let resent = self.peers[peer].note_left(now, &leaving, (0, false));
                    self.on_sent(&leaving, (1, resent));
                }
                Err(EncodeError::Full) => {
                    whole = false;
                    break;
                }
                Err(EncodeError::Fault) => self.fault(peer, sequence),
            }
            if part == Some(0) {
                whole = false;
                break;
            }
        }
        self.want_paths(now, peer, &paths, out.peers);
        self.want_long(now, peer, &paths, out.peers);
        self.settle(peer);
        self.arm(peer, now);
        whole
    }

    /// The next frame of the peer's current train that was never sent.
    fn train_goes_on_with(&self, peer: u32) -> Option<Sequence> {
        unsent(self.peers[peer].active.as_deref()?)
    }

    /// Has paths looked for that would be of use now and are not there (`PATH-2`, `PATH-6`).
    fn want_paths(&mut self, now: Time, peer: u32, paths: &Paths<'_>, peers: &Peers) {
        if !peers.has_several() {
            return;
        }
        let newest = self.peers[peer].active.as_deref().and_then(|active| active.records.back());
        if let Some(frames) = newest.map(|newest| newest.usual_frames.max(newest.count)) {
            let now_ns = paths.cost(frames, true);
            for link in peers.missing(now, peer) {
                // That long frames get through by it is not known yet, and worth the search.
                let cost = peers.costs.of(link, frames, peers.units.carries(link));
                let sooner = cost.is_some_and(|cost| now_ns.is_none_or(|now_ns| cost < now_ns));
                // Or it would carry a part of what is pulled.
                if sooner || frames >= STRIPED_FRAMES_MIN && !peers.leads_over(peer, link) {
                    let target = Target::Link(link);
                    self.route_news.push_back(RouteNews::PathWanted { peer, target });
                }
            }
        }
        if peers.may_seek(now, peer, Target::First) {
            self.route_news.push_back(RouteNews::PathWanted { peer, target: Target::First });
        }
    }

    /// The sequence number of the next frame to send, if one may be sent now. Begins trains as their turn comes.
    pub(super) fn choose(
        &mut self,
        now: Time,
        peer: u32,
        paths: &Paths,
        reads: impl Fn() -> bool,
    ) -> Option<Sequence> {
        // Whatever else there is: all that is behind it waits for its acknowledgement.
        let alone = self.peers[peer].active.as_deref().and_then(|active| active.alone);
        if let Some(alone) = alone.or_else(|| self.begin_question(peer)) {
            return Some(alone);
        }
        self.bound(now, peer);
        let entry = &self.peers[peer];
        let active = entry.active.as_deref()?;
        if !entry.is_found() {
            return None;
        }
        // What a timer found is resent whatever else may be in flight: nobody knows whether that is.
        if active.lost() > 0 {
            let lost = lowest_lost(active)?;
            let frame = *active.frame(lost);
            if frame.is_long() && self.begins_anew(peer, lost, paths) {
                return self.choose(now, peer, paths, reads);
            }
            let entry = &self.peers[peer];
            let active = entry.active.as_deref()?;
            // What was withdrawn is short by now.
            let bytes = frame.load.bytes.min(self.load_now(peer, lost, paths).1.bytes).into();
            let fits = active.credit > 0 || self.fits(now, peer, paths, (frame.path, bytes, 0));
            if fits {
                // A receiver that takes nothing out of order needs what was never sent before it, be its train parked.
                let active = self.peers[peer].active.as_deref_mut()?;
                active.unpark_unacked();
                return Some(
                    unsent(active).filter(|first| *first == active.unacked).unwrap_or(lost),
                );
            }
            self.limit(now, peer, paths, (frame.path, bytes));
        }
        let entry = &self.peers[peer];
        let active = entry.active.as_deref()?;
        let sequence = entry.next;
        let room = (sequence.since(active.unacked) as u32) < WINDOW_FRAMES;
        if !active.controls.is_empty() && room {
            let by = paths.of_control();
            if self.fits(now, peer, paths, (by, CONTROL_BYTES, RESERVE_BYTES)) {
                let active = self.peers[peer].active.as_deref_mut()?;
                let control = active.controls.pop_front().expect("not empty");
                self.controls -= 1;
                return Some(self.peers[peer].open_alone(by, What::Control(control)));
            }
        }
        if self.are_striped(peer, paths) {
            return self.choose_of_lanes(now, peer, paths, (room, reads));
        }
        if unsent(active).is_none() && (!room || !self.begin_train(now, peer, paths, &reads)) {
            return None;
        }
        let (sequence, path, load) = self.next_unsent(peer, paths)?;
        if load.long && self.begins_anew(peer, sequence, paths) {
            return self.choose(now, peer, paths, reads);
        }
        let bytes = load.bytes.into();
        if !self.fits(now, peer, paths, (path, bytes, 0)) {
            self.limit(now, peer, paths, (path, bytes));
            return None;
        }
        Some(sequence)
    }

    /// The next frame of the current train, if it has a number: with its path, and how long it is.
    pub(super) fn next_unsent(&self, peer: u32, paths: &Paths) -> Option<(Sequence, PathId, Load)> {
        let active = self.peers[peer].active.as_deref()?;
        let sequence = unsent(active)?;
        let room = (sequence.since(active.unacked) as u32) < WINDOW_FRAMES;
        let (path, load) = self.load_now(peer, sequence, paths);
        let may = (room || sequence == active.unacked) && !active.in_doubt();
        may.then_some((sequence, path, load))
    }

    /// The path of a frame's train, and how long it is if it leaves now.
    #[inline]
    pub(super) fn load_now(&self, peer: u32, sequence: Sequence, paths: &Paths) -> (PathId, Load) {
        let active = self.peers[peer].active.as_deref().expect("the peer is active");
        let record = active.record_of(sequence).expect("chosen frames have records");
        let record = &active.records[record];
        let (path, _) = paths.pick(record.path);
        let place = sequence.since(record.first) as u32;
        let message = record.what.message().and_then(|index| self.messages.at(index));
        (path, load_of(record, message, place, paths.long_above(path)))
    }

    /// Whether so many bytes may leave now by the path that one meant for `path` takes; `more` beyond its window. One frame alone that is
    /// longer than the window may, if the last left long enough ago (`WINDOW-4`).
    #[inline]
    pub(super) fn fits(
        &self,
        now: Time,
        peer: u32,
        paths: &Paths,
        (path, bytes, more): (PathId, u32, u32),
    ) -> bool {
        let entry = &self.peers[peer];
        let Some(active) = entry.active.as_deref() else { return false };
        let (path, hop) = paths.pick(path);
        let flight = active.flight(path);
        let window = self.window_by(entry, path, hop);
        // What of control goes beyond a window goes beyond what is granted, too.
        let window =
            if more > 0 { window.max(entry.whole_window(&self.further, path)) } else { window };
        flight.in_flight + bytes <= window.saturating_add(more)
            || flight.in_flight == 0
                && self.paced(entry, path, flight.left_at, bytes).is_none_or(|at| at <= now)
    }

    /// When a frame that is longer than its path's window may leave.
    fn paced(&self, entry: &SendPeer, path: PathId, left_at: Time, bytes: u32) -> Option<Time> {
        // Who is granted less than a frame has one under way at a time: that is no rate.
        let window = entry.whole_window(&self.further, path);
        let pause = pacing::pause(window, bytes, entry.trip_us(&self.further, path))?;
        Some(left_at + pause)
    }

    /// Notes that a path's window kept a frame from leaving, and when it may leave if that is a matter of time.
    #[cold]
    pub(super) fn limit(
        &mut self,
        now: Time,
        peer: u32,
        paths: &Paths,
        (path, bytes): (PathId, u32),
    ) {
        let (path, _) = paths.pick(path);
        let room = room_bytes(paths.bytes(path), paths.is_long(path), paths.deep & path.bit() != 0);
        let unit = if paths.is_long(path) { LONG_FRAME_BYTES as u32 } else { 0 };
        let entry = &self.peers[peer];
        let Some(active) = entry.active.as_deref() else { return };
        // What a grant keeps back says nothing of the window.
        if active.flight(path).in_flight + bytes > entry.whole_window(&self.further, path) {
            self.note_limited(peer, path, (room, unit));
        }
        let entry = &self.peers[peer];
        let Some(active) = entry.active.as_deref() else { return };
        let flight = active.flight(path);
        let at = (flight.in_flight == 0)
            .then(|| self.paced(entry, path, flight.left_at, bytes))
            .flatten()
            .filter(|at| *at > now);
        if let Some(active) = self.peers[peer].active.as_deref_mut() {
            // The first of several paths' that wait.
            active.paced = active.paced.into_iter().chain(at).min();
            // The timer of what waits for its turn begins with that.
            let flight = active.flight_mut(path);
            flight.progress_at = flight.progress_at.max(at.unwrap_or_default());
        }
    }

    /// Begins the next block's or message's train. False: there is none that may start now.
    pub(super) fn begin_train(
        &mut self,
        now: Time,
        peer: u32,
        paths: &Paths,
        reads: impl Fn() -> bool,
    ) -> bool {
        self.refresh_windows(now, peer);
        loop {
            let active = self.peers[peer].active.as_deref_mut().expect("the peer is active");
            let message_may = active.may_begin_message(now);
            let turn = active.message_turn;
            active.message_turn = !turn;
            if message_may && (turn || active.blocks.is_empty()) {
                self.begin_next_message(now, peer, paths, reads);
                return true;
            }
            let Some(block) = active.blocks.pop_front() else { return false };
            if self.begin_block(peer, block, None, paths) {
                self.bound(now, peer);
                return true;
            }
        }
    }

    /// Begins the train of the message that is next.
    pub(super) fn begin_next_message(
        &mut self,
        now: Time,
        peer: u32,
        paths: &Paths,
        reads: impl Fn() -> bool,
    ) {
        let active = self.peers[peer].active.as_deref_mut();
        let Some(index) = active.and_then(|active| active.pending.pop_front()) else { return };
        let granted = self.granted(now, peer);
        self.begin_message(peer, index, granted, reads, paths);
        self.bound(now, peer);
    }

    /// The user's memory could not be read: the message ends, its frames become skips.
    fn fault(&mut self, peer: u32, sequence: Sequence) {
        let Some(active) = self.peers[peer].active.as_deref_mut() else { return };
        let Some(index) = active.record_of(sequence) else { return };
        let record = &mut active.records[index];
        if let What::Region(block) = record.what {
            record.what = What::Skip;
            let status = DoneStatus::Fault;
            self.counters.count(Counter::RefusedFault);
            let reply = Control::Reply { handle: block.handle, status, values: None };
            active.controls.push_back(reply);
            self.controls += 1;
            return;
        }
        let Some(message) = record.what.message() else { return };
        let block = matches!(record.what, What::Block { .. });
        record.what = What::Skip;
        let (first, count) = (record.first, record.count);
        let started = active.sent_of(first, count) > 0;
        if started || block || self.messages.at(message).is_some_and(SendMessage::is_acked) {
            // The receiver waits for bytes that can't be had: the pair is broken, and both sides shall know.
            self.finish(message, Status::MemoryFault);
            self.route_news.push_back(crate::cross::RouteNews::Lost { peer });
        } else {
            active.pending.push_front(message);
            self.void(message, Status::MemoryFault);
        }
    }
}

/// The next frame of the current train that was never sent.
pub(super) fn unsent(active: &Active) -> Option<Sequence> {
    active.train_next.before(active.train_end).then_some(active.train_next)
}

/// What leaves next leaves unasked: it is of a message, not of what was asked for.
pub(super) fn leaves_unasked(active: &Active) -> bool {
    let next = if active.lost() > 0 { lowest_lost(active) } else { unsent(active) };
    let record = next.and_then(|next| active.record_of(next));
    record.is_some_and(|at| matches!(active.records[at].what, What::Message { .. }))
}

fn lowest_lost(active: &Active) -> Option<Sequence> {
    (0..WINDOW_FRAMES)
        .map(|i| active.unacked.plus(i))
        .find(|sequence| active.frame(*sequence).state == FrameState::Lost)
}
