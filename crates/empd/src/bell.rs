//! What wakes a thread of the service that sleeps on descriptors.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// The end that is slept on.
#[derive(Debug)]
pub(crate) struct Bell(UnixStream);

/// The end that wakes.
#[derive(Debug)]
pub(crate) struct Ringer(UnixStream);

/// Both ends.
pub(crate) fn bell() -> io::Result<(Ringer, Bell)> {
    let (a, b) = UnixStream::pair()?;
    a.set_nonblocking(true)?;
    b.set_nonblocking(true)?;
    Ok((Ringer(a), Bell(b)))
}

impl Ringer {
    /// What it is rung by.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Wakes whoever sleeps, or will.
    pub(crate) fn ring(&self) {
        // No room means that it has been rung already.
        let _ = (&self.0).write(&[0]);
    }
}

impl Bell {
    /// Readable once it was rung.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Takes what was rung.
    pub(crate) fn take(&self) {
        let mut bytes = [0; 64];
        while (&self.0).read(&mut bytes).is_ok_and(|got| got == bytes.len()) {}
    }
}
