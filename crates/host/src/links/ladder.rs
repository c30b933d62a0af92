//! Choosing links by trying: the ladder packet → udp, shm beside it, and xdp when named. What was tried is
//! always said aloud.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};

use emp_firmware::limits::INTERFACES_MAX;
use emp_link::{
    Class, Interface, Link, LinkError, PacketLink, PacketOptions, Ranked, ShmLink, ShmOptions,
    UdpLink, UdpOptions, XdpLink, XdpOptions,
};
use emp_wire::{ETHERTYPE_DEFAULT, NodeId, UDP_PORT_DEFAULT};

use crate::links::choice::{Choice, Outcome, Rung, abilities, name};
use crate::links::error::BuildError;
use crate::links::peers;
use crate::links::raw_frames::{PassedBy, RawFrames, RawSource};
use crate::links::set::{ChosenLink, is_ring};
use crate::links::want::Want;
use crate::machine::launcher::ranked_interfaces;

/// Receive ring of a link for searches, in bytes: as many as a neighbour may have repeated at once.
const SEARCHES_RING_BYTES: usize = 1 << 20;

/// How links are to be chosen.
#[derive(Clone, Debug)]
pub struct AutoLinks {
    /// Which kinds.
    pub want: Want,
    /// Interfaces, at most four, each with a ring for raw frames and, if there are several, a socket of its own; each that is named must be to
    /// be had if packet is required. Empty: all Ethernet interfaces that are up and have a carrier, the likeliest first, but for those that lead to containers, through tunnels, or are a
    /// part of another ([`Class::Aside`]).
    pub interfaces: Vec<String>,
    /// EtherType of raw frames.
    pub ethertype: u16,
    /// Local address for UDP; `None`: any.
    pub udp_bind: Option<IpAddr>,
    /// UDP port; 0 lets the system choose.
    pub udp_port: u16,
    /// Where nodes may be found by UDP. Empty: where `EMP_PEERS` says.
    pub udp_peers: Vec<SocketAddr>,
    /// Frames longer than the MTU may leave past the kernel's IP layer, where this process may open a packet socket. Only of `Auto`, whose
    /// raw frames do as well: who asks for UDP gets what IP does with it.
    pub udp_past_ip: bool,
    /// Nodes of this machine and network are met through its memory as well, and then by that alone. Of `Auto`; `Want::Shm` is nothing else.
    pub memory: bool,
}

impl Default for AutoLinks {
    fn default() -> Self {
        Self {
            want: Want::Auto,
            interfaces: Vec::new(),
            ethertype: ETHERTYPE_DEFAULT,
            udp_bind: None,
            udp_port: UDP_PORT_DEFAULT,
            udp_peers: Vec::new(),
            udp_past_ip: true,
            memory: true,
        }
    }
}

/// Tries the rungs from the top.
pub(crate) fn climb(
    auto: &AutoLinks,
    node: NodeId,
    choice: &mut Choice,
) -> Result<Vec<ChosenLink>, BuildError> {
    sound(&auto.interfaces).map_err(BuildError::Interfaces)?;
    let mut chosen = Vec::new();
    match auto.want {
        Want::Xdp => xdp(auto, node, choice, &mut chosen)?,
        Want::Auto => {
            let why = "slower than packet where the kernel copies; to be had by name";
            choice.note("xdp".into(), Outcome::Skipped(why.into()));
        }
        Want::Packet | Want::Lent | Want::Empd | Want::Udp | Want::Shm => {}
    }
    let required = |kind: &str| Outcome::Skipped(format!("{kind} is required"));
    match auto.want {
        Want::Udp => choice.note("packet".into(), required("udp")),
        Want::Xdp => choice.note("packet".into(), required("xdp")),
        Want::Shm => choice.note("packet".into(), required("shm")),
        Want::Auto | Want::Packet | Want::Lent | Want::Empd => {
            raw(auto, node, choice, &mut chosen)?;
        }
    }
    match auto.want {
        Want::Packet => choice.note("udp".into(), required("packet")),
        Want::Lent => choice.note("udp".into(), required("lent packet")),
        Want::Empd => choice.note("udp".into(), required("empd")),
        Want::Xdp => choice.note("udp".into(), required("xdp")),
        Want::Shm => choice.note("udp".into(), required("shm")),
        Want::Auto | Want::Udp => sockets(auto, node, choice, &mut chosen)?,
    }
    if auto.want == Want::Shm || auto.want == Want::Auto && auto.memory {
        shm(auto, node, choice, &mut chosen)?;
    }
    if chosen.is_empty() { Err(BuildError::NoRung(choice.clone())) } else { Ok(chosen) }
}

/// Names that a node can use together: of two rings on one interface the second would take the first one's frames for others', and a relay would
/// send on what it got to where it came from.
fn sound(named: &[String]) -> Result<(), String> {
    if named.len() > INTERFACES_MAX {
        let count = named.len();
        return Err(format!(
            "{count} are named, and a node uses at most {INTERFACES_MAX} together: name fewer"
        ));
    }
    match (1..named.len()).find(|at| named[..*at].contains(&named[*at])) {
        Some(again) => Err(format!("{} is named twice: name it once", named[again])),
        None => Ok(()),
    }
}

/// AF_XDP, on each interface. Which mode it works in, and why in no better one, is part of the report.
fn xdp(
    auto: &AutoLinks,
    node: NodeId,
    choice: &mut Choice,
    chosen: &mut Vec<ChosenLink>,
) -> Result<(), BuildError> {
    for interface in wanted_interfaces(auto, choice) {
        let mut options = XdpOptions::new(interface, node.destination_tag());
        options.ethertype = auto.ethertype;
        let opened = XdpLink::open(&options);
        let modes = opened.as_ref().map(|link| {
            let why_not = link.passed_by().iter().map(|why| format!("; not {why}"));
            format!("{}{}", link.mode(), why_not.collect::<String>())
        });
        let modes = modes.unwrap_or_default();
        take(opened, true, !auto.interfaces.is_empty(), choice, chosen)?;
        if let Some(Rung { outcome: Outcome::Chosen(text), .. }) = choice.rungs.last_mut() {
            *text += &format!(", {modes}");
        }
    }
    Ok(())
}

/// The interfaces that were named, or all that raw frames can leave by.
fn wanted_interfaces(auto: &AutoLinks, choice: &mut Choice) -> Vec<String> {
    match auto.interfaces.as_slice() {
        [] => usable_interfaces(choice),
        named => named.to_vec(),
    }
}

/// The top rungs: raw frames, on each interface, by the first way that is open. The service's come where this process lacks the privilege for
/// its own.
fn raw(
    auto: &AutoLinks,
    node: NodeId,
    choice: &mut Choice,
    chosen: &mut Vec<ChosenLink>,
) -> Result<(), BuildError> {
    for interface in wanted_interfaces(auto, choice) {
        if chosen.len() >= INTERFACES_MAX {
            let link = format!("packet on {interface}");
            let why =
                format!("{INTERFACES_MAX} interfaces are used together at most; to be had by name");
            choice.note(link, Outcome::Skipped(why));
            choice.left_out.push(interface);
            continue;
        }
        raw_on((auto, node), &interface, choice, chosen)?;
    }
    Ok(())
}

/// The same on one interface. Who names what it wants is told why that is not to be had, by the last way that is tried.
fn raw_on(
    (auto, node): (&AutoLinks, NodeId),
    interface: &str,
    choice: &mut Choice,
    chosen: &mut Vec<ChosenLink>,
) -> Result<(), BuildError> {
    let frames = RawFrames { ethertype: auto.ethertype, ..RawFrames::new(interface, node) };
    let mut absent = None;
    let opened = frames.open(RawSource::wanted(auto.want), |passed| match passed {
        PassedBy::Failed(error) => choice.failed(error),
        PassedBy::NoService(why) => absent = Some(why),
    });
    let asks = auto.want != Want::Auto && !auto.interfaces.is_empty();
    take(opened, true, asks, choice, chosen)?;
    if let Some(why) = absent {
        choice.note(format!("empd on {interface}"), Outcome::Skipped(why));
    }
    Ok(())
}

/// Of a running node: an interface that has appeared, with a ring, and with a socket where it has an address, as far as they are wanted. What is not to be
/// had is no error.
pub(crate) fn join(
    (auto, node): (&AutoLinks, NodeId),
    (interface, others): (&Interface, &[Interface]),
    (ring, socket): (bool, bool),
    choice: &mut Choice,
) -> Vec<ChosenLink> {
    // It is not asked for by name.
    let auto = &AutoLinks { interfaces: Vec::new(), ..auto.clone() };
    let mut chosen = Vec::new();
    if ring {
        let opened = raw_on((auto, node), &interface.name, choice, &mut chosen);
        debug_assert!(opened.is_ok(), "nothing is required");
    }
    if let Some(ip) = interface.ip().filter(|_| socket) {
        let by_own = others.iter().any(|other| interface.shares_subnet(other));
        let mtu = Some(interface.mtu);
        let bind = Some((ip, Some(interface.name.as_str())));
        let opened = udp(auto, node, (bind, mtu, by_own), choice, &mut chosen);
        if let Err(error) = opened {
            choice.note(format!("udp on {}", interface.name), Outcome::Failed(error.to_string()));
        }
    }
    chosen
}

/// Of a relay: by which it hears searches for nodes that are not on this machine, on each interface that raw frames leave by (`RELAY-7`).
pub(crate) fn searches(
    auto: &AutoLinks,
    choice: &mut Choice,
    chosen: &mut Vec<ChosenLink>,
) -> Result<(), BuildError> {
    let rings = chosen.iter().map(|chosen| chosen.link.capabilities());
    let rings: Vec<String> =
        rings.filter(|link| link.kind == "packet").map(|link| link.interface.clone()).collect();
    for interface in rings {
        let options = PacketOptions {
            ethertype: auto.ethertype,
            ring_bytes: Some(SEARCHES_RING_BYTES),
            ..PacketOptions::searches(interface)
        };
        take(PacketLink::open(&options), false, false, choice, chosen)?;
    }
    Ok(())
}

/// A socket on each of several interfaces that are used, beside their rings where there are such; or one on all addresses.
fn sockets(
    auto: &AutoLinks,
    node: NodeId,
    choice: &mut Choice,
    chosen: &mut Vec<ChosenLink>,
) -> Result<(), BuildError> {
    let rings = chosen.iter().map(|link| link.link.capabilities());
    let rings: Vec<_> = rings.map(|ring| (ring.interface.clone(), ring.frame_bytes_max)).collect();
    let named = auto.interfaces.iter().map(|name| (name.clone(), usize::MAX));
    let over: Vec<_> = if rings.is_empty() { named.collect() } else { rings };
    let all = emp_link::interfaces().unwrap_or_default();
    if auto.udp_bind.is_some() || over.len() < 2 {
        let mtu = chosen.iter().map(|link| link.link.capabilities().frame_bytes_max).min();
        let asked = auto.udp_bind.map(|ip| (ip, None));
        let bind = asked.or_else(|| only_on_its_link(over.first()?, &all));
        return udp(auto, node, (bind, mtu, false), choice, chosen);
    }
    let used: Vec<_> = over.iter().map(|(name, _)| name.clone()).collect();
    let before = chosen.len();
    for (name, mtu) in over.into_iter().take(INTERFACES_MAX) {
        let owner = all.iter().find(|one| one.name == name);
        match owner.and_then(|one| one.ip().or(one.link_local())) {
            Some(ip) => {
                let mtu = Some(mtu).filter(|mtu| *mtu != usize::MAX);
                let others = || all.iter().filter(|one| used.contains(&one.name));
                let by_own = owner.is_some_and(|own| others().any(|one| own.shares_subnet(one)));
                let bind = Some((ip, Some(name.as_str())));
                udp(auto, node, (bind, mtu, by_own), choice, chosen)?;
            }
            None => {
                let why = match owner {
                    Some(_) => "it has no IP address",
                    None => "there is no such interface",
                };
                choice.note(format!("udp on {name}"), Outcome::Skipped(why.into()));
            }
        }
    }
    // Without an address on any of them there may be others.
    if chosen.len() == before {
        let mtu = chosen.iter().map(|link| link.link.capabilities().frame_bytes_max).min();
        return udp(auto, node, (None, mtu, false), choice, chosen);
    }
    Ok(())
}

/// The address of an interface that has none but such as mean nothing beyond its link: a socket on all addresses would not reach by it.
fn only_on_its_link<'a>((name, _): &'a (String, usize), all: &[Interface]) -> Option<Bind<'a>> {
    let owner = all.iter().find(|one| one.name == *name).filter(|one| one.ip().is_none());
    Some((owner?.link_local()?, Some(name.as_str())))
}

/// The address of a socket, and the interface that it is of, if that was chosen.
type Bind<'a> = (IpAddr, Option<&'a str>);

/// The lower rung: UDP, at this address and with this MTU, if they are known; `by_own`: all leaves by the interface of that address.
fn udp(
    auto: &AutoLinks,
    node: NodeId,
    (bind, mtu, by_own): (Option<Bind<'_>>, Option<usize>, bool),
    choice: &mut Choice,
    chosen: &mut Vec<ChosenLink>,
) -> Result<(), BuildError> {
    let mut options = UdpOptions::new(node.destination_tag());
    options.bind = bind.map(|(ip, _)| ip);
    options.interface = bind.and_then(|(_, name)| Some(name?.to_owned()));
    options.by_own_interface = by_own;
    options.port = auto.udp_port;
    options.past_ip = auto.udp_past_ip && auto.want == Want::Auto;
    options.peers.clone_from(&auto.udp_peers);
    if options.peers.is_empty() {
        options.peers = peers::asked_for().map_err(BuildError::Peers)?;
    }
    // Raw frames find whoever the group would, and more.
    options.multicast = !chosen.iter().any(|chosen| is_ring(chosen.link.capabilities()))
        && auto.udp_port == UDP_PORT_DEFAULT;
    // Beside raw frames it carries the bulk of the same cables: a socket on all addresses does not know their MTU.
    options.mtu = mtu;
    let mut opened = UdpLink::open(&options);
    // The usual port is a convenience, so that peers need not be told; a second node of a machine does without.
    if let Err(error) = &opened
        && auto.udp_port == UDP_PORT_DEFAULT
        && error.source.as_ref().is_some_and(|source| source.kind() == ErrorKind::AddrInUse)
    {
        let why = format!("port {UDP_PORT_DEFAULT} is another's: any port is taken instead");
        choice.note("udp".into(), Outcome::Failed(why));
        options.port = 0;
        opened = UdpLink::open(&options);
    }
    let asks = opened.as_ref().is_ok_and(|link| link.capabilities().broadcast);
    take(opened, asks, auto.want == Want::Udp, choice, chosen)
}

/// Beside the ladder: memory shared with the other nodes of this machine. Hosts made of namespaces are other machines,
/// unless shm alone was asked for.
fn shm(
    auto: &AutoLinks,
    node: NodeId,
    choice: &mut Choice,
    chosen: &mut Vec<ChosenLink>,
) -> Result<(), BuildError> {
    let alone = auto.want == Want::Shm;
    let options = ShmOptions { same_network: !alone, ..ShmOptions::new(node.destination_tag()) };
    take(ShmLink::open(&options), true, alone, choice, chosen)
}

/// Notes what came of an attempt.
fn take(
    opened: Result<impl Link + 'static, LinkError>,
    asks_everyone: bool,
    required: bool,
    choice: &mut Choice,
    chosen: &mut Vec<ChosenLink>,
) -> Result<(), BuildError> {
    match opened {
        Ok(link) => {
            let capabilities = link.capabilities();
            choice.note(name(capabilities), Outcome::Chosen(abilities(capabilities)));
            chosen.push(ChosenLink { link: Box::new(link), asks_everyone });
            Ok(())
        }
        Err(error) if required => Err(error.into()),
        Err(error) => {
            choice.failed(error);
            Ok(())
        }
    }
}

/// Interfaces that a node with these wishes would use if it started now.
pub(crate) fn qualifying(auto: &AutoLinks) -> Vec<Interface> {
    let all = ranked_interfaces().unwrap_or_default().into_iter();
    let wanted = all.filter(|one| match auto.interfaces.as_slice() {
        [] => one.class != Class::Aside,
        named => named.contains(&one.interface.name),
    });
    wanted.map(|one| one.interface).filter(Interface::usable_for_packet).collect()
}

/// The Ethernet interfaces that raw frames can leave by.
fn usable_interfaces(choice: &mut Choice) -> Vec<String> {
    let all = match ranked_interfaces() {
        Ok(all) => all,
        Err(error) => {
            let why = format!("the interfaces cannot be listed: {error}");
            choice.note("raw frames".into(), Outcome::Failed(why));
            return Vec::new();
        }
    };
    let mut usable = Vec::new();
    for Ranked { interface, class, why } in all {
        if !interface.usable_for_packet() {
            continue;
        }
        if class == Class::Aside {
            let link = format!("packet on {}", interface.name);
            choice.note(link, Outcome::Skipped(format!("{why}; to be had by name")));
        } else {
            usable.push(interface.name);
        }
    }
    if usable.is_empty() {
        let why = "no Ethernet interface that leads to other machines is up with a carrier";
        choice.note("raw frames".into(), Outcome::Skipped(why.into()));
    }
    usable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_that_are_named_twice_or_too_many_are_refused() {
        let sound =
            |names: &[&str]| sound(&names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(sound(&[]), Ok(()));
        assert_eq!(sound(&["a", "b", "c", "d"]), Ok(()));
        assert_eq!(sound(&["a", "b", "a"]), Err("a is named twice: name it once".into()));
        assert!(sound(&["a", "b", "c", "d", "e"]).unwrap_err().starts_with("5 are named"));
    }
}
