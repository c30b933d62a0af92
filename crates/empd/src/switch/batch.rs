//! Frames that are about to leave, each in memory of the switch's own: what clients change after it was read does not matter.

use std::io::IoSlice;

use emp_link::service::channel::{ADDRESS_BYTES, RECORD_BYTES_MAX};
use emp_link::{Link, LinkAddress, TxFrame};

/// Frames at once: what one call of a raw link takes.
const FRAMES_MAX: usize = 64;

/// The frames.
pub(super) struct Batch {
    /// As they were read, with what stands before them; one more than are taken, for the next to be read into.
    buffers: Vec<Box<[u8]>>,
    taken: Vec<(LinkAddress, usize)>,
    sent: usize,
}

impl Default for Batch {
    fn default() -> Self {
        let buffer = || vec![0; RECORD_BYTES_MAX].into();
        let buffers = (0..=FRAMES_MAX).map(|_| buffer()).collect();
        Self { buffers, taken: Vec::with_capacity(FRAMES_MAX), sent: 0 }
    }
}

impl Batch {
    /// Where the next record may be read to.
    #[inline]
    pub(super) fn free(&mut self) -> &mut [u8] {
        &mut self.buffers[self.taken.len()]
    }

    /// The frame of so many bytes that was read there is to go to `to`.
    #[inline]
    pub(super) fn take(&mut self, to: LinkAddress, bytes: usize) {
        self.taken.push((to, bytes));
    }

    /// The frame that was taken last.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub(super) fn last(&self) -> &[u8] {
        let at = self.taken.len() - 1;
        frame(&self.buffers[at], self.taken[at].1)
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.taken.len() == FRAMES_MAX
    }

    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        self.sent < self.taken.len()
    }

    pub(super) const fn sent(&self) -> usize {
        self.sent
    }

    /// Sends what has not been sent yet. True if all is.
    #[inline]
    pub(super) fn send<L: Link + ?Sized>(&mut self, link: &mut L) -> bool {
        let Self { buffers, taken, sent } = self;
        if let [(to, bytes)] = taken[*sent..] {
            let parts = [IoSlice::new(frame(&buffers[*sent], bytes))];
            *sent += link.send(&[TxFrame { to, parts: &parts }]);
        } else {
            let waiting = taken[*sent..].iter().zip(&buffers[*sent..]);
            let parts: Vec<[IoSlice<'_>; 1]> =
                waiting.map(|((_, bytes), buffer)| [IoSlice::new(frame(buffer, *bytes))]).collect();
            let frames = taken[*sent..].iter().zip(&parts);
            let frames: Vec<TxFrame<'_>> =
                frames.map(|((to, _), parts)| TxFrame { to: *to, parts }).collect();
            *sent += link.send(&frames);
        }
        !self.is_pending()
    }

    /// All that was taken is sent.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.taken.clear();
        self.sent = 0;
    }
}

#[inline]
fn frame(buffer: &[u8], bytes: usize) -> &[u8] {
    &buffer[ADDRESS_BYTES..ADDRESS_BYTES + bytes]
}
