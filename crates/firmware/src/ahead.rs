//! Acknowledgements that leave before the answer that could carry them (`ACK-6`).
//!
//! A program that sends, waits until that is delivered, and then posts a receive, as one does that calls `MPI_Send` and `MPI_Recv` in
//! turn, is told by the answer's first frame if the acknowledgement rides on it, and has no receive posted when that comes: the frame is
//! copied twice. If it is a long one that takes longer than a frame for the acknowledgement alone. What the peer's program does is not
//! known; but most often it is the same program, so this node does for its peers what would be of use to itself.

use crate::descriptor::SendDescriptor;
use crate::engine::Firmware;
use crate::time::Time;

/// Messages of so many bytes or more are answers that an acknowledgement leaves before. At 16 KB the copies cost as much as its frame
/// (1.5 µs, MPICH over veth), at 32 KB more; at 256 KB a ping-pong was a fifth shorter with it.
pub(crate) const ANSWER_BYTES: u64 = 32 << 10;

impl Firmware {
    /// Whether an acknowledgement that waited for this message, to ride on it, had better leave before it. If so it is due now:
    /// [`poll_transmit`](Self::poll_transmit) has it leave. [`post_send`](Self::post_send) asks by itself.
    #[inline]
    pub fn acknowledges_before(
        &mut self,
        send: &SendDescriptor,
        now: impl FnOnce() -> Time,
    ) -> bool {
        send.segments.bytes() >= ANSWER_BYTES && self.answers_at_length(now(), send)
    }

    fn answers_at_length(&mut self, now: Time, send: &SendDescriptor) -> bool {
        if self.receive.has_posted(send.endpoint) {
            self.habit.note(true);
        }
        self.habit.is_so()
            && self
                .peers
                .find(send.to)
                .is_some_and(|peer| self.receive.answers_at_length(now, peer, &self.cross))
    }

    /// An acknowledgement was taken in, and what it came with was not yet: if a long send has ended by it, it shows whether a receive
    /// was posted before that.
    #[inline]
    pub(crate) fn note_habit(&mut self) {
        if let Some(endpoint) = self.send.take_long_ended() {
            let receives = self.receive.has_posted(endpoint);
            self.habit.note(receives);
        }
    }
}
