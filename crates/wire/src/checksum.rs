//! CRC32C over identity, header and payload (`CRC-1`): what the Ethernet FCS cannot see, corruption inside hosts and
//! frames that reached the wrong node or incarnation, ends here.

use crc_fast::{CrcAlgorithm, Digest};

use crate::{Epoch, NodeId};

/// A CRC32C computation under way.
///
/// Started from a *pseudo-header* that both ends know and the wire does not carry: full destination and source
/// identity and the destination's epoch (`CRC-2`). A frame that misses its node by an equal 16-bit tag fails here.
#[derive(Clone, Copy)]
pub struct Checksum {
    state: u64,
}

impl Checksum {
    /// For frames between two nodes that may not know each other yet (hello and its reply).
    pub const fn contact() -> Self {
        Self { state: 0xFFFF_FFFF }
    }

    /// For all other frames. Worth keeping per peer: it is the same for every frame of a pair.
    pub fn between(source: NodeId, destination: NodeId, destination_epoch: Epoch) -> Self {
        let mut pseudo = [0u8; 20];
        pseudo[..8].copy_from_slice(&destination.0.to_be_bytes());
        pseudo[8..16].copy_from_slice(&source.0.to_be_bytes());
        pseudo[16..].copy_from_slice(&destination_epoch.0.to_be_bytes());
        let mut sum = Self::contact();
        sum.update(&pseudo);
        sum
    }

    /// The computation as 32 bits, to be kept and [`resume`](Self::resume)d.
    pub const fn suspend(self) -> u32 {
        self.state as u32
    }

    /// Goes on where [`suspend`](Self::suspend) was called.
    pub const fn resume(state: u32) -> Self {
        Self { state: state as u64 }
    }

    /// Takes in more bytes.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, self.state);
        digest.update(bytes);
        self.state = digest.get_state();
    }

    /// The checksum of all bytes taken in.
    #[inline]
    pub const fn value(&self) -> u32 {
        !self.state as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_published_check_value() {
        let mut sum = Checksum::contact();
        sum.update(b"123456789");
        assert_eq!(sum.value(), 0xE306_9283);
    }

    #[test]
    fn parts_equal_the_whole() {
        let bytes: std::vec::Vec<u8> = (0..2000u32).map(|i| (i * 7) as u8).collect();
        let mut whole = Checksum::contact();
        whole.update(&bytes);
        for cut in [0, 1, 15, 16, 28, 255, 256, 257, 1999, 2000] {
            let mut parts = Checksum::contact();
            parts.update(&bytes[..cut]);
            parts.update(&bytes[cut..]);
            assert_eq!(parts.value(), whole.value(), "cut at {cut}");
        }
    }

    #[test]
    fn identity_and_epoch_are_covered() {
        let (a, b) = (NodeId(1), NodeId(2));
        let base = Checksum::between(a, b, Epoch(5)).value();
        assert_ne!(base, Checksum::between(b, a, Epoch(5)).value());
        assert_ne!(base, Checksum::between(a, b, Epoch(0x1_0005)).value());
    }
}
