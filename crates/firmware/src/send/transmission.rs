//! Transmission (I2): chooses the next frame of each peer and builds it, without copying what is large.

use emp_wire::{
    BlockWord, DoneStatus, Flags, Kind, LONG_FRAME_BYTES, Sequence, emit_pieces, has_bulk,
};

use super::body::Body;
use super::bookkeeping::handle;
use super::record::{Active, FrameState, Load, Record, What};
use super::timer::DETOUR_RUNS;
use super::{SendMessage, SendPath, SendPeer, Stage, Work};
use crate::counters::Counter;
use crate::cross::{Control, Cross, RouteNews};
use crate::descriptor::Status;
use crate::encode::{self, EncodeError, Head, Line, Payload};
use crate::limits::WINDOW_FRAMES;
use crate::memory::{HostMemory, Segment, SegmentList};
use crate::path::table::Target;
use crate::path::unit::room_bytes;
use crate::path::{PathId, Paths, pacing};
use crate::peers::Peers;
use crate::time::Time;
use crate::transmit::TransmitBatch;

/// Bytes that control frames may have in flight beyond the window: they are what opens it again. Of eight frames of Ethernet's usual MTU.
const RESERVE_BYTES: u32 = 12_000;

/// How long a control frame is, or nearly.
const CONTROL_BYTES: u32 = Load::SHORT.bytes as u32;

/// Where frames go, and what is needed to build them.
pub(crate) struct Outlet<'a, M> {
    pub(crate) peers: &'a Peers,
    pub(crate) cross: &'a mut Cross,
    pub(crate) memory: &'a M,
    pub(crate) batch: &'a mut TransmitBatch,
    /// Largest frame that this node takes.
    pub(crate) frame_bytes_max: u16,
}

impl SendPath {
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
        let frame_bytes_max = out.peers[peer].frame_bytes_max;
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
            let Some(sequence) = self.choose(now, peer, frame_bytes_max, &paths, reads) else {
                break;
            };
            if self.would_be_cut(peer, sequence, out.batch.room()) {
                whole = false;
                break;
            }
            let of_train = self.train_goes_on_with(peer) == Some(sequence);
            if of_train {
                part = part.or_else(|| self.part_from(peer, sequence, &paths));
            }
            match self.emit(now, peer, sequence, &paths, out) {
                Ok(()) => {
                    part = part.map(|part| part - u32::from(of_train));
                    self.emit_run(now, peer, &paths, &mut part, out);
                }
                Err(EncodeError::Unsendable) => {
                    self.counters.count(Counter::DropTooLong);
                    let record = self.peers[peer].active.as_deref();
                    if let Some(record) = record.and_then(|active| active.record_of(sequence)) {
                        self.on_sent(
                            now,
                            peer,
                            (record, sequence),
                            (PathId::FIRST, Load::SHORT),
                            false,
                        );
                    }
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
                if cost.is_some_and(|cost| now_ns.is_none_or(|now_ns| cost < now_ns)) {
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
    fn choose(
        &mut self,
        now: Time,
        peer: u32,
        frame_bytes_max: u16,
        paths: &Paths,
        reads: impl Fn() -> bool,
    ) -> Option<Sequence> {
        if let Some(question) = self.begin_question(peer) {
            return Some(question);
        }
        let entry = &self.peers[peer];
        let active = entry.active.as_deref()?;
        if !entry.found {
            return None;
        }
        // What a timer found is resent whatever else may be in flight: nobody knows whether that is.
        if active.lost() > 0 {
            let lost = lowest_lost(active)?;
            let frame = *active.frame(lost);
            let fits = active.credit > 0
                || self.fits(now, peer, paths, (frame.path, frame.load.bytes.into(), 0));
            if fits {
                // A receiver that takes nothing out of order needs what was never sent before it.
                let first = unsent(active).filter(|unsent| unsent.before(lost));
                return Some(first.filter(|first| *first == active.unacked).unwrap_or(lost));
            }
            self.limit(now, peer, paths, (frame.path, frame.load.bytes.into()), frame_bytes_max);
        }
        let entry = &self.peers[peer];
        let active = entry.active.as_deref()?;
        let sequence = entry.next;
        let room = (sequence.since(active.unacked) as u32) < WINDOW_FRAMES;
        if !active.controls.is_empty()
            && room
            && self.fits(now, peer, paths, (PathId::FIRST, CONTROL_BYTES, RESERVE_BYTES))
        {
            let active = self.peers[peer].active.as_deref_mut()?;
            let control = active.controls.pop_front().expect("not empty");
            self.begin(peer, 1, (PathId::FIRST, 1), What::Control(control));
            return Some(sequence);
        }
        if unsent(active).is_none()
            && (!room || !self.begin_train(now, peer, frame_bytes_max, paths, reads))
        {
            return None;
        }
        let (sequence, path, bytes) = self.next_unsent(peer, paths, frame_bytes_max)?;
        if !self.fits(now, peer, paths, (path, bytes, 0)) {
            self.limit(now, peer, paths, (path, bytes), frame_bytes_max);
            return None;
        }
        Some(sequence)
    }

    /// The next frame of the current train, if it has a number: with its path, and how long it is.
    fn next_unsent(
        &self,
        peer: u32,
        paths: &Paths,
        usual_bytes: u16,
    ) -> Option<(Sequence, PathId, u32)> {
        let active = self.peers[peer].active.as_deref()?;
        let sequence = unsent(active)?;
        let train = active.record_of(sequence).expect("chosen frames have records");
        let record = &active.records[train];
        let (path, _) = paths.pick(record.path);
        let room = (sequence.since(active.unacked) as u32) < WINDOW_FRAMES;
        let place = sequence.since(record.first) as u32;
        let bytes = self.load_of(record, place, usual_bytes).bytes;
        let may = (room || sequence == active.unacked) && !active.in_doubt();
        may.then_some((sequence, path, bytes.into()))
    }

    /// Whether so many bytes may leave now by the path that one meant for `path` takes; `more` beyond its window. One frame alone that is
    /// longer than the window may, if the last left long enough ago (`WINDOW-4`).
    #[inline]
    fn fits(
        &self,
        now: Time,
        peer: u32,
        paths: &Paths,
        (path, bytes, more): (PathId, u32, u32),
    ) -> bool {
        let entry = &self.peers[peer];
        let Some(active) = entry.active.as_deref() else { return false };
        let (path, way) = paths.pick(path);
        let flight = active.flight(path);
        let window = self.window_by(entry, path, way);
        flight.in_flight + bytes <= window.saturating_add(more)
            || flight.in_flight == 0
                && self.paced(entry, path, flight.left_at, bytes).is_none_or(|at| at <= now)
    }

    /// When a frame that is longer than its path's window may leave.
    fn paced(&self, entry: &SendPeer, path: PathId, left_at: Time, bytes: u32) -> Option<Time> {
        let window = entry.window(&self.further, path);
        let pause = pacing::pause(window, bytes, entry.rtt(&self.further, path))?;
        Some(left_at + pause)
    }

    /// Notes that a path's window kept a frame from leaving, and when it may leave if that is a matter of time.
    #[cold]
    fn limit(
        &mut self,
        now: Time,
        peer: u32,
        paths: &Paths,
        (path, bytes): (PathId, u32),
        usual_bytes: u16,
    ) {
        let (path, _) = paths.pick(path);
        let room = room_bytes(usual_bytes, paths.is_long(path), paths.deep & path.bit() != 0);
        let unit = if paths.is_long(path) { LONG_FRAME_BYTES as u32 } else { 0 };
        self.note_limited(peer, path, (room, unit));
        let entry = &self.peers[peer];
        let Some(active) = entry.active.as_deref() else { return };
        let flight = active.flight(path);
        let at = (flight.in_flight == 0)
            .then(|| self.paced(entry, path, flight.left_at, bytes))
            .flatten()
            .filter(|at| *at > now);
        if let Some(active) = self.peers[peer].active.as_deref_mut() {
            active.paced = at;
            // The timer of what waits for its turn begins with that.
            let flight = active.flight_mut(path);
            flight.progress_at = flight.progress_at.max(at.unwrap_or_default());
        }
    }

    /// Begins the next block's or message's train. False: there is none that may start now.
    fn begin_train(
        &mut self,
        now: Time,
        peer: u32,
        frame_bytes_max: u16,
        paths: &Paths,
        reads: impl Fn() -> bool,
    ) -> bool {
        self.refresh_windows(now, peer);
        loop {
            let active = self.peers[peer].active.as_deref_mut().expect("the peer is active");
            // After a refusal only one message tries its luck, until it is taken.
            let barred = active.refusals > 0 && active.trying();
            let message_may = !active.pending.is_empty() && now >= active.ready_at && !barred;
            let turn = active.message_turn;
            active.message_turn = !turn;
            if message_may && (turn || active.blocks.is_empty()) {
                let index = active.pending.pop_front().expect("not empty");
                let crowded = self.is_crowded(now, peer);
                self.begin_message(peer, index, (frame_bytes_max, crowded), reads, paths);
                return true;
            }
            let Some(block) = active.blocks.pop_front() else { return false };
            if self.begin_block(peer, block, frame_bytes_max, paths) {
                return true;
            }
        }
    }

    /// Builds one frame into the batch.
    fn emit(
        &mut self,
        now: Time,
        peer: u32,
        sequence: Sequence,
        paths: &Paths,
        out: &mut Outlet<'_, impl HostMemory>,
    ) -> Result<(), EncodeError> {
        let Outlet { peers, cross, memory, batch, frame_bytes_max } = out;
        let frame_bytes_max = *frame_bytes_max;
        let active = self.peers[peer].active.as_deref().expect("the peer is active");
        let index = active.record_of(sequence).expect("chosen frames have records");
        let record = &active.records[index];
        let place = sequence.since(record.first) as u32;
        let (path, way) = paths.pick(path_for(active, record, sequence, paths));
        let load = self.load_of(record, place, peers[peer].frame_bytes_max);
        let flags = self.flags(peer, sequence, record, place, (path, load));
        let requested = flags.has(Flags::ACK_REQUEST);
        let acknowledge = cross.acks[peer].acknowledge;
        let (own, source_tag) = (peers.own, peers.source_tag);
        let head = |kind, flags: Flags, word| Head { kind, flags, sequence, acknowledge, word };
        let (bundles, check_payload) = (self.profile.bundles, self.checks_payload(way));
        let inline_bytes = self.inline_bytes(way, record);
        let long = paths.is_long(path);
        // Where a train lands, each frame has a link frame of its own.
        let bundles = bundles && record.count == 1;
        let line = Line {
            source_tag,
            peer: &peers[peer],
            way,
            check_payload,
            inline_bytes,
            bundles,
            long,
        };
        let copied = match record.what {
            What::Skip | What::Question => {
                let head = head(Kind::Skip, flags, 0);
                encode::frame(batch, &line, &head, |_| 0, Payload::None, *memory)?
            }
            What::Control(control) => {
                let (kind, word, more) = control.head();
                let head = head(kind, flags.with(more), word);
                let body = |into: &mut [u8]| control.emit(own, frame_bytes_max, into);
                let values = control.values().and_then(|values| cross.replies.get(values));
                let payload = match values {
                    Some((pool, chain, bytes)) => Payload::Pool { pool, chain, offset: 0, bytes },
                    None => Payload::None,
                };
                // Fetched values count as fields: what a profile does not check is bulk.
                let line = Line { check_payload: true, ..line };
                encode::frame(batch, &line, &head, body, payload, *memory)?
            }
            What::Region(block) => {
                let start = u64::from(place) * u64::from(block.fragment);
                let part = block.memory.part(start, block.fragment.into());
                let word = BlockWord { pull: block.pull, index: place as u16 }.emit();
                let head = head(Kind::Block, flags, word);
                let list = SegmentList::one(part);
                let payload = Payload::Host { list: &list, offset: 0, bytes: part.bytes };
                let line = Line { inline_bytes: inline_of(*memory, part, inline_bytes), ..line };
                encode::frame(batch, &line, &head, |_| 0, payload, *memory)?
            }
            What::Message { message, number } if place == 0 && self.is_plain(message) => {
                let handle = handle(message, self.messages.generation(message));
                let sending = self.messages.at(message).ok_or(EncodeError::Unsendable)?;
                let (offset, bytes) = sending.fragment_at(0);
                let body = sending.message(own, frame_bytes_max, handle);
                let head = head(
                    Kind::Message,
                    flags.with(body.flags()).with(sending.more_flags()),
                    number,
                );
                let payload = payload(&mut self.pool, sending, offset, bytes);
                let body = |into: &mut [u8]| body.emit(into);
                encode::frame(batch, &line, &head, body, payload, *memory)?
            }
            What::Message { message, number } => {
                let generation = self.messages.generation(message);
                let sending = self.messages.at_mut(message).ok_or(EncodeError::Unsendable)?;
                let (offset, bytes) = sending.fragment_at(place);
                let (body, word) = if place == 0 {
                    let handle = handle(message, generation);
                    (sending.body(own, frame_bytes_max, handle), number)
                } else {
                    (Body::Data, place)
                };
                let head = head(body.kind(), flags.with(body.flags()), word);
                let pieces = (place == 0 && sending.direct && !sending.void).then(|| {
                    let route = peers[peer].route();
                    let stamp = route.and_then(|(link, &to)| memory.stamp(link, to));
                    // A receiver that cannot read any more finds another name, and pulls.
                    (stamp.unwrap_or(0), sending.descriptor.segments.clone())
                });
                let payload = payload(&mut self.pool, sending, offset, bytes);
                // The list of pieces may be long.
                let line = Line {
                    bundles: line.bundles && pieces.is_none(),
                    // An atomic's operands count as fields.
                    check_payload: line.check_payload || !has_bulk(body.kind()),
                    ..line
                };
                let body = |into: &mut [u8]| {
                    let fields = body.emit(into);
                    let Some((stamp, list)) = &pieces else { return fields };
                    let list = list.as_slice().iter().map(|piece| (piece.address, piece.bytes));
                    fields + emit_pieces(*stamp, list, &mut into[fields..])
                };
                encode::frame(batch, &line, &head, body, payload, *memory)?
            }
            What::Block { message, pull, offset, bytes } => {
                let sending = self.messages.at_mut(message).ok_or(EncodeError::Unsendable)?;
                let fragment = u32::from(sending.fragment);
                let start = place * fragment;
                let left = bytes.checked_sub(start).ok_or(EncodeError::Unsendable)?;
                let bytes = fragment.min(left);
                let word = BlockWord { pull, index: place as u16 }.emit();
                let head = head(Kind::Block, flags, word);
                let offset = offset + u64::from(start);
                let payload = payload(&mut self.pool, sending, offset, u64::from(bytes));
                encode::frame(batch, &line, &head, |_| 0, payload, *memory)?
            }
        };
        self.counters.add(Counter::BytesCopied, copied);
        if cross.acks[peer].carry(now) {
            self.counters.count(Counter::AcksPiggybacked);
        }
        self.on_sent(now, peer, (index, sequence), (path, load), requested);
        Ok(())
    }

    /// A message to be matched whose first frame says nothing but that: most are, and theirs are built with less ado.
    #[inline]
    fn is_plain(&self, message: u32) -> bool {
        self.messages.at(message).is_some_and(|message| {
            matches!(message.work, Work::Message) && !message.void && !message.direct
        })
    }

    /// Flags that any frame may need: acknowledgement, its request, end of train.
    fn flags(
        &self,
        peer: u32,
        sequence: Sequence,
        record: &Record,
        place: u32,
        (path, load): (PathId, Load),
    ) -> Flags {
        let entry = &self.peers[peer];
        let active = entry.active.as_deref().expect("the peer is active");
        let last = place + 1 == record.count;
        let awaited = match record.what {
            What::Message { message, .. } | What::Block { message, .. } => {
                // What the target answers brings the acknowledgement with it. So does the end of a message that is pulled,
                // but that may be long after its first trains.
                let answered = |message: &SendMessage| match message.work {
                    Work::Message => load.long && message.needs_done,
                    _ => true,
                };
                self.messages
                    .at(message)
                    .is_some_and(|message| !message.completed && !answered(message))
            }
            What::Question => true,
            _ => false,
        };
        let low = self.asks(entry, path, sequence, load.bytes);
        let resent = active.frame(sequence).state == FrameState::Lost;
        let tried = place == 0 && active.refusals > 0;
        Flags::ACK
            .with_if(last, Flags::LAST)
            .with_if((last && awaited) || low || resent || tried, Flags::ACK_REQUEST)
    }

    /// Notes that a frame of this record went out (or would have, had it been possible), and whether it requests an acknowledgement.
    fn on_sent(
        &mut self,
        now: Time,
        peer: u32,
        (record, sequence): (usize, Sequence),
        form: (PathId, Load),
        request: bool,
    ) {
        let Some(active) = self.peers[peer].active.as_deref_mut() else { return };
        let resent = active.on_sent(sequence, form, request, now);
        if !resent {
            active.records[record].sent += 1;
        }
        self.count_sent(form, resent);
    }

    /// Counts a frame that went out.
    #[inline]
    pub(super) fn count_sent(&mut self, (path, load): (PathId, Load), resent: bool) {
        self.counters.count(if resent { Counter::FramesResent } else { Counter::FramesSent });
        if load.long {
            self.counters.count(Counter::FramesLong);
        }
        if path != PathId::FIRST {
            self.counters.count(Counter::FramesFurther);
        }
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
            return;
        }
        let started = record.sent > 0;
        let Some(message) = record.what.message() else { return };
        let block = matches!(record.what, What::Block { .. });
        record.what = What::Skip;
        if started || block || self.messages.at(message).is_some_and(SendMessage::is_acked) {
            // The receiver waits for bytes that can't be had: the pair is broken, and both sides shall know.
            self.report(message, Status::MemoryFault);
            self.route_news.push_back(crate::cross::RouteNews::Lost { peer });
        } else {
            active.pending.push_front(message);
            if let Some(message) = self.messages.at_mut(message) {
                message.stage = Stage::Queued;
            }
            self.void(message, Status::MemoryFault);
        }
    }
}

/// Up to how many bytes of a region are copied next to a frame's header: all of those that cannot be named.
pub(super) fn inline_of(memory: &impl HostMemory, part: Segment, usual: u64) -> u64 {
    if memory.lends(part) { usual } else { u64::MAX }
}

/// The next frame of the current train that was never sent.
fn unsent(active: &Active) -> Option<Sequence> {
    active.train_next.before(active.train_end).then_some(active.train_next)
}

/// The path that a frame is meant for: that of its train; but what a path's timer resends again and again takes another.
fn path_for(active: &Active, record: &Record, sequence: Sequence, paths: &Paths<'_>) -> PathId {
    let frame = active.frame(sequence);
    match frame.state {
        FrameState::Lost if active.flight(frame.path).backoff > DETOUR_RUNS => {
            paths.other(frame.path)
        }
        _ => record.path,
    }
}

fn lowest_lost(active: &Active) -> Option<Sequence> {
    (0..WINDOW_FRAMES)
        .map(|i| active.unacked.plus(i))
        .find(|sequence| active.frame(*sequence).state == FrameState::Lost)
}

fn payload<'a>(
    pool: &'a mut crate::pool::Pool,
    message: &'a SendMessage,
    offset: u64,
    bytes: u64,
) -> Payload<'a> {
    match &message.chain {
        _ if bytes == 0 => Payload::None,
        Some(chain) => Payload::Pool { pool, chain, offset, bytes },
        None => Payload::Host { list: &message.descriptor.segments, offset, bytes },
    }
}
