//! Sockets that only send, each connected to a peer that frames go to: the kernel keeps the way there with the socket and does not look it up for
//! each frame (a third of a microsecond), and pages are spliced into a datagram of a socket that knows where that goes.
//!
//! They have the link's port, so that peers see one sender. Nothing may arrive at them, as the kernel prefers a connected socket to the link's:
//! each is bound to a multicast address that nobody joins, and yet sends from an address of this machine. The kernel takes that from the
//! first connection and keeps it ([`from`]). For the same reason the kernel tells none of them of a peer that refuses what it is sent: it takes the link's own socket for the sender.
//!
//! There are few: a peer gets one when it is sent to often, and whoever is not sent to gives it up. All others are reached by the link's socket.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::leaving::bind_to;
use super::open::settle_sending;
use crate::name::SocketName;
use crate::system;

/// Where nothing arrives: of the ranges for an organisation's own use (RFC 2365, RFC 4291), of which nobody here is told.
const NOWHERE_V4: Ipv4Addr = Ipv4Addr::new(239, 192, 136, 181);
const NOWHERE_V6: Ipv6Addr = Ipv6Addr::new(0xFF18, 0, 0, 0, 0, 0, 0, 0x88B5);

/// Peers that have a socket at a time: more than programs exchange small messages with in one phase, and few descriptors of the 1024 that a process
/// has by default.
const SOCKETS_MAX: usize = 16;

/// Of the frames to peers without a socket every so manieth gives its peer one, so whoever is sent to often gets one soon, and nothing is counted by peer:
/// opening one takes eight calls, 5 to 8 µs, which as many frames give back.
const FRAMES_BEFORE: i32 = 16;

/// A peer takes the socket of another that none of the last so many frames went to: of sixteen that are sent to in turn each is seen every 16.
const IDLE_FRAMES: u64 = 256;

/// Frames to peers without a socket before one is tried again when none could be opened: it costs some calls in so many.
const FRAMES_AFTER_FAILURE: i32 = 1024;

/// Frames that fit a datagram after which a socket that cuts what is longer does so no more: while it does, the kernel puts each together out of pages.
const SHORT_IN_A_ROW: u8 = 8;

/// How long the kernel's choice of the address that it sends from is taken for true, where the link is on all of them.
const FRESH: Duration = Duration::from_millis(200);

/// Places of sockets that are remembered, each where its peer's address says.
const PLACES: usize = 64;

/// `SO_NETNS_COOKIE` (since Linux 5.14): which network namespace a socket is in.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// As IPv4's `IP_MULTICAST_ALL` (since Linux 4.20).
const IPV6_MULTICAST_ALL: libc::c_int = 29;

/// Tells which of this machine's addresses the kernel would send from.
pub(super) struct Probe(OwnedFd);

impl Probe {
    /// Towards an address that is reached by an interface of this number, if there is one.
    pub(super) fn open(local: SocketAddr, leaves_by: Option<u32>) -> io::Result<Self> {
        let socket = socket_like(local)?;
        if let Some(interface) = leaves_by {
            bind_to(socket.as_fd(), interface)?;
        }
        Ok(Self(socket))
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
    to: SocketAddr,
    source: SocketAddr,
    socket: OwnedFd,
    /// Bytes of the datagrams that it cuts what it sends into; 0: it does not.
    segment: u16,
    /// Frames in a row that were not to be cut.
    short: u8,
    /// When the kernel was last asked which address it would send from.
    asked: Duration,
    /// Frames of all these sockets when it was last used.
    used: u64,
}

/// The sockets of a link.
pub(super) struct SendOnly {
    sockets: Vec<Aimed>,
    /// The number of the interface that all leaves by, if it is to.
    leaves_by: Option<u32>,
    /// `None`: the link has one address, from which all leaves.
    probe: Option<Probe>,
    /// Where in `sockets` those are that were used last, by the places of their peers.
    last: [u8; PLACES],
    /// Frames to peers without a socket since one of them was to get one; less than none: it could not be had.
    without: i32,
    /// Frames to peers with and without.
    frames: u64,
}

/// The link's own socket, and the address that it is bound to.
pub(super) type Own<'a> = (BorrowedFd<'a>, SocketAddr);

impl SendOnly {
    /// For a link that is bound there, all of which leaves by an interface of this number, if there is one. To be called in the link's network namespace.
    pub(super) fn open(local: SocketAddr, leaves_by: Option<u32>) -> io::Result<Self> {
        let everywhere = local.ip().is_unspecified();
        let probe = if everywhere { Some(Probe::open(local, leaves_by)?) } else { None };
        Ok(Self { sockets: Vec::new(), leaves_by, probe, last: [0; PLACES], without: 0, frames: 0 })
    }

    /// The socket that leads to a peer, if it has one or is sent to often enough to get it, for a frame of so many bytes that fits a datagram.
    #[inline]
    pub(super) fn lead(
        &mut self,
        own: Own<'_>,
        to: SocketAddr,
        bytes: usize,
    ) -> Option<BorrowedFd<'_>> {
        let at = match self.known(to) {
            Some(at) => at,
            None => self.find(own, to, false)?,
        };
        let aimed = &mut self.sockets[at];
        if aimed.segment != 0 && !aimed.takes_whole(bytes) {
            return None;
        }
        Some(aimed.socket.as_fd())
    }

    /// The socket that leads to a peer from now on, in datagrams of `segment` bytes. `None`: what goes there has to be copied.
    pub(super) fn aim(
        &mut self,
        own: Own<'_>,
        to: SocketAddr,
        segment: u16,
    ) -> Option<BorrowedFd<'_>> {
        let at = match self.known(to) {
            Some(at) => at,
            None => self.find(own, to, true)?,
        };
        let aimed = &mut self.sockets[at];
        aimed.short = 0;
        aimed.cut_into(segment)?;
        Some(aimed.socket.as_fd())
    }

    /// What a peer's socket was sent did not leave: it is closed, and the peer gets another as if it had had none.
    #[cold]
    pub(super) fn fail(&mut self, to: SocketAddr) {
        self.sockets.retain(|aimed| aimed.to != to);
    }

    /// The peers' sockets.
    #[cfg(test)]
    pub(super) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(|aimed| aimed.socket.as_fd())
    }

    /// The sockets are opened anew when they are needed: an address may have gone, or another have come in its place.
    #[cold]
    pub(super) fn forget(&mut self) {
        self.sockets.clear();
    }

    /// All leaves by the interface of this number from now on.
    #[cold]
    pub(super) fn leave_by(&mut self, interface: u32) {
        self.leaves_by = Some(interface);
        self.forget();
    }

    /// The place of a peer's socket, if it has one and is known where to find it.
    #[inline]
    fn known(&mut self, to: SocketAddr) -> Option<usize> {
        self.frames += 1;
        let at = usize::from(self.last[place_of(to)]);
        let aimed = self.sockets.get_mut(at).filter(|aimed| aimed.to == to)?;
        let fresh = self.probe.is_none() || system::coarse_time() < aimed.asked + FRESH;
        aimed.used = self.frames;
        fresh.then_some(at)
    }

    /// Finds the peer's socket, or opens one if it is to have it `now` or is sent to often.
    #[cold]
    fn find(&mut self, own: Own<'_>, to: SocketAddr, now: bool) -> Option<usize> {
        let at = self.sockets.iter().position(|aimed| aimed.to == to);
        if at.is_none() && !self.is_due(now) {
            return None;
        }
        let opened = self.open_to(own, to, at, now);
        if let Ok(Some(at)) = opened {
            self.last[place_of(to)] = at as u8;
            self.sockets[at].used = self.frames;
            return Some(at);
        }
        self.fail(to);
        if opened.is_err() {
            self.without = -FRAMES_AFTER_FAILURE;
        }
        None
    }

    /// True if the peer of this frame, which has no socket, is to get one.
    fn is_due(&mut self, now: bool) -> bool {
        self.without += 1;
        let due = self.without >= if now { 0 } else { FRAMES_BEFORE };
        if due {
            self.without = 0;
        }
        due
    }

    /// Makes a socket lead to a peer: the one at this place if that is still right, a new one, or that of another peer, if all are taken. `None`:
    /// none is idle.
    fn open_to(
        &mut self,
        own: Own<'_>,
        to: SocketAddr,
        at: Option<usize>,
        now: bool,
    ) -> io::Result<Option<usize>> {
        let asked = system::coarse_time();
        let mut source = own.1;
        if let Some(probe) = &self.probe {
            source = probe.source(to)?;
            source.set_port(own.1.port());
        }
        if let Some(at) = at.filter(|at| self.sockets[*at].source == source) {
            self.sockets[at].asked = asked;
            return Ok(Some(at));
        }
        let place = at.or_else(|| {
            let idlest = || (0..self.sockets.len()).min_by_key(|at| self.sockets[*at].used);
            (self.sockets.len() >= SOCKETS_MAX).then(idlest).flatten()
        });
        if let Some(taken) = place.filter(|taken| at != Some(*taken)).map(|at| &self.sockets[at])
            && !now
            && self.frames - taken.used < IDLE_FRAMES
        {
            return Ok(None);
        }
        match place.map(|at| &mut self.sockets[at]) {
            Some(aimed) if aimed.source == source => {
                system::connect(aimed.socket.as_fd(), &SocketName::of(to))?;
                (aimed.to, aimed.asked) = (to, asked);
            }
            taken => {
                let socket = from(source, own, self.leaves_by)?;
                system::connect(socket.as_fd(), &SocketName::of(to))?;
                let used = self.frames;
                let new = Aimed { to, source, socket, segment: 0, short: 0, asked, used };
                match taken {
                    Some(aimed) => *aimed = new,
                    None => self.sockets.push(new),
                }
            }
        }
        Ok(Some(place.unwrap_or(self.sockets.len() - 1)))
    }
}

impl Aimed {
    /// What is longer than `segment` bytes is cut from now on; 0: nothing is.
    fn cut_into(&mut self, segment: u16) -> Option<()> {
        if self.segment != segment {
            let (fd, bytes) = (self.socket.as_fd(), libc::c_int::from(segment));
            system::set_option(fd, libc::SOL_UDP, libc::UDP_SEGMENT, &bytes).ok()?;
            self.segment = segment;
        }
        Some(())
    }

    /// True if it leaves a frame of so many bytes whole, though it cuts what is longer.
    #[cold]
    fn takes_whole(&mut self, bytes: usize) -> bool {
        self.short = self.short.saturating_add(1);
        if self.short >= SHORT_IN_A_ROW {
            return self.cut_into(0).is_some();
        }
        bytes <= self.segment.into()
    }
}

/// Where a peer's socket is remembered.
#[inline]
fn place_of(to: SocketAddr) -> usize {
    let last = match to.ip() {
        IpAddr::V4(ip) => ip.octets()[3],
        IpAddr::V6(ip) => ip.octets()[15],
    };
    // Several nodes of one machine have ports of their own.
    usize::from(to.port().wrapping_add(last.into())) % PLACES
}

/// A socket that sends from there, and receives nothing.
fn from(source: SocketAddr, (link, local): Own<'_>, leaves_by: Option<u32>) -> io::Result<OwnedFd> {
    let socket = socket_like(source)?;
    let fd = socket.as_fd();
    // The thread that sends may be in another namespace than the one that opened the link.
    if namespace(fd)? != namespace(link)? {
        return Err(io::ErrorKind::Unsupported.into());
    }
    if let Some(interface) = leaves_by {
        bind_to(fd, interface)?;
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
    let first = match source.ip() {
        // Not itself: the kernel reaches a second address of a subnet from the first. What goes to many leaves from where it is told to.
        IpAddr::V4(ip) => {
            let leaves = libc::ip_mreqn {
                imr_multiaddr: libc::in_addr { s_addr: 0 },
                imr_address: libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) },
                imr_ifindex: 0,
            };
            system::set_option(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &leaves)?;
            name
        }
        IpAddr::V6(_) => SocketName::of(source),
    };
    system::connect(fd, &first)?;
    Ok(socket)
}

fn namespace(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut cookie = 0;
    system::get_option(fd, libc::SOL_SOCKET, SO_NETNS_COOKIE, &mut cookie)?;
    Ok(cookie)
}

#[cfg(test)]
mod tests;
