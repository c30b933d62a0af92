//! The frame pool: fixed memory for data that has no user buffer (yet), handed out in chains of slots (V10).

use crate::limits::POOL_SLOT_BYTES;
use alloc::boxed::Box;
use alloc::vec;

const NONE: u32 = u32::MAX;

/// A chain of slots that holds up to its number of bytes. Must be given back with [`Pool::free`].
#[derive(Debug)]
pub(crate) struct Chain {
    head: u32,
    slots: u32,
}

/// The pool.
pub(crate) struct Pool {
    bytes: Box<[u8]>,
    next: Box<[u32]>,
    free_head: u32,
    free: u32,
}

impl Pool {
    /// A pool of so many bytes, rounded down to slots. The memory is not touched before it is used.
    pub(crate) fn new(bytes: usize) -> Self {
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
        }
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
}
