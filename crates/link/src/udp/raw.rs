//! Long frames past the kernel's IP layer: where this process may, a packet socket takes them with headers of IP and UDP that the link writes, and
//! with the same order to cut them that the UDP socket gives (`PACKET_VNET_HDR`). They arrive, at a UDP socket, as if that had sent them.
//!
//! It saves looking up the route and some of the kernel's bookkeeping, and more than that: the kernel can be told to copy the frame into one piece of
//! memory, where a UDP socket gathers pages (decision 43). The device's queueing discipline sees such frames as any others; rules of a firewall for
//! what leaves this machine do not.
//!
//! Only to neighbours: IPv4 peers on an Ethernet of this machine whose addresses the kernel's neighbour table has. What else leaves by the UDP socket
//! (acknowledgements, probes, every shorter frame) keeps that table true.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use super::{RETRY_SEGMENTS_SENDS, UdpLink};
use crate::failure::SendFailure;
use crate::interfaces::{Interface, interfaces};
use crate::name::SocketName;
use crate::{TxFrame, system};

/// How long what the kernel said of a neighbour is taken for true. It notices by itself within some seconds that a neighbour has another
/// card, or at once if that says so; asking takes five calls.
const FRESH: Duration = Duration::from_millis(200);
/// Neighbours that are remembered, each in the place that the last bits of its address name. A further one costs its question each time.
const NEIGHBOURS: usize = 64;
/// Bytes of the order that goes before a frame (virtio's header of 10), and of the headers of Ethernet, IPv4 and UDP.
const ORDER_BYTES: usize = 10;
const ETHERNET_BYTES: usize = 14;
const IP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const HEADERS_BYTES: usize = ETHERNET_BYTES + IP_BYTES + UDP_BYTES;
/// EtherType of IPv4.
const IPV4: u16 = 0x0800;
/// Routers between neighbours: none; the usual number all the same, for whoever looks at what passes.
const TIME_TO_LIVE: u8 = 64;
/// Header bits: ECT(0) as the UDP socket's, and "do not fragment".
const ECN_CAPABLE: u8 = 0b10;
const DO_NOT_FRAGMENT: u16 = 0x4000;
/// Of virtio's header: the checksum is to be finished from the place named, and UDP is to be cut.
const NEEDS_CHECKSUM: u8 = 1;
const CUT_UDP: u8 = 5;

/// What sends past IP.
pub(super) struct Raw {
    socket: OwnedFd,
    /// Is connected to who is asked for, which tells by which address the kernel would send; made in the network namespace of the link.
    probe: OwnedFd,
    interfaces: Vec<Interface>,
    neighbours: Box<[Option<Neighbour>; NEIGHBOURS]>,
    /// Long frames that go by the UDP socket before this is tried again: the kernel did not take one (it is older than 6.2, or had no memory in
    /// one piece).
    rests: u32,
}

/// What was found out of an address.
#[derive(Clone, Copy)]
struct Neighbour {
    ip: Ipv4Addr,
    asked: Instant,
    way: Option<Way>,
}

/// How to reach a neighbour.
#[derive(Clone, Copy)]
struct Way {
    from: Ipv4Addr,
    interface: u32,
    mtu: usize,
    /// The neighbour's address, and that of the interface.
    macs: [[u8; 6]; 2],
}

impl Raw {
    /// `None`: this process may not, or has no Ethernet.
    pub(super) fn open(local: SocketAddr, send_buffer_bytes: libc::c_int) -> Option<Self> {
        let SocketAddr::V4(_) = local else { return None };
        let mut interfaces = interfaces().ok()?;
        interfaces.retain(|interface| !interface.loopback && interface.mac.is_some());
        // Protocol 0: it receives nothing.
        let socket = system::socket(libc::AF_PACKET, libc::SOCK_RAW).ok()?;
        let fd = socket.as_fd();
        system::set_option(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1).ok()?;
        let _ = system::set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &send_buffer_bytes);
        let probe = system::socket(libc::AF_INET, libc::SOCK_DGRAM).ok()?;
        let neighbours = Box::new([None; NEIGHBOURS]);
        let raw = Self { socket, probe, interfaces, neighbours, rests: 0 };
        (!raw.interfaces.is_empty()).then_some(raw)
    }

    /// The way to an address, as the kernel knows it now or did a moment ago.
    fn way(&mut self, local: Ipv4Addr, ip: Ipv4Addr) -> Option<Way> {
        let at = usize::from(ip.octets()[3]) % NEIGHBOURS;
        let now = Instant::now();
        match self.neighbours[at] {
            Some(known) if known.ip == ip && now < known.asked + FRESH => known.way,
            _ => {
                let way = self.find_way(local, ip);
                self.neighbours[at] = Some(Neighbour { ip, asked: now, way });
                way
            }
        }
    }

    /// Asks the kernel: which of this machine's addresses it would send from, so by which interface, and who there has the address.
    #[cold]
    fn find_way(&self, local: Ipv4Addr, ip: Ipv4Addr) -> Option<Way> {
        let fd = self.probe.as_fd();
        // What it was connected to last has given it an address, which would stay.
        system::connect(fd, &SocketName::NOBODY).ok()?;
        system::connect(fd, &SocketName::of((ip, 9).into())).ok()?;
        let IpAddr::V4(routed) = system::bound_address(fd).ok()?.decode()?.ip() else {
            return None;
        };
        let from = if local.is_unspecified() { routed } else { local };
        let owns = |of: Ipv4Addr, interface: &&Interface| interface.addresses.contains(&of.into());
        let interface =
            self.interfaces.iter().find(|found| owns(routed, found) && owns(from, found))?;
        let theirs = system::neighbour(fd, &interface.name, ip)?;
        let mtu = system::interface_mtu(fd, &interface.name).ok()?;
        Some(Way { from, interface: interface.index, mtu, macs: [theirs, interface.mac?] })
    }
}

impl UdpLink {
    /// Sends a long frame, to be cut into datagrams of `segment` bytes, past IP. `Some` says whether it was taken. `None`: it is the UDP socket's.
    pub(super) fn send_raw(
        &mut self,
        to: SocketAddr,
        frame: &TxFrame<'_>,
        bytes: usize,
        segment: u16,
    ) -> Option<bool> {
        let (raw, SocketAddr::V4(to), SocketAddr::V4(local)) = (self.raw.as_mut()?, to, self.local)
        else {
            return None;
        };
        if raw.rests > 0 {
            raw.rests -= 1;
            return None;
        }
        let way = raw.way(*local.ip(), *to.ip())?;
        if usize::from(segment) + IP_BYTES + UDP_BYTES > way.mtu {
            return None;
        }
        let from = SocketAddrV4::new(way.from, local.port());
        let headers = headers(way.macs, from, to, bytes, segment)?;
        let name = SocketName::of_interface(way.interface, IPV4);
        let mut filling = self.gather.fill();
        filling.begin();
        filling.name(&name);
        filling.parts(&[IoSlice::new(&headers)]);
        filling.parts(frame.parts);
        self.counts.send_calls += 1;
        match filling.send(raw.socket.as_fd(), 0) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Some(self.judge(&error, 1) != SendFailure::Full);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return None,
            Err(_) => {
                raw.rests = RETRY_SEGMENTS_SENDS;
                self.counts.system_errors += 1;
                return None;
            }
        }
        self.counts.frames_sent += 1;
        self.counts.frames_past_ip += 1;
        self.counts.bytes_sent += bytes as u64;
        Some(true)
    }
}

/// What goes before a frame of so many bytes: the order to cut it into datagrams of `segment` bytes, and its headers. `None` if it is too long for
/// them.
fn headers(
    macs: [[u8; 6]; 2],
    from: SocketAddrV4,
    to: SocketAddrV4,
    bytes: usize,
    segment: u16,
) -> Option<[u8; ORDER_BYTES + HEADERS_BYTES]> {
    let whole = u16::try_from(HEADERS_BYTES + bytes).ok()?;
    let (ip_bytes, udp_bytes) = ((IP_BYTES + UDP_BYTES + bytes) as u16, (UDP_BYTES + bytes) as u16);
    let mut all = [0; ORDER_BYTES + HEADERS_BYTES];
    let (order, rest) = all.split_at_mut(ORDER_BYTES);
    // In this machine's order of bytes. "Headers" as long as the frame: all of it in one piece of memory.
    order[..2].copy_from_slice(&[NEEDS_CHECKSUM, CUT_UDP]);
    let checksum_from = (ETHERNET_BYTES + IP_BYTES) as u16;
    for (place, value) in [(2, whole), (4, segment), (6, checksum_from), (8, 6)] {
        order[place..place + 2].copy_from_slice(&value.to_ne_bytes());
    }
    let (ethernet, rest) = rest.split_at_mut(ETHERNET_BYTES);
    ethernet[..6].copy_from_slice(&macs[0]);
    ethernet[6..12].copy_from_slice(&macs[1]);
    ethernet[12..].copy_from_slice(&IPV4.to_be_bytes());
    let (ip, udp) = rest.split_at_mut(IP_BYTES);
    ip[..2].copy_from_slice(&[0x45, ECN_CAPABLE]);
    ip[2..4].copy_from_slice(&ip_bytes.to_be_bytes());
    ip[6..8].copy_from_slice(&DO_NOT_FRAGMENT.to_be_bytes());
    ip[8..10].copy_from_slice(&[TIME_TO_LIVE, libc::IPPROTO_UDP as u8]);
    ip[12..16].copy_from_slice(&from.ip().octets());
    ip[16..20].copy_from_slice(&to.ip().octets());
    let addresses = sum(&ip[12..20]);
    let checksum = !fold(sum(ip));
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    udp[..2].copy_from_slice(&from.port().to_be_bytes());
    udp[2..4].copy_from_slice(&to.port().to_be_bytes());
    udp[4..6].copy_from_slice(&udp_bytes.to_be_bytes());
    // Begun: what UDP sums besides its own bytes (RFC 768). The kernel or the card finishes it for each datagram.
    let begun = fold(addresses + libc::IPPROTO_UDP as u32 + u32::from(udp_bytes));
    udp[6..8].copy_from_slice(&begun.to_be_bytes());
    Some(all)
}

/// Sum of 16-bit words (RFC 1071), not folded.
fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum()
}

fn fold(sum: u32) -> u16 {
    let once = (sum & 0xFFFF) + (sum >> 16);
    ((once & 0xFFFF) + (once >> 16)) as u16
}

#[cfg(test)]
mod tests;
