//! Opening the UDP link: options, socket settings, and errors that say what to do.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use emp_wire::UDP_PORT_DEFAULT;

use super::leaving::leave_by;
use crate::interfaces::{Interface, interface_list, interfaces};
use crate::name::SocketName;
use crate::{LinkError, system};

/// MTU in bytes where the interface is not known: Ethernet's.
const MTU_DEFAULT: usize = 1500;
/// Bytes of an IPv4 header without options and a UDP header.
pub(super) const HEADERS_V4_BYTES: usize = 20 + 8;
/// Bytes of an IPv6 header and a UDP header.
const HEADERS_V6_BYTES: usize = 40 + 8;
/// Most payload bytes of one datagram, merged or not: Linux caps an IPv4 packet at 65520 bytes
/// (its `IP_MAX_MTU`). IPv6 could have a few more; one bound for both is simpler.
pub(super) const PAYLOAD_BYTES_MAX: usize = 65_520 - HEADERS_V4_BYTES;
/// Smallest MTU that an override may name, in bytes: IPv4's own minimum, which every EMP header
/// fits.
const MTU_MIN: usize = 576;

/// Receive buffer asked for, in bytes, of which the kernel makes twice as many: 64 peers that each send one long frame at once, or
/// five with a window of twelve each. The system default (208 KiB) holds three. Without privilege the kernel grants less, silently.
const RECEIVE_BUFFER_BYTES: libc::c_int = 4 << 20;
/// Send buffer asked for, in bytes: sixteen trains, which keeps a 100 Gb/s card busy for 80 µs, yet
/// does not pile up more in the queue before it.
const SEND_BUFFER_BYTES: libc::c_int = 1 << 20;

/// The class of traffic of what leaves: a switch may mark it, ECT(0) of RFC 3168, and nothing else is asked for.
const ECN_CAPABLE: libc::c_int = 0b10;

/// Most datagrams in one segmented send: the kernel's limit was 64 for years (128 since).
pub(super) const SEGMENTS_MAX: usize = 64;

/// How to open a [`UdpLink`](crate::UdpLink).
#[derive(Clone, Debug)]
pub struct UdpOptions {
    /// Local address; `None` is any (IPv4, unless all peers are IPv6).
    pub bind: Option<IpAddr>,
    /// The interface whose address that is, if several may have it: link-local ones of VLANs on one card are alike.
    pub interface: Option<String>,
    /// Local UDP port; 0 lets the system choose.
    pub port: u16,
    /// Where a frame to everyone goes.
    pub peers: Vec<SocketAddr>,
    /// This node's destination tag: frames with another one (and not everyone's) are dropped.
    pub node_tag: u16,
    /// MTU in bytes instead of the interface's, IP header included.
    pub mtu: Option<usize>,
    /// Long frames to neighbours may leave by a packet socket, past the kernel's IP layer and with it firewall and IPsec, where this process
    /// may open one.
    pub past_ip: bool,
    /// All leaves by the interface that has the address of `bind`, whatever the kernel's routes say: for a node that has links on several interfaces of
    /// one subnet. Who is not reached by that interface is not reached by this link.
    pub by_own_interface: bool,
    /// On all addresses: frames to everyone go to a multicast group of the local network as well, and those of others are heard, at any port.
    pub multicast: bool,
}

impl UdpOptions {
    /// Any address, the default port, no peers, all through IP.
    pub fn new(node_tag: u16) -> Self {
        Self {
            bind: None,
            interface: None,
            port: UDP_PORT_DEFAULT,
            peers: Vec::new(),
            node_tag,
            mtu: None,
            past_ip: false,
            by_own_interface: false,
            multicast: false,
        }
    }
}

/// The interface that owns a socket's address.
pub(super) struct Owner {
    pub(super) name: String,
    pub(super) number: u32,
    /// Bytes that IP and UDP take of its MTU.
    pub(super) headers: usize,
}

/// What opening gives to the link.
pub(super) struct Opened {
    pub(super) socket: OwnedFd,
    pub(super) local: SocketAddr,
    pub(super) frame_bytes_max: usize,
    pub(super) segments_max: usize,
    /// The interface that owns the address.
    pub(super) interface: Option<Owner>,
    /// The number of the interface that all leaves by, if it is to.
    pub(super) leaves_by: Option<u32>,
    pub(super) mtu: usize,
    /// Bytes of the receive buffer that the kernel has granted, what it spends on keeping datagrams included.
    pub(super) receive_bytes: usize,
}

impl Opened {
    /// Payload of the largest datagram that the interface takes whole now, in bytes; all that the link sends if it has none.
    pub(super) fn datagram_bytes(&self) -> usize {
        let headers = self.interface.as_ref().map(|owner| owner.headers);
        headers.map_or(self.frame_bytes_max, |headers| self.mtu.saturating_sub(headers))
    }
}

pub(super) fn open(options: &UdpOptions) -> Result<Opened, LinkError> {
    let ip = options.bind.unwrap_or_else(|| any_address(&options.peers));
    let name = format!("udp on {}", SocketAddr::new(ip, options.port));
    let owner = owner_of(ip, options.interface.as_deref());
    let local = with_scope(ip, options.port, owner.as_ref());
    let socket = bound_socket(local).map_err(|error| refused(&name, &local, error))?;
    let fd = socket.as_fd();
    let settled = settle(fd, &local).and_then(|()| system::bound_address(fd));
    let local = settled.map_err(|error| refused(&name, &local, error))?.decode().unwrap_or(local);
    let wanted = owner.as_ref().filter(|_| options.by_own_interface).map(|owner| owner.index);
    let leaves_by = wanted.filter(|index| leave_by(fd, local.is_ipv4(), *index).is_ok());
    let mtu = options.mtu.map_or_else(
        || owner.as_ref().map_or(MTU_DEFAULT, |interface| interface.mtu.max(MTU_MIN)),
        |mtu| mtu.max(MTU_MIN),
    );
    let headers = if local.is_ipv4() { HEADERS_V4_BYTES } else { HEADERS_V6_BYTES };
    Ok(Opened {
        frame_bytes_max: (mtu - headers).min(PAYLOAD_BYTES_MAX),
        segments_max: if can_segment(fd) { SEGMENTS_MAX } else { 1 },
        mtu: owner.as_ref().map_or(mtu, |interface| interface.mtu),
        interface: owner.map(|Interface { name, index, .. }| Owner {
            name,
            number: index,
            headers,
        }),
        leaves_by,
        receive_bytes: receive_bytes(fd),
        socket,
        local,
    })
}

fn any_address(peers: &[SocketAddr]) -> IpAddr {
    if !peers.is_empty() && peers.iter().all(SocketAddr::is_ipv6) {
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    }
}

/// The interface that owns an address: its MTU counts. Of several, the one that is wanted. 127.0.0.0/8 is all loopback's.
fn owner_of(ip: IpAddr, wanted: Option<&str>) -> Option<Interface> {
    let list = interfaces().ok()?;
    let v4_loopback = ip.is_ipv4() && ip.is_loopback();
    list.into_iter()
        .filter(|one| one.addresses.contains(&ip) || (v4_loopback && one.loopback))
        .min_by_key(|one| Some(one.name.as_str()) != wanted)
}

/// A link-local IPv6 address means nothing without its interface.
fn with_scope(ip: IpAddr, port: u16, owner: Option<&Interface>) -> SocketAddr {
    match (ip, owner) {
        (IpAddr::V6(v6), Some(interface)) if v6.is_unicast_link_local() => {
            SocketAddrV6::new(v6, port, 0, interface.index).into()
        }
        _ => SocketAddr::new(ip, port),
    }
}

fn bound_socket(local: SocketAddr) -> io::Result<OwnedFd> {
    let domain = if local.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let socket = system::socket(domain, libc::SOCK_DGRAM)?;
    if local.is_ipv6() {
        // Peers' addresses then have one form only, not IPv4 addresses dressed as IPv6.
        system::set_option(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &1)?;
    }
    let name = SocketName::of(local);
    system::bind(socket.as_fd(), &name.raw, name.length)?;
    Ok(socket)
}

/// Sets what must be (fragmentation) and what may be (buffers, merging).
fn settle(fd: BorrowedFd<'_>, local: &SocketAddr) -> io::Result<()> {
    settle_sending(fd, local)?;
    set_buffer(fd, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, RECEIVE_BUFFER_BYTES);
    let (level, tell) = if local.is_ipv4() {
        (libc::IPPROTO_IP, libc::IP_RECVTOS)
    } else {
        (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS)
    };
    let _ = system::set_option(fd, level, tell, &1);
    // Kernels before 5.0 do not merge; each datagram then comes by itself.
    let _ = system::set_option(fd, libc::SOL_UDP, libc::UDP_GRO, &1);
    Ok(())
}

/// The same of what concerns only what leaves.
pub(super) fn settle_sending(fd: BorrowedFd<'_>, local: &SocketAddr) -> io::Result<()> {
    let (level, discover, wanted, class) = if local.is_ipv4() {
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_WANT, libc::IP_TOS)
    } else {
        let wanted = libc::IPV6_PMTUDISC_WANT;
        (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, wanted, libc::IPV6_TCLASS)
    };
    // Frames are made to fit. Where an interface's MTU or that of the path is lowered later, IP fragments what was cut
    // before: slow, and lost whole with any of its fragments, but not for ever.
    system::set_option(fd, level, discover, &wanted)?;
    set_send_buffer(fd);
    // Switches may mark what they would have to drop (`ACK-9`). Without it they drop.
    let _ = system::set_option(fd, level, class, &ECN_CAPABLE);
    Ok(())
}

/// Asks for the send buffer of long frames.
pub(super) fn set_send_buffer(fd: BorrowedFd<'_>) {
    set_buffer(fd, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, SEND_BUFFER_BYTES);
}

/// A smaller buffer than wished for costs speed and is no reason not to run.
fn set_buffer(fd: BorrowedFd<'_>, forced: libc::c_int, plain: libc::c_int, bytes: libc::c_int) {
    if system::set_option(fd, libc::SOL_SOCKET, forced, &bytes).is_err() {
        let _ = system::set_option(fd, libc::SOL_SOCKET, plain, &bytes);
    }
}

/// Bytes of the receive buffer; 0 if that is not known.
fn receive_bytes(fd: BorrowedFd<'_>) -> usize {
    let mut bytes: libc::c_int = 0;
    let known = system::get_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &mut bytes).is_ok();
    usize::try_from(bytes).ok().filter(|_| known).unwrap_or(0)
}

/// True if the kernel knows segmented sends. Tried, and switched off again: sends say it
/// themselves.
fn can_segment(fd: BorrowedFd<'_>) -> bool {
    system::set_option(fd, libc::SOL_UDP, libc::UDP_SEGMENT, &(MTU_MIN as libc::c_int)).is_ok()
        && system::set_option(fd, libc::SOL_UDP, libc::UDP_SEGMENT, &0).is_ok()
}

fn refused(link: &str, local: &SocketAddr, error: io::Error) -> LinkError {
    let advice = match error.raw_os_error() {
        Some(libc::EADDRINUSE) => {
            format!("port {} is taken: name another one, or 0 for any", local.port())
        }
        Some(libc::EADDRNOTAVAIL) => {
            format!("{} is not an address of this machine; {}", local.ip(), interface_list())
        }
        Some(libc::EACCES | libc::EPERM) => {
            "ports below 1024 need privilege: choose a higher one".into()
        }
        Some(libc::EAFNOSUPPORT) => "this machine has that IP version switched off".into(),
        Some(libc::EMFILE | libc::ENFILE) => "too many open files: raise `ulimit -n`".into(),
        _ => "check the address, or report this with the kernel's version".into(),
    };
    LinkError {
        link: link.into(),
        problem: format!("cannot open the socket: {error}"),
        advice,
        privilege: matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)),
        source: Some(error),
    }
}
