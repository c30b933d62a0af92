//! Machines by number, and the numbered places on them: for interfaces whose peers are named by a number of their machine and
//! a small one within it (an MX endpoint, a VMMC process), so that each can be found without asking anyone.
//!
//! A machine's number is made of the address of its interface. The node of a place has an identity that is made of both
//! numbers and a mark of the face, and takes datagrams at a port that follows from the place.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use emp_host::NodeId;

pub use crate::claim::Claim;
use crate::whereabouts::{SOME_MAC, Whereabouts};

/// First two bytes of a number that is made of an IPv4 address: those of an Ethernet address that was given locally. The
/// second is an `E`.
const BY_IPV4: u64 = 0x0245;

/// Most bits of a number: those of an Ethernet address.
const BITS: u32 = 48;

/// The number of a machine by an interface of it: made of its IPv4 address; its Ethernet address if it has none. 0: it has
/// neither.
pub fn number_of(ip: Option<IpAddr>, mac: Option<[u8; 6]>) -> u64 {
    match (ip, mac) {
        (Some(IpAddr::V4(ip)), _) => BY_IPV4 << 32 | u64::from(u32::from(ip)),
        (_, Some(mac)) => mac.into_iter().fold(0, |number, byte| number << 8 | u64::from(byte)),
        _ => 0,
    }
}

/// True if a number can be a machine's.
pub fn is_number(machine: u64) -> bool {
    machine != 0 && machine >> BITS == 0
}

/// The IPv4 address that a number is made of.
pub fn ip_of(machine: u64) -> Option<Ipv4Addr> {
    (machine >> 32 == BY_IPV4).then(|| Ipv4Addr::from(machine as u32))
}

/// What this machine is called, unless the user says otherwise.
pub fn own_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".into(),
        name => name.into(),
    }
}

/// The places of one face on each machine.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// In names that the machine keeps.
    name: &'static str,
    /// First byte of the identity of a place's node: no other nodes have such identities but by chance.
    mark: u8,
    /// UDP port of place 0; those of the others follow. Above the ports that Linux gives out by itself (32768 to 60999), so
    /// that it is free.
    port: u16,
}

impl Places {
    /// Those of a face. The marks and ports of faces differ; a place has one byte, so there are 256 ports.
    pub const fn new(name: &'static str, mark: u8, port: u16) -> Self {
        Self { name, mark, port }
    }

    /// The port at which a place takes datagrams.
    pub const fn port(&self, place: u32) -> u16 {
        self.port + (place & 0xff) as u16
    }

    /// The node of a place.
    pub const fn node(&self, machine: u64, place: u32) -> NodeId {
        NodeId((self.mark as u64) << 56 | (place as u64 & 0xff) << BITS | machine)
    }

    /// Machine and place of a node; `None` if it is not that of a place.
    pub fn of(&self, node: NodeId) -> Option<(u64, u32)> {
        let machine = node.0 & ((1 << BITS) - 1);
        let place = (node.0 >> BITS) as u32 & 0xff;
        (node.0 >> 56 == self.mark.into()).then_some((machine, place))
    }

    /// Where the node of a place may be found.
    pub fn whereabouts(&self, machine: u64, place: u32) -> Whereabouts {
        let udp = ip_of(machine).map(|ip| SocketAddr::new(ip.into(), self.port(place)));
        let mac = if udp.is_some() {
            SOME_MAC
        } else {
            machine.to_be_bytes()[2..].try_into().unwrap_or(SOME_MAC)
        };
        Whereabouts { node: self.node(machine, place), mac: Some(mac), udp }
    }

    /// Takes a place of this machine for this process.
    ///
    /// # Errors
    ///
    /// `AddrInUse`: another process has it.
    pub fn claim(&self, machine: u64, place: u32) -> io::Result<Claim> {
        Claim::new(format!("emp-{}-{machine:012x}-{place}", self.name).as_bytes())
    }

    /// True if no process of this machine has a place.
    pub fn is_free(&self, machine: u64, place: u32) -> bool {
        self.claim(machine, place).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: Places = Places::new("test", 0x54, 0xef00);

    #[test]
    fn numbers_are_made_of_addresses() {
        let mac = Some([2, 3, 4, 5, 6, 0xff]);
        let ip = Some("10.1.2.3".parse().unwrap());
        assert_eq!(number_of(None, mac), 0x0203_0405_06ff);
        assert_eq!(number_of(ip, mac), 0x0245_0a01_0203);
        assert_eq!(number_of(Some("fd00::1".parse().unwrap()), mac), 0x0203_0405_06ff);
        assert_eq!(number_of(None, None), 0);
        assert_eq!(ip_of(0x0245_0a01_0203).map(IpAddr::from), ip);
        assert_eq!(ip_of(0x0203_0405_06ff), None);
        assert!(is_number(0x0203_0405_06ff) && !is_number(0) && !is_number(1 << 48));
        assert!(!own_name().is_empty());
    }

    #[test]
    fn identities_go_both_ways() {
        for (machine, place) in [(0x0245_0a01_0203, 0), (0xffff_ffff_ffff, 255)] {
            assert_eq!(PLACES.of(PLACES.node(machine, place)), Some((machine, place)));
        }
        assert_eq!(PLACES.of(NodeId(7)), None);
        assert_eq!(Places::new("other", 0x55, 0).of(PLACES.node(1, 2)), None);
    }

    #[test]
    fn places_are_looked_for_where_their_machine_is() {
        let place = PLACES.whereabouts(0x0245_0a01_0203, 2);
        assert_eq!(place.udp, Some("10.1.2.3:61186".parse().unwrap()));
        assert_eq!(place.mac, Some(SOME_MAC));
        let place = PLACES.whereabouts(0x0203_0405_06ff, 2);
        assert_eq!((place.udp, place.mac), (None, Some([2, 3, 4, 5, 6, 0xff])));
    }

    #[test]
    fn a_place_is_one_processs() {
        let machine = u64::from(std::process::id());
        let claim = PLACES.claim(machine, 3).unwrap();
        assert!(!PLACES.is_free(machine, 3) && PLACES.is_free(machine, 4));
        drop(claim);
        assert!(PLACES.is_free(machine, 3));
    }
}
