//! Messages that are answered: their acknowledgement comes with the answer, and nobody looks for it sooner (decision 32).
//!
//! A message of 16 to 33 KB that leaves at once is copied, so that it is over with its post; and so the link has to copy it, too, where it
//! could refer to its pages. A program that has posted the receive for the answer, and then waits for that, has no use for being over
//! sooner than it. So its messages are not copied, and are over when they are acknowledged, while it is seen to do so: while all that it
//! had sent to a node was acknowledged by that node's own messages when it posted the next one, a receive was posted then, and no message
//! came before its receive. It is seen of the node that such a message last went to; of others nothing is known, and theirs are copied.
//!
//! If no answer comes in time the message is copied after all, and over with that: what is under way may then change, and be dropped for
//! its checksum, so it may have to be sent again.

use super::SendPath;
use crate::descriptor::Status;
use crate::memory::HostMemory;
use crate::path::PathId;
use crate::time::{Span, Time};

/// Messages of so many bytes or more need not be copied. Shorter ones gain nothing by it: the kernel refers to pages in two calls more
/// (at 12 KB as long as a copy, at 16 KB 5 % of the whole way less, at 32 KB 10 %; `udp` over veth).
pub(crate) const ANSWERED_BYTES_MIN: u64 = 16 << 10;

/// Answers in a row that show what a program does: one may be chance.
const NEEDED_MIN: u8 = 2;

/// Most that are asked for.
const NEEDED_MAX: u8 = 128;

/// Answers that were counted on and came make up for one that did not: each saves 0.4 to 1 µs; who waits in vain does so for two round
/// trips, 30 to 60 µs.
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
    /// It waits for its answer.
    waiting: Waiting,
    /// Unexpected messages that this node had had, of whomever, when the last was posted.
    unexpected: u64,
    /// The one that is about to leave, if it may be answered.
    next: Option<Sight>,
}

/// A message that was not copied, and when it has waited for long enough: never, if there is none.
#[derive(Clone, Copy)]
struct Waiting {
    index: u32,
    generation: u32,
    due: Time,
}

impl Waiting {
    const NONE: Self = Self { index: 0, generation: 0, due: Time::NEVER };
}

/// What is seen when a message is posted that may be answered.
#[derive(Clone, Copy)]
struct Sight {
    answered: bool,
    unexpected: u64,
    /// An answer is counted on.
    counts_on: bool,
}

impl Answers {
    pub(super) const fn new() -> Self {
        Self {
            peer: None,
            in_a_row: 0,
            needed: NEEDED_MIN,
            came: 0,
            counts_on: false,
            waiting: Waiting::NONE,
            unexpected: 0,
            next: None,
        }
    }

    /// Answers in a row if this message is posted to `peer` now; whether what went there before is `answered`.
    fn with(&self, peer: u32, answered: bool) -> u8 {
        if answered && self.peer == Some(peer) { self.in_a_row.saturating_add(1) } else { 0 }
    }

    /// Whether an answer to a message that is about to leave for `peer` is counted on. What was seen of it: what went there before is
    /// answered, and so many messages were unexpected so far. `None`: it is not of those that may be answered.
    pub(crate) fn look(&mut self, peer: u32, seen: Option<(bool, u64)>) -> bool {
        self.next = seen.map(|(answered, unexpected)| {
            // Where the answer came before its receive was posted, that which was posted was for something else.
            let answered = answered && (unexpected == self.unexpected || !self.counts_on);
            let counts_on = self.with(peer, answered) >= self.needed;
            Sight { answered, unexpected, counts_on }
        });
        self.next.is_some_and(|next| next.counts_on)
    }

    /// That message leaves.
    pub(crate) fn post(&mut self, peer: u32) {
        let Some(Sight { answered, unexpected, counts_on }) = self.next.take() else { return };
        let in_a_row = self.with(peer, answered);
        if self.peer == Some(peer) && !answered {
            self.miss();
        } else if self.peer == Some(peer) {
            self.came = self.came.saturating_add(self.counts_on.into());
        }
        // What was learnt of the program holds for another node as well.
        (self.peer, self.in_a_row, self.unexpected) = (Some(peer), in_a_row, unexpected);
        self.counts_on = counts_on;
    }

    /// An acknowledgement came from `peer` as a frame of its own.
    pub(crate) fn on_ack(&mut self, peer: u32) {
        if self.peer == Some(peer) {
            self.miss();
        }
    }

    fn miss(&mut self) {
        self.in_a_row = 0;
        if core::mem::take(&mut self.counts_on) {
            let often = core::mem::take(&mut self.came) >= MAKE_UP;
            let more = self.needed.saturating_mul(2).min(NEEDED_MAX);
            self.needed = if often { NEEDED_MIN } else { more };
        }
    }

    /// A message has ended.
    pub(super) fn ended(&mut self, index: u32) {
        if self.waiting.index == index {
            self.waiting = Waiting::NONE;
        }
    }

    /// When the message that waits has done so for long enough.
    #[inline]
    pub(crate) const fn due(&self) -> Time {
        self.waiting.due
    }
}

impl SendPath {
    /// A message has left that was not copied: the answer is waited for, for two round trips as they were lately.
    pub(super) fn await_answer(
        &mut self,
        now: Time,
        (peer, path): (u32, PathId),
        name: (u32, u32),
    ) {
        let window = self.peers[peer].window(&self.further, path);
        let within = window.answer_within(Span(0)).unwrap_or(self.profile.ack_delay);
        let (index, generation) = name;
        self.answers.waiting = Waiting { index, generation, due: now + within };
    }

    /// If no answer has come in time the message is copied, and over.
    pub(crate) fn end_unanswered(&mut self, now: Time, memory: &impl HostMemory) {
        let waiting = self.answers.waiting;
        if waiting.due > now {
            return;
        }
        self.answers.waiting = Waiting::NONE;
        let Some(message) = self.messages.get(waiting.index, waiting.generation) else { return };
        if message.completed || message.void || message.chain.is_some() {
            return;
        }
        self.answers.miss();
        let send = message.descriptor.clone();
        // Without room for it, or memory to be read, it goes on waiting.
        let Ok(Some(chain)) = self.copied(&send, memory) else { return };
        let Some(message) = self.messages.at_mut(waiting.index) else { return };
        message.chain = Some(chain);
        self.report(waiting.index, Status::Ok);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Posts, and says whether an answer was counted on.
    fn post(answers: &mut Answers, peer: u32, answered: bool) -> bool {
        let counts_on = answers.look(peer, Some((answered, answers.unexpected)));
        answers.post(peer);
        counts_on
    }

    fn believed_after(answers: &mut Answers, peer: u32) -> u32 {
        (1..1_000).find(|_| post(answers, peer, true)).expect("it is, some time")
    }

    #[test]
    fn two_answers_in_a_row_are_believed_and_one_peer_at_a_time() {
        let mut answers = Answers::new();
        let counted: Vec<bool> = (0..4).map(|_| post(&mut answers, 3, true)).collect();
        assert_eq!(counted, [false, false, true, true]);
        // An acknowledgement of another node's says nothing.
        answers.on_ack(4);
        assert!(post(&mut answers, 3, true));
        assert!(!post(&mut answers, 4, true) && !post(&mut answers, 3, true));
        assert!(!post(&mut answers, 3, true) && post(&mut answers, 3, true));
    }

    #[test]
    fn who_counted_on_an_answer_in_vain_is_slower_to_believe() {
        let mut answers = Answers::new();
        post(&mut answers, 3, true);
        for expected in [2, 4, 8, 16, 32, 64, 128, 128, 128] {
            assert_eq!(believed_after(&mut answers, 3), expected);
            answers.on_ack(3);
            // Nobody waited for this one.
            answers.on_ack(3);
        }
        // Many answers that came as expected make up for it.
        assert_eq!(believed_after(&mut answers, 3), 128);
        (0..MAKE_UP).for_each(|_| assert!(post(&mut answers, 3, true)));
        answers.on_ack(3);
        assert_eq!(believed_after(&mut answers, 3), NEEDED_MIN.into());
    }

    /// Few messages to one node, then to another: each time the last has no answer.
    #[test]
    fn what_was_learnt_holds_for_other_nodes() {
        let mut answers = Answers::new();
        let mut in_vain = 0;
        for round in 0..1_000 {
            let last = (0..4).map(|_| post(&mut answers, round % 2, true)).last();
            in_vain += u32::from(last == Some(true));
            answers.on_ack(round % 2);
        }
        assert!(in_vain <= 2, "{in_vain}");
    }

    /// The receive that was posted was for something else.
    #[test]
    fn answers_that_come_before_their_receives_are_none() {
        let mut answers = Answers::new();
        let mut in_vain = 0;
        for _ in 0..1_000 {
            let unexpected = answers.unexpected + u64::from(answers.counts_on);
            in_vain += u32::from(answers.look(3, Some((true, unexpected))));
            answers.post(3);
        }
        assert!(in_vain <= 1_000 / 64, "{in_vain}");
    }
}
