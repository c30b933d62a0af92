//! Locks of single bytes of a file, held by an open file and not by a process (`F_OFD_SETLK`): two opens of one process exclude
//! each other, and all are given back when the last copy of the descriptor is closed, also by a crash.
//!
//! # Invariant
//!
//! As in [`system`](crate::system): the one pointer leads to a live `flock` of this function.

use std::fs::File;
use std::io;
use std::mem::zeroed;
use std::os::fd::AsRawFd;

use crate::system::check;

/// Takes a byte's lock. False: somebody else has it.
pub(crate) fn try_lock(file: &File, byte: u64) -> io::Result<bool> {
    match request(file, libc::F_OFD_SETLK, libc::F_WRLCK, (byte, 1)) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives a byte's lock back.
pub(crate) fn unlock(file: &File, byte: u64) -> io::Result<()> {
    request(file, libc::F_OFD_SETLK, libc::F_UNLCK, (byte, 1)).map(drop)
}

/// True if another open file has a byte's lock.
pub(crate) fn is_locked(file: &File, byte: u64) -> io::Result<bool> {
    Ok(request(file, libc::F_OFD_GETLK, libc::F_WRLCK, (byte, 1))? != libc::F_UNLCK)
}

/// True if no other open file has a lock of any byte.
pub(crate) fn is_unused(file: &File) -> io::Result<bool> {
    // A length of 0 is all that there is from the first byte on.
    Ok(request(file, libc::F_OFD_GETLK, libc::F_WRLCK, (0, 0))? == libc::F_UNLCK)
}

/// Puts a request; returns the kind of lock that the kernel left in it.
fn request(
    file: &File,
    command: libc::c_int,
    kind: libc::c_int,
    (first, bytes): (u64, u64),
) -> io::Result<libc::c_int> {
    // SAFETY: all-zero is a valid `flock`.
    let mut lock: libc::flock = unsafe { zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = first as libc::off_t;
    lock.l_len = bytes as libc::off_t;
    // SAFETY: see the module's invariant.
    check(unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) })?;
    Ok(libc::c_int::from(lock.l_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_belongs_to_one_open_file_until_that_is_closed() {
        let path = tempfile::NamedTempFile::new().expect("a file");
        let open = || File::options().read(true).write(true).open(path.path()).expect("it opens");
        let (a, b) = (open(), open());
        assert!(try_lock(&a, 7).expect("it works"));
        assert!(!try_lock(&b, 7).expect("it works") && is_locked(&b, 7).expect("it works"));
        assert!(!is_locked(&b, 8).expect("it works"), "another byte");
        assert!(is_unused(&a).expect("it works"), "but for its own");
        assert!(!is_unused(&b).expect("it works"));
        drop(a);
        assert!(is_unused(&b).expect("it works"));
        assert!(!is_locked(&b, 7).expect("it works") && try_lock(&b, 7).expect("it works"));
        unlock(&b, 7).expect("it works");
        assert!(try_lock(&open(), 7).expect("it works"));
    }
}
