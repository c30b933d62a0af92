//! Host memory as plain pointers of this process.
//!
//! # Invariant
//!
//! The address of every [`Segment`] that reaches [`ProcessMemory`] is a pointer of this process, and the whole segment
//! stays valid (for reads if it was posted for sending, for reads and writes if it was posted for receiving) until the
//! firmware has completed the operation and the host has handed that completion out. That of an exported region stays
//! valid, for both, until the region was removed. Segments come from few places, and each keeps it so:
//!
//! - the safe API ([`crate::Endpoint::send`], [`crate::Endpoint::receive`]): the request owns the buffer and gives it
//!   back after the completion ([`crate::buffer`]);
//! - regions of the safe API ([`crate::Region`]): they keep their memory until the firmware has forgotten it;
//! - the raw API ([`crate::Endpoint::post_send_raw`] and its siblings), where the caller has promised it;
//! - windows ([`crate::windows`]), whose addresses are no pointers: they stand for segments that are kept there;
//! - all memory of the process, or of one that the node runs for ([`crate::guarded`]), whose addresses are none either: the kernel copies.
//!
//! All of it is read and written with the node's lock held and at no other time. So is what [`crate::Region::read`] and
//! [`crate::Region::write`] copy, and that is why they and the firmware may use the same bytes.
//!
//! Where the engine is in halves (`crate::turn::halves`) two threads use it under that one lock, one the memory of what is sent, which it reads,
//! and one that of what is received, which it writes, each by a value of this type. No byte is part of both: a buffer of the safe API is one
//! request's, and what a sender may share (`Arc`, `&'static`) nobody can receive into; of the raw API the caller has promised it; and as long as
//! a region is exported, which others read and write, the engine is not taken in halves. Where what is received is copied by yet another thread
//! than the one that takes frames, no byte is written by both at a time ([`crate::memory::placing`]).
//!
//! The firmware itself (safe code) only ever cuts pieces out of posted segments ([`Segment::part`]), and the outgoing
//! stage lets go of a frame that names a segment before it lets go of the completion ([`crate::outgoing`]).

use std::sync::Arc;

use emp_firmware::{FetchError, HostMemory, LinkIndex, MemoryFault, PeerMemory as Peer, Segment};
use emp_link::{PeerMemory, PeerMemoryError};
use emp_wire::{Checksum, LinkAddress};

use crate::memory::copy_sum::copy_and_sum;
use crate::memory::guarded::{self, Whose, is_guarded};
use crate::memory::in_order::copy_in_order;
use crate::memory::pointer::{bytes, pointer};
use crate::memory::windows::{Windows, is_of_window};

/// The "DMA engine" of a node inside a process: copies through pointers.
pub(crate) struct ProcessMemory {
    /// What reads the memory of peers, by link. Private: only [`ProcessMemory::new`] makes one of these, so that the
    /// invariant is accepted in one place.
    peers: Vec<Option<Arc<PeerMemory>>>,
    /// What addresses that are no pointers stand for.
    pub(crate) windows: Windows,
    /// Whose memory guarded addresses name.
    pub(crate) guarded: Whose,
}

impl ProcessMemory {
    /// # Safety
    ///
    /// The caller upholds the module's invariant for all segments that this value will be shown.
    pub(crate) unsafe fn new(peers: Vec<Option<Arc<PeerMemory>>>) -> Self {
        Self { peers, windows: Windows::default(), guarded: Whose::Own }
    }

    fn peer(&self, link: LinkIndex) -> Option<&PeerMemory> {
        self.peers.get(usize::from(link.0))?.as_deref()
    }

    /// As [`read`](HostMemory::read), of what is no pointer.
    #[cold]
    fn read_apart(&self, from: Segment, mut into: &mut [u8]) -> Result<(), MemoryFault> {
        if is_guarded(from) {
            return self.guarded.read(from, into);
        }
        for piece in self.windows.pieces(from).ok_or(MemoryFault)? {
            let (here, rest) = into.split_at_mut(piece.bytes as usize);
            self.read(piece, here)?;
            into = rest;
        }
        Ok(())
    }

    /// As [`write`](HostMemory::write), to what is no pointer.
    #[cold]
    fn write_apart(&mut self, to: Segment, mut from: &[u8]) -> Result<(), MemoryFault> {
        if is_guarded(to) {
            return self.guarded.write(to, from);
        }
        for piece in self.windows.pieces(to).ok_or(MemoryFault)? {
            let (here, rest) = from.split_at(piece.bytes as usize);
            if piece.bytes != 0 {
                // SAFETY: pieces of windows are valid for writes (module invariant), and as long as their parts of `from`.
                unsafe { copy_in_order(here.as_ptr(), pointer(piece), here.len()) };
            }
            from = rest;
        }
        self.windows.arrived(to);
        Ok(())
    }

    /// As [`fetch`](HostMemory::fetch), to where it really goes.
    #[cold]
    fn fetch_apart(
        &mut self,
        from: &Peer<'_>,
        to: &[Segment],
        rest: &mut [u8],
    ) -> Result<(), FetchError> {
        let mut real = Vec::with_capacity(to.len() + 2);
        for part in to {
            if is_of_window(*part) {
                real.extend(self.windows.pieces(*part).ok_or(FetchError::Refused)?);
            } else if is_guarded(*part) && !matches!(self.guarded, Whose::Own) {
                return Err(FetchError::Refused);
            } else {
                // Of guarded memory too: the kernel checks both sides of such a copy.
                real.push(if is_guarded(*part) { guarded::real(*part) } else { *part });
            }
        }
        self.fetch(from, &real, rest)?;
        to.iter().filter(|part| is_of_window(**part)).for_each(|part| self.windows.arrived(*part));
        Ok(())
    }

    /// An operation has failed: what it announced to peers on this machine is its owner's again.
    pub(crate) fn revoke(&self) {
        self.peers.iter().flatten().for_each(|peers| peers.revoke());
    }
}

/// True if the segment's address is no pointer.
#[inline]
pub(crate) const fn is_apart(segment: Segment) -> bool {
    segment.address >> 62 != 0
}

/// Address and length of each segment.
fn runs(segments: &[Segment]) -> impl Iterator<Item = (u64, u64)> {
    segments.iter().map(|segment| (segment.address, segment.bytes))
}

impl HostMemory for ProcessMemory {
    #[inline]
    fn read(&self, from: Segment, into: &mut [u8]) -> Result<(), MemoryFault> {
        if into.len() as u64 != from.bytes {
            return Err(MemoryFault);
        }
        if is_apart(from) {
            return self.read_apart(from, into);
        }
        if from.bytes != 0 {
            // SAFETY: the segment is valid for reads (module invariant) and as long as `into`, which was just checked.
            // `copy` and not `copy_nonoverlapping`: a region's owner may put from it into itself.
            unsafe { std::ptr::copy(pointer(from), into.as_mut_ptr(), into.len()) };
        }
        Ok(())
    }

    #[inline]
    fn write(&mut self, to: Segment, from: &[u8]) -> Result<(), MemoryFault> {
        if from.len() as u64 != to.bytes {
            return Err(MemoryFault);
        }
        if is_apart(to) {
            return self.write_apart(to, from);
        }
        if to.bytes != 0 {
            // SAFETY: the segment was posted for receiving, so it is valid for writes (module invariant), and it is as
            // long as `from`, which was just checked.
            unsafe { std::ptr::copy(from.as_ptr(), pointer(to), from.len()) };
        }
        Ok(())
    }

    #[inline]
    fn write_last(&mut self, to: Segment, from: &[u8]) -> Result<(), MemoryFault> {
        if from.len() as u64 != to.bytes {
            return Err(MemoryFault);
        }
        if is_guarded(to) {
            // The kernel's copy of more than a word has no order.
            let (before, last) = from.split_at(from.len().saturating_sub(size_of::<u64>()));
            self.guarded.write(to.part(0, before.len() as u64), before)?;
            return self.guarded.write(to.part(before.len() as u64, last.len() as u64), last);
        }
        if is_apart(to) {
            return self.write_apart(to, from);
        }
        if to.bytes != 0 {
            // SAFETY: as for `write`; a region's memory is valid for writes until it was removed.
            unsafe { copy_in_order(from.as_ptr(), pointer(to), from.len()) };
        }
        Ok(())
    }

    #[inline]
    fn checksum(&self, of: Segment, sum: &mut Checksum) -> Result<(), MemoryFault> {
        if is_apart(of) {
            // Nothing of a window is sent, nor is either placed before it was summed, and what frames hold is a copy.
            return Err(MemoryFault);
        }
        // SAFETY: the segment is valid for reads (module invariant); the slice lives for this call only, in which
        // nothing of it is written: `&self` excludes `write`, what the other half and who copies for it write is other memory, and senders leave a
        // buffer in flight alone.
        sum.update(unsafe { bytes(of) });
        Ok(())
    }

    #[inline]
    fn read_and_sum(
        &self,
        from: Segment,
        into: &mut [u8],
        sum: &mut Checksum,
    ) -> Result<(), MemoryFault> {
        if is_apart(from) {
            self.read(from, into)?;
            sum.update(into);
            return Ok(());
        }
        if into.len() as u64 != from.bytes {
            return Err(MemoryFault);
        }
        if from.bytes != 0 {
            // SAFETY: the segment is valid for reads (module invariant) and as long as `into`, which was just checked.
            unsafe { copy_and_sum(pointer(from), into.as_mut_ptr(), into.len(), sum) };
        }
        Ok(())
    }

    #[inline]
    fn write_and_sum(
        &mut self,
        to: Segment,
        from: &[u8],
        sum: &mut Checksum,
    ) -> Result<(), MemoryFault> {
        if is_apart(to) {
            self.write(to, from)?;
            sum.update(from);
            return Ok(());
        }
        if from.len() as u64 != to.bytes {
            return Err(MemoryFault);
        }
        if to.bytes != 0 {
            // SAFETY: the segment was posted for receiving, so it is valid for writes (module invariant), and it is as
            // long as `from`, which was just checked. Nobody else uses it: the node's lock is held, references to
            // such memory live only under it, and what another thread copies under it is for other bytes.
            unsafe { copy_and_sum(from.as_ptr(), pointer(to), from.len(), sum) };
        }
        Ok(())
    }

    fn lends(&self, segment: Segment) -> bool {
        !is_apart(segment)
    }

    fn stamp(&self, link: LinkIndex, peer: LinkAddress) -> Option<u64> {
        self.peer(link)?.stamp(&peer)
    }

    fn fetch(
        &mut self,
        from: &Peer<'_>,
        to: &[Segment],
        rest: &mut [u8],
    ) -> Result<(), FetchError> {
        if to.iter().any(|part| is_apart(*part)) {
            return self.fetch_apart(from, to, rest);
        }
        let last = (rest.as_mut_ptr().expose_provenance() as u64, rest.len() as u64);
        let into = runs(to).chain(Some(last).filter(|(_, bytes)| *bytes > 0));
        let peers = self.peer(from.link).ok_or(FetchError::Refused)?;
        // SAFETY: the segments were posted for receiving, so they are valid for writes (module invariant), and nobody else
        // uses them while the node's lock is held, as it is here; or they were guarded, and the kernel finds out. `rest` is ours.
        let read = unsafe { peers.read(&from.peer, from.stamp, runs(from.pieces), into) };
        read.map_err(|error| match error {
            PeerMemoryError::Refused => FetchError::Refused,
            PeerMemoryError::Gone => FetchError::Gone,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(of: &mut [u8]) -> Segment {
        Segment { address: of.as_mut_ptr().expose_provenance() as u64, bytes: of.len() as u64 }
    }

    #[test]
    fn reads_writes_and_sums_what_the_address_names() {
        let mut host = *b"0123456789";
        let all = segment(&mut host);
        // SAFETY: every segment below is part of `host`, which outlives all use.
        let mut memory = unsafe { ProcessMemory::new(Vec::new()) };
        memory.write(all.part(2, 3), b"abc").unwrap();
        let mut back = [0; 4];
        memory.read(all.part(1, 4), &mut back).unwrap();
        assert_eq!(&back, b"1abc");
        let (mut one, mut other) = (Checksum::of(b""), Checksum::of(b""));
        memory.checksum(all, &mut one).unwrap();
        other.update(b"01abc56789");
        assert_eq!(one.value(), other.value());
    }

    #[test]
    fn lengths_that_differ_are_faults() {
        let mut host = [0u8; 4];
        let all = segment(&mut host);
        // SAFETY: as above.
        let mut memory = unsafe { ProcessMemory::new(Vec::new()) };
        assert_eq!(memory.read(all, &mut [0; 3]), Err(MemoryFault));
        assert_eq!(memory.write(all, &[0; 5]), Err(MemoryFault));
    }

    #[test]
    fn empty_segments_touch_nothing() {
        let nowhere = Segment { address: 0, bytes: 0 };
        // SAFETY: no bytes are named.
        let mut memory = unsafe { ProcessMemory::new(Vec::new()) };
        memory.read(nowhere, &mut []).unwrap();
        memory.write(nowhere, &[]).unwrap();
        memory.checksum(nowhere, &mut Checksum::of(b"")).unwrap();
    }
}
