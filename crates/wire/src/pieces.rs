//! Pieces of the sender's memory, named in a first frame so that the receiver reads them itself (`DIRECT-1`).
//!
//! ```text
//!  0  stamp    8      8 + 16 i  address  8
//!                    16 + 16 i  bytes    8
//! ```

use crate::header::{u16_at, u64_at};
use crate::message::{LONG_BYTES, MESSAGE_BYTES};
use crate::target::TARGET_BYTES;
use crate::{Flags, Header, Kind, Reason};

/// Pieces that one message may name: with more, copying costs no more than reading each.
pub const PIECES_MAX: usize = 8;

/// Bytes of the stamp.
const STAMP_BYTES: usize = 8;

/// Bytes of each piece.
const PIECE_BYTES: usize = 16;

/// Bytes of a list of so many pieces.
pub const fn pieces_bytes(pieces: usize) -> usize {
    STAMP_BYTES + PIECE_BYTES * pieces
}

/// Writes a list: the stamp, then address and length of each piece. Returns its length in bytes.
pub fn emit_pieces(stamp: u64, pieces: impl Iterator<Item = (u64, u64)>, into: &mut [u8]) -> usize {
    into[..STAMP_BYTES].copy_from_slice(&stamp.to_be_bytes());
    let mut at = STAMP_BYTES;
    for (address, bytes) in pieces {
        into[at..at + 8].copy_from_slice(&address.to_be_bytes());
        into[at + 8..at + PIECE_BYTES].copy_from_slice(&bytes.to_be_bytes());
        at += PIECE_BYTES;
    }
    at
}

/// A list as it came: checked, not copied.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'a> {
    /// The sender's name for the state of its memory.
    pub stamp: u64,
    list: &'a [u8],
}

impl<'a> Pieces<'a> {
    /// Reads the list of a message of `total_bytes`. The pieces must be that long together.
    pub fn parse(body: &'a [u8], total_bytes: u64) -> Result<Self, Reason> {
        let (stamp, list) = body.split_at_checked(STAMP_BYTES).ok_or(Reason::BodyShort)?;
        let pieces = Self { stamp: u64_at(stamp, 0), list };
        let mut left = total_bytes;
        for (address, bytes) in pieces.iter() {
            let inside = address.checked_add(bytes).is_some() && bytes > 0;
            left = left.checked_sub(bytes).filter(|_| inside).ok_or(Reason::Field)?;
        }
        if left == 0 && list.len().is_multiple_of(PIECE_BYTES) {
            Ok(pieces)
        } else {
            Err(Reason::Field)
        }
    }

    /// Address and length of each piece.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.list.chunks_exact(PIECE_BYTES).map(|piece| (u64_at(piece, 0), u64_at(piece, 8)))
    }
}

/// True if a first frame names pieces of its sender's memory: that means something only where both share a machine.
#[inline]
pub fn names_memory(header: &Header, body: &[u8]) -> bool {
    let fixed = match header.kind {
        Kind::Message => MESSAGE_BYTES,
        Kind::Put => TARGET_BYTES,
        _ => return false,
    };
    let long = header.flags.has(Flags::LONG) && body.len() >= fixed + LONG_BYTES;
    long && u16_at(body, fixed + LONG_BYTES - 2) != 0
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;

    fn list(pieces: &[(u64, u64)]) -> Vec<u8> {
        let mut into = vec![0; pieces_bytes(pieces.len())];
        assert_eq!(emit_pieces(7, pieces.iter().copied(), &mut into), into.len());
        into
    }

    #[test]
    fn what_is_written_is_read() {
        let pieces = [(0x1000, 5), (0x7FFF_FFFF_F000, 4096)];
        let bytes = list(&pieces);
        let read = Pieces::parse(&bytes, 4101).unwrap();
        assert_eq!(read.stamp, 7);
        assert!(read.iter().eq(pieces));
    }

    #[test]
    fn lists_that_cannot_be_are_refused() {
        assert_eq!(Pieces::parse(&[0; 7], 0).unwrap_err(), Reason::BodyShort);
        for (pieces, total) in [
            (&[(16, 5)][..], 4),
            (&[(16, 5)], 6),
            (&[(u64::MAX, 2)], 2),
            (&[(16, 5), (32, 0)], 5),
            (&[(16, u64::MAX / 2), (16, u64::MAX / 2 + 4)], 2),
        ] {
            assert_eq!(Pieces::parse(&list(pieces), total).unwrap_err(), Reason::Field);
        }
        assert!(Pieces::parse(&list(&[(16, 5)])[..23], 5).is_err());
        assert!(Pieces::parse(&[&list(&[(16, 5)])[..], &[0; 3]].concat(), 5).is_err());
    }
}
