//! Rights that this program's file lends (`setcap cap_net_raw+ep emp`) and its user has not. Foreign code, which users choose, must
//! not run with them.
//!
//! Invariant of this module: the kernel's structures are as `<linux/capability.h>` has them, version 3.
#![allow(unsafe_code)]

use std::io;

/// `_LINUX_CAPABILITY_VERSION_3`: two words of each set.
const VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Word {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Whether the kernel gave this process rights with its file.
pub fn there() -> bool {
    // SAFETY: takes a number and gives one.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Gives them back, before anything foreign is loaded; only while this thread is the only one, as others would keep theirs.
///
/// # Errors
///
/// If the kernel refuses: then nothing may be loaded.
pub fn give_back() -> io::Result<()> {
    if !there() {
        return Ok(());
    }
    let header = Header { version: VERSION, pid: 0 };
    let none = [Word::default(); 2];
    // SAFETY: both live until the call returns, and are as this version has them.
    match unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
