//! Where a frame goes or comes from, as one link understands it.

use core::fmt;

/// What kind of address a [`LinkAddress`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AddressFamily {
    /// Every node that the link can reach without knowing it: Ethernet broadcast, or the UDP link's configured peers.
    Everyone = 0,
    /// Six bytes of Ethernet MAC address.
    Mac = 1,
    /// Four bytes of IPv4 address, two of port (big endian).
    Udp4 = 4,
    /// Sixteen bytes of IPv6 address, two of port, four of scope (big endian).
    Udp6 = 6,
    /// Four bytes: a node's index in a simulated or in-memory fabric (big endian).
    Index = 9,
    /// This very node: frames go back up without touching a link.
    Loopback = 10,
    /// Eight bytes: the number that a node drew for its end of the shared-memory link (big endian).
    Shm = 11,
    /// Nine bytes: which of this node's lists of hops leads there, of which generation, and its hops. Never on a wire.
    Relayed = 12,
    /// Every node that relays can reach (`RELAY-4`). Never on a wire.
    Beyond = 13,
}

/// An address on one link. Firmware passes it through and compares it, and never looks inside.
///
/// It is passed on several times for each frame: aligned, so that it is copied and compared in words. Of bytes that begin
/// anywhere, a copy of a copy waits until the first has reached the cache (12 cycles, four times a frame).
#[derive(Clone, Copy, Eq)]
#[repr(C, align(8))]
pub struct LinkAddress {
    family: AddressFamily,
    length: u8,
    bytes: [u8; 22],
}

impl LinkAddress {
    /// Every node on the link.
    pub const EVERYONE: Self = Self::build(AddressFamily::Everyone, &[]);
    /// The node itself.
    pub const LOOPBACK: Self = Self::build(AddressFamily::Loopback, &[]);
    /// Every node that is reached through the relays on the link.
    pub const BEYOND: Self = Self::build(AddressFamily::Beyond, &[]);

    const fn build(family: AddressFamily, from: &[u8]) -> Self {
        let mut bytes = [0; 22];
        let mut i = 0;
        while i < from.len() {
            bytes[i] = from[i];
            i += 1;
        }
        Self { family, length: from.len() as u8, bytes }
    }

    /// An Ethernet address.
    pub const fn mac(mac: [u8; 6]) -> Self {
        Self::build(AddressFamily::Mac, &mac)
    }

    /// A node's index in a simulated fabric.
    pub const fn index(index: u32) -> Self {
        Self::build(AddressFamily::Index, &index.to_be_bytes())
    }

    /// A node's end of the shared-memory link.
    pub const fn shm(number: u64) -> Self {
        Self::build(AddressFamily::Shm, &number.to_be_bytes())
    }

    /// The end of a list of hops that its node keeps in a place: the place is used again, so it has a generation.
    pub const fn relayed(place: u32, generation: u32, hops: u8) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (place.to_be_bytes(), generation.to_be_bytes());
        Self::build(AddressFamily::Relayed, &[a, b, c, d, e, f, g, h, hops])
    }

    /// A UDP socket address, IPv4 or IPv6 (the IPv6 scope is kept, the flow label is not).
    pub fn udp(address: core::net::SocketAddr) -> Self {
        let mut bytes = [0u8; 22];
        match address {
            core::net::SocketAddr::V4(v4) => {
                bytes[..4].copy_from_slice(&v4.ip().octets());
                bytes[4..6].copy_from_slice(&v4.port().to_be_bytes());
                Self { family: AddressFamily::Udp4, length: 6, bytes }
            }
            core::net::SocketAddr::V6(v6) => {
                bytes[..16].copy_from_slice(&v6.ip().octets());
                bytes[16..18].copy_from_slice(&v6.port().to_be_bytes());
                bytes[18..22].copy_from_slice(&v6.scope_id().to_be_bytes());
                Self { family: AddressFamily::Udp6, length: 22, bytes }
            }
        }
    }

    /// Of an IPv6 address that is valid on one link only: which that is, as this node numbers its interfaces.
    pub fn link_scope(&self) -> Option<u32> {
        match self.as_udp()? {
            core::net::SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => Some(v6.scope_id()),
            _ => None,
        }
    }

    /// Such an address as another node tells it, who numbers its interfaces otherwise: on the link of this one of ours. `None`: either is none.
    #[must_use]
    pub fn with_scope_of(&self, own: &Self) -> Option<Self> {
        let (core::net::SocketAddr::V6(mut v6), Some(_)) = (self.as_udp()?, self.link_scope())
        else {
            return None;
        };
        v6.set_scope_id(own.link_scope()?);
        Some(Self::udp(v6.into()))
    }

    /// An address of one link that was told on another (`PATH-1`): the number of its family, and its bytes. `None` for what names no
    /// place on a wire.
    pub fn told(family: u8, bytes: &[u8]) -> Option<Self> {
        let (family, length) = Self::told_family(family)?;
        (bytes.len() == length).then(|| Self::build(family, bytes))
    }

    const fn told_family(family: u8) -> Option<(AddressFamily, usize)> {
        match family {
            1 => Some((AddressFamily::Mac, 6)),
            4 => Some((AddressFamily::Udp4, 6)),
            6 => Some((AddressFamily::Udp6, 22)),
            9 => Some((AddressFamily::Index, 4)),
            _ => None,
        }
    }

    /// All of it.
    #[inline]
    fn words(&self) -> [u64; 3] {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v] = self.bytes;
        [
            u64::from_ne_bytes([self.family as u8, self.length, a, b, c, d, e, f]),
            u64::from_ne_bytes([g, h, i, j, k, l, m, n]),
            u64::from_ne_bytes([o, p, q, r, s, t, u, v]),
        ]
    }

    /// The family.
    pub const fn family(&self) -> AddressFamily {
        self.family
    }

    /// The address bytes; their length depends on the family only.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length as usize]
    }

    /// The MAC address, if this is one.
    pub fn as_mac(&self) -> Option<[u8; 6]> {
        (self.family == AddressFamily::Mac).then(|| self.bytes[..6].try_into().expect("six bytes"))
    }

    /// The index, if this is an address in a simulated fabric.
    pub fn as_index(&self) -> Option<u32> {
        let b = &self.bytes;
        (self.family == AddressFamily::Index).then(|| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }

    /// The number of an end of the shared-memory link, if this is one.
    pub fn as_shm(&self) -> Option<u64> {
        let number = *self.bytes.first_chunk::<8>()?;
        (self.family == AddressFamily::Shm).then(|| u64::from_be_bytes(number))
    }

    /// Place, generation and hops of a list of hops, if this is the end of one.
    pub fn as_relayed(&self) -> Option<(u32, u32, u8)> {
        let [a, b, c, d, e, f, g, h, hops, ..] = self.bytes;
        let of = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]), hops);
        (self.family == AddressFamily::Relayed).then_some(of)
    }

    /// True if frames go there with a relay's head before them (`RELAY-1`).
    #[inline(always)]
    pub const fn is_behind_relays(&self) -> bool {
        matches!(self.family, AddressFamily::Relayed | AddressFamily::Beyond)
    }

    /// True if a card would hand frames to there to several stations: Ethernet's group addresses.
    pub const fn is_group(&self) -> bool {
        matches!(self.family, AddressFamily::Mac) && self.bytes[0] & 1 == 1
    }

    /// True if frames to and from there cross no wire, only this machine's memory (`CRC-4`).
    #[inline]
    pub const fn is_memory(&self) -> bool {
        matches!(self.family, AddressFamily::Shm)
    }

    /// The UDP socket address, if this is one.
    pub fn as_udp(&self) -> Option<core::net::SocketAddr> {
        use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
        let b = &self.bytes;
        match self.family {
            AddressFamily::Udp4 => Some(SocketAddr::V4(SocketAddrV4::new(
                Ipv4Addr::new(b[0], b[1], b[2], b[3]),
                u16::from_be_bytes([b[4], b[5]]),
            ))),
            AddressFamily::Udp6 => {
                let ip: [u8; 16] = b[..16].try_into().expect("sixteen bytes");
                let port = u16::from_be_bytes([b[16], b[17]]);
                let scope = u32::from_be_bytes([b[18], b[19], b[20], b[21]]);
                Some(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope)))
            }
            _ => None,
        }
    }
}

impl PartialEq for LinkAddress {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        let ([a, b, c], [d, e, f]) = (self.words(), other.words());
        (a ^ d) | (b ^ e) | (c ^ f) == 0
    }
}

impl core::hash::Hash for LinkAddress {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.words().hash(state);
    }
}

impl fmt::Display for LinkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.family {
            AddressFamily::Everyone => f.write_str("everyone"),
            AddressFamily::Loopback => f.write_str("loopback"),
            AddressFamily::Beyond => f.write_str("everyone beyond relays"),
            AddressFamily::Relayed => {
                let (place, _, hops) = self.as_relayed().unwrap_or_default();
                write!(f, "through {hops} relay{} (list {place})", if hops == 1 { "" } else { "s" })
            }
            AddressFamily::Index => write!(f, "#{}", self.as_index().unwrap_or(0)),
            AddressFamily::Shm => write!(f, "shm:{:016x}", self.as_shm().unwrap_or(0)),
            AddressFamily::Mac => {
                for (i, byte) in self.bytes().iter().enumerate() {
                    write!(f, "{}{byte:02x}", if i == 0 { "" } else { ":" })?;
                }
                Ok(())
            }
            AddressFamily::Udp4 | AddressFamily::Udp6 => match self.as_udp() {
                Some(address) => write!(f, "{address}"),
                None => f.write_str("?"),
            },
        }
    }
}

impl fmt::Debug for LinkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_shared_memory_survive_the_round_trip() {
        let address = LinkAddress::shm(0x0102_0304_0506_0708);
        assert_eq!(address.as_shm(), Some(0x0102_0304_0506_0708));
        assert_eq!(address.bytes(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((address.as_mac(), address.as_index(), address.as_udp()), (None, None, None));
        assert!(address.is_memory() && !LinkAddress::index(1).is_memory());
        assert_eq!(LinkAddress::index(7).as_shm(), None);
        assert_eq!(std::format!("{address}"), "shm:0102030405060708");
    }

    #[test]
    fn each_family_gives_back_its_address_and_no_other() {
        let mac = LinkAddress::mac([1, 2, 3, 4, 5, 6]);
        assert_eq!(mac.as_mac(), Some([1, 2, 3, 4, 5, 6]));
        assert_eq!((mac.as_index(), mac.as_udp()), (None, None));
        let index = LinkAddress::index(0x0102_0304);
        assert_eq!(index.as_index(), Some(0x0102_0304));
        assert_eq!((index.as_mac(), index.as_udp()), (None, None));
        for text in ["192.0.2.7:51966", "[fe80::12%3]:65535"] {
            let address: core::net::SocketAddr = text.parse().unwrap();
            assert_eq!(LinkAddress::udp(address).as_udp(), Some(address));
            assert_eq!(LinkAddress::udp(address).as_mac(), None);
        }
    }

    /// They are compared in words: neither may differences in two of these cancel each other, nor one hide another.
    #[test]
    fn addresses_that_differ_anywhere_differ() {
        let of = |octets: [u8; 16], scope| {
            let ip = core::net::Ipv6Addr::from(octets);
            LinkAddress::udp(core::net::SocketAddrV6::new(ip, 7, 0, scope).into())
        };
        let zero = of([0; 16], 0);
        assert_eq!(zero, of([0; 16], 0));
        for one in 0..16 {
            let mut octets = [0; 16];
            octets[one] = 0x40;
            assert_ne!(of(octets, 0), zero, "{one}");
            for other in 0..one {
                octets[other] = 0x40;
                assert_ne!(of(octets, 0), zero, "{one} and {other}");
                octets[other] = 0;
            }
        }
        assert_ne!(of([0; 16], 1 << 24), zero);
        let mut octets = [0; 16];
        octets[14] = 1;
        assert_ne!(of(octets, 1 << 24), zero);
    }

    #[test]
    fn different_addresses_are_looked_for_in_different_places() {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let place = |index| {
            let mut hasher = DefaultHasher::new();
            LinkAddress::index(index).hash(&mut hasher);
            hasher.finish()
        };
        assert_ne!(place(1), place(2));
    }

    #[test]
    fn an_address_of_one_link_is_taken_for_ones_own_end_of_it() {
        let [told, own, wide] = ["[fe80::7%3]:51966", "[fe80::9%8]:1", "[fd77::1]:1"]
            .map(|text| LinkAddress::udp(text.parse().unwrap()));
        let there = LinkAddress::udp("[fe80::7%8]:51966".parse().unwrap());
        assert_eq!(told.with_scope_of(&own), Some(there));
        assert_eq!((told.link_scope(), wide.link_scope()), (Some(3), None));
        assert_eq!((wide.with_scope_of(&own), told.with_scope_of(&wide)), (None, None));
    }
}
