//! Memory regions. Messages need none; registering succeeds, because applications do it all the same.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bindings::*;
use crate::entry::enter;
use crate::handle::{Object, fid, give, object, take};
use crate::tables::{FidOps, MrOps};

#[repr(C)]
pub struct Mr {
    fid: Fid,
    mem_desc: *mut c_void,
    key: u64,
}

// SAFETY: `repr(C)`, and begins with its fid.
unsafe impl Object for Mr {}

static FID: FidOps = FidOps { bind, control, ..FidOps::new(close) };
pub static OPS: MrOps = MrOps { size: size_of::<MrOps>(), reg, regv, regattr };

/// For those who do not choose a key.
static NEXT_KEY: AtomicU64 = AtomicU64::new(1);

/// A key that means "choose one".
const KEY_ANY: u64 = u64::MAX;

unsafe fn register(key: u64, into: *mut *mut Mr, context: *mut c_void) -> c_int {
    let key = if key == KEY_ANY { NEXT_KEY.fetch_add(1, Ordering::Relaxed) } else { key };
    let fid = fid(class::MR, context, &FID);
    // SAFETY: libfabric's rules, which the caller keeps.
    unsafe { give(Mr { fid, mem_desc: std::ptr::null_mut(), key }, into) }
}

unsafe extern "C" fn reg(
    _domain: *mut Fid,
    _buf: *const c_void,
    _len: usize,
    _access: u64,
    _offset: u64,
    key: u64,
    _flags: u64,
    into: *mut *mut Mr,
    context: *mut c_void,
) -> c_int {
    enter(|| -> c_int {
        // SAFETY: libfabric's rules.
        unsafe { register(key, into, context) }
    })
}

unsafe extern "C" fn regv(
    _domain: *mut Fid,
    _iov: *const iovec,
    _count: usize,
    _access: u64,
    _offset: u64,
    key: u64,
    _flags: u64,
    into: *mut *mut Mr,
    context: *mut c_void,
) -> c_int {
    enter(|| -> c_int {
        // SAFETY: libfabric's rules.
        unsafe { register(key, into, context) }
    })
}

unsafe extern "C" fn regattr(
    _domain: *mut Fid,
    attr: *const FiMrAttr,
    _flags: u64,
    into: *mut *mut Mr,
) -> c_int {
    enter(|| -> c_int {
        let attr: &FiMrAttr = object!(attr);
        // SAFETY: libfabric's rules.
        unsafe { register(attr.requested_key, into, attr.context) }
    })
}

unsafe extern "C" fn bind(_: *mut Fid, _: *mut Fid, _: u64) -> c_int {
    enter(|| -> c_int { 0 })
}

unsafe extern "C" fn control(_: *mut Fid, command: c_int, _: *mut c_void) -> c_int {
    enter(|| -> c_int {
        if command == control::ENABLE { 0 } else { -libc::ENOSYS }
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    enter(|| -> c_int {
        // SAFETY: libfabric's rules.
        drop(unsafe { take::<Mr>(fid) });
        0
    })
}
