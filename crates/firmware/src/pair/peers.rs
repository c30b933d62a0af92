//! Who the node knows: identity, epochs, route. One entry a peer, kept while the node runs (E48, V9)
//! or until the table is full and the peer has long left.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use emp_wire::{Epoch, Header, LinkAddress, NodeId, Seed};
use hashbrown::HashMap;

use crate::limits::HELLO_INTERVAL;
use crate::link::LinkIndex;
use crate::link::LinkInfo;
use crate::path::choice::Costs;
use crate::path::hop_lists::HopLists;
use crate::path::lengths::Lengths;
use crate::path::table::Table;
use crate::path::unit::Units;
use crate::path::{Hop, PathId};
use crate::tables::per_peer::PerPeer;
use crate::time::Time;

/// How long a peer may speak from elsewhere than its route before the route is doubted: a node with two links may use both.
pub(crate) const ROUTE_QUIET_MS: u16 = 50;

/// What is true of a peer, or not.
pub(crate) mod mark {
    /// Where frames to it go is known.
    pub(crate) const ROUTE: u8 = 1;
    /// It was asked who it is, and the answer is still out.
    pub(crate) const ASKING: u8 = 2;
    /// It is in the list of those that have left.
    pub(crate) const DEPARTED: u8 = 4;
    /// It was given up without having said goodbye, and is not met again.
    pub(crate) const LOST: u8 = 8;
}

/// One peer, as both sides see it.
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
    /// Where its first path leads.
    pub(crate) address: LinkAddress,
    pub(crate) link: LinkIndex,
    /// Truths in one byte: bits of [`mark`].
    marks: u8,
    /// Largest frame that the links of its first path take at both ends.
    pub(crate) frame_bytes_max: u16,
    /// Number of the last hello that was sent to check its epoch; part of the nonce.
    pub(crate) challenge: u32,
    /// When it was sent, in milliseconds (wrapping after a minute, for brevity); limits how often we ask.
    challenged_ms: u16,
    /// Paths that can be used, a bit each: so that most peers need no look into the table.
    pub(crate) up: u8,
    /// The path of single frames, and of those without user data.
    pub(crate) quick: PathId,
    /// Paths by which long frames get through, a bit each; in the upper half, those of them by which the peer has room for many.
    pub(crate) long: u16,
    /// When a valid frame last came from it, in milliseconds (wrapping).
    pub(crate) heard_ms: AtomicU32,
    /// When one last came from where its route leads.
    pub(crate) route_heard_ms: AtomicU32,
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
            up: 0,
            quick: PathId::FIRST,
            long: 0,
            heard_ms: AtomicU32::new(0),
            route_heard_ms: AtomicU32::new(0),
        }
    }

    /// One of [`mark`] is set.
    #[inline]
    pub(crate) fn has(&self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    pub(crate) fn set(&mut self, mark: u8, set: bool) {
        self.marks = if set { self.marks | mark } else { self.marks & !mark };
    }

    /// Where its first path leads.
    #[inline]
    pub(crate) fn route(&self) -> Option<Hop<'_>> {
        self.has(mark::ROUTE).then_some((self.link, &self.address))
    }

    /// A valid frame came from there. True if that is where its route leads.
    #[inline(always)]
    pub(crate) fn heard(&self, now_ms: u32, link: LinkIndex, from: &LinkAddress) -> bool {
        self.heard_ms.store(now_ms, Relaxed);
        let by_route = self.is_at(link, from);
        if by_route {
            self.route_heard_ms.store(now_ms, Relaxed);
        }
        by_route
    }

    /// Its first path leads there.
    #[inline(always)]
    pub(crate) fn is_at(&self, link: LinkIndex, address: &LinkAddress) -> bool {
        self.link == link && self.address == *address
    }

    /// When a valid frame last came from it, in milliseconds (wrapping).
    pub(crate) fn heard_ms(&self) -> u32 {
        self.heard_ms.load(Relaxed)
    }

    #[inline]
    pub(crate) fn is_route_quiet(&self, now_ms: u32) -> bool {
        now_ms.wrapping_sub(self.route_heard_ms.load(Relaxed)) > ROUTE_QUIET_MS.into()
    }

    /// A frame is of both ends' present epochs.
    pub(crate) fn is_answered_by(&self, header: &Header) -> bool {
        self.remote_epoch == header.source_epoch
            && self.local_epoch.check() == header.destination_epoch
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

/// In place of the peer that was found last.
const NOBODY: u32 = u32::MAX;

/// All peers. What every frame changes are words: hearing and finding need no more than a shared reference.
pub(crate) struct Peers {
    pub(crate) own: NodeId,
    /// Its tags: asked for with every frame, and not made anew each time.
    pub(crate) destination_tag: u16,
    pub(crate) source_tag: u32,
    pub(crate) own_epoch: Epoch,
    pub(crate) entries: PerPeer<Peer>,
    /// So many at most.
    most: usize,
    by_node: HashMap<u64, u32>,
    /// By source tag and epoch, for frames that carry no whole identity (`FRAME-4`).
    by_tag: HashMap<u64, u32>,
    /// The peer that was found last, and its source tag. One thread at a time finds peers.
    last: AtomicU32,
    last_tag: AtomicU32,
    /// Peers whose pair was given up, and when, the first one first; each at most once.
    departed: VecDeque<(Time, u32)>,
    /// Paths beside the first.
    pub(crate) table: Table,
    /// What frames cost by the node's links.
    pub(crate) costs: Costs,
    /// By link: those that lead to the same nodes, a bit each; and all that stand beside another.
    pub(crate) beside: Box<[u64]>,
    pub(crate) beside_some: u64,
    /// How long frames may be by the node's links.
    pub(crate) lengths: Lengths,
    /// By which paths long frames get through.
    pub(crate) units: Units,
    /// How peers behind relays are reached.
    pub(crate) hop_lists: HopLists,
}

fn tag_key(tag: u32, epoch: Epoch) -> u64 {
    u64::from(tag) << 32 | u64::from(epoch.0)
}

/// By link: those that lead to the same nodes, a bit each, if several paths may be used.
fn beside(links: &[LinkInfo], apt: bool) -> Box<[u64]> {
    let bits = |link: &LinkInfo| {
        let beside = link.beside.iter().flatten().filter(|_| apt);
        beside.fold(0, |bits, (link, _)| bits | 1u64.checked_shl(link.0.into()).unwrap_or(0))
    };
    links.iter().map(bits).collect()
}

fn any_of(bits: &[u64]) -> u64 {
    bits.iter().fold(0, |all, bits| all | bits)
}

impl Peers {
    /// `most` peers at a time. `apt`: several paths to a peer may be used.
    pub(crate) fn new(
        (own, own_epoch): (NodeId, Epoch),
        most: usize,
        links: &[LinkInfo],
        apt: bool,
        units: Units,
    ) -> Self {
        let (by_node, by_tag) = (HashMap::new(), HashMap::new());
        let beside = beside(links, apt);
        Self {
            own,
            destination_tag: own.destination_tag(),
            source_tag: own.source_tag(),
            own_epoch,
            entries: PerPeer::new(),
            most,
            by_node,
            by_tag,
            last: AtomicU32::new(NOBODY),
            last_tag: AtomicU32::new(0),
            departed: VecDeque::new(),
            table: Table::new(),
            costs: Costs::new(links, apt),
            beside_some: any_of(&beside),
            beside,
            lengths: Lengths::new(links),
            units,
            hop_lists: HopLists::new(own.destination_tag()),
        }
    }

    /// The node has these links from now on: more than before.
    pub(crate) fn set_links(&mut self, links: &[LinkInfo], apt: bool) {
        self.beside = beside(links, apt);
        self.beside_some = any_of(&self.beside);
        self.costs.set_links(links, apt);
        self.lengths.extend(links);
    }

    pub(crate) fn len(&self) -> u32 {
        self.entries.len()
    }

    #[inline(always)]
    pub(crate) fn find(&self, node: NodeId) -> Option<u32> {
        // Most frames come from the peer that the last one came from.
        let last = self.last.load(Relaxed);
        if last < self.entries.len() && self.entries[last].node == node {
            return Some(last);
        }
        let found = self.by_node.get(&node.0).copied()?;
        self.last.store(found, Relaxed);
        self.last_tag.store(node.source_tag(), Relaxed);
        Some(found)
    }

    /// The peer of a frame that names its sender in full, if it is known. `None`: identity and tag are not of one node.
    #[inline(always)]
    pub(crate) fn find_identified(&self, node: NodeId, tag: u32) -> Option<Option<u32>> {
        let known = self.find(node);
        let its = if known.is_some() { self.last_tag.load(Relaxed) } else { node.source_tag() };
        (its == tag).then_some(known)
    }

    pub(crate) fn peek(&self, node: NodeId) -> Option<u32> {
        self.by_node.get(&node.0).copied()
    }

    pub(crate) fn find_by_tag(&self, header: &Header) -> Option<u32> {
        let last = self.last.load(Relaxed);
        if last < self.entries.len() {
            let epoch = self.entries[last].remote_epoch;
            if (self.last_tag.load(Relaxed), epoch) == (header.source_tag, header.source_epoch) {
                return Some(last);
            }
        }
        self.by_tag.get(&tag_key(header.source_tag, header.source_epoch)).copied()
    }

    /// Adds a peer of which nothing but the identity is known. `None` if the table is full.
    pub(crate) fn add(&mut self, node: NodeId) -> Option<u32> {
        if self.entries.len() as usize >= self.most {
            return None;
        }
        let index = self.entries.push(Peer::new(node, self.own_epoch, self.lengths.usual()));
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
    pub(crate) fn replace(&mut self, index: u32, node: NodeId) {
        self.by_node.remove(&self.entries[index].node.0);
        *self.last.get_mut() = NOBODY;
        self.entries[index] = Peer::new(node, self.own_epoch, self.lengths.usual());
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
