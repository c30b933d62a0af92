//! What network interfaces this machine (this network namespace) has.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use crate::LinkError;
use crate::system::{self, InterfaceAddress};

/// A network interface as the calling thread's namespace shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Name, such as `eth0`.
    pub name: String,
    /// The number by which the kernel knows it.
    pub index: u32,
    /// Largest packet in bytes after the link header.
    pub mtu: usize,
    /// Ethernet address, if it is that kind of interface. Loopback's is all zeros.
    pub mac: Option<[u8; 6]>,
    /// Switched on by the administrator.
    pub up: bool,
    /// Has a carrier: a cable with something alive at its other end.
    pub running: bool,
    /// The loopback interface.
    pub loopback: bool,
    /// IP addresses that it owns.
    pub addresses: Vec<IpAddr>,
    /// The bits of each address that its subnet has in common.
    pub prefixes: Vec<u8>,
}

impl Interface {
    /// True if raw Ethernet frames can reach other machines through it.
    pub fn usable_for_packet(&self) -> bool {
        self.up && self.running && !self.loopback && self.mac.is_some()
    }
}

impl Interface {
    /// The address that datagrams are taken at: an IPv4 one rather than IPv6, none that is valid on one link only.
    pub fn ip(&self) -> Option<IpAddr> {
        let usable = |ip: &&IpAddr| match ip {
            IpAddr::V4(_) => true,
            IpAddr::V6(ip) => !ip.is_unicast_link_local(),
        };
        self.addresses.iter().filter(usable).min_by_key(|ip| ip.is_ipv6()).copied()
    }

    /// Its IPv6 address that is valid on its link only, as each interface gives itself one.
    pub fn link_local(&self) -> Option<IpAddr> {
        let local = |ip: &&IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        self.addresses.iter().find(local).copied()
    }

    /// It has an address in a subnet that others may be in as well, not one on this link only.
    pub(crate) fn leads_to_subnet(&self) -> bool {
        let wide = |(ip, prefix): (&IpAddr, &u8)| match ip {
            IpAddr::V4(ip) => !ip.is_link_local() && *prefix < 32,
            IpAddr::V6(ip) => !ip.is_unicast_link_local() && *prefix < 128,
        };
        self.addresses.iter().zip(&self.prefixes).any(wide)
    }

    /// Its address for datagrams is in a subnet of this other one: the kernel may send by that what shall leave by this.
    pub fn shares_subnet(&self, other: &Self) -> bool {
        let own = self.ip().filter(|_| self.index != other.index);
        let theirs = || other.addresses.iter().zip(&other.prefixes);
        own.is_some_and(|own| theirs().any(|(ip, prefix)| same_front(own, *ip, *prefix)))
    }
}

/// So many bits at the front of two addresses are the same.
fn same_front(a: IpAddr, b: IpAddr, bits: u8) -> bool {
    let bits = u32::from(bits);
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= bits,
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros() >= bits,
        _ => false,
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match (self.up, self.running) {
            (true, true) => "up",
            (true, false) => "no carrier",
            (false, _) => "down",
        };
        write!(f, "{} ({state}, MTU {})", self.name, self.mtu)
    }
}

/// All interfaces, in the kernel's order.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let socket = system::socket(libc::AF_INET, libc::SOCK_DGRAM)?;
    let mut found: Vec<Interface> = Vec::new();
    for entry in system::interface_entries()? {
        let known = found.iter().position(|interface| interface.name == entry.name);
        let at = known.unwrap_or_else(|| {
            found.push(Interface {
                index: system::interface_index(&entry.name),
                // An interface that vanished between the two calls reads as MTU 0: not usable.
                mtu: system::interface_mtu(socket.as_fd(), &entry.name).unwrap_or(0),
                name: entry.name.clone(),
                mac: None,
                up: entry.flags & libc::IFF_UP != 0,
                running: entry.flags & libc::IFF_RUNNING != 0,
                loopback: entry.flags & libc::IFF_LOOPBACK != 0,
                addresses: Vec::new(),
                prefixes: Vec::new(),
            });
            found.len() - 1
        });
        match entry.address {
            Some(InterfaceAddress::Mac(mac)) => found[at].mac = Some(mac),
            Some(InterfaceAddress::Ip(ip, prefix)) => {
                found[at].addresses.push(ip);
                found[at].prefixes.push(prefix);
            }
            None => {}
        }
    }
    Ok(found)
}

/// The interfaces in one line, for the advice in an error.
pub(crate) fn interface_list() -> String {
    match interfaces() {
        Ok(list) if list.is_empty() => "there are no interfaces here".into(),
        Ok(list) => {
            let names: Vec<String> = list.iter().map(ToString::to_string).collect();
            format!("there are: {}", names.join(", "))
        }
        Err(error) => format!("listing the interfaces failed too: {error}"),
    }
}

/// The interface `name` for the link that is called `link`: it must be up and carry Ethernet frames.
pub(crate) fn find_for_frames(link: &str, name: &str) -> Result<Interface, LinkError> {
    let list = interfaces().map_err(|error| LinkError {
        link: link.into(),
        problem: format!("cannot list the network interfaces: {error}"),
        advice: "check that this process may open sockets".into(),
        source: Some(error),
        privilege: false,
    })?;
    let problem = |problem: String, advice: String| LinkError {
        link: link.into(),
        problem,
        advice,
        source: None,
        privilege: false,
    };
    let Some(interface) = list.into_iter().find(|interface| interface.name == name) else {
        return Err(problem("no such interface".into(), interface_list()));
    };
    if !interface.up {
        let advice = format!("bring it up with `ip link set {name} up`");
        return Err(problem("the interface is down".into(), advice));
    }
    if interface.mac.is_none() {
        let advice = format!("choose an Ethernet interface ({})", interface_list());
        return Err(problem("the interface has no Ethernet address".into(), advice));
    }
    Ok(interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found() {
        let list = interfaces().expect("the list is readable without privilege");
        let lo = list.iter().find(|interface| interface.loopback).expect("there is a loopback");
        assert_eq!(lo.mac, Some([0; 6]));
        assert!(lo.mtu >= 1280, "MTU {}", lo.mtu);
        assert!(lo.index > 0);
        assert!(!lo.usable_for_packet());
        assert!(interface_list().contains(&lo.name));
        let v4 = lo.addresses.iter().zip(&lo.prefixes).find(|(ip, _)| ip.is_ipv4());
        assert!(v4.is_none_or(|(_, prefix)| *prefix == 8), "{v4:?}");
    }

    #[test]
    fn subnets_are_compared_by_their_prefixes() {
        let at = |index, ip: &str, prefix| {
            let (addresses, prefixes) = (vec![ip.parse().unwrap()], vec![prefix]);
            Interface { index, addresses, prefixes, ..Interface::default() }
        };
        let a = at(1, "10.77.0.1", 24);
        let shares = |other: &Interface| (a.shares_subnet(other), other.shares_subnet(&a));
        assert_eq!(shares(&at(2, "10.77.0.9", 24)), (true, true));
        assert_eq!(shares(&at(2, "10.77.9.9", 16)), (true, false), "the wider one has both");
        assert_eq!(shares(&at(2, "10.78.0.9", 24)), (false, false));
        assert_eq!(shares(&at(2, "fd00::9", 64)), (false, false));
        assert_eq!(shares(&a), (false, false), "itself");
    }
}
