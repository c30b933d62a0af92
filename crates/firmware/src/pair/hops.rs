//! The paths of one peer: which can be used, where its frames come from, what an answer from elsewhere changes (`PATH-1` to `PATH-8`).

use alloc::vec::Vec;

use emp_wire::LinkAddress;

use crate::limits::PATHS_MAX;
use crate::link::{LinkIndex, set_bits};
use crate::pair::{Peer, Peers, ROUTE_QUIET_MS, mark, milliseconds};
use crate::path::table::Target;
use crate::path::{Hop, PathId, Paths};
use crate::time::Time;

impl Peer {
    /// Its first path is known, and has not failed.
    #[inline]
    pub(crate) const fn is_first_up(&self) -> bool {
        self.up & PathId::FIRST.bit() != 0
    }
}

impl Peers {
    /// The paths to a peer that can be used now.
    #[inline]
    pub(crate) fn paths(&self, index: u32) -> Paths<'_> {
        let peer = &self.entries[index];
        let (mut hops, mut bytes) = ([None; PATHS_MAX], [0; PATHS_MAX]);
        let mut learned = None;
        let several = peer.up & !PathId::FIRST.bit() != 0;
        if several {
            (hops, bytes) = self.table.hops(index);
            learned = self.table.learned(index);
        }
        if peer.is_first_up() || hops.iter().all(Option::is_none) {
            hops[0] = peer.route();
        }
        bytes[0] = peer.frame_bytes_max;
        Paths {
            hops,
            several,
            quick: peer.quick,
            bytes,
            lengths: &self.lengths,
            learned,
            costs: &self.costs,
            long: peer.long as u8,
            deep: (peer.long >> PATHS_MAX) as u8,
            hop_lists: &self.hop_lists,
        }
    }

    /// The path that a single frame to a peer takes (`PATH-3`), where it leads, and the longest that counts as single.
    #[inline(always)]
    pub(crate) fn path_of_one(&self, index: u32) -> Option<(PathId, Hop<'_>, u16)> {
        let peer = &self.entries[index];
        if peer.up & !PathId::FIRST.bit() == 0 {
            return Some((PathId::FIRST, peer.route()?, peer.frame_bytes_max));
        }
        self.path_of_one_of_several(index)
    }

    #[inline(never)]
    fn path_of_one_of_several(&self, index: u32) -> Option<(PathId, Hop<'_>, u16)> {
        let peer = &self.entries[index];
        let first = peer.quick == PathId::FIRST && peer.is_first_up();
        if first && self.costs.is_single(peer.link) {
            let bytes = peer.frame_bytes_max.min(self.lengths.usual());
            return Some((PathId::FIRST, peer.route()?, bytes));
        }
        let paths = self.paths(index);
        let path = paths.choose(1, false);
        Some((path, paths.hop(path)?, paths.single_bytes(path)))
    }

    /// The path that acknowledgements to a peer take (`PATH-5`).
    #[inline]
    pub(crate) fn path_of_acks(&self, index: u32) -> PathId {
        let peer = &self.entries[index];
        if peer.up & !PathId::FIRST.bit() == 0 || self.costs.is_single(peer.link) {
            return PathId::FIRST;
        }
        self.paths(index).of_acknowledgements()
    }

    /// The largest frame by one of a peer's paths, in bytes. 0: there is no such path.
    pub(crate) fn bytes_by(&self, index: u32, path: PathId) -> u16 {
        if path == PathId::FIRST {
            return self.entries[index].frame_bytes_max;
        }
        self.table.hops(index).1.get(path.index()).copied().unwrap_or(0)
    }

    /// The same from now on.
    pub(crate) fn set_bytes_by(&mut self, index: u32, path: PathId, bytes: u16) {
        if path == PathId::FIRST {
            self.entries[index].frame_bytes_max = bytes;
        } else if let Some(place) = self.table.bytes_mut(index, path) {
            *place = bytes;
        }
    }

    /// Where a peer was met: first where its first path leads, then by each other link, whether that path is up or not.
    pub(crate) fn known_places(&self, index: u32) -> Vec<(LinkIndex, LinkAddress)> {
        let first = self.entries[index].route().map(|(link, to)| (link, *to));
        first.into_iter().chain(self.table.places(index)).collect()
    }

    /// It was met behind relays, by one link at least.
    pub(crate) fn is_behind_relays(&self, index: u32) -> bool {
        self.known_places(index).iter().any(|(_, to)| to.is_behind_relays())
    }

    /// The path to a peer by this link, and where it leads, if it can be used.
    pub(crate) fn path_by(&self, index: u32, link: LinkIndex) -> Option<(PathId, LinkAddress)> {
        let path = self.path_of(index, link);
        self.paths(index).hop(path).map(|(_, to)| (path, *to))
    }

    /// A message of so many frames of the usual length has arrived by a path, after so many nanoseconds if that is known (`PATH-9`).
    pub(crate) fn learn(&mut self, index: u32, path: PathId, frames: u32, took_ns: Option<u32>) {
        let peer = &self.entries[index];
        // With one path there is no choice.
        if peer.up & peer.up.wrapping_sub(1) == 0 {
            return;
        }
        let news = self
            .table
            .learned_mut(index)
            .is_some_and(|learned| learned.take(path, frames, took_ns));
        if news {
            let costs = self.paths(index).costs_by(frames, true);
            if let Some(learned) = self.table.learned_mut(index) {
                learned.decide(frames, &costs);
            }
        }
    }

    /// Frames to a peer go there from now on, where it takes such of `told` bytes. What was known of other paths is not, unless that is
    /// another link.
    pub(crate) fn set_route(
        &mut self,
        now: Time,
        index: u32,
        (link, to): (LinkIndex, LinkAddress),
        told: u16,
    ) {
        let bytes = self.lengths.fitting(link, told);
        let peer = &mut self.entries[index];
        let same = peer.has(mark::ROUTE) && (peer.link, peer.address) == (link, to);
        // What was found to be lost on the way there is, until a longer frame gets through.
        peer.frame_bytes_max = if same { bytes.min(peer.frame_bytes_max) } else { bytes };
        if peer.link != link || !peer.has(mark::ROUTE) {
            peer.up = PathId::FIRST.bit();
            self.table.forget(index);
        } else if peer.up & PathId::FIRST.bit() == 0 {
            // It had failed, and works.
            peer.up |= PathId::FIRST.bit();
            self.table.first_rises(now, index);
        }
        (peer.link, peer.address) = (link, to);
        peer.set(mark::ROUTE, true);
        *peer.route_heard_ms.get_mut() = milliseconds(now);
        self.table.unlearn(index);
        self.look_for_long(index);
    }

    /// Nothing is known any more of where a peer is.
    pub(crate) fn clear_route(&mut self, index: u32) {
        let peer = &mut self.entries[index];
        (peer.up, peer.long) = (0, 0);
        peer.set(mark::ROUTE, false);
        self.table.forget(index);
        self.units.forget(index);
    }

    /// A valid frame came from there. True if the peer seems to have moved: for a while nothing came from where its first path
    /// leads, or that by this link, and now it speaks from elsewhere on that link (V28, `PATH-8`). Frames of other paths
    /// say nothing of the first.
    #[inline(always)]
    pub(crate) fn heard_from(
        &mut self,
        now: Time,
        index: u32,
        link: LinkIndex,
        from: &LinkAddress,
    ) -> bool {
        let peer = &self.entries[index];
        if peer.link != link && peer.up & !PathId::FIRST.bit() != 0 {
            return self.further_heard(now, index, link, from);
        }
        let now_ms = milliseconds(now);
        !peer.heard(now_ms, link, from) && peer.is_route_quiet(now_ms)
    }

    fn further_heard(
        &mut self,
        now: Time,
        index: u32,
        link: LinkIndex,
        from: &LinkAddress,
    ) -> bool {
        let now_ms = milliseconds(now);
        let peer = &mut self.entries[index];
        *peer.heard_ms.get_mut() = now_ms;
        let path = self.table.path(index, link).filter(|path| peer.up & path.bit() != 0);
        let Some(path) = path else {
            // The peer has a path that this end has not: that matters if nothing comes by the first.
            return peer.is_route_quiet(now_ms);
        };
        self.table.heard(index, path, from, now_ms as u16) > ROUTE_QUIET_MS
    }

    /// Its first path leads by this link, and has failed.
    pub(crate) fn is_first_failed(&self, index: u32, link: LinkIndex) -> bool {
        let peer = &self.entries[index];
        peer.link == link && peer.has(mark::ROUTE) && !peer.is_first_up()
    }

    /// The same, and for a while nothing came by the others: it may be the only one that works.
    pub(crate) fn is_first_wanted(&self, now: Time, index: u32, link: LinkIndex) -> bool {
        let quiet = || self.table.is_quiet(index, milliseconds(now) as u16, ROUTE_QUIET_MS);
        self.is_first_failed(index, link) && quiet()
    }

    /// The peer answered from elsewhere than it was known to be: frames to it go there from now on. If that is a path beside its first,
    /// that stands until it is judged by itself (`PATH-8`).
    pub(crate) fn moved(
        &mut self,
        now: Time,
        index: u32,
        (link, from): (LinkIndex, LinkAddress),
        told: u16,
    ) {
        if self.is_beside_first(index, link) {
            self.answered(now, index, (link, from), told);
            let path = self.path_of(index, link);
            if path != PathId::FIRST && self.paths(index).hop(path) == Some((link, &from)) {
                return;
            }
        }
        self.set_route(now, index, (link, from), told);
    }

    /// True if this link may be that of another path to a peer than the first.
    #[inline]
    pub(crate) fn is_beside_first(&self, index: u32, link: LinkIndex) -> bool {
        let peer = &self.entries[index];
        peer.link != link && peer.has(mark::ROUTE) && self.is_beside(peer.link, link)
    }

    /// True if nodes that are reached by the one may be reached by the other as well.
    fn is_beside(&self, first: LinkIndex, link: LinkIndex) -> bool {
        let bits = self.beside.get(usize::from(first.0));
        bits.is_some_and(|bits| bits.checked_shr(link.0.into()).is_some_and(|bits| bits & 1 == 1))
    }

    /// A first path by this link would be better than by that one.
    pub(crate) fn is_better(&self, link: LinkIndex, than: LinkIndex) -> bool {
        link.0 < than.0
            && self.beside_some.checked_shr(than.0.into()).is_some_and(|bits| bits & 1 == 1)
            // Of two links of a kind, on different interfaces, none is: whichever the peer answered by first is as good.
            && (self.costs.interface(link) == self.costs.interface(than) || self.costs.is_cheaper(link, than))
    }

    /// The path of a frame from this peer by this link.
    #[inline]
    pub(crate) fn path_of(&self, index: u32, link: LinkIndex) -> PathId {
        let peer = &self.entries[index];
        if peer.link == link {
            return PathId::FIRST;
        }
        self.table.path(index, link).unwrap_or(PathId::OTHER)
    }

    /// True if a path is missing that may be looked for now.
    #[inline]
    pub(crate) fn may_seek(&self, now: Time, index: u32, target: Target) -> bool {
        if self.beside_some == 0 {
            return false;
        }
        let peer = &self.entries[index];
        let missing = match target {
            Target::First => !peer.is_first_up() || self.is_better(LinkIndex(0), peer.link),
            Target::Link(link) => {
                let path = self.path_of(index, link);
                path != PathId::FIRST
                    && (path == PathId::OTHER || peer.up & path.bit() == 0)
                    && self.is_beside(peer.link, link)
            }
        };
        missing
            && peer.has(mark::ROUTE)
            && peer.address != LinkAddress::LOOPBACK
            && self.table.may_seek(now, index, target)
    }

    /// A path to a peer that is up leads over this link's interface.
    pub(crate) fn leads_over(&self, index: u32, link: LinkIndex) -> bool {
        let interface = self.costs.interface(link);
        self.paths(index).each().any(|(_, (by, _))| self.costs.interface(by) == interface)
    }

    /// A path to a peer by this link is known, or may be found.
    pub(crate) fn may_lead_over(&self, index: u32, link: LinkIndex) -> bool {
        let peer = &self.entries[index];
        peer.has(mark::ROUTE) && (peer.link == link || self.is_beside(peer.link, link))
    }

    /// Interfaces that paths to a peer which are up lead over; 0 and 1 alike mean that nothing is gained by striping.
    pub(crate) fn interfaces(&self, index: u32) -> u32 {
        if self.entries[index].up & !PathId::FIRST.bit() == 0 {
            return 1;
        }
        self.paths(index).lanes().count() as u32
    }

    /// Peers may be reached by several links.
    #[inline]
    pub(crate) const fn has_several(&self) -> bool {
        self.beside_some != 0
    }

    /// Links by which a peer might be reached beside its first path, and is not now.
    pub(crate) fn missing(&self, now: Time, index: u32) -> impl Iterator<Item = LinkIndex> + '_ {
        let bits = self.beside.get(usize::from(self.entries[index].link.0)).copied().unwrap_or(0);
        set_bits(bits).filter(move |link| self.may_seek(now, index, Target::Link(*link)))
    }

    /// A peer has answered on another link than that of its first path, or on one that had failed, and takes frames of `told` bytes there:
    /// `true` if that is news.
    pub(crate) fn answered(
        &mut self,
        now: Time,
        index: u32,
        (link, from): (LinkIndex, LinkAddress),
        told: u16,
    ) -> bool {
        let bytes = self.lengths.fitting(link, told);
        let peer = &self.entries[index];
        // Nothing is as near as this machine's memory, whichever link answered first.
        let (near, nearer) = (peer.address.is_memory(), from.is_memory());
        if self.beside_some == 0 && !nearer || !peer.has(mark::ROUTE) {
            return false;
        }
        let (now_ms, first) = (milliseconds(now), peer.link);
        let before = (peer.up, first);
        if link == first {
            if !peer.is_first_up() {
                let peer = &mut self.entries[index];
                let same = peer.address == from;
                peer.frame_bytes_max = if same { bytes.min(peer.frame_bytes_max) } else { bytes };
                peer.address = from;
                peer.up |= PathId::FIRST.bit();
                self.table.first_rises(now, index);
            }
        } else if !near && (nearer || self.is_better(link, first)) {
            let pair = self.is_beside(link, first);
            let peer = &mut self.entries[index];
            let old = core::mem::replace(&mut peer.address, from);
            let old_bytes = core::mem::replace(&mut peer.frame_bytes_max, bytes);
            (peer.link, *peer.route_heard_ms.get_mut()) = (link, now_ms);
            if pair {
                let old = (first, old, old_bytes);
                self.table.change_first(now, index, link, old, now_ms as u16);
            } else {
                self.table.forget(index);
            }
            self.entries[index].up = PathId::FIRST.bit() | self.table.up(index);
        } else if self.is_beside(first, link) {
            self.table.rise(now, index, (link, from), bytes, now_ms as u16);
            let peer = &mut self.entries[index];
            peer.up = peer.up & PathId::FIRST.bit() | self.table.up(index);
        }
        let peer = &self.entries[index];
        let news = before != (peer.up, peer.link);
        if news {
            self.table.unlearn(index);
        }
        self.look_for_long(index);
        news
    }

    /// A path to a peer has failed. False: it is the only one that works.
    pub(crate) fn path_failed(&mut self, now: Time, index: u32, path: PathId) -> bool {
        if !self.table.fall(now, index, path) {
            return false;
        }
        self.entries[index].up &= !path.bit();
        self.table.unlearn(index);
        self.look_for_long(index);
        true
    }
}

impl Peers {
    /// Frames of more than so many bytes fit a path by this link no longer. True if they did before.
    pub(crate) fn shorten(&mut self, index: u32, link: LinkIndex, bytes: u16) -> bool {
        let path = self.path_of(index, link);
        let shorter = bytes < self.bytes_by(index, path);
        if shorter {
            self.set_bytes_by(index, path, bytes);
        }
        shorter
    }

    /// Interfaces between this node and a peer take longer frames again: paths that failed before are looked for as if for the first
    /// time (`LIMIT-2`).
    pub(crate) fn forgive_paths(&mut self, now: Time, index: u32) {
        self.units.forgive(now, index);
        self.table.forgive(now, index);
    }

    /// By one of several paths to a peer what is small may be there sooner (`PATH-3`). `least_us`: the least round trip by each of the last seconds.
    pub(crate) fn weigh(&mut self, index: u32, least_us: impl Fn(PathId) -> u32) {
        if self.entries[index].up & !PathId::FIRST.bit() != 0 {
            let quickest = self.paths(index).quickest(least_us);
            self.entries[index].quick = quickest;
        }
    }

    /// After a change of a peer's paths, or of what is known of them: notes by which long frames get through. Which is quick is found out anew.
    pub(crate) fn look_for_long(&mut self, index: u32) {
        self.entries[index].quick = PathId::FIRST;
        let (mut long, mut deep) = (0, 0);
        if self.units.any() {
            for (path, hop) in self.paths(index).each() {
                let unit = self.units.unit(index, hop).filter(|unit| unit.open);
                if let Some(unit) = unit.filter(|_| self.units.carries(hop.0)) {
                    long |= u16::from(path.bit());
                    deep |= if unit.deep { u16::from(path.bit()) } else { 0 };
                }
            }
        }
        let long = long | deep << PATHS_MAX;
        if core::mem::replace(&mut self[index].long, long) != long {
            self.table.unlearn(index);
        }
    }
}
