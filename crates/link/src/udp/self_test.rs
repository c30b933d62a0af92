//! Whether this kernel splices pages into a segmented datagram so that they arrive: kernels do it in different ways, and old
//! ones not at all. Tried once by each process, over sockets of its own.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use emp_wire::HEADER_BYTES;

use super::inbox::Inbox;
use super::splice::{PAGE_BYTES, Pipe};
use crate::gather::Gather;
use crate::name::SocketName;
use crate::system::{self, Polled};

/// Payload that is tried, in bytes: a long frame's, so that an unaligned one touches as many pages as any.
const PAYLOAD_BYTES: usize = 15 * PAGE_BYTES;
/// Datagrams that it is cut into, in bytes: Ethernet's.
const SEGMENT_BYTES: u16 = 1472;
/// Longest wait for it: it crosses loopback during the call that sends it.
const PATIENCE: Duration = Duration::from_millis(100);

/// What the test said.
static SPLICES: OnceLock<bool> = OnceLock::new();

/// True if a spliced datagram arrives as it was. Where there is no loopback to try it on, the kernel's release tells, and
/// the next link tries again.
pub(super) fn splices() -> bool {
    if let Some(known) = SPLICES.get() {
        return *known;
    }
    match ends() {
        Ok(ends) => *SPLICES.get_or_init(|| arrives(&ends).unwrap_or(false)),
        Err(_) => references_pages(&system::kernel_release()),
    }
}

/// Two sockets, the first to send and the second to receive, and the second's name.
type Ends = (OwnedFd, OwnedFd, SocketName);

/// Two sockets on loopback, if packets cross it.
fn ends() -> io::Result<Ends> {
    let open = || {
        let socket = system::socket(libc::AF_INET, libc::SOCK_DGRAM)?;
        let name = SocketName::of(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        system::bind(socket.as_fd(), &name.raw, name.length)?;
        Ok::<_, io::Error>(socket)
    };
    let (from, to) = (open()?, open()?);
    let name = system::bound_address(to.as_fd())?.decode().ok_or(io::ErrorKind::InvalidData)?;
    let name = SocketName::of(name);
    system::send_to(from.as_fd(), &[0], &name)?;
    system::poll(to.as_fd(), Some(PATIENCE));
    Inbox::new().fetch(to.as_fd(), false)?;
    Ok((from, to, name))
}

/// Sends one unaligned payload behind a head; true if that is what comes.
fn arrives((from, to, name): &Ends) -> io::Result<bool> {
    system::set_option(to.as_fd(), libc::SOL_UDP, libc::UDP_GRO, &1)?;
    let bytes: Vec<u8> = (0..2 * PAYLOAD_BYTES).map(|i| (i * 31 + i / 251) as u8).collect();
    let unaligned = bytes.as_ptr().align_offset(PAGE_BYTES) + 1000;
    let payload = [IoSlice::new(&bytes[unaligned..][..PAYLOAD_BYTES])];
    let head = [IoSlice::new(&[0xE5; HEADER_BYTES])];
    let mut gather = Gather::new(1, 2);
    let mut filling = gather.fill();
    filling.begin();
    filling.name(name);
    filling.segment(SEGMENT_BYTES);
    filling.parts(&head);
    if Pipe::open()?.send(from.as_fd(), &mut filling, &payload).is_err()
        || system::poll(to.as_fd(), Some(PATIENCE)) != Polled::Readable
    {
        return Ok(false);
    }
    let mut inbox = Inbox::new();
    inbox.fetch(to.as_fd(), false)?;
    let whole = [&head[0][..], &payload[0][..]].concat();
    Ok(inbox.message(0).is_some_and(|got| {
        got.bytes == whole && got.segment_bytes == usize::from(SEGMENT_BYTES) && !got.truncated
    }))
}

/// True for releases since 6.5, whose sockets take pages by `MSG_SPLICE_PAGES`.
fn references_pages(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let (major, minor) = (numbers.next(), numbers.next());
    matches!((major, minor), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (6, 5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read() {
        for release in ["6.18.44-x", "6.5", "7.0.0"] {
            assert!(references_pages(release), "{release}");
        }
        for release in ["6.4.16", "5.15.0-91-generic", "", "x.y", "6"] {
            assert!(!references_pages(release), "{release}");
        }
    }

    /// On kernels that are new enough it works, and the next question gets the same answer.
    #[test]
    fn this_kernel_does_as_its_release_says() {
        let release = system::kernel_release();
        assert!(!release.is_empty());
        if references_pages(&release) {
            assert!(splices(), "release {release}");
        }
        assert_eq!(splices(), splices());
    }
}
