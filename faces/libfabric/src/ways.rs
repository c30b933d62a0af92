//! The ways out of this machine: which interface by which kind of link, best first.

use std::net::IpAddr;
use std::path::Path;

use emp_link::{Interface, interfaces};

use crate::core;
use crate::params::{LinkWish, Parameters};

/// The kind of link that frames to other machines take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Raw Ethernet frames.
    Packet,
    /// Datagrams.
    Udp,
}

/// A way out: what one `fi_info` stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Way {
    pub kind: Kind,
    pub interface: Interface,
}

impl Way {
    /// The name of the libfabric domain.
    pub fn domain_name(&self) -> String {
        match self.kind {
            Kind::Packet => self.interface.name.clone(),
            Kind::Udp => format!("{}-udp", self.interface.name),
        }
    }

    /// The address that datagrams are taken at: an IPv4 one rather than IPv6, none that is valid on one link only.
    pub fn ip(&self) -> Option<IpAddr> {
        usable_ip(&self.interface)
    }
}

fn usable_ip(interface: &Interface) -> Option<IpAddr> {
    let usable = |ip: &&IpAddr| match ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(ip) => !ip.is_unicast_link_local(),
    };
    interface.addresses.iter().filter(usable).min_by_key(|ip| ip.is_ipv6()).copied()
}

/// All ways that the user's wishes allow. Empty: there is none.
pub fn ways(parameters: &Parameters) -> Vec<Way> {
    match interfaces() {
        Ok(all) => choose(all, parameters, may_open_packet_sockets(), is_card),
        Err(error) => {
            core::warn(&format!("the network interfaces cannot be listed: {error}"));
            Vec::new()
        }
    }
}

fn choose(
    mut all: Vec<Interface>,
    parameters: &Parameters,
    packet: bool,
    is_card: impl Fn(&Interface) -> bool,
) -> Vec<Way> {
    let wanted = |interface: &Interface| {
        parameters.interfaces.iter().position(|name| *name == interface.name)
    };
    if !parameters.interfaces.is_empty() {
        all.retain(|interface| wanted(interface).is_some());
    }
    // Cards before bridges and tunnels, which lead to containers more often than to machines.
    all.sort_by_key(|interface| (wanted(interface), interface.loopback, !is_card(interface)));
    let mut ways = Vec::new();
    if packet && parameters.link != LinkWish::Udp {
        let usable = all.iter().filter(|interface| interface.usable_for_packet());
        ways.extend(
            usable.map(|interface| Way { kind: Kind::Packet, interface: interface.clone() }),
        );
    }
    if parameters.link != LinkWish::Packet {
        let usable = all.iter().filter(|interface| {
            interface.up && interface.running && usable_ip(interface).is_some()
        });
        ways.extend(usable.map(|interface| Way { kind: Kind::Udp, interface: interface.clone() }));
    }
    ways
}

/// True if there is a device behind an interface. In a container there may be none at all; then all are equal.
fn is_card(interface: &Interface) -> bool {
    Path::new("/sys/class/net").join(&interface.name).join("device").exists()
}

/// True if this process has the privilege for raw frames.
fn may_open_packet_sockets() -> bool {
    // SAFETY: opens a socket that takes no frames (protocol 0), and closes it.
    unsafe {
        let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        socket >= 0 && libc::close(socket) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use emp_host::Profile;
    use std::time::Duration;

    fn parameters(link: LinkWish, interfaces: &[&str]) -> Parameters {
        let interfaces = interfaces.iter().map(ToString::to_string).collect();
        let linger = Duration::ZERO;
        Parameters { link, interfaces, profile: Profile::DEFAULT, fault: None, linger }
    }

    fn interface(name: &str, loopback: bool, address: Option<&str>) -> Interface {
        Interface {
            name: name.into(),
            index: 1,
            mtu: 1500,
            mac: Some([0; 6]),
            up: true,
            running: true,
            loopback,
            addresses: address.map(|ip| ip.parse().unwrap()).into_iter().collect(),
        }
    }

    fn names(parameters: &Parameters, packet: bool) -> Vec<String> {
        let all = vec![
            interface("lo", true, Some("127.0.0.1")),
            interface("br0", false, Some("10.0.0.1")),
            interface("eth0", false, Some("10.0.1.1")),
            interface("eth1", false, Some("fe80::1")),
        ];
        let ways = choose(all, parameters, packet, |interface| interface.name.starts_with("eth"));
        ways.iter().map(Way::domain_name).collect()
    }

    #[test]
    fn raw_frames_on_cards_come_first() {
        let auto = parameters(LinkWish::Auto, &[]);
        let all = ["eth0", "eth1", "br0", "eth0-udp", "br0-udp", "lo-udp"];
        assert_eq!(names(&auto, true), all);
        assert_eq!(names(&auto, false), all[3..]);
    }

    #[test]
    fn wishes_are_kept() {
        assert_eq!(names(&parameters(LinkWish::Packet, &[]), true), ["eth0", "eth1", "br0"]);
        assert_eq!(names(&parameters(LinkWish::Udp, &["br0"]), true), ["br0-udp"]);
        let both = parameters(LinkWish::Packet, &["br0", "eth0"]);
        assert_eq!(names(&both, true), ["br0", "eth0"]);
        assert!(names(&parameters(LinkWish::Packet, &[]), false).is_empty());
    }
}
