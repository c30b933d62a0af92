//! Addresses of endpoints as MPI's launchers carry them: who the node is, and where it may be found.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use emp_face::whereabouts::SOME_MAC;
use emp_host::NodeId;

use crate::domain::ENDPOINTS_MAX;

/// Bytes of an address. Half of what MPICH has room for.
pub const ADDRESS_BYTES: usize = 32;

/// Told apart from what an application may insert by mistake.
const VERSION: u8 = 1;

const HAS_MAC: u8 = 1;
const HAS_IPV4: u8 = 2;
const HAS_IPV6: u8 = 4;
const IS_SERVICE: u8 = 8;

/// Endpoint of a node by which the services it was opened for are reached.
pub const SERVICE_ENDPOINT: u16 = 0;

/// How the texts of addresses begin (`FI_ADDR_STR`).
pub const SCHEME: &str = "fi_emp://";

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
///
/// As text (`FI_ADDR_STR`), a service is `fi_emp://10.1.2.3:700`; any other endpoint is
/// `fi_emp://@IDENTITY:ENDPOINT/MAC/IP:PORT`, without what it has not; a service of a host that has a name only is
/// `fi_emp://@IDENTITY`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EpAddress {
    pub node: NodeId,
    pub endpoint: u16,
    /// Ethernet address of the interface, if the node takes raw frames there. With an IPv6 address it does not travel,
    /// and reads as all zeros.
    pub mac: Option<[u8; 6]>,
    /// Where the node takes datagrams.
    pub udp: Option<SocketAddr>,
    /// It was made of a host and a port alone: the node's identity is that of their text, which both ends compute.
    pub service: bool,
}

impl EpAddress {
    /// Where a process listens that was told this address. Port 0: any process there, which nothing can be sent to.
    pub fn at(host: SocketAddr) -> Self {
        let node = NodeId::from_name(&host.to_string());
        // It may take raw frames or not, and is looked for by both.
        let (mac, udp) = (Some(SOME_MAC), Some(host));
        Self { node, endpoint: SERVICE_ENDPOINT, mac, udp, service: true }
    }

    /// The same where a name stands for the host, as it has no IP address.
    pub fn named(host: &str, port: u16) -> Self {
        let service = Self::of_service(NodeId::from_name(&format!("{host}:{port}")));
        Self { service: port != 0, ..service }
    }

    /// A service whose host is not known by an IP address.
    fn of_service(node: NodeId) -> Self {
        let mac = Some(SOME_MAC);
        Self { node, endpoint: SERVICE_ENDPOINT, mac, udp: None, service: true }
    }

    /// True if there may be somebody to send to.
    pub fn has_somebody(&self) -> bool {
        !self.service || self.udp.is_none_or(|udp| udp.port() != 0)
    }

    pub fn encode(&self) -> [u8; ADDRESS_BYTES] {
        let mut bytes = [0; ADDRESS_BYTES];
        bytes[..8].copy_from_slice(&self.node.0.to_be_bytes());
        bytes[8..10].copy_from_slice(&self.endpoint.to_be_bytes());
        bytes[11] = VERSION;
        if let Some(mac) = self.mac {
            bytes[10] |= HAS_MAC;
            bytes[18..24].copy_from_slice(&mac);
        }
        if self.service {
            bytes[10] |= IS_SERVICE;
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

    /// `None` if these are not the bytes of an address: no domain has endpoints from [`ENDPOINTS_MAX`] on.
    pub fn decode(bytes: &[u8; ADDRESS_BYTES]) -> Option<Self> {
        let node = NodeId(u64::from_be_bytes(*bytes.first_chunk()?));
        if bytes[11] != VERSION || node == NodeId::ANY {
            return None;
        }
        let endpoint = u16::from_be_bytes([bytes[8], bytes[9]]);
        if endpoint >= ENDPOINTS_MAX {
            return None;
        }
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
            (true, true) => Some(SOME_MAC),
            (false, _) => None,
        };
        let udp = ip.map(|ip| SocketAddr::new(ip, port));
        Some(Self { node, endpoint, mac, udp, service: has(IS_SERVICE) })
    }
}

impl fmt::Display for EpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (true, Some(udp)) = (self.service, self.udp) {
            return write!(f, "{SCHEME}{udp}");
        }
        write!(f, "{SCHEME}@{:016x}", self.node.0)?;
        if self.service {
            return Ok(());
        }
        write!(f, ":{}", self.endpoint)?;
        if let Some([a, b, c, d, e, g]) = self.mac {
            write!(f, "/{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")?;
        }
        match self.udp {
            Some(udp) => write!(f, "/{udp}"),
            None => Ok(()),
        }
    }
}

/// The six numbers of an Ethernet address.
pub fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let byte = |part: &str| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2);
    let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
    bytes?.try_into().ok()
}

/// What comes after [`SCHEME`]`@`: a node's identity and endpoint, and where it may be found; or that of a service alone.
pub fn parse_exact(text: &str) -> Option<EpAddress> {
    let mut parts = text.split('/');
    let first = parts.next()?;
    let (node, endpoint) = first.split_once(':').map_or((first, None), |(n, e)| (n, Some(e)));
    let node = u64::from_str_radix(node, 16).ok().filter(|_| node.len() == 16).map(NodeId);
    let node = node.filter(|node| *node != NodeId::ANY)?;
    let Some(endpoint) = endpoint else {
        return parts.next().is_none().then_some(EpAddress::of_service(node));
    };
    let endpoint = endpoint.parse().ok().filter(|endpoint| *endpoint < ENDPOINTS_MAX)?;
    let (mut mac, mut udp) = (None, None);
    for part in parts {
        match (parse_mac(part), part.parse::<SocketAddr>()) {
            (Some(found), _) if mac.is_none() && udp.is_none() => mac = Some(found),
            (_, Ok(found)) if udp.is_none() => udp = Some(found),
            _ => return None,
        }
    }
    Some(EpAddress { node, endpoint, mac, udp, service: false })
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
            let node = NodeId(0x1122_3344_5566_7788);
            let address = EpAddress { node, endpoint: 9, mac, udp, service: false };
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
    fn no_endpoint_has_a_number_that_a_domain_does_not_give() {
        let node = NodeId(7);
        for (endpoint, good) in [(0, true), (255, true), (256, false), (32768, false)] {
            let address = EpAddress { node, endpoint, mac: None, udp: None, service: false };
            assert_eq!(EpAddress::decode(&address.encode()).is_some(), good, "{endpoint}");
            let text = format!("0000000000000007:{endpoint}");
            assert_eq!(parse_exact(&text).is_some(), good, "{text}");
        }
    }

    #[test]
    fn people_can_read_them() {
        let here: SocketAddr = "10.1.2.3:700".parse().unwrap();
        let (mac, udp) = (Some([2, 3, 4, 5, 6, 7]), Some(here));
        let address = EpAddress { node: NodeId(16), endpoint: 2, mac, udp, service: false };
        assert_eq!(
            address.to_string(),
            "fi_emp://@0000000000000010:2/02:03:04:05:06:07/10.1.2.3:700"
        );
        assert_eq!(EpAddress::at(here).to_string(), "fi_emp://10.1.2.3:700");
        let v6 = EpAddress::at("[fd00::7]:800".parse().unwrap());
        assert_eq!(v6.to_string(), "fi_emp://[fd00::7]:800");
    }

    #[test]
    fn texts_are_read_again() {
        let (v4, v6) = ("10.1.2.3:700".parse().unwrap(), "[fd00::7]:800".parse().unwrap());
        let mac = Some([2, 3, 4, 5, 6, 7]);
        for (mac, udp) in [(None, None), (mac, None), (mac, Some(v4)), (None, Some(v6))] {
            let address =
                EpAddress { node: NodeId(u64::MAX), endpoint: 255, mac, udp, service: false };
            let text = address.to_string();
            assert_eq!(parse_exact(text.strip_prefix("fi_emp://@").unwrap()), Some(address));
        }
        let named = EpAddress::named("ann", 5);
        let text = named.to_string();
        assert_eq!(parse_exact(text.strip_prefix("fi_emp://@").unwrap()), Some(named));
        for bad in [
            "",
            "10",
            "0000000000000010/1.2.3.4:5",
            "0000000000000010:",
            "0000000000000000:1",
            "000000000000001:1",
            "0000000000000010:70000",
            "0000000000000010:1/",
            "0000000000000010:1/nonsense",
            "0000000000000010:1/1.2.3.4:5/02:03:04:05:06:07",
            "0000000000000010:1/1.2.3.4:5/1.2.3.4:5",
        ] {
            assert_eq!(parse_exact(bad), None, "{bad}");
        }
    }

    #[test]
    fn both_ends_compute_a_service() {
        let host = "10.1.2.3:700".parse().unwrap();
        let service = EpAddress::at(host);
        assert_eq!(EpAddress::decode(&service.encode()), Some(service));
        assert_eq!(service.node, EpAddress::at(host).node);
        assert_ne!(service.node, EpAddress::at("10.1.2.3:701".parse().unwrap()).node);
        assert!(service.has_somebody());
        assert!(!EpAddress::at("10.1.2.3:0".parse().unwrap()).has_somebody());
    }
}
