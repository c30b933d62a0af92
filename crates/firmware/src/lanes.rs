//! Two links to one node at once (`LANE-1` to `LANE-6`): small and control frames by the one that answers soonest, long
//! trains by the one that carries many frames in a call. A lane that fails gives its frames to the other.
//!
//! Peers that exchange no long trains have nothing here: a second lane is looked for when the first long train begins.

use alloc::collections::VecDeque;

use emp_wire::LinkAddress;
use hashbrown::HashMap;

use crate::limits::{LANES_MAX, SEEKS_MAX};
use crate::link_info::LinkInfo;
use crate::time::{Span, Time};
use crate::transmit::LinkIndex;

/// First interval between the questions of one search for a lane, which doubles: a LAN answers well within it.
const SEEK_INTERVAL: Span = Span::ms(1);

/// Questions of one search: the last waits 32 ms for its answer, so that a lost one or a busy peer does not decide.
const SEEK_TRIES: u32 = 6;

/// After a search in vain or the failure of a lane, the next search may begin so much later, and at most so much: a cable
/// that was moved is found again at once, a port that a firewall closes costs a handful of small frames a minute.
const RETRY: (Span, Span) = (Span::ms(100), Span::ms(30_000));

/// Searches in vain for a better link to a peer that is known by the bulk link only, after which there is none: each asks
/// everyone. The last begins half a minute after the first. A small lane that failed is looked for on, but everyone is asked
/// no more often.
const BROADCASTS_MAX: u32 = 8;

/// A lane that worked for so long had no lasting fault: its next failure is treated as its first.
const SOUND_AFTER: Span = Span::ms(10_000);

/// Which of the links to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Lane {
    /// The one for small and control frames; the only one of most peers.
    #[default]
    Small,
    /// The one for long trains.
    Bulk,
}

impl Lane {
    pub(crate) const BOTH: [Self; 2] = [Self::Small, Self::Bulk];

    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Small => Self::Bulk,
            Self::Bulk => Self::Small,
        }
    }
}

/// What a peer's entry notes of its lanes, so that most need no look into the table.
pub(crate) mod flag {
    /// The bulk lane can be used.
    pub(crate) const BULK: u8 = 1;
    /// The small lane has failed and is not used for now.
    pub(crate) const SMALL_DOWN: u8 = 2;
}

/// A link and an address on it, where that is kept: a copy of what was just copied waits for that.
pub(crate) type Way<'a> = (LinkIndex, &'a LinkAddress);

/// Least frames of a train for the bulk lane; `u32::MAX` if there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Threshold {
    /// One that leaves in frames of the MTU.
    pub(crate) usual: u32,
    /// One that leaves in few longer ones, counted as if it did not. No more than `usual`.
    pub(crate) long: u32,
}

impl Threshold {
    /// There is no bulk lane.
    pub(crate) const NONE: Self = Self { usual: u32::MAX, long: u32::MAX };

    /// Of a link, if it is for bulk.
    pub(crate) fn of(link: &LinkInfo) -> Option<Self> {
        let usual = link.bulk_frames?;
        Some(Self { usual, long: link.bulk_frames_long.unwrap_or(usual).min(usual) })
    }
}

/// The ways to a peer that can be used now.
#[derive(Clone, Copy)]
pub(crate) struct Ways<'a> {
    pub(crate) small: Option<Way<'a>>,
    pub(crate) bulk: Option<Way<'a>>,
    /// Least frames of a train for the bulk lane.
    pub(crate) bulk_frames: Threshold,
    /// The link by which frames longer than the MTU get through (`LONG-3`).
    pub(crate) long: Option<LinkIndex>,
}

impl<'a> Ways<'a> {
    /// Frames longer than the MTU may take this way.
    #[inline]
    pub(crate) fn is_long(&self, way: Option<Way<'_>>) -> bool {
        self.long.is_some() && way.map(|(link, _)| link) == self.long
    }

    /// The way of a frame that is meant for `lane`: by the other if there is no such.
    #[inline]
    pub(crate) fn pick(&self, lane: Lane) -> (Lane, Option<Way<'a>>) {
        match (lane, self.small, self.bulk) {
            (Lane::Bulk, _, Some(way)) | (Lane::Small, None, Some(way)) => (Lane::Bulk, Some(way)),
            (_, small, _) => (Lane::Small, small),
        }
    }

    /// The lane of a train of so many frames (`LANE-3`); `long`: it may leave in frames longer than the MTU, by which it is fewer.
    #[inline]
    pub(crate) fn lane_of(&self, frames: u32, long: bool) -> Lane {
        let Threshold { usual, long: least } = self.bulk_frames;
        let least = if long && self.is_long(self.bulk) { least } else { usual };
        if frames >= least { Lane::Bulk } else { Lane::Small }
    }
}

/// The second lane of a peer.
struct Second {
    /// Where the peer takes bulk, as far as known.
    address: Option<LinkAddress>,
    lanes: [Health; 2],
}

/// How a lane fares.
#[derive(Clone, Copy, Default)]
struct Health {
    up: bool,
    /// Since when it is up.
    since: Time,
    /// When it may be looked for again.
    retry_at: Time,
    /// Failures and searches in vain in a row.
    failures: u32,
}

impl Health {
    fn rise(&mut self, now: Time) {
        if !self.up {
            (self.up, self.since) = (true, now);
        }
    }

    fn fall(&mut self, now: Time) {
        if self.up && now.since(self.since) >= SOUND_AFTER {
            self.failures = 0;
        }
        self.up = false;
        let wait = Span(RETRY.0.0 << self.failures.min(16)).min(RETRY.1);
        self.failures += 1;
        self.retry_at = now + wait;
    }
}

/// A lane that is being looked for.
struct Seek {
    peer: u32,
    lane: Lane,
    nonce: u64,
    next: Time,
    tries: u32,
}

/// What to ask for a lane, and where.
pub(crate) struct Question {
    pub(crate) peer: u32,
    pub(crate) lane: Lane,
    pub(crate) nonce: u64,
    /// The peer's address on the bulk link, if that is known.
    pub(crate) address: Option<LinkAddress>,
    /// Few answers came: ask wherever one may come from.
    pub(crate) again: bool,
    /// Not often in vain before: everyone may be asked.
    pub(crate) everyone: bool,
}

/// Second lanes of all peers that have one or were looked for one.
pub(crate) struct Lanes {
    /// The node's link for bulk, if it has one beside others, and the least frames of a train for it.
    bulk: Option<(LinkIndex, Threshold)>,
    /// Links that it stands beside, one bit each: those on which this node tells its address.
    beside: u64,
    /// No train gains by the link for bulk now.
    gainless: bool,
    seconds: HashMap<u32, Second>,
    seeks: VecDeque<Seek>,
}

impl Lanes {
    pub(crate) fn new(bulk: Option<(LinkIndex, Threshold)>, beside: u64) -> Self {
        let (seconds, seeks) = (HashMap::new(), VecDeque::new());
        Self { bulk, beside, gainless: false, seconds, seeks }
    }

    /// The node's link for bulk.
    pub(crate) fn bulk_link(&self) -> Option<LinkIndex> {
        self.bulk.map(|(link, _)| link)
    }

    /// True if the bulk link leads to the same nodes as this one, and may take their long trains.
    pub(crate) fn is_beside(&self, link: LinkIndex) -> bool {
        self.beside.checked_shr(link.0.into()).is_some_and(|bits| bits & 1 == 1)
    }

    /// Least frames of a train for the bulk lane.
    pub(crate) fn bulk_frames(&self) -> Threshold {
        self.bulk.filter(|_| !self.gainless).map_or(Threshold::NONE, |(_, frames)| frames)
    }

    /// What a link carries in one call may have changed; true if that changes the lane of trains.
    pub(crate) fn set_segments(&mut self, link: LinkIndex, segments: bool) -> bool {
        self.bulk_link() == Some(link)
            && core::mem::replace(&mut self.gainless, !segments) == segments
    }

    /// The way of a peer's bulk lane.
    pub(crate) fn way(&self, peer: u32) -> Option<Way<'_>> {
        let second = self.seconds.get(&peer)?;
        let up = second.lanes[Lane::Bulk as usize].up;
        Some((self.bulk_link()?, second.address.as_ref().filter(|_| up)?))
    }

    /// Everything about a peer's second lane is forgotten.
    pub(crate) fn forget(&mut self, peer: u32) {
        if self.seconds.remove(&peer).is_some() {
            self.seeks.retain(|seek| seek.peer != peer);
        }
    }

    /// True if a lane that is down may be looked for now.
    pub(crate) fn may_seek(&self, now: Time, peer: u32, lane: Lane) -> bool {
        let health = self.seconds.get(&peer).map(|second| second.lanes[lane as usize]);
        self.bulk.is_some()
            && health.is_none_or(|health| !health.up && health.retry_at <= now)
            && !self.is_seeking(peer, lane)
    }

    fn is_seeking(&self, peer: u32, lane: Lane) -> bool {
        self.seeks.iter().any(|seek| (seek.peer, seek.lane) == (peer, lane))
    }

    /// Begins to look for a lane. The first question is due at once. `nonce` is nobody else's.
    pub(crate) fn seek(&mut self, now: Time, peer: u32, lane: Lane, nonce: u64) {
        let full = self.seconds.len() >= LANES_MAX && !self.seconds.contains_key(&peer);
        if full || self.seeks.len() >= SEEKS_MAX || self.is_seeking(peer, lane) {
            return;
        }
        self.second(peer);
        self.seeks.push_back(Seek { peer, lane, nonce, next: now, tries: 0 });
    }

    /// A peer's entry. A new one's small lane is up: the peer is known by it.
    fn second(&mut self, peer: u32) -> &mut Second {
        self.seconds.entry(peer).or_insert_with(|| {
            let up = Health { up: true, ..Health::default() };
            Second { address: None, lanes: [up, Health::default()] }
        })
    }

    /// The peer may be reached for bulk there. False: that was known.
    pub(crate) fn suppose(&mut self, peer: u32, address: LinkAddress) -> bool {
        match self.seconds.get_mut(&peer) {
            Some(second) if !second.lanes[Lane::Bulk as usize].up => {
                second.address.replace(address) != Some(address)
            }
            _ => false,
        }
    }

    /// The peer and lane of the search that an answer with this nonce belongs to.
    pub(crate) fn sought(&self, nonce: u64) -> Option<(u32, Lane)> {
        let seek = self.seeks.iter().find(|seek| seek.nonce == nonce)?;
        Some((seek.peer, seek.lane))
    }

    /// The peer has told where it takes bulk: if that is news, the next question of the search is asked at once.
    pub(crate) fn learn(&mut self, now: Time, nonce: u64, address: LinkAddress) {
        let Some((peer, Lane::Bulk)) = self.sought(nonce) else { return };
        if self.suppose(peer, address)
            && let Some(seek) = self.seeks.iter_mut().find(|seek| seek.nonce == nonce)
        {
            seek.next = now;
        }
    }

    /// A peer answered: the lane can be used.
    pub(crate) fn rise(&mut self, now: Time, peer: u32, lane: Lane, address: Option<LinkAddress>) {
        self.seeks.retain(|seek| (seek.peer, seek.lane) != (peer, lane));
        if self.seconds.len() >= LANES_MAX && !self.seconds.contains_key(&peer) {
            return;
        }
        let second = self.second(peer);
        second.address = address.or(second.address);
        second.lanes[lane as usize].rise(now);
    }

    /// A lane has failed. False: the other is down as well, and nothing is changed.
    pub(crate) fn fall(&mut self, now: Time, peer: u32, lane: Lane) -> bool {
        let Some(second) = self.seconds.get_mut(&peer) else { return false };
        let both = second.lanes.iter().all(|health| health.up);
        if both {
            second.lanes[lane as usize].fall(now);
        }
        both
    }

    /// What failed before says nothing any more: lanes that are down may be looked for at once.
    pub(crate) fn forgive(&mut self, now: Time, peer: u32) {
        for health in self.seconds.get_mut(&peer).into_iter().flat_map(|second| &mut second.lanes) {
            (health.failures, health.retry_at) = (0, health.retry_at.min(now));
        }
    }

    /// When the next question is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.seeks.iter().map(|seek| seek.next).min()
    }

    /// The next question that is due now. Searches in vain end.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Question> {
        loop {
            let at = self.seeks.iter().position(|seek| seek.next <= now)?;
            let seek = &mut self.seeks[at];
            let (peer, lane, nonce, tries) = (seek.peer, seek.lane, seek.nonce, seek.tries);
            if tries >= SEEK_TRIES {
                self.seeks.remove(at);
                let second = self.second(peer);
                let alone = !second.lanes[Lane::Bulk as usize].up;
                let health = &mut second.lanes[lane as usize];
                health.fall(now);
                if lane == Lane::Small && alone && health.failures >= BROADCASTS_MAX {
                    health.retry_at = Time::NEVER;
                }
                continue;
            }
            seek.next = now + Span(SEEK_INTERVAL.0 << tries);
            seek.tries += 1;
            let second = self.seconds.get(&peer);
            let address = second.and_then(|second| second.address);
            let failures = second.map_or(0, |second| second.lanes[lane as usize].failures);
            let (again, everyone) = (tries > 1, failures <= BROADCASTS_MAX);
            return Some(Question { peer, lane, nonce, address, again, everyone });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkIndex = LinkIndex(1);
    const FRAMES: Threshold = Threshold { usual: 5, long: 3 };

    fn lanes() -> Lanes {
        Lanes::new(Some((LINK, FRAMES)), 1)
    }

    #[test]
    fn a_train_takes_the_lane_that_suits_it_or_the_one_there_is() {
        let addresses = [LinkAddress::index(3), LinkAddress::index(4)];
        let small = Some((LinkIndex(0), &addresses[0]));
        let bulk = Some((LINK, &addresses[1]));
        let ways = Ways { small, bulk, bulk_frames: FRAMES, long: Some(LINK) };
        assert!(ways.is_long(bulk) && !ways.is_long(small) && !ways.is_long(None));
        assert_eq!((ways.lane_of(4, false), ways.lane_of(5, false)), (Lane::Small, Lane::Bulk));
        assert_eq!((ways.lane_of(2, true), ways.lane_of(3, true)), (Lane::Small, Lane::Bulk));
        assert_eq!(Ways { long: None, ..ways }.lane_of(4, true), Lane::Small);
        assert_eq!(ways.pick(Lane::Small), (Lane::Small, small));
        assert_eq!(ways.pick(Lane::Bulk), (Lane::Bulk, bulk));
        assert_eq!(Ways { bulk: None, ..ways }.pick(Lane::Bulk), (Lane::Small, small));
        assert_eq!(Ways { small: None, ..ways }.pick(Lane::Small), (Lane::Bulk, bulk));
    }

    #[test]
    fn trains_take_the_bulk_link_while_it_carries_many_frames_in_a_call() {
        let mut lanes = lanes();
        assert!(!lanes.set_segments(LINK, true), "nothing new");
        assert!(!lanes.set_segments(LinkIndex(0), false), "the other link");
        assert_eq!(lanes.bulk_frames(), FRAMES);
        assert!(lanes.set_segments(LINK, false));
        assert!(!lanes.set_segments(LINK, false));
        assert_eq!(lanes.bulk_frames(), Threshold::NONE);
        assert!(lanes.set_segments(LINK, true));
        assert_eq!(lanes.bulk_frames(), FRAMES);
    }

    #[test]
    fn a_search_asks_a_few_times_and_rests_ever_longer() {
        let mut lanes = lanes();
        let mut now = Time(0);
        let mut rest = Span(0);
        for _ in 0..3 {
            assert!(lanes.may_seek(now, 7, Lane::Bulk));
            lanes.seek(now, 7, Lane::Bulk, 99);
            assert_eq!(lanes.sought(99), Some((7, Lane::Bulk)));
            let mut asked = 0;
            while let Some(due) = lanes.next_deadline() {
                now = due;
                asked += u32::from(lanes.pop_due(now).is_some());
            }
            assert_eq!(asked, SEEK_TRIES);
            assert!(!lanes.may_seek(now, 7, Lane::Bulk));
            let longer = Span(RETRY.0.0.max(rest.0 * 2));
            assert!(!lanes.may_seek(now + Span(longer.0 - 1), 7, Lane::Bulk));
            rest = longer;
            now = now + rest;
        }
    }

    #[test]
    fn one_lane_of_two_may_fail() {
        let mut lanes = lanes();
        lanes.seek(Time(0), 7, Lane::Bulk, 1);
        assert!(!lanes.fall(Time(1), 7, Lane::Small), "it is the only one");
        lanes.rise(Time(1), 7, Lane::Bulk, Some(LinkAddress::index(4)));
        assert_eq!(lanes.way(7), Some((LINK, &LinkAddress::index(4))));
        assert!(lanes.fall(Time(2), 7, Lane::Bulk));
        assert_eq!(lanes.way(7), None);
        assert!(!lanes.fall(Time(2), 7, Lane::Small));
        lanes.rise(Time(3), 7, Lane::Bulk, None);
        assert!(lanes.way(7).is_some());
        lanes.forget(7);
        assert_eq!((lanes.way(7), lanes.next_deadline()), (None, None));
    }
}
