//! Atomic operations: `fi_atomic`, `fi_fetch_atomic`, `fi_compare_atomic` and their kin.

use std::ffi::c_void;

use crate::bindings::*;
use crate::endpoint::Ep;
use crate::entry::entry;
use crate::flags::OpFlags;
use crate::info::REMOTE_IOV_LIMIT;
use crate::inject::INJECT_BYTES;
use crate::objects::{list, object, parts};
use crate::offered::{Family, compwritevalid, operation, readwritevalid, writevalid};
use crate::remote::{Atomic, count};
use crate::tables::AtomicOps;

pub static OPS: AtomicOps = AtomicOps {
    size: size_of::<AtomicOps>(),
    write,
    writev,
    writemsg,
    inject,
    readwrite,
    readwritev,
    readwritemsg,
    compwrite,
    compwritev,
    compwritemsg,
    writevalid,
    readwritevalid,
    compwritevalid,
};

/// One call but for the elements here.
#[derive(Clone, Copy)]
struct Call {
    peer: FiAddr,
    datatype: u32,
    op: u32,
    context: *mut c_void,
    flags: Option<OpFlags>,
    nameless: bool,
}

/// The elements here: operands, where results go, what to compare with. Which of them there are says what kind of call it is.
#[derive(Clone, Copy)]
enum Here<'a> {
    Base(&'a [FiIoc]),
    Fetch(&'a [FiIoc], &'a [FiIoc]),
    Compare(&'a [FiIoc], &'a [FiIoc], &'a [FiIoc]),
}

impl Call {
    fn new(peer: FiAddr, datatype: u32, op: u32, context: *mut c_void) -> Self {
        Self { peer, datatype, op, context, flags: None, nameless: false }
    }

    fn of(message: &FiMsgAtomic, flags: OpFlags) -> Self {
        let FiMsgAtomic { addr, datatype, op, context, .. } = *message;
        Self { flags: Some(flags), ..Self::new(addr, datatype, op, context) }
    }

    /// Does it with so many elements of one run there.
    ///
    /// # Safety
    ///
    /// As [`post`](Self::post).
    unsafe fn at(self, ep: &Ep, here: Here<'_>, addr: u64, key: u64) -> isize {
        let count = match here {
            Here::Base(list) | Here::Fetch([], list) => count(list),
            Here::Fetch(list, _) | Here::Compare(list, ..) => count(list),
        };
        // SAFETY: the caller's promise.
        unsafe { self.post(ep, here, &[FiRmaIoc { addr, count, key }]) }
    }

    /// # Safety
    ///
    /// As [`crate::endpoint::EpInner::atomic`].
    unsafe fn post(self, ep: &Ep, here: Here<'_>, remote: &[FiRmaIoc]) -> isize {
        let (family, operands, result, compare) = match here {
            Here::Base(operands) => (Family::Base, operands, None, None),
            Here::Fetch(operands, result) => (Family::Fetch, operands, Some(result), None),
            Here::Compare(operands, result, compare) => {
                (Family::Compare, operands, Some(result), Some(compare))
            }
        };
        // A read has no operands: how many elements are meant is said by either list.
        let counted = if operands.is_empty() { result.unwrap_or(&[]) } else { operands };
        let total = remote.iter().map(|run| run.count).fold(0, usize::saturating_add);
        if count(counted) != total {
            return -(libc::EINVAL as isize);
        }
        let Some((datatype, operation)) = operation(family, self.datatype, self.op) else {
            return -(libc::EOPNOTSUPP as isize);
        };
        if self.nameless && total.saturating_mul(datatype.bytes()) > INJECT_BYTES {
            return -(libc::EMSGSIZE as isize);
        }
        let Self { peer, flags, nameless, .. } = self;
        let context = self.context.expose_provenance();
        let atomic = Atomic {
            peer,
            remote,
            count: total,
            datatype,
            operation,
            operands,
            compare,
            result,
            context,
            flags,
            nameless,
        };
        // SAFETY: the caller's promise.
        unsafe { ep.inner.atomic(&atomic) }
    }
}

#[inline]
fn ioc(addr: *const c_void, count: usize) -> [FiIoc; 1] {
    [FiIoc { addr: addr.cast_mut(), count }]
}

entry! {
    fn write(
        ep: &Ep, buffer: *const c_void, count: usize, _desc: *mut c_void, peer: FiAddr, offset: u64,
        key: u64, datatype: u32, op: u32, context: *mut c_void,
    ) -> isize {
        let call = Call::new(peer, datatype, op, context);
        // SAFETY: libfabric's rules.
        unsafe { call.at(ep, Here::Base(&ioc(buffer, count)), offset, key) }
    }

    fn writev(
        ep: &Ep, iov: *const FiIoc, _desc: *mut *mut c_void, count: usize, peer: FiAddr,
        offset: u64, key: u64, datatype: u32, op: u32, context: *mut c_void,
    ) -> isize {
        let operands = parts!(iov, count);
        // SAFETY: libfabric's rules.
        unsafe { Call::new(peer, datatype, op, context).at(ep, Here::Base(operands), offset, key) }
    }

    fn writemsg(ep: &Ep, message: *const FiMsgAtomic, flags: OpFlags) -> isize {
        let message: &FiMsgAtomic = object!(message);
        let here = Here::Base(parts!(message.msg_iov, message.iov_count));
        let remote = list!(message.rma_iov, message.rma_iov_count, REMOTE_IOV_LIMIT);
        // SAFETY: libfabric's rules.
        unsafe { Call::of(message, flags).post(ep, here, remote) }
    }

    fn inject(
        ep: &Ep, buffer: *const c_void, count: usize, peer: FiAddr, offset: u64, key: u64,
        datatype: u32, op: u32,
    ) -> isize {
        let call = Call::new(peer, datatype, op, std::ptr::null_mut());
        let call = Call { nameless: true, ..call };
        // SAFETY: libfabric's rules.
        unsafe { call.at(ep, Here::Base(&ioc(buffer, count)), offset, key) }
    }

    fn readwrite(
        ep: &Ep, buffer: *const c_void, count: usize, _desc: *mut c_void, result: *mut c_void,
        _result_desc: *mut c_void, peer: FiAddr, offset: u64, key: u64, datatype: u32, op: u32,
        context: *mut c_void,
    ) -> isize {
        let call = Call::new(peer, datatype, op, context);
        let (buffer, result) = (ioc(buffer, count), ioc(result, count));
        // SAFETY: libfabric's rules.
        unsafe { call.at(ep, Here::Fetch(&buffer, &result), offset, key) }
    }

    fn readwritev(
        ep: &Ep, iov: *const FiIoc, _desc: *mut *mut c_void, count: usize, resultv: *const FiIoc,
        _result_desc: *mut *mut c_void, result_count: usize, peer: FiAddr, offset: u64, key: u64,
        datatype: u32, op: u32, context: *mut c_void,
    ) -> isize {
        let call = Call::new(peer, datatype, op, context);
        let here = Here::Fetch(parts!(iov, count), parts!(resultv, result_count));
        // SAFETY: libfabric's rules.
        unsafe { call.at(ep, here, offset, key) }
    }

    fn readwritemsg(
        ep: &Ep, message: *const FiMsgAtomic, resultv: *const FiIoc,
        _result_desc: *mut *mut c_void, result_count: usize, flags: OpFlags,
    ) -> isize {
        let message: &FiMsgAtomic = object!(message);
        let operands = parts!(message.msg_iov, message.iov_count);
        let here = Here::Fetch(operands, parts!(resultv, result_count));
        let remote = list!(message.rma_iov, message.rma_iov_count, REMOTE_IOV_LIMIT);
        // SAFETY: libfabric's rules.
        unsafe { Call::of(message, flags).post(ep, here, remote) }
    }

    fn compwrite(
        ep: &Ep, buffer: *const c_void, count: usize, _desc: *mut c_void, compare: *const c_void,
        _compare_desc: *mut c_void, result: *mut c_void, _result_desc: *mut c_void, peer: FiAddr,
        offset: u64, key: u64, datatype: u32, op: u32, context: *mut c_void,
    ) -> isize {
        let call = Call::new(peer, datatype, op, context);
        let (buffer, compare) = (ioc(buffer, count), ioc(compare, count));
        // SAFETY: libfabric's rules.
        unsafe { call.at(ep, Here::Compare(&buffer, &ioc(result, count), &compare), offset, key) }
    }

    fn compwritev(
        ep: &Ep, iov: *const FiIoc, _desc: *mut *mut c_void, count: usize, comparev: *const FiIoc,
        _compare_desc: *mut *mut c_void, compare_count: usize, resultv: *const FiIoc,
        _result_desc: *mut *mut c_void, result_count: usize, peer: FiAddr, offset: u64, key: u64,
        datatype: u32, op: u32, context: *mut c_void,
    ) -> isize {
        let call = Call::new(peer, datatype, op, context);
        let (operands, compare) = (parts!(iov, count), parts!(comparev, compare_count));
        let here = Here::Compare(operands, parts!(resultv, result_count), compare);
        // SAFETY: libfabric's rules.
        unsafe { call.at(ep, here, offset, key) }
    }

    fn compwritemsg(
        ep: &Ep, message: *const FiMsgAtomic, comparev: *const FiIoc,
        _compare_desc: *mut *mut c_void, compare_count: usize, resultv: *const FiIoc,
        _result_desc: *mut *mut c_void, result_count: usize, flags: OpFlags,
    ) -> isize {
        let message: &FiMsgAtomic = object!(message);
        let operands = parts!(message.msg_iov, message.iov_count);
        let (result, compare) = (parts!(resultv, result_count), parts!(comparev, compare_count));
        let remote = list!(message.rma_iov, message.rma_iov_count, REMOTE_IOV_LIMIT);
        // SAFETY: libfabric's rules.
        unsafe { Call::of(message, flags).post(ep, Here::Compare(operands, result, compare), remote) }
    }
}
