//! Objects between C and Rust.
//!
//! Invariant of the whole face, and of every `SAFETY` comment that speaks of libfabric's rules: pointers that callers
//! pass are what the interface says. An object is one that this provider made and that was not closed yet; a pointer to
//! an attribute, entry, list or buffer is null or valid for the call; and calls that change or close an object are not
//! made at the same time as others that use it.
//!
//! Functions called from C do not unwind: each runs in [`crate::entry::enter`].

use std::ffi::{c_int, c_void};

use crate::bindings::{Fid, iovec};
use crate::core;
use crate::tables::FidOps;
use emp_face::log;
use emp_face::pointers::is_possible;
pub use emp_face::pointers::{look, put_text, slice};
use emp_face::users::Users;

/// A structure whose first member is a [`Fid`].
///
/// # Safety
///
/// `repr(C)`, with the `Fid` first, whose class and table are these and which no other type's are.
pub unsafe trait Object: Sized {
    /// Its class of objects.
    const CLASS: usize;

    /// The table in its fid: that it is ours says that the object is.
    fn table() -> &'static FidOps;
}

/// An object that C passes as one of any kind: `None` if it is null, of another class, or another provider's.
///
/// # Safety
///
/// Null or an open object, of whatever provider: all begin with the same members.
pub unsafe fn down<'a, T: Object>(fid: *const Fid) -> Option<&'a T> {
    // SAFETY: the caller says so.
    let common = unsafe { look(fid) }?;
    let ours = common.fclass == T::CLASS && std::ptr::eq(common.ops, T::table());
    // SAFETY: the table is that of objects of type `T` alone, which are made here.
    if ours { unsafe { look(fid.cast::<T>()) } } else { None }
}

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
        return aloud("fi_close", -libc::EBUSY);
    }
    // SAFETY: the caller does not use it again.
    drop(unsafe { take::<T>(fid) });
    0
}

/// What a call returns; if it is refused, the log has one line of that: not each program looks at the number.
#[inline]
pub fn aloud(call: &str, result: c_int) -> c_int {
    if result < 0 && result != -libc::EAGAIN {
        log::warn(&format!("{call}: {}", core::describe(-result)));
    }
    result
}

/// An iovec of one.
#[inline]
pub fn one(buffer: *const c_void, len: usize) -> [iovec; 1] {
    [iovec { iov_base: buffer.cast_mut(), iov_len: len }]
}

/// The object behind a pointer from C; ends the function with `-EINVAL` if it is null.
macro_rules! object {
    ($pointer:expr) => {
        // SAFETY: libfabric's rules (see above); the reference is used within the call only.
        match unsafe { $crate::objects::look($pointer) } {
            Some(object) => object,
            None => return -(libc::EINVAL as i32) as _,
        }
    };
}
pub(crate) use object;

/// The object of this type behind a fid from C; ends the function with `-EINVAL` if it is none.
macro_rules! downcast {
    ($fid:expr) => {
        // SAFETY: libfabric's rules (see above); the reference is used within the call only.
        match unsafe { $crate::objects::down($fid.cast_const()) } {
            Some(object) => object,
            None => return -(libc::EINVAL as i32) as _,
        }
    };
}
pub(crate) use downcast;

/// A list from C; ends the function with `-EINVAL` if it is said to be longer than `$most`, or than memory can be.
macro_rules! list {
    ($first:expr, $count:expr) => {
        $crate::objects::list!($first, $count, usize::MAX)
    };
    ($first:expr, $count:expr, $most:expr) => {{
        // SAFETY: libfabric's rules (see above); the slice is used within the call only.
        match unsafe { $crate::objects::bounded($first, $count, $most) } {
            Some(list) => list,
            None => return -(libc::EINVAL as i32) as _,
        }
    }};
}
pub(crate) use list;

/// The segments of one operation from C, of whatever kind: likewise, not more than any operation can have.
macro_rules! parts {
    ($first:expr, $count:expr) => {
        $crate::objects::list!($first, $count, $crate::info::IOV_LIMIT)
    };
}
pub(crate) use parts;

/// A list of at most so many values: `None` if it is said to be longer, or too long to be one.
///
/// # Safety
///
/// As [`slice`].
#[inline]
pub unsafe fn bounded<'a, T>(first: *const T, count: usize, most: usize) -> Option<&'a [T]> {
    let possible = first.is_null() || count <= most && is_possible::<T>(count);
    // SAFETY: the caller says so, and that many can be.
    possible.then(|| unsafe { slice(first, count) })
}

/// Writes a value through a pointer from C, if there is one.
macro_rules! store {
    ($pointer:expr, $value:expr) => {
        if !$pointer.is_null() {
            // SAFETY: not null, and by libfabric's rules (see above) valid to be written.
            unsafe { $pointer.write($value) }
        }
    };
}
pub(crate) use store;
