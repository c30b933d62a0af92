//! A fabric: what domains and event queues are opened from.

use std::ffi::{c_int, c_void};

use crate::bindings::*;
use crate::entry::entry;
use crate::objects::{Object, aloud, close_unused, downcast, fid, give, list, object};
use crate::tables::{FabricOps, FidOps, NONE};
use crate::{cntr, cq, domain, eq};
use emp_face::users::Users;

#[repr(C)]
pub struct Fabric {
    fid: Fid,
    ops: *const FabricOps,
    /// The interface that the program was made for.
    api_version: u32,
    pub users: Users,
}

// SAFETY: `repr(C)`, and begins with its fid, whose table no other type has.
unsafe impl Object for Fabric {
    const CLASS: usize = class::FABRIC;

    fn table() -> &'static FidOps {
        &FID
    }
}

static FID: FidOps = FidOps::new(close);
static OPS: FabricOps = FabricOps {
    size: size_of::<FabricOps>(),
    domain: domain::open,
    passive_ep: NONE,
    eq_open: eq::open,
    wait_open: NONE,
    trywait,
    domain2: domain::open2,
};

impl Fabric {
    /// True if the program's entries of errors have the size of the provider's data, with which they are longer: since 1.5.
    pub fn sizes_error_data(&self) -> bool {
        self.api_version >= version(1, 5)
    }
}

entry! {
    /// Entry point of the provider: opens a fabric.
    pub fn open(attr: &FiFabricAttr, into: *mut *mut Fabric, context: *mut c_void) -> c_int {
        let fid = fid(class::FABRIC, context, &FID);
        // SAFETY: libfabric's rules.
        unsafe {
            give(
                Fabric { fid, ops: &OPS, api_version: attr.api_version, users: Users::default() },
                into,
            )
        }
    }

    fn close(fid: *mut Fid) -> c_int {
        // SAFETY: libfabric's rules.
        unsafe { close_unused(fid, |fabric: &Fabric| &fabric.users) }
    }

    /// Zero if the caller may sleep on the wait objects of all these.
    fn trywait(fabric: *mut Fabric, fids: *mut *mut Fid, count: c_int) -> c_int {
        // SAFETY: the same arguments under the same rules.
        aloud("fi_trywait", unsafe { look_for_all(fabric, fids, count) })
    }

    fn look_for_all(_fabric: *mut Fabric, fids: *mut *mut Fid, count: c_int) -> c_int {
        for fid in list!(fids.cast_const(), usize::try_from(count).unwrap_or(0)) {
            let common: &Fid = object!(fid.cast_const());
            let ready = match common.fclass {
                class::CQ => {
                    let queue: &cq::Cq = downcast!(fid);
                    queue.inner.is_ready()
                }
                class::CNTR => {
                    let counter: &cntr::Cntr = downcast!(fid);
                    counter.inner.is_ready()
                }
                class::EQ => {
                    let events: &eq::Eq = downcast!(fid);
                    events.inner.is_ready()
                }
                _ => return -libc::EINVAL,
            };
            if ready {
                return -libc::EAGAIN;
            }
        }
        0
    }
}
