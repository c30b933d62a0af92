//! Long frames whose payload the kernel takes by reference: a copied head, then pages spliced behind it into the same datagram.
//!
//! `sendmsg` with `MSG_MORE` leaves the datagram open (the socket is *corked*), `vmsplice` puts the pages of the pieces into a
//! pipe, `splice` moves them from there into the datagram, which leaves with the last of them. So the payload is not copied at
//! the sender, and at a receiver on the same machine once, out of these pages.
//!
//! # Invariant
//!
//! The kernel is given addresses only during a call in which what lies there is borrowed. What it keeps are references to
//! pages of physical memory: they outlive a mapping, and are only read. So nothing that this process does later with that
//! memory is unsound; what it can change is the content of a frame that is still under way. See [`super::long`] for why that
//! does no harm.
//!
//! Between calls of [`Pipe::send`] the socket is not corked, whatever failed, and the pipe that will be used next is empty.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;

use crate::gather::Filling;
use crate::system;

/// Bytes of a page, the smallest that Linux has: where pages are larger, more are counted than there are.
pub(super) const PAGE_BYTES: usize = 4096;
/// Most pages of one datagram: of the 17 fragments that a packet of the kernel has room for (`MAX_SKB_FRAGS`), the copied head
/// takes one.
const PAGES_MAX: usize = 16;
/// Pages that the pipe has room for: the power of two above.
const PIPE_PAGES: usize = 32;
/// Fewest bytes that are worth splicing: below, the two further system calls cost more than the copy.
pub(super) const SPLICED_BYTES_MIN: usize = 16 * 1024;

/// A pipe for one link.
pub(super) struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

/// Why a frame was not spliced.
pub(super) enum Trouble {
    /// Its head did not go, and nothing happened.
    Head(io::Error),
    /// Its head may have left, which its receiver drops as too short. Something may be left in the pipe: it is to be replaced.
    Pieces(io::Error),
}

/// How many parts at the front of a frame are copied: the first, and what follows it up to the first of a page or more.
fn copied(parts: &[IoSlice<'_>]) -> usize {
    let more = parts.iter().skip(1).take_while(|part| part.len() < PAGE_BYTES).count();
    (1 + more).min(parts.len())
}

/// Splits a frame into what is copied and what is spliced. `None`: it is not worth it, or cannot be done.
pub(super) fn split<'p, 'a>(
    parts: &'p [IoSlice<'a>],
) -> Option<(&'p [IoSlice<'a>], &'p [IoSlice<'a>])> {
    let (head, pieces) = parts.split_at(copied(parts));
    let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
    let pages = |piece: &IoSlice<'_>| {
        (piece.as_ptr() as usize % PAGE_BYTES + piece.len()).div_ceil(PAGE_BYTES)
    };
    let fits = bytes >= SPLICED_BYTES_MIN && pieces.iter().map(pages).sum::<usize>() <= PAGES_MAX;
    fits.then_some((head, pieces))
}

impl Pipe {
    /// A new pipe. Fails without descriptors, or where the user has too many large pipes.
    pub(super) fn open() -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors there that nobody else owns.
        let (read, write) = unsafe {
            system::check(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK))?;
            (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
        };
        let bytes = (PIPE_PAGES * PAGE_BYTES) as libc::c_int;
        // SAFETY: no pointers.
        system::check(unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETPIPE_SZ, bytes) })?;
        Ok(Self { read, write })
    }

    /// Sends what `head` has, which is one message, and `pieces` behind it, as one datagram.
    pub(super) fn send(
        &self,
        socket: BorrowedFd<'_>,
        head: &mut Filling<'_, '_>,
        pieces: &[IoSlice<'_>],
    ) -> Result<(), Trouble> {
        head.send_more(socket).map_err(Trouble::Head)?;
        let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
        let moved = self.fill(pieces).and_then(|put| all(put, bytes));
        let moved = moved.and_then(|()| all(self.empty_into(socket, bytes)?, bytes));
        moved.map_err(|error| {
            // Leaves what there is, or nothing where the kernel has thrown it away.
            let _ = system::set_option(socket, libc::SOL_UDP, libc::UDP_CORK, &0);
            Trouble::Pieces(error)
        })
    }

    /// Leaves it room for one page.
    #[cfg(test)]
    pub(super) fn shrink(&mut self) {
        // SAFETY: no pointers.
        let room = unsafe { libc::fcntl(self.write.as_raw_fd(), libc::F_SETPIPE_SZ, 1) };
        assert_eq!(usize::try_from(room), Ok(PAGE_BYTES));
    }

    /// Puts the pages of the pieces into the pipe; returns how many bytes went.
    fn fill(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = libc::SPLICE_F_NONBLOCK;
        // SAFETY: an `IoSlice` is an `iovec`, and these are borrowed for the call; for what the kernel keeps see the invariant.
        let put = unsafe {
            libc::vmsplice(self.write.as_raw_fd(), pieces.as_ptr().cast(), pieces.len(), flags)
        };
        usize::try_from(put).map_err(|_| io::Error::last_os_error())
    }

    /// Moves so many bytes from the pipe to a socket; returns how many went.
    fn empty_into(&self, socket: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
        let (from, to) = (self.read.as_raw_fd(), socket.as_raw_fd());
        let flags = libc::SPLICE_F_NONBLOCK;
        // SAFETY: no pointers.
        let moved = unsafe { libc::splice(from, null_mut(), to, null_mut(), bytes, flags) };
        usize::try_from(moved).map_err(|_| io::Error::last_os_error())
    }
}

/// The kernel has taken all of them.
fn all(taken: usize, bytes: usize) -> io::Result<()> {
    if taken == bytes { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}
