//! Lists of a table's entries: what concerns one peer, or one endpoint, walks nobody else's.

use alloc::vec::Vec;

use hashbrown::HashMap;

use crate::tables::slots::note_look;

/// No entry.
const NONE: u32 = u32::MAX;

/// Ends of a list of entries, named by their index in the table.
#[derive(Clone, Copy)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl List {
    /// The entry that was added first.
    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }
}

/// The entries of several lists. Each is in one of them at most.
#[derive(Default)]
pub(crate) struct Links(Vec<Link>);

/// The neighbours of an entry in its list.
#[derive(Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
    listed: bool,
}

impl Links {
    /// Adds an entry that is in no list, as the last.
    #[inline(always)]
    pub(crate) fn push_back(&mut self, list: &mut List, index: u32) {
        let link = Link { before: list.last, after: NONE, listed: true };
        match self.0.get_mut(index as usize) {
            Some(place) => *place = link,
            None => self.grow(index, link),
        }
        match list.last {
            NONE => list.first = index,
            before => self.0[before as usize].after = index,
        }
        list.last = index;
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, index: u32, link: Link) {
        self.0.resize(index as usize, Link { before: NONE, after: NONE, listed: false });
        self.0.push(link);
    }

    /// True if an entry is in some list.
    pub(crate) fn has(&self, index: u32) -> bool {
        self.0.get(index as usize).is_some_and(|link| link.listed)
    }

    /// Takes an entry out of this list, if it is in any.
    pub(crate) fn remove(&mut self, list: &mut List, index: u32) {
        if !self.has(index) {
            return;
        }
        let Link { before, after, .. } = self.0[index as usize];
        match before {
            NONE => list.first = after,
            before => self.0[before as usize].after = after,
        }
        match after {
            NONE => list.last = before,
            after => self.0[after as usize].before = before,
        }
        self.0[index as usize].listed = false;
    }

    /// Takes the first entry out of this list, which it is known to be.
    #[inline(always)]
    pub(crate) fn remove_first(&mut self, list: &mut List) {
        let Some(link) = self.0.get_mut(list.first as usize) else { return };
        link.listed = false;
        list.first = link.after;
        match list.first {
            NONE => list.last = NONE,
            after => self.0[after as usize].before = NONE,
        }
    }

    /// An entry's list is gone.
    pub(crate) fn forget(&mut self, index: u32) {
        if let Some(link) = self.0.get_mut(index as usize) {
            link.listed = false;
        }
    }

    /// Entries of a list, in the order in which they were added.
    pub(crate) fn iter(&self, list: List) -> impl Iterator<Item = u32> + '_ {
        core::iter::successors(list.first(), |at| {
            note_look();
            let after = self.0[*at as usize].after;
            (after != NONE).then_some(after)
        })
    }

    /// The same from the last to the first.
    pub(crate) fn iter_back(&self, list: List) -> impl Iterator<Item = u32> + '_ {
        core::iter::successors((list.last != NONE).then_some(list.last), |at| {
            note_look();
            let before = self.0[*at as usize].before;
            (before != NONE).then_some(before)
        })
    }
}

/// A list for each peer, or whatever else a number names, that has some.
#[derive(Default)]
pub(crate) struct ByPeer {
    lists: HashMap<u32, Own>,
    links: Links,
}

/// What one has.
#[derive(Default)]
struct Own {
    list: List,
    count: usize,
}

impl ByPeer {
    /// An entry of a peer is new.
    pub(crate) fn add(&mut self, peer: u32, index: u32) {
        let own = self.lists.entry(peer).or_default();
        self.links.push_back(&mut own.list, index);
        own.count += 1;
    }

    /// An entry of a peer, which was added, is gone.
    pub(crate) fn remove(&mut self, peer: u32, index: u32) {
        let Some(own) = self.lists.get_mut(&peer) else { return };
        self.links.remove(&mut own.list, index);
        own.count -= 1;
        if own.count == 0 {
            self.lists.remove(&peer);
        }
    }

    /// How many a peer has.
    pub(crate) fn count(&self, peer: u32) -> usize {
        self.lists.get(&peer).map_or(0, |own| own.count)
    }

    /// True if a peer has some.
    pub(crate) fn has(&self, peer: u32) -> bool {
        self.lists.contains_key(&peer)
    }

    /// Peers that have some, in no order.
    pub(crate) fn peers(&self) -> impl Iterator<Item = u32> + '_ {
        self.lists.keys().copied()
    }

    /// A peer's entries, by their index.
    pub(crate) fn of(&self, peer: u32) -> Vec<u32> {
        let mut own = self.in_order(peer);
        own.sort_unstable();
        own
    }

    /// A peer's entries, in the order in which they were added.
    pub(crate) fn in_order(&self, peer: u32) -> Vec<u32> {
        let list = self.lists.get(&peer).map(|own| own.list).unwrap_or_default();
        self.links.iter(list).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_its_order_and_an_entry_is_taken_out_once() {
        let (mut links, mut list, mut other) = (Links::default(), List::default(), List::default());
        for index in [4, 1, 7, 3] {
            links.push_back(&mut list, index);
        }
        links.push_back(&mut other, 2);
        for gone in [7, 7, 4, 9, 5] {
            links.remove(&mut list, gone);
        }
        assert_eq!(
            (list.first(), links.iter(list).collect::<Vec<_>>()),
            (Some(1), [1, 3].to_vec())
        );
        links.push_back(&mut list, 4);
        links.remove(&mut list, 3);
        links.push_back(&mut other, 9);
        links.remove_first(&mut other);
        assert!(!links.has(2) && other.first() == Some(9));
        links.remove_first(&mut other);
        links.remove_first(&mut other);
        assert!(other.first().is_none() && links.iter_back(other).next().is_none());
        links.push_back(&mut other, 2);
        assert_eq!(links.iter(list).collect::<Vec<_>>(), [1, 4]);
        assert_eq!(links.iter_back(list).collect::<Vec<_>>(), [4, 1]);
        [1, 4].into_iter().for_each(|index| links.remove(&mut list, index));
        assert!(list.first().is_none() && !links.has(4) && links.has(2));
        assert_eq!(links.iter(other).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn each_peer_has_its_own() {
        let mut lists = ByPeer::default();
        let mut model: Vec<(u32, u32)> = Vec::new();
        let mut x = 9u64;
        for _ in 0..4_000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (peer, index) = ((x >> 60) as u32 % 5, (x >> 33) as u32 % 60);
            match model.iter().position(|(_, other)| *other == index) {
                Some(at) => {
                    let (peer, index) = model.remove(at);
                    lists.remove(peer, index);
                }
                None => {
                    model.push((peer, index));
                    lists.add(peer, index);
                }
            }
            for peer in 0..5 {
                let own = model.iter().filter(|(other, _)| *other == peer);
                let mut own: Vec<u32> = own.map(|(_, index)| *index).collect();
                own.sort_unstable();
                assert_eq!(lists.count(peer), own.len());
                assert_eq!((lists.has(peer), lists.of(peer)), (!own.is_empty(), own));
            }
        }
    }
}
