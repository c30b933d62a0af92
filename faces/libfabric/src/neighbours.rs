//! What an endpoint remembers of its address vector: where it sent last, and whom it heard from last.
//!
//! The vector's lock is two atomic operations for each message and direction, which is more than looking the peer up. An
//! endpoint talks to few peers at a time, so it keeps what it has looked up, as long as nothing was removed since.

use emp_host::NodeId;

use crate::bindings::{FI_ADDR_UNSPEC, FiAddr};

/// Peers that are remembered in each direction: those of a rank's neighbourhood in a grid of three dimensions, and some.
const PLACES: usize = 8;

#[derive(Clone, Copy)]
struct Peer {
    address: FiAddr,
    node: NodeId,
    endpoint: u16,
}

impl Peer {
    const NONE: Self = Self { address: FI_ADDR_UNSPEC, node: NodeId::ANY, endpoint: 0 };
}

/// Peers that were looked up.
pub struct Neighbours {
    /// That of the vector when they were.
    version: u64,
    by_address: [Peer; PLACES],
    by_node: [Peer; PLACES],
}

impl Default for Neighbours {
    fn default() -> Self {
        Self { version: 0, by_address: [Peer::NONE; PLACES], by_node: [Peer::NONE; PLACES] }
    }
}

impl Neighbours {
    /// Forgets what may be wrong: `version` is the vector's now ([`AvInner::version`](crate::av::AvInner::version)).
    #[inline]
    fn renew(&mut self, version: u64) {
        if version != self.version {
            *self = Self { version, ..Self::default() };
        }
    }

    /// The node and endpoint of an entry, which `look` finds in the vector, if it is there.
    #[inline]
    pub fn find(
        &mut self,
        version: u64,
        address: FiAddr,
        look: impl FnOnce() -> Option<(NodeId, u16)>,
    ) -> Option<(NodeId, u16)> {
        self.renew(version);
        let place = &mut self.by_address[address as usize % PLACES];
        if place.address != address || address == FI_ADDR_UNSPEC {
            let (node, endpoint) = look()?;
            *place = Peer { address, node, endpoint };
        }
        Some((place.node, place.endpoint))
    }

    /// The number of a node's endpoint, which `look` finds in the vector; [`FI_ADDR_UNSPEC`] if it was not inserted.
    #[inline]
    pub fn number(
        &mut self,
        version: u64,
        (node, endpoint): (NodeId, u16),
        look: impl FnOnce() -> FiAddr,
    ) -> FiAddr {
        self.renew(version);
        let place = &mut self.by_node[(node.0 ^ u64::from(endpoint)) as usize % PLACES];
        if place.address == FI_ADDR_UNSPEC || place.node != node || place.endpoint != endpoint {
            *place = Peer { address: look(), node, endpoint };
        }
        place.address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: fn() -> FiAddr = || panic!("it is known");

    #[test]
    fn what_was_looked_up_is_kept_until_something_is_removed() {
        let mut known = Neighbours::default();
        let here = Some((NodeId(7), 1));
        assert_eq!(known.find(0, 3, || None), None);
        assert_eq!(known.find(0, 3, || here), here);
        assert_eq!(known.find(0, 3, || panic!("it is known")), here);
        assert_eq!(known.find(1, 3, || None), None);
        let who = (NodeId(7), 1);
        assert_eq!(known.number(1, who, || FI_ADDR_UNSPEC), FI_ADDR_UNSPEC);
        assert_eq!(known.number(1, who, || 3), 3);
        assert_eq!(known.number(1, who, NEVER), 3);
        assert_eq!(known.number(2, who, || FI_ADDR_UNSPEC), FI_ADDR_UNSPEC);
    }

    #[test]
    fn peers_of_one_place_are_told_apart() {
        let mut known = Neighbours::default();
        let (near, far) = (1, 1 + PLACES as u64);
        assert_eq!(known.find(0, near, || Some((NodeId(1), 0))), Some((NodeId(1), 0)));
        assert_eq!(known.find(0, far, || Some((NodeId(2), 5))), Some((NodeId(2), 5)));
        assert_eq!(known.find(0, near, || Some((NodeId(1), 0))), Some((NodeId(1), 0)));
        for (number, who) in [(NodeId(1), 0), (NodeId(9), 0), (NodeId(0), 1)].iter().enumerate() {
            assert_eq!(known.number(0, *who, || number as FiAddr), number as FiAddr);
        }
        // Nobody is what an empty place holds.
        assert_eq!(known.find(0, FI_ADDR_UNSPEC, || None), None);
        assert_eq!(known.number(0, (NodeId::ANY, 0), || 4), 4);
    }
}
