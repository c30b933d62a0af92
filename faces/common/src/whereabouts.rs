//! Where a node may be, as addresses of faces tell it.

use std::net::SocketAddr;

use emp_host::NodeId;

/// The Ethernet address of a node that takes raw frames at one that is not known: it is found by broadcast.
pub const SOME_MAC: [u8; 6] = [0; 6];

/// Where a node may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Whereabouts {
    /// The node.
    pub node: NodeId,
    /// Ethernet address of its interface, if it takes raw frames there; [`SOME_MAC`] if that is not known.
    pub mac: Option<[u8; 6]>,
    /// Where it takes datagrams.
    pub udp: Option<SocketAddr>,
}

impl Whereabouts {
    /// Where its host refuses datagrams once its process has ended. An interface without an IP address has a port on its own host's loopback
    /// only: another host would refuse for itself.
    pub(crate) fn asked_at(&self, same_machine: bool) -> Option<SocketAddr> {
        self.udp.filter(|at| same_machine || !at.ip().is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else a silent peer that lives would be held to have ended, after 10 s of refusals.
    #[test]
    fn no_host_is_asked_by_its_own_loopback() {
        let at = |udp: &str| Whereabouts {
            node: NodeId(1),
            mac: Some([2, 3, 4, 5, 6, 7]),
            udp: Some(udp.parse().unwrap()),
        };
        assert_eq!(at("127.0.0.1:700").asked_at(false), None);
        assert!(at("127.0.0.1:700").asked_at(true).is_some());
        assert!(at("10.1.2.3:700").asked_at(false).is_some());
        assert_eq!(Whereabouts { udp: None, ..at("10.1.2.3:700") }.asked_at(true), None);
    }
}
