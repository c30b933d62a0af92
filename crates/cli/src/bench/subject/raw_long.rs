//! Long frames of a bare link: what the kernel cuts and puts together, received straight into the buffer where it can be.
//!
//! A message that needs more than one frame goes in long ones if both links have them and they get through both ways, which the ends find out
//! together before the first such job.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use emp_link::{FrameSink, Head as FrameHead, Train, TxFrame};
use emp_wire::{HEADER_BYTES, LinkAddress};

use super::raw::Raw;
use super::raw_frame::{Head, Kind};

/// How long the ends look for each other's long frames: they begin a job within a few milliseconds of each other, on a busy
/// machine within tens.
const PATIENCE: Duration = Duration::from_millis(200);
/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(1);
/// Tries after an end knows, so that the other learns it too where many are lost.
const LAST_TRIES: usize = 16;

/// Long frames of one end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Long {
    /// Payload of one in bytes, as far as both links have them; 0 for none.
    payload: usize,
    /// Whether they get through, once it is known.
    through: Option<bool>,
}

impl Long {
    pub(super) fn new(frame_bytes: usize) -> Self {
        Self { payload: frame_bytes.saturating_sub(HEADER_BYTES), through: None }
    }

    /// Payload of the frames that messages of `size` bytes go in, if that is more than `short`.
    pub(super) fn payload(&self, size: usize, short: usize) -> Option<usize> {
        let wanted = self.through == Some(true) && size > short;
        wanted.then_some(self.payload).filter(|long| *long > short)
    }
}

impl Raw {
    /// Finds out, once, whether long frames get through both ways, if jobs of `size` would use them.
    pub(super) fn meet_long(&mut self, size: usize) {
        let wanted = self.long.payload > self.payload && size > self.payload;
        if wanted && self.long.through.is_none() {
            self.long.through = Some(self.try_long());
        }
    }

    /// Sends long frames that say whether this end has got one, until the other's say so too. True: both have.
    fn try_long(&mut self) -> bool {
        let body = vec![0; self.long.payload];
        let start = Instant::now();
        let (mut heard, mut both) = (false, false);
        while start.elapsed() < PATIENCE && !both {
            self.send_try(heard, &body);
            let until = Instant::now() + PAUSE;
            while Instant::now() < until && !both {
                // One by one: what comes behind the frame that tells both know is the job's.
                self.link.receive(1, &mut |frame, _| {
                    let Some((head, bytes)) = Head::parse(frame) else { return };
                    if head.kind == Kind::Try && bytes.len() == body.len() {
                        heard = true;
                        both |= head.index == 1;
                    }
                });
            }
        }
        if both {
            (0..LAST_TRIES).for_each(|_| self.send_try(true, &body));
        } else {
            // The other end may still be trying, and would take the job's first frames for nothing.
            std::thread::sleep(PATIENCE);
        }
        both
    }

    fn send_try(&mut self, heard: bool, body: &[u8]) {
        let index = u32::from(heard);
        let head = Head { kind: Kind::Try, job: self.job, tag: self.tag, sequence: 0, index };
        let head = head.emit(body.len());
        let parts = [IoSlice::new(&head), IoSlice::new(body)];
        // Not taken is like lost.
        self.link.send(&[TxFrame { to: self.to, parts: &parts }]);
    }
}

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
