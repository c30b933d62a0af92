//! Alarms: descriptors that are readable when something has ended, for faces whose callers sleep in a `poll(2)` of their
//! own, together with other descriptors.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::machine::wakeup::Bell;

/// A descriptor that becomes readable when it is rung and stays so until it is hushed.
pub struct Alarm {
    bell: Bell,
    muted: AtomicBool,
}

impl Alarm {
    /// A new one, silent.
    ///
    /// # Errors
    ///
    /// No more descriptors are to be had.
    pub fn new() -> io::Result<Self> {
        Ok(Self { bell: Bell::new()?, muted: AtomicBool::new(false) })
    }

    /// Makes it readable.
    pub fn ring(&self) {
        self.bell.ring();
    }

    /// Completions ring it, or don't: whoever is about to take what has ended of all endpoints that ring it mutes it for the
    /// time of that, so that nobody is woken for what will be gone.
    pub fn mute(&self, muted: bool) {
        self.muted.store(muted, Ordering::SeqCst);
    }

    /// An operation has ended.
    pub(crate) fn ended(&self) {
        if !self.muted.load(Ordering::SeqCst) {
            self.bell.ring();
        }
    }

    /// Makes it unreadable. Look for what may have rung it after this, not before.
    pub fn hush(&self) {
        self.bell.hush();
    }

    /// The descriptor, for as long as this value lives.
    pub fn descriptor(&self) -> RawFd {
        self.bell.fd()
    }
}
