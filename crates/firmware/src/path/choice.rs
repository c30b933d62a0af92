//! Which path a train takes: the one by which it is there soonest, by what frames cost on each link (`PATH-3`).

use alloc::boxed::Box;

use crate::limits::PATHS_MAX;
use crate::link::{LinkCost, LinkIndex, LinkInfo};
use crate::path::hop_lists::HopLists;
use crate::path::learned::Learned;
use crate::path::lengths::Lengths;
use crate::path::{Hop, PathId};

/// What frames cost by each of the node's links.
pub(crate) struct Costs {
    /// By link. `None`: it takes no part in the choice.
    links: Box<[Option<LinkCost>]>,
    /// Links by which nothing is gained now, a bit each.
    gainless: u64,
    /// Several links take part, by costs that were measured and may be wrong.
    corrected: bool,
    /// Links by which a single frame costs least, a bit each: a peer whose first path leads over one of them is sent such by that.
    single: u64,
    /// By link, the interface that it leads over.
    interfaces: Box<[u8]>,
}

impl Costs {
    pub(crate) fn new(infos: &[LinkInfo], apt: bool) -> Self {
        let links: Box<[_]> = infos.iter().map(|link| link.cost.filter(|_| apt)).collect();
        let part = || {
            links
                .iter()
                .zip(0..)
                .filter_map(|(cost, link)| Some((*cost.as_ref()?, LinkIndex(link))))
        };
        let corrected = part().count() > 1 && part().all(|(cost, _)| !cost.named);
        let least = part().map(|(cost, _)| cost.of(1, false)).min();
        let cheap = part().filter(|(cost, _)| Some(cost.of(1, false)) == least);
        let single = cheap.fold(0, |bits, (_, link)| bits | 1 << (link.0 & 63));
        let interfaces = infos.iter().map(|link| link.interface).collect();
        Self { links, gainless: 0, corrected, single, interfaces }
    }

    /// There are more links than before; by those by which nothing is gained now nothing is.
    pub(crate) fn set_links(&mut self, infos: &[LinkInfo], apt: bool) {
        let gainless = self.gainless;
        *self = Self { gainless, ..Self::new(infos, apt) };
    }

    /// What messages take is to be found out (`PATH-9`).
    pub(crate) const fn are_corrected(&self) -> bool {
        self.corrected
    }

    /// A single frame to a peer whose first path leads over this link takes that.
    #[inline]
    pub(crate) fn is_single(&self, link: LinkIndex) -> bool {
        self.single >> (link.0 & 63) & 1 == 1
    }

    /// A single frame costs less by the one than by the other.
    pub(crate) fn is_cheaper(&self, link: LinkIndex, than: LinkIndex) -> bool {
        let of = |link: LinkIndex| Some((*self.links.get(usize::from(link.0))?)?.of(1, false));
        of(link).zip(of(than)).is_some_and(|(link, than)| link < than)
    }

    /// True if the link may carry frames longer than the MTU: what they cost by it is known.
    fn has_long(&self, link: LinkIndex) -> bool {
        let cost = self.links.get(usize::from(link.0)).copied().flatten();
        cost.is_some_and(|cost| cost.long_ns.is_some())
    }

    /// The interface that a link leads over.
    #[inline]
    pub(crate) fn interface(&self, link: LinkIndex) -> u8 {
        self.interfaces.get(usize::from(link.0)).copied().unwrap_or(0)
    }

    /// Nanoseconds that a train of so many frames of the usual length takes by a link; with `long`, if it may leave in frames longer
    /// than the MTU. `None`: nobody knows.
    #[inline]
    pub(crate) fn of(&self, link: LinkIndex, frames: u32, long: bool) -> Option<u64> {
        let cost = (*self.links.get(usize::from(link.0))?)?;
        let gainless = self.gainless >> (link.0 & 63) & 1 == 1;
        (!gainless).then(|| cost.of(frames, long))
    }

    /// A link has begun or ceased to carry several frames in a call. True if that changes the path of trains.
    pub(crate) fn set_segments(&mut self, link: LinkIndex, segments: bool) -> bool {
        let known = self.links.get(usize::from(link.0)).is_some_and(|cost| {
            // Only one that was chosen for that loses by it.
            cost.is_some_and(|cost| cost.segments)
        });
        let bit = 1u64.checked_shl(link.0.into()).unwrap_or(0);
        let before = self.gainless;
        if known {
            self.gainless = if segments { before & !bit } else { before | bit };
        }
        self.gainless != before
    }
}

/// The paths to a peer that can be used now, and what is known of them.
#[derive(Clone, Copy)]
pub(crate) struct Paths<'a> {
    pub(crate) hops: [Option<Hop<'a>>; PATHS_MAX],
    /// Another than the first may be among them.
    pub(crate) several: bool,
    /// The one by which single frames and those without user data are there soonest.
    pub(crate) quick: PathId,
    /// The largest frame by each, in bytes: what its link takes at both ends.
    pub(crate) bytes: [u16; PATHS_MAX],
    pub(crate) lengths: &'a Lengths,
    pub(crate) costs: &'a Costs,
    /// Those by which frames longer than the MTU get through (`LONG-3`), a bit each.
    pub(crate) long: u8,
    /// Those by which the peer has room for many such.
    pub(crate) deep: u8,
    /// What messages took by them.
    pub(crate) learned: Option<&'a Learned>,
    /// What relays those behind such pass.
    pub(crate) hop_lists: &'a HopLists,
}

/// By less than so many microseconds no path is quicker than another: that is how much what is measured of one differs between two moments.
const QUICKER_US: u64 = 50;

/// A link may be so many times as quick as it was measured, beside another: what was measured is only what sending costs, and another path
/// is looked for if it might be better.
const DOUBT: u64 = 2;

impl<'a> Paths<'a> {
    /// One of them, if it can be used.
    #[inline]
    pub(crate) fn hop(&self, path: PathId) -> Option<Hop<'a>> {
        self.hops.get(path.index()).copied().flatten()
    }

    /// Frames longer than the MTU may take it.
    #[inline]
    pub(crate) fn is_long(&self, path: PathId) -> bool {
        self.long & path.bit() != 0
    }

    /// The largest frame by it, in bytes.
    #[inline]
    pub(crate) fn bytes(&self, path: PathId) -> u16 {
        self.bytes[path.index() % PATHS_MAX]
    }

    /// Bytes of the frames in which trains are compared, whatever path they take (`PATH-11`): such fit all paths.
    pub(crate) fn usual_bytes(&self) -> u16 {
        let all = self.each().map(|(path, _)| self.bytes(path));
        all.min().unwrap_or(self.bytes[0]).min(self.lengths.usual())
    }

    /// What fits one frame of so many bytes takes this path as a single frame: with others beside it one of the usual length.
    #[inline]
    pub(crate) fn single_bytes(&self, path: PathId) -> u16 {
        if !self.several { self.bytes[0] } else { self.bytes(path).min(self.lengths.usual()) }
    }

    /// Frames of so many bytes, which have their length already, take it whole and not in slices (`PATH-10`).
    fn carries(&self, path: PathId, frame_bytes: u32) -> bool {
        frame_bytes <= self.bytes(path).into()
            || frame_bytes > self.long_above(path).into()
            || self.hop(path).is_some_and(|(_, to)| to.is_memory())
    }

    /// The same, or nobody knows yet whether long frames get through by it, which is found out by those that are used.
    pub(crate) fn may_carry(&self, path: PathId, frame_bytes: u32) -> bool {
        self.carries(path, frame_bytes)
            || self.hop(path).is_some_and(|(link, _)| self.costs.has_long(link))
    }

    /// Frames of more bytes leave by it as long ones (`LONG-1`); up to that in slices, if they are longer than it takes. `u16::MAX`: none do.
    #[inline]
    pub(crate) fn long_above(&self, path: PathId) -> u16 {
        match self.hop(path) {
            Some((link, _)) if self.is_long(path) => self.lengths.most_by(link),
            _ => u16::MAX,
        }
    }

    /// The path of a frame that is meant for `path`: the first that can be used if that cannot.
    #[inline]
    pub(crate) fn pick(&self, path: PathId) -> (PathId, Option<Hop<'a>>) {
        match self.hop(path) {
            Some(hop) => (path, Some(hop)),
            None => self.each().next().map_or((PathId::FIRST, None), |(id, hop)| (id, Some(hop))),
        }
    }

    /// The first path, or another if that has failed: the way of questions whether a peer is there.
    #[inline]
    pub(crate) fn first(&self) -> Option<Hop<'a>> {
        self.pick(PathId::FIRST).1
    }

    /// The path of acknowledgements (`PATH-5`): the first, or beside it, over the same interface, the one by which single frames leave as they cost
    /// less. Another cable may be quicker, but one that has gone dead one way would be noticed by nobody whose own frames do not take it.
    pub(crate) fn of_acknowledgements(&self) -> PathId {
        let single = |link| self.costs.is_single(link);
        let Some((first, _)) = self.hop(PathId::FIRST).filter(|(link, _)| !single(*link)) else {
            return PathId::FIRST;
        };
        let beside = |path| self.share(PathId::FIRST, path);
        let mut others = self
            .each()
            .filter(|(path, (link, _))| self.costs.is_cheaper(*link, first) && beside(*path));
        others.next().map_or(PathId::FIRST, |(path, _)| path)
    }

    /// All that can be used.
    pub(crate) fn each(&self) -> impl Iterator<Item = (PathId, Hop<'a>)> + use<'a> {
        let hops = self.hops;
        let most = if self.several { PATHS_MAX } else { 1 };
        (0..most).filter_map(move |path| Some((PathId::new(path), hops[path]?)))
    }

    /// Another than this one: one that is `well` if there is such, and then one which shares nothing with it.
    pub(crate) fn other_lane(&self, path: PathId, well: impl Fn(PathId) -> bool) -> Option<PathId> {
        let others = self.each().map(|(id, _)| id).filter(|id| *id != path);
        others.min_by_key(|id| (!well(*id), self.share(path, *id)))
    }

    /// The path of control frames: that of single frames, unless they have no preference and the first works; then that of acknowledgements.
    #[inline]
    pub(crate) fn of_control(&self) -> PathId {
        match self.hop(self.quick) {
            Some(_) if self.quick != PathId::FIRST => self.quick,
            Some(_) => self.of_acknowledgements(),
            None => self.choose_for_get(1),
        }
    }

    /// The path by which what is small is there soonest (`PATH-3`), of those by which a single frame costs as little as by the one in use: that
    /// one, unless by another a round trip is shorter by a fourth and by [`QUICKER_US`]. [`PathId::FIRST`]: none is preferred, and costs decide.
    /// One of which nothing was measured lately is tried by what is small until something is. `least_us`: the least by each of the last seconds,
    /// `u32::MAX` if none was measured.
    pub(crate) fn quickest(&self, least_us: impl Fn(PathId) -> u32) -> PathId {
        let preferred = self.quick != PathId::FIRST && self.hop(self.quick).is_some();
        let (now, unchanged) = if preferred {
            (self.quick, self.quick)
        } else {
            // Not the first path nor the lowest number: that may have failed, and its cable with it.
            (Self { quick: PathId::FIRST, ..*self }.choose_for_get(1), PathId::FIRST)
        };
        let is_measured = |path: PathId| least_us(path) < u32::MAX;
        if !is_measured(now) {
            return unchanged;
        }
        let single =
            |path: PathId| self.hop(path).is_some_and(|(link, _)| self.costs.is_single(link));
        let as_cheap = single(now);
        let apt = |path: &PathId| single(*path) == as_cheap && !self.share(now, *path);
        let others = || self.each().map(|(path, _)| path).filter(apt);
        if let Some(unknown) = others().find(|path| !is_measured(*path)) {
            return unknown;
        }
        let Some(best) = others().min_by_key(|path| least_us(*path)) else { return unchanged };
        let (quick, slow) = (u64::from(least_us(best)), u64::from(least_us(now)));
        if 4 * quick < 3 * slow && slow - quick >= QUICKER_US { best } else { unchanged }
    }

    /// The path of a message of so many frames (`PATH-3`); `long`: it may leave in frames longer than the MTU, by which it is fewer.
    /// What such messages took counts, if that is known (`PATH-9`), and else what their frames cost; where nothing is known of that, the first.
    #[inline]
    pub(crate) fn choose(&self, frames: u32, long: bool) -> PathId {
        if !self.several {
            return PathId::FIRST;
        }
        self.choose_of_several((frames, long), |_| true, Learned::path)
    }

    /// The same for what was cut before into frames of so many bytes, and for blocks that are asked for: a path that takes them whole, if
    /// there is one. These end no trial, so none is made of them.
    pub(crate) fn choose_for_cut(&self, frames: u32, frame_bytes: u32) -> PathId {
        if !self.several {
            return PathId::FIRST;
        }
        let long = frame_bytes > self.usual_bytes().into();
        let any = self.each().any(|(path, _)| self.carries(path, frame_bytes));
        let may = |path| !any || self.carries(path, frame_bytes);
        self.choose_of_several((frames, long), may, Learned::best)
    }

    /// The same of some of its paths, a bit each, of which at least one can be used.
    pub(crate) fn choose_among(&self, bits: u8, frames: u32, frame_bytes: u32) -> PathId {
        let long = frame_bytes > self.usual_bytes().into();
        let among = |path: PathId| bits & path.bit() != 0;
        let any = self.each().any(|(path, _)| among(path) && self.carries(path, frame_bytes));
        let may = |path| among(path) && (!any || self.carries(path, frame_bytes));
        self.choose_of_several((frames, long), may, Learned::best)
    }

    /// The same for what is asked of the peer, and for single frames, which end no trial either.
    pub(crate) fn choose_for_get(&self, frames: u32) -> PathId {
        if !self.several {
            return PathId::FIRST;
        }
        self.choose_of_several((frames, false), |_| true, Learned::best)
    }

    #[inline(never)]
    fn choose_of_several(
        &self,
        (frames, long): (u32, bool),
        may: impl Fn(PathId) -> bool,
        of: impl Fn(&Learned, u32) -> Option<PathId>,
    ) -> PathId {
        if frames <= 1
            && self.quick != PathId::FIRST
            && may(self.quick)
            && self.hop(self.quick).is_some()
        {
            return self.quick;
        }
        // What was learned is of messages that leave in long frames where they can.
        if let Some(learned) = self.learned.filter(|_| long || self.long == 0)
            && let Some(path) = of(learned, frames)
            && self.cost_by(path, frames, long).is_some()
            && may(path)
        {
            return path;
        }
        let hops = || self.each().map(|(path, _)| path).filter(|path| may(*path));
        let mut best = (hops().next().unwrap_or(PathId::FIRST), None);
        for path in hops() {
            let Some(cost) = self.cost_by(path, frames, long) else { continue };
            if best.1.is_none_or(|least| cost < least) {
                best = (path, Some(cost));
            }
        }
        self.pick(best.0).0
    }

    /// Nanoseconds that such a train costs by a path, as its link was measured. `None`: it takes no part in the choice.
    #[inline]
    fn cost_by(&self, path: PathId, frames: u32, long: bool) -> Option<u64> {
        let (link, _) = self.hop(path)?;
        self.costs.of(link, frames, long && self.is_long(path))
    }

    /// The same by each.
    pub(crate) fn costs_by(&self, frames: u32, long: bool) -> [Option<u64>; PATHS_MAX] {
        core::array::from_fn(|path| self.cost_by(PathId::new(path), frames, long))
    }

    /// Nanoseconds that such a train may take by the path that it is to take, if what was measured is wrong: what may take less by another
    /// is worth looking for that.
    pub(crate) fn cost(&self, frames: u32, long: bool) -> Option<u64> {
        let doubt = if self.costs.corrected { DOUBT } else { 1 };
        Some(self.cost_by(self.choose(frames, long), frames, long)? * doubt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use emp_wire::LinkAddress;

    /// Paths by none of which long frames get through, the one by which what is small is there soonest among them.
    fn several<'a>(
        hops: [Option<Hop<'a>>; PATHS_MAX],
        quick: usize,
        (costs, lengths, hop_lists): (&'a Costs, &'a Lengths, &'a HopLists),
    ) -> Paths<'a> {
        Paths {
            hops,
            several: true,
            quick: PathId::new(quick),
            bytes: [1_472; PATHS_MAX],
            lengths,
            costs,
            long: 0,
            deep: 0,
            learned: None,
            hop_lists,
        }
    }

    /// Two links of which the second is quicker from 5 frames on, or 3 if they leave as a long one.
    fn costs() -> Costs {
        let links = LinkCost::divided(5, 3)
            .map(|cost| LinkInfo { cost: Some(cost), ..LinkInfo::new(1_472, true) });
        Costs::new(&links, true)
    }

    #[test]
    fn a_train_takes_the_path_that_suits_it_or_the_one_there_is() {
        let addresses = [LinkAddress::index(3), LinkAddress::index(4)];
        let [first, second] = [PathId::new(0), PathId::new(1)];
        let mut hops = [None; PATHS_MAX];
        (hops[0], hops[1]) =
            (Some((LinkIndex(0), &addresses[0])), Some((LinkIndex(1), &addresses[1])));
        let costs = costs();
        let lengths = Lengths::new(&[LinkInfo::new(1_472, true), LinkInfo::new(1_472, true)]);
        let hop_lists = HopLists::new(9);
        let paths = Paths {
            hops,
            several: true,
            quick: first,
            bytes: [1_472; PATHS_MAX],
            lengths: &lengths,
            costs: &costs,
            long: second.bit(),
            deep: 0,
            learned: None,
            hop_lists: &hop_lists,
        };
        assert_eq!((paths.choose(4, false), paths.choose(5, false)), (first, second));
        assert_eq!((paths.choose(2, true), paths.choose(3, true)), (first, second));
        assert_eq!(Paths { long: 0, ..paths }.choose(4, true), first);
        assert_eq!((paths.pick(first), paths.pick(second)), ((first, hops[0]), (second, hops[1])));
        assert_eq!(
            [first, second].map(|path| paths.other_lane(path, |_| true)),
            [Some(second), Some(first)]
        );
        let alone = |at: usize| {
            let mut alone = paths;
            alone.hops = [None; PATHS_MAX];
            alone.hops[at] = paths.hops[at];
            alone
        };
        assert_eq!(alone(0).pick(second), (first, hops[0]));
        assert_eq!(alone(1).pick(first), (second, hops[1]));
        assert_eq!((alone(1).choose(1, false), alone(0).choose(9, false)), (second, first));
        assert_eq!(
            (alone(1).other_lane(second, |_| true), alone(1).pick(PathId::OTHER).0),
            (None, second)
        );
    }

    /// Three cables, the first two of which are the same to this node.
    #[test]
    fn small_frames_take_the_path_with_the_shortest_round_trip() {
        let on = |interface| LinkInfo { interface, ..LinkInfo::new(1_472, true) };
        let infos = [on(0), on(0), on(1), on(2)];
        let (costs, lengths) = (Costs::new(&infos, true), Lengths::new(&infos));
        let hop_lists = HopLists::new(9);
        let address = LinkAddress::index(3);
        let mut hops = [None; PATHS_MAX];
        (0..4).for_each(|at| hops[at] = Some((LinkIndex(at as u8), &address)));
        let by = |quick: usize, least: [u32; 4]| {
            let paths = several(hops, quick, (&costs, &lengths, &hop_lists));
            assert_eq!(paths.choose(1, false), PathId::new(quick));
            paths.quickest(|path| least[path.index()]).index()
        };
        assert_eq!(by(0, [1_000, 10, 900, 300]), 3, "not one over the same interface");
        assert_eq!(by(3, [1_000, 10, 900, 1_100]), 1);
        assert_eq!((by(0, [1_000, 10, 800, 900]), by(0, [60, 10, 11, 11])), (0, 0), "too little");
        assert_eq!((by(0, [40, 9, u32::MAX, 11]), by(2, [40, 9, u32::MAX, 11])), (2, 2), "tried");
    }

    /// Two cables, each with a ring and a socket, of which the ring of the first has been found silent: the socket beside it is no better for having
    /// the lowest number.
    #[test]
    fn what_is_small_leaves_a_cable_whose_cheaper_path_has_failed() {
        let [ring, socket] = LinkCost::divided(5, 3);
        let on = |interface, cost| LinkInfo {
            interface,
            cost: Some(cost),
            ..LinkInfo::new(1_472, true)
        };
        let infos = [on(0, ring), on(0, socket), on(1, ring), on(1, socket)];
        let (costs, lengths) = (Costs::new(&infos, true), Lengths::new(&infos));
        let hop_lists = HopLists::new(9);
        let address = LinkAddress::index(3);
        let at = PathId::new;
        let [ring_a, socket_a, ring_b, socket_b] = [0, 1, 2, 3];
        let with = |up: &[usize], quick: usize| {
            let mut hops = [None; PATHS_MAX];
            up.iter().for_each(|path| hops[*path] = Some((LinkIndex(*path as u8), &address)));
            several(hops, quick, (&costs, &lengths, &hop_lists))
        };
        let least = [300, 90, 200, 100];
        let quickest = |paths: &Paths| paths.quickest(|path| least[path.index()]);
        let silent = with(&[socket_a, ring_b, socket_b], ring_a);
        assert_eq!(quickest(&silent), PathId::FIRST, "nothing is quicker than what costs choose");
        assert_eq!((silent.choose(1, false), silent.of_control()), (at(ring_b), at(ring_b)));
        // Whatever was preferred stays so, and is left for a path that costs as little.
        assert_eq!(quickest(&with(&[socket_a, ring_b, socket_b], ring_b)), at(ring_b));
        assert_eq!(quickest(&with(&[ring_a, socket_a, ring_b, socket_b], ring_a)), at(ring_b));
        // With both rings gone the sockets are alike.
        let sockets = with(&[socket_a, socket_b], ring_a);
        assert_eq!((quickest(&sockets), sockets.choose(1, false)), (PathId::FIRST, at(socket_a)));
        let far = sockets.quickest(|path| if path == at(socket_a) { 900 } else { 100 });
        assert_eq!(far, at(socket_b));
        // The first works, and is not the cheapest: single ones take what costs least, control frames and acknowledgements only over its interface.
        let costs = Costs::new(&[infos[1], infos[0], infos[2], infos[3]], true);
        let paths = Paths { costs: &costs, ..with(&[0, 1], 0) };
        let of = |paths: &Paths<'_>| (paths.of_acknowledgements(), paths.of_control());
        assert_eq!((of(&paths), paths.choose(1, false)), ((at(1), at(1)), at(1)));
        let elsewhere = Paths { costs: &costs, ..with(&[0, ring_b], 0) };
        assert_eq!(of(&elsewhere), (PathId::FIRST, PathId::FIRST));
        assert_eq!(elsewhere.choose(1, false), at(ring_b));
    }

    #[test]
    fn trains_take_a_link_while_it_carries_many_frames_in_a_call() {
        let mut costs = costs();
        let bulk = LinkIndex(1);
        assert!(!costs.set_segments(bulk, true), "nothing new");
        assert!(!costs.set_segments(LinkIndex(0), false), "the other link");
        assert!(costs.of(bulk, 9, false).is_some());
        assert!(costs.set_segments(bulk, false) && !costs.set_segments(bulk, false));
        assert_eq!(costs.of(bulk, 9, true), None);
        assert!(costs.set_segments(bulk, true));
        assert!(costs.of(bulk, 9, false).is_some());
    }
}
