//! A file that its owner has given to somebody else to write to: a program whose engine is in a service, which goes on showing the node's state
//! while the program computes or is stopped.
//!
//! Whoever writes does not trust the owner, who may shorten the file at any time: a mapping of it would end the writer with a signal then. So it is
//! written by `pwrite`, which makes it longer again, or fails. That a file is plain and on a tmpfs is looked at before: others may be served by
//! somebody who lets a writer wait for ever. The owner shares the open file, and may have it append: then it grows by each write, until it is seen
//! to be longer than any such file and is left alone.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::layout::{PEERS_MAX, peer_at};

/// Such a file, as its writer has it.
pub(crate) struct Given {
    file: File,
    /// The sequence number that is written next is above all that were: one for all parts, as only its parity and that it differs mean anything.
    sequence: u64,
    /// It is not written to any more.
    over: bool,
}

impl Given {
    /// One to write to.
    ///
    /// # Errors
    ///
    /// It is not plain, not on a tmpfs, or longer than any.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let refuse = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        let found = file.metadata()?;
        if !found.is_file() || found.len() > peer_at(PEERS_MAX) as u64 {
            return refuse("it is no plain file, or too long for a state file");
        }
        if !is_in_memory(&file) {
            return refuse("it is on no tmpfs");
        }
        Ok(Self { file, sequence: 0, over: false })
    }

    /// Writes from byte `at` on, under the sequence number before that. The three calls are in order for whoever reads meanwhile, as each has the
    /// file to itself for as long as it takes.
    pub(crate) fn publish(&mut self, at: usize, bytes: &[u8]) {
        if self.over {
            return;
        }
        let (lock, next) = (at as u64 - 8, self.sequence + 2);
        let write = |bytes: &[u8], at| self.file.write_all_at(bytes, at);
        let written = write(&(self.sequence + 1).to_le_bytes(), lock)
            .and_then(|()| write(bytes, at as u64))
            .and_then(|()| write(&next.to_le_bytes(), lock));
        (self.sequence, self.over) = (next, written.is_err());
    }

    /// Looks whether it is still a state file that somebody can find. To be called before each round of writes.
    pub(crate) fn look(&mut self) {
        let well = |found: &std::fs::Metadata| {
            found.nlink() > 0 && found.len() <= peer_at(PEERS_MAX) as u64
        };
        self.over |= !self.file.metadata().is_ok_and(|found| well(&found));
    }

    /// It is not written to any more.
    pub(crate) const fn is_over(&self) -> bool {
        self.over
    }
}

/// On a tmpfs, where a write waits for nobody but the machine's memory.
pub(crate) fn is_in_memory(file: &File) -> bool {
    // SAFETY: all-zero is a `statfs`, whose fields are numbers.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, and the place is this function's.
    let asked = unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut found) };
    asked == 0 && found.f_type == libc::TMPFS_MAGIC
}
