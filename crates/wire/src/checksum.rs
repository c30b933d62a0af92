//! CRC32C over identity, header and payload (`CRC-1`): what the Ethernet FCS cannot see, corruption inside hosts and
//! frames that reached the wrong node or incarnation, ends here.

use crc_fast::{CrcAlgorithm, Digest};

use crate::{Epoch, HEADER_BYTES, NodeId};

/// What stands in the checksum field while a frame's checksum is computed (`CRC-2`).
///
/// It is the checksum of a *pseudo-header* that both ends know and the wire does not carry: full destination and source
/// identity and the destination's epoch. A frame that misses its node by an equal 16-bit tag fails here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seed(pub u32);

impl Seed {
    /// For frames between two nodes that may not know each other yet (hello and its reply).
    pub const CONTACT: Self = Self(0);

    /// For all other frames. Worth keeping per peer: it is the same for every frame of a pair.
    pub fn between(source: NodeId, destination: NodeId, destination_epoch: Epoch) -> Self {
        let mut pseudo = [0u8; 20];
        pseudo[..8].copy_from_slice(&destination.0.to_be_bytes());
        pseudo[8..16].copy_from_slice(&source.0.to_be_bytes());
        pseudo[16..].copy_from_slice(&destination_epoch.0.to_be_bytes());
        Self(crc_fast::crc32_iscsi(&pseudo))
    }
}

/// A CRC32C computation under way.
#[derive(Clone, Copy)]
pub struct Checksum {
    state: u32,
}

impl Checksum {
    /// Begins with these bytes.
    #[inline]
    pub fn of(bytes: &[u8]) -> Self {
        Self { state: !crc_fast::crc32_iscsi(bytes) }
    }

    /// Begins with these words, first byte lowest, and then these bytes, which are few.
    #[inline(always)]
    pub(crate) fn of_short(head: [u64; 4], bytes: &[u8]) -> Self {
        match emp_sum::short_after(u32::MAX, head, bytes) {
            Some(state) => Self { state },
            None => {
                let mut first = [0; HEADER_BYTES];
                let (places, _) = first.as_chunks_mut::<8>();
                places.iter_mut().zip(head).for_each(|(place, word)| *place = word.to_le_bytes());
                let mut sum = Self::of(&first);
                sum.update_long(bytes);
                sum
            }
        }
    }

    /// Takes in more bytes.
    #[inline(always)]
    pub fn update(&mut self, bytes: &[u8]) {
        match emp_sum::short(self.state, bytes) {
            Some(state) => self.state = state,
            None => self.update_long(bytes),
        }
    }

    fn update_long(&mut self, bytes: &[u8]) {
        let state = u64::from(self.state);
        let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, state);
        digest.update(bytes);
        self.state = digest.get_state() as u32;
    }

    /// What is to be carried on by whoever takes in bytes by other means, for example while copying them: the register of the
    /// CRC, before its last inversion.
    #[inline]
    pub const fn state(&self) -> u32 {
        self.state
    }

    /// A computation whose [`state`](Self::state) is this.
    #[inline]
    pub const fn from_state(state: u32) -> Self {
        Self { state }
    }

    /// The checksum of all bytes taken in.
    #[inline]
    pub const fn value(&self) -> u32 {
        !self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_check_value() {
        assert_eq!(Checksum::of(b"123456789").value(), 0xE306_9283);
    }

    #[test]
    fn parts_equal_the_whole() {
        let bytes: std::vec::Vec<u8> = (0..2000u32).map(|i| (i * 7) as u8).collect();
        let whole = Checksum::of(&bytes);
        for cut in [0, 1, 15, 16, 28, 255, 256, 257, 1999, 2000] {
            let mut parts = Checksum::of(&bytes[..cut]);
            parts.update(&bytes[cut..]);
            assert_eq!(parts.value(), whole.value(), "cut at {cut}");
        }
    }

    #[test]
    fn a_sum_is_carried_on_from_its_state() {
        let mut carried = Checksum::from_state(Checksum::of(b"12345").state());
        carried.update(b"6789");
        assert_eq!(carried.value(), 0xE306_9283);
    }

    #[test]
    fn identity_and_epoch_are_covered() {
        let (a, b) = (NodeId(1), NodeId(2));
        let base = Seed::between(a, b, Epoch(5));
        assert_ne!(base, Seed::between(b, a, Epoch(5)));
        assert_ne!(base, Seed::between(a, b, Epoch(0x1_0005)));
    }
}
