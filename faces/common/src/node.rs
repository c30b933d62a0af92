//! Starting a node on one of the machine's ways, and telling it where others are.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use emp_host::{Board, BuildError, LinkIndex, Node, NodeBuilder, NodeId};
use emp_link::{LinkAddress, LinkError, interfaces};

use crate::fork::Unshared;
use crate::links::Opening;
use crate::log;
use crate::newcomers::FaceNewcomers;
use crate::settings::Settings;
use crate::ways::Way;
use crate::whereabouts::{SOME_MAC, Whereabouts};

/// A node that may have raw frames, or shared memory on this machine, is looked for by them alone for so long, before
/// datagrams are tried as well: else the answer that came first would decide.
const FIRST_ALONE: Duration = Duration::from_millis(15);

/// Who a node is to be.
pub struct Identity {
    /// Its identity.
    pub node: NodeId,
    /// Its name for people.
    pub name: String,
    /// The port that it takes datagrams at; 0: any.
    pub udp_port: u16,
    /// Nobody else may have this identity, which the port sees to: without it there is no such node.
    pub needs_port: bool,
}

/// Why a node was not started.
#[derive(Debug)]
pub struct StartError {
    pub(crate) what: String,
    /// The system's error behind it, if there is one.
    pub code: Option<i32>,
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl From<LinkError> for StartError {
    fn from(error: LinkError) -> Self {
        let code = error.source.as_ref().and_then(|source| match source.kind() {
            // In shared memory it is found without the system.
            ErrorKind::AddrInUse => Some(libc::EADDRINUSE),
            _ => source.raw_os_error(),
        });
        Self { what: error.to_string(), code }
    }
}

impl From<BuildError> for StartError {
    fn from(error: BuildError) -> Self {
        Self { what: error.to_string(), code: None }
    }
}

impl From<StartError> for String {
    fn from(error: StartError) -> Self {
        error.what
    }
}

/// A node of this process.
pub struct FaceNode {
    /// The node itself.
    pub node: Node,
    /// How long closing it waits at most.
    pub linger: Duration,
    /// Address of the interface, if it takes raw frames.
    pub mac: Option<[u8; 6]>,
    /// Where it takes datagrams; or, with raw frames alone, none, but has a port that its host refuses them for once it has ended.
    pub udp: Option<SocketAddr>,
    packet_link: Option<LinkIndex>,
    /// Raw frames reach the processes of this machine, too.
    packet_is_everywhere: bool,
    udp_link: Option<LinkIndex>,
    shm_link: Option<LinkIndex>,
    own_macs: Vec<[u8; 6]>,
    own_ips: Vec<IpAddr>,
    /// Hints that are given when raw frames have not found a node.
    later: Mutex<Vec<(Instant, NodeId, LinkAddress)>>,
    any_later: AtomicBool,
    /// The port where no link takes datagrams: nobody else may have it, and it is gone with the process.
    _port: Option<UdpSocket>,
    _unshared: Unshared,
}

/// An identity that no other node has, drawn at random.
///
/// # Errors
///
/// The system has no random numbers.
pub fn random_identity() -> std::io::Result<NodeId> {
    loop {
        let mut bytes = [0; 8];
        // SAFETY: writes at most the length of the array.
        let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if got != bytes.len() as isize {
            return Err(std::io::Error::last_os_error());
        }
        let node = NodeId(u64::from_ne_bytes(bytes));
        if node != NodeId::ANY {
            return Ok(node);
        }
    }
}

/// All but who it is and by which links.
fn describe(settings: &Settings) -> NodeBuilder {
    let mut builder = Node::builder()
        .profile(settings.profile.clone())
        .collections(settings.collections.clone())
        .board(settings.board)
        .linger(settings.linger)
        .wait_mode(settings.wait);
    if let Some(file) = &settings.capture {
        builder = builder.capture(file);
    }
    if log::takes_lines_of_nodes() {
        builder = builder
            .log(|line| log::of_node(log::Level::Information, line))
            .notices(|line| log::of_node(log::Level::Warning, line))
            .alarms(log::alarm);
    }
    let (variable, patience) = (&settings.timeout_variable, &settings.profile.unreachable_after);
    let patience_ms = patience.0 / 1_000_000;
    builder
        .patience_hint(format!("to wait longer, set {variable} (milliseconds; {patience_ms} now)"))
}

impl FaceNode {
    /// Starts a node with the links of this way, or with those of the service.
    ///
    /// # Errors
    ///
    /// What is not to be had.
    pub fn start(way: &Way, settings: &Settings, identity: Identity) -> Result<Self, StartError> {
        let node = identity.node;
        let builder = describe(settings).name(identity.name).node_id(node);
        let mut opening = Opening::of((way, settings), node, builder);
        let in_service = settings.board == Board::Daemon;
        if in_service {
            opening.of_service(identity.udp_port, identity.needs_port)?;
        } else {
            opening.raw_frames()?;
            opening.datagrams(identity.udp_port, identity.needs_port)?;
            opening.memory()?;
        }
        let Opening { builder, mac, udp, packet_link, udp_link, shm_link, port, .. } = opening;
        let builder = if way.all && !in_service {
            let (settings, kind) = (settings.clone(), way.kind);
            builder.newcomers(FaceNewcomers { settings, node, kind })
        } else {
            builder
        };
        let node = builder.start()?;
        // What the service has is known then.
        let of_first = || node.links().first().and_then(|link| link.address.as_mac());
        let mac = mac.or_else(|| of_first().filter(|_| in_service));
        // Raw frames of the service reach the processes of this machine as well, so nobody is told apart.
        let all = if in_service { Vec::new() } else { interfaces().unwrap_or_default() };
        Ok(Self {
            node,
            linger: settings.linger,
            mac,
            udp,
            packet_link,
            packet_is_everywhere: in_service,
            udp_link,
            shm_link,
            own_macs: all.iter().filter(|i| !i.loopback).filter_map(|i| i.mac).collect(),
            own_ips: all.into_iter().flat_map(|i| i.addresses).collect(),
            later: Mutex::default(),
            any_later: AtomicBool::new(false),
            _port: port,
            _unshared: Unshared::new(),
        })
    }

    /// By which link frames leave, as users know it; those of a service's say so.
    pub fn link_name(&self) -> &'static str {
        match self.node.links().first() {
            Some(link) if link.kind == "packet" && !link.privileged => "lent packet",
            Some(link) => link.kind,
            None => "nothing",
        }
    }

    /// Closes the node: what was sent is waited for as long as the user allows; says so if that was too short.
    pub fn close(&self) {
        self.close_but_for(0);
    }

    /// The same; so many operations were given up before, and need not be spoken of.
    pub fn close_but_for(&self, given_up: usize) {
        // A receiver may take its time, as long as it goes on.
        let all = self.node.drain(self.linger);
        if let Err(cut) = self.node.close(Duration::ZERO)
            && (cut.sends > given_up || !all && cut.undelivered > 0)
        {
            log::warn(&format!("closing: {cut}"));
        }
    }

    /// Tells the node where another one may be. On this machine it is looked for in shared memory, elsewhere by raw frames,
    /// if both have them; in either case by datagrams if that brings no answer ([`hint_later`](Self::hint_later)).
    pub fn learn(&self, peer: &Whereabouts) {
        if peer.node == self.node.id() {
            return;
        }
        if let (Some(link), None, None) = (self.shm_link, self.udp_link, self.packet_link) {
            return self.node.hint(peer.node, link, LinkAddress::shm(peer.node.0));
        }
        let udp = self.udp_link.zip(peer.udp);
        let packet = self.packet_link.zip(peer.mac);
        let same_ip = peer.udp.is_some_and(|udp| self.own_ips.contains(&udp.ip()));
        let same_machine = match peer.mac {
            Some(mac) if mac != SOME_MAC => self.own_macs.contains(&mac),
            _ => same_ip,
        };
        if let Some(at) = peer.asked_at(same_machine) {
            self.node.takes_datagrams_at(peer.node, at);
        }
        match (packet, udp) {
            (Some((link, mac)), udp) if !same_machine || self.packet_is_everywhere => {
                if mac != SOME_MAC {
                    self.node.hint(peer.node, link, LinkAddress::mac(mac));
                }
                if let Some((_, udp)) = udp.filter(|(_, udp)| !udp.ip().is_loopback()) {
                    self.try_later(peer.node, udp);
                }
            }
            (_, udp) => match (self.shm_link.filter(|_| same_machine), udp) {
                (Some(shm), udp) => {
                    self.node.hint(peer.node, shm, LinkAddress::shm(peer.node.0));
                    if let Some((_, udp)) = udp {
                        self.try_later(peer.node, udp);
                    }
                }
                (None, Some((link, udp))) => {
                    self.node.hint(peer.node, link, LinkAddress::udp(udp));
                }
                (None, None) => {}
            },
        }
    }

    /// Datagrams are tried where the better link brings no answer.
    fn try_later(&self, node: NodeId, udp: SocketAddr) {
        let when = Instant::now() + FIRST_ALONE;
        self.later().push((when, node, LinkAddress::udp(udp)));
        self.any_later.store(true, Ordering::Release);
    }

    fn later(&self) -> MutexGuard<'_, Vec<(Instant, NodeId, LinkAddress)>> {
        self.later.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the hints that have become due; to be called where progress is made.
    #[inline]
    pub fn hint_later(&self) {
        if self.any_later.load(Ordering::Relaxed) {
            self.give_due_hints();
        }
    }

    #[cold]
    fn give_due_hints(&self) {
        let now = Instant::now();
        let mut later = self.later();
        if later.iter().all(|(when, _, _)| *when > now) {
            return;
        }
        let (due, rest) = later.drain(..).partition::<Vec<_>, _>(|(when, _, _)| *when <= now);
        *later = rest;
        self.any_later.store(!later.is_empty(), Ordering::Release);
        drop(later);
        let Some(link) = self.udp_link else { return };
        // Also of nodes that are reached meanwhile: should the better link fail, it is by datagrams that they can be found.
        for (_, node, address) in due {
            self.node.hint(node, link, address);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use emp_testing::{Need, skip};

    use super::*;
    use crate::ways::Kind;

    fn raw_loopback() -> Way {
        let interface = interfaces().unwrap().into_iter().find(|i| i.loopback && i.up).unwrap();
        Way::of(Kind::Packet, interface)
    }

    #[test]
    fn who_asks_for_raw_frames_gets_no_datagrams() {
        for (link, links) in
            [("packet", &["packet", "shm"][..]), ("auto", &["packet", "udp", "shm"])]
        {
            let set = |name: &str| {
                let (variable, value) = (name.into(), link.into());
                (name == "LINK").then_some(crate::settings::Set { variable, value })
            };
            let settings = Settings::read(set).unwrap();
            for needs_port in [false, true] {
                // Any port: what counts is whether there is one.
                let udp_port = 0;
                let identity =
                    Identity { node: NodeId(4712), name: String::new(), udp_port, needs_port };
                let face = match FaceNode::start(&raw_loopback(), &settings, identity) {
                    Ok(face) => face,
                    Err(error) if error.code == Some(libc::EPERM) => {
                        return skip(Need::Root, "raw frames need CAP_NET_RAW");
                    }
                    Err(error) => panic!("{error}"),
                };
                let kinds: Vec<_> = face.node.links().iter().map(|link| link.kind).collect();
                assert_eq!(kinds, links, "{link}");
                // Its host can be asked after it all the same.
                assert!(face.udp.is_some_and(|at| at.port() != 0), "{link}");
            }
        }
    }

    /// On datagrams alone, between hosts whose nodes are at ports of their own: one is found where it is listed, the other by asking that one.
    #[test]
    fn nodes_that_no_address_leads_to_are_found_where_they_are_listed() {
        const LONG: Duration = Duration::from_secs(60);
        let Some(lab) = emp_testing::lab::Lab::build(1500) else { return };
        let set = |name: &str| {
            let value = match name {
                "LINK" => "udp",
                "PEERS" => "10.77.0.1:6100",
                _ => return None,
            };
            Some(crate::settings::Set { variable: name.into(), value: value.into() })
        };
        let settings = Settings::read(set).unwrap();
        let start = |side, node, udp_port| {
            lab.inside(side, || {
                let way = crate::ways::ways(&settings).into_iter().next().expect("a cable");
                let identity = Identity {
                    node: NodeId(node),
                    name: String::new(),
                    udp_port,
                    needs_port: true,
                };
                FaceNode::start(&way, &settings, identity).expect("anyone may")
            })
        };
        let faces = [start(0, 71, 6100), start(0, 72, 6101), start(1, 73, 6102)];
        let tell = |from: &FaceNode, to: &FaceNode| {
            let ends = [from, to].map(|face| face.node.endpoint(1).unwrap());
            let receive = ends[1].receive(emp_host::Selector::bits(5), vec![0; 5]).unwrap();
            let sent = ends[0].send((to.node.id(), 1), 5, "hello");
            sent.unwrap().wait(LONG).expect("it is found");
            assert_eq!(receive.wait(LONG).unwrap().buffer, b"hello");
        };
        for (from, to) in [(1, 0), (2, 0), (1, 2), (2, 1)] {
            tell(&faces[from], &faces[to]);
        }
    }

    #[test]
    fn a_node_that_needs_its_port_is_none_without() {
        let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let udp_port = taken.local_addr().unwrap().port();
        let way = raw_loopback();
        let settings = Settings::read(|_| None).unwrap();
        let start = |needs_port| {
            let identity =
                Identity { node: NodeId(4711), name: String::new(), udp_port, needs_port };
            FaceNode::start(&way, &settings, identity)
        };
        // Raw frames alone would do for others.
        match start(false) {
            Ok(face) => assert!(face.mac.is_some() && face.udp.is_none()),
            Err(error) if error.code == Some(libc::EPERM) => {
                return skip(Need::Root, "raw frames need CAP_NET_RAW");
            }
            Err(error) => panic!("{error}"),
        }
        assert_eq!(start(true).err().and_then(|error| error.code), Some(libc::EADDRINUSE));
        drop(taken);
        assert_eq!(start(true).unwrap().udp.map(|at| at.port()), Some(udp_port));
    }
}
