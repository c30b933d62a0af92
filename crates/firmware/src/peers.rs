//! Who the node knows: identity, epochs, route. One entry a peer, kept while the node runs (E48, V9)
//! or until the table is full and the peer has long left.

use alloc::collections::VecDeque;

use emp_wire::{Epoch, Header, LinkAddress, NodeId, Seed};
use hashbrown::HashMap;

use crate::chunked::Chunked;
use crate::lanes::{Lane, Lanes, Way, Ways, flag};
use crate::limits::{HELLO_INTERVAL, PEERS_MAX};
use crate::long::{LongNote, LongPaths};
use crate::time::Time;
use crate::transmit::LinkIndex;

/// How long a peer may speak from elsewhere than its route before the route is doubted: a node with two links may use both.
const ROUTE_QUIET_MS: u16 = 50;

/// What is true of a peer, or not.
mod mark {
    /// Where frames to it go is known.
    pub(super) const ROUTE: u8 = 1;
    /// It was asked who it is, and the answer is still out.
    pub(super) const ASKING: u8 = 2;
    /// It is in the list of those that have left.
    pub(super) const DEPARTED: u8 = 4;
}

/// One peer, as both paths see it.
pub(crate) struct Peer {
    pub(crate) node: NodeId,
    /// Its destination tag.
    pub(crate) tag: u16,
    /// Its epoch, or unknown: not found yet, or given up.
    pub(crate) remote_epoch: Epoch,
    /// Ours towards it. Moves on when we give the pair up alone, so that it can tell the old stream from a new one.
    pub(crate) local_epoch: Epoch,
    /// Seed of the checksum of frames to it, and from it.
    pub(crate) outgoing: Seed,
    pub(crate) incoming: Seed,
    address: LinkAddress,
    link: LinkIndex,
    /// Three truths in one byte: bits of [`mark`].
    marks: u8,
    /// Largest frame that both ends take.
    pub(crate) frame_bytes_max: u16,
    /// Number of the last hello that was sent to check its epoch; part of the nonce.
    pub(crate) challenge: u32,
    /// When it was sent, in milliseconds (wrapping after a minute, for brevity); limits how often we ask.
    challenged_ms: u16,
    /// When a valid frame last came from where its bulk lane leads, likewise.
    bulk_heard_ms: u16,
    /// What there is beside the route: bits of [`flag`].
    lanes: u8,
    /// What is known of long frames between it and this node.
    pub(crate) long: LongNote,
    /// When a valid frame last came from it, in milliseconds (wrapping).
    pub(crate) heard_ms: u32,
    /// When one last came from where its route leads.
    route_heard_ms: u32,
}

impl Peer {
    /// A peer of which nothing but the identity is known. Its seeds are still to be set.
    fn new(node: NodeId, own_epoch: Epoch, frame_bytes_max: u16) -> Self {
        Self {
            node,
            remote_epoch: Epoch::UNKNOWN,
            tag: node.destination_tag(),
            local_epoch: own_epoch,
            outgoing: Seed::CONTACT,
            incoming: Seed::CONTACT,
            address: LinkAddress::EVERYONE,
            link: LinkIndex(0),
            marks: 0,
            frame_bytes_max,
            challenge: 0,
            challenged_ms: u16::MAX / 2,
            bulk_heard_ms: 0,
            lanes: 0,
            long: LongNote::NONE,
            heard_ms: 0,
            route_heard_ms: 0,
        }
    }

    /// One of [`mark`] is set.
    #[inline]
    fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    fn set(&mut self, mark: u8, set: bool) {
        self.marks = if set { self.marks | mark } else { self.marks & !mark };
    }

    /// Notes that it is asked who it is, or, false, that it has answered.
    pub(crate) fn note_asking(&mut self, asking: bool) {
        self.set(mark::ASKING, asking);
    }

    /// Its answer is still out.
    pub(crate) fn is_asking(&self) -> bool {
        self.has(mark::ASKING)
    }

    /// Where frames to it go, unless they take the bulk lane.
    #[inline]
    pub(crate) fn route(&self) -> Option<Way<'_>> {
        self.has(mark::ROUTE).then_some((self.link, &self.address))
    }

    #[inline(always)]
    fn heard(&mut self, now: Time, link: LinkIndex, from: &LinkAddress) -> bool {
        let now_ms = milliseconds(now);
        self.heard_ms = now_ms;
        if self.link == link && self.address == *from {
            self.route_heard_ms = now_ms;
            return false;
        }
        self.is_route_quiet(now_ms)
    }

    #[inline]
    fn is_route_quiet(&self, now_ms: u32) -> bool {
        now_ms.wrapping_sub(self.route_heard_ms) > ROUTE_QUIET_MS.into()
    }

    /// True, once a millisecond, if it may be asked again whether it is who it was.
    pub(crate) fn may_challenge(&mut self, now: Time) -> bool {
        let now_ms = milliseconds(now) as u16;
        let interval_ms = (HELLO_INTERVAL.0 / 1_000_000) as u16;
        let may = now_ms.wrapping_sub(self.challenged_ms) >= interval_ms;
        if may {
            self.challenged_ms = now_ms;
        }
        may
    }
}

/// All peers.
pub(crate) struct Peers {
    pub(crate) own: NodeId,
    /// Its tags: asked for with every frame, and not made anew each time.
    pub(crate) destination_tag: u16,
    pub(crate) source_tag: u32,
    own_epoch: Epoch,
    entries: Chunked<Peer>,
    by_node: HashMap<u64, u32>,
    /// By source tag and epoch, for frames that carry no whole identity (`FRAME-4`).
    by_tag: HashMap<u64, u32>,
    last: u32,
    /// Peers whose pair was given up, and when, the first one first; each at most once.
    departed: VecDeque<(Time, u32)>,
    /// Second lanes.
    pub(crate) lanes: Lanes,
    /// By which ways long frames get through.
    pub(crate) longs: LongPaths,
}

fn tag_key(tag: u32, epoch: Epoch) -> u64 {
    u64::from(tag) << 32 | u64::from(epoch.0)
}

impl Peers {
    pub(crate) fn new(own: NodeId, own_epoch: Epoch, lanes: Lanes, longs: LongPaths) -> Self {
        let (by_node, by_tag) = (HashMap::new(), HashMap::new());
        Self {
            own,
            destination_tag: own.destination_tag(),
            source_tag: own.source_tag(),
            own_epoch,
            entries: Chunked::new(),
            by_node,
            by_tag,
            last: 0,
            departed: VecDeque::new(),
            lanes,
            longs,
        }
    }

    /// The ways to a peer that can be used now.
    #[inline]
    pub(crate) fn ways(&self, index: u32) -> Ways<'_> {
        let peer = &self.entries[index];
        let bulk_frames = self.lanes.bulk_frames();
        let long = peer.long.link();
        let mut ways = Ways { small: peer.route(), bulk: None, bulk_frames, long };
        if peer.lanes != 0 && peer.has(mark::ROUTE) {
            ways.bulk = self.lanes.way(index).filter(|_| peer.lanes & flag::BULK != 0);
            let usable = peer.lanes & flag::SMALL_DOWN == 0 || ways.bulk.is_none();
            ways.small = ways.small.filter(|_| usable);
        }
        ways
    }

    /// The way of a small message to a peer, if it takes the small lane and nothing better is to be looked for: as most do,
    /// whether or not there is a bulk lane beside it.
    #[inline]
    pub(crate) fn small_way(&self, now: Time, index: u32) -> Option<Way<'_>> {
        let peer = &self.entries[index];
        let small = peer.lanes & flag::SMALL_DOWN == 0 && self.lanes.bulk_frames().usual > 1;
        peer.route().filter(|_| small && !self.may_seek(now, index, Lane::Small))
    }

    /// The way of a message of so many frames of the usual length, if it leaves in one longer one by it.
    pub(crate) fn long_way(&self, index: u32, frames: u32) -> Option<(Lane, Way<'_>)> {
        self[index].long.link()?;
        let ways = self.ways(index);
        let (lane, way) = ways.pick(ways.lane_of(frames, true));
        Some((lane, way.filter(|way| ways.is_long(Some(*way)))?))
    }

    /// Frames to a peer go there from now on. What was known of a second lane is not, unless that is another link.
    pub(crate) fn set_route(&mut self, now: Time, index: u32, link: LinkIndex, to: LinkAddress) {
        let peer = &mut self.entries[index];
        if peer.link != link || !peer.has(mark::ROUTE) {
            peer.lanes = 0;
            self.lanes.forget(index);
        }
        (peer.link, peer.address) = (link, to);
        peer.set(mark::ROUTE, true);
        peer.route_heard_ms = milliseconds(now);
        self.look_for_long(index);
    }

    /// Nothing is known any more of where a peer is.
    pub(crate) fn clear_route(&mut self, index: u32) {
        let peer = &mut self.entries[index];
        (peer.lanes, peer.long) = (0, LongNote::NONE);
        peer.set(mark::ROUTE, false);
        self.lanes.forget(index);
        self.longs.forget(index);
    }

    /// A valid frame came from there. True if the peer seems to have moved: for a while nothing came from where its
    /// route leads, or its bulk lane, and now it speaks from elsewhere on that link (V28, `LANE-8`). Frames of a bulk lane say
    /// nothing of the route.
    #[inline(always)]
    pub(crate) fn heard_from(
        &mut self,
        now: Time,
        index: u32,
        link: LinkIndex,
        from: &LinkAddress,
    ) -> bool {
        if self.is_bulk(index, link) {
            return self.bulk_heard(now, index, from);
        }
        self.entries[index].heard(now, link, from)
    }

    fn bulk_heard(&mut self, now: Time, index: u32, from: &LinkAddress) -> bool {
        let now_ms = milliseconds(now);
        let peer = &mut self.entries[index];
        peer.heard_ms = now_ms;
        if peer.lanes & flag::BULK == 0 {
            // The peer has a bulk lane and this end has none: that matters if nothing comes by the route.
            return peer.is_route_quiet(now_ms);
        }
        // One look into the table a millisecond is enough.
        let quiet_ms = (now_ms as u16).wrapping_sub(peer.bulk_heard_ms);
        if quiet_ms > 0 && self.lanes.way(index).is_some_and(|(_, to)| to == from) {
            peer.bulk_heard_ms = now_ms as u16;
            return false;
        }
        quiet_ms > ROUTE_QUIET_MS
    }

    /// The peer answered from elsewhere than it was known to be: frames to it go there from now on. If that is its bulk lane only, its route stands until it is judged by itself (`LANE-8`).
    pub(crate) fn moved(&mut self, now: Time, index: u32, link: LinkIndex, from: LinkAddress) {
        if self.is_bulk(index, link) {
            self.answered(now, index, link, from);
            let found = self.ways(index).bulk == Some((link, &from));
            if found {
                return;
            }
        }
        self.set_route(now, index, link, from);
    }

    /// True if a frame from this peer by this link is of its bulk lane.
    #[inline(always)]
    pub(crate) fn is_bulk(&self, index: u32, link: LinkIndex) -> bool {
        let peer = &self.entries[index];
        self.lanes.bulk_link() == Some(link) && peer.has(mark::ROUTE) && peer.link != link
    }

    /// The lane of a frame from this peer by this link.
    #[inline]
    pub(crate) fn lane_of(&self, index: u32, link: LinkIndex) -> Lane {
        if self.is_bulk(index, link) { Lane::Bulk } else { Lane::Small }
    }

    /// True if a lane is missing that may be looked for now.
    #[inline]
    pub(crate) fn may_seek(&self, now: Time, index: u32, lane: Lane) -> bool {
        let Some(bulk) = self.lanes.bulk_link() else { return false };
        let peer = &self.entries[index];
        let small_down = peer.lanes & flag::SMALL_DOWN != 0;
        let by_bulk_alone = bulk == peer.link;
        let missing = match lane {
            Lane::Small => small_down || by_bulk_alone,
            Lane::Bulk => peer.lanes & flag::BULK == 0 && self.lanes.is_beside(peer.link),
        };
        missing
            && peer.has(mark::ROUTE)
            && peer.address != LinkAddress::LOOPBACK
            && self.lanes.may_seek(now, index, lane)
    }

    /// A peer has answered on another link than that of its route, or on one that had failed: `true` if that is news.
    pub(crate) fn answered(
        &mut self,
        now: Time,
        index: u32,
        link: LinkIndex,
        from: LinkAddress,
    ) -> bool {
        let Some(bulk) = self.lanes.bulk_link() else { return false };
        let peer = &mut self.entries[index];
        if !peer.has(mark::ROUTE) {
            return false;
        }
        let before = (peer.lanes, peer.link);
        if link != bulk && peer.link == bulk {
            // The better link answered after the other: the route so far becomes the bulk lane.
            let old = core::mem::replace(&mut peer.address, from);
            (peer.link, peer.route_heard_ms) = (link, milliseconds(now));
            if self.lanes.is_beside(link) {
                peer.lanes |= flag::BULK;
                peer.bulk_heard_ms = milliseconds(now) as u16;
                self.lanes.rise(now, index, Lane::Small, None);
                self.lanes.rise(now, index, Lane::Bulk, Some(old));
            } else {
                self.lanes.forget(index);
            }
        } else if link == bulk && self.lanes.is_beside(peer.link) {
            peer.lanes |= flag::BULK;
            peer.bulk_heard_ms = milliseconds(now) as u16;
            self.lanes.rise(now, index, Lane::Bulk, Some(from));
        } else if link == peer.link && link != bulk && peer.lanes & flag::SMALL_DOWN != 0 {
            peer.address = from;
            peer.lanes &= !flag::SMALL_DOWN;
            self.lanes.rise(now, index, Lane::Small, None);
        }
        // The table may be full.
        let peer = &mut self.entries[index];
        if peer.lanes & flag::BULK != 0 && self.lanes.way(index).is_none() {
            peer.lanes = 0;
        }
        let news = before != (peer.lanes, peer.link);
        self.look_for_long(index);
        news
    }

    /// A lane of a peer has failed. False: it is the only one that works.
    pub(crate) fn lane_failed(&mut self, now: Time, index: u32, lane: Lane) -> bool {
        if !self.lanes.fall(now, index, lane) {
            return false;
        }
        let peer = &mut self.entries[index];
        match lane {
            Lane::Small => peer.lanes |= flag::SMALL_DOWN,
            Lane::Bulk => peer.lanes &= !flag::BULK,
        }
        self.look_for_long(index);
        true
    }

    pub(crate) fn len(&self) -> u32 {
        self.entries.len()
    }

    #[inline(always)]
    pub(crate) fn find(&mut self, node: NodeId) -> Option<u32> {
        // Most frames come from the peer that the last one came from.
        if self.last < self.entries.len() && self.entries[self.last].node == node {
            return Some(self.last);
        }
        let found = self.by_node.get(&node.0).copied()?;
        self.last = found;
        Some(found)
    }

    pub(crate) fn peek(&self, node: NodeId) -> Option<u32> {
        self.by_node.get(&node.0).copied()
    }

    pub(crate) fn find_by_tag(&mut self, header: &Header) -> Option<u32> {
        if self.last < self.entries.len() {
            let peer = &self.entries[self.last];
            if peer.remote_epoch == header.source_epoch
                && peer.node.source_tag() == header.source_tag
            {
                return Some(self.last);
            }
        }
        self.by_tag.get(&tag_key(header.source_tag, header.source_epoch)).copied()
    }

    /// Adds a peer of which nothing but the identity is known. `None` if the table is full.
    pub(crate) fn add(&mut self, node: NodeId, frame_bytes_max: u16) -> Option<u32> {
        if self.entries.len() as usize >= PEERS_MAX {
            return None;
        }
        let index = self.entries.push(Peer::new(node, self.own_epoch, frame_bytes_max));
        self.by_node.insert(node.0, index);
        self.reseed(index);
        Some(index)
    }

    /// Notes that a pair was given up: if the table fills up, those who left first make room.
    pub(crate) fn note_departed(&mut self, now: Time, index: u32) {
        let entry = &mut self.entries[index];
        if !entry.has(mark::DEPARTED) {
            entry.set(mark::DEPARTED, true);
            self.departed.push_back((now, index));
        }
    }

    /// A peer that left before `before` and for which `is_gone` holds; it is the caller's to [`replace`](Self::replace).
    pub(crate) fn take_departed(
        &mut self,
        before: Time,
        is_gone: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        loop {
            let (_, index) = *self.departed.front().filter(|(since, _)| *since <= before)?;
            self.departed.pop_front();
            self.entries[index].set(mark::DEPARTED, false);
            // Those that came back are not looked at again until they leave again.
            if self.entries[index].remote_epoch == Epoch::UNKNOWN && is_gone(index) {
                return Some(index);
            }
        }
    }

    /// Forgets a peer that has left and gives its place to another node.
    pub(crate) fn replace(&mut self, index: u32, node: NodeId, frame_bytes_max: u16) {
        self.by_node.remove(&self.entries[index].node.0);
        self.entries[index] = Peer::new(node, self.own_epoch, frame_bytes_max);
        self.by_node.insert(node.0, index);
        self.reseed(index);
    }

    /// Learns or forgets a peer's epoch.
    pub(crate) fn set_remote_epoch(&mut self, index: u32, epoch: Epoch) {
        let peer = &self.entries[index];
        let tag = peer.node.source_tag();
        if peer.remote_epoch != Epoch::UNKNOWN {
            self.by_tag.remove(&tag_key(tag, peer.remote_epoch));
        }
        if epoch != Epoch::UNKNOWN {
            self.by_tag.insert(tag_key(tag, epoch), index);
        }
        self.entries[index].remote_epoch = epoch;
        self.reseed(index);
    }

    /// Starts a new epoch of ours towards a peer (`EPOCH-4`).
    pub(crate) fn bump_local_epoch(&mut self, index: u32) {
        self.entries[index].local_epoch = self.entries[index].local_epoch.next();
        self.reseed(index);
    }

    /// The checksum seed for frames from a node that has no entry: it must know our first epoch.
    pub(crate) fn incoming_of_stranger(&self, node: NodeId) -> Seed {
        Seed::between(node, self.own, self.own_epoch)
    }

    pub(crate) fn own_epoch(&self) -> Epoch {
        self.own_epoch
    }

    fn reseed(&mut self, index: u32) {
        let own = self.own;
        let peer = &mut self.entries[index];
        peer.outgoing = Seed::between(own, peer.node, peer.remote_epoch);
        peer.incoming = Seed::between(peer.node, own, peer.local_epoch);
    }
}

impl core::ops::Index<u32> for Peers {
    type Output = Peer;
    fn index(&self, index: u32) -> &Peer {
        &self.entries[index]
    }
}

impl core::ops::IndexMut<u32> for Peers {
    fn index_mut(&mut self, index: u32) -> &mut Peer {
        &mut self.entries[index]
    }
}

/// Milliseconds of a time, wrapping after 49 days: enough to limit rates.
pub(crate) fn milliseconds(now: Time) -> u32 {
    (now.0 / 1_000_000) as u32
}
