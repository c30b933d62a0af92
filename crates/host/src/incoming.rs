//! Frames from a link into the firmware, and the memory that trains land in.
//!
//! # Invariant
//!
//! A [`Landing`](emp_firmware::Landing) names a part of a buffer that was posted for receiving and whose completion the
//! firmware has not given out, so it is valid ([`crate::memory`]). The link has it for the time of one call, in which nothing
//! else of the node runs: the lock is held, and the firmware is not called before the link gives it back.

use emp_firmware::{Arriving, Firmware, Landing, LinkIndex, Time};
use emp_link::{FrameSink, Head, LinkAddress, Train};

use crate::memory::{self, ProcessMemory};

/// Takes what one link receives in one turn.
pub(crate) struct Incoming<'a> {
    pub(crate) firmware: &'a mut Firmware,
    pub(crate) memory: &'a mut ProcessMemory,
    pub(crate) now: Time,
    pub(crate) link: LinkIndex,
    pub(crate) landing: Option<Landing>,
}

impl FrameSink for Incoming<'_> {
    #[inline]
    fn frame(&mut self, frame: &[u8], from: &LinkAddress) {
        self.firmware.handle_frame(self.now, self.link, *from, frame, self.memory);
    }

    #[inline]
    fn train(&mut self, train: &[u8], frame_bytes: usize, from: &LinkAddress) -> usize {
        let from = (self.link, *from);
        self.firmware.handle_train(self.now, from, train, frame_bytes, self.memory)
    }

    #[inline]
    fn lands(&self) -> bool {
        self.firmware.expects_landing()
    }

    fn landing(&mut self, train: &Train) -> Option<&mut [u8]> {
        let Train { from, ref head, frame_bytes, bytes } = *train;
        if !Firmware::is_worth_placing(frame_bytes) {
            return None;
        }
        let arriving = Arriving { link: self.link, from, head, frame_bytes, bytes };
        let landing = self.firmware.plan_landing(&arriving)?;
        self.landing = Some(landing);
        // SAFETY: see the module's invariant. The slice borrows `self`, so neither firmware nor memory can be reached
        // while it lives.
        Some(unsafe { memory::bytes_mut(landing.memory()) })
    }

    fn landed(&mut self, _train: &Train, heads: &[Head]) {
        if let Some(landing) = self.landing.take() {
            self.firmware.take_landed(self.now, &landing, heads, self.memory);
        }
    }

    fn following(&mut self, head: &Head) -> Option<usize> {
        self.firmware.following(head)
    }
}
