//! Memory regions: what peers may read and write. Local buffers need none; registering them succeeds all the same,
//! because applications do it.
//!
//! Keys are the application's own, or chosen here if the domain was opened so (`FI_MR_PROV_KEY`).

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use emp_host::{PostError, Rights, Segment};

use crate::bindings::*;
use crate::cntr::Cntr;
use crate::domain::{Domain, DomainInner};
use crate::endpoint::Ep;
use crate::entry::entry;
use crate::flags::{Directions, MrFlags};
use crate::objects::{Object, aloud, downcast, fid, give, list, object, one, take};
use crate::status::refusal;
use crate::tables::{FidOps, MrOps};
use crate::transfer::segment;
use emp_face::log;
use emp_face::users::Use;

#[repr(C)]
pub struct Mr {
    fid: Fid,
    mem_desc: *mut c_void,
    key: u64,
    domain: Arc<DomainInner>,
    /// False: nobody may reach it.
    exported: bool,
    /// Counters that are bound to it.
    uses: Mutex<Vec<Use>>,
    _of: Use,
}

// SAFETY: `repr(C)`, and begins with its fid, whose table no other type has.
unsafe impl Object for Mr {
    const CLASS: usize = class::MR;

    fn table() -> &'static FidOps {
        &FID
    }
}

static FID: FidOps = FidOps { bind, control, ..FidOps::new(close) };
pub static OPS: MrOps = MrOps { size: size_of::<MrOps>(), reg, regv, regattr };

impl Drop for Mr {
    fn drop(&mut self) {
        if !self.exported {
            return;
        }
        self.domain.counted.forget(self.key);
        if let Some(exporter) = self.domain.exporter() {
            exporter.remove_region_raw(self.key);
        }
    }
}

/// Registers one run of memory; null, with the greatest length, is all that the process has or will have.
///
/// # Safety
///
/// libfabric's rules: the memory stays the application's until the region is closed.
unsafe fn register(
    domain: *mut Fid,
    parts: &[iovec],
    access: Directions,
    key: u64,
    flags: MrFlags,
    into: *mut *mut Mr,
    context: *mut c_void,
) -> c_int {
    if flags.has_any(MrFlags::REFUSED) {
        return -libc::EOPNOTSUPP;
    }
    let domain: &Domain = downcast!(domain);
    let [memory] = parts else { return -libc::EINVAL };
    let everything = memory.iov_base.is_null() && memory.iov_len == usize::MAX;
    let Some(segment) = (if everything { Some(Segment::default()) } else { segment(memory) })
    else {
        return -libc::EINVAL;
    };
    let mut rights = Rights::NONE;
    for (direction, right) in [
        (Directions::REMOTE_READ, Rights::REMOTE_READ),
        (Directions::REMOTE_WRITE, Rights::REMOTE_WRITE),
    ] {
        if access.has(direction) {
            rights = rights.with(right);
        }
    }
    let chosen_here = domain.mr_mode & FI_MR_PROV_KEY != 0;
    let exported = rights != Rights::NONE || chosen_here;
    let mut key = key;
    if exported {
        let Some(exporter) = domain.inner.exporter() else { return -libc::ENODEV };
        let wanted = (!chosen_here).then_some(key);
        // SAFETY: libfabric's rules: readable and writable as `access` says until it is closed.
        let region = unsafe {
            match everything {
                true => exporter.export_address_space_raw(wanted, rights),
                false => exporter.export_region_raw(wanted, segment, rights),
            }
        };
        match region {
            Ok(region) => key = region.key,
            Err(PostError::MemoryFault) if everything => {
                log::warn(
                    "the whole address space cannot be registered: process_vm_readv is forbidden here",
                );
                return -libc::EOPNOTSUPP;
            }
            Err(refused) => return refusal(refused) as c_int,
        }
        if domain.mr_mode & FI_MR_VIRT_ADDR != 0 {
            exporter.set_region_base_raw(key, segment.address);
        }
    }
    let fid = fid(class::MR, context, &FID);
    let (mem_desc, uses, of) = (std::ptr::null_mut(), Mutex::default(), domain.users.one());
    let domain = Arc::clone(&domain.inner);
    let region = Mr { fid, mem_desc, key, domain, exported, uses, _of: of };
    // SAFETY: libfabric's rules, which the caller keeps.
    unsafe { give(region, into) }
}

entry! {
    fn reg(
        domain: *mut Fid, buf: *const c_void, len: usize, access: Directions, _offset: u64, key: u64,
        flags: MrFlags, into: *mut *mut Mr, context: *mut c_void,
    ) -> c_int {
        // SAFETY: libfabric's rules.
        unsafe { register(domain, &one(buf, len), access, key, flags, into, context) }
    }

    fn regv(
        domain: *mut Fid, iov: *const iovec, count: usize, access: Directions, _offset: u64, key: u64,
        flags: MrFlags, into: *mut *mut Mr, context: *mut c_void,
    ) -> c_int {
        let parts = list!(iov, count);
        // SAFETY: libfabric's rules.
        unsafe { register(domain, parts, access, key, flags, into, context) }
    }

    fn regattr(domain: *mut Fid, attr: *const FiMrAttr, flags: MrFlags, into: *mut *mut Mr) -> c_int {
        let attr: &FiMrAttr = object!(attr);
        if flags.has_any(MrFlags::REFUSED) {
            // What stands in the place of the parts is something else.
            return -libc::EOPNOTSUPP;
        }
        let parts = list!(attr.mr_iov, attr.iov_count);
        let (access, key, context) = (attr.access, attr.requested_key, attr.context);
        // SAFETY: libfabric's rules.
        unsafe { register(domain, parts, access, key, flags, into, context) }
    }

    /// Binding to an endpoint is asked for where `FI_MR_ENDPOINT` is; here regions belong to all endpoints of their domain.
    /// A counter counts what others do to the region.
    fn bind(region: *mut Fid, to: *mut Fid, flags: u64) -> c_int {
        // SAFETY: the same arguments under the same rules.
        aloud("fi_mr_bind", unsafe { bind_quietly(region, to, flags) })
    }

    fn bind_quietly(region: *mut Fid, to: *mut Fid, flags: u64) -> c_int {
        let region: &Mr = downcast!(region);
        let common: &Fid = object!(to.cast_const());
        match common.fclass {
            class::EP => {
                let endpoint: &Ep = downcast!(to);
                let here = Arc::ptr_eq(&endpoint.inner.domain, &region.domain);
                if here { 0 } else { -libc::EINVAL }
            }
            class::CNTR => {
                let counter: &Cntr = downcast!(to);
                let directions = Directions::from_c(flags);
                if directions == Directions::NONE || directions.exceeds(Directions::REMOTE) {
                    return -error::BADFLAGS;
                }
                let counted = &region.domain.counted;
                let here = Arc::ptr_eq(&counter.inner.domain, &region.domain);
                if !here || !region.exported || !counted.bind(region.key, &counter.inner, directions) {
                    return -libc::EINVAL;
                }
                let mut uses = region.uses.lock().unwrap_or_else(PoisonError::into_inner);
                uses.push(counter.users.one());
                0
            }
            _ => -libc::ENOSYS,
        }
    }

    fn control(_region: *mut Fid, command: c_int, _unused2: *mut c_void) -> c_int {
        if command == control::ENABLE { 0 } else { -libc::ENOSYS }
    }

    fn close(fid: *mut Fid) -> c_int {
        // SAFETY: libfabric's rules.
        drop(unsafe { take::<Mr>(fid) });
        0
    }
}
