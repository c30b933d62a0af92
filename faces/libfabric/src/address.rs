//! Addresses of endpoints as MPI's launchers carry them: who the node is, and where it may be found.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use emp_host::NodeId;

/// Bytes of an address. Half of what MPICH has room for.
pub const ADDRESS_BYTES: usize = 32;

/// Told apart from what an application may insert by mistake.
const VERSION: u8 = 1;

const HAS_MAC: u8 = 1;
const HAS_IPV4: u8 = 2;
const HAS_IPV6: u8 = 4;

/// An endpoint's address.
///
/// | bytes | |
/// |---|---|
/// | 0..8 | node identity |
/// | 8..10 | endpoint |
/// | 10 | which of the following are there |
/// | 11 | version |
/// | 12..14 | UDP port |
/// | 14..18, 18..24 | IPv4 address, Ethernet address |
/// | 14..30 | or an IPv6 address; the node's raw frames are then found by broadcast |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EpAddress {
    pub node: NodeId,
    pub endpoint: u16,
    /// Ethernet address of the interface, if the node takes raw frames there. With an IPv6 address it does not travel,
    /// and reads as all zeros.
    pub mac: Option<[u8; 6]>,
    /// Where the node takes datagrams.
    pub udp: Option<SocketAddr>,
}

impl EpAddress {
    pub fn encode(&self) -> [u8; ADDRESS_BYTES] {
        let mut bytes = [0; ADDRESS_BYTES];
        bytes[..8].copy_from_slice(&self.node.0.to_be_bytes());
        bytes[8..10].copy_from_slice(&self.endpoint.to_be_bytes());
        bytes[11] = VERSION;
        if let Some(mac) = self.mac {
            bytes[10] |= HAS_MAC;
            bytes[18..24].copy_from_slice(&mac);
        }
        if let Some(udp) = self.udp {
            bytes[12..14].copy_from_slice(&udp.port().to_be_bytes());
            match udp.ip() {
                IpAddr::V4(ip) => {
                    bytes[10] |= HAS_IPV4;
                    bytes[14..18].copy_from_slice(&ip.octets());
                }
                IpAddr::V6(ip) => {
                    bytes[10] |= HAS_IPV6;
                    bytes[14..30].copy_from_slice(&ip.octets());
                }
            }
        }
        bytes
    }

    /// `None` if these are not the bytes of an address.
    pub fn decode(bytes: &[u8; ADDRESS_BYTES]) -> Option<Self> {
        let node = NodeId(u64::from_be_bytes(*bytes.first_chunk()?));
        if bytes[11] != VERSION || node == NodeId::ANY {
            return None;
        }
        let endpoint = u16::from_be_bytes([bytes[8], bytes[9]]);
        let port = u16::from_be_bytes([bytes[12], bytes[13]]);
        let has = |bit| bytes[10] & bit != 0;
        let ip: Option<IpAddr> = if has(HAS_IPV4) {
            Some(Ipv4Addr::from(*bytes[14..].first_chunk::<4>()?).into())
        } else if has(HAS_IPV6) {
            Some(Ipv6Addr::from(*bytes[14..].first_chunk::<16>()?).into())
        } else {
            None
        };
        let mac = match (has(HAS_MAC), has(HAS_IPV6)) {
            (true, false) => Some(*bytes[18..].first_chunk::<6>()?),
            (true, true) => Some([0; 6]),
            (false, _) => None,
        };
        Some(Self { node, endpoint, mac, udp: ip.map(|ip| SocketAddr::new(ip, port)) })
    }
}

impl fmt::Display for EpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fi_addr_emp://{:016x}:{}", self.node.0, self.endpoint)?;
        if let Some([a, b, c, d, e, g]) = self.mac.filter(|mac| *mac != [0; 6]) {
            write!(f, "/{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")?;
        }
        match self.udp {
            Some(udp) => write!(f, "/{udp}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way() {
        let v4 = Some("10.1.2.3:700".parse().unwrap());
        let v6 = Some("[fd00::7]:800".parse().unwrap());
        for (mac, udp) in [
            (None, None),
            (Some([2, 3, 4, 5, 6, 7]), None),
            (Some([2, 3, 4, 5, 6, 7]), v4),
            (None, v6),
            (Some([0; 6]), v6),
        ] {
            let address = EpAddress { node: NodeId(0x1122_3344_5566_7788), endpoint: 9, mac, udp };
            if mac == Some([0; 6]) || udp.is_none_or(|udp| udp.is_ipv4()) || mac.is_none() {
                assert_eq!(EpAddress::decode(&address.encode()), Some(address));
            }
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        assert_eq!(EpAddress::decode(&[0; ADDRESS_BYTES]), None);
        assert_eq!(EpAddress::decode(&[0xFF; ADDRESS_BYTES]), None);
    }

    #[test]
    fn people_can_read_them() {
        let udp = Some("10.1.2.3:700".parse().unwrap());
        let mac = Some([2, 3, 4, 5, 6, 7]);
        let address = EpAddress { node: NodeId(16), endpoint: 2, mac, udp };
        assert_eq!(
            address.to_string(),
            "fi_addr_emp://0000000000000010:2/02:03:04:05:06:07/10.1.2.3:700"
        );
    }
}
