//! One item for each peer, side by side: with every frame some twenty are looked up, so a look is an addition. A million idle peers
//! must not cost two million's memory, so the room grows by a small part, not by doubling.

use alloc::vec::Vec;

/// Items that room is made for at a time, at least: a node with three peers stays small.
const ROOM_MIN: usize = 64;

/// The room grows by one of so many parts: 3 % of an idle peer's 200 bytes stay unused, and an item is moved as often as there are parts,
/// which is a microsecond for all of a peer's.
const ROOM_PARTS: usize = 32;

/// A growable array of `T`, addressed by a peer's index.
pub(crate) struct PerPeer<T>(Vec<T>);

impl<T> PerPeer<T> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn len(&self) -> u32 {
        self.0.len() as u32
    }

    /// Adds an item and returns its index.
    pub(crate) fn push(&mut self, item: T) -> u32 {
        let index = self.0.len();
        if index == self.0.capacity() {
            self.0.reserve_exact((index / ROOM_PARTS).max(ROOM_MIN));
        }
        self.0.push(item);
        index as u32
    }
}

impl<T> core::ops::Index<u32> for PerPeer<T> {
    type Output = T;
    #[inline(always)]
    fn index(&self, index: u32) -> &T {
        &self.0[index as usize]
    }
}

impl<T> core::ops::IndexMut<u32> for PerPeer<T> {
    #[inline(always)]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.0[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_stay_where_they_were_put_and_little_room_is_unused() {
        let mut items = PerPeer::new();
        let count = 20_000;
        for i in 0..count {
            assert_eq!(items.push(i), i);
            let unused = items.0.capacity() - items.0.len();
            assert!(unused <= ROOM_MIN.max(i as usize / ROOM_PARTS + 1), "{unused} of {i}");
        }
        (0..count).for_each(|i| items[i] += 1);
        assert!((0..count).all(|i| items[i] == i + 1) && items.len() == count);
    }

    #[test]
    #[should_panic(expected = "out of bounds")]
    fn what_was_not_put_there_is_not_there() {
        let mut items = PerPeer::new();
        assert!((0..64).all(|i| items.push(i) == i));
        let _ = items[64];
    }
}
