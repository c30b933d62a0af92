//! The group in which nodes on datagrams alone look for each other on a local network, with nothing configured: a link on all addresses joins it on every
//! interface, at a port of its own that all nodes of a machine share, and what it sends to everyone goes there as well. Routers do not forward it.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use emp_wire::{LinkAddress, UDP_PORT_GROUP};

use super::UdpLink;
use crate::interfaces::{Interface, interfaces};
use crate::name::{RawName, SocketName};
use crate::{FrameSink, TxFrame, is_for, system};

/// Of the range for a local network (RFC 2365), and of those that are valid on one link and nobody assigns (RFC 4291).
const GROUP_V4: Ipv4Addr = Ipv4Addr::new(239, 255, 136, 181);
const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xFF12, 0, 0, 0, 0, 0, 0, 0x88B5);

/// Most interfaces on which a link is in the group: Linux lets a socket be in 20 by default.
const INTERFACES_MAX: usize = 16;

/// Of looks at the link's own socket that find nothing, one in so many goes to the group's as well: a system call more for each would cost callers
/// that spin a quarter of their time. Who slept looks at once.
const LOOK_EVERY: u32 = 64;

/// Datagrams of the group that are taken in one look.
const TAKEN_AT_ONCE: usize = 8;

/// The interfaces on which a link is in the group, by number, and the socket that hears it.
#[derive(Debug, Default)]
pub(super) struct Group {
    interfaces: Vec<u32>,
    heard: Option<Heard>,
}

/// A socket of the group's port, which every node of a machine has, as each gets a copy of what comes. Who is found answers by its own.
#[derive(Debug)]
struct Heard {
    socket: OwnedFd,
    /// Readable when this socket or the link's own is.
    either: OwnedFd,
    /// Somebody has slept since the last look.
    slept: Cell<bool>,
    looks: u32,
}

impl Heard {
    fn open(own: BorrowedFd<'_>, ipv4: bool) -> io::Result<Self> {
        let domain = if ipv4 { libc::AF_INET } else { libc::AF_INET6 };
        let socket = system::socket(domain, libc::SOCK_DGRAM)?;
        let fd = socket.as_fd();
        system::set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1)?;
        // The IPv6 group's address means nothing without an interface.
        let at: IpAddr = if ipv4 {
            GROUP_V4.into()
        } else {
            system::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &1)?;
            Ipv6Addr::UNSPECIFIED.into()
        };
        let name = SocketName::of(SocketAddr::new(at, UDP_PORT_GROUP));
        system::bind(fd, &name.raw, name.length)?;
        let either = system::any_of([own, fd])?;
        Ok(Self { socket, either, slept: Cell::new(true), looks: 0 })
    }

    /// It is time to look.
    #[inline]
    fn is_due(&mut self) -> bool {
        self.looks = self.looks.wrapping_add(1);
        self.slept.take() || self.looks.is_multiple_of(LOOK_EVERY)
    }
}

impl Group {
    /// Joins wherever that is possible.
    pub(super) fn join(own: BorrowedFd<'_>, local: SocketAddr) -> Self {
        let Ok(heard) = Heard::open(own, local.is_ipv4()) else { return Self::default() };
        let all = interfaces().unwrap_or_default();
        let reaches = |one: &Interface| one.up && !one.loopback && one.mac.is_some();
        let there = all.iter().filter(|one| reaches(one)).map(|one| one.index);
        let joined = there.filter(|index| join_on(heard.socket.as_fd(), local.is_ipv4(), *index));
        Self { interfaces: joined.take(INTERFACES_MAX).collect(), heard: Some(heard) }
    }

    /// It is in the group somewhere.
    pub(super) const fn is_joined(&self) -> bool {
        !self.interfaces.is_empty()
    }

    /// What to sleep on, if that is not the link's own socket alone. The next look goes to the group, too.
    pub(super) fn readiness(&self) -> Option<BorrowedFd<'_>> {
        let heard = self.heard.as_ref()?;
        heard.slept.set(true);
        Some(heard.either.as_fd())
    }
}

fn join_on(fd: BorrowedFd<'_>, ipv4: bool, interface: u32) -> bool {
    let joined = if ipv4 {
        let member = of_interface(interface);
        system::set_option(fd, libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &member)
    } else {
        let address = libc::in6_addr { s6_addr: GROUP_V6.octets() };
        let member = libc::ipv6_mreq { ipv6mr_multiaddr: address, ipv6mr_interface: interface };
        system::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, &member)
    };
    joined.is_ok()
}

const fn of_interface(interface: u32) -> libc::ip_mreqn {
    libc::ip_mreqn {
        imr_multiaddr: libc::in_addr { s_addr: u32::from_ne_bytes(GROUP_V4.octets()) },
        imr_address: libc::in_addr { s_addr: 0 },
        imr_ifindex: interface.cast_signed(),
    }
}

impl UdpLink {
    /// Hands up what has come for the group, if it is time to look.
    #[inline]
    pub(super) fn hear_group(&mut self, budget: usize, sink: &mut dyn FrameSink) -> usize {
        let due = budget > 0 && self.group.heard.as_mut().is_some_and(Heard::is_due);
        if due { self.take_of_group(budget, sink) } else { 0 }
    }

    #[cold]
    fn take_of_group(&mut self, budget: usize, sink: &mut dyn FrameSink) -> usize {
        let Some(heard) = &self.group.heard else { return 0 };
        let mut handed = 0;
        for _ in 0..TAKEN_AT_ONCE {
            if handed == budget {
                break;
            }
            self.counts.receive_calls += 1;
            let mut from = RawName::empty();
            let got = system::receive_from(heard.socket.as_fd(), &mut self.copy[..], &mut from);
            let Ok(bytes) = got else { return handed };
            let frame = self.copy.get(..bytes);
            let Some((frame, from)) = frame.zip(from.decode()) else {
                self.counts.receive_lost += 1;
                continue;
            };
            if is_for(frame, self.node_tag) {
                self.counts.frames_received += 1;
                self.counts.bytes_received += frame.len() as u64;
                handed += 1;
                sink.frame(frame, &LinkAddress::udp(from));
            } else {
                self.counts.not_for_us += 1;
            }
        }
        // There may be more.
        heard.slept.set(true);
        handed
    }

    /// Sends a copy of a frame to everyone in the group, by each interface. What finds no room is lost: it only looks for nodes, and is repeated.
    pub(super) fn send_to_group(&mut self, frame: &TxFrame<'_>) {
        let bytes = frame.len();
        if !self.group.is_joined() || !self.copied(frame, bytes) {
            return;
        }
        let fd = self.socket.as_fd();
        for interface in &self.group.interfaces {
            let to = if self.local.is_ipv4() {
                let leaves = of_interface(*interface);
                let set = system::set_option(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &leaves);
                if set.is_err() {
                    continue;
                }
                SocketAddr::from((GROUP_V4, UDP_PORT_GROUP))
            } else {
                SocketAddrV6::new(GROUP_V6, UDP_PORT_GROUP, 0, *interface).into()
            };
            self.counts.send_calls += 1;
            if system::send_to(fd, &self.copy[..bytes], &SocketName::of(to)).is_ok() {
                self.counts.frames_sent += 1;
                self.counts.bytes_sent += bytes as u64;
            }
        }
    }
}
