//! What the links over raw Ethernet frames share.

use emp_wire::AddressFamily;

use crate::TxFrame;
use crate::gather::ETHERNET_HEADER_BYTES;

/// How a link makes Ethernet headers, and which frames it can send at all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framing {
    /// This end's address.
    pub(crate) mac: [u8; 6],
    pub(crate) ethertype: u16,
    /// Largest EMP frame in bytes.
    pub(crate) frame_bytes_max: usize,
    pub(crate) parts_max: usize,
}

impl Framing {
    /// The Ethernet header for a frame of `bytes` bytes, or `None` if it can never be sent.
    #[inline]
    pub(crate) fn header(
        &self,
        frame: &TxFrame<'_>,
        bytes: usize,
    ) -> Option<[u8; ETHERNET_HEADER_BYTES]> {
        let fits = (1..=self.frame_bytes_max).contains(&bytes);
        if !fits || frame.parts.len() > self.parts_max {
            return None;
        }
        let to = match frame.to.family() {
            AddressFamily::Mac => frame.to.as_mac()?,
            AddressFamily::Everyone => [0xFF; 6],
            _ => return None,
        };
        Some(self.header_to(to))
    }

    /// The Ethernet header for a frame to `to`.
    #[inline]
    pub(crate) fn header_to(&self, to: [u8; 6]) -> [u8; ETHERNET_HEADER_BYTES] {
        let ([a, b, c, d, e, f], [g, h, i, j, k, l]) = (to, self.mac);
        let [m, n] = self.ethertype.to_be_bytes();
        // All at once: put together in memory it would be read again before it has got there.
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n]
    }
}
