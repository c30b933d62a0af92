//! A stretch of mapped memory that is unmapped with the value.
//!
//! # Invariant
//!
//! `base` is the start of a mapping of exactly `bytes` bytes, readable and writable, that this value
//! alone unmaps. It makes no promise about who else (the kernel) writes into it: whoever reads
//! through [`Mapping::base`] has an invariant of its own for that.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};

/// Memory that was mapped.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to the thread that made it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Fresh memory of zeros, all of it present at once, so that no first touch costs a page fault
    /// on the way of a frame.
    pub(crate) fn anonymous(bytes: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        Self::new(bytes, flags, -1, 0)
    }

    /// The part of a descriptor's memory at `offset`.
    pub(crate) fn of(fd: BorrowedFd<'_>, bytes: usize, offset: libc::off_t) -> io::Result<Self> {
        Self::new(bytes, libc::MAP_SHARED | libc::MAP_POPULATE, fd.as_raw_fd(), offset)
    }

    fn new(
        bytes: usize,
        flags: libc::c_int,
        fd: libc::c_int,
        offset: libc::off_t,
    ) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: asks for a fresh mapping at an address of the kernel's choice; nothing that
        // exists is touched, and the result is checked before use.
        let base = unsafe { libc::mmap(null_mut(), bytes, access, flags, fd, offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { base, bytes })
    }

    /// Where it starts. Valid as long as this value.
    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Its length in bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
