//! Processes that are programs of their own, to be killed and stopped.

use super::{PATIENCE, signal};

/// A process that was forked to be a program of its own, and is killed with this value.
pub struct Child(pub libc::pid_t);

impl Child {
    /// Runs `work` in it.
    pub fn start(work: impl FnOnce()) -> Self {
        // SAFETY: the child makes a node of its own, uses nothing of this process's nodes, and never returns to the test.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            if done.is_ok() {
                std::thread::sleep(2 * PATIENCE);
            }
            // SAFETY: ends this process.
            unsafe { libc::_exit(1) };
        }
        Self(child)
    }

    /// Sends it a signal.
    pub fn signal(&self, number: libc::c_int) {
        signal(self.0 as u32, number);
    }

    /// Waits until it has stopped itself.
    pub fn await_stop(&self) {
        let mut status = 0;
        // SAFETY: the status is written to where it is; the child is ours.
        let stopped = unsafe { libc::waitpid(self.0, &raw mut status, libc::WUNTRACED) };
        assert!(stopped == self.0 && libc::WIFSTOPPED(status));
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        // SAFETY: it is ours; no status is wanted.
        unsafe { libc::waitpid(self.0, std::ptr::null_mut(), 0) };
    }
}
