//! Remote memory: `fi_read`, `fi_write` and their kin.

use std::ffi::c_void;

use crate::bindings::*;
use crate::endpoint::Ep;
use crate::entry::enter;
use crate::handle::{list, object, one};
use crate::remote::Transfer;
use crate::tables::RmaOps;

pub static OPS: RmaOps = RmaOps {
    size: size_of::<RmaOps>(),
    read,
    readv,
    readmsg,
    write,
    writev,
    writemsg,
    inject,
    writedata,
    injectdata,
};

/// A transfer with the endpoint's flags.
#[inline]
fn plain(
    parts: &[iovec],
    peer: FiAddr,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> Transfer<'_> {
    let context = context.expose_provenance();
    Transfer { parts, peer, offset, key, data: None, context, flags: None, nameless: false }
}

/// The transfer of a `…msg` call, whose remote side is one run of memory of the same length. `None`: it is not.
fn of_message<'a>(
    message: &FiMsgRma,
    remote: &[FiRmaIov],
    parts: &'a [iovec],
    flags: u64,
) -> Option<Transfer<'a>> {
    let [remote] = remote else { return None };
    let bytes = parts.iter().try_fold(0usize, |sum, part| sum.checked_add(part.iov_len))?;
    if bytes != remote.len {
        return None;
    }
    let plain = plain(parts, message.addr, remote.addr, remote.key, message.context);
    let data = (flags & op::REMOTE_CQ_DATA != 0).then_some(message.data);
    Some(Transfer { data, flags: Some(flags), ..plain })
}

unsafe extern "C" fn read(
    ep: *mut Ep,
    buffer: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    from: FiAddr,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.get(&plain(&one(buffer, len), from, offset, key, context)) }
    })
}

unsafe extern "C" fn readv(
    ep: *mut Ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    from: FiAddr,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let parts = list!(iov, count);
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.get(&plain(parts, from, offset, key, context)) }
    })
}

unsafe extern "C" fn readmsg(ep: *mut Ep, message: *const FiMsgRma, flags: u64) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let message: &FiMsgRma = object!(message);
        let parts = list!(message.msg_iov, message.iov_count);
        let remote = list!(message.rma_iov, message.rma_iov_count);
        match of_message(message, remote, parts, flags & !op::REMOTE_CQ_DATA) {
            // SAFETY: libfabric's rules.
            Some(transfer) => unsafe { ep.inner.get(&transfer) },
            None => -(libc::EINVAL as isize),
        }
    })
}

unsafe extern "C" fn write(
    ep: *mut Ep,
    buffer: *const c_void,
    len: usize,
    _desc: *mut c_void,
    to: FiAddr,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.put(&plain(&one(buffer, len), to, offset, key, context)) }
    })
}

unsafe extern "C" fn writev(
    ep: *mut Ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    to: FiAddr,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let parts = list!(iov, count);
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.put(&plain(parts, to, offset, key, context)) }
    })
}

unsafe extern "C" fn writemsg(ep: *mut Ep, message: *const FiMsgRma, flags: u64) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let message: &FiMsgRma = object!(message);
        let parts = list!(message.msg_iov, message.iov_count);
        let remote = list!(message.rma_iov, message.rma_iov_count);
        match of_message(message, remote, parts, flags) {
            // SAFETY: libfabric's rules.
            Some(transfer) => unsafe { ep.inner.put(&transfer) },
            None => -(libc::EINVAL as isize),
        }
    })
}

unsafe extern "C" fn inject(
    ep: *mut Ep,
    buffer: *const c_void,
    len: usize,
    to: FiAddr,
    offset: u64,
    key: u64,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let parts = one(buffer, len);
        let plain = plain(&parts, to, offset, key, std::ptr::null_mut());
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.put(&Transfer { nameless: true, ..plain }) }
    })
}

unsafe extern "C" fn writedata(
    ep: *mut Ep,
    buffer: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    to: FiAddr,
    offset: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let parts = one(buffer, len);
        let plain = plain(&parts, to, offset, key, context);
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.put(&Transfer { data: Some(data), ..plain }) }
    })
}

unsafe extern "C" fn injectdata(
    ep: *mut Ep,
    buffer: *const c_void,
    len: usize,
    data: u64,
    to: FiAddr,
    offset: u64,
    key: u64,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let parts = one(buffer, len);
        let plain = plain(&parts, to, offset, key, std::ptr::null_mut());
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.put(&Transfer { data: Some(data), nameless: true, ..plain }) }
    })
}
