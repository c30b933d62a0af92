//! `slice`: a part of a frame that is longer than its way takes (`SLICE-1`).
//!
//! No body: after the common header come bytes of the frame that was cut. The sequence field is that frame's, which names it; the
//! word says where the bytes belong.

use crate::{HEADER_BYTES, Reason};

/// Slices begin and end at multiples of so many bytes of their frame, but where that ends: what has come of one is noted by a bit for
/// as many, a thousand for the longest.
pub const SLICE_STEP_BYTES: usize = 64;

/// What a `slice` frame's word says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SliceWord {
    /// Where the slice begins in the frame that was cut, in bytes.
    pub offset: u16,
    /// Bytes of that whole frame.
    pub total: u16,
}

impl SliceWord {
    /// As the header's word.
    pub const fn emit(self) -> u32 {
        (self.offset as u32) << 16 | self.total as u32
    }

    /// From the header's word, for a slice of so many bytes: it must lie in a frame that has a header.
    pub const fn parse(word: u32, bytes: usize) -> Result<Self, Reason> {
        let (offset, total) = ((word >> 16) as u16, word as u16);
        let inside = bytes > 0 && offset as usize + bytes <= total as usize;
        if inside && total as usize >= HEADER_BYTES {
            Ok(Self { offset, total })
        } else {
            Err(Reason::Field)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_lies_in_its_frame() {
        let word = SliceWord { offset: 968, total: 1500 };
        assert_eq!(SliceWord::parse(word.emit(), 532), Ok(word));
        for bytes in [0, 533, usize::from(u16::MAX)] {
            assert_eq!(SliceWord::parse(word.emit(), bytes), Err(Reason::Field));
        }
        let stump = SliceWord { offset: 0, total: 31 };
        assert_eq!(SliceWord::parse(stump.emit(), 31), Err(Reason::Field));
    }
}
