//! The calls on Unix sockets that the service and its clients need, so that neither holds `unsafe` for them. Nothing here waits.
//!
//! # Invariant
//!
//! As in [`system`](crate::system): every pointer handed to the kernel comes from a live reference in the same function and is given with
//! its exact size. Every descriptor that the kernel hands out is owned at once, so that none leaks and none is closed twice.

use std::io;
use std::mem::{offset_of, size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{from_mut, from_ref, null_mut};

use crate::system::{self, check};

/// Most descriptors that come with one message.
pub const DESCRIPTORS_MAX: usize = 2;

/// Connections that wait to be accepted.
const BACKLOG: libc::c_int = 512;

/// Most groups of a process that are looked at (`NGROUPS_MAX`).
const GROUPS_MAX: usize = 65_536;

// SAFETY: plain arithmetic on its argument.
const CONTROL_BYTES: usize =
    unsafe { libc::CMSG_SPACE((DESCRIPTORS_MAX * size_of::<RawFd>()) as u32) } as usize;

/// Room for the descriptors beside a message.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Who is at the other end of a connection, by the kernel's word, as they were when they connected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Effective user.
    pub user: u32,
    /// Effective group.
    pub group: u32,
    /// The process, or 0 if it cannot be seen from here.
    pub process: i32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl Peer {
    /// Whether a group is this peer's, in either way.
    #[must_use]
    pub fn is_in(&self, group: u32) -> bool {
        self.group == group || self.groups.contains(&group)
    }
}

/// Bytes of a socket's path at most: the kernel's room for one, but for the zero at its end.
pub const PATH_BYTES_MAX: usize =
    size_of::<libc::sockaddr_un>() - offset_of!(libc::sockaddr_un, sun_path) - 1;

fn name_of(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: all-zero is a valid `sockaddr_un`.
    let mut name: libc::sockaddr_un = unsafe { zeroed() };
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.contains(&0) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    if bytes.len() > PATH_BYTES_MAX {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    name.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in name.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok((name, (size_of::<libc::sa_family_t>() + bytes.len() + 1) as libc::socklen_t))
}

/// A socket that listens at `path`, which must not exist.
///
/// # Errors
///
/// The system's.
pub fn listen(path: &Path) -> io::Result<OwnedFd> {
    let socket = system::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET)?;
    let (name, bytes) = name_of(path)?;
    system::bind(socket.as_fd(), &name, bytes as usize)?;
    // SAFETY: no pointers.
    check(unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) })?;
    Ok(socket)
}

/// Whether a socket that somebody else made is one as [`listen`] makes them; makes it one that nobody waits for.
#[must_use]
pub fn listens(socket: BorrowedFd<'_>) -> bool {
    let option = |name| {
        let mut value: libc::c_int = 0;
        system::get_option(socket, libc::SOL_SOCKET, name, &mut value).map(|_| value).ok()
    };
    let is_one = option(libc::SO_DOMAIN) == Some(libc::AF_UNIX)
        && option(libc::SO_TYPE) == Some(libc::SOCK_SEQPACKET)
        && option(libc::SO_ACCEPTCONN) == Some(1);
    // SAFETY: no pointers.
    is_one
        && check(unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) })
            .is_ok()
}

/// A connection to whoever listens at `path`.
///
/// # Errors
///
/// The system's; `WouldBlock` if too many wait there already.
pub fn connect(path: &Path) -> io::Result<OwnedFd> {
    let socket = system::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET)?;
    let (name, bytes) = name_of(path)?;
    // SAFETY: see the module's invariant.
    check(unsafe { libc::connect(socket.as_raw_fd(), from_ref(&name).cast(), bytes) })?;
    Ok(socket)
}

/// The next connection that waits.
///
/// # Errors
///
/// `WouldBlock` if none does, and the system's.
pub fn accept(listening: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: null pointers mean that the address is not asked for; a non-negative result is a fresh descriptor that nobody else owns.
    unsafe {
        let fd = check(libc::accept4(listening.as_raw_fd(), null_mut(), null_mut(), flags))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Two ends of a connection.
///
/// # Errors
///
/// The system's.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: see the module's invariant; on success both descriptors are fresh and nobody else's.
    unsafe {
        check(libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()))?;
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Who is at the other end of a connection.
///
/// # Errors
///
/// The system's.
pub fn peer(connection: BorrowedFd<'_>) -> io::Result<Peer> {
    // SAFETY: all-zero is a valid `ucred`.
    let mut who: libc::ucred = unsafe { zeroed() };
    system::get_option(connection, libc::SOL_SOCKET, libc::SO_PEERCRED, &mut who)?;
    let groups = peer_groups(connection)?;
    Ok(Peer { user: who.uid, group: who.gid, process: who.pid, groups })
}

/// `SO_PEERGROUPS` (since Linux 4.13): what the process had, not what a database says that its user would get, and without asking one.
fn peer_groups(connection: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut groups = vec![0u32; 64];
    loop {
        let mut bytes = (groups.len() * size_of::<u32>()) as libc::socklen_t;
        // SAFETY: see the module's invariant; the kernel writes group numbers, for which every bit pattern is valid.
        let result = check(unsafe {
            libc::getsockopt(
                connection.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        });
        match result {
            Ok(_) => {
                groups.truncate(bytes as usize / size_of::<u32>());
                return Ok(groups);
            }
            // The kernel says how much room it needs.
            Err(error) if error.raw_os_error() == Some(libc::ERANGE) => {
                let count = bytes as usize / size_of::<u32>();
                if count <= groups.len() || count > GROUPS_MAX {
                    return Err(error);
                }
                groups.resize(count, 0);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Sends one message, with up to [`DESCRIPTORS_MAX`] descriptors.
///
/// # Errors
///
/// `WouldBlock` if the other end does not take what it has been sent, and the system's.
pub fn send(
    connection: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    if descriptors.len() > DESCRIPTORS_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: all-zero is a valid `msghdr`.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    let payload = (descriptors.len() * size_of::<RawFd>()) as u32;
    if !descriptors.is_empty() {
        header.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: plain arithmetic; then the control buffer is aligned and has room for `DESCRIPTORS_MAX` descriptors, and no more are
        // written into it.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(payload) as _;
            let message = libc::CMSG_FIRSTHDR(from_ref(&header));
            (*message).cmsg_level = libc::SOL_SOCKET;
            (*message).cmsg_type = libc::SCM_RIGHTS;
            (*message).cmsg_len = libc::CMSG_LEN(payload) as _;
            let data = libc::CMSG_DATA(message).cast::<RawFd>();
            for (place, descriptor) in descriptors.iter().enumerate() {
                data.add(place).write_unaligned(descriptor.as_raw_fd());
            }
        }
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the header points to live values of the lengths that it says; `sendmsg` only reads them.
    let sent = unsafe { libc::sendmsg(connection.as_raw_fd(), from_ref(&header), flags) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Receives one message and takes no descriptors: the kernel closes what comes with it. 0 bytes: the other end is closed.
///
/// # Errors
///
/// `WouldBlock` if there is none, and the system's.
pub fn receive(connection: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    system::receive(connection, bytes)
}

/// As [`receive`], and takes up to [`DESCRIPTORS_MAX`] descriptors.
///
/// # Errors
///
/// As for [`receive`].
pub fn receive_with(
    connection: BorrowedFd<'_>,
    bytes: &mut [u8],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: all-zero is a valid `msghdr`.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = from_mut(&mut part);
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_BYTES as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the header points to live, writable buffers of the lengths that it says.
    let got = unsafe { libc::recvmsg(connection.as_raw_fd(), from_mut(&mut header), flags) };
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    let mut descriptors = Vec::new();
    // SAFETY: the kernel has filled the control buffer and set its length; a message of descriptors has as many as its length says, each
    // fresh and ours.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(from_ref(&header));
        while let Some(found) = message.as_ref() {
            if (found.cmsg_level, found.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let payload = found.cmsg_len - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(message).cast::<RawFd>();
                for place in 0..payload / size_of::<RawFd>() {
                    let descriptor = data.add(place).read_unaligned();
                    descriptors.push(OwnedFd::from_raw_fd(descriptor));
                }
            }
            message = libc::CMSG_NXTHDR(from_ref(&header), message);
        }
    }
    Ok((got, descriptors))
}

/// Ends a connection, also for a child that was just forked and has a copy of it.
pub fn end(connection: BorrowedFd<'_>) {
    // Failing means that it has ended.
    // SAFETY: no pointers.
    unsafe { libc::shutdown(connection.as_raw_fd(), libc::SHUT_RDWR) };
}

/// Ends one way of a connection: the other end sees this one gone, which hears it still.
pub fn end_sending(connection: BorrowedFd<'_>) {
    // Failing means that it has ended.
    // SAFETY: no pointers.
    unsafe { libc::shutdown(connection.as_raw_fd(), libc::SHUT_WR) };
}

/// True if the other end of a connection is closed, and nothing that it sent is left.
#[must_use]
pub fn is_over(connection: BorrowedFd<'_>) -> bool {
    let mut byte = [0];
    // SAFETY: see the module's invariant.
    let got = unsafe {
        let flags = libc::MSG_DONTWAIT | libc::MSG_PEEK;
        libc::recv(connection.as_raw_fd(), byte.as_mut_ptr().cast(), byte.len(), flags)
    };
    let waits = || io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock;
    got == 0 || got < 0 && !waits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stay_apart_and_bring_descriptors() {
        let (a, b) = pair().expect("two ends");
        let (inner, kept) = pair().expect("two more");
        send(a.as_fd(), b"one", &[inner.as_fd(), inner.as_fd()]).expect("sent");
        send(a.as_fd(), b"two", &[]).expect("sent");
        drop(inner);
        let mut bytes = [0; 8];
        let (got, brought) = receive_with(b.as_fd(), &mut bytes).expect("received");
        assert_eq!((&bytes[..got], brought.len()), (&b"one"[..], 2));
        let (got, none) = receive_with(b.as_fd(), &mut bytes).expect("received");
        assert_eq!((&bytes[..got], none.len()), (&b"two"[..], 0));
        send(brought[1].as_fd(), b"through", &[]).expect("sent");
        assert_eq!(receive(kept.as_fd(), &mut bytes).expect("received"), 7);
        assert!(!is_over(b.as_fd()) && !is_over(kept.as_fd()));
        drop((a, brought));
        assert!(is_over(b.as_fd()) && is_over(kept.as_fd()));
    }

    /// Who takes none of the descriptors that come has none of them.
    #[test]
    fn descriptors_that_nobody_asked_for_are_closed() {
        let (a, b) = pair().expect("two ends");
        let (inner, kept) = pair().expect("two more");
        send(a.as_fd(), b"one", &[inner.as_fd()]).expect("sent");
        drop(inner);
        assert!(!is_over(kept.as_fd()));
        assert_eq!(receive(b.as_fd(), &mut [0; 8]).expect("received"), 3);
        assert!(is_over(kept.as_fd()));
    }

    #[test]
    fn a_listener_knows_who_connects() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("socket");
        assert_eq!(connect(&path).expect_err("nobody").kind(), io::ErrorKind::NotFound);
        let listening = listen(&path).expect("it listens");
        assert_eq!(accept(listening.as_fd()).expect_err("none").kind(), io::ErrorKind::WouldBlock);
        let near = connect(&path).expect("it connects");
        let far = accept(listening.as_fd()).expect("it is there");
        let own = peer(far.as_fd()).expect("it is known");
        assert_eq!(own.process, std::process::id() as i32);
        assert!(own.is_in(own.group));
        drop(near);
        assert!(is_over(far.as_fd()));
        assert_eq!(listen(&path).expect_err("taken").kind(), io::ErrorKind::AddrInUse);
    }
}
