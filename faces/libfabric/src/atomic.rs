//! Atomic operations: `fi_atomic`, `fi_fetch_atomic`, `fi_compare_atomic` and their kin.

use std::ffi::c_void;

use crate::bindings::*;
use crate::endpoint::Ep;
use crate::entry::enter;
use crate::handle::{list, object};
use crate::info::INJECT_BYTES;
use crate::offered::{Family, compwritevalid, operation, readwritevalid, writevalid};
use crate::remote::Atomic;
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

const EINVAL: isize = -(libc::EINVAL as isize);
const EOPNOTSUPP: isize = -(libc::EOPNOTSUPP as isize);

/// The parts of one call.
struct Call<'a> {
    family: Family,
    peer: FiAddr,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
    operands: &'a [FiIoc],
    compare: &'a [FiIoc],
    result: &'a [FiIoc],
    context: *mut c_void,
    flags: Option<u64>,
    nameless: bool,
}

impl Call<'_> {
    /// # Safety
    ///
    /// As [`crate::endpoint::EpInner::atomic`].
    unsafe fn post(&self, ep: &Ep) -> isize {
        let Some((datatype, operation)) = operation(self.family, self.datatype, self.op) else {
            return EOPNOTSUPP;
        };
        if self.nameless
            && self.operands.iter().map(|part| part.count * datatype.bytes()).sum::<usize>()
                > INJECT_BYTES
        {
            return -(libc::EMSGSIZE as isize);
        }
        let atomic = Atomic {
            peer: self.peer,
            offset: self.offset,
            key: self.key,
            datatype,
            operation,
            operands: self.operands,
            compare: (self.family == Family::Compare).then_some(self.compare),
            result: (self.family != Family::Base).then_some(self.result),
            context: self.context.expose_provenance(),
            flags: self.flags,
            nameless: self.nameless,
        };
        // SAFETY: the caller's promise.
        unsafe { ep.inner.atomic(&atomic) }
    }
}

#[inline]
fn ioc(addr: *const c_void, count: usize) -> [FiIoc; 1] {
    [FiIoc { addr: addr.cast_mut(), count }]
}

/// The call of a `…msg` function, whose remote side is one run of as many elements. `None`: it is not.
fn of_message<'a>(
    family: Family,
    message: &'a FiMsgAtomic,
    operands: &'a [FiIoc],
    remote: &[FiRmaIoc],
    others: (&'a [FiIoc], &'a [FiIoc]),
    flags: u64,
) -> Option<Call<'a>> {
    let [remote] = remote else { return None };
    let counted = if operands.is_empty() { others.1 } else { operands };
    let count = counted.iter().try_fold(0usize, |sum, part| sum.checked_add(part.count))?;
    (count == remote.count).then_some(Call {
        family,
        peer: message.addr,
        offset: remote.addr,
        key: remote.key,
        datatype: message.datatype,
        op: message.op,
        operands,
        compare: others.0,
        result: others.1,
        context: message.context,
        flags: Some(flags),
        nameless: false,
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn write(
    ep: *mut Ep,
    buffer: *const c_void,
    count: usize,
    desc: *mut c_void,
    peer: FiAddr,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    enter(|| -> isize {
        let (list, mut desc) = (ioc(buffer, count), desc);
        // SAFETY: the same buffer under the same rules.
        unsafe {
            writev(ep, list.as_ptr(), &raw mut desc, 1, peer, offset, key, datatype, op, context)
        }
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn writev(
    ep: *mut Ep,
    iov: *const FiIoc,
    _desc: *mut *mut c_void,
    count: usize,
    peer: FiAddr,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let call = Call {
            family: Family::Base,
            peer,
            offset,
            key,
            datatype,
            op,
            operands: list!(iov, count),
            compare: &[],
            result: &[],
            context,
            flags: None,
            nameless: false,
        };
        // SAFETY: libfabric's rules.
        unsafe { call.post(ep) }
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn writemsg(ep: *mut Ep, message: *const FiMsgAtomic, flags: u64) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let message: &FiMsgAtomic = object!(message);
        let operands = list!(message.msg_iov, message.iov_count);
        let remote = list!(message.rma_iov, message.rma_iov_count);
        match of_message(Family::Base, message, operands, remote, (&[], &[]), flags) {
            // SAFETY: libfabric's rules.
            Some(call) => unsafe { call.post(ep) },
            None => EINVAL,
        }
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn inject(
    ep: *mut Ep,
    buffer: *const c_void,
    count: usize,
    peer: FiAddr,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let call = Call {
            family: Family::Base,
            peer,
            offset,
            key,
            datatype,
            op,
            operands: &ioc(buffer, count),
            compare: &[],
            result: &[],
            context: std::ptr::null_mut(),
            flags: None,
            nameless: true,
        };
        // SAFETY: libfabric's rules.
        unsafe { call.post(ep) }
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn readwrite(
    ep: *mut Ep,
    buffer: *const c_void,
    count: usize,
    _desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    peer: FiAddr,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let call = Call {
            family: Family::Fetch,
            peer,
            offset,
            key,
            datatype,
            op,
            operands: &ioc(buffer, count),
            compare: &[],
            result: &ioc(result, count),
            context,
            flags: None,
            nameless: false,
        };
        // SAFETY: libfabric's rules.
        unsafe { call.post(ep) }
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn readwritev(
    ep: *mut Ep,
    iov: *const FiIoc,
    _desc: *mut *mut c_void,
    count: usize,
    resultv: *const FiIoc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    peer: FiAddr,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let call = Call {
            family: Family::Fetch,
            peer,
            offset,
            key,
            datatype,
            op,
            operands: list!(iov, count),
            compare: &[],
            result: list!(resultv, result_count),
            context,
            flags: None,
            nameless: false,
        };
        // SAFETY: libfabric's rules.
        unsafe { call.post(ep) }
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn readwritemsg(
    ep: *mut Ep,
    message: *const FiMsgAtomic,
    resultv: *const FiIoc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let message: &FiMsgAtomic = object!(message);
        let operands = list!(message.msg_iov, message.iov_count);
        let remote = list!(message.rma_iov, message.rma_iov_count);
        let others = (&[][..], list!(resultv, result_count));
        match of_message(Family::Fetch, message, operands, remote, others, flags) {
            // SAFETY: libfabric's rules.
            Some(call) => unsafe { call.post(ep) },
            None => EINVAL,
        }
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn compwrite(
    ep: *mut Ep,
    buffer: *const c_void,
    count: usize,
    _desc: *mut c_void,
    compare: *const c_void,
    _compare_desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    peer: FiAddr,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let call = Call {
            family: Family::Compare,
            peer,
            offset,
            key,
            datatype,
            op,
            operands: &ioc(buffer, count),
            compare: &ioc(compare, count),
            result: &ioc(result, count),
            context,
            flags: None,
            nameless: false,
        };
        // SAFETY: libfabric's rules.
        unsafe { call.post(ep) }
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn compwritev(
    ep: *mut Ep,
    iov: *const FiIoc,
    _desc: *mut *mut c_void,
    count: usize,
    comparev: *const FiIoc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    resultv: *const FiIoc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    peer: FiAddr,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let call = Call {
            family: Family::Compare,
            peer,
            offset,
            key,
            datatype,
            op,
            operands: list!(iov, count),
            compare: list!(comparev, compare_count),
            result: list!(resultv, result_count),
            context,
            flags: None,
            nameless: false,
        };
        // SAFETY: libfabric's rules.
        unsafe { call.post(ep) }
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn compwritemsg(
    ep: *mut Ep,
    message: *const FiMsgAtomic,
    comparev: *const FiIoc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    resultv: *const FiIoc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let message: &FiMsgAtomic = object!(message);
        let operands = list!(message.msg_iov, message.iov_count);
        let remote = list!(message.rma_iov, message.rma_iov_count);
        let others = (list!(comparev, compare_count), list!(resultv, result_count));
        match of_message(Family::Compare, message, operands, remote, others, flags) {
            // SAFETY: libfabric's rules.
            Some(call) => unsafe { call.post(ep) },
            None => EINVAL,
        }
    })
}
