//! Threads of a node never run the application's signal handlers.

use std::mem::MaybeUninit;

/// Signals that a thread raises by what it does. They stay as they are: blocked, the kernel would end the process without asking
/// the application's handler, which may be what brings back a page that a buffer lies on.
const FAULTS: [libc::c_int; 5] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

/// Calls `start`, in which a thread is started, with all signals blocked but those that a thread brings about itself. The new
/// thread inherits that: a signal to the process reaches a thread of the application, interrupts what that waits in, and its
/// handler does not run beside the code that it was made to interrupt.
pub fn blocked<T>(start: impl FnOnce() -> T) -> T {
    if cfg!(miri) {
        // It has no signals.
        return start();
    }
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: `sigfillset` makes a whole set of it, `sigdelset` takes signals that there are, and `pthread_sigmask` reads one set
    // and writes the other; both live here. None of them fails with these arguments.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        FAULTS.iter().for_each(|signal| {
            libc::sigdelset(all.as_mut_ptr(), *signal);
        });
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let started = start();
    // SAFETY: the call above wrote the set.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    started
}
