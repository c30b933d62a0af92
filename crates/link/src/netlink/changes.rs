//! Notices that interfaces of a namespace have changed: their state, MTU or address, or that there is one more, or one less.

use std::io;
use std::os::fd::BorrowedFd;

use super::Netlink;
use super::message::{u16_at, u32_at};
use crate::system;

/// Messages taken off the socket at a time: a machine that starts containers makes some dozens, and what is left is there at the next look.
const MESSAGES: usize = 64;

/// Bytes of a message's head, and of the `struct ifinfomsg` after it.
const FRONT_BYTES: usize = 32;

/// A change, as far as its message's front tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// The interface of this number has these `IFF_` flags now.
    Interface(u32, u32),
    /// There were more than the socket has room for, or it is something else.
    Unknown,
}

impl Change {
    fn of(front: &[u8]) -> Self {
        let fields = || {
            let [kind, index, flags] = [4, 20, 24];
            let kind = u16_at(front, kind)?;
            let known = kind == libc::RTM_NEWLINK || kind == libc::RTM_DELLINK;
            known.then(|| Some((u32_at(front, index)?, u32_at(front, flags)?))).flatten()
        };
        fields().map_or(Self::Unknown, |(index, flags)| Self::Interface(index, flags))
    }
}

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
        let mut changed = false;
        self.take_each(|_| changed = true);
        changed
    }

    /// Tells of each change since this was last asked.
    pub(crate) fn take_each(&self, mut told: impl FnMut(Change)) {
        // What else changed is found out by asking: the end of a message is of no interest.
        let mut front = [0; FRONT_BYTES];
        for _ in 0..MESSAGES {
            match system::receive(self.0.fd(), &mut front) {
                Ok(bytes) => told(Change::of(&front[..bytes.min(FRONT_BYTES)])),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => told(Change::Unknown),
                Err(_) => break,
            }
        }
    }
}
