//! Which entries of a table belong to each peer: what concerns one peer walks nobody else's.

use alloc::vec::Vec;

use hashbrown::HashMap;

/// No entry.
const NONE: u32 = u32::MAX;

/// Lists of entries, one for each peer that has some. Entries are named by their index in the table, and each is in one list at most.
#[derive(Default)]
pub(crate) struct ByPeer {
    /// The entry that was added last.
    last: HashMap<u32, u32>,
    /// By entry.
    links: Vec<Links>,
}

/// The neighbours of an entry in its list.
#[derive(Clone, Copy)]
struct Links {
    before: u32,
    after: u32,
}

impl ByPeer {
    /// An entry of a peer is new.
    pub(crate) fn add(&mut self, peer: u32, index: u32) {
        let at = index as usize;
        if self.links.len() <= at {
            self.links.resize(at + 1, Links { before: NONE, after: NONE });
        }
        let before = self.last.insert(peer, index).unwrap_or(NONE);
        self.links[at] = Links { before, after: NONE };
        if before != NONE {
            self.links[before as usize].after = index;
        }
    }

    /// An entry of a peer, which was added, is gone.
    pub(crate) fn remove(&mut self, peer: u32, index: u32) {
        let Links { before, after } = self.links[index as usize];
        if before != NONE {
            self.links[before as usize].after = after;
        }
        if after != NONE {
            self.links[after as usize].before = before;
        } else if before != NONE {
            self.last.insert(peer, before);
        } else {
            self.last.remove(&peer);
        }
    }

    /// True if a peer has some.
    pub(crate) fn has(&self, peer: u32) -> bool {
        self.last.contains_key(&peer)
    }

    /// A peer's entries, by their index.
    pub(crate) fn of(&self, peer: u32) -> Vec<u32> {
        let mut own = Vec::new();
        let mut at = self.last.get(&peer).copied().unwrap_or(NONE);
        while at != NONE {
            own.push(at);
            at = self.links[at as usize].before;
        }
        own.sort_unstable();
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                assert_eq!((lists.has(peer), lists.of(peer)), (!own.is_empty(), own));
            }
        }
    }
}
