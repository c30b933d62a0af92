//! Short pieces of memory that the kernel may refer to for as long as it likes, each written once.
//!
//! # Invariant
//!
//! A page's bytes before `used` are never written again: they were handed out, and may be read by the kernel after the borrow has ended,
//! even after the page was unmapped. What does not fit is put on a fresh page, and the old one is unmapped.

use std::io::{self, IoSlice};

use crate::mapping::Mapping;

/// A page, and how much of it is written.
pub struct WrittenOnce {
    page: Mapping,
    used: usize,
}

/// Bytes of a page, the smallest that Linux has.
const PAGE_BYTES: usize = 4096;

/// Pieces begin with a cache line.
const LINE_BYTES: usize = 64;

impl WrittenOnce {
    /// Longest piece in bytes.
    pub const BYTES_MAX: usize = PAGE_BYTES;

    /// With nothing written.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new() -> io::Result<Self> {
        Ok(Self { page: Mapping::anonymous(PAGE_BYTES)?, used: 0 })
    }

    /// Writes parts one behind the other; returns where they are.
    ///
    /// # Errors
    /// They are longer than [`Self::BYTES_MAX`], or there is no memory.
    pub fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<&[u8]> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes > PAGE_BYTES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if bytes > PAGE_BYTES - self.used {
            *self = Self::new()?;
        }
        let start = self.used;
        self.used = (start + bytes).next_multiple_of(LINE_BYTES).min(PAGE_BYTES);
        // SAFETY: within the mapping, behind everything that was handed out, and borrowed from `self` alone.
        let piece =
            unsafe { std::slice::from_raw_parts_mut(self.page.base().as_ptr().add(start), bytes) };
        let mut rest = &mut piece[..];
        for part in parts {
            let (place, behind) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = behind;
        }
        Ok(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_what_was_written_and_never_share_a_line() {
        let mut page = WrittenOnce::new().expect("there is memory");
        let mut places = Vec::new();
        for number in 0..200u8 {
            let part = vec![number; 1 + usize::from(number)];
            let piece = page.write(&[IoSlice::new(&part), IoSlice::new(b"end")]).expect("it fits");
            assert_eq!(piece, [&part[..], b"end"].concat());
            places.push((piece.as_ptr() as usize, piece.len()));
        }
        let on_one_page = places.windows(2).filter(|pair| {
            pair[0].0 / PAGE_BYTES == pair[1].0 / PAGE_BYTES && pair[1].0 > pair[0].0
        });
        for pair in on_one_page {
            assert!(pair[1].0 >= pair[0].0 + pair[0].1 && pair[1].0.is_multiple_of(LINE_BYTES));
        }
    }

    #[test]
    fn what_is_longer_than_a_page_is_refused_and_the_longest_is_not() {
        let mut page = WrittenOnce::new().expect("there is memory");
        let long = vec![7; PAGE_BYTES + 1];
        assert!(page.write(&[IoSlice::new(&long)]).is_err());
        for _ in 0..3 {
            assert_eq!(page.write(&[IoSlice::new(&long[1..])]).expect("it fits"), &long[1..]);
        }
        assert_eq!(page.write(&[]).expect("nothing always fits"), b"");
    }
}
