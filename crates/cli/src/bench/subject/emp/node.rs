//! Starting a node for a benchmark, and telling it where the other one is.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use emp_firmware::limits::INTERFACES_MAX;
use emp_firmware::{Integrity, Profile};
use emp_host::{
    AutoLinks, Board, Collections, LinkIndex, Node, NodeBuilder, PassedBy, RawFrames, RawSource,
    WaitMode, Want,
};
use emp_link::{
    FaultPlan, Interface, Link, LinkError, ShmLink, ShmOptions, UdpLink, UdpOptions, XdpLink,
    XdpOptions,
};
use emp_wire::{HEAD_BYTES_MAX, LinkAddress, NodeId};

use super::harness_link::HarnessLink;
use crate::bail_user;
use crate::bench::job::{DAEMON, LinkChoice, Spec};
use crate::bench::subject::kind::Card;
use crate::bench::subject::place::{Neighbour, Place};
use crate::bench::{cpus, lifeline, patience};
use crate::error::user_error;

/// How long to look for the other node, which is known to run.
const FIND_LIMIT: Duration = Duration::from_secs(5);

/// How long to look before it is looked whether the other end still runs: several of EMP's own questions.
const FIND_STEP: Duration = Duration::from_millis(250);

/// Bytes of an IPv4 and a UDP header: the part of an MTU that is not EMP's.
const IP_UDP_BYTES: usize = 28;

/// Nodes that this process has started; gives each a name of its own.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// A node that runs and knows no one yet.
pub struct OpenNode {
    /// The node.
    pub node: Node,
    /// Faults injected so far.
    pub(super) faults: Arc<AtomicU64>,
    link: Address,
}

/// Where the other end's node reaches this one.
enum Address {
    Mac([u8; 6]),
    UdpPort(u16),
    Shm(u64),
}

impl OpenNode {
    /// Starts the node. Its raw frames, if it sends such, have an EtherType.
    pub fn start(spec: &Spec, place: &Place, ethertype: u16) -> anyhow::Result<Self> {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        // The address makes it differ from the other end's, process and number from every other node's here.
        let name = format!("bench {} {}.{number}", place.own, std::process::id());
        let id = NodeId::from_name(&name);
        let faults = Arc::new(AtomicU64::new(0));
        let builder =
            describe(spec, place)?.name(name).node_id(id).linger(Duration::from_millis(200));
        let (builder, link) = with_link(builder, spec, place, (id, ethertype), &faults)?;
        Ok(Self { node: builder.start()?, faults, link })
    }

    /// What other ends must know.
    pub fn card(&self) -> Card {
        let links = self.node.links();
        let (mac, udp_port, shm) = match self.link {
            Address::Mac(mac) => (Some(mac), None, None),
            Address::UdpPort(port) => (None, Some(port), None),
            Address::Shm(number) => (None, None, Some(number)),
        };
        Card {
            links: links.iter().map(|link| link.kind.to_owned()).collect(),
            mac,
            udp_port,
            shm,
            node: Some(self.node.id().0),
            frame_bytes_max: links.first().map(|link| link.frame_bytes_max),
            ..Card::default()
        }
    }

    /// Finds the node of another end, which is known to run at an address.
    pub fn find(&self, other: &Card, peer: Neighbour) -> anyhow::Result<NodeId> {
        let address = match (&self.link, other.mac, other.udp_port, other.shm) {
            (Address::Mac(_), Some(mac), ..) => LinkAddress::mac(mac),
            (Address::UdpPort(_), _, Some(port), _) => LinkAddress::udp(peer.port(port)),
            (Address::Shm(_), .., Some(number)) => LinkAddress::shm(number),
            _ => bail_user!(
                "EMP's link is another at the other end ({}): one of the two may not use raw frames; --link udp works \
                 for both",
                other.links.join(", ")
            ),
        };
        let Some(node) = other.node.map(NodeId) else {
            bail_user!("the other end runs no EMP node");
        };
        // Behind relays nobody has that address on a cable of this end.
        let relayed = peer.is_behind_relays && matches!(self.link, Address::Mac(_));
        if !relayed {
            self.node.hint(node, LinkIndex(0), address);
        }
        let mut tries = FIND_LIMIT.as_millis() / FIND_STEP.as_millis();
        while let Err(missing) = self.node.find(node, FIND_STEP) {
            lifeline::check()?;
            tries -= 1;
            if tries > 0 {
                continue;
            }
            if relayed {
                bail_user!(
                    "{missing}; the ends have no cable in common, and no relay leads from one to the other: `emp relay` on \
                     the hosts between is one, and --link udp needs none"
                );
            }
            if matches!(self.link, Address::Shm(_)) {
                bail_user!("{missing}; both ends of shm are one user's, on one machine");
            }
            return Err(missing.into());
        }
        Ok(node)
    }
}

/// Board, profile and manner of waiting.
fn describe(spec: &Spec, place: &Place) -> anyhow::Result<NodeBuilder> {
    let Some(profile) = Profile::by_name(&spec.profile) else {
        bail_user!("there is no profile {} at {}", spec.profile, place.own);
    };
    let named = Board::named(&spec.board)
        .map_err(|problem| user_error(format!("{}: {problem}", place.own)))?;
    let (board, usual) = match named {
        // As what it is compared with.
        Board::Inline { .. } => (Board::Inline { guardian: spec.guardian }, WaitMode::Spin),
        // A caller that spins would take the progress thread's core.
        Board::Thread => (Board::Thread, WaitMode::Adaptive),
        Board::Split { scheme, .. } => {
            let cpu = cpus::settle(spec.cpus)?;
            // Two threads that spin on one core give each other turns of the scheduler's.
            let shared = cpu.is_none() && cpus::usable_cpus().len() == 1;
            let wait = if shared { WaitMode::Adaptive } else { WaitMode::Spin };
            (Board::Split { scheme, cpu }, wait)
        }
        Board::Daemon => (Board::Daemon, WaitMode::Spin),
    };
    let wait = match spec.wait.as_deref() {
        None => usual,
        Some("adaptive") => WaitMode::Adaptive,
        Some("spin") => WaitMode::Spin,
        Some("sleep") => WaitMode::Sleep,
        Some(other) => bail_user!("there is no way of waiting called {other} at {}", place.own),
    };
    let notices = |line: &str| eprintln!("{line}");
    let collections = spec.collection.as_deref().map(str::parse::<Collections>).transpose();
    let collections =
        collections.map_err(|problem| user_error(format!("{}: {problem}", place.own)))?;
    let builder = Node::builder().profile(profile.clone());
    let builder = builder.collections(collections.unwrap_or_default());
    let builder = builder.board(board).wait_mode(wait);
    let builder = builder.unreachable_after(Duration::from_millis(spec.timeout_ms));
    let Some((_, integrity)) = Integrity::ALL.iter().find(|(name, _)| *name == spec.integrity)
    else {
        bail_user!("there is no integrity {} at {}", spec.integrity, place.own);
    };
    let builder = builder.integrity(*integrity);
    patience::outlast(Duration::from_millis(spec.timeout_ms));
    Ok(builder.notices(notices))
}

fn with_link(
    builder: NodeBuilder,
    spec: &Spec,
    place: &Place,
    (id, ethertype): (NodeId, u16),
    faults: &Arc<AtomicU64>,
) -> anyhow::Result<(NodeBuilder, Address)> {
    let harness = Harness::of(spec, place)?;
    if spec.board == DAEMON {
        return with_service(builder, spec, place);
    }
    match place.choose_for_emp(spec.link)? {
        LinkChoice::Packet | LinkChoice::Lent | LinkChoice::Empd | LinkChoice::Auto => {
            let (mut builder, mut mac) = (builder, None);
            for interface in place.all_for_packets()? {
                let frames = RawFrames { ethertype, ..RawFrames::new(&interface.name, id) };
                let link = raw(&frames, spec.link)?;
                // The first is the one that the other end is told.
                mac = mac.or(link.capabilities().address.as_mac().map(Address::Mac));
                builder = harness.add(builder, link, place.mtu, faults);
            }
            let mac = mac.ok_or_else(|| user_error("there is no interface"))?;
            if spec.link != LinkChoice::Auto {
                return Ok((builder, mac));
            }
            // Datagrams carry the bulk. Where they can't be had, raw frames carry all.
            for bind in place.all_ips() {
                if let Ok(link) = udp(place, bind, id, spec) {
                    builder = harness.add(builder, link, place.udp_frame(), faults);
                }
            }
            Ok((builder, mac))
        }
        LinkChoice::Xdp => {
            let tag = id.destination_tag();
            let options = XdpOptions { ethertype, ..XdpOptions::new(&place.interface.name, tag) };
            let link = XdpLink::open(&options).map_err(|error| user_error(error.to_string()))?;
            let mac = Address::Mac(link.mac());
            Ok((harness.add(builder, link, place.mtu, faults), mac))
        }
        LinkChoice::Udp => {
            let (mut builder, mut port) = (builder, None);
            for bind in place.all_ips() {
                let link =
                    udp(place, bind, id, spec).map_err(|error| user_error(error.to_string()))?;
                port = port.or(Some(Address::UdpPort(link.local_address().port())));
                builder = harness.add(builder, link, place.udp_frame(), faults);
            }
            Ok((builder, port.ok_or_else(|| user_error("there is no address"))?))
        }
        LinkChoice::Shm => {
            // The node's own identity, which is unlike any other's, is also its number.
            let options =
                ShmOptions { number: Some(id.0), ..ShmOptions::new(id.destination_tag()) };
            let link = ShmLink::open(&options).map_err(|error| user_error(error.to_string()))?;
            Ok((harness.add(builder, link, place.mtu, faults), Address::Shm(id.0)))
        }
    }
}

/// What has its links where its firmware is.
fn with_service(
    builder: NodeBuilder,
    spec: &Spec,
    place: &Place,
) -> anyhow::Result<(NodeBuilder, Address)> {
    if place.mtu.is_some() {
        bail_user!("--mtu: an engine in empd has frames of the interface's MTU");
    }
    let Some(mac) = place.interface.mac else {
        bail_user!("{} has no Ethernet address", place.interface.name);
    };
    let (plan, interfaces) = (spec.fault_plan()?, vec![place.interface.name.clone()]);
    let auto = AutoLinks { want: Want::Empd, interfaces, ..AutoLinks::default() };
    let builder = builder.auto_links(auto);
    let builder = if plan.is_quiet() { builder } else { builder.faults_of_service(plan) };
    Ok((builder, Address::Mac(mac)))
}

/// By the first way that is open, as nodes choose it ([`RawFrames`]); those that are passed by are said aloud.
fn raw(frames: &RawFrames, choice: LinkChoice) -> anyhow::Result<Box<dyn Link>> {
    let opened = frames.open(RawSource::wanted(choice.want()), |passed| {
        if let PassedBy::Failed(error) = passed {
            eprintln!("emp: not by {}: {}", error.link, error.problem);
        }
    });
    opened.map_err(|error| user_error(error.to_string()))
}

fn udp(place: &Place, bind: IpAddr, id: NodeId, spec: &Spec) -> Result<UdpLink, LinkError> {
    UdpLink::open(&UdpOptions {
        bind: Some(bind),
        port: 0,
        mtu: place.packet_bytes_max(),
        past_ip: spec.link == LinkChoice::Auto && !spec.no_past_ip,
        ..UdpOptions::new(id.destination_tag())
    })
}

impl Place {
    /// The interfaces that EMP uses, the one to measure on first.
    fn all(&self) -> impl Iterator<Item = &Interface> {
        std::iter::once(&self.interface).chain(&self.together)
    }

    /// The interfaces by which raw frames leave: behind relays all that can carry such, as each may lead to one.
    fn all_for_packets(&self) -> anyhow::Result<Vec<Interface>> {
        let named = self.all().cloned();
        if !self.is_behind_relays() || !self.together.is_empty() {
            return Ok(named.collect());
        }
        let others = emp_link::interfaces()?.into_iter();
        let others = others.filter(|other| other.usable_for_packet() && other.running);
        let others = others.filter(|other| other.name != self.interface.name);
        Ok(named.chain(others).take(INTERFACES_MAX).collect())
    }

    /// Addresses at which it takes datagrams: one by each of these that has any.
    fn all_ips(&self) -> impl Iterator<Item = IpAddr> + '_ {
        std::iter::once(self.own).chain(self.together.iter().filter_map(Interface::ip))
    }

    /// Largest frame in a datagram, if it is to be less than the interface's.
    fn udp_frame(&self) -> Option<usize> {
        self.mtu.map(|mtu| mtu.saturating_sub(IP_UDP_BYTES))
    }
}

/// What stands between EMP and its link.
struct Harness(FaultPlan);

impl Harness {
    fn of(spec: &Spec, place: &Place) -> anyhow::Result<Self> {
        if place.mtu.is_some_and(|mtu| mtu < 2 * HEAD_BYTES_MAX) {
            bail_user!("an MTU of {} leaves no room for messages", place.mtu());
        }
        spec.fault_plan().map(Self)
    }

    fn add(
        &self,
        builder: NodeBuilder,
        link: impl Link + 'static,
        frame_bytes_max: Option<usize>,
        faults: &Arc<AtomicU64>,
    ) -> NodeBuilder {
        if self.0.is_quiet() && frame_bytes_max.is_none() {
            return builder.link(link);
        }
        let most = frame_bytes_max.unwrap_or(usize::MAX);
        builder.link(HarnessLink::new(link, &self.0, most, Arc::clone(faults)))
    }
}
