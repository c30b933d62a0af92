//! The group in which nodes on datagrams alone look for each other on a local network, with nothing configured: a link on all addresses, at the usual
//! port, joins it on every interface, and what it sends to everyone goes there as well. Routers do not forward it.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd};

use emp_wire::UDP_PORT_DEFAULT;

use super::UdpLink;
use crate::interfaces::{Interface, interfaces};
use crate::name::SocketName;
use crate::{TxFrame, system};

/// Of the range for a local network (RFC 2365), and of those that are valid on one link and nobody assigns (RFC 4291).
const GROUP_V4: Ipv4Addr = Ipv4Addr::new(239, 255, 136, 181);
const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xFF12, 0, 0, 0, 0, 0, 0, 0x88B5);

/// Most interfaces on which a link is in the group: Linux lets a socket be in 20 by default.
const INTERFACES_MAX: usize = 16;

/// The interfaces on which a link is in the group, by number.
#[derive(Debug, Default)]
pub(super) struct Group {
    interfaces: Vec<u32>,
}

impl Group {
    /// Joins wherever that is possible.
    pub(super) fn join(fd: BorrowedFd<'_>, local: SocketAddr) -> Self {
        let all = interfaces().unwrap_or_default();
        let reaches = |one: &Interface| one.up && !one.loopback && one.mac.is_some();
        let there = all.iter().filter(|one| reaches(one)).map(|one| one.index);
        let joined = there.filter(|index| join_on(fd, local.is_ipv4(), *index));
        Self { interfaces: joined.take(INTERFACES_MAX).collect() }
    }

    /// It is in the group somewhere.
    pub(super) const fn is_joined(&self) -> bool {
        !self.interfaces.is_empty()
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
                SocketAddr::from((GROUP_V4, UDP_PORT_DEFAULT))
            } else {
                SocketAddrV6::new(GROUP_V6, UDP_PORT_DEFAULT, 0, *interface).into()
            };
            self.counts.send_calls += 1;
            if system::send_to(fd, &self.copy[..bytes], &SocketName::of(to)).is_ok() {
                self.counts.frames_sent += 1;
                self.counts.bytes_sent += bytes as u64;
            }
        }
    }
}
