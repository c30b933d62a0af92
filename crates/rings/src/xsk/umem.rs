//! The memory that frames live in, and who holds which chunk of it.
//!
//! # Invariant
//!
//! The memory is cut into chunks of one size, a power of two. Each chunk has one holder. Bytes of a
//! chunk are read or written here only while it is [`Holder::Us`] or, for a frame that the kernel
//! has just handed up, between taking the chunk from [`Holder::Filled`] and giving it back. An
//! address that comes from the kernel is believed only if it lies inside a chunk that the kernel
//! holds by the ring in question: a chunk that is handed up twice, or was never given away, is
//! refused.

use std::io;

use crate::mapping::Mapping;

/// Who holds a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// We do.
    Us,
    /// The kernel, to put a received frame into.
    Filled,
    /// The kernel, to send what is in it.
    Sent,
}

/// A piece of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The chunk's number.
    pub(super) chunk: u32,
    start: usize,
    bytes: usize,
}

/// The memory and its holders.
pub(super) struct Umem {
    map: Mapping,
    chunk_bytes: usize,
    holders: Vec<Holder>,
}

impl Umem {
    /// `chunks` chunks of `chunk_bytes` bytes (a power of two), all held by us.
    pub(super) fn new(chunk_bytes: usize, chunks: usize) -> io::Result<Self> {
        if !chunk_bytes.is_power_of_two() || chunks == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let bytes = chunk_bytes.checked_mul(chunks).ok_or(io::ErrorKind::InvalidInput)?;
        let map = Mapping::anonymous(bytes)?;
        Ok(Self { map, chunk_bytes, holders: vec![Holder::Us; chunks] })
    }

    /// Where it starts, for registering it.
    pub(super) fn base(&self) -> *mut u8 {
        self.map.base().as_ptr()
    }

    /// Its length in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.map.bytes()
    }

    /// The address of a chunk, as rings name it.
    #[inline]
    pub(super) fn address(&self, chunk: u32) -> u64 {
        u64::from(chunk) * self.chunk_bytes as u64
    }

    /// Hands a chunk that is ours to the kernel. False if it is not ours.
    #[inline]
    pub(super) fn give(&mut self, chunk: u32, to: Holder) -> bool {
        match self.holders.get_mut(chunk as usize) {
            Some(holder @ Holder::Us) => {
                *holder = to;
                true
            }
            _ => false,
        }
    }

    /// Takes the chunk that holds `address` back from the kernel, which must hold it as `from`.
    #[inline]
    pub(super) fn take(&mut self, address: u64, from: Holder) -> Option<u32> {
        let chunk = u32::try_from(address / self.chunk_bytes as u64).ok()?;
        let holder = self.holders.get_mut(chunk as usize)?;
        if *holder != from {
            return None;
        }
        *holder = Holder::Us;
        Some(chunk)
    }

    /// Where in its chunk a received piece is; `None` if it does not end inside it.
    #[inline]
    pub(super) fn piece(&self, chunk: u32, address: u64, bytes: u32) -> Option<Piece> {
        let start = (address % self.chunk_bytes as u64) as usize;
        let bytes = bytes as usize;
        (start.checked_add(bytes)? <= self.chunk_bytes).then_some(Piece { chunk, start, bytes })
    }

    /// The bytes of a piece of a chunk that is ours. Empty if it is not.
    #[inline]
    pub(super) fn bytes_of(&self, piece: Piece) -> &[u8] {
        if self.holders.get(piece.chunk as usize) != Some(&Holder::Us) {
            return &[];
        }
        let offset = piece.chunk as usize * self.chunk_bytes + piece.start;
        // SAFETY: `piece` made sure that the piece ends inside its chunk, and the chunk exists, so
        // this is inside the mapping; the chunk is ours, so nobody writes to it while `self` is
        // borrowed: giving it away takes `&mut self`.
        unsafe { std::slice::from_raw_parts(self.base().add(offset), piece.bytes) }
    }

    /// The bytes of a whole chunk that is ours, to write. Empty if it is not.
    #[inline]
    pub(super) fn chunk_mut(&mut self, chunk: u32) -> &mut [u8] {
        if self.holders.get(chunk as usize) != Some(&Holder::Us) {
            return &mut [];
        }
        let offset = chunk as usize * self.chunk_bytes;
        // SAFETY: the chunk exists, so this is inside the mapping; it is ours, and `self` is
        // borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.base().add(offset), self.chunk_bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_has_one_holder() {
        let mut umem = Umem::new(2048, 4).expect("8 KiB are to be had");
        assert_eq!(umem.take(2048, Holder::Filled), None, "was never given");
        assert!(umem.give(1, Holder::Filled));
        assert!(!umem.give(1, Holder::Sent), "is given already");
        assert!(!umem.give(4, Holder::Filled), "does not exist");
        assert!(umem.chunk_mut(1).is_empty());
        assert_eq!(umem.take(2048 + 256, Holder::Sent), None, "wrong ring");
        assert_eq!(umem.take(2048 + 256, Holder::Filled), Some(1));
        assert_eq!(umem.take(2048 + 256, Holder::Filled), None, "handed up twice");
        assert_eq!(umem.chunk_mut(1).len(), 2048);
    }

    #[test]
    fn addresses_outside_are_refused() {
        let mut umem = Umem::new(2048, 4).expect("8 KiB are to be had");
        for chunk in 0..4 {
            assert!(umem.give(chunk, Holder::Filled));
        }
        for address in [8192, u64::MAX, 1 << 50] {
            assert_eq!(umem.take(address, Holder::Filled), None);
        }
        assert_eq!(umem.take(8191, Holder::Filled), Some(3));
        assert_eq!(umem.piece(3, 8191, 2), None, "ends outside its chunk");
        assert_eq!(umem.piece(3, 6144, u32::MAX), None);
        let piece = umem.piece(3, 8191, 1).expect("it fits");
        assert_eq!(umem.bytes_of(piece), [0]);
        assert!(umem.give(3, Holder::Sent));
        assert!(umem.bytes_of(piece).is_empty(), "no longer ours");
    }

    #[test]
    fn shapes_that_make_no_sense_are_refused() {
        assert!(Umem::new(1000, 4).is_err());
        assert!(Umem::new(2048, 0).is_err());
        assert!(Umem::new(4096, usize::MAX).is_err());
    }
}
