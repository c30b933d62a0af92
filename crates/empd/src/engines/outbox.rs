//! What an engine has to say to its client, in order, as far as the ring has no room for it yet.

use std::collections::VecDeque;

use emp_host::daemon::{END_BYTES, PIECE_BYTES_MAX, told};
use emp_link::service::channel::{Broken, Channel};

/// Bytes before a piece of what was received.
const PIECE_HEAD_BYTES: usize = 16;

/// Bytes of such a piece.
const PIECE_BYTES: usize = PIECE_BYTES_MAX;

enum Out {
    Record(u32, Box<[u8]>),
    /// An end, and what was received: of these bytes so many were written. They count as much of what is held.
    Received {
        name: u64,
        end: [u8; END_BYTES],
        at: u64,
        bytes: Box<[u8]>,
        done: usize,
        held: u64,
    },
}

/// It.
#[derive(Default)]
pub(super) struct Outbox {
    waiting: VecDeque<Out>,
    retired: u64,
    /// Bytes that need be held no more, since this was last asked.
    freed: u64,
}

impl Outbox {
    /// A record.
    pub(super) fn say(&mut self, mark: u32, record: impl Into<Box<[u8]>>) {
        self.waiting.push_back(Out::Record(mark, record.into()));
    }

    /// A send is over that was over for the client.
    pub(super) fn retire(&mut self) {
        self.retired += 1;
    }

    /// An end, with bytes that were received `at` a place of the buffer.
    pub(super) fn received(
        &mut self,
        (name, end): (u64, [u8; END_BYTES]),
        (at, bytes): (u64, Box<[u8]>),
        held: u64,
    ) {
        self.waiting.push_back(Out::Received { name, end, at, bytes, done: 0, held });
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.retired == 0
    }

    /// Bytes that need be held no more, since this was last asked.
    pub(super) fn take_freed(&mut self) -> u64 {
        std::mem::take(&mut self.freed)
    }

    /// Writes as much as there is room for. True if it was any.
    ///
    /// # Errors
    ///
    /// If the client broke the ring.
    pub(super) fn flush(&mut self, channel: &mut Channel) -> Result<bool, Broken> {
        let mut worked = false;
        if self.retired != 0 {
            if !channel.write(told::RETIRED, &[&self.retired.to_le_bytes()])? {
                return Ok(false);
            }
            (self.retired, worked) = (0, true);
        }
        while let Some(out) = self.waiting.front_mut() {
            let done = match out {
                Out::Record(mark, record) => channel.write(*mark, &[record])?,
                Out::Received { name, end, at, bytes, done, held } => {
                    while bytes.len() - *done > PIECE_BYTES {
                        let mut head = [0; PIECE_HEAD_BYTES];
                        head[..8].copy_from_slice(&name.to_le_bytes());
                        head[8..].copy_from_slice(&(*at + *done as u64).to_le_bytes());
                        let piece = &bytes[*done..*done + PIECE_BYTES];
                        if !channel.write(told::BYTES, &[&head, piece])? {
                            return Ok(worked);
                        }
                        *done += PIECE_BYTES;
                        worked = true;
                        channel.wake();
                    }
                    let last = channel.write(told::END, &[&end[..], &bytes[*done..]])?;
                    if last {
                        self.freed += *held;
                    }
                    last
                }
            };
            if !done {
                break;
            }
            worked = true;
            self.waiting.pop_front();
        }
        Ok(worked)
    }
}
