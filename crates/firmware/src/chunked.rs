//! Storage that grows without moving and without doubling: a million idle peers must not cost two million's memory.

use alloc::vec::Vec;

/// Items per chunk: large enough that the chunk table stays small, small enough that a node with three peers stays small.
const CHUNK: usize = 64;

/// A growable array of `T`, addressed by `u32`.
pub(crate) struct Chunked<T> {
    /// The first chunk, which is all that most nodes have: with every frame some ten items are looked up, and the table of chunks
    /// is not asked where they are.
    first: Vec<T>,
    others: Vec<Vec<T>>,
    len: u32,
}

impl<T> Chunked<T> {
    pub(crate) const fn new() -> Self {
        Self { first: Vec::new(), others: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Adds an item and returns its index.
    pub(crate) fn push(&mut self, item: T) -> u32 {
        let index = self.len;
        let (chunk, place) = (index as usize / CHUNK, index as usize % CHUNK);
        let chunk = match chunk.checked_sub(1) {
            None => &mut self.first,
            Some(other) => {
                if place == 0 {
                    self.others.push(Vec::new());
                }
                &mut self.others[other]
            }
        };
        if place == 0 {
            chunk.reserve_exact(CHUNK);
        }
        chunk.push(item);
        self.len += 1;
        index
    }

    #[inline(never)]
    fn other(&self, index: usize) -> &T {
        &self.others[index / CHUNK - 1][index % CHUNK]
    }

    #[inline(never)]
    fn other_mut(&mut self, index: usize) -> &mut T {
        &mut self.others[index / CHUNK - 1][index % CHUNK]
    }
}

impl<T> core::ops::Index<u32> for Chunked<T> {
    type Output = T;
    #[inline(always)]
    fn index(&self, index: u32) -> &T {
        let index = index as usize;
        match self.first.get(index) {
            Some(item) => item,
            None => self.other(index),
        }
    }
}

impl<T> core::ops::IndexMut<u32> for Chunked<T> {
    #[inline(always)]
    fn index_mut(&mut self, index: u32) -> &mut T {
        let index = index as usize;
        if index < self.first.len() { &mut self.first[index] } else { self.other_mut(index) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_stay_where_they_were_put() {
        let mut items = Chunked::new();
        let count = 3 * CHUNK as u32 + 1;
        assert!((0..count).all(|i| items.push(i) == i));
        for i in 0..count {
            items[i] += 1;
        }
        assert!((0..count).all(|i| items[i] == i + 1) && items.len() == count);
    }

    #[test]
    #[should_panic(expected = "out of bounds")]
    fn what_was_not_put_there_is_not_there() {
        let mut items = Chunked::new();
        assert!((0..CHUNK as u32).all(|i| items.push(i) == i));
        let _ = items[CHUNK as u32];
    }
}
