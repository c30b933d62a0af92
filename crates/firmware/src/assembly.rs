//! Frames that arrive in slices (`SLICE-2`), because they were longer than their way takes now.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use emp_wire::{LONG_FRAME_BYTES, SliceWord};

use crate::limits::ASSEMBLIES_MAX;

/// A frame of which the first bytes are here.
struct Partial {
    peer: u32,
    /// What the sender calls the frame.
    name: u32,
    total: usize,
    filled: usize,
    bytes: Box<[u8]>,
}

/// All such frames. Has no memory until the first slice comes.
pub(crate) struct Assembly {
    partial: Vec<Partial>,
    /// The next to make room, if all are taken.
    oldest: usize,
}

/// A frame that is whole again.
pub(crate) struct Whole {
    at: usize,
    total: usize,
    bytes: Box<[u8]>,
}

impl Whole {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.total]
    }
}

impl Assembly {
    pub(crate) const fn new() -> Self {
        Self { partial: Vec::new(), oldest: 0 }
    }

    /// Adds a slice of a peer's frame. `Err`: it does not continue what is here. The whole frame is to be given
    /// [`back`](Self::back).
    pub(crate) fn add(
        &mut self,
        peer: u32,
        name: u32,
        word: SliceWord,
        bytes: &[u8],
    ) -> Result<Option<Whole>, ()> {
        let (offset, total) = (usize::from(word.offset), usize::from(word.total));
        let end = offset + bytes.len();
        if total > LONG_FRAME_BYTES || end > total {
            return Err(());
        }
        let at = match self.partial.iter().position(|p| (p.peer, p.name) == (peer, name)) {
            Some(at) => at,
            None if offset == 0 => self.place(),
            None => return Err(()),
        };
        let partial = &mut self.partial[at];
        if offset == 0 {
            (partial.peer, partial.name, partial.total, partial.filled) = (peer, name, total, 0);
        }
        if partial.filled != offset || partial.total != total {
            return Err(());
        }
        partial.bytes[offset..end].copy_from_slice(bytes);
        partial.filled = end;
        if end < total {
            return Ok(None);
        }
        // Taken out, so that it can be read while this is changed: nothing goes on with it.
        partial.total = 0;
        Ok(Some(Whole { at, total, bytes: core::mem::take(&mut partial.bytes) }))
    }

    /// A whole frame was dealt with: its memory is free for the next.
    pub(crate) fn back(&mut self, whole: Whole) {
        self.partial[whole.at].bytes = whole.bytes;
    }

    /// Where the next frame is put together: in the place of the one that was begun first, if there are too many.
    fn place(&mut self) -> usize {
        if self.partial.len() < ASSEMBLIES_MAX {
            let bytes = vec![0; LONG_FRAME_BYTES].into_boxed_slice();
            self.partial.push(Partial { peer: 0, name: 0, total: 0, filled: 0, bytes });
            return self.partial.len() - 1;
        }
        self.oldest = (self.oldest + 1) % ASSEMBLIES_MAX;
        self.oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(
        assembly: &mut Assembly,
        name: u32,
        at: u16,
        total: u16,
        bytes: &[u8],
    ) -> Result<Option<Vec<u8>>, ()> {
        let whole = assembly.add(7, name, SliceWord { offset: at, total }, bytes)?;
        Ok(whole.map(|whole| {
            let bytes = whole.bytes().to_vec();
            assembly.back(whole);
            bytes
        }))
    }

    #[test]
    fn slices_in_order_make_a_frame() {
        let mut assembly = Assembly::new();
        assert_eq!(add(&mut assembly, 1, 0, 5, b"ab"), Ok(None));
        assert_eq!(add(&mut assembly, 2, 0, 4, b"wx"), Ok(None));
        assert_eq!(add(&mut assembly, 1, 2, 5, b"cde"), Ok(Some(b"abcde".to_vec())));
        assert_eq!(add(&mut assembly, 2, 2, 4, b"yz"), Ok(Some(b"wxyz".to_vec())));
        assert_eq!(add(&mut assembly, 1, 0, 2, b"!!"), Ok(Some(b"!!".to_vec())));
    }

    #[test]
    fn what_does_not_continue_is_refused() {
        let mut assembly = Assembly::new();
        assert_eq!(add(&mut assembly, 1, 2, 5, b"cde"), Err(()));
        assert_eq!(add(&mut assembly, 1, 0, 5, b"ab"), Ok(None));
        assert_eq!(add(&mut assembly, 1, 3, 5, b"de"), Err(()));
        assert_eq!(add(&mut assembly, 1, 2, 6, b"cde"), Err(()));
        assert_eq!(add(&mut assembly, 1, 0, u16::MAX, b"ab"), Err(()));
        assert_eq!(add(&mut assembly, 1, 2, 5, b"cde"), Ok(Some(b"abcde".to_vec())));
        // Nor anything what is whole.
        assert_eq!(add(&mut assembly, 1, 5, 5, b""), Err(()));
    }

    #[test]
    fn a_flood_of_first_slices_takes_bounded_memory() {
        let mut assembly = Assembly::new();
        for name in 0..1000 {
            assert_eq!(add(&mut assembly, name, 0, 100, b"first"), Ok(None));
        }
        assert_eq!(assembly.partial.len(), ASSEMBLIES_MAX);
        assert_eq!(add(&mut assembly, 999, 5, 7, b"!!"), Err(()));
        assert_eq!(add(&mut assembly, 3, 5, 100, b"more"), Err(()));
    }
}
