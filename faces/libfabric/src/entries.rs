//! The table of an address vector: who is at which number, and which number somebody has.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use emp_host::NodeId;

use crate::bindings::{FI_ADDR_UNSPEC, FiAddr};
use crate::ep_address::EpAddress;

pub struct Entry {
    pub address: EpAddress,
    /// What completions call it by.
    called: FiAddr,
    /// Insertions less removals.
    count: usize,
}

/// Mixes a node and a number of an endpoint: asked for with each message whose source is wanted, where the standard hash
/// costs as much as the rest of its receive. Nodes draw their identities at random, and only what the application inserts
/// is kept, so that nobody else can fill one bucket.
#[derive(Default)]
struct Mixer(u64);

/// An odd number with its bits well spread: the fractional part of the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        // Tables look at both ends of it.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(SPREAD);
    }
}

/// Entries by number, and numbers by entry. Inserting an address again gives the same number.
#[derive(Default)]
pub struct Entries {
    list: Vec<Option<Entry>>,
    numbers: HashMap<(NodeId, u16), usize, BuildHasherDefault<Mixer>>,
    /// Places of removed entries, to be used again, the lowest first.
    free: BTreeSet<usize>,
}

impl Entries {
    pub fn get(&self, number: FiAddr) -> Option<&Entry> {
        self.list.get(usize::try_from(number).ok()?)?.as_ref()
    }

    pub fn by_endpoint(&self, node: NodeId, endpoint: u16) -> Option<&Entry> {
        self.list.get(*self.numbers.get(&(node, endpoint))?)?.as_ref()
    }

    /// What completions call a node's endpoint by; [`FI_ADDR_UNSPEC`] if it was not inserted.
    pub fn called(&self, node: NodeId, endpoint: u16) -> FiAddr {
        self.by_endpoint(node, endpoint).map_or(FI_ADDR_UNSPEC, |entry| entry.called)
    }

    /// Inserts; returns the number, and true if it is a new one. `called`: what completions are to call it by, if not by
    /// its number.
    pub fn insert(&mut self, address: EpAddress, called: Option<FiAddr>) -> (FiAddr, bool) {
        let next = self.free.first().copied().unwrap_or(self.list.len());
        let number = *self.numbers.entry((address.node, address.endpoint)).or_insert(next);
        if number == self.list.len() {
            self.list.push(None);
        }
        if let Some(entry) = &mut self.list[number] {
            entry.count += 1;
            entry.called = called.unwrap_or(entry.called);
            return (number as FiAddr, false);
        }
        self.free.remove(&number);
        let called = called.unwrap_or(number as FiAddr);
        self.list[number] = Some(Entry { address, called, count: 1 });
        (number as FiAddr, true)
    }

    /// Removes once; true if that was the last time. `None`: there is none of this number.
    pub fn remove(&mut self, number: FiAddr) -> Option<bool> {
        let place = usize::try_from(number).ok()?;
        let entry = self.list.get_mut(place)?.as_mut()?;
        entry.count -= 1;
        if entry.count > 0 {
            return Some(false);
        }
        self.numbers.remove(&(entry.address.node, entry.address.endpoint));
        self.list[place] = None;
        self.free.insert(place);
        Some(true)
    }

    /// Changes what completions call an entry by. False: there is none of this number.
    pub fn call(&mut self, number: FiAddr, called: FiAddr) -> bool {
        let place = usize::try_from(number).ok().and_then(|place| self.list.get_mut(place));
        let Some(Some(entry)) = place else { return false };
        entry.called = called;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    #[test]
    fn neighbouring_endpoints_and_nodes_are_told_apart_at_both_ends_of_the_hash() {
        let hash = |node, endpoint: u16| {
            BuildHasherDefault::<Mixer>::default().hash_one((NodeId(node), endpoint))
        };
        let all: Vec<u64> =
            (0..64).flat_map(|node| (0..64).map(move |endpoint| hash(node, endpoint))).collect();
        let different = |part: fn(&u64) -> u64| all.iter().map(part).collect::<HashSet<_>>().len();
        assert_eq!(different(|hash| *hash), 4096);
        // As many of 7 bits as there are, and nearly as many of 16 as 4096 draws give.
        assert_eq!(different(|hash| hash >> 57), 128);
        assert!(different(|hash| hash & 0xffff) > 3700, "{}", different(|hash| hash & 0xffff));
    }

    fn somebody(node: u64) -> EpAddress {
        EpAddress { node: NodeId(node), endpoint: 1, mac: None, udp: None, service: false }
    }

    #[test]
    fn places_are_used_again_the_lowest_first() {
        let mut entries = Entries::default();
        for node in 1..=5 {
            assert_eq!(entries.insert(somebody(node), None), (node - 1, true));
        }
        assert_eq!(entries.insert(somebody(3), None), (2, false));
        for number in [3, 1, 0] {
            assert_eq!(entries.remove(number), Some(true));
            assert_eq!(entries.remove(number), None);
        }
        assert_eq!(entries.remove(2), Some(false));
        for (node, number) in [(6, 0), (7, 1), (8, 3), (9, 5)] {
            assert_eq!(entries.insert(somebody(node), None), (number, true));
        }
        assert_eq!(entries.remove(FI_ADDR_UNSPEC), None);
    }

    #[test]
    fn completions_call_an_entry_as_was_asked_for() {
        let mut entries = Entries::default();
        entries.insert(somebody(1), None);
        entries.insert(somebody(2), Some(700));
        assert_eq!([1, 2, 3].map(|node| entries.called(NodeId(node), 1)), [0, 700, u64::MAX]);
        assert!(entries.call(0, 800) && !entries.call(9, 800));
        assert_eq!(entries.called(NodeId(1), 1), 800);
        entries.insert(somebody(2), Some(701));
        assert_eq!(entries.called(NodeId(2), 1), 701);
    }
}
