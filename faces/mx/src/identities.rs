//! Who is who: NIC ids, the identities of the nodes behind endpoints, and `mx_endpoint_addr_t`.

use emp_face::handles::Kind;
use emp_face::machines::Places;
pub use emp_face::machines::{is_number as is_nic, number_of as nic_of};
use emp_face::whereabouts::Whereabouts;
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

/// Endpoints as the places of their machine, which a NIC id stands for. Their mark is an `M`.
pub const PLACES: Places = Places::new("mx", 0x4d, 0xef00);

/// The port at which endpoints of this id take datagrams.
pub fn port_of(endpoint_id: u32) -> u16 {
    PLACES.port(endpoint_id)
}

/// The node of an endpoint.
pub fn node_of(nic: u64, endpoint_id: u32) -> NodeId {
    PLACES.node(nic, endpoint_id)
}

/// The NIC id and endpoint id of a node; `None` if it is not that of an endpoint.
pub fn endpoint_of(node: NodeId) -> Option<(u64, u32)> {
    PLACES.of(node)
}

/// Where an endpoint's node may be found.
pub fn whereabouts(nic: u64, endpoint_id: u32) -> Whereabouts {
    PLACES.whereabouts(nic, endpoint_id)
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
    fn addresses_survive_the_way() {
        let node = node_of(0x0245_0a01_0203, 3);
        for (place, partner) in [(0, 0), ((1 << PLACE_BITS) - 1, (1 << PARTNER_BITS) - 1), (5, 7)] {
            let parts = Parts { node, session: 0xdead_beef, place, partner };
            assert_eq!(Parts::of(parts.pack()), parts);
        }
    }
}
