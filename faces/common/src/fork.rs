//! Processes that fork. A node does not survive it in the child: its threads are not there, another thread may have held its
//! locks, and its sockets are the parent's, whose peers would hear two of the same name. So in a child of a process that
//! had nodes every call fails ([`Refusal::Forked`](crate::boundary::Refusal::Forked)), and the parent goes on undisturbed.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::boundary;

/// Nodes that are running.
static OPEN: AtomicUsize = AtomicUsize::new(0);

static WATCHED: Once = Once::new();

/// Held by what a child may not use.
pub struct Unshared(());

impl Default for Unshared {
    fn default() -> Self {
        Self::new()
    }
}

impl Unshared {
    /// One more thing of this process that a child may not use.
    pub fn new() -> Self {
        WATCHED.call_once(|| {
            // SAFETY: the handler lives as long as this library: the C library forgets handlers of one that it unloads.
            // That it may find no memory is not worth refusing to work.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        OPEN.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Unshared {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// In the child of a process with threads only what signal handlers may do is allowed; this stores a number.
///
/// # Safety
///
/// Called by the C library, in a child that has only this thread.
unsafe extern "C" fn in_child() {
    if OPEN.load(Ordering::Relaxed) != 0 {
        boundary::lock_out_child();
    }
}
