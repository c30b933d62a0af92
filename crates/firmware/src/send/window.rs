//! Round trips and windows of a peer's paths, where they are kept: of the first path's round trips there is one for each idle peer; windows,
//! and what is known of other paths, only those have for whom a window was once too small, or another path was used.

use emp_wire::Sequence;

use alloc::vec::Vec;

use super::granted::Granted;
use super::{SendPeer, SendSide};
use crate::cross::RouteNews;
use crate::limits::{FURTHER_PATHS_MAX, PATHS_MAX};
use crate::path::congestion::{Acked, Congestion, INITIAL_BYTES};
use crate::path::rate::{Busy, Rate, Trips};
use crate::path::rtt::Rtt;
use crate::path::{Hop, PathId};
use crate::time::{Span, Time};

/// Smallest window by which long frames leave: most of one of the longest. Less of a port's queue is no room for such bursts, and
/// frames of the MTU can be let out one by one.
const LONG_WINDOW_BYTES: u32 = 48 << 10;

/// Milliseconds between two looks at which of a peer's paths is quickest, which costs as much as a frame: least round trips change in seconds.
const MEASURED_MS: u32 = 1;

/// What is known of a peer's paths beyond what every idle peer has.
#[derive(Clone, Copy)]
pub(super) struct Further {
    /// Of those beside the first.
    rtts: [Rtt; PATHS_MAX - 1],
    windows: [Congestion; PATHS_MAX],
    rates: [Rate; PATHS_MAX],
    busy: Busy,
    /// When it was last said that round trips were measured, in milliseconds (wrapping).
    told_ms: u32,
    /// What its receiver lets it be sent unasked, and what of that bounds the current train, which may have been asked for.
    pub(super) granted: Granted,
    pub(super) bound: u32,
}

impl Further {
    pub(super) const NEW: Self = Self {
        rtts: [const { Rtt::new() }; PATHS_MAX - 1],
        windows: [Congestion::FRESH; PATHS_MAX],
        rates: [Rate::NEW; PATHS_MAX],
        busy: Busy::NEW,
        told_ms: 0,
        granted: Granted::NOTHING_SAID,
        bound: u32::MAX,
    };
}

impl Further {
    /// A call: few peers have such, and all others pass here with each message.
    #[inline(never)]
    fn window(&self, path: PathId) -> u32 {
        self.windows[path.index()].bytes().min(self.bound)
    }
}

/// The entry of a peer, made if there is none. `None`: there is no room for one more such peer.
fn entry<'a>(place: &mut u16, further: &'a mut Vec<Further>) -> Option<&'a mut Further> {
    if *place == 0 {
        if further.len() >= FURTHER_PATHS_MAX {
            return None;
        }
        further.push(Further::NEW);
        *place = further.len() as u16;
    }
    Some(&mut further[usize::from(*place) - 1])
}

impl SendPeer {
    pub(super) fn further_place(&self) -> Option<usize> {
        usize::from(self.further).checked_sub(1)
    }

    /// The round trips of one of its paths.
    #[inline]
    pub(super) fn rtt<'a>(&'a self, further: &'a [Further], path: PathId) -> &'a Rtt {
        match (path.index().checked_sub(1), self.further_place()) {
            (Some(path), Some(place)) => &further[place].rtts[path],
            _ => &self.rtt,
        }
    }

    /// A round trip by one of its paths, in microseconds, that a small window is spread over.
    pub(super) fn trip_us(&self, further: &[Further], path: PathId) -> u32 {
        let rtt = self.rtt(further, path);
        let place = self.further_place();
        place.map_or(rtt.smoothed_us(), |place| further[place].windows[path.index()].trip_us(rtt))
    }

    /// The congestion window of one of its paths, whatever its receiver grants.
    pub(super) fn whole_window(&self, further: &[Further], path: PathId) -> u32 {
        let place = self.further_place();
        place.map_or(INITIAL_BYTES, |place| further[place].windows[path.index()].bytes())
    }

    /// Bytes of its current train that may be under way by one of its paths. Until that was a limit once it is what it is at first.
    #[inline]
    pub(super) fn window(&self, further: &[Further], path: PathId) -> u32 {
        match self.further_place() {
            Some(place) => further[place].window(path),
            None => INITIAL_BYTES,
        }
    }
}

/// The round trips of one of a peer's paths, to be changed. Its parts, because the peer's other parts are in use meanwhile.
#[inline]
pub(super) fn rtt_mut<'a>(
    (first, place): (&'a mut Rtt, &mut u16),
    further: &'a mut Vec<Further>,
    path: PathId,
) -> &'a mut Rtt {
    let Some(path) = path.index().checked_sub(1) else { return first };
    match entry(place, further) {
        Some(further) => &mut further.rtts[path],
        None => first,
    }
}

/// Frames were acknowledged: the window of their path takes it in, if there is one.
#[inline]
pub(super) fn on_acked(
    place: u16,
    further: &mut [Further],
    path: PathId,
    (first, news, now, drained): (&Rtt, &Acked, Time, bool),
) {
    let Some(place) = usize::from(place).checked_sub(1) else { return };
    let Further { rtts, windows, rates, busy, .. } = &mut further[place];
    let rtt = path.index().checked_sub(1).map_or(first, |path| &rtts[path]);
    busy.on_acked(now);
    let clocks = (now, busy.for_so_long);
    let [usual, least] = [rtt.smoothed_us(), rtt.least_us()].map(|us| Span::us(us.into()));
    rates[path.index()].on_acked(clocks, news.bytes, &Trips { usual, least, drained });
    windows[path.index()].on_acked(news, rtt, now);
}

/// A way through a machine's memory.
#[inline]
fn is_uncongested(hop: Option<Hop<'_>>) -> bool {
    hop.is_some_and(|(_, to)| to.is_memory() || *to == emp_wire::LinkAddress::LOOPBACK)
}

impl SendSide {
    /// The window of one of a peer's paths, to be changed. `None`: there is no room for one more such peer, and its windows stay what
    /// they are at first.
    pub(super) fn congestion_mut(&mut self, peer: u32, path: PathId) -> Option<&mut Congestion> {
        let further = entry(&mut self.peers[peer].further, &mut self.further)?;
        Some(&mut further.windows[path.index()])
    }

    /// Bytes that may be under way by a path. Nothing is congested in a machine's memory.
    #[inline]
    pub(super) fn window_by(&self, entry: &SendPeer, path: PathId, hop: Option<Hop<'_>>) -> u32 {
        if is_uncongested(hop) { u32::MAX / 2 } else { entry.window(&self.further, path) }
    }

    /// A path's window has room for long frames (`LONG-3`), be they asked for later.
    pub(super) fn is_wide(&self, entry: &SendPeer, path: PathId, hop: Option<Hop<'_>>) -> bool {
        is_uncongested(hop) || entry.whole_window(&self.further, path) >= LONG_WINDOW_BYTES
    }

    /// Something more is to be sent by a path than its window allows; its receiver has room for so many bytes, and long frames, if they get
    /// through, have so many.
    #[cold]
    pub(super) fn note_limited(&mut self, peer: u32, path: PathId, (room, unit): (u32, u32)) {
        let next = self.peers[peer].active.as_deref().map_or(0, |active| active.flight(path).order);
        if let Some(window) = self.congestion_mut(peer, path) {
            window.note_limited(next.wrapping_add(1), (room, unit));
        }
        if let Some(place) = self.peers[peer].further_place() {
            self.further[place].rates[path.index()].note_limited();
        }
    }

    /// V20: ask for an acknowledgement when little of the window is left, but not with every frame: not while a question is under
    /// way, whose answer lets as many frames go as were sent before it. Otherwise a sender that is ahead of its receiver would have each
    /// frame answered alone, and the answer let one frame go, which asks again.
    #[inline(always)]
    pub(super) fn asks(
        &self,
        entry: &SendPeer,
        (path, window): (PathId, u32),
        sequence: Sequence,
        bytes: u16,
    ) -> bool {
        let Some(active) = entry.active.as_deref() else { return false };
        let of = (self.profile.request_ack_below, self.profile.collection);
        active.asks((path, sequence), (bytes.into(), window), of)
    }

    /// Bytes that a path of a peer delivers in a millisecond, 0 if nobody knows; whether that is a guess; and a round trip by it in microseconds.
    pub(super) fn rate_and_trip(&self, peer: u32, path: PathId) -> (u32, bool, u32) {
        let entry = &self.peers[peer];
        let trip_us = entry.rtt(&self.further, path).smoothed_us();
        let Some(place) = entry.further_place() else { return (0, true, trip_us) };
        let Further { rates, busy, .. } = &self.further[place];
        let (rate, busy) = (&rates[path.index()], busy.for_so_long);
        (rate.per_ms(busy), rate.is_guess(busy), rate.trip(busy, trip_us))
    }

    /// The least round trip by a path of a peer in the last seconds, in microseconds; `u32::MAX` if none was measured in them.
    pub(crate) fn recent_us(&self, now: Time, peer: u32, path: PathId) -> u32 {
        self.peers[peer].rtt(&self.further, path).recent_us((now.0 / 1_000) as u32)
    }

    /// Something was acknowledged: now and then that is said of peers that may have several paths.
    #[inline]
    pub(super) fn tell_measured(&mut self, now: Time, peer: u32) {
        let Some(place) = self.peers[peer].further_place() else { return };
        let (now_ms, told_ms) = ((now.0 / 1_000_000) as u32, &mut self.further[place].told_ms);
        if now_ms.wrapping_sub(*told_ms) >= MEASURED_MS {
            *told_ms = now_ms;
            self.route_news.push_back(RouteNews::Measured { peer });
        }
    }

    /// There is no number for what this peer is to be sent next.
    pub(super) fn note_starved(&mut self, peer: u32) {
        if let Some(place) = self.peers[peer].further_place() {
            self.further[place].rates.iter_mut().for_each(Rate::note_starved);
        }
    }

    /// A path of a peer has failed, or leads elsewhere: what it delivered says nothing.
    pub(super) fn forget_rate(&mut self, peer: u32, path: PathId) {
        if let Some(place) = self.peers[peer].further_place() {
            self.further[place].rates[path.index()] = Rate::NEW;
        }
    }

    /// Something is to leave by a path by which nothing is under way.
    pub(super) fn begin_rate(&mut self, now: Time, peer: u32, path: PathId) {
        if let Some(place) = self.peers[peer].further_place() {
            self.further[place].rates[path.index()].begin(now);
        }
    }

    /// Windows of paths that were silent for longer than their timers are what they were at first (`WINDOW-6`).
    pub(super) fn refresh_windows(&mut self, now: Time, peer: u32) {
        let entry = &self.peers[peer];
        let Some(place) = entry.further_place() else { return };
        for path in PathId::all() {
            let flight = entry.active.as_deref().map(|active| active.flight(path));
            if flight.is_some_and(|flight| !flight.is_waiting()) {
                let rtt = *entry.rtt(&self.further, path);
                let next = flight.map_or(0, |flight| flight.order).wrapping_add(1);
                let window = &mut self.further[place].windows[path.index()];
                window.refresh(now, &rtt, self.profile.ack_delay, next);
            }
        }
    }
}
