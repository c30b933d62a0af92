//! Which of two threads runs a piece of work that one has offered to the other, and when it is over: two words beside the ring of slots by
//! which pieces are offered.
//!
//! Pieces have numbers, from 1 on, and there is one at a time: the next is offered when the last is done, or was begun by who has offered it.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

/// The two words.
pub struct Pieces {
    /// The last piece that somebody has begun.
    begun: AtomicU64,
    /// The last that the other thread has done.
    done: AtomicU64,
}

impl Default for Pieces {
    fn default() -> Self {
        Self { begun: AtomicU64::new(0), done: AtomicU64::new(0) }
    }
}

impl Pieces {
    /// True for one who asks: the piece is theirs to run.
    #[inline]
    pub fn begin(&self, number: u64) -> bool {
        let before = number - 1;
        self.begun.compare_exchange(before, number, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Of the other thread: a piece that it has begun is over.
    #[inline]
    pub fn finish(&self, number: u64) {
        self.done.store(number, Ordering::Release);
    }

    /// Of who has offered it: it is over, and all that was done in it can be seen.
    #[inline]
    pub fn is_done(&self, number: u64) -> bool {
        self.done.load(Ordering::Acquire) == number
    }
}
