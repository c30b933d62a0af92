//! What a lab looks like before anything is made: hosts, switches, cables, addresses; `routes` adds how hosts reach those that they
//! have no cable to.
//!
//! Pure: the same request always gives the same plan, and no privilege is needed to make one.

use std::net::Ipv4Addr;

use emp_host::limits::INTERFACES_MAX;
use serde::{Deserialize, Serialize};

use super::ports::Ports;
use crate::bail_user;

/// Most hosts a lab may have. A mesh of 32 is 496 cables, which takes the kernel seconds to make;
/// more says nothing new about a protocol and outgrows the address plan.
pub const MAX_HOSTS: usize = 32;

/// Most cables of a lab: those of the largest mesh. Their subnets of four addresses end before those of switches begin.
pub const MAX_CABLES: usize = MAX_HOSTS * (MAX_HOSTS - 1) / 2;

/// Most switches of a lab: more than hosts to hang on them would be idle.
pub const MAX_SWITCHES: usize = 32;

/// Bytes. The least every IPv4 host takes; below it fragmentation hides what is measured.
pub const MIN_MTU: u32 = 576;

/// Bytes. The most a veth pair carries (the 16-bit length of an IP packet).
pub const MAX_MTU: u32 = 65535;

/// How the hosts are cabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// Two hosts, one cable.
    Link,
    /// Every host on one switch (a bridge in a namespace of its own).
    Switch,
    /// Every host cabled to the next.
    Line,
    /// Every host cabled to the next, the last to the first.
    Ring,
    /// Every host cabled to every other.
    Mesh,
    /// As a file says.
    File,
}

impl Topology {
    /// Those that have a name on the command line.
    pub const NAMED: [(&'static str, Self); 5] = [
        ("link", Self::Link),
        ("line", Self::Line),
        ("ring", Self::Ring),
        ("mesh", Self::Mesh),
        ("switch", Self::Switch),
    ];
}

/// Where a cable may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// At the host with this index.
    Host(usize),
    /// At a switch. All are in one namespace, and so is the patch panel.
    Switch,
}

/// One end of a cable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Whose end it is.
    pub place: Place,
    /// The interface's name there.
    pub interface: String,
    /// Of a switch: which.
    #[serde(default)]
    pub switch: usize,
}

impl End {
    /// The panel's interface that is joined with this end, of cables by the panel.
    pub fn panel_port(&self) -> String {
        match self.place {
            Place::Host(host) => format!("h{host}{}", self.interface),
            Place::Switch => format!("s{}", self.interface),
        }
    }
}

/// One of a cable's two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Its first end.
    Near,
    /// Its second.
    Far,
}

/// A cable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cable {
    /// Where it begins.
    pub near: End,
    /// Where it ends.
    pub far: End,
    /// Of the interfaces at both ends, in bytes.
    pub mtu: u32,
    /// What it does both ways, if it is slower than the machine.
    pub limit: Option<Ports>,
    /// It is no veth pair but goes by the patch panel, by a bridge of this number: two pairs, which lose their carrier at both ends when
    /// the cable is pulled, and can have a rate.
    pub panel: Option<usize>,
    /// The side whose plug is out.
    pub pulled: Option<Side>,
}

impl Cable {
    /// The end at a side.
    pub fn end(&self, side: Side) -> &End {
        match side {
            Side::Near => &self.near,
            Side::Far => &self.far,
        }
    }

    /// The end at a side, to be changed.
    pub fn end_mut(&mut self, side: Side) -> &mut End {
        match side {
            Side::Near => &mut self.near,
            Side::Far => &mut self.far,
        }
    }

    /// Both ends.
    pub fn ends(&self) -> [&End; 2] {
        [&self.near, &self.far]
    }
}

/// A network interface of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// `emp0`, `emp1`, … in each host.
    pub name: String,
    /// Its own address; none where no cable is, as addresses go with the cables.
    pub address: Option<Ipv4Addr>,
    /// How many bits of the address name its subnet.
    pub prefix: u8,
    /// Bytes.
    pub mtu: u32,
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
    /// `emp-a` … `emp-z`, then `emp-h27`, …; a file may give others.
    pub name: String,
    /// The one address the lab's names resolve to. On a link or a switch it is the interface's
    /// own; else it stays on `lo` and routes lead to it, so that a host has one
    /// address however many cables it has.
    pub address: Ipv4Addr,
    /// In the order of the cables.
    pub interfaces: Vec<Interface>,
    /// Empty where everybody is on one subnet.
    pub routes: Vec<Route>,
}

impl Host {
    /// The name that a further interface has: the smallest number that is free.
    pub fn next_interface(&self) -> String {
        let names = (0..).map(|number| format!("emp{number}"));
        let mut free = names.filter(|name| self.interfaces.iter().all(|one| one.name != *name));
        free.next().unwrap_or_default()
    }
}

/// A whole lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// How the hosts are cabled.
    pub topology: Topology,
    /// Of every interface that is not told another, in bytes.
    pub mtu: u32,
    /// In order.
    pub hosts: Vec<Host>,
    /// Names of the switches, in order.
    #[serde(default)]
    pub switches: Vec<String>,
    /// In order.
    pub cables: Vec<Cable>,
    /// Rate and queue of the switch's ports, if they have such.
    #[serde(default)]
    pub ports: Option<Ports>,
    /// Whether hosts' kernels forward and have routes to those that they have no cable to.
    #[serde(default)]
    pub routed: bool,
}

impl Plan {
    /// Lays out a lab, or says why there cannot be one.
    pub fn new(hosts: usize, topology: Topology, mtu: u32) -> anyhow::Result<Self> {
        check(hosts, topology, mtu)?;
        let mut plan = Self::bare(topology, mtu);
        plan.hosts = (0..hosts).map(bare_host).collect();
        match topology {
            Topology::Link => plan.cable_on_one_subnet(0, 1),
            Topology::Switch => {
                plan.switches.push("sw".to_owned());
                (0..hosts).for_each(|host| plan.cable_to_only_switch(host));
            }
            Topology::Line => (1..hosts).for_each(|host| plan.cable(host - 1, host)),
            Topology::Ring => (0..hosts).for_each(|host| plan.cable(host, (host + 1) % hosts)),
            Topology::Mesh => {
                (0..hosts).for_each(|a| (a + 1..hosts).for_each(|b| plan.cable(a, b)));
            }
            // `super::topology` adds what its file says.
            Topology::File => {}
        }
        plan.set_routes();
        Ok(plan)
    }

    /// One without hosts.
    pub fn bare(topology: Topology, mtu: u32) -> Self {
        let (hosts, switches, cables) = (Vec::new(), Vec::new(), Vec::new());
        Self { topology, mtu, hosts, switches, cables, ports: None, routed: true }
    }

    /// The same at a rate and with a queue: of the switch's ports towards the hosts, where that is all there is, else of every cable
    /// both ways that has none of its own.
    pub fn with_ports(mut self, ports: Ports) -> anyhow::Result<Self> {
        match self.topology {
            Topology::Switch => self.ports = Some(ports),
            Topology::Link => {
                bail_user!(
                    "a link lab's cable has no rate: add --topology line, ring, mesh or switch"
                )
            }
            _ => {
                for cable in self.cables.iter_mut().filter(|cable| cable.limit.is_none()) {
                    cable.limit = Some(ports);
                }
                self.patch(|cable| cable.limit.is_some());
            }
        }
        Ok(self)
    }

    /// The same with every cable by the patch panel.
    pub fn with_panel(mut self) -> Self {
        self.patch(|_| true);
        self
    }

    /// The same with hosts that know their neighbours only.
    pub fn without_routes(mut self) -> Self {
        self.routed = false;
        self.set_routes();
        self
    }

    /// Puts cables on the panel that are wanted there and are not.
    pub fn patch(&mut self, wanted: impl Fn(&Cable) -> bool) {
        for (number, cable) in self.cables.iter_mut().enumerate() {
            if wanted(cable) {
                cable.panel = Some(number);
            }
        }
    }

    /// The switch's ports with the hosts that they lead to.
    pub fn switch_ports(&self) -> impl Iterator<Item = (usize, &str)> {
        self.cables.iter().filter_map(|cable| match (cable.near.place, cable.far.place) {
            (Place::Host(host), Place::Switch) => Some((host, cable.far.interface.as_str())),
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
        !matches!(self.topology, Topology::Link | Topology::Switch)
    }

    /// A warning about hosts with more cables than a node takes: whoever is at the others is not found by them, nor by relays there.
    pub fn crowded(&self) -> Option<String> {
        let is_crowded = |host: &&Host| host.interfaces.len() > INTERFACES_MAX;
        let names: Vec<_> =
            self.hosts.iter().filter(is_crowded).map(|host| host.name.as_str()).collect();
        let shown = match names.as_slice() {
            [] => return None,
            [one] => format!("{one} has"),
            [first, .., last] => format!("{} hosts ({first} to {last}) have", names.len()),
        };
        Some(format!(
            "{shown} more than {INTERFACES_MAX} cables, and an EMP node or relay uses {INTERFACES_MAX} interfaces at most: \
             it finds nobody by the others, unless EMP_INTERFACES names those (a mesh of {} hosts has as many as it uses)",
            INTERFACES_MAX + 1
        ))
    }

    /// Everywhere a namespace is needed.
    pub fn places(&self) -> Vec<Place> {
        let patched = self.cables.iter().any(|cable| cable.panel.is_some());
        let switch = (patched || !self.switches.is_empty()).then_some(Place::Switch);
        (0..self.hosts.len()).map(Place::Host).chain(switch).collect()
    }

    /// The host that `text` means: its name, its index from 0, or one of its addresses.
    pub fn find(&self, text: &str) -> Option<usize> {
        let index = text.parse::<usize>().ok().filter(|index| *index < self.hosts.len());
        let address = text.parse::<Ipv4Addr>().ok();
        index.or_else(|| {
            self.hosts.iter().position(|host| {
                host.name == text
                    || address.is_some()
                        && (Some(host.address) == address
                            || host.interfaces.iter().any(|i| i.address == address))
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

    /// The name of an end, as people write it.
    pub fn name_of(&self, end: &End) -> String {
        match end.place {
            Place::Host(host) => format!("{}:{}", self.hosts[host].name, end.interface),
            Place::Switch => {
                let name = self.switches.get(end.switch).map_or("sw", String::as_str);
                format!("{name}:{}", end.interface)
            }
        }
    }

    /// The interface at a host's end of a cable.
    pub fn interface(&self, end: &End) -> Option<&Interface> {
        let Place::Host(host) = end.place else { return None };
        self.hosts[host].interfaces.iter().find(|interface| interface.name == end.interface)
    }

    /// The same, to be changed.
    pub fn interface_mut(&mut self, end: &End) -> Option<&mut Interface> {
        let Place::Host(host) = end.place else { return None };
        self.hosts[host].interfaces.iter_mut().find(|one| one.name == end.interface)
    }

    /// Adds an interface to a host.
    pub fn new_interface(
        &mut self,
        host: usize,
        address: Option<Ipv4Addr>,
        prefix: u8,
        mtu: u32,
    ) -> End {
        let name = self.hosts[host].next_interface();
        self.hosts[host].interfaces.push(Interface { name: name.clone(), address, prefix, mtu });
        End { place: Place::Host(host), interface: name, switch: 0 }
    }

    /// The port of a switch at which the next cable ends; `mark` tells two of one cable apart.
    pub fn next_port(&self, switch: usize, mark: &str) -> End {
        let interface = format!("port{}{mark}", self.cables.len());
        End { place: Place::Switch, interface, switch }
    }

    /// Adds a cable between two ends that are there.
    pub fn join(&mut self, near: End, far: End, mtu: u32, limit: Option<Ports>) {
        let panel = limit.map(|_| self.cables.len());
        self.cables.push(Cable { near, far, mtu, limit, panel, pulled: None });
    }

    /// The first address of the next cable's subnet: 10.77.1.0/30, 10.77.1.4/30, ….
    pub fn cable_subnet(&self) -> u32 {
        u32::from(Ipv4Addr::new(10, 77, 1, 0)) + 4 * self.cables.len() as u32
    }

    fn cable_on_one_subnet(&mut self, a: usize, b: usize) {
        let [near, far] = [a, b].map(|host| {
            let address = self.hosts[host].address;
            self.new_interface(host, Some(address), 24, self.mtu)
        });
        self.join(near, far, self.mtu, None);
    }

    fn cable_to_only_switch(&mut self, host: usize) {
        let end = self.new_interface(host, Some(self.hosts[host].address), 24, self.mtu);
        let port = self.next_port(0, "");
        self.join(end, port, self.mtu, None);
    }

    /// A cable with a subnet of its own.
    fn cable(&mut self, a: usize, b: usize) {
        let base = self.cable_subnet();
        let near = self.new_interface(a, Some(Ipv4Addr::from(base + 1)), 30, self.mtu);
        let far = self.new_interface(b, Some(Ipv4Addr::from(base + 2)), 30, self.mtu);
        self.join(near, far, self.mtu, None);
    }
}

/// Checks an MTU given by the user.
pub fn check_mtu(mtu: u32) -> anyhow::Result<()> {
    if !(MIN_MTU..=MAX_MTU).contains(&mtu) {
        bail_user!("an MTU of {mtu} is not possible here; choose {MIN_MTU} to {MAX_MTU}");
    }
    Ok(())
}

fn check(hosts: usize, topology: Topology, mtu: u32) -> anyhow::Result<()> {
    let (least, most) = match topology {
        Topology::Link => (2, 2),
        Topology::Switch | Topology::Mesh | Topology::Line => (2, MAX_HOSTS),
        // Two hosts would be joined by two cables, which is a trunk and not a ring.
        Topology::Ring => (3, MAX_HOSTS),
        Topology::File => (0, MAX_HOSTS),
    };
    if hosts < least || hosts > most {
        let name = format!("{topology:?}").to_lowercase();
        let allowed = if least == most { format!("{least}") } else { format!("{least} to {most}") };
        bail_user!("a {name} lab has {allowed} hosts, not {hosts}");
    }
    check_mtu(mtu)
}

fn bare_host(index: usize) -> Host {
    let name = match u8::try_from(index) {
        Ok(letter) if letter < 26 => format!("emp-{}", char::from(b'a' + letter)),
        _ => format!("emp-h{}", index + 1),
    };
    named_host(index, name)
}

/// A host without cables. The index is under [`MAX_HOSTS`], so that the last byte does not wrap.
pub fn named_host(index: usize, name: String) -> Host {
    let address = Ipv4Addr::new(10, 77, 0, index as u8 + 1);
    Host { name, address, interfaces: Vec::new(), routes: Vec::new() }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
