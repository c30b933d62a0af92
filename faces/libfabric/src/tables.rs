//! libfabric's tables of functions: what the core and its callers call an object by.
//!
//! Callers do not look whether an entry is null, so each has a function: one that is not offered says so.

use std::ffi::{c_char, c_int, c_void};

use crate::bindings::*;
use crate::flags::{AvFlags, Directions, EqFlags, MrFlags, OpFlags, QueryFlags};
use crate::{
    av::Av, cntr::Cntr, cq::Cq, domain::Domain, endpoint::Ep, eq::Eq, fabric::Fabric, mr::Mr,
    stx::Stx,
};

/// A function that is not offered, whatever its arguments.
///
/// Invariant: it is called through tables with other argument lists. In the C calling conventions of the platforms that
/// libfabric supports, arguments are the caller's to clean up, and `int` and `ssize_t` come back in the same register.
pub type Unsupported = unsafe extern "C" fn() -> isize;

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::objects`]).
unsafe extern "C" fn unsupported() -> isize {
    -(libc::ENOSYS as isize)
}

/// An entry for a function that is not offered.
pub const NONE: Unsupported = unsupported;

/// A table of which nothing is offered.
#[repr(C)]
pub struct UnsupportedTable<const N: usize> {
    pub size: usize,
    pub entries: [Unsupported; N],
}

impl<const N: usize> UnsupportedTable<N> {
    pub const NEW: Self = Self { size: size_of::<Self>(), entries: [NONE; N] };
}

/// More entries than today's collectives, for cores that have more.
pub static COLLECTIVE: UnsupportedTable<16> = UnsupportedTable::NEW;

#[repr(C)]
pub struct FidOps {
    pub size: usize,
    pub close: unsafe extern "C" fn(*mut Fid) -> c_int,
    pub bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
    pub control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
    pub ops_open: Unsupported,
    pub tostr: unsafe extern "C" fn(*const Fid, *mut c_char, usize) -> c_int,
    pub ops_set: Unsupported,
}

impl FidOps {
    /// The table of an object that can only be closed.
    pub const fn new(close: unsafe extern "C" fn(*mut Fid) -> c_int) -> Self {
        Self {
            size: size_of::<Self>(),
            close,
            bind: no_bind,
            control: no_control,
            ops_open: NONE,
            tostr: no_tostr,
            ops_set: NONE,
        }
    }
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::objects`]).
unsafe extern "C" fn no_bind(_: *mut Fid, _: *mut Fid, _: u64) -> c_int {
    -libc::ENOSYS
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::objects`]).
unsafe extern "C" fn no_control(_: *mut Fid, _: c_int, _: *mut c_void) -> c_int {
    -libc::ENOSYS
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::objects`]).
unsafe extern "C" fn no_tostr(_: *const Fid, _: *mut c_char, _: usize) -> c_int {
    -libc::ENOSYS
}

#[repr(C)]
pub struct FabricOps {
    pub size: usize,
    pub domain:
        unsafe extern "C" fn(*mut Fabric, *mut FiInfo, *mut *mut Domain, *mut c_void) -> c_int,
    pub passive_ep: Unsupported,
    pub eq_open:
        unsafe extern "C" fn(*mut Fabric, *mut FiEqAttr, *mut *mut Eq, *mut c_void) -> c_int,
    pub wait_open: Unsupported,
    pub trywait: unsafe extern "C" fn(*mut Fabric, *mut *mut Fid, c_int) -> c_int,
    pub domain2:
        unsafe extern "C" fn(*mut Fabric, *mut FiInfo, *mut *mut Domain, u64, *mut c_void) -> c_int,
}

#[repr(C)]
pub struct DomainOps {
    pub size: usize,
    pub av_open:
        unsafe extern "C" fn(*mut Domain, *mut FiAvAttr, *mut *mut Av, *mut c_void) -> c_int,
    pub cq_open:
        unsafe extern "C" fn(*mut Domain, *mut FiCqAttr, *mut *mut Cq, *mut c_void) -> c_int,
    pub endpoint:
        unsafe extern "C" fn(*mut Domain, *mut FiInfo, *mut *mut Ep, *mut c_void) -> c_int,
    pub scalable_ep: Unsupported,
    pub cntr_open:
        unsafe extern "C" fn(*mut Domain, *mut FiCntrAttr, *mut *mut Cntr, *mut c_void) -> c_int,
    pub poll_open: Unsupported,
    pub stx_ctx:
        unsafe extern "C" fn(*mut Domain, *mut FiTxAttr, *mut *mut Stx, *mut c_void) -> c_int,
    pub srx_ctx: Unsupported,
    pub query_atomic:
        unsafe extern "C" fn(*mut Domain, u32, u32, *mut FiAtomicAttr, QueryFlags) -> c_int,
    pub query_collective: unsafe extern "C" fn(*mut Domain, u32, *mut c_void, u64) -> c_int,
    pub endpoint2:
        unsafe extern "C" fn(*mut Domain, *mut FiInfo, *mut *mut Ep, u64, *mut c_void) -> c_int,
}

#[repr(C)]
pub struct MrOps {
    pub size: usize,
    pub reg: unsafe extern "C" fn(
        *mut Fid,
        *const c_void,
        usize,
        Directions,
        u64,
        u64,
        MrFlags,
        *mut *mut Mr,
        *mut c_void,
    ) -> c_int,
    pub regv: unsafe extern "C" fn(
        *mut Fid,
        *const iovec,
        usize,
        Directions,
        u64,
        u64,
        MrFlags,
        *mut *mut Mr,
        *mut c_void,
    ) -> c_int,
    pub regattr: unsafe extern "C" fn(*mut Fid, *const FiMrAttr, MrFlags, *mut *mut Mr) -> c_int,
}

#[repr(C)]
pub struct AvOps {
    pub size: usize,
    pub insert: unsafe extern "C" fn(
        *mut Av,
        *const c_void,
        usize,
        *mut FiAddr,
        AvFlags,
        *mut c_void,
    ) -> c_int,
    pub insertsvc: unsafe extern "C" fn(
        *mut Av,
        *const c_char,
        *const c_char,
        *mut FiAddr,
        AvFlags,
        *mut c_void,
    ) -> c_int,
    pub insertsym: unsafe extern "C" fn(
        *mut Av,
        *const c_char,
        usize,
        *const c_char,
        usize,
        *mut FiAddr,
        AvFlags,
        *mut c_void,
    ) -> c_int,
    pub remove: unsafe extern "C" fn(*mut Av, *mut FiAddr, usize, u64) -> c_int,
    pub lookup: unsafe extern "C" fn(*mut Av, FiAddr, *mut c_void, *mut usize) -> c_int,
    pub straddr:
        unsafe extern "C" fn(*mut Av, *const c_void, *mut c_char, *mut usize) -> *const c_char,
    pub av_set: Unsupported,
    /// From here on, what cores after 1.17 have added.
    pub insert_auth_key: Unsupported,
    pub lookup_auth_key: Unsupported,
    pub set_user_id: unsafe extern "C" fn(*mut Av, FiAddr, FiAddr, u64) -> c_int,
}

#[repr(C)]
pub struct CqOps {
    pub size: usize,
    pub read: unsafe extern "C" fn(*mut Cq, *mut c_void, usize) -> isize,
    pub readfrom: unsafe extern "C" fn(*mut Cq, *mut c_void, usize, *mut FiAddr) -> isize,
    pub readerr: unsafe extern "C" fn(*mut Cq, *mut FiCqErrEntry, u64) -> isize,
    pub sread: unsafe extern "C" fn(*mut Cq, *mut c_void, usize, *const c_void, c_int) -> isize,
    pub sreadfrom: unsafe extern "C" fn(
        *mut Cq,
        *mut c_void,
        usize,
        *mut FiAddr,
        *const c_void,
        c_int,
    ) -> isize,
    pub signal: unsafe extern "C" fn(*mut Cq) -> c_int,
    pub strerror:
        unsafe extern "C" fn(*mut Cq, c_int, *const c_void, *mut c_char, usize) -> *const c_char,
}

#[repr(C)]
pub struct CntrOps {
    pub size: usize,
    pub read: unsafe extern "C" fn(*mut Cntr) -> u64,
    pub readerr: unsafe extern "C" fn(*mut Cntr) -> u64,
    pub add: unsafe extern "C" fn(*mut Cntr, u64) -> c_int,
    pub set: unsafe extern "C" fn(*mut Cntr, u64) -> c_int,
    pub wait: unsafe extern "C" fn(*mut Cntr, u64, c_int) -> c_int,
    pub adderr: unsafe extern "C" fn(*mut Cntr, u64) -> c_int,
    pub seterr: unsafe extern "C" fn(*mut Cntr, u64) -> c_int,
}

#[repr(C)]
pub struct EqOps {
    pub size: usize,
    pub read: unsafe extern "C" fn(*mut Eq, *mut u32, *mut c_void, usize, EqFlags) -> isize,
    pub readerr: unsafe extern "C" fn(*mut Eq, *mut FiEqErrEntry, EqFlags) -> isize,
    pub write: unsafe extern "C" fn(*mut Eq, u32, *const c_void, usize, u64) -> isize,
    pub sread: unsafe extern "C" fn(*mut Eq, *mut u32, *mut c_void, usize, c_int, EqFlags) -> isize,
    pub strerror:
        unsafe extern "C" fn(*mut Eq, c_int, *const c_void, *mut c_char, usize) -> *const c_char,
}

#[repr(C)]
pub struct EpOps {
    pub size: usize,
    pub cancel: unsafe extern "C" fn(*mut Fid, *mut c_void) -> isize,
    pub getopt: unsafe extern "C" fn(*mut Fid, c_int, c_int, *mut c_void, *mut usize) -> c_int,
    pub setopt: unsafe extern "C" fn(*mut Fid, c_int, c_int, *const c_void, usize) -> c_int,
    pub tx_ctx: Unsupported,
    pub rx_ctx: Unsupported,
    pub rx_size_left: Unsupported,
    pub tx_size_left: Unsupported,
}

#[repr(C)]
pub struct CmOps {
    pub size: usize,
    pub setname: Unsupported,
    pub getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
    pub others: [Unsupported; 7],
}

type Desc = *mut *mut c_void;
type Context = *mut c_void;

#[repr(C)]
pub struct MsgOps {
    pub size: usize,
    pub recv:
        unsafe extern "C" fn(*mut Ep, *mut c_void, usize, *mut c_void, FiAddr, Context) -> isize,
    pub recvv: unsafe extern "C" fn(*mut Ep, *const iovec, Desc, usize, FiAddr, Context) -> isize,
    pub recvmsg: unsafe extern "C" fn(*mut Ep, *const FiMsg, OpFlags) -> isize,
    pub send:
        unsafe extern "C" fn(*mut Ep, *const c_void, usize, *mut c_void, FiAddr, Context) -> isize,
    pub sendv: unsafe extern "C" fn(*mut Ep, *const iovec, Desc, usize, FiAddr, Context) -> isize,
    pub sendmsg: unsafe extern "C" fn(*mut Ep, *const FiMsg, OpFlags) -> isize,
    pub inject: unsafe extern "C" fn(*mut Ep, *const c_void, usize, FiAddr) -> isize,
    pub senddata: unsafe extern "C" fn(
        *mut Ep,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        FiAddr,
        Context,
    ) -> isize,
    pub injectdata: unsafe extern "C" fn(*mut Ep, *const c_void, usize, u64, FiAddr) -> isize,
}

#[repr(C)]
pub struct TaggedOps {
    pub size: usize,
    pub recv: unsafe extern "C" fn(
        *mut Ep,
        *mut c_void,
        usize,
        *mut c_void,
        FiAddr,
        u64,
        u64,
        Context,
    ) -> isize,
    pub recvv: unsafe extern "C" fn(
        *mut Ep,
        *const iovec,
        Desc,
        usize,
        FiAddr,
        u64,
        u64,
        Context,
    ) -> isize,
    pub recvmsg: unsafe extern "C" fn(*mut Ep, *const FiMsgTagged, OpFlags) -> isize,
    pub send: unsafe extern "C" fn(
        *mut Ep,
        *const c_void,
        usize,
        *mut c_void,
        FiAddr,
        u64,
        Context,
    ) -> isize,
    pub sendv:
        unsafe extern "C" fn(*mut Ep, *const iovec, Desc, usize, FiAddr, u64, Context) -> isize,
    pub sendmsg: unsafe extern "C" fn(*mut Ep, *const FiMsgTagged, OpFlags) -> isize,
    pub inject: unsafe extern "C" fn(*mut Ep, *const c_void, usize, FiAddr, u64) -> isize,
    pub senddata: unsafe extern "C" fn(
        *mut Ep,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        FiAddr,
        u64,
        Context,
    ) -> isize,
    pub injectdata: unsafe extern "C" fn(*mut Ep, *const c_void, usize, u64, FiAddr, u64) -> isize,
}

#[repr(C)]
pub struct RmaOps {
    pub size: usize,
    pub read: unsafe extern "C" fn(
        *mut Ep,
        *mut c_void,
        usize,
        *mut c_void,
        FiAddr,
        u64,
        u64,
        Context,
    ) -> isize,
    pub readv: unsafe extern "C" fn(
        *mut Ep,
        *const iovec,
        Desc,
        usize,
        FiAddr,
        u64,
        u64,
        Context,
    ) -> isize,
    pub readmsg: unsafe extern "C" fn(*mut Ep, *const FiMsgRma, OpFlags) -> isize,
    pub write: unsafe extern "C" fn(
        *mut Ep,
        *const c_void,
        usize,
        *mut c_void,
        FiAddr,
        u64,
        u64,
        Context,
    ) -> isize,
    pub writev: unsafe extern "C" fn(
        *mut Ep,
        *const iovec,
        Desc,
        usize,
        FiAddr,
        u64,
        u64,
        Context,
    ) -> isize,
    pub writemsg: unsafe extern "C" fn(*mut Ep, *const FiMsgRma, OpFlags) -> isize,
    pub inject: unsafe extern "C" fn(*mut Ep, *const c_void, usize, FiAddr, u64, u64) -> isize,
    pub writedata: unsafe extern "C" fn(
        *mut Ep,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        FiAddr,
        u64,
        u64,
        Context,
    ) -> isize,
    pub injectdata:
        unsafe extern "C" fn(*mut Ep, *const c_void, usize, u64, FiAddr, u64, u64) -> isize,
}

/// Of a datatype and operator, whether there is such an operation, and how many elements it takes.
type Valid = unsafe extern "C" fn(*mut Ep, u32, u32, *mut usize) -> c_int;

#[repr(C)]
pub struct AtomicOps {
    pub size: usize,
    pub write: unsafe extern "C" fn(
        *mut Ep,
        *const c_void,
        usize,
        *mut c_void,
        FiAddr,
        u64,
        u64,
        u32,
        u32,
        Context,
    ) -> isize,
    pub writev: unsafe extern "C" fn(
        *mut Ep,
        *const FiIoc,
        Desc,
        usize,
        FiAddr,
        u64,
        u64,
        u32,
        u32,
        Context,
    ) -> isize,
    pub writemsg: unsafe extern "C" fn(*mut Ep, *const FiMsgAtomic, OpFlags) -> isize,
    pub inject:
        unsafe extern "C" fn(*mut Ep, *const c_void, usize, FiAddr, u64, u64, u32, u32) -> isize,
    pub readwrite: unsafe extern "C" fn(
        *mut Ep,
        *const c_void,
        usize,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        FiAddr,
        u64,
        u64,
        u32,
        u32,
        Context,
    ) -> isize,
    pub readwritev: unsafe extern "C" fn(
        *mut Ep,
        *const FiIoc,
        Desc,
        usize,
        *const FiIoc,
        Desc,
        usize,
        FiAddr,
        u64,
        u64,
        u32,
        u32,
        Context,
    ) -> isize,
    pub readwritemsg: unsafe extern "C" fn(
        *mut Ep,
        *const FiMsgAtomic,
        *const FiIoc,
        Desc,
        usize,
        OpFlags,
    ) -> isize,
    pub compwrite: unsafe extern "C" fn(
        *mut Ep,
        *const c_void,
        usize,
        *mut c_void,
        *const c_void,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        FiAddr,
        u64,
        u64,
        u32,
        u32,
        Context,
    ) -> isize,
    pub compwritev: unsafe extern "C" fn(
        *mut Ep,
        *const FiIoc,
        Desc,
        usize,
        *const FiIoc,
        Desc,
        usize,
        *const FiIoc,
        Desc,
        usize,
        FiAddr,
        u64,
        u64,
        u32,
        u32,
        Context,
    ) -> isize,
    pub compwritemsg: unsafe extern "C" fn(
        *mut Ep,
        *const FiMsgAtomic,
        *const FiIoc,
        Desc,
        usize,
        *const FiIoc,
        Desc,
        usize,
        OpFlags,
    ) -> isize,
    pub writevalid: Valid,
    pub readwritevalid: Valid,
    pub compwritevalid: Valid,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_the_sizes_of_c() {
        assert_eq!(size_of::<FidOps>(), 56);
        assert_eq!(size_of::<FabricOps>(), 56);
        assert_eq!(size_of::<DomainOps>(), 96);
        assert_eq!(size_of::<MrOps>(), 32);
        assert_eq!(size_of::<AvOps>(), 64 + 24);
        assert_eq!(size_of::<CqOps>(), 64);
        assert_eq!(size_of::<CntrOps>(), 64);
        assert_eq!(size_of::<EqOps>(), 48);
        assert_eq!(size_of::<EpOps>(), 64);
        assert_eq!(size_of::<CmOps>(), 80);
        assert_eq!(size_of::<MsgOps>(), 80);
        assert_eq!(size_of::<TaggedOps>(), 80);
        assert_eq!(size_of::<RmaOps>(), 80);
        assert_eq!(size_of::<AtomicOps>(), 112);
    }

    #[test]
    fn what_is_not_offered_says_so() {
        // SAFETY: the function takes nothing and touches nothing.
        assert_eq!(unsafe { COLLECTIVE.entries[0]() }, -38);
    }
}
