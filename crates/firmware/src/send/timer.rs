//! The timer: tail probe, retransmission with back-off (`RESEND-2`), and giving a peer up.

use emp_wire::Sequence;

use super::SendPath;
use super::acknowledged::mark_unit_lost;
use super::record::{Active, FrameState};
use crate::counters::Counter;
use crate::cross::RouteNews;
use crate::limits::WINDOW_FRAMES;
use crate::profile::RetransmitUnit;
use crate::time::Time;

/// Runs of the timer that each only had repaired what they resent. A receiver that takes frames out of order hardly needs so
/// many in a row; one that does not (`vmmc2`) needs all that is behind the gap.
const REPAIRS_MAX: u32 = 4;

/// How many times the unreachable time a peer may be heard without acknowledging anything that is due (`RESEND-4`).
const PATIENCE: u64 = 4;

/// Frames that one run of the timer may resend into a full window: a train of 64 KB, so that a jammed path gets no more.
const CREDIT_MAX: u32 = 48;

impl SendPath {
    /// Sets the peer's deadline to the earliest thing that is due.
    pub(super) fn arm(&mut self, peer: u32, now: Time) {
        match self.due(peer, now) {
            Some(time) => self.timers.set(peer, time),
            None => self.timers.clear(peer),
        }
    }

    fn due(&self, peer: u32, now: Time) -> Option<Time> {
        let entry = &self.peers[peer];
        let active = entry.active.as_deref()?;
        if !entry.found {
            return None;
        }
        let resend = (active.in_flight > 0 || active.lost > 0).then(|| {
            active.progress_at + entry.window.timeout(self.profile.ack_delay, active.backoff)
        });
        let ready =
            (!active.pending.is_empty() && active.ready_at > now).then_some(active.ready_at);
        match (resend, ready) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Runs the timers that are due.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        while let Some(peer) = self.timers.pop_due(now) {
            // What was due may have been done since the timer was set.
            let due = self.due(peer, now);
            let waiting = self.peers[peer]
                .active
                .as_deref()
                .is_some_and(|active| active.in_flight > 0 || active.lost > 0);
            if self.ready_now(peer, now) {
                self.mark_ready(peer);
            }
            match due {
                Some(time) if time > now => self.timers.set(peer, time),
                // A peer that is given up is reset by the node; it has no deadline any more.
                Some(_) if waiting && self.run_out(peer, now) => self.arm(peer, now),
                _ => {}
            }
        }
    }

    fn ready_now(&self, peer: u32, now: Time) -> bool {
        self.peers[peer]
            .active
            .as_deref()
            .is_some_and(|active| !active.pending.is_empty() && active.ready_at <= now)
    }

    /// Nothing was acknowledged for a whole timer. False: the peer is given up.
    fn run_out(&mut self, peer: u32, now: Time) -> bool {
        let entry = &mut self.peers[peer];
        let Some(active) = entry.active.as_deref_mut() else { return false };
        let silence = now.since(active.heard_at);
        // A peer that speaks but acknowledges nothing for that long will not: an error is better than waiting for ever.
        let stuck = now.since(active.acked_at).0 / PATIENCE > self.profile.unreachable_after.0;
        if silence > self.profile.unreachable_after || stuck {
            self.route_news.push_back(RouteNews::Lost { peer });
            return false;
        }
        if silence.0 > self.profile.unreachable_after.0 / 2 && !active.suspected {
            active.suspected = true;
            self.route_news.push_back(RouteNews::Suspect { peer });
        }
        let probing = active.backoff == 0 && self.profile.tail_probe;
        let unit = self.profile.retransmit;
        if let Some(oldest) = oldest_in_flight(active) {
            mark_unit_lost(active, oldest, unit, self.profile.collection);
        }
        if probing {
            self.counters.count(Counter::TailProbes);
        } else {
            self.counters.count(Counter::Timeouts);
            entry.window.on_timeout();
            // With selective acknowledgements the answer to one frame tells what became of all others. Without them the
            // first run resends the profile's unit; silence after that says nothing of any frame in flight.
            if unit != RetransmitUnit::Frame && active.backoff > 0 {
                mark_all_lost(active);
            }
        }
        // Each run repaired what it resent and nothing else moved: the receiver drops what is behind the gap.
        active.repairs += 1;
        if active.repairs > REPAIRS_MAX {
            mark_all_lost(active);
        }
        active.credit = active.lost.min(CREDIT_MAX);
        active.backoff += 1;
        active.progress_at = now;
        self.mark_ready(peer);
        true
    }
}

fn in_window(active: &Active) -> impl Iterator<Item = Sequence> + use<> {
    let unacked = active.unacked;
    (0..WINDOW_FRAMES).map(move |i| unacked.plus(i))
}

fn oldest_in_flight(active: &Active) -> Option<Sequence> {
    in_window(active).find(|sequence| active.frame(*sequence).state == FrameState::InFlight)
}

fn mark_all_lost(active: &mut Active) {
    for sequence in in_window(active) {
        active.mark_lost(sequence);
    }
}
