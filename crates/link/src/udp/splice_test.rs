//! Whether this kernel splices pages into a segmented datagram so that they arrive, and whether that is quicker than to copy them: kernels
//! do it in different ways, old ones not at all, and machines copy 40 KB in the time of two to six system calls. Tried once by each process,
//! over sockets of its own.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

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

/// Payloads that are sent one after the other when both ways are timed: a mebibyte, so that they come from where those of long messages do,
/// and not from the nearest cache.
const PAYLOADS: usize = 17;
/// Times that all of them are sent, either way. The least counts, because all that disturbs makes it more.
const ROUNDS: usize = 4;

/// What this kernel and machine do with the pages of a long datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Splicing {
    /// It arrives as it was.
    pub(super) arrives: bool,
    /// That is quicker than if it is copied.
    pub(super) gains: bool,
}

/// What the test said.
static SPLICING: OnceLock<Splicing> = OnceLock::new();

/// Whether a spliced datagram arrives as it was, and gains by it. Where there is no loopback to try it on, the kernel's release tells, and the
/// next link tries again.
pub(super) fn splicing() -> Splicing {
    if let Some(known) = SPLICING.get() {
        return *known;
    }
    match ends() {
        Ok(ends) => *SPLICING.get_or_init(|| {
            let arrives = arrives(&ends).unwrap_or(false);
            // What cannot be timed is not known to be slower.
            let gains = || times(&ends).map_or(true, |[spliced, copied]| spliced < copied);
            Splicing { arrives, gains: arrives && gains() }
        }),
        Err(_) => {
            let arrives = is_release(REFERENCES_PAGES);
            Splicing { arrives, gains: arrives }
        }
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

/// How long it takes to send [`PAYLOADS`] long frames and take each of them in, spliced and copied.
fn times((from, to, name): &Ends) -> io::Result<[Duration; 2]> {
    let bytes = vec![0x5A; (PAYLOADS + 1) * PAYLOAD_BYTES];
    let aligned = &bytes[bytes.as_ptr().align_offset(PAGE_BYTES)..];
    let head = [0xE5; HEADER_BYTES];
    let (pipe, mut inbox, mut gather) = (Pipe::open()?, Inbox::new(), Gather::new(1, 2));
    let mut round = |spliced: bool| {
        let start = Instant::now();
        for payload in aligned.chunks_exact(PAYLOAD_BYTES).take(PAYLOADS) {
            let parts = [IoSlice::new(&head), IoSlice::new(payload)];
            let mut filling = gather.fill();
            filling.begin();
            filling.name(name);
            filling.segment(SEGMENT_BYTES);
            if spliced {
                filling.parts(&parts[..1]);
                let sent = pipe.send(from.as_fd(), &mut filling, &parts[1..]);
                sent.map_err(|_| io::ErrorKind::Unsupported)?;
            } else {
                filling.parts(&parts);
                filling.send(from.as_fd(), 0)?;
            }
            inbox.fetch(to.as_fd(), false)?;
        }
        Ok::<_, io::Error>(start.elapsed())
    };
    let mut least = [Duration::MAX; 2];
    for _ in 0..ROUNDS {
        least = [least[0].min(round(true)?), least[1].min(round(false)?)];
    }
    Ok(least)
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
            assert!(splicing().arrives, "release {release}");
        }
        assert_eq!(splicing(), splicing());
    }

    /// Both ways are timed, and leave nothing behind that the next would take in.
    #[test]
    fn both_ways_are_timed() {
        let ends = ends().expect("there is loopback");
        if !arrives(&ends).unwrap_or(false) {
            return;
        }
        let [spliced, copied] = times(&ends).expect("both work");
        // 17 frames of 60 KB at what memory can do at most, and at what a busy machine does at least.
        for took in [spliced, copied] {
            assert!(took > Duration::from_micros(10) && took < Duration::from_secs(2), "{took:?}");
        }
        assert!(arrives(&ends).expect("they still work"));
    }
}
