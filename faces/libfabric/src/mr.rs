//! Memory regions. Messages need none; registering succeeds, because applications do it all the same.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bindings::*;
use crate::domain::Domain;
use crate::entry::enter;
use crate::handle::{Object, fid, give, object, take};
use crate::tables::{FidOps, MrOps};
use crate::users::Use;

#[repr(C)]
pub struct Mr {
    fid: Fid,
    mem_desc: *mut c_void,
    key: u64,
    _of: Use,
}

// SAFETY: `repr(C)`, and begins with its fid.
unsafe impl Object for Mr {}

static FID: FidOps = FidOps { bind, control, ..FidOps::new(close) };
pub static OPS: MrOps = MrOps { size: size_of::<MrOps>(), reg, regv, regattr };

/// For those who do not choose a key.
static NEXT_KEY: AtomicU64 = AtomicU64::new(1);

/// A key that means "choose one".
const KEY_ANY: u64 = u64::MAX;

unsafe fn register(domain: *mut Fid, key: u64, into: *mut *mut Mr, context: *mut c_void) -> c_int {
    let domain: &Domain = object!(domain.cast::<Domain>().cast_const());
    let key = if key == KEY_ANY { NEXT_KEY.fetch_add(1, Ordering::Relaxed) } else { key };
    let fid = fid(class::MR, context, &FID);
    // SAFETY: libfabric's rules, which the caller keeps.
    unsafe { give(Mr { fid, mem_desc: std::ptr::null_mut(), key, _of: domain.users.one() }, into) }
}

unsafe extern "C" fn reg(
    domain: *mut Fid,
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
        unsafe { register(domain, key, into, context) }
    })
}

unsafe extern "C" fn regv(
    domain: *mut Fid,
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
        unsafe { register(domain, key, into, context) }
    })
}

unsafe extern "C" fn regattr(
    domain: *mut Fid,
    attr: *const FiMrAttr,
    _flags: u64,
    into: *mut *mut Mr,
) -> c_int {
    enter(|| -> c_int {
        let attr: &FiMrAttr = object!(attr);
        // SAFETY: libfabric's rules.
        unsafe { register(domain, attr.requested_key, into, attr.context) }
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
