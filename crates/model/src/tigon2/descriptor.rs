//! The descriptors that host and card share (E39 to E47): 640 of 20 bytes in card memory, in three formats.
//!
//! ```text
//! head           0 stat   1 node   2 bytes of the first page, 2   4 tag, 4   8 bytes of the message, 4   12 address, 8
//! continuation   0 address, 8   8 bytes, 2   10 address, 8   18 bytes, 2
//! ```
//! Short: a head (E42). Chained: a head and up to three continuations behind it, seven pages (E43). Long: the head's address is that of a page
//! of addresses in host memory, which the card fetches (E44). Lengths beside addresses gather and scatter (E45). `stat` has the owner (E46).

use emp_firmware::Segment;

use crate::card::PAGE_BYTES;

/// Bytes of a descriptor (E41).
pub(super) const DESCRIPTOR_BYTES: usize = 20;
/// Descriptors of a card, for sends and receives alike (E41).
pub(super) const DESCRIPTORS: usize = 640;
/// Pages of a chained descriptor (E43).
pub(super) const CHAINED_PAGES_MAX: usize = 7;
/// Bytes of an entry of a page of addresses: address and length.
pub(super) const ENTRY_BYTES: usize = 10;
/// Pages of a long one: what the engine's scatter/gather lists take; a page of addresses has room for 409.
pub(super) const LONG_PAGES_MAX: usize = 256;
/// `node` of a receive from anyone.
pub(super) const ANYONE: u8 = 0xff;

const OWNER_CARD: u8 = 0x80;
const IS_RECEIVE: u8 = 0x40;
const FAILED: u8 = 0x20;
const CHAINED: u8 = 1;
const LONG: u8 = 2;

/// A transfer as a descriptor says it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Transfer {
    pub(super) receive: bool,
    /// Index of the other node in the card's table (E48), or [`ANYONE`].
    pub(super) node: u8,
    pub(super) tag: u32,
    pub(super) bytes: u32,
    /// Physical runs, none across a page. Of a long transfer the one run that holds its addresses.
    pub(super) pages: Vec<Segment>,
    pub(super) long: bool,
}

/// The array of descriptors.
pub(super) struct Descriptors {
    memory: Box<[u8; DESCRIPTORS * DESCRIPTOR_BYTES]>,
    /// Descriptors of the chain that begins here; 0: free, or within a chain.
    chain: Box<[u8; DESCRIPTORS]>,
    taken: Box<[bool; DESCRIPTORS]>,
    next: usize,
    pub(super) free: usize,
}

impl Descriptors {
    pub(super) fn new() -> Self {
        Self {
            memory: Box::new([0; DESCRIPTORS * DESCRIPTOR_BYTES]),
            chain: Box::new([0; DESCRIPTORS]),
            taken: Box::new([false; DESCRIPTORS]),
            next: 0,
            free: DESCRIPTORS,
        }
    }

    /// Descriptors that a transfer of so many pages takes.
    pub(super) const fn needed(pages: usize, long: bool) -> usize {
        if long || pages <= 1 { 1 } else { 1 + (pages - 1).div_ceil(2) }
    }

    /// Takes as many in a row as the transfer needs and writes them, owned by the card. `None`: there is no room (exhaustion).
    pub(super) fn post(&mut self, transfer: &Transfer) -> Option<usize> {
        let needed = Self::needed(transfer.pages.len(), transfer.long);
        let at = self.find(needed)?;
        self.next = at + needed;
        self.free -= needed;
        self.chain[at] = needed as u8;
        self.taken[at..at + needed].fill(true);
        let format = if transfer.long { LONG } else { u8::from(needed > 1) * CHAINED };
        let kind = if transfer.receive { IS_RECEIVE } else { 0 };
        let first = transfer.pages.first().copied().unwrap_or_default();
        let head = self.slot(at);
        head[0] = OWNER_CARD | kind | format;
        head[1] = transfer.node;
        head[2..4].copy_from_slice(&(first.bytes as u16).to_le_bytes());
        head[4..8].copy_from_slice(&transfer.tag.to_le_bytes());
        head[8..12].copy_from_slice(&transfer.bytes.to_le_bytes());
        head[12..20].copy_from_slice(&first.address.to_le_bytes());
        for (index, two) in transfer.pages.get(1..).unwrap_or_default().chunks(2).enumerate() {
            let slot = self.slot(at + 1 + index);
            slot.fill(0);
            for (half, page) in two.iter().enumerate() {
                let entry = &mut slot[half * ENTRY_BYTES..][..ENTRY_BYTES];
                entry.copy_from_slice(&entry_of(*page));
            }
        }
        Some(at)
    }

    /// Where so many are free in a row: from where the last search ended, then from the start.
    fn find(&self, needed: usize) -> Option<usize> {
        if self.free < needed {
            return None;
        }
        let free = |at: &usize| !self.taken[*at..at + needed].contains(&true);
        let last = DESCRIPTORS - needed;
        (self.next..=last).find(free).or_else(|| (0..=last.min(self.next)).find(free))
    }

    fn slot(&mut self, at: usize) -> &mut [u8] {
        &mut self.memory[at * DESCRIPTOR_BYTES..][..DESCRIPTOR_BYTES]
    }

    /// What a descriptor says.
    pub(super) fn read(&self, at: usize) -> Transfer {
        let head = &self.memory[at * DESCRIPTOR_BYTES..][..DESCRIPTOR_BYTES];
        let word =
            |from: usize| u32::from_le_bytes(head[from..from + 4].try_into().unwrap_or_default());
        let length = u16::from_le_bytes([head[2], head[3]]);
        let address = u64::from_le_bytes(head[12..20].try_into().unwrap_or_default());
        let mut pages = vec![Segment { address, bytes: length.into() }];
        for index in 1..usize::from(self.chain[at]) {
            let slot = &self.memory[(at + index) * DESCRIPTOR_BYTES..][..DESCRIPTOR_BYTES];
            pages.extend(
                slot.chunks_exact(ENTRY_BYTES).map(read_entry).filter(|page| page.bytes > 0),
            );
        }
        Transfer {
            receive: head[0] & IS_RECEIVE != 0,
            node: head[1],
            tag: word(4),
            bytes: word(8),
            pages,
            long: head[0] & LONG != 0,
        }
    }

    /// The card gives it back to the host, with the bytes that were transferred (E46).
    pub(super) fn complete(&mut self, at: usize, bytes: u32, ok: bool) {
        let head = self.slot(at);
        head[0] = head[0] & !(OWNER_CARD | FAILED) | if ok { 0 } else { FAILED };
        head[8..12].copy_from_slice(&bytes.to_le_bytes());
    }

    /// What the host's poll reads: `None` while it is the card's; else whether all is well, and the bytes.
    pub(super) fn poll(&self, at: usize) -> Option<(bool, u32)> {
        let head = &self.memory[at * DESCRIPTOR_BYTES..][..DESCRIPTOR_BYTES];
        let bytes = u32::from_le_bytes(head[8..12].try_into().unwrap_or_default());
        (head[0] & OWNER_CARD == 0).then_some((head[0] & FAILED == 0, bytes))
    }

    /// The host uses it no more.
    pub(super) fn release(&mut self, at: usize) {
        let needed = usize::from(core::mem::take(&mut self.chain[at]));
        self.taken[at..at + needed].fill(false);
        self.free += needed;
    }
}

/// An address with its length, as continuations and pages of addresses have it. A whole page's length fits: it is below 2^16.
pub(super) fn entry_of(page: Segment) -> [u8; ENTRY_BYTES] {
    debug_assert!(page.bytes <= PAGE_BYTES);
    let mut entry = [0; ENTRY_BYTES];
    entry[..8].copy_from_slice(&page.address.to_le_bytes());
    entry[8..].copy_from_slice(&(page.bytes as u16).to_le_bytes());
    entry
}

pub(super) fn read_entry(entry: &[u8]) -> Segment {
    let address = u64::from_le_bytes(entry[..8].try_into().unwrap_or_default());
    Segment { address, bytes: u16::from_le_bytes([entry[8], entry[9]]).into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(pages: usize) -> Transfer {
        let page = |i: usize| Segment { address: 0x1_0000_0000 + i as u64 * 8192, bytes: 4096 };
        Transfer {
            receive: pages.is_multiple_of(2),
            node: 3,
            tag: 77,
            bytes: pages as u32 * 4096,
            pages: (0..pages).map(page).collect(),
            long: false,
        }
    }

    #[test]
    fn each_format_is_read_as_it_was_written() {
        let mut all = Descriptors::new();
        for pages in 1..=CHAINED_PAGES_MAX {
            let at = all.post(&transfer(pages)).unwrap();
            assert_eq!(all.read(at), transfer(pages));
        }
        let long = Transfer { long: true, ..transfer(1) };
        let at = all.post(&long).unwrap();
        assert_eq!(all.read(at), long);
        // Four descriptors hold seven pages (E43).
        assert_eq!((Descriptors::needed(7, false), Descriptors::needed(8, false)), (4, 5));
    }

    #[test]
    fn a_descriptor_has_one_owner_and_the_array_can_be_exhausted() {
        let mut all = Descriptors::new();
        let at: Vec<_> = std::iter::from_fn(|| all.post(&transfer(7))).collect();
        assert_eq!((at.len(), all.free), (DESCRIPTORS / 4, 0));
        assert_eq!(all.post(&transfer(1)), None);
        assert_eq!(all.poll(at[5]), None, "the card's");
        all.complete(at[5], 9, true);
        assert_eq!(all.poll(at[5]), Some((true, 9)));
        all.release(at[5]);
        assert_eq!(all.free, 4);
        assert_eq!(all.post(&transfer(6)), Some(at[5]));
    }
}
