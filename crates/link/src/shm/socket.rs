//! The calls on local sockets and on epoll that the shared-memory link needs, so that the link itself holds no `unsafe`.
//!
//! # Invariant
//!
//! Every pointer handed to the kernel here comes from a live reference in the same function and is given with its exact
//! size; the kernel does not keep it after the call returns. Every descriptor that the kernel hands out is owned at once,
//! so that none leaks and none is closed twice.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{from_mut, from_ref, null_mut};

use crate::system::{self, check};

/// Connections that may wait to be accepted: more than processes have ranks on one machine.
const BACKLOG: libc::c_int = 1024;

/// Room for one descriptor beside a message. Its length is given so that a second one does not fit.
#[repr(C, align(8))]
struct Control([u8; CONTROL_SPACE]);

/// Bytes of a control message with one descriptor, with and without the padding after it.
// SAFETY: plain arithmetic on its argument.
const CONTROL_SPACE: usize = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) } as usize;
// SAFETY: as above.
const CONTROL_LENGTH: usize = unsafe { libc::CMSG_LEN(size_of::<RawFd>() as u32) } as usize;

/// The socket address of a path, and its length. Fails if the path is too long for one.
fn name(path: &Path) -> io::Result<(libc::sockaddr_un, usize)> {
    // SAFETY: all-zero is a valid `sockaddr_un`.
    let mut name: libc::sockaddr_un = unsafe { zeroed() };
    let bytes = path.as_os_str().as_bytes();
    // The last byte stays zero.
    if bytes.len() >= name.sun_path.len() || bytes.contains(&0) {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    name.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in name.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok((name, size_of::<libc::sa_family_t>() + bytes.len() + 1))
}

/// A socket that takes connections at `path`, which must not exist yet.
pub(super) fn listen(path: &Path) -> io::Result<OwnedFd> {
    let socket = system::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET)?;
    let (name, length) = name(path)?;
    // SAFETY: see the module's invariant.
    check(unsafe {
        libc::bind(socket.as_raw_fd(), from_ref(&name).cast(), length as libc::socklen_t)
    })?;
    // SAFETY: no pointers.
    check(unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) })?;
    Ok(socket)
}

/// A connection to whoever listens at `path`. Never waits: `EAGAIN` if too many wait there.
pub(super) fn connect(path: &Path) -> io::Result<OwnedFd> {
    let socket = system::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET)?;
    let (name, length) = name(path)?;
    // SAFETY: see the module's invariant.
    check(unsafe {
        libc::connect(socket.as_raw_fd(), from_ref(&name).cast(), length as libc::socklen_t)
    })?;
    Ok(socket)
}

/// The next connection that waits at a listening socket.
pub(super) fn accept(listener: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: null pointers ask for no address; a non-negative result is a fresh descriptor.
    unsafe {
        let fd = check(libc::accept4(listener.as_raw_fd(), null_mut(), null_mut(), flags))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// The user and the process that made the other end of a connection. The process is 0 if it cannot be seen from here.
pub(super) fn peer(socket: BorrowedFd<'_>) -> io::Result<(libc::uid_t, libc::pid_t)> {
    let mut peer = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: libc::gid_t::MAX };
    system::get_option(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, &mut peer)?;
    Ok((peer.uid, peer.pid))
}

/// The user that this process acts as.
pub(super) fn own_user() -> libc::uid_t {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

/// 64 random bits.
pub(super) fn random() -> io::Result<u64> {
    let mut bits = [0u8; 8];
    // SAFETY: see the module's invariant.
    let got = unsafe { libc::getrandom(bits.as_mut_ptr().cast(), bits.len(), 0) };
    if got == 8 { Ok(u64::from_ne_bytes(bits)) } else { Err(io::Error::last_os_error()) }
}

/// Sends one message, without waiting and without a signal if nobody is there.
pub(super) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: see the module's invariant.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Receives one message, without waiting; descriptors that come with it are closed by the kernel.
pub(super) fn receive(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT;
    // SAFETY: see the module's invariant.
    let got =
        unsafe { libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), flags) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(got as usize) }
}

/// A message header for `bytes` and `control`.
fn header(bytes: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: all-zero is a valid `msghdr`.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = from_mut(bytes);
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_LENGTH as _;
    header
}

/// Sends one message and a descriptor with it.
pub(super) fn send_descriptor(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptor: BorrowedFd<'_>,
) -> io::Result<()> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control([0; CONTROL_SPACE]);
    let header = header(&mut part, &mut control);
    // SAFETY: the control buffer is aligned and long enough for one control message with one descriptor, which is
    // written into it; `sendmsg` only reads what the header points to.
    let sent = unsafe {
        let message = libc::CMSG_FIRSTHDR(from_ref(&header));
        (*message).cmsg_level = libc::SOL_SOCKET;
        (*message).cmsg_type = libc::SCM_RIGHTS;
        (*message).cmsg_len = CONTROL_LENGTH as _;
        libc::CMSG_DATA(message).cast::<RawFd>().write_unaligned(descriptor.as_raw_fd());
        libc::sendmsg(
            socket.as_raw_fd(),
            from_ref(&header),
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Receives one message, and the descriptor that came with it if there is exactly one.
pub(super) fn receive_descriptor(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = Control([0; CONTROL_SPACE]);
    let mut header = header(&mut part, &mut control);
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the header points to live, writable buffers of the lengths that it says.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), from_mut(&mut header), flags) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut descriptor = None;
    // SAFETY: the kernel has filled the control buffer and set its length; a message of descriptors with the length of
    // one carries exactly one, fresh and ours. The room that was given does not hold two.
    unsafe {
        let message = libc::CMSG_FIRSTHDR(from_ref(&header));
        if !message.is_null()
            && (*message).cmsg_level == libc::SOL_SOCKET
            && (*message).cmsg_type == libc::SCM_RIGHTS
            && (*message).cmsg_len as usize == CONTROL_LENGTH
        {
            let fd = libc::CMSG_DATA(message).cast::<RawFd>().read_unaligned();
            descriptor = Some(OwnedFd::from_raw_fd(fd));
        }
    }
    Ok((got as usize, descriptor))
}

/// What a watched descriptor has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// The number that it was watched under.
    pub(super) token: u64,
    /// The other end is gone.
    pub(super) hangup: bool,
}

/// Most events that one look returns; the rest comes with the next.
const EVENTS: usize = 32;

/// Descriptors watched together; readable itself while one of them is.
pub(super) struct Watch(OwnedFd);

impl Watch {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: no pointers; a non-negative result is a fresh descriptor.
        unsafe {
            let fd = check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?;
            Ok(Self(OwnedFd::from_raw_fd(fd)))
        }
    }

    /// The descriptor to sleep on.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.0.as_fd()
    }

    /// Watches a descriptor until it is closed.
    pub(super) fn add(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let events = (libc::EPOLLIN | libc::EPOLLRDHUP) as u32;
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: see the module's invariant.
        check(unsafe {
            libc::epoll_ctl(
                self.0.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                fd.as_raw_fd(),
                from_mut(&mut event),
            )
        })?;
        Ok(())
    }

    /// What there is now, handed to `each`. True if there may be more.
    pub(super) fn look(&self, mut each: impl FnMut(Event)) -> bool {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        // SAFETY: see the module's invariant.
        let count = unsafe {
            libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), EVENTS as libc::c_int, 0)
        };
        let count = usize::try_from(count).unwrap_or(0).min(EVENTS);
        for event in &events[..count] {
            let gone = (libc::EPOLLHUP | libc::EPOLLRDHUP | libc::EPOLLERR) as u32;
            each(Event { token: event.u64, hangup: event.events & gone != 0 });
        }
        count == EVENTS
    }
}
