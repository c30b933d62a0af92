//! The timer: tail probe, retransmission with back-off (`RESEND-2`), and giving a peer up.

use emp_wire::Sequence;

use super::SendSide;
use super::active::Active;
use super::flight::Flight;
use super::lost::mark_unit_lost;
use super::record::FrameState;
use super::strangers::Known;
use super::window::rtt_mut;
use crate::counters::Counter;
use crate::cross::RouteNews;
use crate::limits::{RETRANSMIT_FLOOR, STRANGERS_SILENCE, WINDOW_FRAMES};
use crate::path::PathId;
use crate::profile::{Profile, RetransmitUnit};
use crate::time::{Span, Time};

/// Runs of the timer that each only had repaired what they resent. A receiver that takes frames out of order hardly needs so
/// many in a row; one that does not (`vmmc2`) needs all that is behind the gap.
const REPAIRS_MAX: u32 = 4;

/// A silent peer's host may be able to tell what became of it (`RESEND-9`) after so long: several of the timer's runs, and soon for whoever waits for
/// a process that has ended.
pub(crate) const ASK_HOST_AFTER: Span = Span::ms(250);

/// Runs of a path's timer after which what it resends goes by the other path: the probe, and one that may have met the
/// same burst of losses. If that arrives and nothing by this path does, the path has failed (`PATH-5`).
pub(super) const DETOUR_RUNS: u32 = 2;

/// A timer that runs so much later than it was due shows that this node did not run, and says nothing of a path: nobody has looked for the answer. Far
/// more than the system takes to wake a thread, and less than a thread is kept from a core that others want.
const LATE: Span = Span::ms(1);

/// Runs of the timer after which the peer is asked whether it still takes frames of this length. By then every other cause has
/// had its cure.
const DOUBT_RUNS: u32 = 4;

/// Runs of the timer without an answer that say nothing of a queue: a receiver that does not run for two milliseconds brings them about, and its
/// answer tells what was lost. One that acknowledges nothing out of order does not tell: of its, only the probe says nothing.
const ANSWERED_RUNS: u32 = 2;

/// Frames that one run of the timer may resend into a full window: its answer tells what became of the others.
const CREDIT_MAX: u32 = 1;

impl SendSide {
    /// Sees to it that the peer's deadline is not later than the earliest thing that is due. It may be earlier: what was
    /// due is done most often, and what is due then is found out when it comes.
    pub(super) fn arm(&mut self, peer: u32, now: Time) {
        match self.due(peer, now) {
            Some(time) => self.timers.set_by(peer, time),
            None => self.timers.clear(peer),
        }
    }

    /// The same when nothing has become due before what was, except by what began to wait now.
    #[inline]
    pub(super) fn arm_later(&mut self, peer: u32, now: Time) {
        if !self.timers.is_set_by(peer, now + RETRANSMIT_FLOOR) {
            self.arm(peer, now);
        }
    }

    fn due(&self, peer: u32, now: Time) -> Option<Time> {
        let entry = &self.peers[peer];
        let active = entry.active.as_deref()?;
        if !entry.is_found() {
            return None;
        }
        let path_due = |path| {
            let doubt = active.flight(path).doubt.next;
            self.path_due(peer, path).into_iter().chain(doubt).min()
        };
        let paths = active.flights.used().filter_map(path_due).min();
        let ready =
            (!active.pending.is_empty() && active.ready_at > now).then_some(active.ready_at);
        let paced = active.paced.filter(|at| *at > now);
        let due = [paths, self.tail_due(peer), ready, paced, active.lost_at];
        due.into_iter().flatten().min()
    }

    /// When the timer of one path runs out.
    fn path_due(&self, peer: u32, path: PathId) -> Option<Time> {
        let entry = &self.peers[peer];
        let flight = entry.active.as_deref()?.flight(path);
        // A peer is given up for not answering: what it is to answer leaves more often than that.
        let asked_within = self.profile.suspect_after();
        let timeout = || {
            let rtt = entry.rtt(&self.further, path);
            rtt.timeout(self.profile.ack_delay, flight.backoff).min(asked_within)
        };
        // What waits for its turn is not late.
        let paced = flight.in_flight == 0 && entry.active.as_deref()?.paced.is_some();
        (flight.is_waiting() && !paced).then(|| flight.progress_at + timeout())
    }

    /// Runs the timers that are due. `patience` tells how long a peer may be silent.
    pub(crate) fn handle_timeout(&mut self, now: Time, patience: impl Fn(u32) -> Span) {
        self.settle_acks(now);
        while let Some(peer) = self.timers.pop_due(now) {
            let late = |active: &Active| active.lost_at.is_some_and(|at| at <= now);
            if self.peers[peer].active.as_deref().is_some_and(late) {
                self.find_lost(now, peer);
                self.mark_ready(peer);
            }
            // What was due may have been done since the timer was set.
            let due = self.due(peer, now);
            let waiting = self.peers[peer].active.as_deref().is_some_and(Active::is_flying);
            if self.ready_now(peer, now) {
                self.mark_ready(peer);
            }
            self.run_doubts(peer, now, |due| now.since(due) >= LATE);
            match due {
                Some(time) if time > now => self.timers.set(peer, time),
                // Nothing is under way, so no answer will have it looked at what waits for its time, or for a path that was in doubt.
                Some(_) if !waiting => self.mark_ready(peer),
                // A peer that is given up is reset by the node; it has no deadline any more.
                Some(_) if self.run_out(peer, now, patience(peer)) => self.arm(peer, now),
                Some(_) => {}
                None => {}
            }
        }
    }

    fn ready_now(&self, peer: u32, now: Time) -> bool {
        self.peers[peer].active.as_deref().is_some_and(|active| {
            let paced = active.paced.is_some_and(|at| at <= now);
            paced || !active.pending.is_empty() && active.ready_at <= now
        })
    }

    /// Nothing was acknowledged for a whole timer. False: the peer is given up.
    fn run_out(&mut self, peer: u32, now: Time, silence_max: Span) -> bool {
        let entry = &mut self.peers[peer];
        let Some(active) = entry.active.as_deref_mut() else { return false };
        let silence = now.since(active.heard_at);
        // A peer that speaks but acknowledges nothing for that long will not: an error is better than waiting for ever.
        let stuck = now.since(active.acked_at) > Profile::deaf_after(silence_max);
        // Whoever acknowledged anything has been measured.
        let stranger = !entry.rtt.is_measured() && entry.known != Known::Met;
        let crowded = stranger && !self.strangers.may_resend(now);
        if silence > silence_max || stuck || crowded && silence > STRANGERS_SILENCE {
            self.route_news.push_back(RouteNews::Lost { peer });
            return false;
        }
        if crowded {
            for flight in active.flights.each_mut() {
                (flight.progress_at, flight.backoff) = (now, flight.backoff + 1);
            }
            return true;
        }
        if silence >= ASK_HOST_AFTER {
            self.route_news.push_back(RouteNews::Silent { peer });
        }
        if silence > self.profile.suspect_after() && !active.suspected {
            active.suspected = true;
            self.route_news.push_back(RouteNews::Suspect { peer });
        }
        self.ask_after_tail(peer, now);
        for path in PathId::all() {
            if let Some(due) = self.path_due(peer, path).filter(|due| *due <= now) {
                self.path_run_out(peer, path, now, now.since(due) >= LATE);
            }
        }
        self.mark_ready(peer);
        true
    }

    /// Nothing of one path was acknowledged for a whole timer of it, which is `late`.
    fn path_run_out(&mut self, peer: u32, path: PathId, now: Time, late: bool) {
        let entry = &mut self.peers[peer];
        let next = entry.next;
        let Some(active) = entry.active.as_deref_mut() else { return };
        let Flight { backoff, progress_at, .. } = *active.flight(path);
        let windows = (&mut entry.rtt, &mut entry.further);
        rtt_mut(windows, &mut self.further, path).on_timeout(now.since(progress_at));
        let probing = backoff == 0 && self.profile.tail_probe;
        let unit = self.profile.retransmit;
        let oldest = oldest_in_flight(active, path);
        // A question tells as much, and is not 60 KB if the answer is only late.
        // What tells of several is worth a round trip; and where a queue is full there is room for it.
        let several = |oldest: Sequence| {
            let frame = active.frame(oldest);
            // A profile that resends more than a frame says itself what comes first.
            let alone = u32::from(frame.load.bytes) >= active.flight(path).in_flight;
            frame.is_long() || unit == RetransmitUnit::Frame && !alone
        };
        let asks = probing
            && self.profile.selective_acks
            && oldest.is_some_and(several)
            && active.ask_in_place(next, path, now);
        let unit_bytes = oldest.map_or(0, |oldest| active.frame(oldest).load.bytes.into());
        let oldest = oldest.filter(|_| !asks);
        if let Some(oldest) = oldest {
            let collection = self.collections.of(peer, self.profile.collection);
            mark_unit_lost(active, oldest, unit, collection);
        }
        if asks {
            // It is counted when it leaves.
        } else if probing {
            self.counters.count(Counter::TailProbes);
        } else {
            self.counters.count(Counter::Timeouts);
            // With selective acknowledgements the answer to one frame tells what became of all others. Without them the
            // first run resends the profile's unit; silence after that says nothing of any frame in flight.
            if unit != RetransmitUnit::Frame && backoff > 0 {
                mark_all_lost(active, path);
            }
        }
        // Each run repaired what it resent and nothing else moved: the receiver drops what is behind the gap.
        active.repairs += 1;
        if active.repairs > REPAIRS_MAX {
            mark_all_lost(active, path);
        }
        active.credit = active.lost().min(CREDIT_MAX);
        let long = oldest.is_some_and(|oldest| active.frame(oldest).is_long());
        self.doubt_long(peer, oldest, backoff);
        let entry = &mut self.peers[peer];
        let Some(active) = entry.active.as_deref_mut() else { return };
        let flight = active.flight_mut(path);
        flight.backoff += 1;
        flight.progress_at = now;
        let counts = if self.profile.selective_acks { backoff > ANSWERED_RUNS } else { !probing };
        if counts {
            let next = flight.order.wrapping_add(1);
            if let Some(congestion) = self.congestion_mut(peer, path) {
                congestion.on_timeout(unit_bytes, next);
            }
        }
        // Other profiles have one path (`PATH-7`).
        if !late && self.profile.selective_acks {
            self.begin_doubt(peer, path, now);
        }
        if backoff == DETOUR_RUNS {
            // What is resent from now on goes by the other path, if there is one by then.
            self.route_news.push_back(RouteNews::PathsWanted { peer });
        }
        if backoff >= DOUBT_RUNS {
            self.route_news.push_back(RouteNews::Doubted { peer, path });
            if !long {
                self.route_news.push_back(RouteNews::SizeDoubted { peer, path });
            }
        }
    }

    /// A path of a peer is not used any more: what is under way by it goes by the other.
    pub(crate) fn path_failed(&mut self, peer: u32, path: PathId) {
        self.forget_rate(peer, path);
        let Some(active) = self.peers[peer].active.as_deref_mut() else { return };
        mark_all_lost(active, path);
        active.credit = active.lost().min(CREDIT_MAX);
        self.mark_ready(peer);
    }
}

fn in_window(active: &Active) -> impl Iterator<Item = Sequence> + use<> {
    let unacked = active.unacked;
    (0..WINDOW_FRAMES).map(move |i| unacked.plus(i))
}

fn oldest_in_flight(active: &Active, path: PathId) -> Option<Sequence> {
    in_window(active).find(|sequence| {
        let frame = active.frame(*sequence);
        frame.state == FrameState::InFlight && frame.path == path
    })
}

fn mark_all_lost(active: &mut Active, path: PathId) {
    for sequence in in_window(active) {
        if active.frame(sequence).path == path {
            active.mark_lost(sequence);
        }
    }
}
