//! The system calls of an AF_XDP socket.
//!
//! # Invariant
//!
//! Every pointer handed to the kernel comes from a live value in the same function and is given with
//! its exact size, with one exception: the memory of [`register`], which the kernel pins and keeps
//! until the socket is closed. Its pages stay the kernel's even if they are unmapped earlier, and
//! what the kernel writes there is read under the rules of `umem.rs` only.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{from_mut, from_ref, null, null_mut};

use super::XskBind;
use super::ring::{Consumer, Entry, Offsets, Producer};
use super::umem::Umem;
use crate::mapping::Mapping;

/// Socket option, from `<linux/if_xdp.h>`: frames sent in one call (Linux 6.18).
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// The four rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingKind {
    Receive,
    Send,
    Fill,
    Done,
}

/// What the kernel counted since the socket was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XskCounts {
    /// Frames dropped because no chunk was free for them, or they were malformed.
    pub receive_dropped: u64,
    /// Frames dropped because the receive ring was full.
    pub receive_ring_full: u64,
    /// Descriptors that the kernel refused to send.
    pub send_invalid: u64,
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(super) fn open() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; a non-negative result is a fresh descriptor that nobody else owns.
    unsafe {
        let fd = libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        check(fd)?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

fn set<T: Copy>(fd: BorrowedFd<'_>, name: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    let value = from_ref(value).cast();
    // SAFETY: see the module's invariant.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, name, value, length) })
}

/// Reads an option made of integers; returns the bytes that the kernel wrote.
fn get<T: Copy>(fd: BorrowedFd<'_>, name: libc::c_int, value: &mut T) -> io::Result<usize> {
    let mut length = size_of::<T>() as libc::socklen_t;
    let value = from_mut(value).cast();
    // SAFETY: see the module's invariant.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, name, value, &raw mut length)
    })?;
    Ok(length as usize)
}

pub(super) fn register(fd: BorrowedFd<'_>, umem: &Umem, chunk_bytes: usize) -> io::Result<()> {
    // SAFETY: all fields are integers.
    let mut region: libc::xdp_umem_reg = unsafe { zeroed() };
    region.addr = umem.base() as u64;
    region.len = umem.bytes() as u64;
    region.chunk_size = chunk_bytes as u32;
    set(fd, libc::XDP_UMEM_REG, &region)
}

pub(super) fn set_ring_size(fd: BorrowedFd<'_>, kind: RingKind, size: u32) -> io::Result<()> {
    let name = match kind {
        RingKind::Receive => libc::XDP_RX_RING,
        RingKind::Send => libc::XDP_TX_RING,
        RingKind::Fill => libc::XDP_UMEM_FILL_RING,
        RingKind::Done => libc::XDP_UMEM_COMPLETION_RING,
    };
    set(fd, name, &size)
}

pub(super) fn set_send_budget(fd: BorrowedFd<'_>, frames: u32) -> io::Result<()> {
    set(fd, XDP_MAX_TX_SKB_BUDGET, &frames)
}

/// Where the kernel says the parts of each ring are.
pub(super) struct Maps(libc::xdp_mmap_offsets);

pub(super) fn offsets(fd: BorrowedFd<'_>) -> io::Result<Maps> {
    // SAFETY: all fields are integers.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { zeroed() };
    let written = get(fd, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
    if written < size_of::<libc::xdp_mmap_offsets>() {
        // Before Linux 5.4 there were no flags, and the structure was shorter.
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(Maps(offsets))
}

impl Maps {
    fn map<T>(
        &self,
        fd: BorrowedFd<'_>,
        kind: RingKind,
        size: u32,
    ) -> io::Result<(Mapping, Offsets)> {
        let (at, page) = match kind {
            RingKind::Receive => (&self.0.rx, libc::XDP_PGOFF_RX_RING),
            RingKind::Send => (&self.0.tx, libc::XDP_PGOFF_TX_RING),
            RingKind::Fill => (&self.0.fr, libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t),
            RingKind::Done => (&self.0.cr, libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t),
        };
        let entries = size as usize * size_of::<T>();
        let start = usize::try_from(at.desc).map_err(|_| io::ErrorKind::InvalidData)?;
        let bytes = start.checked_add(entries).ok_or(io::ErrorKind::InvalidData)?;
        let offsets = Offsets {
            producer: at.producer,
            consumer: at.consumer,
            flags: at.flags,
            entries: at.desc,
        };
        Ok((Mapping::of(fd, bytes, page)?, offsets))
    }

    pub(super) fn producer<T: Entry>(
        &self,
        fd: BorrowedFd<'_>,
        kind: RingKind,
        size: u32,
    ) -> io::Result<Producer<T>> {
        let (map, offsets) = self.map::<T>(fd, kind, size)?;
        Producer::new(map, offsets, size)
    }

    pub(super) fn consumer<T: Entry>(
        &self,
        fd: BorrowedFd<'_>,
        kind: RingKind,
        size: u32,
    ) -> io::Result<Consumer<T>> {
        let (map, offsets) = self.map::<T>(fd, kind, size)?;
        Consumer::new(map, offsets, size)
    }
}

pub(super) fn bind(fd: BorrowedFd<'_>, to: &XskBind) -> io::Result<()> {
    let copying = if to.zero_copy { libc::XDP_ZEROCOPY } else { libc::XDP_COPY };
    let several = if to.several_chunks { libc::XDP_USE_SG } else { 0 };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: copying | several | libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: to.interface,
        sxdp_queue_id: to.queue,
        sxdp_shared_umem_fd: 0,
    };
    let length = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: see the module's invariant.
    check(unsafe { libc::bind(fd.as_raw_fd(), from_ref(&address).cast(), length) })
}

// The two kicks are made directly: see `system.rs` of the link crate for why.

pub(super) fn kick_send(fd: BorrowedFd<'_>) -> io::Result<()> {
    let (fd, flags) = (fd.as_raw_fd(), libc::MSG_DONTWAIT);
    // SAFETY: no memory is handed over.
    let result = unsafe {
        libc::syscall(libc::SYS_sendto, fd, null::<u8>(), 0, flags, null::<libc::sockaddr>(), 0)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(super) fn kick_receive(fd: BorrowedFd<'_>) -> io::Result<()> {
    let (fd, flags, none) = (fd.as_raw_fd(), libc::MSG_DONTWAIT, null_mut::<libc::sockaddr>());
    // SAFETY: no memory is handed over.
    let result = unsafe {
        let no_length = null_mut::<libc::socklen_t>();
        libc::syscall(libc::SYS_recvfrom, fd, null_mut::<u8>(), 0, flags, none, no_length)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(super) fn counts(fd: BorrowedFd<'_>) -> io::Result<XskCounts> {
    // SAFETY: all fields are integers.
    let mut counts: libc::xdp_statistics = unsafe { zeroed() };
    get(fd, libc::XDP_STATISTICS, &mut counts)?;
    Ok(XskCounts {
        receive_dropped: counts.rx_dropped,
        receive_ring_full: counts.rx_ring_full,
        send_invalid: counts.tx_invalid_descs,
    })
}
