//! Transmission of the middle of a train: frames that differ only in number and place are built in one go.
//!
//! The way of single frames ([`transmission`](super::transmission)) is the truth. This is what it comes to for a run of
//! frames none of which is a message's first, its train's last, or sent before, while nothing else is to be sent to that
//! peer: whatever differs from that goes the usual way. `tests/trains.rs` holds the two against each other.

use emp_wire::{Flags, HEADER_BYTES, Kind, Sequence};

use super::record::{FrameState, Load, Piece, What};
use super::transmission::inline_of;
use super::{Outlet, SendPath, State};
use crate::counters::Counter;
use crate::encode::{Alike, Head, INLINE_PAYLOAD_BYTES, Line};
use crate::limits::WINDOW_FRAMES;
use crate::memory::{HostMemory, Segment};
use crate::path::{PathId, Paths};
use crate::time::Time;
use crate::transmit::TransmitBatch;

/// Frames of the longest train that is kept whole: what links send as one (64 KB at MTU 1500), and half a batch, so that
/// batches stay well filled.
const TRAIN_FRAMES_USUAL: u32 = TransmitBatch::FRAMES_MAX as u32 / 2;

/// Frames to be built alike.
struct Run {
    /// Number of the first, and how many there are.
    first: Sequence,
    frames: u32,
    /// The record that they belong to.
    record: usize,
    source: Source,
}

/// Where a run's payload is, and what its frames say of it.
struct Source {
    kind: Kind,
    /// The first frame's word; each next one's is one more.
    word: u32,
    /// The memory from the first frame's payload on, as far as it is in one piece.
    memory: Segment,
    /// Payload bytes of each frame.
    fragment: u16,
}

impl SendPath {
    /// Builds what can be built in one go of the peer's current train.
    #[inline]
    pub(super) fn emit_run(
        &mut self,
        now: Time,
        peer: u32,
        paths: &Paths,
        part: &mut Option<u32>,
        out: &mut Outlet<'_, impl HostMemory>,
    ) {
        let Some(active) = self.peers[peer].active.as_deref() else { return };
        if !self.whole_trains || !active.train_next.before(active.train_end) {
            return;
        }
        *part = part.or_else(|| self.part_from(peer, active.train_next, paths));
        let room = part.unwrap_or(u32::MAX).min(out.batch.room());
        if let Some(run) = self.plan_run(peer, paths, room) {
            let built = self.build_run(now, peer, &run, paths, out);
            *part = part.map(|part| part - built);
        }
    }

    /// The frames that [`choose`](Self::choose) would give one after the other and that are alike.
    fn plan_run(&self, peer: u32, paths: &Paths, room: u32) -> Option<Run> {
        let entry = &self.peers[peer];
        let active = entry.active.as_deref()?;
        let undisturbed = active.lost() == 0 && active.controls.is_empty() && active.refusals == 0;
        if !undisturbed || !entry.is_found() {
            return None;
        }
        let first = active.train_next;
        let numbers = WINDOW_FRAMES.checked_sub(first.since(active.unacked) as u32)?;
        let record = active.record_of(first)?;
        let (path, _) = paths.pick(active.records[record].path);
        let in_flight = active.flight(path).in_flight;
        let (path, way) = paths.pick(path);
        let window = self.window_by(entry, path, way).saturating_sub(in_flight);
        let place = first.since(active.records[record].first) as u32;
        // The last one may be shorter, and says that it is the last.
        let middle = (active.records[record].count - 1).saturating_sub(place);
        let source = self.source(active.records[record].what, place)?;
        let whole = (source.memory.bytes / u64::from(source.fragment)) as u32;
        let bytes = u32::from(source.fragment) + HEADER_BYTES as u32;
        let frames = numbers.min(window / bytes).min(middle).min(whole).min(room);
        let unsent = active.frame(first).state == FrameState::Unsent;
        (frames > 0 && unsent).then_some(Run { first, frames, record, source })
    }

    /// Where the payload of the frames from `place` on is, if it can be named and is not worth a copy.
    fn source(&self, what: What, place: u32) -> Option<Source> {
        if let (What::Message { .. }, 0) = (what, place) {
            return None;
        }
        let (kind, word, _) = what.head(place);
        let message = what.message().and_then(|index| self.messages.at(index));
        let Piece { offset, left, fragment } = what.piece(place, message)?;
        let memory = match (what, message) {
            (What::Region(block), _) => block.memory.part(offset, left),
            (_, Some(sending)) if sending.chain.is_none() && sending.state != State::Void => {
                // The first piece of the list there.
                sending.descriptor.segments.range(offset, left, Err).err()?
            }
            _ => return None,
        };
        let source = Source { kind, word, memory, fragment };
        (u64::from(fragment) > INLINE_PAYLOAD_BYTES).then_some(source)
    }

    /// Builds the frames of a run, and notes that they went out. Returns how many.
    fn build_run(
        &mut self,
        now: Time,
        peer: u32,
        run: &Run,
        paths: &Paths,
        out: &mut Outlet<'_, impl HostMemory>,
    ) -> u32 {
        let Outlet { peers, cross, memory, batch, .. } = out;
        let Run { first, frames, record, source } = run;
        let Some(active) = self.peers[peer].active.as_deref() else { return 0 };
        let (path, way) = paths.pick(active.records[*record].path);
        let check_payload = self.checks_payload(way);
        let inline_bytes = self.inline_bytes(way, &active.records[*record]);
        let inline_bytes = inline_of(*memory, source.memory, inline_bytes);
        let bundles = false;
        let line = Line {
            peers,
            peer: &peers[peer],
            way,
            check_payload,
            inline_bytes,
            bundles,
            room: paths.bytes(path),
            long: false,
        };
        let acknowledge = cross.acks[peer].acknowledge;
        let (sequence, word) = (*first, source.word);
        let head = Head { kind: source.kind, flags: Flags::ACK, sequence, acknowledge, word };
        let Some(mut alike) = Alike::new(&line, &head, source.fragment) else { return 0 };
        let frame_bytes = HEADER_BYTES + usize::from(source.fragment);
        let whole = way.is_some_and(|(_, to)| to.is_memory());
        let room = if whole { u16::MAX } else { line.room };
        if frame_bytes > usize::from(room).min(batch.frame_bytes_max()) {
            return 0;
        }
        let entry = &mut self.peers[peer];
        let window = entry.window(&self.further, path);
        let load = Load::of(frame_bytes as u64, false);
        let bytes = u32::from(load.bytes);
        let active = entry.active.as_deref_mut().expect("the run is of an active peer");
        let mut built = 0;
        while built < *frames {
            // V20, as for single frames.
            let room = active.room_behind((path, first.plus(built)), bytes, window);
            let low = active.asks(&room, self.profile.request_ack_below, self.profile.collection);
            let start = u64::from(built) * u64::from(source.fragment);
            let payload = source.memory.part(start, source.fragment.into());
            // A fault is met again, and dealt with, by the way of single frames.
            if alike.frame(built, low, batch, payload, *memory).is_err() {
                break;
            }
            active.on_sent(first.plus(built), (path, load), low, now);
            built += 1;
        }
        active.records[*record].sent += built;
        if built > 0 && cross.acks[peer].carry(now) {
            self.counters.count(Counter::AcksPiggybacked);
        }
        self.counters.add(Counter::FramesSent, built.into());
        if alike.copies() {
            let copied = u64::from(built) * u64::from(source.fragment);
            self.counters.add(Counter::BytesCopied, copied);
        }
        if path != PathId::FIRST {
            self.counters.add(Counter::FramesFurther, built.into());
        }
        built
    }
}

impl SendPath {
    /// The frame is the first of a train that a batch takes whole, but not one with only this room left: its end would be
    /// a datagram of its own, where trains are sent as one, and cost both ends as much as a train.
    pub(super) fn would_be_cut(&self, peer: u32, sequence: Sequence, room: u32) -> bool {
        if room >= TRAIN_FRAMES_USUAL {
            return false;
        }
        let Some(active) = self.peers[peer].active.as_deref() else { return false };
        let fresh = active.frame(sequence).state == FrameState::Unsent;
        let record = active.record_of(sequence).map(|index| &active.records[index]);
        record.is_some_and(|record| {
            fresh
                && record.first == sequence
                && record.count > room
                && record.count <= TRAIN_FRAMES_USUAL
        })
    }

    /// False: an acknowledgement that rides on data and says no more than what is known changes nothing.
    #[inline]
    pub(crate) fn is_news(&self, peer: u32, acknowledge: Sequence) -> bool {
        let entry = &self.peers[peer];
        let beyond = |known: Sequence| acknowledge.since(known) > 0;
        beyond(entry.next) || entry.active.as_deref().is_some_and(|active| beyond(active.unacked))
    }
}
