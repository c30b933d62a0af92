//! Sleeping and being woken: an event descriptor for sleepers in `poll(2)`, a parker for those that sleep without it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A descriptor that wakes whoever polls it.
pub(crate) struct Bell(File);

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and belongs to no one else.
        Ok(Self(File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// Wakes the one who polls it, now or when it comes to it.
    pub(crate) fn ring(&self) {
        // It fails only if 2^64 - 2 rings were not looked at: then it is ringing already.
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }

    /// Stops the ringing.
    pub(crate) fn hush(&self) {
        let mut count = [0; 8];
        // Fails if it does not ring.
        let _ = (&self.0).read(&mut count);
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Descriptors to sleep on: those of the links, and a bell.
#[derive(Clone)]
pub(crate) struct PollSet(Vec<libc::pollfd>);

impl PollSet {
    /// The descriptors stay open as long as the set is used.
    pub(crate) fn new(links: &[RawFd], bell: &Bell) -> Self {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        Self(std::iter::once(bell.fd()).chain(links.iter().copied()).map(entry).collect())
    }

    /// The same with others' descriptors beside those of the links.
    pub(crate) fn with(mut self, others: &[RawFd]) -> Self {
        let entry = |fd: &RawFd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 };
        self.0.extend(others.iter().map(entry));
        self
    }

    /// Sleeps until a descriptor is readable or the time has passed. `None`: no limit.
    pub(crate) fn sleep(&mut self, timeout: Option<Duration>) -> Woken {
        let limit = timeout.map(|timeout| libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the array is valid and as long as said for the whole call; `limit` is null or points to a timespec
        // that lives until the end of the function; a null signal mask leaves the mask as it is.
        let ready = unsafe {
            libc::ppoll(self.0.as_mut_ptr(), self.0.len() as libc::nfds_t, limit, std::ptr::null())
        };
        if ready <= 0 {
            // Time out, or a signal: the caller looks at the clock anyway.
            return Woken { bell: false, link: false };
        }
        Woken {
            bell: self.0[0].revents != 0,
            link: self.0[1..].iter().any(|entry| entry.revents != 0),
        }
    }
}

/// Why a sleep ended; neither: the time had passed, or a signal came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Woken {
    /// The bell rang.
    pub(crate) bell: bool,
    /// A link has something, or an error to be cleared.
    pub(crate) link: bool,
}

/// Where one thread sleeps without a descriptor. Not `std::thread::park`: its token belongs to the application.
#[derive(Default)]
pub(crate) struct Parker {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Parker {
    /// This thread's own.
    pub(crate) fn mine() -> Arc<Self> {
        thread_local!(static MINE: Arc<Parker> = Arc::default());
        MINE.with(Arc::clone)
    }

    /// Wakes the thread that sleeps here, or spares it the next sleep.
    pub(crate) fn wake(&self) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    /// Sleeps until woken (true) or until the time has passed (false). `None`: no limit.
    pub(crate) fn sleep(&self, timeout: Option<Duration>) -> bool {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        if !*woken {
            woken = match timeout {
                None => self.changed.wait(woken).unwrap_or_else(PoisonError::into_inner),
                Some(limit) => {
                    let result = self.changed.wait_timeout(woken, limit);
                    result.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        std::mem::take(&mut *woken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_bell_rung_before_the_sleep_is_heard() {
        let bell = Bell::new().unwrap();
        let mut set = PollSet::new(&[], &bell);
        bell.ring();
        bell.ring();
        let woken = set.sleep(Some(Duration::from_secs(10)));
        assert!(woken.bell && !woken.link);
        bell.hush();
        let start = Instant::now();
        let woken = set.sleep(Some(Duration::from_millis(5)));
        assert!(!woken.bell && !woken.link);
        assert!(start.elapsed() >= Duration::from_millis(5));
    }

    #[test]
    fn a_parker_woken_before_the_sleep_does_not_sleep() {
        let parker = Parker::mine();
        parker.wake();
        assert!(parker.sleep(None));
        assert!(!parker.sleep(Some(Duration::from_millis(1))));
        let other = Arc::clone(&parker);
        let thread = std::thread::spawn(move || other.wake());
        assert!(parker.sleep(Some(Duration::from_secs(10))));
        thread.join().unwrap();
    }
}
