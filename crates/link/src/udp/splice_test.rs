//! Whether this kernel splices pages into a segmented datagram so that they arrive: kernels do it in different ways, old ones not at all.
//! Tried once by each process, over sockets of its own.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use emp_wire::HEADER_BYTES;

use super::fetching::Fetch;
use super::inbox::Inbox;
use super::splice::{PAGE_BYTES, Pipe};
use crate::name::SocketName;
use crate::system::{self, Polled};

/// Payload that is tried, in bytes: a long frame's, so that an unaligned one touches as many pages as any.
const PAYLOAD_BYTES: usize = 15 * PAGE_BYTES;
/// Datagrams that it is cut into, in bytes: Ethernet's.
const SEGMENT_BYTES: u16 = 1472;
/// Longest wait for it: it crosses loopback during the call that sends it.
const PATIENCE: Duration = Duration::from_millis(100);

/// What the test said.
static ARRIVES: OnceLock<bool> = OnceLock::new();

/// Whether a spliced datagram arrives as it was. Where there is no loopback to try it on, the kernel's release tells, and the next link tries
/// again.
pub(super) fn splicing_works() -> bool {
    if let Some(known) = ARRIVES.get() {
        return *known;
    }
    match ends() {
        Ok(ends) => *ARRIVES.get_or_init(|| arrives(&ends).unwrap_or(false)),
        Err(_) => is_release(REFERENCES_PAGES),
    }
}

/// Two sockets: the first sends to the second, in datagrams of [`SEGMENT_BYTES`].
type Ends = (OwnedFd, OwnedFd);

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
    system::connect(from.as_fd(), &SocketName::of(name))?;
    system::send(from.as_fd(), &[0])?;
    system::poll(to.as_fd(), Some(PATIENCE));
    Inbox::new().fetch(to.as_fd(), Fetch::Told)?;
    let bytes = libc::c_int::from(SEGMENT_BYTES);
    system::set_option(from.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, &bytes)?;
    system::set_option(to.as_fd(), libc::SOL_UDP, libc::UDP_GRO, &1)?;
    Ok((from, to))
}

/// Sends one unaligned payload behind a head; true if that is what comes.
fn arrives((from, to): &Ends) -> io::Result<bool> {
    let bytes: Vec<u8> = (0..2 * PAYLOAD_BYTES).map(|i| (i * 31 + i / 251) as u8).collect();
    let unaligned = bytes.as_ptr().align_offset(PAGE_BYTES) + 1000;
    let payload = [IoSlice::new(&bytes[unaligned..][..PAYLOAD_BYTES])];
    let head = [IoSlice::new(&[0xE5; HEADER_BYTES])];
    if Pipe::open()?.send(from.as_fd(), (&head, &payload)).is_err()
        || system::poll(to.as_fd(), Some(PATIENCE)) != Polled::Readable
    {
        return Ok(false);
    }
    let mut inbox = Inbox::new();
    inbox.fetch(to.as_fd(), Fetch::Told)?;
    let whole = [&head[0][..], &payload[0][..]].concat();
    Ok(inbox.message(0).is_some_and(|got| {
        got.bytes == whole
            && got.segment_bytes == Some(usize::from(SEGMENT_BYTES))
            && !got.truncated
    }))
}

/// First kernel whose sockets take pages by `MSG_SPLICE_PAGES`.
const REFERENCES_PAGES: (u32, u32) = (6, 5);

/// True if this kernel's release is this one or a later one.
pub(super) fn is_release(least: (u32, u32)) -> bool {
    is_since(&system::kernel_release(), least)
}

fn is_since(release: &str, least: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let (major, minor) = (numbers.next(), numbers.next());
    matches!((major, minor), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read() {
        for release in ["6.18.44-x", "6.5", "7.0.0"] {
            assert!(is_since(release, REFERENCES_PAGES), "{release}");
        }
        for release in ["6.4.16", "5.15.0-91-generic", "", "x.y", "6"] {
            assert!(!is_since(release, REFERENCES_PAGES), "{release}");
        }
    }

    /// On kernels that are new enough it works, and the next question gets the same answer.
    #[test]
    fn this_kernel_does_as_its_release_says() {
        let release = system::kernel_release();
        assert!(!release.is_empty());
        if is_since(&release, REFERENCES_PAGES) {
            assert!(splicing_works(), "release {release}");
        }
        assert_eq!(splicing_works(), splicing_works());
    }
}
