//! The frame pool: memory for data that has no user buffer (yet), handed out in chains of slots (V10). Of what is short there may be far more
//! than slots, if the pool has cells: their memory grows as they are needed, and is given back.

use crate::limits::POOL_SLOT_BYTES;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// Bytes of a cell: most messages that come before they are asked for are a few numbers.
pub(crate) const CELL_BYTES: usize = 64;

/// Cells that are kept when none is used.
const CELLS_KEPT: usize = 1_024;

/// A chain of slots that holds up to its number of bytes; without slots, a cell or nothing. Must be given back with [`Pool::free`].
#[derive(Debug)]
pub(crate) struct Chain {
    head: u32,
    slots: u32,
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
    bytes: Box<[u8]>,
    next: Box<[u32]>,
    free_head: u32,
    free: u32,
    cells: Cells,
}

impl Pool {
    /// A pool of so many bytes, rounded down to slots. The memory is not touched before it is used.
    pub(crate) fn new(bytes: usize) -> Self {
        Self::with_cells(bytes, 0)
    }

    /// The same, and at most so many cells beside.
    pub(crate) fn with_cells(bytes: usize, cells: usize) -> Self {
        let slots = bytes / POOL_SLOT_BYTES;
        let mut next: Box<[u32]> = (1..=slots as u32).collect();
        if let Some(last) = next.last_mut() {
            *last = NONE;
        }
        Self {
            bytes: vec![0; slots * POOL_SLOT_BYTES].into_boxed_slice(),
            next,
            free_head: if slots == 0 { NONE } else { 0 },
            free: slots as u32,
            cells: Cells::new(cells),
        }
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
        (self.free as usize, self.next.len())
    }

    /// True if a chain for so many bytes is to be had.
    #[inline]
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        bytes.div_ceil(POOL_SLOT_BYTES as u64) <= u64::from(self.free)
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
            let start = slot as usize * POOL_SLOT_BYTES + within;
            visit(&mut self.bytes[start..start + n]);
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
            let start = chain.head as usize * POOL_SLOT_BYTES;
            return fill(0, &mut self.bytes[start..start + bytes]);
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
            let start = chain.head as usize * POOL_SLOT_BYTES;
            return self.bytes[start..start + from.len()].copy_from_slice(from);
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
    use alloc::vec::Vec;

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
}
