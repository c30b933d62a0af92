//! Host memory as the firmware reaches it: the "DMA engine" of a network card, behind a trait.
//!
//! A plain pointer, another process, or a simulated card's host can stand behind [`HostMemory`].

use alloc::boxed::Box;
use arrayvec::ArrayVec;
use emp_wire::{Checksum, LinkAddress};

use crate::limits::SEGMENTS_MAX;
use crate::link::LinkIndex;
use crate::stage::Stage;

/// A run of host memory. What an address means is the [`HostMemory`]'s business.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// Address of the first byte.
    pub address: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl Segment {
    /// The part that starts `offset` bytes in and is `bytes` long, cut to what there is.
    #[must_use]
    pub fn part(self, offset: u64, bytes: u64) -> Self {
        let offset = offset.min(self.bytes);
        Self { address: self.address.wrapping_add(offset), bytes: bytes.min(self.bytes - offset) }
    }
}

/// The host memory named by a descriptor could not be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryFault;

/// Reads and writes host memory. Each call is given a segment within one that was posted.
pub trait HostMemory {
    /// Copies the segment out; `into` is as long as the segment.
    fn read(&self, from: Segment, into: &mut [u8]) -> Result<(), MemoryFault>;
    /// Copies `from` in; it is as long as the segment.
    fn write(&mut self, to: Segment, from: &[u8]) -> Result<(), MemoryFault>;
    /// As [`write`](Self::write), for bytes that a program may be polling: whoever sees the last of them sees all that was
    /// written before, too.
    fn write_last(&mut self, to: Segment, from: &[u8]) -> Result<(), MemoryFault> {
        self.write(to, from)
    }
    /// Takes the segment's bytes into a checksum, without a copy where that can be done.
    fn checksum(&self, of: Segment, sum: &mut Checksum) -> Result<(), MemoryFault>;

    /// As [`read`](Self::read), and takes what was copied into a checksum.
    fn read_and_sum(
        &self,
        from: Segment,
        into: &mut [u8],
        sum: &mut Checksum,
    ) -> Result<(), MemoryFault> {
        self.read(from, into)?;
        sum.update(into);
        Ok(())
    }

    /// As [`write`](Self::write), and takes what was copied into a checksum.
    fn write_and_sum(
        &mut self,
        to: Segment,
        from: &[u8],
        sum: &mut Checksum,
    ) -> Result<(), MemoryFault> {
        self.write(to, from)?;
        sum.update(from);
        Ok(())
    }

    /// A stage of a message's way begins. Returns the one that it interrupts. Who measures has a memory of its own for it; any other
    /// does nothing, and nothing is compiled.
    #[inline(always)]
    fn enter(&self, stage: Stage) -> Stage {
        stage
    }

    /// A stage ends, and the one that it interrupted goes on.
    #[inline(always)]
    fn leave(&self, _outer: Stage) {}

    /// False: frames hold a copy of these bytes instead of naming them, as a link could not read them by itself.
    fn lends(&self, _segment: Segment) -> bool {
        true
    }

    /// A peer on this machine reads this host's memory, if frames to it name it: under this name for the memory's present
    /// state. The name must change, before an operation that failed is told to its owner, so that what its owner does with
    /// the memory then is not taken for the message. `None`: the peer does not.
    fn stamp(&self, _link: LinkIndex, _peer: LinkAddress) -> Option<u64> {
        None
    }

    /// Copies memory of a peer on this machine into this host's, and what comes after that into `rest`. They are as long as
    /// `from`. If it fails, they may hold anything.
    fn fetch(
        &mut self,
        _from: &PeerMemory<'_>,
        _to: &[Segment],
        _rest: &mut [u8],
    ) -> Result<(), FetchError> {
        Err(FetchError::Refused)
    }
}

/// Memory of a peer on this machine, as it names it.
#[derive(Clone, Copy, Debug)]
pub struct PeerMemory<'a> {
    /// The link that the peer is reached over.
    pub link: LinkIndex,
    /// Its address there.
    pub peer: LinkAddress,
    /// Its name for the state of its memory ([`HostMemory::stamp`]).
    pub stamp: u64,
    /// The runs of memory.
    pub pieces: &'a [Segment],
}

/// Why a peer's memory was not copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FetchError {
    /// It cannot be read, or is not what it was any more: the bytes are to be had by frames.
    Refused,
    /// There is no such peer any more.
    Gone,
}

/// Segments kept without a heap allocation. Most messages have one; iovecs of MPI datatypes have a few.
const INLINE: usize = 2;

/// A scatter/gather list (E45): up to [`SEGMENTS_MAX`] segments that together hold a message.
#[derive(Clone, Debug)]
pub struct SegmentList {
    bytes: u64,
    parts: Parts,
}

#[derive(Clone, Debug)]
enum Parts {
    Inline(ArrayVec<Segment, INLINE>),
    Heap(Box<[Segment]>),
}

/// A scatter/gather list has more than [`SEGMENTS_MAX`] segments, or more bytes than 63 bits count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManySegments;

impl SegmentList {
    /// No bytes at all.
    pub fn empty() -> Self {
        Self { bytes: 0, parts: Parts::Inline(ArrayVec::new()) }
    }

    /// One run of memory.
    #[inline(always)]
    pub fn one(segment: Segment) -> Self {
        let mut parts = ArrayVec::new();
        parts.push(segment);
        Self { bytes: segment.bytes, parts: Parts::Inline(parts) }
    }

    /// Several runs, in order. Allocates once if there are more than two.
    pub fn new(segments: &[Segment]) -> Result<Self, TooManySegments> {
        if segments.len() > SEGMENTS_MAX {
            return Err(TooManySegments);
        }
        let mut bytes = 0u64;
        for segment in segments {
            bytes = bytes.checked_add(segment.bytes).ok_or(TooManySegments)?;
        }
        if bytes > i64::MAX as u64 {
            return Err(TooManySegments);
        }
        let parts = match ArrayVec::try_from(segments) {
            Ok(inline) => Parts::Inline(inline),
            Err(_) => Parts::Heap(segments.into()),
        };
        Ok(Self { bytes, parts })
    }

    /// Bytes in all segments together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The segments.
    pub fn as_slice(&self) -> &[Segment] {
        match &self.parts {
            Parts::Inline(parts) => parts,
            Parts::Heap(parts) => parts,
        }
    }

    /// Calls `visit` with each piece of the range `offset .. offset + bytes`, in order, until it fails.
    pub fn range<E>(
        &self,
        mut offset: u64,
        mut bytes: u64,
        mut visit: impl FnMut(Segment) -> Result<(), E>,
    ) -> Result<(), E> {
        for segment in self.as_slice() {
            if bytes == 0 {
                return Ok(());
            }
            if offset >= segment.bytes {
                offset -= segment.bytes;
                continue;
            }
            let piece = segment.part(offset, bytes);
            offset = 0;
            bytes -= piece.bytes;
            visit(piece)?;
        }
        Ok(())
    }

    /// The one segment that holds so many bytes from the beginning: most lists are one, and most copies begin there.
    #[inline(always)]
    fn whole(&self, offset: u64, bytes: usize) -> Option<Segment> {
        let bytes = bytes as u64;
        match &self.parts {
            Parts::Inline(parts) if offset == 0 => match parts.as_slice() {
                [one] if bytes <= one.bytes => Some(Segment { bytes, ..*one }),
                _ => None,
            },
            _ => None,
        }
    }

    /// Copies a range of the list's bytes out.
    #[inline(always)]
    pub fn read(
        &self,
        memory: &impl HostMemory,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), MemoryFault> {
        match self.whole(offset, into.len()) {
            Some(segment) => memory.read(segment, into),
            None => self.read_pieces(memory, offset, into),
        }
    }

    #[inline(never)]
    fn read_pieces(
        &self,
        memory: &impl HostMemory,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), MemoryFault> {
        let mut at = 0usize;
        self.range(offset, into.len() as u64, |piece| {
            let end = at + piece.bytes as usize;
            memory.read(piece, &mut into[at..end])?;
            at = end;
            Ok(())
        })
    }

    /// The same, and takes what was copied into a checksum.
    #[inline]
    pub(crate) fn read_and_sum(
        &self,
        memory: &impl HostMemory,
        offset: u64,
        into: &mut [u8],
        sum: &mut Checksum,
    ) -> Result<(), MemoryFault> {
        let mut at = 0usize;
        self.range(offset, into.len() as u64, |piece| {
            let end = at + piece.bytes as usize;
            memory.read_and_sum(piece, &mut into[at..end], sum)?;
            at = end;
            Ok(())
        })
    }

    /// Copies bytes in at an offset; what lies beyond the list's end is dropped. Returns the bytes that were placed.
    #[inline(always)]
    pub fn write(
        &self,
        memory: &mut impl HostMemory,
        offset: u64,
        from: &[u8],
    ) -> Result<u64, MemoryFault> {
        match self.whole(offset, from.len()) {
            Some(segment) => memory.write(segment, from).map(|()| segment.bytes),
            None => self.write_pieces(memory, offset, from),
        }
    }

    #[inline(never)]
    fn write_pieces(
        &self,
        memory: &mut impl HostMemory,
        offset: u64,
        from: &[u8],
    ) -> Result<u64, MemoryFault> {
        let mut at = 0usize;
        self.range(offset, from.len() as u64, |piece| {
            let end = at + piece.bytes as usize;
            memory.write(piece, &from[at..end])?;
            at = end;
            Ok(())
        })?;
        Ok(at as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn list(lengths: &[u64]) -> SegmentList {
        let segments: Vec<_> = lengths
            .iter()
            .enumerate()
            .map(|(i, bytes)| Segment { address: 1000 * i as u64, bytes: *bytes })
            .collect();
        SegmentList::new(&segments).unwrap()
    }

    #[test]
    fn ranges_cross_segments_and_skip_empty_ones() {
        let list = list(&[3, 0, 4, 2]);
        let mut pieces = Vec::new();
        list.range(2, 6, |piece| {
            pieces.push((piece.address, piece.bytes));
            Ok::<_, ()>(())
        })
        .unwrap();
        assert_eq!(pieces, [(2, 1), (2000, 4), (3000, 1)]);
    }

    #[test]
    fn too_long_lists_are_refused() {
        assert!(SegmentList::new(&[Segment::default(); SEGMENTS_MAX]).is_ok());
        assert!(SegmentList::new(&[Segment::default(); SEGMENTS_MAX + 1]).is_err());
        let huge = Segment { address: 0, bytes: u64::MAX };
        assert!(SegmentList::new(&[huge, huge]).is_err());
    }
}
