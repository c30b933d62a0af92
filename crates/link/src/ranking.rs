//! Which of a machine's interfaces are meant when nobody names any: those that lead to other machines, best first. One ranking for all that
//! choose: nodes that look for links themselves, what faces offer, and `emp doctor`, which says why.

use std::fmt;
use std::io;
use std::net::IpAddr;

use crate::interfaces::{Interface, interfaces};
use crate::netlink::{LinkFacts, Tables};

/// How likely it is that an interface is meant; the first is the best. All that are of one class are taken for equal: they lead to the
/// same machines, as far as anyone can tell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Class {
    /// A card, real or emulated, or several that are bonded.
    Card,
    /// No card, but the job's launcher, or a default route, uses it; or a virtual cable like one of which that is so.
    Used,
    /// A bond, a team, or a bridge with a card among its ports.
    Joined,
    /// A VLAN.
    Vlan,
    /// One end of a virtual cable, or an address of its own on another interface.
    Cable,
    /// Something else that carries Ethernet frames, or IP.
    Other,
    /// This machine alone.
    Loopback,
    /// Leads to containers and virtual machines of this machine, or through a tunnel, or is a part of another interface: taken only by name.
    Aside,
}

/// An interface and its class.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// The interface.
    pub interface: Interface,
    /// How likely it is meant.
    pub class: Class,
    /// Why, for people: `a bridge without a card`.
    pub why: String,
}

impl fmt::Display for Ranked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.interface.name, self.why)
    }
}

/// The interfaces of the calling thread's network namespace, best first. `launcher`: addresses of this machine by which the launcher of
/// a job reaches it.
///
/// # Errors
///
/// The system does not list them. Where it does not say what kind they are, all are [`Class::Other`].
pub fn ranked(launcher: &[IpAddr]) -> io::Result<Vec<Ranked>> {
    let tables = Tables::read().unwrap_or_default();
    Ok(rank(interfaces()?, &tables, launcher))
}

fn rank(all: Vec<Interface>, tables: &Tables, launcher: &[IpAddr]) -> Vec<Ranked> {
    let mut ranked: Vec<_> = all
        .into_iter()
        .map(|interface| {
            let (class, why) = judge(&interface, tables, launcher);
            Ranked { interface, class, why }
        })
        .collect();
    // Those of one class stay in the kernel's order.
    ranked.sort_by_key(|ranked| ranked.class);
    join_cables(&mut ranked, tables);
    ranked
}

/// Where a machine is cabled to others by virtual cables, its launcher reaches it by one of them: the others lead to other machines as that one does.
/// Those that lead to no subnet are containers' ends.
fn join_cables(ranked: &mut [Ranked], tables: &Tables) {
    let is_cable = |one: &Ranked| {
        let facts = tables.links.iter().find(|link| link.index == one.interface.index);
        facts.and_then(|facts| facts.kind.as_deref()).is_some_and(|kind| CABLES.contains(&kind))
    };
    if !ranked.iter().any(|one| one.class == Class::Used && is_cable(one)) {
        return;
    }
    for one in ranked.iter_mut() {
        if one.class == Class::Cable && one.interface.leads_to_subnet() {
            (one.class, one.why) = (Class::Used, format!("{}, like one that is used", one.why));
        }
    }
    // They come behind those that are used themselves.
    ranked.sort_by_key(|ranked| ranked.class);
}

/// Kinds of interfaces, as what made them is called.
const BONDS: [&str; 2] = ["bond", "team"];
const BRIDGES: [&str; 2] = ["bridge", "openvswitch"];
const CABLES: [&str; 5] = ["veth", "macvlan", "ipvlan", "macvtap", "ipvtap"];
/// Whatever is sent by these leaves in packets by another interface.
const TUNNELS: [&str; 17] = [
    "tun",
    "wireguard",
    "vxlan",
    "geneve",
    "gre",
    "gretap",
    "erspan",
    "ip6gre",
    "ip6gretap",
    "ipip",
    "ip6tnl",
    "sit",
    "vti",
    "vti6",
    "xfrm",
    "ovpn",
    "amt",
];
/// What `ip link` calls a hardware that carries IP and no frames: point to point (PPP, 512), and none at all (65534).
const WITHOUT_FRAMES: [u16; 2] = [512, 65_534];

fn judge(interface: &Interface, tables: &Tables, launcher: &[IpAddr]) -> (Class, String) {
    if interface.loopback {
        return (Class::Loopback, "this machine itself".into());
    }
    let of = |index: u32| tables.links.iter().find(|link| link.index == index);
    let unknown = LinkFacts::default();
    let facts = of(interface.index).unwrap_or(&unknown);
    let kind = facts.kind.as_deref().unwrap_or_default();
    let is = |kinds: &[&str]| kinds.contains(&kind);
    let master = facts.master.and_then(of);
    let joins = |master: &&LinkFacts| {
        let kind = master.kind.as_deref().unwrap_or_default();
        BONDS.contains(&kind) || BRIDGES.contains(&kind)
    };
    if master.is_some_and(|master| joins(&master)) {
        let what = master.and_then(|master| master.kind.as_deref()).unwrap_or_default();
        return (Class::Aside, format!("a port of a {what}"));
    }
    if facts.is_device {
        return (Class::Card, "a card".into());
    }
    let has_card =
        tables.links.iter().any(|port| port.is_device && port.master == Some(interface.index));
    if is(&BONDS) && has_card {
        return (Class::Card, format!("a {kind} of cards"));
    }
    if interface.addresses.iter().any(|ip| launcher.contains(ip)) {
        return (Class::Used, "the job's launcher uses its address".into());
    }
    // Not what a default route leads by: with a VPN that takes all traffic, a job's hosts are still beside this one.
    if is(&TUNNELS) || WITHOUT_FRAMES.contains(&facts.hardware) {
        let what = if kind.is_empty() { "IP without frames" } else { kind };
        return (Class::Aside, format!("a tunnel ({what})"));
    }
    if is(&BRIDGES) && !has_card {
        return (Class::Aside, "a bridge without a card".into());
    }
    if tables.default_routes.contains(&interface.index) {
        return (Class::Used, "a default route leads by it".into());
    }
    match kind {
        _ if is(&BONDS) || is(&BRIDGES) => (Class::Joined, format!("a {kind}")),
        "vlan" => (Class::Vlan, "a VLAN".into()),
        _ if is(&CABLES) => (Class::Cable, format!("a virtual cable ({kind})")),
        "" => (Class::Other, "of no kind that the kernel names".into()),
        _ => (Class::Other, format!("a virtual interface ({kind})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine {
        all: Vec<Interface>,
        tables: Tables,
    }

    impl Machine {
        fn new() -> Self {
            Self { all: Vec::new(), tables: Tables::default() }.with("lo", "", None)
        }

        /// One more interface; its kind, `card` for one with a device behind it; and the number of what it is a port of.
        fn with(mut self, name: &str, kind: &str, master: Option<u32>) -> Self {
            let index = self.all.len() as u32 + 1;
            let loopback = name == "lo";
            let address = IpAddr::from([10, 0, index as u8, 1]);
            let (name, addresses, prefixes) = (name.into(), vec![address], vec![24]);
            let interface = Interface { name, index, loopback, addresses, ..Interface::default() };
            self.all.push(Interface { prefixes, ..interface });
            let hardware = if kind == "tun" { 65_534 } else { 1 };
            let is_device = kind == "card";
            let kind = Some(kind.to_owned()).filter(|kind| !is_device && !kind.is_empty());
            self.tables.links.push(LinkFacts { index, kind, hardware, master, is_device });
            self
        }

        /// A default route by the last one.
        fn routed(mut self) -> Self {
            self.tables.default_routes.push(self.all.len() as u32);
            self
        }

        fn best(&self, launcher: &[IpAddr]) -> Vec<String> {
            let ranked = rank(self.all.clone(), &self.tables, launcher);
            let best = ranked[0].class;
            let names = ranked.into_iter().filter(|one| one.class == best);
            names.map(|one| one.interface.name).collect()
        }
    }

    #[test]
    fn the_network_comes_before_what_containers_and_tunnels_use() {
        let container = Machine::new().with("docker0", "bridge", None).with("tun9", "tun", None);
        let container = container.with("eth0", "veth", None).routed();
        assert_eq!(container.best(&[]), ["eth0"]);
        // Without a default route it is still no bridge.
        let plain = Machine::new().with("virbr0", "bridge", None).with("wg0", "wireguard", None);
        assert_eq!(plain.best(&[]), ["lo"], "alone never");
        let plain =
            plain.with("vnet0", "tun", Some(2)).with("a", "veth", None).with("b", "veth", None);
        assert_eq!(plain.best(&[]), ["a", "b"]);
        // A VPN that has all traffic.
        let vpn = Machine::new().with("tun0", "tun", None).routed().with("eth0", "card", None);
        assert_eq!(vpn.best(&[]), ["eth0"]);
    }

    #[test]
    fn cards_are_equal_and_so_are_bonds_of_them() {
        let cluster = Machine::new().with("eno1", "card", None).routed().with("ib", "card", None);
        assert_eq!(cluster.best(&[]), ["eno1", "ib"]);
        let bonded = Machine::new().with("bond0", "bond", None).with("eth0", "card", Some(2));
        let bonded = bonded.with("eth1", "card", Some(2)).with("eth2", "card", None);
        assert_eq!(bonded.best(&[]), ["bond0", "eth2"]);
        let bridged = Machine::new().with("docker0", "bridge", None).with("br0", "bridge", None);
        let bridged = bridged.with("eth0", "card", Some(3)).with("br0.7", "vlan", None);
        assert_eq!(bridged.best(&[]), ["br0"]);
    }

    #[test]
    fn where_there_are_no_cards_what_the_launcher_uses_comes_first() {
        let wireguard = Machine::new().with("eth0", "veth", None).with("wg0", "wireguard", None);
        assert_eq!(wireguard.best(&[]), ["eth0"]);
        assert_eq!(wireguard.best(&[[10, 0, 3, 1].into()]), ["wg0"]);
        let kinds = Machine::new().with("c", "veth", None).with("v", "vlan", None);
        let kinds = kinds.with("d", "dummy", None).with("b", "bond", None);
        let order = rank(kinds.all.clone(), &kinds.tables, &[]);
        let order: Vec<_> = order.iter().map(|one| &*one.interface.name).collect();
        assert_eq!(order, ["b", "v", "c", "d", "lo"]);
    }

    /// A ring of hosts: whichever cable the launcher uses, all are.
    #[test]
    fn cables_are_used_together() {
        let ring = Machine::new().with("emp0", "veth", None).with("emp1", "veth", None);
        assert_eq!(ring.best(&[]), ["emp0", "emp1"]);
        assert_eq!(ring.best(&[[10, 0, 3, 1].into()]), ["emp1", "emp0"]);
        // The ends of containers have no subnet.
        let mut containers = Machine::new().with("eth0", "veth", None).routed();
        containers = containers.with("cali1", "veth", None).with("veth2", "veth", None);
        containers.all[2].addresses.clear();
        containers.all[3].prefixes = vec![32];
        assert_eq!(containers.best(&[]), ["eth0"]);
        // What is used and no cable is alone.
        let vlan = Machine::new().with("v", "vlan", None).routed().with("c", "veth", None);
        assert_eq!(vlan.best(&[]), ["v"]);
    }

    #[test]
    fn this_machine_is_ranked() {
        let all = ranked(&[]).expect("anyone may ask");
        assert!(all.iter().any(|one| one.class == Class::Loopback));
        assert!(all.windows(2).all(|two| two[0].class <= two[1].class));
    }
}
