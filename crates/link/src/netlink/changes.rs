//! Notices that interfaces of a namespace have changed: their state, MTU or address, or that there is one more, or one less.

use std::io;
use std::os::fd::BorrowedFd;

use super::Netlink;
use crate::system;

/// Messages taken off the socket at a time: a machine that starts containers makes some dozens, and what is left is there at the next look.
const MESSAGES: usize = 64;

/// Readable after a change until it is taken.
#[derive(Debug)]
pub(crate) struct Changes(Netlink);

impl Changes {
    /// In the calling thread's network namespace. Needs no privilege.
    pub(crate) fn open() -> io::Result<Self> {
        Netlink::open(libc::RTMGRP_LINK).map(Self)
    }

    /// Becomes readable when something changes.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.fd()
    }

    /// True if something has changed since this was last asked. One system call if nothing has.
    pub(crate) fn take(&self) -> bool {
        let mut front = [0; 16];
        let mut changed = false;
        for _ in 0..MESSAGES {
            // What changed is found out by asking: the end of a message is of no interest.
            match system::receive(self.0.fd(), &mut front) {
                Ok(_) => changed = true,
                // There were more than the socket has room for.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => changed = true,
                Err(_) => break,
            }
        }
        changed
    }
}
