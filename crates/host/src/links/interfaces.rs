//! Which links lead over one interface, and which over others: a node on several interfaces uses them together (`PATH-13`).

use std::net::{IpAddr, SocketAddr};

use emp_firmware::limits::INTERFACES_MAX;
use emp_firmware::{LinkIndex, LinkInfo};
use emp_link::{Capabilities, Interface};
use emp_wire::LinkAddress;

use crate::links::set::is_ring;

/// The interfaces of a node's links: which each leads over, by its place among them. `None`: over none, or whichever the kernel's routes say.
pub(crate) struct LinkInterfaces {
    of: Vec<Option<u8>>,
    /// Where the node is by each link, as others are told.
    addresses: Vec<LinkAddress>,
    names: Vec<String>,
}

impl LinkInterfaces {
    /// `all`: the machine's interfaces.
    pub(crate) fn new(links: &[Capabilities], all: &[Interface]) -> Self {
        let mut names: Vec<String> = Vec::new();
        let addresses = links.iter().map(|link| address_of(link, links, all)).collect::<Vec<_>>();
        let of = links.iter().zip(&addresses).map(|(link, address)| {
            let name = name_of(link, address, all)?;
            let known = names.iter().position(|known| *known == name);
            let at = known.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            u8::try_from(at).ok()
        });
        let of = of.collect();
        Self { of, addresses, names }
    }

    /// The names of the interfaces that links of this kind lead over.
    pub(crate) fn of_kind<'a>(
        &'a self,
        links: &'a [Capabilities],
        is: impl Fn(&Capabilities) -> bool + 'a,
    ) -> impl Iterator<Item = &'a str> {
        let those = links.iter().zip(&self.of).filter(move |(link, _)| is(link));
        those.filter_map(|(_, of)| Some(self.names.get(usize::from((*of)?))?.as_str()))
    }

    /// Those that links lead over, at most so many are used together.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// There are several to be used together.
    pub(crate) fn are_several(&self) -> bool {
        (2..=INTERFACES_MAX).contains(&self.names.len())
    }

    /// Tells the firmware which links are alternatives, which are additions, and what to tell peers on each: first where the node is by the
    /// others of the same interface.
    pub(crate) fn apply(&self, infos: &mut [LinkInfo]) {
        if !self.are_several() {
            return;
        }
        for index in 0..infos.len() {
            let Some(interface) = self.of[index] else { continue };
            infos[index].interface = interface;
            infos[index].beside = Default::default();
            let mut others: Vec<_> = (0..infos.len()).filter(|other| *other != index).collect();
            others.sort_by_key(|other| (self.of[*other] != Some(interface), *other));
            for other in others.into_iter().filter(|other| self.of[*other].is_some()) {
                let address = self.addresses[other];
                infos[index].set_beside(LinkIndex(other as u8), address);
            }
        }
    }
}

/// Where a node is by a link. A socket on all addresses, beside a ring, was opened when that was the only one: it is taken for that ring's.
fn address_of(link: &Capabilities, links: &[Capabilities], all: &[Interface]) -> LinkAddress {
    let anywhere = link.address.as_udp().filter(|at| at.ip().is_unspecified());
    let ring = || links.iter().find(|link| is_ring(link));
    let beside = |at: SocketAddr| {
        let interface = all.iter().find(|one| Some(&one.name) == ring().map(|r| &r.interface))?;
        let ip = interface.ip().filter(|ip| ip.is_ipv4() == at.is_ipv4())?;
        Some(LinkAddress::udp(SocketAddr::new(ip, at.port())))
    };
    anywhere.and_then(beside).unwrap_or(link.address)
}

/// The interface that a link leads over, if it is one: a ring's by its name, a socket's by its address, and by its scope where several interfaces may
/// have that address.
fn name_of(link: &Capabilities, address: &LinkAddress, all: &[Interface]) -> Option<String> {
    let scope = address.link_scope().filter(|scope| *scope != 0);
    let may_be = |one: &&Interface| !one.loopback && scope.is_none_or(|scope| scope == one.index);
    let owner = |ip: IpAddr| all.iter().filter(may_be).find(|one| one.addresses.contains(&ip));
    match socket_ip(address) {
        Some(ip) => owner(ip).map(|one| one.name.clone()),
        None => link.address.as_mac().map(|_| link.interface.clone()),
    }
}

fn socket_ip(address: &LinkAddress) -> Option<IpAddr> {
    address.as_udp().map(|socket| socket.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(kind: &'static str, interface: &str, address: LinkAddress) -> Capabilities {
        Capabilities {
            kind,
            interface: interface.into(),
            frame_bytes_max: 1_472,
            long_frame_bytes: 0,
            long_frames_held: 0,
            parts_max: 16,
            batch_max: 64,
            segmentation: kind == "udp",
            sums: kind == "udp",
            past_ip: false,
            broadcast: kind != "udp",
            privileged: false,
            address,
        }
    }

    fn udp(ip: &str) -> LinkAddress {
        LinkAddress::udp(format!("{ip}:51966").parse().unwrap())
    }

    fn card(name: &str, ip: &str) -> Interface {
        let (name, addresses) = (name.into(), vec![ip.parse().unwrap()]);
        Interface { name, addresses, ..Interface::default() }
    }

    #[test]
    fn a_ring_and_a_socket_of_one_card_are_alternatives() {
        let all = [card("a", "10.1.0.1"), card("b", "10.2.0.1")];
        let links = [
            link("packet", "a", LinkAddress::mac([2, 0, 0, 0, 0, 1])),
            link("packet", "b", LinkAddress::mac([2, 0, 0, 0, 0, 2])),
            link("udp", "10.1.0.1:51966", udp("10.1.0.1")),
            link("udp", "10.2.0.1:51966", udp("10.2.0.1")),
            link("shm", "/dev/shm", LinkAddress::shm(7)),
        ];
        let interfaces = LinkInterfaces::new(&links, &all);
        assert!(interfaces.are_several());
        assert_eq!(interfaces.names(), ["a", "b"]);
        let mut infos = vec![LinkInfo::new(1_472, true); links.len()];
        interfaces.apply(&mut infos);
        assert_eq!([0, 1, 2, 3].map(|at| infos[at].interface), [0, 1, 0, 1]);
        let beside = |at: usize| infos[at].beside.into_iter().flatten().map(|(link, _)| link.0);
        assert_eq!(beside(0).collect::<Vec<_>>(), [2, 1, 3], "its own socket is told first");
        assert_eq!(beside(3).collect::<Vec<_>>(), [1, 0, 2]);
        assert_eq!(beside(4).count(), 0, "memory is no interface");
        // One alone, and a socket on all addresses, are as they were.
        let one = LinkInterfaces::new(&links[..1], &all);
        assert!(!one.are_several());
        let any = link("udp", "0.0.0.0:51966", udp("0.0.0.0"));
        assert!(!LinkInterfaces::new(&[links[0].clone(), any], &all).are_several());
    }

    /// VLANs on one card have its Ethernet address, and the link-local address that follows from that.
    #[test]
    fn sockets_at_one_address_of_two_interfaces_are_told_apart_by_scope() {
        let vlan = |name: &str, index| Interface { index, ..card(name, "fe80::7") };
        let at = |scope: u32| {
            let ip = "fe80::7".parse().unwrap();
            LinkAddress::udp(std::net::SocketAddrV6::new(ip, 51_966, 0, scope).into())
        };
        let all = [vlan("a.1", 4), vlan("a.2", 5)];
        let links = [link("udp", "fe80::7", at(5)), link("udp", "fe80::7", at(4))];
        assert_eq!(LinkInterfaces::new(&links, &all).names(), ["a.2", "a.1"]);
    }
}
