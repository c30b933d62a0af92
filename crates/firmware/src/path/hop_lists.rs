//! Lists of hops by which peers behind relays are reached (`RELAY-1`, V26): each has a place, and a [`LinkAddress`] that names it, so that all
//! else of the engine takes a peer behind relays for one at an address. Both ends keep such lists, and nobody between them.

use alloc::vec::Vec;

use arrayvec::ArrayVec;
use emp_wire::{
    HOP_LIMIT, LinkAddress, RELAY_BYTES_MAX, RELAY_HEAD_BYTES, RELAY_HOP_BYTES, RELAYS_MAX,
    RelayHead, RelayHop, RelayUse,
};
use hashbrown::HashMap;

use crate::limits::HOP_LISTS_MAX;
use crate::link::LinkIndex;

/// Hops as they stand on the wire.
pub(crate) type Hops = ArrayVec<[u8; RELAY_HOP_BYTES], RELAYS_MAX>;

/// What stands before a frame's header.
#[derive(Clone, Default)]
pub(crate) struct Prefix {
    /// Head and list; the head's length is still to be set.
    pub(crate) bytes: ArrayVec<u8, RELAY_BYTES_MAX>,
    /// Where the frame goes first.
    pub(crate) to: Option<LinkAddress>,
}

/// A list and where it begins.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct HopList {
    /// The link by which its first cable is reached.
    pub(crate) link: LinkIndex,
    /// The relay there, and its destination tag.
    pub(crate) first: LinkAddress,
    pub(crate) first_tag: u16,
    /// What that one and the others read.
    pub(crate) hops: Hops,
}

impl HopList {
    /// Each relay on the way, by its destination tag, and the link by which it sends on.
    fn cables(&self) -> impl Iterator<Item = (u16, u8)> + '_ {
        let read = |hop: &[u8; RELAY_HOP_BYTES]| RelayHop::parse(hop).ok();
        let tags = self.hops.iter().filter_map(move |hop| Some(read(hop)?.tag));
        let links = self.hops.iter().filter_map(move |hop| Some(read(hop)?.link));
        core::iter::once(self.first_tag).chain(tags).zip(links)
    }
}

/// What is known of a list.
struct Entry {
    list: Option<HopList>,
    /// Counts the lists that were in this place.
    generation: u32,
    /// The largest link frame that all links on the way take, in bytes.
    smallest: u16,
}

/// All lists of a node.
pub(crate) struct HopLists {
    own_tag: u16,
    places: HashMap<HopList, u32>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// Lists that were added since unused ones were last looked for.
    added: usize,
}

impl HopLists {
    pub(crate) fn new(own_tag: u16) -> Self {
        let (places, entries, free) = (HashMap::new(), Vec::new(), Vec::new());
        Self { own_tag, places, entries, free, added: HOP_LISTS_MAX }
    }

    /// Lists that are kept.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The name of a list, whose links were last found to take frames of so many bytes. `None`: there are too many.
    pub(crate) fn name(&mut self, list: HopList, smallest: u16) -> Option<LinkAddress> {
        let hops = list.hops.len() as u8;
        let place = match self.places.get(&list) {
            Some(place) => *place,
            None => {
                let place = self.place()?;
                self.places.insert(list.clone(), place);
                self.entries[place as usize].list = Some(list);
                self.added += 1;
                place
            }
        };
        let entry = &mut self.entries[place as usize];
        entry.smallest = smallest;
        Some(LinkAddress::relayed(place, entry.generation, hops))
    }

    fn place(&mut self) -> Option<u32> {
        if let Some(place) = self.free.pop() {
            return Some(place);
        }
        if self.entries.len() >= HOP_LISTS_MAX {
            return None;
        }
        self.entries.push(Entry { list: None, generation: 0, smallest: 0 });
        Some(self.entries.len() as u32 - 1)
    }

    /// There is no room for another list, and enough came since unused ones were last thrown away that looking for them anew costs each of
    /// those little.
    pub(crate) fn wants_sweep(&self) -> bool {
        self.free.is_empty()
            && self.entries.len() >= HOP_LISTS_MAX
            && self.added >= HOP_LISTS_MAX / 4
    }

    /// Forgets all lists but these.
    pub(crate) fn sweep(&mut self, used: impl Iterator<Item = LinkAddress>) {
        self.added = 0;
        let mut keeps = alloc::vec![false; self.entries.len()];
        for (place, generation, _) in used.filter_map(|address| address.as_relayed()) {
            let entry = self.entries.get(place as usize);
            if entry.is_some_and(|entry| entry.generation == generation) {
                keeps[place as usize] = true;
            }
        }
        for (place, entry) in self.entries.iter_mut().enumerate() {
            if !keeps[place]
                && let Some(list) = entry.list.take()
            {
                self.places.remove(&list);
                entry.generation = entry.generation.wrapping_add(1);
                self.free.push(place as u32);
            }
        }
    }

    fn entry(&self, address: &LinkAddress) -> Option<(&HopList, u16)> {
        let (place, generation, _) = address.as_relayed()?;
        let entry = self.entries.get(place as usize)?;
        let list = entry.list.as_ref().filter(|_| entry.generation == generation)?;
        Some((list, entry.smallest))
    }

    /// The list of this name, if it is kept.
    pub(crate) fn list(&self, address: &LinkAddress) -> Option<&HopList> {
        Some(self.entry(address)?.0)
    }

    /// Frames to both leave a relay by one of its cables: what one takes of that the other lacks.
    pub(crate) fn share_a_cable(&self, one: &LinkAddress, other: &LinkAddress) -> bool {
        match (self.list(one), self.list(other)) {
            (Some(one), Some(other)) => {
                one.cables().any(|cable| other.cables().any(|another| another == cable))
            }
            // To a neighbour no relay is passed.
            _ => false,
        }
    }

    /// What stands before frames to there. `takes`: the largest link frame of the link that they leave by. `None`: nobody knows.
    /// `tag`: of the node that a search is for.
    #[cold]
    pub(crate) fn prefix(&self, to: &LinkAddress, takes: u16, tag: u16) -> Option<Prefix> {
        let (head, first, hops) = if *to == LinkAddress::BEYOND {
            let head = self.head(RelayUse::Search, tag, HOP_LIMIT - 1, takes);
            (head, LinkAddress::EVERYONE, &[][..])
        } else {
            let (list, _) = self.entry(to)?;
            let head = self.head(RelayUse::Forward, list.first_tag, 0, takes);
            (head, list.first, &list.hops[..])
        };
        Some(prefix_of(head, first, hops))
    }

    /// A head without hops from this node.
    pub(crate) const fn head(
        &self,
        usage: RelayUse,
        destination_tag: u16,
        place: u8,
        smallest: u16,
    ) -> RelayHead {
        let source_tag = self.own_tag;
        RelayHead { usage, length: 0, destination_tag, source_tag, place, hops: 0, smallest }
    }

    /// Of a frame that may have so many bytes at both ends: those that may stand behind the list, where all links on the way take it.
    #[inline(always)]
    pub(crate) fn fitting(&self, to: &LinkAddress, takes: u16) -> u16 {
        if to.is_behind_relays() { self.fitting_behind(to, takes) } else { takes }
    }

    #[cold]
    fn fitting_behind(&self, to: &LinkAddress, takes: u16) -> u16 {
        let (hops, smallest) =
            self.entry(to).map_or((0, u16::MAX), |(list, smallest)| (list.hops.len(), smallest));
        let before = (RELAY_HEAD_BYTES + hops * RELAY_HOP_BYTES) as u16;
        takes.min(smallest).saturating_sub(before)
    }
}

/// A head with these hops, as bytes.
pub(crate) fn prefix_of(
    head: RelayHead,
    to: LinkAddress,
    hops: &[[u8; RELAY_HOP_BYTES]],
) -> Prefix {
    let mut start = [0; RELAY_HEAD_BYTES];
    RelayHead { hops: hops.len() as u8, ..head }.emit(&mut start);
    let bytes = start.into_iter().chain(hops.iter().flatten().copied()).collect();
    Prefix { bytes, to: Some(to) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(first: u32, hops: u32) -> HopList {
        let hop = |link: u32| {
            let hop = RelayHop { tag: 7, link: link as u8, address: LinkAddress::index(first) };
            hop.emit().expect("a hop")
        };
        let first = LinkAddress::index(first);
        HopList { link: LinkIndex(0), first, first_tag: 3, hops: (0..hops).map(hop).collect() }
    }

    #[test]
    fn a_list_has_one_name_and_what_stands_before_its_frames() {
        let mut lists = HopLists::new(9);
        let one = lists.name(list(1, 2), 1_500).expect("room");
        assert_eq!(lists.name(list(1, 2), 1_400), Some(one), "the same");
        assert_ne!(lists.name(list(2, 2), 1_500), Some(one));
        assert_eq!(lists.len(), 2);
        let prefix = lists.prefix(&one, 9_000, 7).expect("it is known");
        assert_eq!((prefix.to, prefix.bytes.len()), (Some(LinkAddress::index(1)), 36));
        assert_eq!(lists.fitting(&one, 9_000), 1_400 - 36);
        assert_eq!(lists.fitting(&one, 1_000), 1_000 - 36);
        assert_eq!(lists.fitting(&LinkAddress::index(1), 1_000), 1_000);
        let search = lists.prefix(&LinkAddress::BEYOND, 1_500, 7).expect("always");
        assert_eq!((search.to, search.bytes.len()), (Some(LinkAddress::EVERYONE), 12));
    }

    /// By two cables to one relay, which has one to the target, or two.
    #[test]
    fn ways_share_what_a_relay_sends_on_by_one_cable() {
        let mut lists = HopLists::new(9);
        let way = |link: u8, first_tag: u16, cables: &[(u16, u8)]| {
            let hop = |&(tag, link): &(u16, u8)| {
                RelayHop { tag, link, address: LinkAddress::index(1) }.emit().expect("a hop")
            };
            let hops = cables.iter().map(hop).collect();
            HopList { link: LinkIndex(link), first: LinkAddress::index(1), first_tag, hops }
        };
        let mut name = |list| lists.name(list, 1_500).expect("room");
        let target = 20;
        let [one, same, other] =
            [(0, 2), (1, 2), (1, 3)].map(|(link, by)| name(way(link, 5, &[(target, by)])));
        let stranger = name(way(1, 6, &[(target, 2)]));
        // By two first relays to a third one.
        let [left, right] = [5, 6].map(|first| name(way(0, first, &[(7, 4), (target, 1)])));
        let apart = name(way(0, 6, &[(7, 4), (target, 2)]));
        assert!(lists.share_a_cable(&one, &same));
        assert!(!lists.share_a_cable(&one, &other), "one relay, another cable");
        assert!(!lists.share_a_cable(&one, &stranger), "another relay's link of that number");
        assert!(lists.share_a_cable(&left, &right), "the last cable");
        assert!(!lists.share_a_cable(&left, &apart));
        assert!(!lists.share_a_cable(&LinkAddress::index(1), &LinkAddress::index(1)));
    }

    /// Whatever comes, there are so many and no more; those that are used stay, and a name that is no more names nothing.
    #[test]
    fn lists_are_bounded_and_used_ones_stay() {
        let mut lists = HopLists::new(9);
        let used = lists.name(list(u32::MAX, 1), 1_500).expect("room");
        let other = lists.name(list(u32::MAX, 2), 1_500).expect("room");
        for round in 0..3 {
            for first in 0..2 * HOP_LISTS_MAX as u32 {
                let _ = lists.name(list(first + round, 3), 1_500);
            }
            assert_eq!(lists.len(), HOP_LISTS_MAX);
            assert!(lists.wants_sweep());
            lists.sweep([used, LinkAddress::index(1)].into_iter());
            assert!(!lists.wants_sweep() && lists.len() == 1);
            assert_eq!(lists.list(&used), Some(&list(u32::MAX, 1)));
            assert_eq!(lists.list(&other), None);
        }
        assert!(lists.prefix(&other, 1_500, 7).is_none());
        let again = lists.name(list(u32::MAX, 2), 1_500).expect("room");
        assert_ne!(again, other, "another generation or place");
    }
}
