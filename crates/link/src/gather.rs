//! Prebuilt arrays for `sendmsg` and `sendmmsg`: frames are gathered by the kernel straight from
//! where their parts lie, and nothing is allocated per frame.
//!
//! # Invariant
//!
//! `headers[i]` points only into the other boxed arrays of the same [`Gather`], whose places never
//! change. `iovecs` point into callers' parts; they are filled and used only through a [`Filling`],
//! whose lifetime `'a` keeps those parts borrowed. What is left in the arrays afterwards is never
//! read again before it was overwritten: counts in the `Filling` start from zero.

use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null_mut;

use crate::name::{RawName, SocketName};
use crate::system;

/// Bytes of an Ethernet header: destination, source, EtherType.
pub(crate) const ETHERNET_HEADER_BYTES: usize = 14;

/// Ancillary data of one message: one `UDP_SEGMENT` (a `cmsghdr` of 16 bytes and a 16-bit size,
/// padded to 8), aligned as `cmsghdr` needs.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control {
    header: libc::cmsghdr,
    segment: u16,
    padding: [u8; 6],
}

/// The arrays. See the module's invariant.
pub(crate) struct Gather {
    headers: Box<[libc::mmsghdr]>,
    iovecs: Box<[libc::iovec]>,
    names: Box<[RawName]>,
    prefixes: Box<[[u8; ETHERNET_HEADER_BYTES]]>,
    controls: Box<[Control]>,
}

// SAFETY: the raw pointers inside point into the value's own boxes, or at parts that only a
// `Filling` with a live borrow uses; none of it is tied to a thread.
unsafe impl Send for Gather {}

impl Gather {
    /// Arrays for up to `messages` messages of `parts` parts in all.
    pub(crate) fn new(messages: usize, parts: usize) -> Self {
        // SAFETY: all-zero is valid for each of these C structures (null pointers, zero lengths).
        let (header, iovec, control) =
            unsafe { (zeroed::<libc::mmsghdr>(), zeroed::<libc::iovec>(), zeroed::<Control>()) };
        Self {
            headers: vec![header; messages].into(),
            iovecs: vec![iovec; parts].into(),
            names: vec![RawName::empty(); messages].into(),
            prefixes: vec![[0; ETHERNET_HEADER_BYTES]; messages].into(),
            controls: vec![control; messages].into(),
        }
    }

    /// Starts to fill the arrays with messages whose parts live for `'a`.
    pub(crate) fn fill<'a>(&mut self) -> Filling<'_, 'a> {
        Filling { gather: self, messages: 0, iovecs: 0, parts: PhantomData }
    }
}

/// Messages being put together, and sent.
pub(crate) struct Filling<'g, 'a> {
    gather: &'g mut Gather,
    messages: usize,
    iovecs: usize,
    parts: PhantomData<IoSlice<'a>>,
}

impl<'a> Filling<'_, 'a> {
    /// Messages so far.
    pub(crate) fn messages(&self) -> usize {
        self.messages
    }

    /// True if one more message of `parts` parts (and one for a prefix) fits.
    pub(crate) fn has_room(&self, parts: usize) -> bool {
        self.messages < self.gather.headers.len() && self.iovecs + parts < self.gather.iovecs.len()
    }

    /// Begins the next message. Callers have asked [`Self::has_room`].
    #[inline]
    pub(crate) fn begin(&mut self) {
        let start = self.gather.iovecs[self.iovecs..].as_mut_ptr();
        let message = &mut self.gather.headers[self.messages].msg_hdr;
        message.msg_name = null_mut();
        message.msg_namelen = 0;
        message.msg_iov = start;
        message.msg_iovlen = 0;
        message.msg_control = null_mut();
        message.msg_controllen = 0;
        message.msg_flags = 0;
        self.messages += 1;
    }

    /// Puts `prefix` before the parts of the message just begun.
    #[inline]
    pub(crate) fn prefix(&mut self, prefix: [u8; ETHERNET_HEADER_BYTES]) {
        let place = &mut self.gather.prefixes[self.messages - 1];
        *place = prefix;
        let iovec =
            libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: ETHERNET_HEADER_BYTES };
        self.push(iovec);
    }

    /// Adds parts to the message just begun.
    #[inline]
    pub(crate) fn parts(&mut self, parts: &[IoSlice<'a>]) {
        for part in parts {
            self.push(libc::iovec {
                iov_base: part.as_ptr().cast_mut().cast(),
                iov_len: part.len(),
            });
        }
    }

    /// What lies right behind the message's last piece becomes a part of that: the kernel copies one long piece sooner than
    /// many short ones.
    #[inline]
    fn push(&mut self, iovec: libc::iovec) {
        let message = &mut self.gather.headers[self.messages - 1].msg_hdr;
        if message.msg_iovlen > 0 {
            let last = &mut self.gather.iovecs[self.iovecs - 1];
            if last.iov_base.wrapping_byte_add(last.iov_len) == iovec.iov_base {
                last.iov_len += iovec.iov_len;
                return;
            }
        }
        message.msg_iovlen += 1;
        self.gather.iovecs[self.iovecs] = iovec;
        self.iovecs += 1;
    }

    /// Addresses the message just begun.
    #[inline]
    pub(crate) fn name(&mut self, name: &SocketName) {
        let at = self.messages - 1;
        self.gather.names[at] = name.raw;
        let message = &mut self.gather.headers[at].msg_hdr;
        message.msg_name = (&raw mut self.gather.names[at]).cast();
        message.msg_namelen = name.length as libc::socklen_t;
    }

    /// Asks the kernel to cut the message just begun into datagrams of `bytes` bytes.
    pub(crate) fn segment(&mut self, bytes: u16) {
        let at = self.messages - 1;
        let control = &mut self.gather.controls[at];
        // SAFETY: all-zero is a valid `cmsghdr`.
        control.header = unsafe { zeroed() };
        // Length without the padding: CMSG_LEN(2).
        control.header.cmsg_len = (size_of::<libc::cmsghdr>() + size_of::<u16>()) as _;
        control.header.cmsg_level = libc::SOL_UDP;
        control.header.cmsg_type = libc::UDP_SEGMENT;
        control.segment = bytes;
        let message = &mut self.gather.headers[at].msg_hdr;
        message.msg_control = (&raw mut self.gather.controls[at]).cast();
        message.msg_controllen = size_of::<Control>() as _;
    }

    /// Bytes that message `index` was sent with; valid after [`Self::send`] counted it.
    pub(crate) fn sent_bytes(&self, index: usize) -> usize {
        self.gather.headers[index].msg_len as usize
    }

    /// Sends the messages from number `from` on, in one call that does not block. Returns how many
    /// were sent, at least one.
    #[inline]
    pub(crate) fn send(&mut self, fd: BorrowedFd<'_>, from: usize) -> io::Result<usize> {
        let messages = &mut self.gather.headers[from..self.messages];
        if let [message] = messages {
            // SAFETY: the header was filled since this `Filling` began; what it points to is alive
            // by the module's invariant, and the kernel only reads it during the call.
            let sent = unsafe { system::send_message(fd, &message.msg_hdr)? };
            message.msg_len = sent as u32;
            return Ok(1);
        }
        let count = messages.len() as libc::c_uint;
        // SAFETY: as above, for each of `count` headers; the kernel writes only their `msg_len`.
        let sent = unsafe {
            libc::sendmmsg(fd.as_raw_fd(), messages.as_mut_ptr(), count, libc::MSG_DONTWAIT as _)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }
}
