//! Frames longer than the MTU: what they weigh, when they are wanted, and when too many are lost (`LONG-3`, `LONG-4`).

use emp_wire::{HEADER_BYTES, LONG_FRAME_BYTES, Sequence, TRAIN_FRAMES_MAX};

use super::active::Active;
use super::record::{Frame, Load, Record, What};
use super::{SendMessage, SendPeer, SendSide, State};
use crate::counters::Counter;
use crate::cross::RouteNews;
use crate::pair::Peers;
use crate::path::{Hop, PathId, Paths};
use crate::time::Time;

/// What the loss of a long frame counts as, against the arrival of one; and how much of that is too much. More than one lost
/// of nine, for some time, closes the way: with frames of the MTU each loss costs a fortieth. One datagram lost of a thousand,
/// which is one long frame of 24, does not.
const STRIKE: u32 = 8;
const STRIKES_MAX: u32 = 8 * STRIKE;

/// Long frames that were lost together count as no more than so many: a receiver without room for an instant loses a whole
/// window, and behind a lost first frame of a message all others are dropped. Neither says much of the way.
const BURST_MAX: u32 = 3;

/// Runs of a path's timer with nothing acknowledged after which it is asked whether the peer runs at all. If it answers, and a long
/// frame that was sent before is still not acknowledged, such do not get through; if not, it may just not have been given a
/// processor.
const SILENT_RUNS: u32 = 2;

/// A window or grant of less than such a part of a long frame has no room for it. Of one that is a little short of a frame the frames leave with
/// pauses, as it may grow or be told anew.
const ROOM_PARTS: u32 = 2;

/// How long a frame is, or will be. With more than `long_above` bytes it leaves as a long one.
#[inline]
pub(super) fn load_of(
    record: &Record,
    message: Option<&SendMessage>,
    place: u32,
    long_above: u16,
) -> Load {
    if let (What::Message { .. }, Some(message), 0) = (record.what, message, place) {
        return message.plan.load(long_above);
    }
    let Some(piece) = record.what.piece(place, message) else { return Load::SHORT };
    let bytes = piece.bytes() + HEADER_BYTES as u64;
    Load::of(bytes, bytes > long_above.into())
}

impl SendSide {
    /// Has it found out whether long frames get through, where they would be of use now and nobody knows.
    pub(super) fn want_long(&mut self, now: Time, peer: u32, paths: &Paths, peers: &Peers) {
        if !peers.units.any() {
            return;
        }
        let entry: &SendPeer = &self.peers[peer];
        let newest = entry.active.as_deref().and_then(|active| active.records.back());
        let Some(newest) = newest.filter(|newest| newest.count > 1) else { return };
        let frames = newest.usual_frames.max(newest.count);
        // Blocks that leave in long frames take no other interface that carries none.
        let newest_lane = paths.hop(newest.path).filter(|_| paths.is_long(newest.path));
        let newest_lane = newest_lane.map(|(link, _)| peers.costs.interface(link));
        let beside = |link| newest_lane.is_some_and(|lane| lane != peers.costs.interface(link));
        for (path, hop) in paths.each().filter(|(path, _)| !paths.is_long(*path)) {
            let sooner = || peers.costs.of(hop.0, frames, true) < paths.cost(frames, true);
            if peers.units.carries(hop.0)
                // A question is as long as the longest frame. Where there is no room for one, none would be sent after it.
                && self.is_wide(entry, path, Some(hop))
                && (path == newest.path || sooner() || beside(hop.0))
                && peers.units.may_ask(now, peer, hop)
            {
                self.route_news.push_back(RouteNews::LongWanted { peer, path });
            }
        }
    }

    /// What a block of a message in long frames is cut into, and payload bytes of its frames, where its path has no room for such now. `None`: it
    /// is as it was asked for.
    pub(super) fn cut_anew(
        &mut self,
        peer: u32,
        block: What,
        path: PathId,
        paths: &Paths,
    ) -> Option<(What, u16)> {
        let What::Block { message, pull, offset, bytes, fragment: asked } = block else {
            return None;
        };
        let fragment = paths.bytes(path) - HEADER_BYTES as u16;
        let frame_bytes = bytes.min(asked.into()) + HEADER_BYTES as u32;
        let long = frame_bytes > paths.long_above(path).into();
        let fits = bytes.div_ceil(fragment.into()) <= TRAIN_FRAMES_MAX;
        if !long || !fits || self.is_wide(&self.peers[peer], path, paths.hop(path)) {
            return None;
        }
        self.counters.count(Counter::CutAnew);
        Some((What::Block { message, pull, offset, bytes, fragment }, fragment))
    }

    /// A frame that is to leave is one of a message in long frames of which its path has no room for the half of one, or of which so little
    /// is granted: its message begins anew in frames of the MTU, as it would begin now (`LONG-7`). False: it is none such.
    #[inline(never)]
    pub(super) fn begins_anew(&mut self, peer: u32, sequence: Sequence, paths: &Paths) -> bool {
        let entry = &self.peers[peer];
        let Some(active) = entry.active.as_deref() else { return false };
        let Some(record) = active.record_of(sequence).map(|at| &active.records[at]) else {
            return false;
        };
        let What::Message { message: index, number } = record.what else { return false };
        let Some(message) = self.messages.at(index) else { return false };
        let (path, hop) = paths.pick(record.path);
        let place = sequence.since(record.first) as u32;
        let load = load_of(record, Some(message), place, paths.long_above(path));
        let room = self.window_by(entry, path, hop);
        let under_way = matches!(message.state, State::Sending | State::AwaitingBoth);
        // What has arrived would leave again.
        let mostly_there = record.acked * ROOM_PARTS > record.count;
        let roomy = room >= u32::from(load.bytes) / ROOM_PARTS;
        if !load.long || !under_way || mostly_there || roomy {
            return false;
        }
        if let Some(message) = self.messages.at_mut(index) {
            message.plan.cut = message.shape().cut_again(message.plan.cut, paths.bytes(path));
        }
        self.begin_again(peer, index, number);
        self.counters.count(Counter::CutAnew);
        true
    }

    /// The timer of a path ran out, as many times before in a row, with this frame as the oldest under way. Whoever said
    /// something after the last run had the time between that and the one before to take what was sent then.
    pub(super) fn doubt_long(&mut self, peer: u32, oldest: Option<Sequence>, runs: u32) {
        let Some(active) = self.peers[peer].active.as_deref() else { return };
        let Some(frame) = oldest.map(|oldest| active.frame(oldest)) else { return };
        let long = frame.is_long() && active.left_long(frame);
        if !long || runs < SILENT_RUNS {
            return;
        }
        let last_run = active.flight(frame.path).progress_at;
        self.route_news.push_back(if runs > SILENT_RUNS && active.heard_at > last_run {
            RouteNews::LongFailed { peer, path: frame.path }
        } else {
            RouteNews::Doubted { peer, path: frame.path }
        });
    }

    /// A question about long frames, as long as one, has room in a path's window.
    pub(crate) fn has_room_for_long(&self, peer: u32, path: PathId, hop: Hop<'_>) -> bool {
        self.is_wide(&self.peers[peer], path, Some(hop))
    }

    /// Long frames are found to get through to a peer from now on, by these paths, a bit each. What is under way left in slices, or was lost
    /// before. One has come through just now: so there is room for one.
    pub(crate) fn long_opened(&mut self, now: Time, peer: u32, paths: u8) {
        for path in PathId::all().filter(|path| paths & path.bit() != 0) {
            if self.peers[peer].further_place().is_some()
                && let Some(window) = self.congestion_mut(peer, path)
            {
                window.widen(LONG_FRAME_BYTES as u32);
            }
        }
        if let Some(active) = self.peers[peer].active.as_deref_mut() {
            active.flights.each_mut().for_each(|flight| flight.strikes = 0);
            active.long_from_us = Some((now.0 / 1_000) as u32);
        }
    }

    /// So many long frames were found lost at once, while what was sent after them by the same path arrived.
    pub(super) fn strike(&mut self, peer: u32, path: PathId, frames: u32) {
        let Some(active) = self.peers[peer].active.as_deref_mut() else { return };
        let flight = active.flight_mut(path);
        flight.strikes += frames.min(BURST_MAX) * STRIKE;
        if flight.strikes >= STRIKES_MAX {
            flight.strikes = 0;
            self.route_news.push_back(RouteNews::LongFailed { peer, path });
        }
    }
}

impl Active {
    /// A long frame left whole when it was last sent, as far as is known.
    pub(super) fn left_long(&self, frame: &Frame) -> bool {
        self.long_from_us.is_none_or(|from_us| frame.sent_us.wrapping_sub(from_us) as i32 >= 0)
    }
}
