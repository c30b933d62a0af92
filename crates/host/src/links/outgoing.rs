//! Frames on their way from the firmware's batch to the links: gathering without copying or allocating.
//!
//! # Invariant
//!
//! A frame of the batch may name host memory ([`crate::memory`]). It is read only inside [`Offers::offer`],
//! [`Offers::depart`] and [`Outgoing::keep_lent`], and only of frames whose bit in `unsent` is set. The owner of an
//! [`Outgoing`] hands the completion of a send whose memory a frame may name out only when [`Outgoing::names_memory`] is false; so
//! memory that a frame names is still there when the frame is offered again. A send that is over with its post is none of these: its
//! frame has its bytes, or is gone.

use std::io::IoSlice;
use std::mem::MaybeUninit;

use emp_firmware::limits::FRAME_SEGMENTS_MAX;
use emp_firmware::{Span, Time, TransmitBatch, TransmitFrame};
use emp_link::{Link, TxFrame};

use crate::memory::pointer;
use crate::memory::process::ProcessMemory;

/// Parts of one frame: its inline bytes and its segments.
pub(crate) const FRAME_PARTS_MAX: usize = 1 + FRAME_SEGMENTS_MAX;

/// Frames of one batch; each has a bit of a mask.
const FRAMES: usize = TransmitBatch::FRAMES_MAX;
const _: () = assert!(FRAMES <= u128::BITS as usize);

/// How long frames that a link does not take are kept before they are dropped, for the firmware to resend them. Twice
/// the time a 1 Gb/s card needs for a batch of 9000-byte frames: a queue that does not move for so long is stuck.
const FULL_MAX: Span = Span::ms(10);

/// The batch being sent, and what became of its frames.
pub(crate) struct Outgoing {
    batch: TransmitBatch,
    offers: Offers,
}

/// What became of the frames of a batch.
pub(crate) struct Offers {
    /// Frames of the batch that no link has taken yet, one bit each.
    unsent: u128,
    /// Those of them that name host memory.
    naming: u128,
    /// Nothing of the batch was offered to a link yet: it may grow.
    open: bool,
    /// Links that were offered something since the batch was refilled, one bit each.
    used: u64,
    /// Since when no link took anything.
    full_since: Option<Time>,
    /// Frames dropped because a link did not take them for too long.
    dropped: u64,
}

impl Outgoing {
    pub(crate) fn new(frame_bytes_max: usize) -> Self {
        let offers =
            Offers { unsent: 0, naming: 0, open: false, used: 0, full_since: None, dropped: 0 };
        Self { batch: TransmitBatch::new(frame_bytes_max), offers }
    }

    /// True if every frame was taken: the batch may be refilled.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.offers.unsent == 0
    }

    /// True if a frame that is still to be sent names host memory.
    #[inline]
    pub(crate) fn names_memory(&self) -> bool {
        self.offers.unsent & self.offers.naming != 0
    }

    /// True if frames of this batch were offered to one of these links, a bit each.
    #[inline]
    pub(crate) fn used(&self, links: u64) -> bool {
        self.offers.used(links)
    }

    /// Frames dropped because a link did not take them for too long.
    pub(crate) fn dropped(&self) -> u64 {
        self.offers.dropped
    }

    /// True if frames may be added: all of the batch was taken, or nothing of it was offered yet.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.offers.open || self.is_done()
    }

    /// True if the batch has frames and may get more.
    #[inline]
    pub(crate) fn is_growing(&self) -> bool {
        self.offers.open && !self.is_done()
    }

    /// The batch, for frames to be added, after which [`grown`](Self::grown) is to be called. Only when
    /// [`is_open`](Self::is_open).
    #[inline]
    pub(crate) fn batch(&mut self) -> &mut TransmitBatch {
        self.parts().0
    }

    /// The batch, likewise, and what is to hear of what was added, by [`Offers::grown`].
    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut TransmitBatch, &mut Offers) {
        debug_assert!(self.is_open());
        if self.is_done() {
            self.batch.clear();
            (self.offers.naming, self.offers.used, self.offers.open) = (0, 0, true);
        }
        (&mut self.batch, &mut self.offers)
    }

    /// Looks at what was added to the batch. False: there is nothing to send.
    #[inline]
    pub(crate) fn grown(&mut self) -> bool {
        self.offers.grown(&self.batch)
    }

    /// Takes the memory of a frame that was lent and that its link did not take into the batch, where it waits like others. Without room
    /// there the frame is dropped, and the firmware will resend it.
    pub(crate) fn keep_lent(&mut self, memory: &ProcessMemory) {
        if self.batch.take_in(memory) {
            self.offers.naming = 0;
        } else {
            self.forget();
        }
    }

    /// Drops all frames that were not taken; the firmware will resend what matters.
    pub(crate) fn forget(&mut self) {
        self.offers.forget();
        self.batch.clear();
    }

    /// Offers what is unsent to the links, each link's frames in order. True if all of it is gone now.
    pub(crate) fn offer(&mut self, now: Time, links: &mut [Box<dyn Link>]) -> bool {
        self.offers.offer(&self.batch, now, links)
    }
}

impl Offers {
    /// As [`Outgoing::used`].
    #[inline]
    pub(crate) fn used(&self, links: u64) -> bool {
        self.used & links != 0
    }

    /// As [`Outgoing::grown`].
    #[inline]
    pub(crate) fn grown(&mut self, batch: &TransmitBatch) -> bool {
        let frames = batch.frames();
        if frames.is_empty() {
            return false;
        }
        let known = self.unsent.count_ones() as usize;
        self.unsent = u128::MAX >> (FRAMES - frames.len());
        for (index, frame) in frames.iter().enumerate().skip(known) {
            self.naming |= u128::from(!frame.segments().is_empty()) << index;
        }
        true
    }

    fn forget(&mut self) {
        self.unsent = 0;
        self.full_since = None;
    }

    /// As [`Outgoing::offer`].
    pub(crate) fn offer(
        &mut self,
        batch: &TransmitBatch,
        now: Time,
        links: &mut [Box<dyn Link>],
    ) -> bool {
        let before = self.unsent;
        self.open = false;
        if self.unsent == 1 && self.naming == 0 {
            self.offer_one(batch, links);
        } else if let [link] = links {
            self.offer_link(batch, self.unsent, link.as_mut());
        } else {
            for (index, link) in links.iter_mut().enumerate() {
                let mask = mask_of(batch, index) & self.unsent;
                if mask != 0 {
                    self.used |= 1 << index;
                    self.offer_link(batch, mask, link.as_mut());
                }
            }
        }
        if self.unsent == 0 {
            self.full_since = None;
            return true;
        }
        if self.unsent != before {
            self.full_since = Some(now);
        } else if now.since(*self.full_since.get_or_insert(now)) > FULL_MAX {
            self.dropped += u64::from(self.unsent.count_ones());
            self.forget();
            return true;
        }
        false
    }

    /// As [`grown`](Self::grown), and offers what is unsent, before anybody has looked at the clock: that a link is full counts
    /// from the next offer on. Most often it is the one frame that was added to an empty batch. With `lent` the memory that it names is its
    /// owner's again when this returns.
    #[inline]
    pub(crate) fn depart(
        &mut self,
        batch: &TransmitBatch,
        lent: bool,
        links: &mut [Box<dyn Link>],
    ) {
        if let [frame] = batch.frames()
            && frame.segments().is_empty()
        {
            (self.unsent, self.open, self.full_since) = (1, false, None);
            return self.offer_one(batch, links);
        }
        self.grown(batch);
        if let ([frame], true) = (batch.frames(), lent) {
            return self.offer_lent(batch, frame, links);
        }
        if !self.offer(batch, Time(0), links) {
            self.full_since = None;
        }
    }

    /// Offers the first frame of the batch, which names no host memory: the short way of a lone small message.
    #[inline]
    fn offer_one(&mut self, batch: &TransmitBatch, links: &mut [Box<dyn Link>]) {
        let frame = &batch.frames()[0];
        let index = usize::from(frame.link.0);
        self.used |= 1 << index;
        let parts = [IoSlice::new(batch.inline(0))];
        if links[index].send(&[TxFrame { to: frame.to, parts: &parts }]) != 0 {
            self.unsent = 0;
        }
    }

    /// Offers the only frame of the batch, whose memory is its owner's again when this returns.
    fn offer_lent(
        &mut self,
        batch: &TransmitBatch,
        frame: &TransmitFrame,
        links: &mut [Box<dyn Link>],
    ) {
        let index = usize::from(frame.link.0);
        self.used |= 1 << index;
        (self.open, self.full_since) = (false, None);
        let mut parts = [IoSlice::new(&[]); FRAME_PARTS_MAX];
        parts[0] = IoSlice::new(batch.inline(0));
        for (part, segment) in parts[1..].iter_mut().zip(frame.segments()) {
            // SAFETY: as in `offer_link`: its owner is in the post of it.
            *part = IoSlice::new(unsafe { pointer::bytes(*segment) });
        }
        let parts = &parts[..1 + frame.segments().len()];
        if links[index].send_lent(&TxFrame { to: frame.to, parts }) {
            self.unsent = 0;
        }
    }

    /// Offers the frames of `mask`, all of one link, and clears the bits of those it took.
    fn offer_link(&mut self, batch: &TransmitBatch, mask: u128, link: &mut dyn Link) {
        let mut parts = [const { MaybeUninit::<IoSlice<'_>>::uninit() }; FRAMES * FRAME_PARTS_MAX];
        let mut parts_used = 0;
        for index in bits(mask) {
            let frame = &batch.frames()[index];
            parts[parts_used].write(IoSlice::new(batch.inline(index)));
            parts_used += 1;
            for segment in frame.segments() {
                // SAFETY: the frame is unsent, so no completion that would free its memory has been handed out (module
                // invariant); senders do not write to a buffer in flight. The slice does not outlive this function.
                let bytes = unsafe { pointer::bytes(*segment) };
                parts[parts_used].write(IoSlice::new(bytes));
                parts_used += 1;
            }
        }
        // SAFETY: the loop above wrote the first `parts_used` elements.
        let parts = unsafe { parts[..parts_used].assume_init_ref() };

        let mut frames = [const { MaybeUninit::<TxFrame<'_>>::uninit() }; FRAMES];
        let mut frames_used = 0;
        let mut rest = parts;
        for index in bits(mask) {
            let frame = &batch.frames()[index];
            let (own, others) = rest.split_at(1 + frame.segments().len());
            frames[frames_used].write(TxFrame { to: frame.to, parts: own });
            frames_used += 1;
            rest = others;
        }
        // SAFETY: the loop above wrote the first `frames_used` elements.
        let frames = unsafe { frames[..frames_used].assume_init_ref() };

        let taken = link.send(frames);
        for index in bits(mask).take(taken) {
            self.unsent &= !(1 << index);
        }
    }
}

/// The frames of one link, one bit each.
fn mask_of(batch: &TransmitBatch, link: usize) -> u128 {
    let mut mask = 0;
    for (index, frame) in batch.frames().iter().enumerate() {
        mask |= u128::from(usize::from(frame.link.0) == link) << index;
    }
    mask
}

/// The positions of the bits that are set, from the lowest.
#[inline]
fn bits(mut mask: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let index = (mask != 0).then_some(mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(index)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_in_order() {
        assert_eq!(bits(0).count(), 0);
        assert_eq!(bits(0b1011).collect::<Vec<_>>(), [0, 1, 3]);
        assert_eq!(bits(u128::MAX).count(), 128);
        assert_eq!(bits(1 << 127).collect::<Vec<_>>(), [127]);
    }

    #[test]
    fn an_empty_batch_is_done() {
        let mut outgoing = Outgoing::new(1500);
        assert!(outgoing.is_done() && !outgoing.names_memory());
        assert!(outgoing.batch().is_empty() && !outgoing.grown());
        assert!(outgoing.offer(Time(0), &mut []));
    }
}
