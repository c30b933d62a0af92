//! The address of an interface as 48 bits, for faces whose peers name each other by such numbers. It is made of the IPv4
//! address if there is one, so that a peer is found without asking anyone.

use std::net::{IpAddr, Ipv4Addr};

/// First two bytes of an address that is made of an IPv4 address: those of an Ethernet address that was given locally. The
/// second is an `E`.
const IPV4: u64 = 0x0245;

/// Bits of an address: those of an Ethernet address.
pub const NIC_BITS: u32 = 48;

/// The address of an interface: made of its IPv4 address; its Ethernet address if it has none. 0: it has neither.
pub fn nic_of(ip: Option<IpAddr>, mac: Option<[u8; 6]>) -> u64 {
    match (ip, mac) {
        (Some(IpAddr::V4(ip)), _) => IPV4 << 32 | u64::from(u32::from(ip)),
        (_, Some(mac)) => mac.into_iter().fold(0, |nic, byte| nic << 8 | u64::from(byte)),
        _ => 0,
    }
}

/// True if a number can be such an address.
pub fn is_nic(nic: u64) -> bool {
    nic != 0 && nic >> NIC_BITS == 0
}

/// The IPv4 address that an address is made of.
pub fn ip_of(nic: u64) -> Option<Ipv4Addr> {
    (nic >> 32 == IPV4).then(|| Ipv4Addr::from(nic as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_made_of_addresses() {
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
}
