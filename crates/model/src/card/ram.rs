//! A host's memory as a card reaches it: by physical addresses, and only where pages are pinned (E34 to E38).
//!
//! Programs have virtual addresses; neighbouring virtual pages are scattered over the physical ones, as on a machine that has run for a while.
//! A card that reaches a page which may be swapped out has a fault, which is counted and ends the operation.

use std::cell::Cell;

use emp_firmware::{HostMemory, MemoryFault, Segment};
use emp_wire::Checksum;

/// Bytes of a page on the x86 hosts of all five papers.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// One host's memory.
pub struct HostRam {
    bytes: Vec<u8>,
    pinned: Vec<bool>,
    /// `mlockall` was called: what is allocated from now on is resident, too (E38).
    pins_all: bool,
    next_page: u64,
    /// Runs of memory that the card has written since this was last asked: one DMA transfer each.
    writes: u32,
    faults: Cell<u64>,
}

impl HostRam {
    /// So many pages, a power of two.
    pub fn new(pages: u64) -> Self {
        assert!(pages.is_power_of_two(), "the scattering needs a power of two");
        Self {
            bytes: vec![0; (pages * PAGE_BYTES) as usize],
            pinned: vec![false; pages as usize],
            pins_all: false,
            next_page: 0,
            writes: 0,
            faults: Cell::new(0),
        }
    }

    /// Keeps all pages resident, present and future: `mlockall` (E38).
    pub fn pin_all(&mut self) {
        self.pins_all = true;
        self.pinned.fill(true);
    }

    /// A buffer that begins so many bytes into a page: the physical run of each of its pages (E36).
    ///
    /// # Panics
    /// If memory is exhausted: programs of the models know what they need.
    pub fn buffer(&mut self, bytes: u64, into_page: u64) -> Vec<Segment> {
        let pages = self.pinned.len() as u64;
        let (mut left, mut at) = (bytes, into_page % PAGE_BYTES);
        let mut runs = Vec::new();
        loop {
            assert!(self.next_page < pages, "host memory is exhausted");
            // An odd factor visits every page once.
            let page = self.next_page.wrapping_mul(0x9e5) % pages;
            self.next_page += 1;
            let run = left.min(PAGE_BYTES - at);
            runs.push(Segment { address: page * PAGE_BYTES + at, bytes: run });
            (left, at) = (left - run, 0);
            if left == 0 {
                return runs;
            }
        }
    }

    /// Writes what a program has computed.
    pub fn fill(&mut self, runs: &[Segment], mut content: &[u8]) {
        for run in runs {
            let (now, rest) = content.split_at(content.len().min(run.bytes as usize));
            self.bytes[run.address as usize..][..now.len()].copy_from_slice(now);
            content = rest;
        }
    }

    /// Reads what a program sees.
    pub fn content(&self, runs: &[Segment]) -> Vec<u8> {
        let of = |run: &Segment| &self.bytes[run.address as usize..][..run.bytes as usize];
        runs.iter().flat_map(of).copied().collect()
    }

    /// Times that a card reached a page that is not resident, or is not there.
    pub fn faults(&self) -> u64 {
        self.faults.get()
    }

    pub(crate) fn take_writes(&mut self) -> u32 {
        core::mem::take(&mut self.writes)
    }

    fn place(&self, segment: Segment) -> Result<usize, MemoryFault> {
        let end = segment.address.checked_add(segment.bytes);
        let inside = end.is_some_and(|end| end <= self.bytes.len() as u64);
        let resident = |page: u64| self.pinned.get(page as usize).is_some_and(|pinned| *pinned);
        let last = segment.address + segment.bytes.saturating_sub(1);
        if inside && (segment.address / PAGE_BYTES..=last / PAGE_BYTES).all(resident) {
            return Ok(segment.address as usize);
        }
        self.faults.set(self.faults.get() + 1);
        Err(MemoryFault)
    }
}

impl HostMemory for HostRam {
    fn read(&self, from: Segment, into: &mut [u8]) -> Result<(), MemoryFault> {
        if into.is_empty() {
            return Ok(());
        }
        let at = self.place(from)?;
        into.copy_from_slice(&self.bytes[at..at + into.len()]);
        Ok(())
    }

    fn write(&mut self, to: Segment, from: &[u8]) -> Result<(), MemoryFault> {
        if from.is_empty() {
            return Ok(());
        }
        let at = self.place(to)?;
        self.bytes[at..at + from.len()].copy_from_slice(from);
        self.writes += 1;
        Ok(())
    }

    fn checksum(&self, of: Segment, sum: &mut Checksum) -> Result<(), MemoryFault> {
        if of.bytes > 0 {
            let at = self.place(of)?;
            sum.update(&self.bytes[at..at + of.bytes as usize]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_scattered_and_only_resident_pages_are_reached() {
        let mut ram = HostRam::new(16);
        let runs = ram.buffer(10_000, 100);
        assert_eq!(runs.iter().map(|run| run.bytes).collect::<Vec<_>>(), [3_996, 4_096, 1_908]);
        assert!(runs.windows(2).all(|two| two[0].address + two[0].bytes != two[1].address));
        let mut byte = [0];
        let first = Segment { bytes: 1, ..runs[0] };
        assert!(ram.read(first, &mut byte).is_err(), "it may be swapped out");
        assert_eq!(ram.faults(), 1);
        ram.pin_all();
        ram.fill(&runs, &[7; 10_000]);
        ram.read(first, &mut byte).unwrap();
        assert_eq!(byte, [7]);
        ram.write(first, &[7]).unwrap();
        assert_eq!((ram.take_writes(), ram.take_writes()), (1, 0));
        assert_eq!(ram.content(&runs), [7; 10_000]);
        let beyond = Segment { address: 16 * PAGE_BYTES - 1, bytes: 2 };
        assert!(ram.write(beyond, &[0; 2]).is_err());
    }
}
