//! Pointers that C passes. What they point to is the caller's promise: an interface says that they are null or valid for the
//! call, and no library can check it. Handles are checked ([`crate::handles`]).

use std::ffi::c_char;

/// What a pointer from C points to; `None` if it is null.
///
/// # Safety
///
/// The pointer is null or valid, and the reference does not outlive the call.
#[inline]
pub unsafe fn look<'a, T>(pointer: *const T) -> Option<&'a T> {
    // SAFETY: null, or valid for the call.
    unsafe { pointer.as_ref() }
}

/// True if so many values can lie in memory one after the other: what is said to be more is no list.
#[inline]
pub const fn is_possible<T>(count: usize) -> bool {
    count <= isize::MAX as usize / if size_of::<T>() == 0 { 1 } else { size_of::<T>() }
}

/// A list from C; empty if null.
///
/// # Safety
///
/// The pointer is null or that of so many valid values, which are [possible](is_possible), and the slice does not outlive the
/// call.
#[inline]
pub unsafe fn slice<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: not null, and that many.
    unsafe { std::slice::from_raw_parts(first, count) }
}

/// Writes a value through a pointer from C, if there is one.
///
/// # Safety
///
/// The pointer is null or valid to be written.
#[inline]
pub unsafe fn store<T>(pointer: *mut T, value: T) {
    if !pointer.is_null() {
        // SAFETY: not null, and valid to be written.
        unsafe { pointer.write(value) };
    }
}

/// Writes a text as C wants it, cut to what fits; returns the length that all of it needs, with its end.
///
/// # Safety
///
/// `into` is null or has room for `room` bytes.
pub unsafe fn put_text(text: &str, into: *mut c_char, room: usize) -> usize {
    if !into.is_null() && room > 0 {
        let count = text.len().min(room - 1);
        // SAFETY: there is room for `count` bytes and a zero.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), into.cast::<u8>(), count);
            into.add(count).write(0);
        }
    }
    text.len() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_to_the_room_there_is() {
        let mut room = [1u8; 4];
        // SAFETY: each call is given the room that is said, or none.
        unsafe {
            assert_eq!(put_text("hello", room.as_mut_ptr().cast(), 4), 6);
            assert_eq!(&room, b"hel\0");
            assert_eq!(put_text("hello", room.as_mut_ptr().cast(), 0), 6);
            assert_eq!(put_text("", room.as_mut_ptr().cast(), 4), 1);
            assert_eq!(&room, b"\0el\0");
            assert_eq!(put_text("hello", std::ptr::null_mut(), 4), 6);
        }
    }

    #[test]
    fn null_is_nothing() {
        // SAFETY: null is allowed.
        unsafe {
            assert_eq!(look(std::ptr::null::<u8>()), None);
            assert!(slice(std::ptr::null::<u8>(), 7).is_empty());
            store(std::ptr::null_mut(), 7);
        }
    }
}
