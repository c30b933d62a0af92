//! Which frames are found lost when something arrives or a timer runs, and what is sent again with them.

use emp_wire::Sequence;

use super::SendSide;
use super::active::Active;
use super::record::FrameState;
use super::window::rtt_mut;
use crate::limits::{PATHS_MAX, WINDOW_FRAMES};
use crate::path::PathId;
use crate::path::congestion::Lost;
use crate::path::recovery::Fate;
use crate::profile::RetransmitUnit;
use crate::time::{Span, Time};

/// What was found out so many microseconds ago, a quarter of the time in which these wrap, concerns nothing that is still under way.
const LONG_AGO_US: u32 = 1 << 30;

impl SendSide {
    /// Frames that were sent well before one that arrived are lost (`RESEND-1`).
    pub(super) fn find_lost(&mut self, now: Time, peer: u32) {
        let (ahead, now_us) = (self.profile.reorder_frames, (now.0 / 1_000) as u32);
        let entry = &mut self.peers[peer];
        let mut rtts = [entry.rtt; PATHS_MAX];
        PathId::all().for_each(|path| rtts[path.index()] = *entry.rtt(&self.further, path));
        let end = entry.next;
        let Some(active) = entry.active.as_deref_mut() else { return };
        let mut sequence = active.unacked;
        let mut due_us = u32::MAX;
        let span = (end.since(sequence) as u32).min(WINDOW_FRAMES);
        active.long_from_us =
            active.long_from_us.filter(|us| now_us.wrapping_sub(*us) < LONG_AGO_US);
        let mut long = [0; PATHS_MAX];
        let mut lost = 0u8;
        let mut gone = [Lost::default(); PATHS_MAX];
        let mut orders = [0; PATHS_MAX];
        PathId::all().for_each(|path| orders[path.index()] = active.flight(path).order);
        for _ in 0..span {
            let frame = *active.frame(sequence);
            // Datagrams of one stream seldom overtake each other, sixty kilobytes of them hardly ever.
            let ahead = if frame.is_long() { 0 } else { ahead };
            let path = frame.path;
            let fate = match frame.state {
                FrameState::InFlight => {
                    let recovery = &active.flight(path).recovery;
                    recovery.judge(frame.departure(), ahead, now_us, &rtts[path.index()])
                }
                _ => Fate::Open,
            };
            if let Fate::Due(us) = fate {
                due_us = due_us.min(us);
            }
            if fate == Fate::Lost {
                long[path.index()] += u32::from(frame.is_long() && active.left_long(&frame));
                let gone = &mut gone[path.index()];
                if lost & path.bit() == 0 || (frame.order.wrapping_sub(gone.order) as i32) > 0 {
                    gone.order = frame.order;
                }
                gone.bytes += u32::from(frame.load.bytes);
                gone.unit = gone.unit.max(frame.load.bytes.into());
                lost |= path.bit();
                let collection = self.collections.of(peer, self.profile.collection);
                mark_unit_lost(active, sequence, self.profile.retransmit, collection);
            }
            sequence = sequence.plus(1);
        }
        active.lost_at = (due_us != u32::MAX).then(|| now + Span::us(due_us.into()));
        for path in PathId::of_bits(lost) {
            let entry = &mut self.peers[peer];
            if let Some(active) = entry.active.as_deref_mut() {
                active.flight_mut(path).recovery.on_recovery();
            }
            rtt_mut((&mut entry.rtt, &mut entry.further), &mut self.further, path).on_loss();
            let next = orders[path.index()].wrapping_add(1);
            let gone = Lost { next, ..gone[path.index()] };
            if let Some(congestion) = self.congestion_mut(peer, path) {
                congestion.on_loss(&gone);
            }
        }
        for path in PathId::all().filter(|path| long[path.index()] > 0) {
            self.strike(peer, path, long[path.index()]);
        }
    }
}

impl Active {
    /// A frame that left after the first unacknowledged one, by its path, has arrived.
    pub(super) fn is_overtaken(&self) -> bool {
        let first = self.frame(self.unacked);
        first.state == FrameState::InFlight
            && self.flight(first.path).recovery.is_past(first.departure())
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
