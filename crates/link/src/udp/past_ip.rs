//! Long frames past the kernel's IP layer: where this process may, a packet socket takes them with headers of IP and UDP that the link writes, to be
//! segmented as those of the UDP socket are (`PACKET_VNET_HDR`). They arrive, at a UDP socket, as if that had sent them.
//!
//! It saves looking up the route and some of the kernel's bookkeeping, and more than that: the kernel can be told to copy the frame into one piece of
//! memory, where a UDP socket gathers pages (decision 43). The device's queueing discipline sees such frames as any others; firewall and IPsec of
//! this machine do not.
//!
//! Only to neighbours: IPv4 peers on an Ethernet of this machine whose addresses the kernel's neighbour table has. It is asked again and again,
//! and the frame for which it was asked leaves by the UDP socket, so that the kernel finds out by itself who has another card.

use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::leaving::bind_to;
use super::open::{HEADERS_V4_BYTES, set_send_buffer};
use super::send_only::Probe;
use super::{RETRY_SEGMENTS_SENDS, UdpLink, splice_test};
use crate::aside::AsideFd;
use crate::failure::SendFailure;
use crate::gather::ETHERNET_HEADER_BYTES;
use crate::interfaces::{Interface, interfaces};
use crate::name::SocketName;
use crate::{TxFrame, device, system};

/// How long what the kernel said of a neighbour is taken for true, and how often a frame goes by the UDP socket: as often as nothing is lost by it
/// (asking takes ten system calls), and sooner than a peer is given up.
const FRESH: Duration = Duration::from_millis(200);
/// Neighbours that are remembered at a time, each in the place that its address names: as many as long frames go to within that time. Another one
/// in the same place has to wait until that is over.
const NEIGHBOURS: usize = 256;
/// Long frames that go by the UDP socket after one that the kernel had no room for: no piece of memory so long, or a queue that is full.
pub(super) const NO_ROOM_SENDS: u32 = 16;
/// Bytes of virtio's header, which says what is to be done with a frame, and of IPv4's.
const VIRTIO_BYTES: usize = 10;
const IP_BYTES: usize = 20;
const UDP_BYTES: usize = HEADERS_V4_BYTES - IP_BYTES;
const HEADERS_BYTES: usize = ETHERNET_HEADER_BYTES + HEADERS_V4_BYTES;
/// EtherType of IPv4.
const IPV4: u16 = 0x0800;
/// Routers between neighbours: none; Linux's usual number all the same, for whoever looks at what passes.
const TIME_TO_LIVE: u8 = 64;
/// ECT(0) as the UDP socket's frames have, and "do not fragment".
const ECN_CAPABLE: u8 = 0b10;
const DO_NOT_FRAGMENT: u16 = 0x4000;
/// Of virtio's header: the checksum is to be finished from the place named, and UDP is to be segmented.
const NEEDS_CHECKSUM: u8 = 1;
const SEGMENT_UDP: u8 = 5;
/// First kernel that segments UDP for a packet socket.
const KERNEL: (u32, u32) = (6, 2);

/// What sends past IP.
pub(super) struct PastIp {
    socket: AsideFd,
    /// Made in the network namespace of the link.
    probe: Probe,
    /// Interfaces and their addresses when the link was opened.
    interfaces: Vec<Interface>,
    neighbours: Box<[Option<Neighbour>; NEIGHBOURS]>,
    /// Long frames that go by the UDP socket before this is tried again.
    resting: u32,
}

/// What was found out of an address.
#[derive(Clone, Copy)]
struct Neighbour {
    ip: Ipv4Addr,
    asked: Instant,
    way: Option<Route>,
}

/// How to reach a neighbour.
#[derive(Clone, Copy)]
struct Route {
    from: Ipv4Addr,
    interface: u32,
    mtu: usize,
    /// The neighbour's address, and that of the interface.
    macs: [[u8; 6]; 2],
}

/// What came of a frame.
pub(super) enum Sent {
    /// It left, or is lost.
    Taken,
    /// There is no room now.
    Full,
    /// It is for the UDP socket.
    NotNow,
}

impl PastIp {
    /// `None`: this process may not, the kernel is too old, or there is no Ethernet that it could be used on.
    pub(super) fn open(local: SocketAddr, leaves_by: Option<u32>) -> Option<Self> {
        if !local.is_ipv4() || local.ip().is_loopback() || !splice_test::is_release(KERNEL) {
            return None;
        }
        let mut interfaces = interfaces().ok()?;
        interfaces.retain(|interface| !interface.loopback && interface.mac.is_some());
        // Protocol 0: it receives nothing.
        let socket = system::socket(libc::AF_PACKET, libc::SOCK_RAW).ok()?;
        system::set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1).ok()?;
        set_send_buffer(socket.as_fd());
        let probe = Probe::open(local, leaves_by).ok()?;
        let fd = probe.fd();
        // Elsewhere the kernel would segment, which copies once more what is in one piece.
        interfaces.retain(|interface| device::segments_udp(fd, &interface.name));
        let neighbours = Box::new([None; NEIGHBOURS]);
        (!interfaces.is_empty()).then(|| Self {
            socket: socket.into(),
            probe,
            interfaces,
            neighbours,
            resting: 0,
        })
    }

    /// All leaves by the interface of this number from now on. False: the kernel does not let this process ask about that.
    pub(super) fn leave_by(&mut self, interface: u32) -> bool {
        self.neighbours.fill(None);
        bind_to(self.probe.fd(), interface).is_ok()
    }

    /// The way to an address, as the kernel knew it a moment ago.
    fn way(&mut self, local: Ipv4Addr, ip: Ipv4Addr) -> Result<Route, Sent> {
        let [.., third, last] = ip.octets();
        let at = usize::from(last ^ third) % NEIGHBOURS;
        let now = Instant::now();
        match self.neighbours[at] {
            Some(known) if now < known.asked + FRESH => {
                known.way.filter(|_| known.ip == ip).ok_or(Sent::NotNow)
            }
            _ => {
                let way = self.find_way(local, ip);
                self.neighbours[at] = Some(Neighbour { ip, asked: now, way });
                Err(Sent::NotNow)
            }
        }
    }

    /// Asks the kernel: which of this machine's addresses it would send from, so by which interface, and who there has the address.
    #[cold]
    fn find_way(&self, local: Ipv4Addr, ip: Ipv4Addr) -> Option<Route> {
        let fd = self.probe.fd();
        // Port 9 is as good as any: nothing is sent.
        let IpAddr::V4(routed) = self.probe.source((ip, 9).into()).ok()?.ip() else {
            return None;
        };
        let from = if local.is_unspecified() { routed } else { local };
        let owns = |of: Ipv4Addr, interface: &&Interface| interface.addresses.contains(&of.into());
        let interface =
            self.interfaces.iter().find(|found| owns(routed, found) && owns(from, found))?;
        let name = &interface.name;
        let theirs = device::neighbour(fd, name, ip)?;
        let mtu = system::interface_mtu(fd, name).ok()?;
        let (interface, own) = device::identity(fd, name).ok()?;
        Some(Route { from, interface, mtu, macs: [theirs, own] })
    }
}

impl UdpLink {
    /// Sends a long frame, to be segmented into datagrams of `segment` bytes, past IP.
    pub(super) fn send_past_ip(
        &mut self,
        to: SocketAddr,
        frame: &TxFrame<'_>,
        bytes: usize,
        segment: u16,
    ) -> Sent {
        let (Some(past_ip), SocketAddr::V4(to), SocketAddr::V4(local)) =
            (self.past_ip.as_mut(), to, self.local)
        else {
            return Sent::NotNow;
        };
        if past_ip.resting > 0 {
            past_ip.resting -= 1;
            return Sent::NotNow;
        }
        let way = match past_ip.way(*local.ip(), *to.ip()) {
            Ok(way) if usize::from(segment) + HEADERS_V4_BYTES <= way.mtu => way,
            Ok(_) => return Sent::NotNow,
            Err(sent) => return sent,
        };
        let from = SocketAddrV4::new(way.from, local.port());
        let Some(headers) = headers(way.macs, from, to, bytes, segment) else {
            return Sent::NotNow;
        };
        let name = SocketName::of_interface(way.interface, IPV4);
        let mut filling = self.gather.fill();
        filling.begin();
        filling.name(&name);
        filling.parts(&[IoSlice::new(&headers)]);
        filling.parts(frame.parts);
        self.counts.send_calls += 1;
        if let Err(error) = filling.send(past_ip.socket.as_fd(), 0) {
            match (error.raw_os_error(), SendFailure::of(&error)) {
                (Some(libc::EAGAIN), _) => {
                    self.counts.send_full += 1;
                    return Sent::Full;
                }
                (_, SendFailure::Again) => {}
                (_, SendFailure::Full) => past_ip.resting = NO_ROOM_SENDS,
                _ => {
                    past_ip.resting = RETRY_SEGMENTS_SENDS;
                    self.counts.system_errors += 1;
                }
            }
            return Sent::NotNow;
        }
        self.trust_segments();
        self.counts.frames_sent += 1;
        self.counts.frames_past_ip += 1;
        self.counts.bytes_sent += bytes as u64;
        Sent::Taken
    }
}

/// What goes before a frame of so many bytes: virtio's header, which asks for datagrams of `segment` bytes, and its own headers. `None` if it is too long for
/// them.
fn headers(
    macs: [[u8; 6]; 2],
    from: SocketAddrV4,
    to: SocketAddrV4,
    bytes: usize,
    segment: u16,
) -> Option<[u8; VIRTIO_BYTES + HEADERS_BYTES]> {
    let whole = u16::try_from(HEADERS_BYTES + bytes).ok()?;
    let (ip_bytes, udp_bytes) = ((IP_BYTES + UDP_BYTES + bytes) as u16, (UDP_BYTES + bytes) as u16);
    let mut all = [0; VIRTIO_BYTES + HEADERS_BYTES];
    let (virtio, rest) = all.split_at_mut(VIRTIO_BYTES);
    // In this machine's order of bytes. "Headers" as long as the frame: all of it in one piece of memory.
    virtio[..2].copy_from_slice(&[NEEDS_CHECKSUM, SEGMENT_UDP]);
    let checksum_from = (ETHERNET_HEADER_BYTES + IP_BYTES) as u16;
    for (place, value) in [(2, whole), (4, segment), (6, checksum_from), (8, 6)] {
        virtio[place..place + 2].copy_from_slice(&value.to_ne_bytes());
    }
    let (ethernet, rest) = rest.split_at_mut(ETHERNET_HEADER_BYTES);
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
