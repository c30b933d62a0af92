//! What a lab looks like before anything is made: hosts, links, addresses, routes.
//!
//! Pure: the same request always gives the same plan, and no privilege is needed to make one.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::ports::Ports;
use crate::bail_user;

/// Most hosts a lab may have. A mesh of 32 is 496 cables, which takes the kernel seconds to make;
/// more says nothing new about a protocol and outgrows the address plan.
pub const MAX_HOSTS: usize = 32;

/// Bytes. The least every IPv4 host takes; below it fragmentation hides what is measured.
pub const MIN_MTU: u32 = 576;

/// Bytes. The most a veth pair carries (the 16-bit length of an IP packet).
pub const MAX_MTU: u32 = 65535;

/// How the hosts are cabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// Two hosts, one cable.
    Link,
    /// Every host on one switch (a bridge in a namespace of its own).
    Switch,
    /// Every host cabled to the next, the last to the first.
    Ring,
    /// Every host cabled to every other.
    Mesh,
}

/// Where a cable may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// At the host with this index.
    Host(usize),
    /// At the switch.
    Switch,
}

/// One end of a cable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Whose end it is.
    pub place: Place,
    /// The interface's name there.
    pub interface: String,
}

/// A network interface of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// `emp0`, `emp1`, … in each host.
    pub name: String,
    /// Its own address.
    pub address: Ipv4Addr,
    /// How many bits of the address name its subnet.
    pub prefix: u8,
}

/// How another host's stable address, or a cable between others, is reached. Cables too, because
/// programs tell each other whichever address they find on an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// A stable address, or the subnet of a cable.
    pub to: Ipv4Addr,
    /// How many bits of `to` count.
    pub prefix: u8,
    /// The neighbour's address on the cable to take.
    pub via: Ipv4Addr,
}

/// A host of the lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// `emp-a` … `emp-z`, then `emp-h27`, ….
    pub name: String,
    /// The one address the lab's names resolve to. On a link or a switch it is the interface's
    /// own; in a ring or a mesh it stays on `lo` and routes lead to it, so that a host has one
    /// address however many cables it has.
    pub address: Ipv4Addr,
    /// In the order of the cables.
    pub interfaces: Vec<Interface>,
    /// Empty where everybody is on one subnet.
    pub routes: Vec<Route>,
}

/// A whole lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// How the hosts are cabled.
    pub topology: Topology,
    /// Of every interface, in bytes.
    pub mtu: u32,
    /// In order.
    pub hosts: Vec<Host>,
    /// Each a veth pair.
    pub cables: Vec<(End, End)>,
    /// Rate and queue of the switch's ports, if they have such.
    #[serde(default)]
    pub ports: Option<Ports>,
}

/// A way to another host.
#[derive(Clone, Copy)]
struct Way {
    /// The address of the first hop.
    via: Ipv4Addr,
    /// Cables on the way.
    hops: usize,
}

impl Plan {
    /// Lays out a lab, or says why there cannot be one.
    pub fn new(hosts: usize, topology: Topology, mtu: u32) -> anyhow::Result<Self> {
        check(hosts, topology, mtu)?;
        let mut plan = Self {
            topology,
            mtu,
            hosts: (0..hosts).map(bare_host).collect(),
            cables: Vec::with_capacity(hosts),
            ports: None,
        };
        match topology {
            Topology::Link => plan.cable_on_one_subnet(0, 1),
            Topology::Switch => (0..hosts).for_each(|host| plan.cable_to_switch(host)),
            Topology::Ring => (0..hosts).for_each(|host| plan.cable(host, (host + 1) % hosts)),
            Topology::Mesh => {
                (0..hosts).for_each(|a| (a + 1..hosts).for_each(|b| plan.cable(a, b)));
            }
        }
        if plan.has_stable_addresses() {
            (0..hosts).for_each(|host| plan.hosts[host].routes = plan.routes_from(host));
        }
        Ok(plan)
    }

    /// The same with ports that have a rate and a queue.
    pub fn with_ports(self, ports: Ports) -> anyhow::Result<Self> {
        if self.topology != Topology::Switch {
            bail_user!("only a switch has ports with a rate: add --topology switch");
        }
        Ok(Self { ports: Some(ports), ..self })
    }

    /// The switch's ports with the hosts that they lead to.
    pub fn switch_ports(&self) -> impl Iterator<Item = (usize, &str)> {
        self.cables.iter().filter_map(|(near, far)| match (near.place, far.place) {
            (Place::Host(host), Place::Switch) => Some((host, far.interface.as_str())),
            _ => None,
        })
    }

    /// The same with one more cable between the first two hosts, with a subnet of its own. Nobody is routed over it.
    pub fn with_spare_cable(mut self) -> Self {
        self.cable(0, 1);
        self
    }

    /// Whether a host's address is on `lo`, apart from its interfaces' addresses.
    pub fn has_stable_addresses(&self) -> bool {
        matches!(self.topology, Topology::Ring | Topology::Mesh)
    }

    /// Everywhere a namespace is needed.
    pub fn places(&self) -> Vec<Place> {
        let switch = (self.topology == Topology::Switch).then_some(Place::Switch);
        (0..self.hosts.len()).map(Place::Host).chain(switch).collect()
    }

    /// The host that `text` means: its name, its index from 0, or one of its addresses.
    pub fn find(&self, text: &str) -> Option<usize> {
        let index = text.parse::<usize>().ok().filter(|index| *index < self.hosts.len());
        let address = text.parse::<Ipv4Addr>().ok();
        index.or_else(|| {
            self.hosts.iter().position(|host| {
                host.name == text
                    || Some(host.address) == address
                    || host.interfaces.iter().any(|i| Some(i.address) == address)
            })
        })
    }

    /// What `/etc/hosts` holds inside every host.
    pub fn hosts_file(&self) -> String {
        let mut text = String::from("127.0.0.1\tlocalhost\n::1\tlocalhost\n");
        for host in &self.hosts {
            text += &format!("{}\t{}\n", host.address, host.name);
        }
        text
    }

    fn new_interface(&mut self, host: usize, address: Ipv4Addr, prefix: u8) -> End {
        let interfaces = &mut self.hosts[host].interfaces;
        let name = format!("emp{}", interfaces.len());
        interfaces.push(Interface { name: name.clone(), address, prefix });
        End { place: Place::Host(host), interface: name }
    }

    fn cable_on_one_subnet(&mut self, a: usize, b: usize) {
        let ends = [a, b].map(|host| self.new_interface(host, self.hosts[host].address, 24));
        self.cables.push(ends.into());
    }

    fn cable_to_switch(&mut self, host: usize) {
        let end = self.new_interface(host, self.hosts[host].address, 24);
        let port = End { place: Place::Switch, interface: format!("port{host}") };
        self.cables.push((end, port));
    }

    /// A cable with a subnet of its own: 10.77.1.0/30, 10.77.1.4/30, ….
    fn cable(&mut self, a: usize, b: usize) {
        let base = u32::from(Ipv4Addr::new(10, 77, 1, 0)) + 4 * self.cables.len() as u32;
        let end_a = self.new_interface(a, Ipv4Addr::from(base + 1), 30);
        let end_b = self.new_interface(b, Ipv4Addr::from(base + 2), 30);
        self.cables.push((end_a, end_b));
    }

    /// Shortest ways from one host to everything it has no cable to.
    fn routes_from(&self, start: usize) -> Vec<Route> {
        let ways = self.ways_from(start);
        let hosts = self.hosts.iter().zip(&ways).filter_map(|(host, way)| {
            way.map(|way| Route { to: host.address, prefix: 32, via: way.via })
        });
        let cables = self.cables.iter().filter_map(|(a, b)| {
            let (Place::Host(a_host), Place::Host(b_host)) = (a.place, b.place) else {
                return None;
            };
            // An end without a way is our own: then the kernel knows the subnet already.
            let (a_way, b_way) = (ways[a_host]?, ways[b_host]?);
            let nearer = if a_way.hops <= b_way.hops { a_way } else { b_way };
            let end = self.interface(a)?;
            let subnet = u32::from(end.address) & (u32::MAX << (32 - end.prefix));
            Some(Route { to: subnet.into(), prefix: end.prefix, via: nearer.via })
        });
        hosts.chain(cables).collect()
    }

    /// For each other host the shortest way there, found cable by cable.
    fn ways_from(&self, start: usize) -> Vec<Option<Way>> {
        let mut ways: Vec<Option<Way>> = vec![None; self.hosts.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            for (next, address) in self.neighbours(at) {
                if next != start && ways[next].is_none() {
                    let (via, hops) = ways[at].map_or((address, 0), |way| (way.via, way.hops));
                    ways[next] = Some(Way { via, hops: hops + 1 });
                    queue.push_back(next);
                }
            }
        }
        ways
    }

    /// The hosts one cable away, each with its address on that cable.
    fn neighbours(&self, host: usize) -> impl Iterator<Item = (usize, Ipv4Addr)> {
        let directions = self.cables.iter().flat_map(|(a, b)| [(a, b), (b, a)]);
        directions.filter_map(move |(near, far)| match far.place {
            Place::Host(other) if near.place == Place::Host(host) => {
                Some((other, self.interface(far)?.address))
            }
            _ => None,
        })
    }

    /// The interface at a host's end of a cable.
    fn interface(&self, end: &End) -> Option<&Interface> {
        let Place::Host(host) = end.place else { return None };
        self.hosts[host].interfaces.iter().find(|interface| interface.name == end.interface)
    }
}

fn check(hosts: usize, topology: Topology, mtu: u32) -> anyhow::Result<()> {
    let (least, most) = match topology {
        Topology::Link => (2, 2),
        Topology::Switch | Topology::Mesh => (2, MAX_HOSTS),
        // Two hosts would be joined by two cables, which is a trunk and not a ring.
        Topology::Ring => (3, MAX_HOSTS),
    };
    if hosts < least || hosts > most {
        let name = format!("{topology:?}").to_lowercase();
        let allowed = if least == most { format!("{least}") } else { format!("{least} to {most}") };
        bail_user!("a {name} lab has {allowed} hosts, not {hosts}");
    }
    if !(MIN_MTU..=MAX_MTU).contains(&mtu) {
        bail_user!("an MTU of {mtu} is not possible here; choose {MIN_MTU} to {MAX_MTU}");
    }
    Ok(())
}

fn bare_host(index: usize) -> Host {
    let name = match u8::try_from(index) {
        Ok(letter) if letter < 26 => format!("emp-{}", char::from(b'a' + letter)),
        _ => format!("emp-h{}", index + 1),
    };
    // `check` keeps the index under MAX_HOSTS, so the last byte does not wrap.
    let address = Ipv4Addr::new(10, 77, 0, index as u8 + 1);
    Host { name, address, interfaces: Vec::new(), routes: Vec::new() }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
