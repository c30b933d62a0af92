//! The calls on local sockets that the shared-memory link needs, so that the link itself holds no `unsafe`.
//!
//! # Invariant
//!
//! Every pointer handed to the kernel here comes from a live reference in the same function and is given with its exact
//! size; the kernel does not keep it after the call returns. Every descriptor that the kernel hands out is owned at once,
//! so that none leaks and none is closed twice.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::ptr::{from_mut, from_ref};

use crate::system::{self, check};

/// Room for what the kernel says beside a message: who sent it, and one descriptor.
#[repr(C, align(8))]
struct Control([u8; CONTROL_SPACE]);

/// Bytes of a control message with one descriptor, with and without the padding after it, and of one with the sender's identity.
// SAFETY: plain arithmetic on its argument.
const RIGHTS_SPACE: usize = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) } as usize;
// SAFETY: as above.
const RIGHTS_LENGTH: usize = unsafe { libc::CMSG_LEN(size_of::<RawFd>() as u32) } as usize;
// SAFETY: as above.
const SENDER_SPACE: usize = unsafe { libc::CMSG_SPACE(size_of::<libc::ucred>() as u32) } as usize;
// SAFETY: as above.
const SENDER_LENGTH: usize = unsafe { libc::CMSG_LEN(size_of::<libc::ucred>() as u32) } as usize;
/// A second descriptor does not fit: the kernel closes it.
const CONTROL_SPACE: usize = RIGHTS_SPACE + SENDER_SPACE;

/// Where a node takes messages: the name of its socket, as the kernel has it.
#[derive(Clone, Copy)]
pub(super) struct Whereto {
    name: libc::sockaddr_un,
    bytes: usize,
    /// Which socket had the name: a node that starts again takes the name of the one before.
    file: Option<File>,
}

/// What tells a socket from a later one of its name: its number in the file system and when it was made (seconds, nanoseconds), as numbers are used again.
type File = (u64, i64, i64);

fn file(path: &Path) -> io::Result<File> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.ino(), found.mtime(), found.mtime_nsec()))
}

impl Whereto {
    /// Fails if the path is too long for a socket's name.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
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
        let file = file(path).ok();
        Ok(Self { name, bytes: size_of::<libc::sa_family_t>() + bytes.len() + 1, file })
    }

    /// Whether the name is still that of the same socket. One system call.
    ///
    /// # Errors
    ///
    /// `NotFound` if it is nobody's or another's.
    pub(super) fn is_the_same(&self) -> io::Result<()> {
        let bytes = self.name.sun_path.iter().map(|byte| *byte as u8);
        let path: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        let same = file(Path::new(OsStr::from_bytes(&path)))?;
        if self.file == Some(same) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    /// Whether the same node still takes messages there. Four system calls, and nothing is sent.
    pub(super) fn answers(&self) -> io::Result<()> {
        self.is_the_same()?;
        let socket = system::socket(libc::AF_UNIX, libc::SOCK_DGRAM)?;
        // SAFETY: see the module's invariant.
        check(unsafe {
            libc::connect(
                socket.as_raw_fd(),
                from_ref(&self.name).cast(),
                self.bytes as libc::socklen_t,
            )
        })?;
        Ok(())
    }
}

/// A socket that takes messages at `path`, which must not exist yet, and is told who sends them.
pub(super) fn bind(path: &Path) -> io::Result<OwnedFd> {
    let socket = system::socket(libc::AF_UNIX, libc::SOCK_DGRAM)?;
    let to = Whereto::of(path)?;
    system::set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_PASSCRED, &1)?;
    // SAFETY: see the module's invariant.
    check(unsafe {
        libc::bind(socket.as_raw_fd(), from_ref(&to.name).cast(), to.bytes as libc::socklen_t)
    })?;
    Ok(socket)
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

/// Sends one message, and a descriptor with it if there is one, without waiting.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    to: &Whereto,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control([0; CONTROL_SPACE]);
    // SAFETY: all-zero is a valid `msghdr`.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_name = from_ref(&to.name).cast_mut().cast();
    header.msg_namelen = to.bytes as libc::socklen_t;
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    if let Some(descriptor) = descriptor {
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = RIGHTS_SPACE as _;
        // SAFETY: the control buffer is aligned and long enough for one control message with one descriptor, which is written into it.
        unsafe {
            let message = libc::CMSG_FIRSTHDR(from_ref(&header));
            (*message).cmsg_level = libc::SOL_SOCKET;
            (*message).cmsg_type = libc::SCM_RIGHTS;
            (*message).cmsg_len = RIGHTS_LENGTH as _;
            libc::CMSG_DATA(message).cast::<RawFd>().write_unaligned(descriptor.as_raw_fd());
        }
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the header points to live values of the lengths that it says; `sendmsg` only reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), from_ref(&header), flags) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A message that was received.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// Its length.
    pub(super) bytes: usize,
    /// The user and the process that sent it, by the kernel's word. The process is 0 if it cannot be seen from here.
    pub(super) sender: Option<(libc::uid_t, libc::pid_t)>,
    /// What came with it, if that is exactly one descriptor.
    pub(super) descriptor: Option<OwnedFd>,
}

/// Receives one message, without waiting.
pub(super) fn receive(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<Received> {
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = Control([0; CONTROL_SPACE]);
    // SAFETY: all-zero is a valid `msghdr`.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = from_mut(&mut part);
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_SPACE as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the header points to live, writable buffers of the lengths that it says.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), from_mut(&mut header), flags) };
    let bytes = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    let mut received = Received { bytes, ..Received::default() };
    // SAFETY: the kernel has filled the control buffer and set its length. A message of the sender has one `ucred`; one of descriptors with the
    // length of one carries exactly one, fresh and ours. There is no room for a second.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(from_ref(&header));
        while let Some(found) = message.as_ref() {
            let data = libc::CMSG_DATA(message);
            match (found.cmsg_level, found.cmsg_type, found.cmsg_len) {
                (libc::SOL_SOCKET, libc::SCM_RIGHTS, RIGHTS_LENGTH) => {
                    let fd = data.cast::<RawFd>().read_unaligned();
                    received.descriptor = Some(OwnedFd::from_raw_fd(fd));
                }
                (libc::SOL_SOCKET, libc::SCM_CREDENTIALS, SENDER_LENGTH) => {
                    let sender = data.cast::<libc::ucred>().read_unaligned();
                    received.sender = Some((sender.uid, sender.pid));
                }
                _ => {}
            }
            message = libc::CMSG_NXTHDR(from_ref(&header), message);
        }
    }
    Ok(received)
}
