//! Frames from a link into the firmware, and the memory that trains land in.
//!
//! # Invariant
//!
//! A [`Landing`](emp_firmware::Landing) names a part of a buffer that was posted for receiving and whose completion the
//! firmware has not given out, so it is valid ([`crate::memory`]). The link has it for the time of one call, in which nothing
//! else of the node runs: the lock is held, and the firmware is not called before the link gives it back.

use std::time::Duration;

use emp_firmware::{Arriving, Firmware, Landing, LinkIndex, Span, Time};
use emp_link::{FrameSink, Head, LinkAddress, Train};

use crate::links::capture;
use crate::machine::clock;
use crate::memory::pointer;
use crate::memory::process::ProcessMemory;

/// Takes what one link receives in one turn.
pub(crate) struct Incoming<'a> {
    pub(crate) firmware: &'a mut Firmware,
    pub(crate) memory: &'a mut ProcessMemory,
    pub(crate) now: Time,
    pub(crate) link: LinkIndex,
    pub(crate) landing: Option<Landing>,
    pub(crate) unseen: Unseen,
}

/// For how long what comes had been here before it was seen (`ACK-8`).
#[derive(Clone, Copy)]
pub(crate) struct Unseen {
    /// Nobody has looked for so long: no frame can have waited longer.
    most: Span,
    /// What the firmware is told of the frames that follow.
    pub(crate) told: Span,
}

impl Unseen {
    /// Less than that is noise beside what windows take for a queue (`WINDOW-2`), and not worth asking links for.
    const LEAST: Span = Span::us(50);

    /// Nobody has looked for so long. Links that know how long a frame waited tell less.
    #[inline]
    pub(crate) fn for_at_most(most: Span) -> Self {
        let most = if most >= Self::LEAST { most } else { Span(0) };
        Self { most, told: most }
    }

    /// The link says of what follows that it has waited for so long. It cannot have come before the last look.
    fn waited(&mut self, time: Span) {
        self.told = Self::for_at_most(time.min(self.most)).told;
    }
}

impl FrameSink for Incoming<'_> {
    #[inline]
    fn frame(&mut self, frame: &[u8], from: &LinkAddress) {
        self.firmware.handle_frame(self.now, self.link, *from, frame, self.memory);
    }

    fn judge(&mut self, frame: &[u8], from: &LinkAddress, verdict: &mut String) {
        let before = self.firmware.counters();
        self.frame(frame, from);
        capture::add_verdict(verdict, &before, &self.firmware.counters());
    }

    fn asks_what_waited(&self) -> bool {
        self.unseen.most != Span(0)
    }

    fn waited(&mut self, time: Duration) {
        self.unseen.waited(clock::span(time));
        self.firmware.set_unseen(self.unseen.told);
    }

    fn marked(&mut self, marked: bool) {
        self.firmware.set_marked(marked);
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
        Some(unsafe { pointer::bytes_mut(landing.memory()) })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_is_seen_at_once_after_a_sleep_has_not_waited() {
        let mut unseen = Unseen::for_at_most(Span::ms(3));
        assert_eq!(unseen.told, Span::ms(3), "a link without stamps");
        for (waited, told) in [(7, 0), (49, 0), (700, 700), (9_000, 3_000)] {
            unseen.waited(Span::us(waited));
            assert_eq!(unseen.told, Span::us(told), "{waited} us");
        }
        let looked = Unseen::for_at_most(Span::us(20));
        assert_eq!((looked.most, looked.told), (Span(0), Span(0)));
    }
}
