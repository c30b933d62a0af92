//! Tagged messages: `fi_tsend`, `fi_trecv` and their kin.

use std::ffi::c_void;

use crate::bindings::*;
use crate::endpoint::Ep;
use crate::entry::entry;
use crate::flags::OpFlags;
use crate::objects::{object, one, parts};
use crate::tables::TaggedOps;
use crate::transfer::{Receive, Send};

pub static OPS: TaggedOps = TaggedOps {
    size: size_of::<TaggedOps>(),
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

/// A send with the endpoint's flags.
#[inline]
fn plain(
    parts: &[iovec],
    to: FiAddr,
    tag: u64,
    data: Option<u64>,
    context: *mut c_void,
) -> Send<'_> {
    let context = context.expose_provenance();
    Send { tagged: true, parts, to, tag, data, context, flags: None, nameless: false }
}

entry! {
    fn recv(
        ep: *mut Ep, buffer: *mut c_void, len: usize, _desc: *mut c_void, from: FiAddr, tag: u64,
        ignore: u64, context: *mut c_void,
    ) -> isize {
        let (parts, none) = (one(buffer, len), std::ptr::null_mut());
        // SAFETY: the same buffer under the same rules.
        unsafe { recvv(ep, parts.as_ptr(), none, 1, from, tag, ignore, context) }
    }

    fn recvv(
        ep: &Ep, iov: *const iovec, _desc: *mut *mut c_void, count: usize, from: FiAddr, tag: u64,
        ignore: u64, context: *mut c_void,
    ) -> isize {
        let parts = parts!(iov, count);
        let context = context.expose_provenance();
        let receive = Receive { tagged: true, parts, from, tag, ignore, context, flags: None };
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.receive(&receive) }
    }

    fn recvmsg(ep: &Ep, message: *const FiMsgTagged, flags: OpFlags) -> isize {
        let message: &FiMsgTagged = object!(message);
        // That is a capability of its own (`FI_TAGGED_MULTI_RECV`), which is not offered.
        if flags.has(OpFlags::MULTI_RECV) {
            return -(error::BADFLAGS as isize);
        }
        let receive = Receive {
            tagged: true,
            parts: parts!(message.msg_iov, message.iov_count),
            from: message.addr,
            tag: message.tag,
            ignore: message.ignore,
            context: message.context.expose_provenance(),
            flags: Some(flags),
        };
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.receive(&receive) }
    }

    fn send(
        ep: &Ep, buffer: *const c_void, len: usize, _desc: *mut c_void, to: FiAddr, tag: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.send(&plain(&one(buffer, len), to, tag, None, context)) }
    }

    fn sendv(
        ep: &Ep, iov: *const iovec, _desc: *mut *mut c_void, count: usize, to: FiAddr, tag: u64,
        context: *mut c_void,
    ) -> isize {
        let send = plain(parts!(iov, count), to, tag, None, context);
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.send(&send) }
    }

    fn sendmsg(ep: &Ep, message: *const FiMsgTagged, flags: OpFlags) -> isize {
        let message: &FiMsgTagged = object!(message);
        let data = flags.has(OpFlags::REMOTE_CQ_DATA).then_some(message.data);
        let parts = parts!(message.msg_iov, message.iov_count);
        let plain = plain(parts, message.addr, message.tag, data, message.context);
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.send(&Send { flags: Some(flags), ..plain }) }
    }

    fn inject(ep: &Ep, buffer: *const c_void, len: usize, to: FiAddr, tag: u64) -> isize {
        let parts = one(buffer, len);
        let send = Send { nameless: true, ..plain(&parts, to, tag, None, std::ptr::null_mut()) };
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.send(&send) }
    }

    fn senddata(
        ep: &Ep, buffer: *const c_void, len: usize, _desc: *mut c_void, data: u64, to: FiAddr,
        tag: u64, context: *mut c_void,
    ) -> isize {
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.send(&plain(&one(buffer, len), to, tag, Some(data), context)) }
    }

    fn injectdata(
        ep: &Ep, buffer: *const c_void, len: usize, data: u64, to: FiAddr, tag: u64,
    ) -> isize {
        let parts = one(buffer, len);
        let send =
            Send { nameless: true, ..plain(&parts, to, tag, Some(data), std::ptr::null_mut()) };
        // SAFETY: libfabric's rules.
        unsafe { ep.inner.send(&send) }
    }
}
