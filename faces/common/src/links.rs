//! The links of a face's node: those of one of the machine's ways.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use emp_host::{AutoLinks, LinkIndex, NodeBuilder, NodeId, PassedBy, RawFrames, RawSource, Want};
use emp_link::{
    FaultLink, FaultPlan, Interface, Link, LinkError, ShmLink, ShmOptions, UdpLink, UdpOptions,
    XdpLink, XdpOptions,
};

use crate::log;
use crate::node::StartError;
use crate::settings::Settings;
use crate::ways::{Kind, Way};

/// A node whose links are being opened, the better ones first.
pub(crate) struct Opening<'a> {
    way: &'a Way,
    settings: &'a Settings,
    node: NodeId,
    pub(crate) builder: NodeBuilder,
    links: u8,
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) udp: Option<SocketAddr>,
    pub(crate) packet_link: Option<LinkIndex>,
    pub(crate) udp_link: Option<LinkIndex>,
    pub(crate) shm_link: Option<LinkIndex>,
    pub(crate) port: Option<UdpSocket>,
}

impl<'a> Opening<'a> {
    pub(crate) fn of(
        (way, settings): (&'a Way, &'a Settings),
        node: NodeId,
        builder: NodeBuilder,
    ) -> Self {
        let (mac, udp, port) = (None, None, None);
        let (packet_link, udp_link, shm_link) = (None, None, None);
        Self {
            way,
            settings,
            node,
            builder,
            links: 0,
            mac,
            udp,
            packet_link,
            udp_link,
            shm_link,
            port,
        }
    }

    fn add(&mut self, link: impl Link + 'static) -> LinkIndex {
        let link = with_faults(link, &self.settings.fault, self.node);
        self.builder = std::mem::take(&mut self.builder).link(link);
        self.links += 1;
        LinkIndex(self.links - 1)
    }

    /// Those of the service `empd`, in which the engine is; and a port, as for all that have raw frames alone.
    pub(crate) fn of_service(&mut self, port: u16, needs_port: bool) -> Result<(), StartError> {
        let interfaces = vec![self.way.interface.name.clone()];
        let auto = AutoLinks { want: Want::Empd, interfaces, ..AutoLinks::default() };
        let mut builder = std::mem::take(&mut self.builder).auto_links(auto);
        if let Some(plan) = &self.settings.fault {
            builder = builder.faults_of_service(seeded(plan, self.node));
        }
        self.builder = builder;
        self.packet_link = Some(LinkIndex(0));
        self.hold(port, needs_port)
    }

    /// Holds a port that its host will refuse datagrams for once this process has ended, which is how peers learn of that soon.
    fn hold(&mut self, port: u16, needs_port: bool) -> Result<(), StartError> {
        match hold_port(self.way, port) {
            Ok(held) => (self.udp, self.port) = (held.local_addr().ok(), Some(held)),
            Err(error) if needs_port => return Err(error),
            Err(error) => log::inform(&format!("no host will tell that it has ended: {error}")),
        }
        Ok(())
    }

    /// Raw frames, by each interface of the way.
    pub(crate) fn raw_frames(&mut self) -> Result<(), StartError> {
        let (way, want) = (self.way, self.settings.link);
        if way.kind != Kind::Packet {
            return Ok(());
        }
        let (link, address) = match open_raw(way, want, self.node) {
            Ok(opened) => opened,
            // A service that is there and does not serve this user.
            Err(error) if want == Want::Auto && way.ip().is_some() => {
                log::warn(&format!("datagrams alone: {error}"));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        (self.mac, self.packet_link) = (Some(address), Some(self.add(link)));
        for other in way.each_together() {
            let (link, _) = open_raw(&other, want, self.node)?;
            self.add(link);
        }
        Ok(())
    }

    /// Datagrams, at a port; 0: any. Who asks for raw frames gets no second path by datagrams, but a port.
    pub(crate) fn datagrams(&mut self, port: u16, needs_port: bool) -> Result<(), StartError> {
        let (way, settings) = (self.way, self.settings);
        if self.is_only_raw() {
            return self.hold(port, needs_port);
        }
        if way.kind == Kind::Shm {
            return Ok(());
        }
        let all: Vec<_> = std::iter::once(&way.interface).chain(&way.together).collect();
        let link = match open_udp((way, &all), settings, self.node, port) {
            Ok(link) => link,
            Err(error) if self.mac.is_some() && !needs_port => {
                let whom = "processes of this machine, and nodes that have no raw frames,";
                log::inform(&format!("{whom} will not be reached by datagrams: {error}"));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        self.udp = Some(link.local_address());
        self.udp_link = Some(self.add(link));
        for other in way.each_together().filter(|other| other.ip().is_some()) {
            match open_udp((&other, &all), settings, self.node, 0) {
                Ok(link) => drop(self.add(link)),
                Err(error) => {
                    let name = &other.interface.name;
                    log::inform(&format!("no datagrams by {name}: {error}"));
                }
            }
        }
        Ok(())
    }

    /// Memory shared within the machine, whose processes raw frames do not reach.
    pub(crate) fn memory(&mut self) -> Result<(), StartError> {
        let alone = self.way.kind == Kind::Shm;
        if !(alone || self.is_only_raw() || self.settings.link == Want::Auto) {
            return Ok(());
        }
        match open_shm(self.node, alone) {
            Ok(link) => self.shm_link = Some(self.add(link)),
            Err(error) if alone => return Err(error.into()),
            Err(error) => log::warn(&format!("no shared memory within a machine: {error}")),
        }
        Ok(())
    }

    fn is_only_raw(&self) -> bool {
        self.mac.is_some() && self.settings.link != Want::Auto
    }
}

/// All processes are given the same plan; they must not fail in step.
fn seeded(plan: &FaultPlan, node: NodeId) -> FaultPlan {
    FaultPlan { seed: plan.seed ^ node.0, ..plan.clone() }
}

/// A link with the faults that the user wants.
pub(crate) fn with_faults(
    link: impl Link + 'static,
    plan: &Option<FaultPlan>,
    node: NodeId,
) -> Box<dyn Link> {
    match plan {
        None => Box::new(link),
        Some(plan) => Box::new(FaultLink::new(link, &seeded(plan, node))),
    }
}

/// The link for raw frames, and its address. An interface has one AF_XDP node; other processes that want one too get
/// packet, which reaches the same peers.
pub(crate) fn open_raw(
    way: &Way,
    want: Want,
    node: NodeId,
) -> Result<(Box<dyn Link>, [u8; 6]), LinkError> {
    let name = &way.interface.name;
    if want == Want::Xdp {
        match XdpLink::open(&XdpOptions::new(name, node.destination_tag())) {
            Ok(link) => {
                let mac = link.mac();
                return Ok((Box::new(link), mac));
            }
            Err(error) if error.is_taken() => {
                log::inform(&format!("packet instead of xdp on {name}: {error}"));
            }
            Err(error) => return Err(error),
        }
    }
    let sources = RawSource::wanted(if want == Want::Xdp { Want::Packet } else { want });
    // Beside datagrams ([`Opening::datagrams`]).
    let small_frames_only = want == Want::Auto;
    let frames = RawFrames { small_frames_only, ..RawFrames::new(name, node) };
    let link = frames.open(sources, |passed| match passed {
        PassedBy::Failed(error) => {
            log::inform(&format!("the next way for raw frames on {name}: {error}"));
        }
        PassedBy::NoService(why) => log::inform(&format!("raw frames on {name}: {why}")),
    })?;
    let mac = link.capabilities().address.as_mac().unwrap_or_default();
    Ok((link, mac))
}

/// The datagrams of one interface, of `all` that the node uses.
pub(crate) fn open_udp(
    (way, all): (&Way, &[&Interface]),
    settings: &Settings,
    node: NodeId,
    port: u16,
) -> Result<UdpLink, LinkError> {
    let mut options = UdpOptions::new(node.destination_tag());
    // An interface without an address still has processes of this machine to reach.
    options.bind = Some(way.ip().unwrap_or(Ipv4Addr::LOCALHOST.into()));
    (options.port, options.past_ip) = (port, settings.udp_past_ip());
    options.peers.clone_from(&settings.peers);
    options.by_own_interface = all.iter().any(|other| way.interface.shares_subnet(other));
    UdpLink::open(&options)
}

/// Takes a port, so that nobody else can, and nothing from it. What is sent there is kept up to the size of a socket's buffer, and then dropped.
fn hold_port(way: &Way, port: u16) -> Result<UdpSocket, StartError> {
    let ip = way.ip().unwrap_or(Ipv4Addr::LOCALHOST.into());
    UdpSocket::bind((ip, port)).map_err(|error| StartError {
        what: format!("UDP port {port} of {ip} is not to be had: {error}"),
        code: error.raw_os_error(),
    })
}

/// The node's own identity is its number there: so whoever knows the node knows its address. Beside other links it reaches
/// the processes that are known to be on this machine, and hosts made of namespaces are not.
fn open_shm(node: NodeId, alone: bool) -> Result<ShmLink, LinkError> {
    let options = ShmOptions {
        number: Some(node.0),
        broadcast: alone,
        same_network: !alone,
        ..ShmOptions::new(node.destination_tag())
    };
    ShmLink::open(&options)
}
