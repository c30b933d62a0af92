//! Transmission of the middle of a train: frames that differ only in number and place leave in one go.
//!
//! They are emitted as all are ([`transmission`](super::transmission)), but chosen together, and their headers are made from one. A run has
//! none that is a message's first, its train's last, or was sent before, and nothing else is to be sent to that peer meanwhile: whatever
//! differs from that leaves by itself. `tests/trains.rs` holds the two against each other.

use emp_wire::{Flags, HEADER_BYTES, Kind, Sequence};

use super::build::{Body, Numbers};
use super::leaving::{Leaving, inline_of};
use super::record::{FrameState, Load, Piece, What};
use super::{Outlet, SendSide, State};
use crate::encode::{Alike, EncodeError, Head, INLINE_PAYLOAD_BYTES, Line};
use crate::limits::WINDOW_FRAMES;
use crate::memory::{HostMemory, Segment};
use crate::path::Paths;
use crate::time::Time;
use crate::transmit::TransmitBatch;

/// Frames of the longest train that is kept whole: what links send as one (64 KB at MTU 1500), and half a batch, so that
/// batches stay well filled.
pub(crate) const TRAIN_FRAMES_USUAL: u32 = TransmitBatch::FRAMES_MAX as u32 / 2;

/// The payload of frames that are alike, and what they say of it.
struct Run {
    kind: Kind,
    /// The first frame's word; each next one's is one more.
    word: u32,
    /// The memory from the first frame's payload on, as far as it is in one piece.
    memory: Segment,
    /// Payload bytes of each frame.
    fragment: u16,
    /// What builds them, from the first on.
    alike: Option<Alike>,
}

impl Body for Run {
    #[inline(always)]
    fn build(
        &mut self,
        _: &mut SendSide,
        place: u32,
        (line, flags, Numbers { sequence, acknowledge }): (&Line<'_>, Flags, Numbers),
        out: &mut Outlet<'_, impl HostMemory>,
    ) -> Result<u64, EncodeError> {
        let Self { kind, word, memory, fragment, ref mut alike } = *self;
        if alike.is_none() {
            let head = Head { kind, flags: Flags::ACK, sequence, acknowledge, word };
            *alike = Alike::new(line, &head, fragment);
        }
        let alike = alike.as_mut().ok_or(EncodeError::Unsendable)?;
        let bytes = u64::from(fragment);
        let payload = memory.part(u64::from(place) * bytes, bytes);
        alike.frame(place, flags, out.batch, payload, out.memory)?;
        Ok(if alike.copies() { bytes } else { 0 })
    }
}

impl SendSide {
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
        if let Some((leaving, mut run)) = self.plan_run(peer, paths, room, out) {
            // What hinders the first frame is met again, and dealt with, when that leaves by itself.
            let sent = self.emit_all(now, peer, &leaving, &mut run, out).unwrap_or(0);
            *part = part.map(|part| part - sent);
        }
    }

    /// The frames that [`choose`](Self::choose) would give one after the other and that are alike.
    fn plan_run<'a>(
        &self,
        peer: u32,
        paths: &Paths<'a>,
        room: u32,
        out: &Outlet<'_, impl HostMemory>,
    ) -> Option<(Leaving<'a>, Run)> {
        let entry = &self.peers[peer];
        let active = entry.active.as_deref()?;
        let undisturbed = active.lost() == 0 && active.controls.is_empty() && active.refusals == 0;
        if !undisturbed || !entry.is_found() {
            return None;
        }
        let first = active.train_next;
        let numbers = WINDOW_FRAMES.checked_sub(first.since(active.unacked) as u32)?;
        let record = &active.records[active.record_of(first)?];
        let (path, hop) = paths.pick(record.path);
        let in_flight = active.flight(path).in_flight;
        let window = self.window_by(entry, path, hop).saturating_sub(in_flight);
        let place = first.since(record.first) as u32;
        // The last one may be shorter, and says that it is the last.
        let middle = (record.count - 1).saturating_sub(place);
        let run = self.run(record.what, place)?;
        let whole = (run.memory.bytes / u64::from(run.fragment)) as u32;
        let bytes = run.fragment + HEADER_BYTES as u16;
        let frames = numbers.min(window / u32::from(bytes)).min(middle).min(whole).min(room);
        let most =
            if hop.is_some_and(|(_, to)| to.is_memory()) { u16::MAX } else { paths.bytes(path) };
        let fits = usize::from(bytes) <= usize::from(most).min(out.batch.frame_bytes_max());
        let unsent = active.frame(first).state == FrameState::Unsent;
        let leaving = Leaving {
            first,
            frames,
            path,
            hop,
            load: Load::of(bytes.into(), false),
            window: entry.window(&self.further, path),
            last: false,
            requests: false,
            inline_bytes: inline_of(out.memory, run.memory, self.inline_bytes(hop, record)),
            bundles: false,
            room: paths.bytes(path),
            long: false,
        };
        (frames > 0 && fits && unsent).then_some((leaving, run))
    }

    /// Where the payload of the frames from `place` on is, if it can be named and is not worth a copy.
    fn run(&self, what: What, place: u32) -> Option<Run> {
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
        let run = Run { kind, word, memory, fragment, alike: None };
        (u64::from(fragment) > INLINE_PAYLOAD_BYTES).then_some(run)
    }
}

impl SendSide {
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
