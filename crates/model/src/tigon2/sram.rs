//! What the card's 512 KB of memory hold (E9, E13).

use super::descriptor::{DESCRIPTOR_BYTES, DESCRIPTORS};

/// Bytes of the cards used (E9).
pub(super) const SRAM_BYTES: usize = 512 << 10;
/// Firmware and its tables: 12,000 lines of C (E16) come to about this.
const FIRMWARE_BYTES: usize = 160 << 10;
/// A frame's buffer: 1500 bytes, Ethernet's header, and the MAC's descriptor.
const FRAME_BUFFER_BYTES: usize = 1_536;
/// Buffers for frames on their way out: those that DMA fetches while others leave.
pub(super) const SEND_BUFFERS: usize = 32;
/// All the rest receives.
pub(super) const RECEIVE_BUFFERS: usize = (SRAM_BYTES
    - FIRMWARE_BYTES
    - DESCRIPTORS * DESCRIPTOR_BYTES
    - SEND_BUFFERS * FRAME_BUFFER_BYTES)
    / FRAME_BUFFER_BYTES;

const _: () = assert!(RECEIVE_BUFFERS > 128 && SRAM_BYTES / (4 << 10) == 128);

/// Frames in the card's receive buffers.
#[derive(Debug, Default)]
pub(super) struct ReceiveBuffers {
    held: usize,
    /// Most that were held.
    pub(super) peak: usize,
    /// Frames that found none free.
    pub(super) dropped: u64,
}

impl ReceiveBuffers {
    /// A frame arrives. False: it is lost.
    pub(super) fn take(&mut self) -> bool {
        if self.held == RECEIVE_BUFFERS {
            self.dropped += 1;
            return false;
        }
        self.held += 1;
        self.peak = self.peak.max(self.held);
        true
    }

    /// One is free again.
    pub(super) fn free(&mut self) {
        self.held -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_holds_so_many_frames_and_no_more() {
        let mut buffers = ReceiveBuffers::default();
        assert_eq!((0..RECEIVE_BUFFERS + 3).filter(|_| buffers.take()).count(), RECEIVE_BUFFERS);
        assert_eq!((buffers.dropped, buffers.peak), (3, RECEIVE_BUFFERS));
        buffers.free();
        assert!(buffers.take());
    }
}
