//! Memory of what is measured: the same kind for all subjects, and as much; and where they want as much, the very same.
//!
//! Long messages lie on huge pages where the kernel has them, as in a program whose allocator asks for them: without, EMP's long
//! frames pay for each page that is sent by reference, and nobody else does.
//!
//! Which pages one gets decides on a tenth of the time of a copy of 1 MiB (how they share the caches is up to the machine), and is another
//! matter in each run. So in ping-pongs a subject leaves its memory when its job is over, and the next one has it: what is sent always, what
//! is received into from 64 KB on, where all want one buffer. In streams they want different ones, and each keeps its own: those that had
//! some in common would have them in a cache.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use emp_host::PageBuffer;

use crate::bench::job::{Job, Pattern};

/// What messages that are sent are filled with.
pub const FILL: u8 = 0x5a;

/// Whether subjects have the same memory in turn for this job.
pub fn is_shared(job: &Job) -> bool {
    job.pattern == Pattern::Pingpong
}

/// What buffers are for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// To be sent: they are filled, and stay so.
    Send,
    /// To receive into.
    Receive,
}

/// Most runs that are kept: each of four subjects has two in a job. Those of sizes that are over are dropped.
const LEFT_MAX: usize = 8;

/// Runs of buffers that were left, the last first.
struct Left(VecDeque<(Use, Vec<PageBuffer>)>);

/// Those of this process.
static LEFT: Mutex<Left> = Mutex::new(Left(VecDeque::new()));

impl Left {
    fn put(&mut self, what: Use, buffers: Vec<PageBuffer>) {
        if buffers.iter().any(|buffer| !buffer.is_empty()) {
            self.0.push_front((what, buffers));
            self.0.truncate(LEFT_MAX);
        }
    }

    /// So many buffers of a size, if they were left.
    fn take(&mut self, wanted: Use, count: usize, size: usize) -> Option<Vec<PageBuffer>> {
        let fits = |(what, buffers): &(Use, Vec<PageBuffer>)| {
            let sizes = buffers.iter().all(|buffer| buffer.len() == size);
            (*what, buffers.len(), sizes) == (wanted, count, true)
        };
        let at = self.0.iter().position(fits)?;
        self.0.remove(at).map(|(_, buffers)| buffers)
    }
}

fn left() -> MutexGuard<'static, Left> {
    // Nothing is half done where a thread panicked.
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Others may receive into these buffers.
pub fn leave_received(buffers: Vec<PageBuffer>) {
    left().put(Use::Receive, buffers);
}

/// Others may send this one, which is [`filled`].
pub fn leave_sent(buffer: PageBuffer) {
    left().put(Use::Send, vec![buffer]);
}

/// So many buffers of a size to receive into, one behind the other, all there already: a page that is touched for the first time costs
/// as much as a message.
pub fn several(count: usize, size: usize) -> anyhow::Result<Vec<PageBuffer>> {
    if let Some(buffers) = left().take(Use::Receive, count, size) {
        return Ok(buffers);
    }
    let buffers = PageBuffer::several(count, size);
    let mut buffers =
        buffers.with_context(|| format!("memory for {count} messages of {size} bytes"))?;
    buffers.iter_mut().for_each(|buffer| buffer.fill(0));
    Ok(buffers)
}

/// One of so many bytes.
pub fn one(size: usize) -> anyhow::Result<PageBuffer> {
    several(1, size)?.pop().context("no memory")
}

/// One to send.
pub fn filled(size: usize) -> anyhow::Result<PageBuffer> {
    if let Some(buffer) = left().take(Use::Send, 1, size).and_then(|mut left| left.pop()) {
        return Ok(buffer);
    }
    let mut buffer = PageBuffer::new(size).with_context(|| format!("memory for {size} bytes"))?;
    buffer.fill(FILL);
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wants_as_much_gets_what_was_left() {
        let mut left = Left(VecDeque::new());
        let buffers = PageBuffer::several(3, 7_000).unwrap();
        let first = buffers[0].as_ptr();
        left.put(Use::Receive, buffers);
        for (wanted, count, size) in
            [(Use::Send, 3, 7_000), (Use::Receive, 1, 7_000), (Use::Receive, 3, 7_001)]
        {
            assert!(left.take(wanted, count, size).is_none());
        }
        let again = left.take(Use::Receive, 3, 7_000).expect("it was left");
        assert_eq!(again[0].as_ptr(), first);
        assert!(left.take(Use::Receive, 3, 7_000).is_none(), "it was taken");
    }

    #[test]
    fn the_oldest_is_dropped_and_nothing_is_left_of_nothing() {
        let mut left = Left(VecDeque::new());
        for size in 1..=LEFT_MAX + 1 {
            left.put(Use::Send, PageBuffer::several(1, size).unwrap());
        }
        left.put(Use::Send, vec![PageBuffer::default()]);
        left.put(Use::Receive, Vec::new());
        assert!(left.take(Use::Send, 1, 1).is_none() && left.take(Use::Receive, 0, 0).is_none());
        assert!((2..=LEFT_MAX + 1).all(|size| left.take(Use::Send, 1, size).is_some()));
    }

    /// What the next subject sends is what it has to be.
    #[test]
    fn what_is_to_be_sent_is_filled() {
        for _ in 0..2 {
            let buffer = filled(7_013).unwrap();
            assert!(buffer.iter().all(|byte| *byte == FILL));
            leave_sent(buffer);
        }
    }
}
