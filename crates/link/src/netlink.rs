//! The kernel's routing netlink, which tells what interfaces there are and where routes lead, when asked, and of what changes, unasked.
//! It speaks of the network namespace that a socket was opened in, whatever is mounted at /sys.

mod changes;
mod message;
mod tables;

pub(crate) use changes::{Change, Changes};
pub(crate) use tables::{LinkFacts, Tables};

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::system;

/// Bytes of the longest message that is read whole: the kernel makes those of a dump no longer than this for readers with less than 32 KB.
const BUFFER_BYTES: usize = 32 << 10;

/// A socket to the kernel.
#[derive(Debug)]
struct Netlink(OwnedFd);

impl Netlink {
    /// Opens one that is told of these groups of changes (bits of `RTMGRP_…`).
    fn open(groups: libc::c_int) -> io::Result<Self> {
        let socket = system::netlink_socket()?;
        // SAFETY: all-zero is a valid `sockaddr_nl`.
        let mut name: libc::sockaddr_nl = unsafe { zeroed() };
        name.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        name.nl_groups = groups.cast_unsigned();
        system::bind(socket.as_fd(), &name, size_of::<libc::sockaddr_nl>())?;
        Ok(Self(socket))
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
