//! Letting go of what the kernel takes long to forget: closing a packet socket waits for two or three grace periods of RCU, 20 to 50 ms, in
//! which its program could go on (an MPI program ends then). A thread of its own waits instead; who opens such a socket again
//! in the same process, and the end of the process, wait for it, so that a departure is announced as ever.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::process;
use std::sync::{Condvar, Mutex, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Most that is let go at a time: more than one node has, far below a process's threads and descriptors. What comes then is dropped by
/// its owner.
const PENDING_MAX: usize = 8;

/// How long somebody waits for what is let go: many grace periods on a busy machine.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many are pending, and in which process: a forked child has none of its parent's threads.
struct Pending {
    process: u32,
    count: usize,
}

static PENDING: Mutex<Pending> = Mutex::new(Pending { process: 0, count: 0 });
static FEWER: Condvar = Condvar::new();
static AT_EXIT: Once = Once::new();

/// Drops it, without having the caller wait for that.
pub fn let_go(thing: impl Send + 'static) {
    if !begin() {
        return;
    }
    AT_EXIT.call_once(|| {
        // SAFETY: registers a function that takes nothing and does not unwind, in code that stays mapped as long as threads of
        // it may run.
        unsafe { libc::atexit(at_exit) };
    });
    let dropped =
        thread::Builder::new().name("emp-close".into()).stack_size(STACK_BYTES).spawn(|| {
            drop(thing);
            end();
        });
    // The thing was dropped with the closure.
    if dropped.is_err() {
        end();
    }
}

/// For system calls, and a member's table.
const STACK_BYTES: usize = 64 << 10;

/// Waits, for a bounded time, until all is gone that this process lets go.
pub(crate) fn settle() {
    let end = Instant::now() + PATIENCE;
    let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    while pending.process == process::id() && pending.count > 0 {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        pending = FEWER.wait_timeout(pending, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// A descriptor that is let go when it is dropped.
pub(crate) struct AsideFd(RawFd);

impl From<OwnedFd> for AsideFd {
    fn from(fd: OwnedFd) -> Self {
        Self(fd.into_raw_fd())
    }
}

impl AsFd for AsideFd {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: owned, and open until this is dropped.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

impl AsRawFd for AsideFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl Drop for AsideFd {
    fn drop(&mut self) {
        // SAFETY: it was owned until now, and is not used again.
        let_go(unsafe { OwnedFd::from_raw_fd(self.0) });
    }
}

extern "C" fn at_exit() {
    settle();
}

/// False: there are too many.
fn begin() -> bool {
    let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
    if pending.process != process::id() {
        *pending = Pending { process: process::id(), count: 0 };
    }
    let room = pending.count < PENDING_MAX;
    pending.count += usize::from(room);
    room
}

fn end() {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner).count -= 1;
    FEWER.notify_all();
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    struct Slow(Arc<AtomicBool>);

    impl Drop for Slow {
        fn drop(&mut self) {
            thread::sleep(Duration::from_millis(200));
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn who_lets_go_does_not_wait_and_who_settles_does() {
        let gone = Arc::new(AtomicBool::new(false));
        let start = Instant::now();
        let_go(Slow(Arc::clone(&gone)));
        assert!(!gone.load(Ordering::SeqCst) || start.elapsed() >= Duration::from_millis(200));
        settle();
        assert!(gone.load(Ordering::SeqCst));
    }
}
