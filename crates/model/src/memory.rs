//! A simulated host's memory, which watches the firmware's hands.
//!
//! Every buffer is an allocation of its own with unused addresses around it. The firmware may touch exactly the segments
//! that are posted, and only in the posted direction: anything else is a violation that fails the run, even where the
//! firmware then behaves as if nothing had happened.

use core::cell::RefCell;
use std::collections::BTreeMap;

use emp_firmware::{HostMemory, MemoryFault, Segment, SegmentList};
use emp_wire::Checksum;

/// Unused addresses after each buffer and between its segments, in bytes.
const GAP_BYTES: u64 = 64;

/// What the firmware may do with a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Read it: it is being sent.
    Read,
    /// Write it: a receive is posted.
    Write,
    /// Both: it is exported.
    Both,
}

/// A buffer that is posted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BufferId(u64);

struct Piece {
    buffer: BufferId,
    access: Access,
    bytes: Box<[u8]>,
}

/// The memory of one simulated host.
pub struct SimMemory {
    /// Posted segments by address. Only what is posted exists.
    pieces: BTreeMap<u64, Piece>,
    next: u64,
    /// What is posted for writing may be read back: links put payload there, and the firmware looks whether it is right.
    reads_back: bool,
    violation: RefCell<Option<String>>,
}

impl Default for SimMemory {
    fn default() -> Self {
        Self::new()
    }
}

impl SimMemory {
    /// Memory in which nothing is posted.
    pub fn new() -> Self {
        Self {
            pieces: BTreeMap::new(),
            next: 1 << 20,
            reads_back: false,
            violation: RefCell::new(None),
        }
    }

    /// Lets the firmware read what is posted for writing, as it must where links put payload there.
    pub fn read_back(&mut self) {
        self.reads_back = true;
    }

    /// Makes a buffer of these pieces. What it holds is `fill`, cut into the pieces in order; the rest is 0xA5.
    ///
    /// # Panics
    /// If there are more pieces than a segment list takes.
    pub fn post(
        &mut self,
        piece_bytes: &[u64],
        access: Access,
        mut fill: &[u8],
    ) -> (BufferId, SegmentList) {
        let buffer = BufferId(self.next);
        let mut segments = Vec::with_capacity(piece_bytes.len());
        for &bytes in piece_bytes {
            let mut content = vec![0xA5u8; bytes as usize].into_boxed_slice();
            let filled = content.len().min(fill.len());
            content[..filled].copy_from_slice(&fill[..filled]);
            fill = &fill[filled..];
            segments.push(Segment { address: self.next, bytes });
            self.pieces.insert(self.next, Piece { buffer, access, bytes: content });
            self.next += bytes + GAP_BYTES;
        }
        self.next += GAP_BYTES;
        let list = SegmentList::new(&segments).expect("few segments");
        (buffer, list)
    }

    /// What a posted buffer holds, its pieces joined.
    pub fn content(&self, buffer: BufferId) -> Vec<u8> {
        let mut all = Vec::new();
        for (_, piece) in self.of(buffer) {
            all.extend_from_slice(&piece.bytes);
        }
        all
    }

    /// What is at an address of a posted buffer; nothing, if that is not within one piece.
    pub fn peek(&self, address: u64, bytes: u64) -> Vec<u8> {
        let found = self.pieces.range(..=address).next_back();
        let within = found.and_then(|(start, piece)| {
            let at = (address - start) as usize;
            piece.bytes.get(at..at + bytes as usize)
        });
        within.map(<[u8]>::to_vec).unwrap_or_default()
    }

    /// Takes a buffer back: the firmware may not touch it any more.
    pub fn release(&mut self, buffer: BufferId) {
        let addresses: Vec<u64> = self.of(buffer).map(|(address, _)| *address).collect();
        for address in addresses {
            self.pieces.remove(&address);
        }
    }

    /// Buffers' pieces that are posted.
    pub fn posted(&self) -> usize {
        self.pieces.len()
    }

    /// The first thing the firmware did that it must not.
    pub fn violation(&self) -> Option<String> {
        self.violation.borrow().clone()
    }

    fn of(&self, buffer: BufferId) -> impl Iterator<Item = (&u64, &Piece)> {
        self.pieces.range(buffer.0..).take_while(move |(_, piece)| piece.buffer == buffer)
    }

    /// The piece that holds `segment`, and where in it; a violation if there is none with this access.
    fn find(&self, segment: Segment, access: Access) -> Result<(u64, usize), MemoryFault> {
        let found = self.pieces.range(..=segment.address).next_back();
        if let Some((start, piece)) = found {
            let at = segment.address - start;
            let inside =
                at.checked_add(segment.bytes).is_some_and(|end| end <= piece.bytes.len() as u64);
            let back = self.reads_back && access == Access::Read;
            if inside && (piece.access == access || piece.access == Access::Both || back) {
                return Ok((*start, at as usize));
            }
        }
        if segment.bytes == 0 {
            // Nothing is touched; an empty segment may be asked for anywhere.
            return Err(MemoryFault);
        }
        self.violation.borrow_mut().get_or_insert_with(|| {
            let verb = if access == Access::Read { "read" } else { "wrote" };
            format!(
                "firmware {verb} {} bytes at {:#x}, which is not posted for that",
                segment.bytes, segment.address
            )
        });
        Err(MemoryFault)
    }
}

/// Shorter runs are copied at once there, unless they are for bytes of which a copy is still to be made.
const COPIED_LATER_MIN: usize = 512;

/// A memory to which what is written is copied later, by another processor than the one that says what belongs where (boards `split:RO`,
/// `split:SR`).
pub(crate) struct Placing<'a> {
    pub(crate) memory: &'a mut SimMemory,
    pub(crate) copies: &'a mut Vec<(Segment, Vec<u8>)>,
}

impl HostMemory for Placing<'_> {
    fn read(&self, from: Segment, into: &mut [u8]) -> Result<(), MemoryFault> {
        self.memory.read(from, into)
    }

    fn write(&mut self, to: Segment, from: &[u8]) -> Result<(), MemoryFault> {
        let meets = |other: Segment| {
            to.address < other.address + other.bytes && other.address < to.address + to.bytes
        };
        if from.len() < COPIED_LATER_MIN && !self.copies.iter().any(|(other, _)| meets(*other)) {
            return self.memory.write(to, from);
        }
        self.memory.find(to, Access::Write)?;
        self.copies.push((to, from.to_vec()));
        Ok(())
    }

    fn checksum(&self, of: Segment, sum: &mut Checksum) -> Result<(), MemoryFault> {
        self.memory.checksum(of, sum)
    }
}

impl HostMemory for SimMemory {
    fn read(&self, from: Segment, into: &mut [u8]) -> Result<(), MemoryFault> {
        if from.bytes == 0 {
            return Ok(());
        }
        let (start, at) = self.find(from, Access::Read)?;
        into.copy_from_slice(&self.pieces[&start].bytes[at..at + into.len()]);
        Ok(())
    }

    fn write(&mut self, to: Segment, from: &[u8]) -> Result<(), MemoryFault> {
        if to.bytes == 0 {
            return Ok(());
        }
        let (start, at) = self.find(to, Access::Write)?;
        let piece = self.pieces.get_mut(&start).ok_or(MemoryFault)?;
        piece.bytes[at..at + from.len()].copy_from_slice(from);
        Ok(())
    }

    fn checksum(&self, of: Segment, sum: &mut Checksum) -> Result<(), MemoryFault> {
        if of.bytes == 0 {
            return Ok(());
        }
        let (start, at) = self.find(of, Access::Read)?;
        sum.update(&self.pieces[&start].bytes[at..at + of.bytes as usize]);
        Ok(())
    }
}

/// The bytes of a message: any byte can be recomputed from the message's number and the byte's place, so that the
/// simulator keeps no copy of what was sent.
pub fn payload(message: u64, bytes: u64) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes as usize + 8);
    let mut word = crate::prng::mix(message);
    while (all.len() as u64) < bytes {
        word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ message;
        all.extend_from_slice(&word.to_le_bytes());
        word = word.wrapping_add(all.len() as u64);
    }
    all.truncate(bytes as usize);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_posted_segments_can_be_touched_and_only_as_posted() {
        let mut memory = SimMemory::new();
        let (buffer, list) = memory.post(&[4, 0, 4], Access::Write, &[]);
        assert_eq!(list.bytes(), 8);
        list.write(&mut memory, 2, &[1, 2, 3, 4]).unwrap();
        assert_eq!(memory.content(buffer), [0xA5, 0xA5, 1, 2, 3, 4, 0xA5, 0xA5]);
        assert_eq!(memory.violation(), None);

        let first = list.as_slice()[0];
        assert!(memory.read(first, &mut [0; 4]).is_err(), "posted for writing only");
        assert!(memory.violation().is_some());

        let mut memory = SimMemory::new();
        let (_, list) = memory.post(&[4], Access::Write, &[]);
        let mut past = list.as_slice()[0];
        past.bytes = 5;
        assert!(memory.write(past, &[0; 5]).is_err(), "one byte too many");
        assert!(memory.violation().is_some());
    }

    #[test]
    fn a_released_buffer_is_gone() {
        let mut memory = SimMemory::new();
        let (first, list) = memory.post(&[3], Access::Read, &[7, 8, 9]);
        let (_, other) = memory.post(&[1], Access::Read, &[5]);
        memory.release(first);
        assert!(memory.read(list.as_slice()[0], &mut [0; 3]).is_err());
        let mut byte = [0];
        assert!(memory.read(other.as_slice()[0], &mut byte).is_ok());
        assert_eq!(byte, [5]);
    }

    #[test]
    fn payloads_differ_between_messages_and_have_common_prefixes_for_common_numbers() {
        assert_ne!(payload(1, 64), payload(2, 64));
        assert_eq!(payload(1, 64)[..13], payload(1, 13));
        assert!(payload(9, 0).is_empty());
    }
}
