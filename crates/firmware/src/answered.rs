//! Messages that are answered: their acknowledgement comes with the answer, and nobody looks for it sooner.
//!
//! A message of 16 to 33 KB that leaves at once is copied, so that it is over with its post; and so the link has to copy it, too, where it
//! could refer to its pages. A program that has posted the receive for the answer, and then waits for that, has no use for being over
//! sooner than it. So its messages are not copied, and are over when they are acknowledged, while it is seen to do so: while all that it
//! had sent to a node was acknowledged by that node's own messages when it posted the next one, and a receive was posted then. It is
//! seen of the node that such a message last went to; of others nothing is known, and theirs are copied.

use crate::descriptor::{CompletionMode, SendDescriptor};
use crate::engine::Firmware;

/// Messages of so many bytes or more need not be copied. Shorter ones gain nothing by it: the kernel refers to pages in two calls more
/// (at 12 KB as long as a copy, at 16 KB 5 % of the whole way less, at 32 KB 10 %; `udp` over veth).
const ANSWERED_BYTES_MIN: u64 = 16 << 10;

/// Answers in a row that show what a program does: one may be chance.
const NEEDED_MIN: u8 = 2;

/// Most that are asked for.
const NEEDED_MAX: u8 = 128;

/// Answers that were counted on and came make up for one that did not: each saves 0.4 to 1 µs; without it an acknowledgement comes 60 µs
/// later than the message (`ACK-3`).
const MAKE_UP: u8 = 64;

/// Whether the program's messages to one node are answered.
pub(crate) struct Answers {
    /// That node, by its index. Before the first, none.
    peer: Option<u32>,
    /// Answers in a row so far.
    in_a_row: u8,
    /// As many are asked for before one is counted on. Twice as many each time that this was in vain, unless it was not often enough.
    needed: u8,
    /// Answers that were counted on, and came, since one did not.
    came: u8,
    /// The last message was not copied.
    counts_on: bool,
}

impl Default for Answers {
    fn default() -> Self {
        Self { peer: None, in_a_row: 0, needed: NEEDED_MIN, came: 0, counts_on: false }
    }
}

impl Answers {
    /// A message is posted to `peer`; whether what went there before is `answered`. True: an answer to this one is counted on.
    fn post(&mut self, peer: u32, answered: bool) -> bool {
        if self.peer != Some(peer) {
            *self = Self { peer: Some(peer), ..Self::default() };
        } else if answered {
            self.in_a_row = self.in_a_row.saturating_add(1);
            self.came = self.came.saturating_add(self.counts_on.into());
        } else {
            self.miss(peer);
        }
        self.counts_on = self.in_a_row >= self.needed;
        self.counts_on
    }

    /// An acknowledgement came from `peer` as a frame of its own, or the next message sooner than one.
    pub(crate) fn miss(&mut self, peer: u32) {
        if self.peer != Some(peer) {
            return;
        }
        self.in_a_row = 0;
        if core::mem::take(&mut self.counts_on) {
            let often = core::mem::take(&mut self.came) >= MAKE_UP;
            let more = self.needed.saturating_mul(2).min(NEEDED_MAX);
            self.needed = if often { NEEDED_MIN } else { more };
        }
    }
}

impl Firmware {
    /// Whether the answer to this message, which leaves at once and alone, is counted on to acknowledge it. Not inlined: this is
    /// for long ones, and the way of short ones is counted in instructions.
    #[inline(never)]
    pub(crate) fn is_answered(&mut self, peer: u32, send: &SendDescriptor) -> bool {
        let bytes = send.segments.bytes();
        let copied = matches!(send.completion, CompletionMode::Auto)
            && (ANSWERED_BYTES_MIN..=self.profile.long_buffered_bytes.into()).contains(&bytes);
        copied && {
            let answered =
                self.send.has_nothing_unanswered(peer) && self.receive.has_posted(send.endpoint);
            self.answers.post(peer, answered)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn two_answers_in_a_row_are_believed_and_one_peer_at_a_time() {
        let mut answers = Answers::default();
        let counted: Vec<bool> = (0..4).map(|_| answers.post(3, true)).collect();
        assert_eq!(counted, [false, false, true, true]);
        assert!(!answers.post(3, false) && !answers.post(3, true) && answers.post(3, true));
        // An acknowledgement of another node's says nothing.
        answers.miss(4);
        assert!(answers.post(3, true));
        assert!(
            !answers.post(4, true) && !answers.post(3, true),
            "the one knows nothing of the other"
        );
    }

    #[test]
    fn who_counted_on_an_answer_in_vain_is_slower_to_believe() {
        let mut answers = Answers::default();
        answers.post(3, true);
        let believed_after = |answers: &mut Answers| {
            (1..1_000).find(|_| answers.post(3, true)).expect("it is, some time")
        };
        for expected in [2, 4, 8, 16, 32, 64, 128, 128, 128] {
            assert_eq!(believed_after(&mut answers), expected);
            answers.miss(3);
            // Nobody waited for this one.
            answers.miss(3);
        }
        // Many answers that came as expected make up for it.
        assert_eq!(believed_after(&mut answers), 128);
        (0..MAKE_UP).for_each(|_| assert!(answers.post(3, true)));
        answers.miss(3);
        assert_eq!(believed_after(&mut answers), NEEDED_MIN.into());
    }
}
