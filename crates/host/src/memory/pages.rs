//! Memory for long messages: page-aligned, on huge pages where the kernel has them.
//!
//! What is sent by reference ([`emp_link`]'s long frames) is counted page by page in the kernel: at the sender when it is named, at a
//! receiver on the same machine when it is copied out, each time in a cache line that the other processor has just written. Of
//! a huge page all 512 small ones are counted in one place.
//!
//! # Invariant
//!
//! A [`Mapping`] is memory of this process alone, mapped readable and writable and zeroed by the kernel, and stays where it is
//! until the last buffer in it is dropped. Buffers are disjoint parts of it, each shown only through its own `PageBuffer`.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use crate::memory::buffer::{ReceiveBuffer, SendBuffer};

/// Bytes of a huge page, as most processors have it. With others the memory is as good as any.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// From so many bytes on a mapping is of huge pages, so that at most half of one is of no use.
const HUGE_BYTES_MIN: usize = HUGE_PAGE_BYTES / 2;
/// Bytes of a small page. Mappings are made of them; buffers of a page or more begin with one.
const PAGE_BYTES: usize = 4096;
/// Shorter buffers begin with a line of the cache.
const LINE_BYTES: usize = 64;
/// How far from the start of their page such buffers begin, in bytes. At the start are the words that rings of frames are looked at by: a
/// processor takes a load for one of what was just stored if the last twelve bits of both addresses are the same, and waits.
const SHORT_LEAD_BYTES: usize = 18 * LINE_BYTES;

/// Memory from the kernel.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: memory of the process; nothing about it is tied to a thread, and nothing is read or written through a `Mapping`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// At least so many bytes, from where a huge page begins if there are half as many as one has or more.
    fn new(bytes: usize) -> io::Result<Self> {
        let room = if bytes >= HUGE_BYTES_MIN { HUGE_PAGE_BYTES } else { 0 };
        let usable = bytes.max(1).checked_next_multiple_of(room.max(PAGE_BYTES));
        let all = usable.and_then(|usable| usable.checked_add(room));
        let (Some(usable), Some(all)) = (usable, all) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at a place of the kernel's choice.
        let mapped = unsafe { libc::mmap(null_mut(), all, protection, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let before = if room > 0 { mapped.cast::<u8>().align_offset(HUGE_PAGE_BYTES) } else { 0 };
        // SAFETY: both ends of what was mapped just now, and nobody knows of yet; `before` is at most `room`.
        let start = unsafe {
            let start = mapped.cast::<u8>().add(before);
            unmap(mapped.cast(), before);
            unmap(start.add(usable), room - before);
            NonNull::new_unchecked(start)
        };
        if room > 0 {
            // SAFETY: advice about the mapping, which changes nothing of what is in it. A kernel without huge pages refuses.
            unsafe { libc::madvise(start.as_ptr().cast(), usable, libc::MADV_HUGEPAGE) };
        }
        Ok(Self { start, bytes: usable })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and no buffer is left in it.
        unsafe { unmap(self.start.as_ptr(), self.bytes) };
    }
}

/// Gives memory back, if it is any.
///
/// # Safety
///
/// It is mapped, and used by nobody.
unsafe fn unmap(start: *mut u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the caller's promise.
        unsafe { libc::munmap(start.cast(), bytes) };
    }
}

/// A buffer for long messages, zeroed at first, on huge pages where the kernel has them (`emp doctor` says) and 1 MiB or more is asked for.
/// It is a slice of bytes.
pub struct PageBuffer {
    start: NonNull<u8>,
    bytes: usize,
    /// Keeps the memory, if there is any.
    _mapping: Option<Arc<Mapping>>,
}

// SAFETY: a buffer owns its part of the mapping as a `Box<[u8]>` owns its contents.
unsafe impl Send for PageBuffer {}
// SAFETY: as above.
unsafe impl Sync for PageBuffer {}

impl PageBuffer {
    /// A buffer of so many bytes. Fails if there is no such memory.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let mut one = Self::several(1, bytes)?;
        Ok(one.pop().expect("one was made"))
    }

    /// Several buffers of so many bytes each, one behind the other: where each by itself is shorter than a huge page (2 MiB), they
    /// share some. The memory is given back when the last is dropped. Fails if there is no such memory.
    pub fn several(count: usize, bytes: usize) -> io::Result<Vec<Self>> {
        let (alignment, lead) =
            if bytes < PAGE_BYTES { (LINE_BYTES, SHORT_LEAD_BYTES) } else { (PAGE_BYTES, 0) };
        let step = bytes.max(1).checked_next_multiple_of(alignment);
        let all = step.and_then(|step| step.checked_mul(count)?.checked_add(lead));
        let (Some(step), Some(all)) = (step, all) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        let mapping = Arc::new(Mapping::new(all)?);
        let at = |index: usize| {
            // SAFETY: `index` is below `count`, so this is within the mapping, which has `count` steps behind the lead.
            let start = unsafe { mapping.start.add(lead + index * step) };
            Self { start, bytes, _mapping: Some(Arc::clone(&mapping)) }
        };
        Ok((0..count).map(at).collect())
    }
}

impl Default for PageBuffer {
    /// An empty one, which takes no memory.
    fn default() -> Self {
        Self { start: NonNull::dangling(), bytes: 0, _mapping: None }
    }
}

impl Deref for PageBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: see the module's invariant; borrowed as long as the buffer is.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for PageBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and alone as the buffer is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl fmt::Debug for PageBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageBuffer").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

// SAFETY: the memory stays at its address when the value is moved, readable as long as the value lives, and is its own.
unsafe impl SendBuffer for PageBuffer {
    #[inline(always)]
    fn visit(&self, run: &mut dyn FnMut(*const u8, usize)) {
        run(self.start.as_ptr(), self.bytes);
    }
}

// SAFETY: as above; it is initialised (zeroed by the kernel) and writable.
unsafe impl ReceiveBuffer for PageBuffer {
    #[inline(always)]
    fn visit_mut(&mut self, run: &mut dyn FnMut(*mut u8, usize)) {
        run(self.start.as_ptr(), self.bytes);
    }
}

// SAFETY: as above; nobody can write to it, since `Arc::get_mut` and its kin need the only handle and the request has one.
unsafe impl SendBuffer for Arc<PageBuffer> {
    #[inline(always)]
    fn visit(&self, run: &mut dyn FnMut(*const u8, usize)) {
        run(self.start.as_ptr(), self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_zeroed_disjoint_and_aligned() {
        for bytes in [1, 4096, 5000, 1 << 20, (2 << 20) + 1] {
            let mut buffers = PageBuffer::several(3, bytes).unwrap();
            for (fill, buffer) in (1u8..).zip(&mut buffers) {
                let alignment = if bytes < PAGE_BYTES { LINE_BYTES } else { PAGE_BYTES };
                assert_eq!((buffer.len(), buffer.as_ptr() as usize % alignment), (bytes, 0));
                assert!(buffer.iter().all(|byte| *byte == 0));
                buffer.fill(fill);
            }
            let first = buffers.remove(0);
            drop(buffers.pop());
            assert!(first.iter().all(|byte| *byte == 1), "{bytes}");
            assert!(buffers[0].iter().all(|byte| *byte == 2), "{bytes}");
        }
    }

    #[test]
    fn long_ones_begin_where_a_huge_page_does() {
        let buffer = PageBuffer::new(3 << 20).unwrap();
        assert_eq!(buffer.as_ptr() as usize % HUGE_PAGE_BYTES, 0);
    }

    #[test]
    fn nothing_and_more_than_there_is() {
        assert!(PageBuffer::new(0).unwrap().is_empty());
        assert!(PageBuffer::default().is_empty());
        assert!(PageBuffer::several(0, 100).unwrap().is_empty());
        assert!(PageBuffer::new(usize::MAX).is_err());
        assert!(PageBuffer::new(usize::MAX / 2).is_err());
        assert!(PageBuffer::several(usize::MAX, 4096).is_err());
        assert!(PageBuffer::several(usize::MAX, 0).is_err());
    }
}
