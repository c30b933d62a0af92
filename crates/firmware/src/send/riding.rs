//! The acknowledgement that comes most often where messages are small: it rides on another frame, and says of the oldest
//! frame alone, a message of its own that was sent once, that it has arrived. It does what the general way does
//! ([`on_ack`](SendPath::on_ack)), without looking at what cannot have changed.

use emp_wire::Sequence;

use super::acknowledged::passed_us;
use super::record::{Frame, FrameState, Record, What};
use super::{SendPath, window_mut};
use crate::time::Time;

impl SendPath {
    /// False: it is not of that kind, and nothing was done.
    #[inline]
    pub(super) fn on_single_ack(&mut self, now: Time, peer: u32, cumulative: Sequence) -> bool {
        let entry = &mut self.peers[peer];
        let Some(active) = entry.active.as_deref_mut() else { return false };
        let sequence = active.unacked;
        if cumulative != sequence.plus(1) {
            return false;
        }
        let what =
            active.records.front().map(|&Record { first, count, what, .. }| (first, count, what));
        let Some((first, 1, What::Message { message, .. })) = what else { return false };
        let Frame { order, sent_us, state, resent, lane } = *active.frame(sequence);
        if first != sequence || state != FrameState::InFlight || resent {
            return false;
        }
        active.records.pop_front();
        *active.frame_mut(sequence) = Frame::default();
        active.unacked = cumulative;
        active.raise_acked(lane, order);
        (active.repairs, active.refusals, active.acked_at) = (0, 0, now);
        let flight = active.flight_mut(lane);
        flight.in_flight -= 1;
        (flight.progress_at, flight.delivered_at, flight.backoff) = (now, now, 0);
        let windows = (&mut entry.window, &mut entry.bulk_window);
        let window = window_mut(windows, &mut self.bulk_windows, lane);
        let now_us = (now.0 / 1_000) as u32;
        match passed_us(now_us, sent_us) {
            Some(sample) => window.on_round_trip(sample, 1, now_us),
            None => window.grow(1),
        }
        self.train_acked(peer, message);
        self.go_on(now, peer);
        true
    }
}
