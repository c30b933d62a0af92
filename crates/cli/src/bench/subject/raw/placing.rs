//! Where the frames of a bare link are received to: straight into the buffer where it can be.

use emp_link::{FrameSink, Head as FrameHead, Train};
use emp_wire::{HEADER_BYTES, LinkAddress};

use super::frame::Head;

/// The places of messages that are received, which are used in turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots {
    pub(super) messages: usize,
    /// Of a message.
    pub(super) frames: usize,
    /// Bytes of a message.
    pub(super) size: usize,
}

impl Slots {
    /// One for all.
    pub(super) fn one(size: usize) -> Self {
        Self { messages: 1, frames: 1, size }
    }

    pub(super) fn bytes_in_all(&self) -> usize {
        self.messages.saturating_mul(self.size)
    }

    /// Where the message begins that a frame of a stream belongs to.
    #[inline]
    pub(super) fn start_of(&self, head: &Head) -> usize {
        if self.messages == 1 {
            return 0;
        }
        head.sequence as usize / self.frames % self.messages * self.size
    }
}

/// Takes the frames of a job; those that bring payload are placed, or have been by the kernel.
pub(super) struct Taker<'a, F> {
    pub(super) into: &'a mut [u8],
    pub(super) slots: Slots,
    pub(super) job: u16,
    /// Payload of all frames but a message's last, if those are long.
    pub(super) long: Option<usize>,
    /// Is told of each frame of the job. The payload is empty if it is in its place already.
    pub(super) take: F,
}

impl<F: FnMut(Head, &[u8], &mut [u8])> FrameSink for Taker<'_, F> {
    #[inline]
    fn frame(&mut self, frame: &[u8], _from: &LinkAddress) {
        if let Some((head, bytes)) = Head::parse(frame)
            && head.job == self.job
        {
            (self.take)(head, bytes, self.into);
        }
    }

    fn lands(&self) -> bool {
        self.long.is_some()
    }

    fn landing(&mut self, train: &Train) -> Option<&mut [u8]> {
        let (head, _) = Head::parse(&train.head)?;
        // A long frame is a train of one; what is behind the head of others is not one piece of a message.
        let mine = head.job == self.job && head.kind.brings_payload();
        let long = self.long.filter(|_| mine && train.bytes == train.frame_bytes)?;
        let at = self.slots.start_of(&head) + long * head.index as usize;
        self.into.get_mut(at..at + train.frame_bytes - HEADER_BYTES)
    }

    fn landed(&mut self, train: &Train, heads: &[FrameHead]) {
        let (seen, got) = (Head::parse(&train.head), heads.first().map(|head| Head::parse(head)));
        // Another one than was seen lies in the wrong place: lost.
        if let (Some((seen, _)), Some(Some((head, _)))) = (seen, got)
            && (seen.index, seen.job) == (head.index, head.job)
        {
            (self.take)(head, &[], self.into);
        }
    }
}
