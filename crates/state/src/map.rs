//! The writer's mapping of its file. The only `unsafe` of the crate but for system calls of [`place`](crate::place), [`process`](crate::process) and
//! [`given`](crate::given).
//!
//! Invariant: `at` is the address of a shared mapping of `words` whole words, which lives as long as the value. Other processes may
//! read and write the file meanwhile, so it is touched by atomic words only. The file is never shortened by this program, and its
//! blocks are allocated before it is mapped, so that no store finds the disk full; who may shorten it, the user and root, could
//! as well kill the process.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A file, mapped to be written.
pub(crate) struct Map {
    at: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to no thread, and all access is atomic.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Makes a file so many bytes long, a multiple of 8, and maps it.
    pub(crate) fn new(file: &File, bytes: usize) -> io::Result<Self> {
        let length = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the descriptor is open, and the call takes no memory.
        let error = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let none = std::ptr::null_mut();
        // SAFETY: the system chooses where, so nothing else is mapped over.
        let at = unsafe { libc::mmap(none, bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, words: bytes / 8 })
    }

    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.words, "it is inside the mapping");
        // SAFETY: by the invariant of the module it lies in the mapping, which is aligned to pages.
        unsafe { self.at.add(index).as_ref() }
    }

    /// Writes words from byte `at` on, under the sequence number before them: odd while they are being written. Words that say that
    /// already are left alone.
    pub(crate) fn publish(&self, at: usize, bytes: &[u8]) {
        let (first, lock) = (at / 8, self.word(at / 8 - 1));
        // There is one writer. What it left odd, as it was killed between, is nobody's any more.
        let before = lock.load(Ordering::Relaxed) & !1;
        lock.store(before | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.put(first, bytes);
        lock.store(before.wrapping_add(2), Ordering::Release);
    }

    /// Writes words that nobody reads yet, or that mean nothing while they are being changed.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        self.put(at / 8, bytes);
    }

    fn put(&self, first: usize, bytes: &[u8]) {
        for (index, word) in bytes.chunks_exact(8).enumerate() {
            let mut value = [0; 8];
            value.copy_from_slice(word);
            let (value, place) = (u64::from_le_bytes(value).to_le(), self.word(first + index));
            if place.load(Ordering::Relaxed) != value {
                place.store(value, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nothing of it is lent any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.words * 8) };
    }
}
