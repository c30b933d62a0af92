//! Socket addresses in the kernel's form.
//!
//! # Invariant
//!
//! [`RawName`] always starts out all zeros and is only ever written as one of its members, by this
//! module or by the kernel, so every byte of it is initialised, and its members, made of integers,
//! are valid whatever the bytes. The family field, first in those members that are names, says which one is meant.

use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// An IPv4 or IPv6 socket address as C knows it, or that of an interface.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union RawName {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
    packet: libc::sockaddr_ll,
    zeros: [u8; size_of::<libc::sockaddr_in6>()],
}

impl RawName {
    /// All zeros: of no family.
    pub(crate) fn empty() -> Self {
        Self { zeros: [0; size_of::<libc::sockaddr_in6>()] }
    }

    /// Whether this is the name of a frame that this machine sends, as a packet socket tells.
    pub(crate) fn is_outgoing(&self) -> bool {
        // SAFETY: see the module's invariant.
        let packet = unsafe { &self.packet };
        libc::c_int::from(packet.sll_family) == libc::AF_PACKET
            && packet.sll_pkttype == libc::PACKET_OUTGOING
    }

    /// The address, if it is of a family that the links know.
    #[inline]
    pub(crate) fn decode(&self) -> Option<SocketAddr> {
        // SAFETY: see the module's invariant.
        let (v4, v6) = unsafe { (&self.v4, &self.v6) };
        match libc::c_int::from(v4.sin_family) {
            libc::AF_INET => {
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Some(SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id).into())
            }
            _ => None,
        }
    }

    /// The number of the interface that a packet socket is bound to. `None`: to none, or to one that is gone.
    pub(crate) fn interface(&self) -> Option<u32> {
        // SAFETY: see the module's invariant.
        let packet = unsafe { &self.packet };
        let is_packet = libc::c_int::from(packet.sll_family) == libc::AF_PACKET;
        u32::try_from(packet.sll_ifindex).ok().filter(|index| is_packet && *index > 0)
    }
}

/// A [`RawName`] and how many bytes of it count.
#[derive(Clone, Copy)]
pub(crate) struct SocketName {
    pub(crate) raw: RawName,
    pub(crate) length: usize,
}

impl SocketName {
    /// A socket that is connected to it is connected no more: of no family, as short as names may be.
    pub(crate) const NOBODY: Self =
        Self { raw: RawName { zeros: [0; size_of::<libc::sockaddr_in6>()] }, length: 16 };

    #[inline]
    pub(crate) fn of(address: SocketAddr) -> Self {
        let mut raw = RawName::empty();
        let length = match address {
            SocketAddr::V4(v4) => {
                // SAFETY: all-zero is a valid `sockaddr_in`.
                let mut name: libc::sockaddr_in = unsafe { zeroed() };
                name.sin_family = libc::AF_INET as libc::sa_family_t;
                name.sin_port = v4.port().to_be();
                name.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
                raw.v4 = name;
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                // SAFETY: all-zero is a valid `sockaddr_in6`.
                let mut name: libc::sockaddr_in6 = unsafe { zeroed() };
                name.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                name.sin6_port = v6.port().to_be();
                name.sin6_addr.s6_addr = v6.ip().octets();
                name.sin6_scope_id = v6.scope_id();
                raw.v6 = name;
                size_of::<libc::sockaddr_in6>()
            }
        };
        Self { raw, length }
    }

    /// What leaves by an interface as it is, a frame with all its headers, whose EtherType is this.
    pub(crate) fn of_interface(index: u32, ethertype: u16) -> Self {
        // SAFETY: all-zero is a valid `sockaddr_ll`.
        let mut name: libc::sockaddr_ll = unsafe { zeroed() };
        name.sll_family = libc::AF_PACKET as libc::sa_family_t;
        name.sll_protocol = ethertype.to_be();
        name.sll_ifindex = index as libc::c_int;
        let mut raw = RawName::empty();
        raw.packet = name;
        Self { raw, length: size_of::<libc::sockaddr_ll>() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_round_trip() {
        for text in ["127.0.0.1:51966", "[::1]:7", "[fe80::1%3]:65535"] {
            let address: SocketAddr = text.parse().expect(text);
            assert_eq!(SocketName::of(address).raw.decode(), Some(address));
        }
        assert_eq!(RawName::empty().decode(), None);
    }
}
