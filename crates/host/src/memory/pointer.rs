//! Segments as pointers: the few places where an address becomes one again, for callers who uphold the invariant of
//! [`crate::memory::process`].

use emp_firmware::Segment;

/// The pointer that an address stands for. It was exposed when the segment was made.
pub(crate) fn pointer(segment: Segment) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(segment.address as usize)
}

/// The bytes of a segment that was posted for sending.
///
/// # Safety
///
/// The segment is covered by the invariant of [`crate::memory::process`] for all of `'a`, and nobody writes to it meanwhile.
pub(crate) unsafe fn bytes<'a>(segment: Segment) -> &'a [u8] {
    if segment.bytes == 0 {
        return &[];
    }
    // SAFETY: by the caller's promise the segment is valid for reads for `'a` and not written; its length is that of an
    // allocation of this process, so it fits isize.
    unsafe { std::slice::from_raw_parts(pointer(segment), segment.bytes as usize) }
}

/// The bytes of a segment that was posted for receiving, to be written.
///
/// # Safety
///
/// The segment is covered by the invariant of [`crate::memory::process`] for all of `'a`, and nobody else uses it meanwhile.
pub(crate) unsafe fn bytes_mut<'a>(segment: Segment) -> &'a mut [u8] {
    if segment.bytes == 0 {
        return &mut [];
    }
    // SAFETY: by the caller's promise the segment is valid for reads and writes for `'a`, and used by nobody else; its length
    // is that of a part of an allocation of this process, so it fits isize.
    unsafe { std::slice::from_raw_parts_mut(pointer(segment), segment.bytes as usize) }
}

/// Copies a segment out.
///
/// # Safety
///
/// The segment is valid for reads, as long as `into`, no part of it, and nobody writes to it meanwhile.
pub(crate) unsafe fn copy_out(from: Segment, into: &mut [u8]) {
    debug_assert_eq!(from.bytes, into.len() as u64);
    if from.bytes != 0 {
        // SAFETY: by the caller's promise.
        unsafe {
            std::ptr::copy_nonoverlapping(pointer(from), into.as_mut_ptr(), into.len());
        }
    }
}

/// Copies bytes into a segment.
///
/// # Safety
///
/// The segment is valid for writes, as long as `from`, no part of it, and nobody uses it meanwhile.
pub(crate) unsafe fn copy_in(to: Segment, from: &[u8]) {
    debug_assert_eq!(to.bytes, from.len() as u64);
    if to.bytes != 0 {
        // SAFETY: by the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), pointer(to), from.len()) };
    }
}

/// Copies from one segment to another of the same length.
///
/// # Safety
///
/// Both are covered by the invariant of [`crate::memory::process`], the second for writes, and the node's lock is held.
pub(crate) unsafe fn copy(from: Segment, to: Segment) {
    debug_assert_eq!(from.bytes, to.bytes);
    if from.bytes != 0 {
        // SAFETY: by the caller's promise. They may overlap: an application may redirect a buffer to itself.
        unsafe { std::ptr::copy(pointer(from), pointer(to), from.bytes as usize) };
    }
}
