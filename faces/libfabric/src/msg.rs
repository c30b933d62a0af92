//! Untagged messages: `fi_send`, `fi_recv` and their kin.

use std::ffi::c_void;

use crate::bindings::*;
use crate::endpoint::Ep;
use crate::entry::entry;
use crate::flags::OpFlags;
use crate::objects::{object, one, parts};
use crate::tables::MsgOps;
use crate::transfer::{Receive, Send};

pub static OPS: MsgOps = MsgOps {
    size: size_of::<MsgOps>(),
    recv,
    recvv,
    recvmsg,
    send,
    sendv,
    sendmsg,
    inject,
    senddata,
    injectdata,
};

/// All bits: whatever a message's match bits are, they do not count here.
const ANY_BITS: u64 = u64::MAX;

/// A send with the endpoint's flags.
#[inline]
fn plain(parts: &[iovec], to: FiAddr, data: Option<u64>, context: *mut c_void) -> Send<'_> {
    let context = context.expose_provenance();
    Send { tagged: false, parts, to, tag: 0, data, context, flags: None, nameless: false }
}

entry! {
    fn recv(
        ep: *mut Ep, buffer: *mut c_void, len: usize, _desc: *mut c_void, from: FiAddr,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the same buffer under the same rules.
        unsafe { recvv(ep, one(buffer, len).as_ptr(), std::ptr::null_mut(), 1, from, context) }
    }

    fn recvv(
        ep: &Ep, iov: *const iovec, _desc: *mut *mut c_void, count: usize, from: FiAddr,
        context: *mut c_void,
    ) -> isize {
        let parts = parts!(iov, count);
        let context = context.expose_provenance();
        let receive =
            Receive { tagged: false, parts, from, tag: 0, ignore: ANY_BITS, context, flags: None };
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.receive(&receive) }
    }

    fn recvmsg(ep: &Ep, message: *const FiMsg, flags: OpFlags) -> isize {
        let message: &FiMsg = object!(message);
        let receive = Receive {
            tagged: false,
            parts: parts!(message.msg_iov, message.iov_count),
            from: message.addr,
            tag: 0,
            ignore: ANY_BITS,
            context: message.context.expose_provenance(),
            flags: Some(flags),
        };
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.receive(&receive) }
    }

    fn send(
        ep: &Ep, buffer: *const c_void, len: usize, _desc: *mut c_void, to: FiAddr,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.send(&plain(&one(buffer, len), to, None, context)) }
    }

    fn sendv(
        ep: &Ep, iov: *const iovec, _desc: *mut *mut c_void, count: usize, to: FiAddr,
        context: *mut c_void,
    ) -> isize {
        let send = plain(parts!(iov, count), to, None, context);
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.send(&send) }
    }

    fn sendmsg(ep: &Ep, message: *const FiMsg, flags: OpFlags) -> isize {
        let message: &FiMsg = object!(message);
        let data = flags.has(OpFlags::REMOTE_CQ_DATA).then_some(message.data);
        let parts = parts!(message.msg_iov, message.iov_count);
        let send = Send { flags: Some(flags), ..plain(parts, message.addr, data, message.context) };
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.send(&send) }
    }

    fn inject(ep: &Ep, buffer: *const c_void, len: usize, to: FiAddr) -> isize {
        let parts = one(buffer, len);
        let send = Send { nameless: true, ..plain(&parts, to, None, std::ptr::null_mut()) };
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.send(&send) }
    }

    fn senddata(
        ep: &Ep, buffer: *const c_void, len: usize, _desc: *mut c_void, data: u64, to: FiAddr,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.send(&plain(&one(buffer, len), to, Some(data), context)) }
    }

    fn injectdata(ep: &Ep, buffer: *const c_void, len: usize, data: u64, to: FiAddr) -> isize {
        let parts = one(buffer, len);
        let send = Send { nameless: true, ..plain(&parts, to, Some(data), std::ptr::null_mut()) };
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.send(&send) }
    }
}
