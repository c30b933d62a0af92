//! Sockets that only send, each connected to whoever long frames go to: pages are spliced into a datagram of a socket, and only a
//! connected one knows where that goes.
//!
//! They have the link's port, so that peers see one sender. Nothing may arrive at them, as the kernel prefers a connected socket to the link's:
//! each is bound to a multicast address that nobody joins, and yet sends from an address of this machine. The kernel takes that from the
//! first connection and keeps it, so a socket is first connected to the address that it is to send from.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use super::open::settle_sending;
use crate::name::SocketName;
use crate::system;

/// Where nothing arrives: of the ranges for an organisation's own use (RFC 2365, RFC 4291), of which nobody here is told.
const NOWHERE_V4: Ipv4Addr = Ipv4Addr::new(239, 192, 136, 181);
const NOWHERE_V6: Ipv6Addr = Ipv6Addr::new(0xFF18, 0, 0, 0, 0, 0, 0, 0x88B5);

/// Addresses of this machine that are sent from at a time: a cable to each of eight neighbours. With a ninth all are opened anew.
const SOURCES_MAX: usize = 8;

/// How long the kernel's choice of the address that it sends from is taken for true.
const FRESH: Duration = Duration::from_millis(200);

/// Peers of which that is remembered, each in the place that its address names.
const PEERS: usize = 64;

/// `SO_NETNS_COOKIE` (since Linux 5.14): which network namespace a socket is in.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// As IPv4's `IP_MULTICAST_ALL` (since Linux 4.20).
const IPV6_MULTICAST_ALL: libc::c_int = 29;

/// Tells which of this machine's addresses the kernel would send from.
pub(super) struct Probe(OwnedFd);

impl Probe {
    pub(super) fn open(local: SocketAddr) -> io::Result<Self> {
        Ok(Self(socket_like(local)?))
    }

    /// Towards an address. Nothing is sent.
    pub(super) fn source(&self, to: SocketAddr) -> io::Result<SocketAddr> {
        let fd = self.0.as_fd();
        // What it was connected to last has given it an address, which would stay.
        system::connect(fd, &SocketName::NOBODY)?;
        system::connect(fd, &SocketName::of(to))?;
        system::bound_address(fd)?.decode().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn socket_like(local: SocketAddr) -> io::Result<OwnedFd> {
    let domain = if local.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    system::socket(domain, libc::SOCK_DGRAM)
}

/// A socket, and where it leads now.
struct Aimed {
    source: SocketAddr,
    socket: OwnedFd,
    to: SocketAddr,
    segment: u16,
}

/// Which socket leads to a peer, as the kernel knew it a moment ago.
#[derive(Clone, Copy)]
struct Known {
    peer: SocketAddr,
    asked: Instant,
    /// Its place. `None`: there is none.
    at: Option<usize>,
}

/// The sockets of a link.
pub(super) struct SendOnly {
    sockets: Vec<Aimed>,
    probe: Probe,
    known: Box<[Option<Known>; PEERS]>,
}

impl SendOnly {
    /// For a link that is bound there. To be called in the link's network namespace.
    pub(super) fn open(local: SocketAddr) -> io::Result<Self> {
        Ok(Self { sockets: Vec::new(), probe: Probe::open(local)?, known: Box::new([None; PEERS]) })
    }

    /// The socket that leads to a peer from now on, in datagrams of `segment` bytes. `None`: what goes there has to be copied.
    pub(super) fn aim(
        &mut self,
        (link, local): (BorrowedFd<'_>, SocketAddr),
        to: SocketAddr,
        segment: u16,
    ) -> Option<BorrowedFd<'_>> {
        let at = self.socket_for((link, local), to)?;
        let aimed = &mut self.sockets[at];
        let fd = aimed.socket.as_fd();
        if aimed.to != to {
            system::connect(fd, &SocketName::of(to)).ok()?;
            aimed.to = to;
        }
        if aimed.segment != segment {
            let bytes = libc::c_int::from(segment);
            system::set_option(fd, libc::SOL_UDP, libc::UDP_SEGMENT, &bytes).ok()?;
            aimed.segment = segment;
        }
        Some(fd)
    }

    /// Sockets are opened anew when they are needed: an address may have gone, or another have come in its place.
    #[cold]
    pub(super) fn forget(&mut self) {
        self.sockets.clear();
        self.known.fill(None);
    }

    fn socket_for(
        &mut self,
        (link, local): (BorrowedFd<'_>, SocketAddr),
        to: SocketAddr,
    ) -> Option<usize> {
        let place = match to.ip() {
            IpAddr::V4(ip) => ip.octets()[3],
            IpAddr::V6(ip) => ip.octets()[15],
        };
        let known = usize::from(place) % PEERS;
        let now = Instant::now();
        if let Some(known) = self.known[known]
            && known.peer == to
            && now < known.asked + FRESH
        {
            return known.at;
        }
        let at = self.find_socket((link, local), to).ok();
        self.known[known] = Some(Known { peer: to, asked: now, at });
        at
    }

    #[cold]
    fn find_socket(
        &mut self,
        (link, local): (BorrowedFd<'_>, SocketAddr),
        to: SocketAddr,
    ) -> io::Result<usize> {
        let mut source = local;
        if local.ip().is_unspecified() {
            source = self.probe.source(to)?;
            source.set_port(local.port());
        }
        if let Some(at) = self.sockets.iter().position(|aimed| aimed.source == source) {
            return Ok(at);
        }
        if self.sockets.len() >= SOURCES_MAX {
            self.forget();
        }
        let socket = from(source, (link, local))?;
        self.sockets.push(Aimed { source, socket, to: source, segment: 0 });
        Ok(self.sockets.len() - 1)
    }
}

/// A socket that sends from there, and receives nothing.
fn from(source: SocketAddr, (link, local): (BorrowedFd<'_>, SocketAddr)) -> io::Result<OwnedFd> {
    let socket = socket_like(source)?;
    let fd = socket.as_fd();
    // The thread that sends may be in another namespace than the one that opened the link.
    if namespace(fd)? != namespace(link)? {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let nowhere = if source.is_ipv4() {
        let _ = system::set_option(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, &0);
        NOWHERE_V4.into()
    } else {
        system::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &1)?;
        let _ = system::set_option(fd, libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, &0);
        NOWHERE_V6.into()
    };
    let name = SocketName::of(SocketAddr::new(nowhere, source.port()));
    // Other links of this port have such sockets there. One on all addresses has the port there itself, unless it says for this moment that it
    // is shared.
    system::set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1)?;
    let shares = |shares: libc::c_int| {
        let everywhere = local.ip().is_unspecified();
        let set = || system::set_option(link, libc::SOL_SOCKET, libc::SO_REUSEADDR, &shares);
        if everywhere { set() } else { Ok(()) }
    };
    shares(1)?;
    let bound = system::bind(fd, &name.raw, name.length);
    shares(0)?;
    bound?;
    settle_sending(fd, &source)?;
    system::connect(fd, &SocketName::of(source))?;
    Ok(socket)
}

fn namespace(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut cookie = 0;
    system::get_option(fd, libc::SOL_SOCKET, SO_NETNS_COOKIE, &mut cookie)?;
    Ok(cookie)
}

#[cfg(test)]
mod tests;
