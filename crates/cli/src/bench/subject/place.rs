//! Where an end of a benchmark is, and so which links it may use to the other end.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use emp_link::{Interface, interfaces, service};
use serde::{Deserialize, Serialize};

use super::route;
use crate::bench::congestion;
use crate::bench::job::LinkChoice;
use crate::{bail_user, process};

/// Where an end of a benchmark is.
#[derive(Clone, Debug)]
pub struct Place {
    /// This end's address.
    pub own: IpAddr,
    /// The other end's.
    pub peer: IpAddr,
    /// The interface between them.
    pub interface: Interface,
    /// Other interfaces that EMP uses together with it.
    pub together: Vec<Interface>,
    /// Other interfaces between them.
    pub spares: Vec<Interface>,
    /// MTU to use instead of the interface's.
    pub mtu: Option<usize>,
    /// The neighbour that the way to the other end leads to, if it is not on a subnet of this end's.
    next_hop: Option<IpAddr>,
    /// The interface is a spare one.
    is_aside: bool,
    /// Why raw frames would not do although this end could send them: known once the ends have met.
    between: Option<String>,
    /// EMP's raw frames leave at both ends, by services if not by their own privilege: likewise.
    carries_emp: bool,
    /// The two have no cable in common, and both could send raw frames: those are for relays.
    is_behind: bool,
}

/// The other end's address with the interface that leads there: a link-local address means nothing without it.
#[derive(Clone, Copy, Debug)]
pub struct Neighbour {
    ip: IpAddr,
    interface: u32,
    /// It is reached through relays, if by raw frames at all.
    pub is_behind_relays: bool,
}

impl Neighbour {
    /// A port there.
    pub fn port(self, port: u16) -> SocketAddr {
        socket_by(self.ip, port, self.interface)
    }
}

impl From<IpAddr> for Neighbour {
    fn from(ip: IpAddr) -> Self {
        Self { ip, interface: 0, is_behind_relays: false }
    }
}

/// A port of an address, by the interface of this number if the address is link-local.
pub fn socket_by(ip: IpAddr, port: u16, interface: u32) -> SocketAddr {
    match ip {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            SocketAddrV6::new(v6, port, 0, interface).into()
        }
        _ => SocketAddr::new(ip, port),
    }
}

/// The interfaces that the user named.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// The one to measure on; `None`: the one that leads to the other end.
    pub first: Option<String>,
    /// Others that EMP uses together with it.
    pub together: Vec<String>,
    /// Others that lead there, for what can't share the first.
    pub spares: Vec<String>,
}

/// What one end tells the other about itself, so that both choose the same link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// All its IP addresses.
    pub addresses: Vec<IpAddr>,
    /// The neighbour that its way to the other end leads to, if that is not on a subnet of its own.
    pub next_hop: Option<IpAddr>,
    /// Why it can't send raw frames.
    pub problem: Option<String>,
    /// Raw frames of EMP's leave here, by a service if not by this end's own privilege.
    #[serde(default)]
    pub carries_emp: bool,
    /// Congestion controls that it may choose for TCP.
    #[serde(default)]
    pub congestion: Vec<String>,
}

impl Place {
    /// Finds the interface behind the control connection, or the one that was named, and the other ones that were named.
    pub fn find(
        (own, peer): (IpAddr, IpAddr),
        asked: &Named,
        mtu: Option<usize>,
    ) -> anyhow::Result<Self> {
        let list = interfaces()?;
        let named = &asked.first;
        let (found, next_hop) = match named {
            Some(name) => (list.iter().find(|interface| interface.name == *name), None),
            None => leading_to(&list, own, peer),
        };
        let Some(interface) = found.cloned() else {
            let names: Vec<String> = list.iter().map(ToString::to_string).collect();
            let wanted = named.clone().unwrap_or_else(|| format!("with address {own}"));
            bail_user!("there is no interface {wanted}; there are {}", names.join(", "));
        };
        let spares = asked.spares.iter().map(|name| Self::named(name)).collect::<Result<_, _>>()?;
        let together = asked.together.iter().map(|name| Self::named(name));
        let together = together.collect::<Result<_, _>>()?;
        let place = Self {
            own,
            peer,
            interface,
            together,
            spares,
            mtu,
            next_hop,
            is_aside: false,
            between: None,
            carries_emp: false,
            is_behind: false,
        };
        place.check()?;
        Ok(place)
    }

    fn check(&self) -> anyhow::Result<()> {
        let interface = &self.interface;
        if let Some(mtu) = self.mtu.filter(|mtu| *mtu > interface.mtu) {
            bail_user!("{interface} can't carry an MTU of {mtu}");
        }
        if self.spares.iter().any(|spare| spare.name == interface.name) {
            bail_user!("{interface} carries EMP, so it can't be the spare interface too");
        }
        Ok(())
    }

    /// The same with one of the spare interfaces, counted from 0, for what has to be apart from EMP's XDP program.
    pub fn aside(&self, which: usize) -> anyhow::Result<Self> {
        let Some(spare) = self.spares.get(which) else {
            let (name, more) =
                (&self.interface.name, if which > 0 { "one more" } else { "another" });
            bail_user!(
                "EMP has the one XDP program that {name} can have, and what it is compared with must not pass through it: \
                 measure with --lab, or name {more} interface at both ends with --spare-interface A,B"
            );
        };
        Ok(Self { interface: spare.clone(), spares: Vec::new(), is_aside: true, ..self.clone() })
    }

    /// This end's address for TCP: at a spare interface, the one that it has there.
    pub fn address_here(&self) -> anyhow::Result<IpAddr> {
        if !self.is_aside {
            return Ok(self.own);
        }
        let same_family = |ip: &&IpAddr| ip.is_ipv4() == self.own.is_ipv4();
        match self.interface.addresses.iter().find(same_family) {
            Some(address) => Ok(*address),
            None => bail_user!(
                "{} has no IP address, which TCP needs there: EMP's XDP program is on the interface that has {}",
                self.interface.name,
                self.own
            ),
        }
    }

    /// The interface of this name.
    pub fn named(name: &str) -> anyhow::Result<Interface> {
        let list = interfaces()?;
        match list.iter().find(|interface| interface.name == name) {
            Some(interface) => Ok(interface.clone()),
            None => {
                let names: Vec<String> = list.iter().map(ToString::to_string).collect();
                bail_user!("there is no interface {name}; there are {}", names.join(", "))
            }
        }
    }

    /// Moves to the cable by which the other end reaches this one: of several between the same hosts both must take one.
    /// Not where the interface was `named`.
    pub fn follow(&mut self, other: &End, named: bool) -> anyhow::Result<()> {
        let list = interfaces()?;
        let met = other.next_hop.and_then(|hop| list.iter().find(|i| i.addresses.contains(&hop)));
        if let Some(met) = met.filter(|met| !named && !met.loopback) {
            self.interface = met.clone();
            self.check()?;
        }
        Ok(())
    }

    /// The other end, and the interface that leads there.
    pub fn neighbour(&self) -> Neighbour {
        let (ip, interface) = (self.peer, self.interface.index);
        Neighbour { ip, interface, is_behind_relays: self.is_behind }
    }

    /// What the other end must know of this one.
    pub fn end(&self) -> anyhow::Result<End> {
        let addresses = interfaces()?.into_iter().flat_map(|interface| interface.addresses);
        let problem = self.own_problem();
        let congestion = congestion::available();
        let carries_emp = problem.is_none() || self.interface_problem().is_none() && is_served();
        let (addresses, next_hop) = (addresses.collect(), self.next_hop);
        Ok(End { addresses, next_hop, problem, carries_emp, congestion })
    }

    /// Learns what the other end said of itself.
    pub fn meet(&mut self, own: &End, other: &End) {
        let stranger = |hop: &Option<IpAddr>, of: &End| {
            hop.filter(|hop| !of.addresses.contains(hop)).map(|hop| {
                format!("{hop} is a router between the two ends, and routers pass no raw frames on")
            })
        };
        let routed = stranger(&own.next_hop, other).or_else(|| stranger(&other.next_hop, own));
        let theirs = other.problem.as_ref().map(|problem| format!("at {}, {problem}", self.peer));
        self.carries_emp = routed.is_none() && own.carries_emp && other.carries_emp;
        self.is_behind = routed.is_some() && own.problem.is_none() && theirs.is_none();
        self.between = routed.or(theirs);
    }

    /// The MTU in force.
    pub fn mtu(&self) -> usize {
        self.mtu.unwrap_or(self.interface.mtu)
    }

    /// Bytes of a UDP link's largest packet, if that is not what the owner of this end's address carries.
    pub fn packet_bytes_max(&self) -> Option<usize> {
        let other = !self.interface.addresses.contains(&self.own);
        self.mtu.or_else(|| other.then_some(self.interface.mtu))
    }

    /// The link that a choice means here, or why it is not to be had.
    pub fn choose(&self, link: LinkChoice) -> anyhow::Result<LinkChoice> {
        let problem = self.packet_problem();
        match (link, problem) {
            (LinkChoice::Auto, Some(_)) => Ok(LinkChoice::Udp),
            (LinkChoice::Auto, None) => Ok(LinkChoice::Packet),
            (LinkChoice::Packet | LinkChoice::Xdp, Some(problem)) => {
                bail_user!("the {link} link is not possible here: {problem}; --link udp is")
            }
            (link, _) => Ok(link),
        }
    }

    /// The same for EMP, whose raw frames relays send on: asked for by name, they are tried where the ends have no cable in common.
    pub fn choose_for_emp(&self, link: LinkChoice) -> anyhow::Result<LinkChoice> {
        match link {
            LinkChoice::Packet if self.is_behind => Ok(link),
            // By whose socket is the node's to try.
            LinkChoice::Auto if self.carries_emp => Ok(link),
            link => self.choose(link),
        }
    }

    /// Whether the other end is reached through relays, if at all: each of this end's interfaces may lead to one.
    pub fn is_behind_relays(&self) -> bool {
        self.is_behind
    }

    /// Why raw frames can't be sent between the two ends.
    pub fn packet_problem(&self) -> Option<String> {
        self.own_problem().or_else(|| self.between.clone())
    }

    /// Why a choice that is left to EMP is datagrams alone.
    pub fn emp_problem(&self) -> Option<String> {
        self.packet_problem().filter(|_| !self.carries_emp)
    }

    /// Why raw frames can't leave by this interface, whoever sends them.
    fn interface_problem(&self) -> Option<String> {
        let name = &self.interface.name;
        if self.interface.loopback {
            return Some(
                "the two ends are on one machine, and loopback carries no raw frames".to_owned(),
            );
        }
        if self.interface.up && !self.interface.running {
            return Some(format!("{name} has no carrier, or got it a moment ago"));
        }
        if !self.interface.usable_for_packet() {
            return Some(format!("{name} is not an Ethernet interface that is up"));
        }
        None
    }

    /// Why this end can't send raw frames itself.
    fn own_problem(&self) -> Option<String> {
        let privileged = process::has_capability(process::CAP_NET_RAW);
        self.interface_problem().or_else(|| {
            (!privileged)
                .then(|| "it needs CAP_NET_RAW (run as root, or with that capability)".to_owned())
        })
    }
}

/// Whether a service has raw frames for this user.
fn is_served() -> bool {
    service::ask(&service::socket_path()).is_ok_and(|welcome| welcome.lends || welcome.attaches)
}

/// The interface that owns this end's address; where that is loopback, as on hosts that keep one address however many
/// cables they have, the one that the route to the other end takes. And the neighbour that this route leads to.
fn leading_to(
    list: &[Interface],
    own: IpAddr,
    peer: IpAddr,
) -> (Option<&Interface>, Option<IpAddr>) {
    let owner = list.iter().find(|interface| interface.addresses.contains(&own));
    // Without a route to ask for (a kernel that does not say) the owner must do.
    let Ok(route) = route::between(own, peer) else { return (owner, None) };
    let by_route = list.iter().find(|interface| interface.index == route.interface);
    let other = |owner: &&Interface| !owner.loopback && owner.index != route.interface;
    match owner.filter(other) {
        Some(owner) if !route.local => (Some(owner), None),
        _ => (by_route.or(owner), route.next_hop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::UserError;
    use std::net::Ipv4Addr;

    fn on_loopback(spare: Option<&str>) -> anyhow::Result<Place> {
        let here = IpAddr::from(Ipv4Addr::LOCALHOST);
        let spares = spare.into_iter().map(str::to_owned).collect();
        Place::find((here, here), &Named { spares, ..Named::default() }, None)
    }

    #[test]
    fn what_cannot_share_an_interface_wants_a_second_one() {
        let alone = on_loopback(None).unwrap();
        let error = alone.aside(0).unwrap_err();
        assert!(error.is::<UserError>() && error.to_string().contains("--spare-interface"));
        let spare = Interface { name: "other0".to_owned(), ..alone.interface.clone() };
        let place = Place { spares: vec![spare], ..alone };
        let aside = place.aside(0).unwrap();
        assert!(aside.interface.name == "other0" && aside.spares.is_empty());
        let error = place.aside(1).unwrap_err();
        assert!(error.is::<UserError>() && error.to_string().contains("one more"), "{error}");
        // The same interface again, by another name.
        assert_eq!(aside.address_here().unwrap(), place.own);
        let bare = Interface { addresses: Vec::new(), ..place.spares[0].clone() };
        let error = Place { spares: vec![bare], ..place }.aside(0).unwrap().address_here();
        assert!(error.unwrap_err().to_string().contains("has no IP address, which TCP needs"));
    }

    #[test]
    fn the_spare_interface_is_another_one_that_exists() {
        for (name, says) in [("lo", "can't be the spare"), ("nosuch0", "no interface nosuch0")] {
            let error = on_loopback(Some(name)).unwrap_err();
            assert!(error.is::<UserError>() && error.to_string().contains(says), "{error}");
        }
    }

    /// A place whose own interface would do for raw frames, if this process may send them.
    fn on_a_cable() -> Place {
        let place = on_loopback(None).unwrap();
        let interface = Interface {
            name: "cable0".to_owned(),
            loopback: false,
            up: true,
            running: true,
            mtu: 1500,
            addresses: Vec::new(),
            ..place.interface.clone()
        };
        Place { interface, ..place }
    }

    #[test]
    fn raw_frames_reach_neighbours_and_no_further() {
        let ip = |last| IpAddr::from([10, 77, 1, last]);
        let end =
            |own, hop| End { addresses: vec![ip(own)], next_hop: Some(ip(hop)), ..End::default() };
        let (own, near, far) = (end(1, 2), end(2, 1), end(6, 5));
        for (other, routed) in [(&near, false), (&far, true)] {
            let mut place = on_a_cable();
            place.meet(&own, other);
            assert_eq!(place.is_behind_relays(), routed);
            if routed {
                // Relays may be there.
                assert!(place.choose(LinkChoice::Packet).is_err());
                assert!(place.choose_for_emp(LinkChoice::Packet).is_ok());
            }
            let problem = place.between;
            assert_eq!(problem.is_some_and(|text| text.contains("10.77.1.2 is a router")), routed);
        }
        // Only the way back is routed.
        let mut place = on_a_cable();
        place.meet(&End { next_hop: None, ..own }, &far);
        assert!(place.between.is_some_and(|text| text.contains("10.77.1.5 is a router")));
    }

    #[test]
    fn auto_takes_what_both_ends_may() {
        let mut place = on_a_cable();
        let problem = Some("it needs a key".to_owned());
        place.meet(&End::default(), &End { problem, ..End::default() });
        assert_eq!(place.choose(LinkChoice::Auto).unwrap(), LinkChoice::Udp);
        assert_eq!(place.choose_for_emp(LinkChoice::Auto).unwrap(), LinkChoice::Udp);
        assert_eq!(place.between.as_deref(), Some("at 127.0.0.1, it needs a key"));
        assert!(place.choose(LinkChoice::Packet).unwrap_err().is::<UserError>());
        // Where services have raw frames for those who have no privilege, EMP's take these.
        let problem = Some("it needs a key".to_owned());
        let served = End { carries_emp: true, problem, ..End::default() };
        place.meet(&End { carries_emp: true, ..End::default() }, &served);
        assert_eq!(place.choose(LinkChoice::Auto).unwrap(), LinkChoice::Udp);
        assert_eq!(place.choose_for_emp(LinkChoice::Auto).unwrap(), LinkChoice::Auto);
        assert_eq!(place.emp_problem(), None);
    }

    #[test]
    fn datagrams_fit_the_cable_and_not_the_owner_of_the_address() {
        assert_eq!(on_loopback(None).unwrap().packet_bytes_max(), None);
        assert_eq!(on_a_cable().packet_bytes_max(), Some(1500));
        assert_eq!(Place { mtu: Some(900), ..on_a_cable() }.packet_bytes_max(), Some(900));
    }
}
