//! Shared transmit contexts: what several endpoints send by. Here all endpoints of a domain share its node, whoever says so; such
//! a context does nothing, and those that are bound to it do not need it (Sandia's SHMEM closes it before them).

use std::ffi::c_void;
use std::sync::Arc;

use emp_face::users::Use;

use crate::bindings::*;
use crate::domain::{Domain, DomainInner};
use crate::entry::entry;
use crate::objects::{Object, fid, give, take};
use crate::tables::{FidOps, UnsupportedTable};

#[repr(C)]
pub struct Stx {
    fid: Fid,
    ops: *const UnsupportedTable<7>,
    pub domain: Arc<DomainInner>,
    _of: Use,
}

// SAFETY: `repr(C)`, and begins with its fid, whose table no other type has.
unsafe impl Object for Stx {
    const CLASS: usize = class::STX;

    fn table() -> &'static FidOps {
        &FID
    }
}

static FID: FidOps = FidOps::new(close);
/// The table of an endpoint, of which a context has nothing.
static OPS: UnsupportedTable<7> = UnsupportedTable::NEW;

entry! {
    /// Opens one. Whatever attributes are asked for: there are no others.
    pub fn open(
        domain: &Domain, _attr: *mut FiTxAttr, into: *mut *mut Stx, context: *mut c_void,
    ) -> libc::c_int {
        let fid = fid(class::STX, context, &FID);
        let (of, domain) = (domain.users.one(), Arc::clone(&domain.inner));
        // SAFETY: libfabric's rules.
        unsafe { give(Stx { fid, ops: &OPS, domain, _of: of }, into) }
    }

    fn close(fid: *mut Fid) -> libc::c_int {
        // SAFETY: libfabric's rules.
        drop(unsafe { take::<Stx>(fid) });
        0
    }
}
