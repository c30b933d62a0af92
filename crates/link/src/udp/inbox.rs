//! Preallocated buffers for `recvmsg` and `recvmmsg`, and the cutting of merged datagrams.
//!
//! # Invariant
//!
//! `headers[i]` points only into the other boxed arrays of the same [`Inbox`], whose places never
//! change. The kernel writes them only during [`Inbox::fetch`], which borrows the inbox mutably;
//! `filled` counts the messages that the last fetch wrote.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null_mut;

use super::fetching::Fetch;
use crate::name::RawName;
use crate::system;

/// Bytes of one buffer: the largest datagram there is, merged or not.
pub(super) const BUFFER_BYTES: usize = 64 * 1024;

/// Buffers: datagrams fetched in one call when they come thick and small. Eight take 512 KiB, which
/// stays in a second-level cache.
pub(super) const BUFFERS: usize = 8;

/// Room for ancillary data: `UDP_GRO` and the class of traffic take 24 bytes each; the rest is for what other options of the
/// socket might add, so that it does not push ours out.
pub(super) const CONTROL_BYTES: usize = 128;

#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Control(pub(super) [u8; CONTROL_BYTES]);

/// The buffers. See the module's invariant.
pub(super) struct Inbox {
    headers: Box<[libc::mmsghdr]>,
    iovecs: Box<[libc::iovec]>,
    names: Box<[RawName]>,
    controls: Box<[Control]>,
    buffers: Box<[u8]>,
    filled: usize,
    /// Nothing was told of it.
    plain: bool,
}

// SAFETY: the raw pointers inside point into the value's own boxes; nothing is tied to a thread.
unsafe impl Send for Inbox {}

/// One fetched message: a datagram, or several of one length that the kernel merged.
pub(super) struct Message<'a> {
    pub(super) bytes: &'a [u8],
    /// Who sent it.
    pub(super) name: &'a RawName,
    /// Length in bytes of each datagram in it; the last may be shorter. `None`: nobody told, each frame says its own.
    pub(super) segment_bytes: Option<usize>,
    /// The kernel cut off its end.
    pub(super) truncated: bool,
    /// A switch has marked it: congestion experienced.
    pub(super) marked: bool,
}

impl Inbox {
    pub(super) fn new() -> Self {
        // SAFETY: all-zero is valid for both C structures (null pointers, zero lengths).
        let (header, iovec) = unsafe { (zeroed::<libc::mmsghdr>(), zeroed::<libc::iovec>()) };
        Self {
            headers: vec![header; BUFFERS].into(),
            iovecs: vec![iovec; BUFFERS].into(),
            names: vec![RawName::empty(); BUFFERS].into(),
            controls: vec![Control([0; CONTROL_BYTES]); BUFFERS].into(),
            buffers: vec![0; BUFFERS * BUFFER_BYTES].into(),
            filled: 0,
            plain: false,
        }
    }

    /// Messages that the last fetch got.
    pub(super) fn filled(&self) -> usize {
        self.filled
    }

    /// Makes header `index` ready for the kernel, which overwrites its lengths in each call.
    #[inline]
    fn prepare(&mut self, index: usize) {
        let buffer = &mut self.buffers[index * BUFFER_BYTES..][..BUFFER_BYTES];
        self.iovecs[index] =
            libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: BUFFER_BYTES };
        let message = &mut self.headers[index].msg_hdr;
        message.msg_name = (&raw mut self.names[index]).cast();
        message.msg_namelen = size_of::<RawName>() as libc::socklen_t;
        message.msg_iov = &raw mut self.iovecs[index];
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut self.controls[index]).cast();
        message.msg_controllen = CONTROL_BYTES as _;
        message.msg_flags = 0;
    }

    /// Fetches one message, or up to [`BUFFERS`] if it is to be [`Fetch::Many`], without blocking, over whatever was
    /// there before.
    #[inline]
    pub(super) fn fetch(&mut self, fd: BorrowedFd<'_>, how: Fetch) -> io::Result<()> {
        self.filled = 0;
        self.plain = how == Fetch::Plain;
        match how {
            Fetch::Plain => {
                let buffer = &mut self.buffers[..BUFFER_BYTES];
                let length = system::receive_from(fd, buffer, &mut self.names[0])?;
                self.headers[0].msg_len = length as u32;
                self.filled = 1;
                Ok(())
            }
            Fetch::Told => {
                self.prepare(0);
                let header = &mut self.headers[0];
                // SAFETY: the header points at live buffers of the lengths it names, all of them ours.
                let length = unsafe { system::receive_message(fd, &mut header.msg_hdr)? };
                header.msg_len = length as u32;
                self.filled = 1;
                Ok(())
            }
            Fetch::Many => self.fetch_many(fd),
        }
    }

    fn fetch_many(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        for index in 0..BUFFERS {
            self.prepare(index);
        }
        let headers = self.headers.as_mut_ptr();
        let count = BUFFERS as libc::c_uint;
        // SAFETY: as above, for each of `count` headers.
        let fetched = unsafe {
            libc::recvmmsg(fd.as_raw_fd(), headers, count, libc::MSG_DONTWAIT as _, null_mut())
        };
        if fetched < 0 {
            return Err(io::Error::last_os_error());
        }
        self.filled = (fetched as usize).min(BUFFERS);
        Ok(())
    }

    /// Message `index` of the last fetch.
    #[inline]
    pub(super) fn message(&self, index: usize) -> Option<Message<'_>> {
        if index >= self.filled {
            return None;
        }
        let header = &self.headers[index];
        let length = (header.msg_len as usize).min(BUFFER_BYTES);
        let bytes = &self.buffers[index * BUFFER_BYTES..][..length];
        let name = &self.names[index];
        if self.plain {
            let (truncated, marked) = (false, false);
            return Some(Message { bytes, name, segment_bytes: None, truncated, marked });
        }
        let Told { merged_bytes, marked } = self.told(index);
        let segment_bytes = Some(merged_bytes.unwrap_or(length).max(1));
        let truncated = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        Some(Message { bytes, name, segment_bytes, truncated, marked })
    }

    #[inline]
    fn told(&self, index: usize) -> Told {
        let used = self.headers[index].msg_hdr.msg_controllen.min(CONTROL_BYTES);
        Told::of(&self.controls[index].0[..used])
    }
}

/// What the ancillary data of a datagram, or of several that were merged, say of it.
#[derive(Clone, Copy, Default)]
pub(super) struct Told {
    /// Length in bytes of each of those that were merged.
    pub(super) merged_bytes: Option<usize>,
    /// A switch has marked it: congestion experienced.
    pub(super) marked: bool,
}

impl Told {
    #[inline]
    pub(super) fn of(control: &[u8]) -> Self {
        /// Offset of the data behind a `cmsghdr`.
        const DATA: usize = size_of::<libc::cmsghdr>();
        let mut told = Self::default();
        let mut rest = control;
        while rest.len() >= DATA {
            // SAFETY: there are enough bytes, and `cmsghdr` is made of integers; unaligned is fine.
            let header = unsafe { rest.as_ptr().cast::<libc::cmsghdr>().read_unaligned() };
            let length = header.cmsg_len.clamp(DATA, rest.len());
            let value = &rest[DATA..length];
            match (header.cmsg_level, header.cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let size = value.first_chunk::<4>().map(|size| i32::from_ne_bytes(*size));
                    told.merged_bytes =
                        size.and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0);
                }
                // One byte of IPv4's, an integer of IPv6's.
                (libc::IPPROTO_IP, libc::IP_TOS) => {
                    told.marked = value.first().is_some_and(|class| is_marked(*class));
                }
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    let class = value.first_chunk::<4>().map(|class| i32::from_ne_bytes(*class));
                    told.marked = class.is_some_and(|class| is_marked(class as u8));
                }
                _ => {}
            }
            // The next header starts at the next multiple of eight.
            rest = rest.get(length.next_multiple_of(8)..).unwrap_or_default();
        }
        told
    }
}

/// Both bits of ECN in the class of traffic: congestion experienced (RFC 3168).
const fn is_marked(class: u8) -> bool {
    class & 0b11 == 0b11
}
