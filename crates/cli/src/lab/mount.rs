//! The mount system call.
//!
//! Invariant of this module: allocates nothing and locks nothing, so it may be called between fork
//! and exec.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::{io, ptr};

/// Mounts `from` at `to`, for the kinds of mount that take no further data.
pub fn mount(from: Option<&CStr>, to: &CStr, kind: Option<&CStr>, flags: u64) -> io::Result<()> {
    let pointer = |text: Option<&CStr>| text.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: the strings have an end mark and outlive the call; the others may be null.
    let result =
        unsafe { libc::mount(pointer(from), to.as_ptr(), pointer(kind), flags, ptr::null()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
