//! Objects between C and Rust.
//!
//! Invariant of the whole face, and of every `SAFETY` comment that speaks of libfabric's rules: pointers that callers
//! pass are what the interface says. An object is one that this provider made and that was not closed yet; a pointer to
//! an attribute, entry, list or buffer is null or valid for the call; and calls that change or close an object are not
//! made at the same time as others that use it.
//!
//! Functions called from C do not unwind: each runs in [`crate::entry::enter`].

use std::ffi::{c_char, c_int, c_void};

use crate::bindings::{Fid, iovec};
use crate::tables::FidOps;
use crate::users::Users;

/// A structure whose first member is a [`Fid`].
///
/// # Safety
///
/// `repr(C)`, with the `Fid` first.
pub unsafe trait Object: Sized {}

/// The common part of a new object.
pub fn fid(fclass: usize, context: *mut c_void, ops: &'static FidOps) -> Fid {
    Fid { fclass, context, ops }
}

/// Hands a new object to C.
///
/// # Safety
///
/// `into` follows libfabric's rules.
pub unsafe fn give<T: Object>(object: T, into: *mut *mut T) -> c_int {
    if into.is_null() {
        return -libc::EINVAL;
    }
    // SAFETY: not null, and by libfabric's rules valid for a pointer.
    unsafe { into.write(Box::into_raw(Box::new(object))) };
    0
}

/// Takes an object back from C.
///
/// # Safety
///
/// `fid` is an object of type `T`, by libfabric's rules; it is not used again.
pub unsafe fn take<T: Object>(fid: *mut Fid) -> Option<Box<T>> {
    // SAFETY: objects begin with their fid (`Object`) and come from `Box::into_raw` in `give`.
    (!fid.is_null()).then(|| unsafe { Box::from_raw(fid.cast::<T>()) })
}

/// Closes an object that has no children and nothing bound to it; returns `-EBUSY` if it has.
///
/// # Safety
///
/// As [`take`]; the object is used again only if the result is not zero.
pub unsafe fn close_unused<T: Object>(fid: *mut Fid, users: impl Fn(&T) -> &Users) -> c_int {
    // SAFETY: objects begin with their fid (`Object`).
    let Some(object) = (unsafe { look(fid.cast::<T>()) }) else { return -libc::EINVAL };
    if users(object).any() {
        return -libc::EBUSY;
    }
    // SAFETY: the caller does not use it again.
    drop(unsafe { take::<T>(fid) });
    0
}

/// What a pointer from C points to.
///
/// # Safety
///
/// The pointer follows libfabric's rules and the reference does not outlive the call.
#[inline]
pub unsafe fn look<'a, T>(pointer: *const T) -> Option<&'a T> {
    // SAFETY: null, or valid for the call.
    unsafe { pointer.as_ref() }
}

/// A list from C; empty if null.
///
/// # Safety
///
/// The list follows libfabric's rules and the slice does not outlive the call.
#[inline]
pub unsafe fn slice<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: not null, and by libfabric's rules that many.
    unsafe { std::slice::from_raw_parts(first, count) }
}

/// An iovec of one.
#[inline]
pub fn one(buffer: *const c_void, len: usize) -> [iovec; 1] {
    [iovec { iov_base: buffer.cast_mut(), iov_len: len }]
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

/// The object behind a pointer from C; ends the function with `-EINVAL` if it is null.
macro_rules! object {
    ($pointer:expr) => {
        // SAFETY: libfabric's rules (see `handle`); the reference is used within the call only.
        match unsafe { $crate::handle::look($pointer) } {
            Some(object) => object,
            None => return -(libc::EINVAL as i32) as _,
        }
    };
}
pub(crate) use object;

/// A list from C.
macro_rules! list {
    ($first:expr, $count:expr) => {
        // SAFETY: libfabric's rules (see `handle`); the slice is used within the call only.
        unsafe { $crate::handle::slice($first, $count) }
    };
}
pub(crate) use list;

/// Writes a value through a pointer from C, if there is one.
macro_rules! store {
    ($pointer:expr, $value:expr) => {
        if !$pointer.is_null() {
            // SAFETY: not null, and by libfabric's rules (see `handle`) valid to be written.
            unsafe { $pointer.write($value) }
        }
    };
}
pub(crate) use store;
