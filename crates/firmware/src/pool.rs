//! The frame pool: memory for data that has no user buffer (yet), handed out in chains of slots (V10). Of what is short there may be far more
//! than slots, if the pool has cells: their memory grows as they are needed, and is given back. Of slots no peer gets more than leaves some to others
//! (`SHARE-1`).

use crate::limits::{POOL_SHARE_PARTS, POOL_SLOT_BYTES};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// Bytes of a cell: most messages that come before they are asked for are a few numbers.
pub(crate) const CELL_BYTES: usize = 64;

/// Cells that are kept when none is used.
const CELLS_KEPT: usize = 1_024;

/// Slots that memory is got for at a time, 64 KB: a node that never needs more stays small.
const BLOCK_SLOTS: u32 = 128;

/// A chain of slots that holds up to its number of bytes; without slots, a cell or nothing. Must be given back with [`Pool::free`].
#[derive(Debug)]
pub(crate) struct Chain {
    head: u32,
    slots: u32,
}

impl Chain {
    /// Slots that it has.
    pub(crate) const fn slots(&self) -> u32 {
        self.slots
    }
}

/// Room for so many bytes each.
struct Cells {
    bytes: Vec<[u8; CELL_BYTES]>,
    /// Of a free one: the next.
    next: Vec<u32>,
    free_head: u32,
    used: usize,
    limit: usize,
}

impl Cells {
    const fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), next: Vec::new(), free_head: NONE, used: 0, limit }
    }

    fn alloc(&mut self) -> Option<u32> {
        if self.used >= self.limit {
            return None;
        }
        self.used += 1;
        let cell = self.free_head;
        if let Some(next) = self.next.get(cell as usize) {
            self.free_head = *next;
            return Some(cell);
        }
        self.bytes.push([0; CELL_BYTES]);
        self.next.push(NONE);
        Some(self.next.len() as u32 - 1)
    }

    fn free(&mut self, cell: u32) {
        self.next[cell as usize] = self.free_head;
        self.free_head = cell;
        self.used -= 1;
        if self.used == 0 && self.next.len() > CELLS_KEPT {
            *self = Self::new(self.limit);
        }
    }
}

/// The pool.
pub(crate) struct Pool {
    /// Memory of the slots that there is some for.
    blocks: Vec<Box<[u8]>>,
    /// Of each of these, what follows it in its chain or among the free ones.
    next: Vec<u32>,
    free_head: u32,
    /// Free slots, those included that there is no memory for yet.
    free: u32,
    all: u32,
    cells: Cells,
}

impl Pool {
    /// A pool of so many bytes, rounded down to slots. It has memory once it needs it, and keeps that.
    pub(crate) fn new(bytes: usize) -> Self {
        Self::with_cells(bytes, 0)
    }

    /// The same, and at most so many cells beside.
    pub(crate) fn with_cells(bytes: usize, cells: usize) -> Self {
        let all = (bytes / POOL_SLOT_BYTES) as u32;
        let cells = Cells::new(cells);
        Self { blocks: Vec::new(), next: Vec::new(), free_head: NONE, free: all, all, cells }
    }

    /// Gets memory for more slots, which are free.
    #[cold]
    fn grow(&mut self) {
        let first = self.next.len() as u32;
        let end = (first + BLOCK_SLOTS).min(self.all);
        self.blocks.push(vec![0; BLOCK_SLOTS as usize * POOL_SLOT_BYTES].into_boxed_slice());
        self.next.extend(first + 1..=end);
        if let Some(last) = self.next.last_mut() {
            *last = self.free_head;
        }
        self.free_head = first;
    }

    /// Slots that are free and have memory.
    fn listed(&self) -> u32 {
        self.free - (self.all - self.next.len() as u32)
    }

    #[inline(always)]
    fn slot(&mut self, slot: u32) -> &mut [u8] {
        let start = (slot % BLOCK_SLOTS) as usize * POOL_SLOT_BYTES;
        &mut self.blocks[(slot / BLOCK_SLOTS) as usize][start..start + POOL_SLOT_BYTES]
    }

    /// Cells in use.
    pub(crate) const fn cells(&self) -> usize {
        self.cells.used
    }

    /// Bytes that are left.
    pub(crate) fn bytes_free(&self) -> u64 {
        (self.slots().0 * POOL_SLOT_BYTES) as u64
    }

    /// Free slots and all slots.
    pub(crate) fn slots(&self) -> (usize, usize) {
        (self.free as usize, self.all as usize)
    }

    /// True if a chain for so many bytes is to be had for a peer that has so many slots: with it, it has no more than a part of what is free.
    #[inline]
    pub(crate) fn has_room(&self, bytes: u64, has: u32) -> bool {
        let slots = bytes.div_ceil(POOL_SLOT_BYTES as u64);
        slots + u64::from(has) <= u64::from(self.free / POOL_SHARE_PARTS)
    }

    /// A chain for so many bytes, or `None` if the pool has no room. Zero bytes take no slot.
    #[inline(always)]
    pub(crate) fn alloc(&mut self, bytes: usize) -> Option<Chain> {
        if bytes <= CELL_BYTES
            && self.cells.limit > 0
            && bytes > 0
            && let Some(cell) = self.cells.alloc()
        {
            return Some(Chain { head: cell, slots: 0 });
        }
        let slots = bytes.div_ceil(POOL_SLOT_BYTES) as u32;
        if slots > self.free {
            return None;
        }
        if slots == 0 {
            return Some(Chain { head: NONE, slots: 0 });
        }
        while self.listed() < slots {
            self.grow();
        }
        let head = self.free_head;
        let mut last = head;
        for _ in 1..slots {
            last = self.next[last as usize];
        }
        self.free_head = self.next[last as usize];
        self.next[last as usize] = NONE;
        self.free -= slots;
        Some(Chain { head, slots })
    }

    /// Takes a chain back.
    pub(crate) fn free(&mut self, chain: Chain) {
        if chain.slots == 0 {
            if chain.head != NONE {
                self.cells.free(chain.head);
            }
            return;
        }
        let mut last = chain.head;
        while self.next[last as usize] != NONE {
            last = self.next[last as usize];
        }
        self.next[last as usize] = self.free_head;
        self.free_head = chain.head;
        self.free += chain.slots;
    }

    /// Visits the slices of a chain that cover a range of its bytes.
    fn walk(&mut self, chain: &Chain, offset: usize, len: usize, mut visit: impl FnMut(&mut [u8])) {
        if chain.slots == 0 {
            if let Some(cell) = self.cells.bytes.get_mut(chain.head as usize) {
                visit(&mut cell[offset.min(CELL_BYTES)..(offset + len).min(CELL_BYTES)]);
            }
            return;
        }
        let mut slot = chain.head;
        for _ in 0..offset / POOL_SLOT_BYTES {
            if slot == NONE {
                return;
            }
            slot = self.next[slot as usize];
        }
        let (mut within, mut left) = (offset % POOL_SLOT_BYTES, len);
        while left > 0 && slot != NONE {
            let n = left.min(POOL_SLOT_BYTES - within);
            visit(&mut self.slot(slot)[within..within + n]);
            left -= n;
            within = 0;
            slot = self.next[slot as usize];
        }
    }

    /// Fills the first bytes of a chain, slot by slot: `fill` is given each slice with its offset.
    pub(crate) fn fill<E>(
        &mut self,
        chain: &Chain,
        bytes: usize,
        mut fill: impl FnMut(usize, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if chain.slots == 1 && bytes <= POOL_SLOT_BYTES {
            return fill(0, &mut self.slot(chain.head)[..bytes]);
        }
        let (mut at, mut result) = (0, Ok(()));
        self.walk(chain, 0, bytes, |slice| {
            if result.is_ok() {
                result = fill(at, slice);
                at += slice.len();
            }
        });
        result
    }

    /// Copies bytes into a chain.
    #[inline(always)]
    pub(crate) fn write(&mut self, chain: &Chain, offset: usize, from: &[u8]) {
        if offset == 0 && chain.slots == 1 && from.len() <= POOL_SLOT_BYTES {
            return self.slot(chain.head)[..from.len()].copy_from_slice(from);
        }
        self.write_long(chain, offset, from);
    }

    /// The same for what takes several slots, or begins within them.
    #[inline(never)]
    fn write_long(&mut self, chain: &Chain, offset: usize, from: &[u8]) {
        let mut at = 0;
        self.walk(chain, offset, from.len(), |slice| {
            let end = at + slice.len();
            slice.copy_from_slice(&from[at..end]);
            at = end;
        });
    }

    /// Copies bytes out of a chain.
    pub(crate) fn read(&mut self, chain: &Chain, offset: usize, into: &mut [u8]) {
        self.drain(chain, (offset, into.len()), |at, slice| {
            into[at - offset..][..slice.len()].copy_from_slice(slice);
        });
    }

    /// Hands out so many bytes of a chain from an offset on, in slices, with theirs.
    pub(crate) fn drain(
        &mut self,
        chain: &Chain,
        (offset, len): (usize, usize),
        mut visit: impl FnMut(usize, &[u8]),
    ) {
        let mut at = offset;
        self.walk(chain, offset, len, |slice| {
            visit(at, slice);
            at += slice.len();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_and_slots_come_back() {
        let mut pool = Pool::new(10 * POOL_SLOT_BYTES);
        let bytes: Vec<u8> = (0..2000u32).map(|i| i as u8).collect();
        let chain = pool.alloc(bytes.len()).unwrap();
        assert_eq!(pool.slots(), (6, 10));
        pool.write(&chain, 0, &bytes[..700]);
        pool.write(&chain, 700, &bytes[700..]);
        let mut out = vec![0; 1500];
        pool.read(&chain, 500, &mut out);
        assert_eq!(out, bytes[500..]);
        assert!(pool.alloc(7 * POOL_SLOT_BYTES).is_none());
        let rest = pool.alloc(6 * POOL_SLOT_BYTES).unwrap();
        assert!(pool.alloc(1).is_none());
        pool.free(chain);
        pool.free(rest);
        let empty = pool.alloc(0).unwrap();
        pool.free(empty);
        assert_eq!(pool.slots(), (10, 10));
    }

    /// What is short takes cells as long as there are some, and their memory comes back.
    #[test]
    fn short_ones_take_cells() {
        let count = CELLS_KEPT + 2;
        let mut pool = Pool::with_cells(POOL_SLOT_BYTES, count);
        let text = |i: usize| [i as u8; CELL_BYTES];
        let mut chains: Vec<Chain> = Vec::new();
        for i in 0..count {
            let chain = pool.alloc(1 + i % CELL_BYTES).unwrap();
            pool.write(&chain, 0, &text(i)[..=i % CELL_BYTES]);
            chains.push(chain);
        }
        assert_eq!((pool.cells(), pool.slots()), (count, (1, 1)));
        let last = pool.alloc(1).expect("there is a slot");
        assert!(pool.alloc(1).is_none());
        for (i, chain) in chains.iter().enumerate() {
            let mut out = [9; CELL_BYTES];
            pool.read(chain, 0, &mut out[..=i % CELL_BYTES]);
            assert_eq!(out[..=i % CELL_BYTES], text(i)[..=i % CELL_BYTES]);
        }
        pool.free(last);
        chains.into_iter().for_each(|chain| pool.free(chain));
        assert_eq!((pool.cells(), pool.cells.bytes.capacity(), pool.slots()), (0, 0, (1, 1)));
        assert!(pool.alloc(CELL_BYTES).is_some() && pool.cells() == 1);
        assert!(pool.alloc(CELL_BYTES + 1).is_some() && pool.cells() == 1);
    }

    /// One peer after the other takes all that it may: each leaves some to those that come after it, and none is refused for what others have.
    #[test]
    fn whoever_takes_all_that_it_may_leaves_some_to_others() {
        let all = 8_192;
        let mut pool = Pool::new(all * POOL_SLOT_BYTES);
        let mut chains = Vec::new();
        let mut taken = Vec::new();
        for _ in 0..32 {
            let mut has = 0;
            while pool.has_room(POOL_SLOT_BYTES as u64, has) {
                chains.push(pool.alloc(POOL_SLOT_BYTES).unwrap());
                has += 1;
            }
            taken.push(has);
        }
        assert_eq!(taken[0] as usize, all / (POOL_SHARE_PARTS as usize + 1));
        assert!(taken.iter().all(|has| *has >= 16), "{taken:?}");
        chains.into_iter().for_each(|chain| pool.free(chain));
        assert_eq!(pool.slots(), (all, all));
    }

    /// Memory is got for what is used at a time, and used again.
    #[test]
    fn memory_is_got_when_it_is_needed() {
        let mut pool = Pool::new(1_000 * POOL_SLOT_BYTES);
        assert_eq!((pool.blocks.len(), pool.slots()), (0, (1_000, 1_000)));
        for _ in 0..100 {
            let chain = pool.alloc(POOL_SLOT_BYTES * 40).unwrap();
            pool.free(chain);
        }
        assert_eq!(pool.blocks.len(), 1);
        let most = pool.alloc(POOL_SLOT_BYTES * 1_000).unwrap();
        assert!(pool.alloc(1).is_none());
        assert_eq!(pool.blocks.len(), 8);
        let bytes: Vec<u8> = (0..POOL_SLOT_BYTES * 1_000).map(|i| (i / 7) as u8).collect();
        pool.write(&most, 0, &bytes);
        let mut out = vec![0; bytes.len()];
        pool.read(&most, 0, &mut out);
        assert!(out == bytes);
        pool.free(most);
        assert_eq!(pool.slots(), (1_000, 1_000));
    }
}
