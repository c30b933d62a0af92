//! Remote memory: `fi_read`, `fi_write` and their kin.

use std::ffi::c_void;

use crate::bindings::*;
use crate::endpoint::Ep;
use crate::entry::entry;
use crate::flags::OpFlags;
use crate::info::REMOTE_IOV_LIMIT;
use crate::objects::{list, object, one, parts};
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

/// Does what a `…msg` call asks for.
///
/// # Safety
///
/// As [`EpInner::put`](crate::endpoint::EpInner::put) and [`get`](crate::endpoint::EpInner::get).
unsafe fn message(
    ep: &Ep,
    message: &FiMsgRma,
    remote: &[FiRmaIov],
    parts: &[iovec],
    flags: OpFlags,
    writes: bool,
) -> isize {
    let (offset, key) = remote.first().map_or((0, 0), |run| (run.addr, run.key));
    let plain = plain(parts, message.addr, offset, key, message.context);
    let data = (writes && flags.has(OpFlags::REMOTE_CQ_DATA)).then_some(message.data);
    let transfer = Transfer { data, flags: Some(flags), ..plain };
    let bytes = parts.iter().map(|part| part.iov_len).fold(0, usize::saturating_add);
    match remote {
        // SAFETY: the caller keeps the rules.
        [run] if run.len == bytes && writes => unsafe { ep.inner.put(&transfer) },
        // SAFETY: likewise.
        [run] if run.len == bytes => unsafe { ep.inner.get(&transfer) },
        // SAFETY: likewise.
        [_, _, ..] => unsafe { ep.inner.several(&transfer, remote, writes) },
        _ => -(libc::EINVAL as isize),
    }
}

entry! {
    fn read(
        ep: &Ep, buffer: *mut c_void, len: usize, _desc: *mut c_void, from: FiAddr, offset: u64,
        key: u64, context: *mut c_void,
    ) -> isize {
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.get(&plain(&one(buffer, len), from, offset, key, context)) }
    }

    fn readv(
        ep: &Ep, iov: *const iovec, _desc: *mut *mut c_void, count: usize, from: FiAddr,
        offset: u64, key: u64, context: *mut c_void,
    ) -> isize {
        let parts = parts!(iov, count);
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.get(&plain(parts, from, offset, key, context)) }
    }

    fn readmsg(ep: &Ep, asked: *const FiMsgRma, flags: OpFlags) -> isize {
        let asked: &FiMsgRma = object!(asked);
        let parts = parts!(asked.msg_iov, asked.iov_count);
        let remote = list!(asked.rma_iov, asked.rma_iov_count, REMOTE_IOV_LIMIT);
        // SAFETY: libfabric's rules.
        unsafe { message(ep, asked, remote, parts, flags, false) }
    }

    fn write(
        ep: &Ep, buffer: *const c_void, len: usize, _desc: *mut c_void, to: FiAddr, offset: u64,
        key: u64, context: *mut c_void,
    ) -> isize {
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.put(&plain(&one(buffer, len), to, offset, key, context)) }
    }

    fn writev(
        ep: &Ep, iov: *const iovec, _desc: *mut *mut c_void, count: usize, to: FiAddr, offset: u64,
        key: u64, context: *mut c_void,
    ) -> isize {
        let parts = parts!(iov, count);
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.put(&plain(parts, to, offset, key, context)) }
    }

    fn writemsg(ep: &Ep, asked: *const FiMsgRma, flags: OpFlags) -> isize {
        let asked: &FiMsgRma = object!(asked);
        let parts = parts!(asked.msg_iov, asked.iov_count);
        let remote = list!(asked.rma_iov, asked.rma_iov_count, REMOTE_IOV_LIMIT);
        // SAFETY: libfabric's rules.
        unsafe { message(ep, asked, remote, parts, flags, true) }
    }

    fn inject(
        ep: &Ep, buffer: *const c_void, len: usize, to: FiAddr, offset: u64, key: u64,
    ) -> isize {
        let parts = one(buffer, len);
        let plain = plain(&parts, to, offset, key, std::ptr::null_mut());
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.put(&Transfer { nameless: true, ..plain }) }
    }

    fn writedata(
        ep: &Ep, buffer: *const c_void, len: usize, _desc: *mut c_void, data: u64, to: FiAddr,
        offset: u64, key: u64, context: *mut c_void,
    ) -> isize {
        let parts = one(buffer, len);
        let plain = plain(&parts, to, offset, key, context);
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.put(&Transfer { data: Some(data), ..plain }) }
    }

    fn injectdata(
        ep: &Ep, buffer: *const c_void, len: usize, data: u64, to: FiAddr, offset: u64, key: u64,
    ) -> isize {
        let parts = one(buffer, len);
        let plain = plain(&parts, to, offset, key, std::ptr::null_mut());
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.put(&Transfer { data: Some(data), nameless: true, ..plain }) }
    }
}
