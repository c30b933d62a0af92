//! Doubt: a path by which nothing is acknowledged is asked after, and another beside it (`PATH-5`). Who answers by the other, time and again,
//! and not by this, is awake, and the path has failed. A peer that answers by none may only be busy: that says nothing of a path.

use super::SendSide;
use super::active::Active;
use super::timer::DETOUR_RUNS;
use crate::cross::RouteNews;
use crate::path::PathId;
use crate::time::{Span, Time};

/// Time between two questions: a LAN answers within it, and four of them are less than the 10 ms after which a path is to be left.
const ASK_EVERY: (Span, Span) = (Span::us(500), Span::us(2_500));

/// Times in a row that the other has answered and the path has not.
const SILENT_MAX: u32 = 3;

/// Questions without an answer by any, after which the peer is what is doubted.
const ASKS_MAX: u32 = 12;

/// What is doubted of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doubt {
    /// When it is asked after next. `None`: it is in no doubt.
    pub(super) next: Option<Time>,
    /// When it was last.
    asked_at: Time,
    pub(super) asks: u32,
    /// Times in a row that another has answered and it has not.
    pub(super) silent: u32,
    /// When it last answered.
    spoke_at: Time,
}

impl Doubt {
    /// Others have answered and this one has not: what is lost by it is not sent by it again.
    #[inline]
    pub(super) const fn is_silent(&self) -> bool {
        self.silent > 0
    }
}

impl Active {
    /// Nothing speaks against a path: neither ran its timer again and again, nor did others answer where it did not.
    #[inline]
    pub(super) fn is_well(&self, path: PathId) -> bool {
        let flight = self.flight(path);
        flight.backoff <= DETOUR_RUNS && !flight.doubt.is_silent()
    }

    /// When the peer was last heard of by this path, as far as that shows that both ends work.
    fn spoke_at(&self, path: PathId) -> Time {
        let flight = self.flight(path);
        flight.delivered_at.max(flight.doubt.spoke_at)
    }
}

impl SendSide {
    /// Nothing of a path was acknowledged for a whole timer of it: it is asked after from now on.
    pub(super) fn begin_doubt(&mut self, peer: u32, path: PathId, now: Time) {
        let Some(active) = self.peers[peer].active.as_deref_mut() else { return };
        let doubt = &mut active.flight_mut(path).doubt;
        if doubt.next.is_none() {
            *doubt = Doubt { next: Some(now), spoke_at: doubt.spoke_at, ..Doubt::default() };
        }
    }

    /// A path has answered.
    pub(crate) fn path_spoke(&mut self, peer: u32, path: PathId, now: Time) {
        if let Some(active) = self.peers[peer].active.as_deref_mut() {
            active.flight_mut(path).doubt.spoke_at = now;
        }
    }

    /// Nothing speaks against a path of a peer.
    pub(crate) fn is_well(&self, peer: u32, path: PathId) -> bool {
        self.peers[peer].active.as_deref().is_none_or(|active| active.is_well(path))
    }

    /// There is no other path than this one: nothing is to be found out.
    pub(crate) fn end_doubt(&mut self, peer: u32, path: PathId) {
        if let Some(active) = self.peers[peer].active.as_deref_mut() {
            let doubt = &mut active.flight_mut(path).doubt;
            *doubt = Doubt { spoke_at: doubt.spoke_at, ..Doubt::default() };
        }
    }

    /// Asks after paths that are in doubt, and judges those that were. `late`: this node did not run in between.
    pub(super) fn run_doubts(&mut self, peer: u32, now: Time, late: impl Fn(Time) -> bool) {
        let ack_delay = self.profile.ack_delay;
        for path in PathId::all() {
            let entry = &mut self.peers[peer];
            let interval = entry.rtt(&self.further, path).timeout(ack_delay, 0);
            let Some(active) = entry.active.as_deref_mut() else { return };
            let doubt = active.flight(path).doubt;
            let Some(due) = doubt.next.filter(|due| *due <= now) else { continue };
            let since = doubt.asked_at;
            let others = PathId::all().filter(|other| *other != path);
            let other = others.map(|other| active.spoke_at(other)).max().unwrap_or_default();
            let speaks = active.spoke_at(path) > since;
            let asked = doubt.asks > 0;
            let silent = match doubt.silent {
                _ if asked && speaks => 0,
                // Nobody looked for the answer.
                silent if late(due) => silent,
                silent => silent + u32::from(asked && other > since),
            };
            let over = asked && speaks || doubt.asks >= ASKS_MAX;
            let doubt = &mut active.flight_mut(path).doubt;
            (doubt.silent, doubt.asks, doubt.asked_at) = (silent, doubt.asks + 1, now);
            doubt.next = Some(now + interval.clamp(ASK_EVERY.0, ASK_EVERY.1));
            if over || silent >= SILENT_MAX {
                *doubt = Doubt { spoke_at: doubt.spoke_at, ..Doubt::default() };
            }
            if silent >= SILENT_MAX {
                self.route_news.push_back(RouteNews::PathFailed { peer, path });
            } else if !over {
                self.route_news.push_back(RouteNews::PathDoubted { peer, path });
            }
        }
    }
}
