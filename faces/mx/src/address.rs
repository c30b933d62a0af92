//! Who is who: NIC ids, the identities of the nodes behind endpoints, and `mx_endpoint_addr_t`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use emp_face::handles::Kind;
use emp_face::node::{SOME_MAC, Whereabouts};
use emp_host::NodeId;

use crate::abi::Address;

/// Handles of endpoints and requests, and what the two halves of a connect are named by in completions.
pub const ENDPOINT: Kind = Kind::new(1);
pub const REQUEST: Kind = Kind::new(2);
pub const CONNECT_PUT: Kind = Kind::new(3);
pub const CONNECT_GET: Kind = Kind::new(4);
pub const FETCH: Kind = Kind::new(5);

/// Endpoint ids of a board, 0 to this less one. An endpoint is a node, with its links and a thread that sleeps: as many as
/// anybody opens on one machine, and few enough that a packet socket for each is no burden. MX had 8 to 32, at most 256.
pub const ENDPOINTS_MAX: u32 = 128;

/// Endpoints of one process, over all boards.
pub const OPEN_MAX: usize = 1 << PLACE_BITS;

/// Bits of an address for the place of the local endpoint, and of the partner within it.
const PLACE_BITS: u32 = 10;
const PARTNER_BITS: u32 = 22;

/// Partners of an endpoint: more than nodes can be known at a time.
pub const PARTNERS_MAX: usize = 1 << PARTNER_BITS;

/// First byte of the identity of an endpoint's node: no other nodes have such identities but by chance. It is an `M`.
const IDENTITY_MARK: u64 = 0x4d;

/// UDP port of endpoint 0 of a board; those of the others follow. Above the ports that Linux gives out by itself (32768 to
/// 60999), so that it is free.
const UDP_PORT: u16 = 0xef00;

/// First two bytes of a NIC id that is made of an IPv4 address: those of an Ethernet address that was given locally. The
/// second is an `E`.
const NIC_IPV4: u64 = 0x0245;

/// Most bits of a NIC id: those of an Ethernet address.
const NIC_BITS: u32 = 48;

/// The NIC id of an interface: made of its IPv4 address, so that it can be found without asking anyone; its Ethernet address
/// if it has none. 0: it has neither.
pub fn nic_of(ip: Option<IpAddr>, mac: Option<[u8; 6]>) -> u64 {
    match (ip, mac) {
        (Some(IpAddr::V4(ip)), _) => NIC_IPV4 << 32 | u64::from(u32::from(ip)),
        (_, Some(mac)) => mac.into_iter().fold(0, |nic, byte| nic << 8 | u64::from(byte)),
        _ => 0,
    }
}

/// True if a number can be a NIC id.
pub fn is_nic(nic: u64) -> bool {
    nic != 0 && nic >> NIC_BITS == 0
}

/// The IPv4 address that a NIC id is made of.
pub fn ip_of(nic: u64) -> Option<Ipv4Addr> {
    (nic >> 32 == NIC_IPV4).then(|| Ipv4Addr::from(nic as u32))
}

/// The port at which endpoints of this id take datagrams.
pub fn port_of(endpoint_id: u32) -> u16 {
    UDP_PORT + endpoint_id as u16
}

/// The node of an endpoint.
pub fn node_of(nic: u64, endpoint_id: u32) -> NodeId {
    NodeId(IDENTITY_MARK << 56 | u64::from(endpoint_id & 0xff) << NIC_BITS | nic)
}

/// The NIC id and endpoint id of a node; `None` if it is not that of an endpoint.
pub fn endpoint_of(node: NodeId) -> Option<(u64, u32)> {
    let nic = node.0 & ((1 << NIC_BITS) - 1);
    (node.0 >> 56 == IDENTITY_MARK).then_some((nic, (node.0 >> NIC_BITS) as u32 & 0xff))
}

/// Where an endpoint's node may be found.
pub fn whereabouts(nic: u64, endpoint_id: u32) -> Whereabouts {
    let udp = ip_of(nic).map(|ip| SocketAddr::new(ip.into(), port_of(endpoint_id)));
    let mac = if udp.is_some() {
        SOME_MAC
    } else {
        nic.to_be_bytes()[2..].try_into().unwrap_or(SOME_MAC)
    };
    Whereabouts { node: node_of(nic, endpoint_id), mac: Some(mac), udp }
}

/// What an `mx_endpoint_addr_t` says: the node; the endpoint here that it is a partner of, where in its list; and the
/// session, which tells openings of one remote endpoint apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts {
    pub node: NodeId,
    pub session: u32,
    /// Place of the local endpoint among those of the process.
    pub place: u32,
    /// Place of the partner in its list.
    pub partner: u32,
}

impl Parts {
    #[inline]
    pub fn pack(self) -> Address {
        let low = self.place << PARTNER_BITS | self.partner;
        Address { stuff: [self.node.0, u64::from(self.session) << 32 | u64::from(low)] }
    }

    #[inline]
    pub fn of(address: Address) -> Self {
        let [node, rest] = address.stuff;
        let low = rest as u32;
        Self {
            node: NodeId(node),
            session: (rest >> 32) as u32,
            place: low >> PARTNER_BITS,
            partner: low & ((1 << PARTNER_BITS) - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nic_ids_are_made_of_addresses() {
        let mac = Some([2, 3, 4, 5, 6, 0xff]);
        let ip = Some("10.1.2.3".parse().unwrap());
        assert_eq!(nic_of(None, mac), 0x0203_0405_06ff);
        assert_eq!(nic_of(ip, mac), 0x0245_0a01_0203);
        assert_eq!(nic_of(Some("fd00::1".parse().unwrap()), mac), 0x0203_0405_06ff);
        assert_eq!(nic_of(None, None), 0);
        assert_eq!(ip_of(0x0245_0a01_0203).map(IpAddr::from), ip);
        assert_eq!(ip_of(0x0203_0405_06ff), None);
        assert!(is_nic(0x0203_0405_06ff) && !is_nic(0) && !is_nic(1 << 48));
    }

    #[test]
    fn identities_go_both_ways() {
        for (nic, id) in [(0x0245_0a01_0203, 0), (0xffff_ffff_ffff, ENDPOINTS_MAX - 1)] {
            assert_eq!(endpoint_of(node_of(nic, id)), Some((nic, id)));
        }
        assert_eq!(endpoint_of(NodeId(7)), None);
    }

    #[test]
    fn endpoints_are_looked_for_where_their_nic_is() {
        let place = whereabouts(0x0245_0a01_0203, 2);
        assert_eq!(place.udp, Some("10.1.2.3:61186".parse().unwrap()));
        assert_eq!(place.mac, Some(SOME_MAC));
        let place = whereabouts(0x0203_0405_06ff, 2);
        assert_eq!((place.udp, place.mac), (None, Some([2, 3, 4, 5, 6, 0xff])));
    }

    #[test]
    fn addresses_survive_the_way() {
        let node = node_of(0x0245_0a01_0203, 3);
        for (place, partner) in [(0, 0), ((1 << PLACE_BITS) - 1, (1 << PARTNER_BITS) - 1), (5, 7)] {
            let parts = Parts { node, session: 0xdead_beef, place, partner };
            assert_eq!(Parts::of(parts.pack()), parts);
        }
    }
}
