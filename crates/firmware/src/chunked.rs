//! Storage that grows without moving and without doubling: a million idle peers must not cost two million's memory.

use alloc::vec::Vec;

/// Items per chunk: large enough that the chunk table stays small, small enough that a node with three peers stays small.
const CHUNK: usize = 64;

/// A growable array of `T`, addressed by `u32`.
pub(crate) struct Chunked<T> {
    chunks: Vec<Vec<T>>,
    len: u32,
}

impl<T> Chunked<T> {
    pub(crate) const fn new() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Adds an item and returns its index.
    pub(crate) fn push(&mut self, item: T) -> u32 {
        let index = self.len;
        if (index as usize).is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks[index as usize / CHUNK].push(item);
        self.len += 1;
        index
    }
}

impl<T> core::ops::Index<u32> for Chunked<T> {
    type Output = T;
    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }
}

impl<T> core::ops::IndexMut<u32> for Chunked<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }
}
