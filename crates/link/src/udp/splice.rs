//! Long frames whose pages the kernel takes by reference: `vmsplice` puts them into a pipe, behind the frame's head, and `splice` makes what
//! is in the pipe a datagram of a connected socket ([`super::send_only`]). So the payload is not copied at the sender, and at a
//! receiver on the same machine once, out of these pages.
//!
//! # Invariant
//!
//! The kernel is given addresses only during a call in which what lies there is borrowed. What it keeps are references to
//! pages of physical memory: they outlive a mapping, and are only read. So nothing that this process does later with that
//! memory is unsound; what it can change is the content of a frame that is still under way. See [`super::long`] for why that
//! does no harm to payload. A head that changed would have its payload taken for another frame's: it is [written
//! once](WrittenOnce).
//!
//! Between calls of [`Pipe::send`] the socket is not corked, whatever failed, and the pipe that will be used next is empty.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;

use emp_rings::WrittenOnce;

use super::PARTS_MAX;
use crate::system;

/// Bytes of a page, the smallest that Linux has: where pages are larger, more are counted than there are.
pub(super) const PAGE_BYTES: usize = 4096;
/// Most pages of one datagram: of the 17 fragments that a packet of the kernel has room for (`MAX_SKB_FRAGS`), the head takes one.
const PAGES_MAX: usize = 16;
/// Pages that the pipe has room for: the power of two above.
const PIPE_PAGES: usize = 32;
/// Fewest bytes that are worth splicing: below, one more system call and the references cost more than the copy.
pub(super) const SPLICED_BYTES_MIN: usize = 16 * 1024;

/// A pipe for one link, and where heads are written.
pub(super) struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    heads: WrittenOnce,
}

/// How many parts at the front of a frame are its head, which is copied: the first, and what follows it up to the first of a page or more.
fn copied(parts: &[IoSlice<'_>]) -> usize {
    let more = parts.iter().skip(1).take_while(|part| part.len() < PAGE_BYTES).count();
    (1 + more).min(parts.len())
}

fn bytes_of(parts: &[IoSlice<'_>]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

/// Splits a frame into what is copied and what is spliced. `None`: it is not worth it, or cannot be done.
pub(super) fn split<'p, 'a>(
    parts: &'p [IoSlice<'a>],
) -> Option<(&'p [IoSlice<'a>], &'p [IoSlice<'a>])> {
    let (head, pieces) = parts.split_at(copied(parts));
    let pages = |piece: &IoSlice<'_>| {
        (piece.as_ptr() as usize % PAGE_BYTES + piece.len()).div_ceil(PAGE_BYTES)
    };
    let fits = bytes_of(pieces) >= SPLICED_BYTES_MIN
        && bytes_of(head) <= WrittenOnce::BYTES_MAX
        && pieces.len() < PARTS_MAX
        && pieces.iter().map(pages).sum::<usize>() <= PAGES_MAX;
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
        Ok(Self { read, write, heads: WrittenOnce::new()? })
    }

    /// Sends a frame, as [`split`], as one datagram of a connected socket. After an error this is to be replaced, as something may be left in
    /// the pipe, and what has left is too short for its receiver.
    pub(super) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        (head, pieces): (&[IoSlice<'_>], &[IoSlice<'_>]),
    ) -> io::Result<()> {
        let mut parts = [IoSlice::new(&[]); PARTS_MAX];
        let parts = parts.get_mut(..=pieces.len()).ok_or(io::ErrorKind::InvalidInput)?;
        parts[0] = IoSlice::new(self.heads.write(head)?);
        parts[1..].copy_from_slice(pieces);
        let bytes = bytes_of(parts);
        // SAFETY: an `IoSlice` is an `iovec`, and these are borrowed for the call; for what the kernel keeps see the invariant.
        let put = unsafe {
            let (to, flags) = (self.write.as_raw_fd(), libc::SPLICE_F_NONBLOCK);
            libc::vmsplice(to, parts.as_ptr().cast(), parts.len(), flags)
        };
        // Whatever it is, it is not that the socket is full.
        all(put, bytes).map_err(|error| io::Error::other(error.to_string()))?;
        // SAFETY: no pointers.
        let moved = unsafe {
            let (from, to) = (self.read.as_raw_fd(), socket.as_raw_fd());
            libc::splice(from, null_mut(), to, null_mut(), bytes, libc::SPLICE_F_NONBLOCK)
        };
        all(moved, bytes).inspect_err(|_| {
            // Leaves what there is, or nothing where the kernel has thrown it away.
            let _ = system::set_option(socket, libc::SOL_UDP, libc::UDP_CORK, &0);
        })
    }

    /// Leaves it room for one page.
    #[cfg(test)]
    pub(super) fn shrink(&mut self) {
        // SAFETY: no pointers.
        let room = unsafe { libc::fcntl(self.write.as_raw_fd(), libc::F_SETPIPE_SZ, 1) };
        assert_eq!(usize::try_from(room), Ok(PAGE_BYTES));
    }
}

/// The kernel has taken all of them.
fn all(taken: libc::ssize_t, bytes: usize) -> io::Result<()> {
    match usize::try_from(taken) {
        Ok(taken) if taken == bytes => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}
