//! Names that one process of a machine has at a time, gone with it: sockets of the abstract namespace, which also take
//! datagrams from other processes of the machine.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A name that this process has.
pub struct Claim(OwnedFd);

/// The address of a name. It begins with a zero, so it is no file's.
fn address_of(name: &[u8]) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: a structure of plain numbers.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    if name.len() >= address.sun_path.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (place, byte) in address.sun_path[1..].iter_mut().zip(name) {
        *place = *byte as libc::c_char;
    }
    let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
    Ok((address, length as libc::socklen_t))
}

fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes no pointers.
    let socket = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and belongs to no one else.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

impl Claim {
    /// Takes a name.
    ///
    /// # Errors
    ///
    /// `AddrInUse`: somebody has it. `InvalidInput`: it is longer than 106 bytes.
    pub fn new(name: &[u8]) -> io::Result<Self> {
        let (address, length) = address_of(name)?;
        let socket = socket()?;
        // SAFETY: the address is valid and at least as long as said.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
        if bound == 0 { Ok(Self(socket)) } else { Err(io::Error::last_os_error()) }
    }

    /// True if nobody has the name.
    pub fn is_free(name: &[u8]) -> bool {
        Self::new(name).is_ok()
    }

    /// Sends a datagram to whoever has a name; never waits.
    ///
    /// # Errors
    ///
    /// `ConnectionRefused`: nobody has it. `WouldBlock`: too much waits there already.
    pub fn tell(name: &[u8], datagram: &[u8]) -> io::Result<()> {
        let (address, length) = address_of(name)?;
        let socket = socket()?;
        let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
        let to = (&raw const address).cast();
        // SAFETY: datagram and address are valid and as long as said.
        let sent = unsafe {
            libc::sendto(fd, datagram.as_ptr().cast(), datagram.len(), flags, to, length)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Takes a datagram that waits here, cut to what fits; `None` if there is none.
    pub fn hear<'a>(&self, into: &'a mut [u8]) -> Option<&'a [u8]> {
        // SAFETY: writes at most the length of the slice.
        let got = unsafe {
            libc::recv(self.0.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT)
        };
        usize::try_from(got).ok().map(|got| &into[..got])
    }

    /// No datagram is taken in any more; those that wait can be heard.
    pub fn shut(&self) {
        // SAFETY: takes no pointers. A failure means that none are taken already.
        unsafe { libc::shutdown(self.0.as_raw_fd(), libc::SHUT_RD) };
    }

    /// For `poll(2)`: readable when a datagram waits.
    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_claims_until_it_goes() {
        let name = format!("emp-test-claim-{}", std::process::id());
        let name = name.as_bytes();
        assert!(Claim::is_free(name));
        let refused = Claim::tell(name, b"hello").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let claim = Claim::new(name).unwrap();
        assert_eq!(Claim::new(name).err().unwrap().kind(), io::ErrorKind::AddrInUse);
        let mut room = [0; 3];
        assert_eq!(claim.hear(&mut room), None);
        Claim::tell(name, b"hello").unwrap();
        Claim::tell(name, b"you").unwrap();
        claim.shut();
        assert!(Claim::tell(name, b"late").is_err());
        assert_eq!(claim.hear(&mut room), Some(&b"hel"[..]));
        assert_eq!(claim.hear(&mut room), Some(&b"you"[..]));
        drop(claim);
        assert!(Claim::is_free(name));
        assert!(Claim::new(&[7; 107]).is_ok() && Claim::new(&[7; 108]).is_err());
    }
}
