//! A domain: one EMP node, with the links of the way that its `fi_info` named.

use std::collections::VecDeque;
use std::ffi::{CStr, c_int, c_void};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use emp_host::{Board, Endpoint, LinkIndex, Node, NodeId};
use emp_link::{
    FaultLink, FaultPlan, Link, LinkAddress, LinkError, PacketLink, PacketOptions, ShmLink,
    ShmOptions, UdpLink, UdpOptions, XdpLink, XdpOptions, interfaces,
};

use crate::address::EpAddress;
use crate::bindings::*;
use crate::entry::enter;
use crate::fork::Unshared;
use crate::handle::{Object, fid, give, look, object, take};
use crate::params::{LinkWish, Parameters};
use crate::tables::{DomainOps, FidOps, MrOps, NONE};
use crate::users::{Use, Users};
use crate::ways::{Kind, Way, ways};
use crate::{av, cntr, core, cq, endpoint, mr};

/// Endpoints of one domain; each is two of the node's.
pub const ENDPOINTS_MAX: u16 = 256;

/// Number, on the node, of the endpoint that memory is exported by: after those of all endpoints.
const EXPORTER: u16 = 2 * ENDPOINTS_MAX;

/// A node that may have raw frames, or shared memory on this machine, is looked for by them alone for so long, before
/// datagrams are tried as well: else the answer that came first would decide.
const FIRST_ALONE: Duration = Duration::from_millis(15);

/// Everything of a domain that its parts share.
pub struct DomainInner {
    pub node: Node,
    pub linger: Duration,
    /// Exports this node's memory.
    exporter: OnceLock<Endpoint>,
    /// Where this node is found.
    mac: Option<[u8; 6]>,
    udp: Option<std::net::SocketAddr>,
    packet_link: Option<LinkIndex>,
    udp_link: Option<LinkIndex>,
    shm_link: Option<LinkIndex>,
    own_macs: Vec<[u8; 6]>,
    own_ips: Vec<IpAddr>,
    /// Numbers of endpoints that are free, the longest unused first: what is still under way to a closed one finds
    /// nobody for as long as possible.
    free_endpoints: Mutex<VecDeque<u16>>,
    /// Hints that are given when raw frames have not found a node.
    later: Mutex<Vec<(Instant, NodeId, LinkAddress)>>,
    any_later: AtomicBool,
    _unshared: Unshared,
}

#[repr(C)]
pub struct Domain {
    fid: Fid,
    ops: *const DomainOps,
    mr: *const MrOps,
    pub inner: Arc<DomainInner>,
    pub users: Users,
    /// How memory is registered: bits of `FI_MR_…`.
    pub mr_mode: c_int,
    pub name: String,
    _of: Use,
}

// SAFETY: `repr(C)`, and begins with its fid.
unsafe impl Object for Domain {}

static FID: FidOps = FidOps::new(close);
static OPS: DomainOps = DomainOps {
    size: size_of::<DomainOps>(),
    av_open: av::open,
    cq_open: cq::open,
    endpoint: endpoint::open,
    scalable_ep: NONE,
    cntr_open: cntr::open,
    poll_open: NONE,
    stx_ctx: NONE,
    srx_ctx: NONE,
    query_atomic: crate::offered::query,
    query_collective: NONE,
    endpoint2: endpoint::open2,
};

/// Opens a domain.
///
/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
pub unsafe extern "C" fn open(
    fabric: *mut crate::fabric::Fabric,
    info: *mut FiInfo,
    into: *mut *mut Domain,
    context: *mut c_void,
) -> c_int {
    enter(|| -> c_int {
        let fabric: &crate::fabric::Fabric = object!(fabric.cast_const());
        let info: &FiInfo = object!(info.cast_const());
        // SAFETY: libfabric's rules.
        let name = unsafe { look(info.domain_attr) }.map(|domain| domain.name);
        // SAFETY: libfabric's rules.
        let mr_mode = unsafe { look(info.domain_attr) }.map_or(0, |domain| domain.mr_mode);
        let name = match name {
            // SAFETY: libfabric's rules: a text.
            Some(name) if !name.is_null() => unsafe { CStr::from_ptr(name) }.to_string_lossy(),
            _ => return -libc::EINVAL,
        };
        let Ok(parameters) = Parameters::read() else { return -libc::EINVAL };
        let Some(way) = ways(&parameters).into_iter().find(|way| way.domain_name() == name) else {
            core::warn(&format!("{name} is not there (any more)"));
            return -libc::ENODEV;
        };
        match DomainInner::start(&way, &parameters) {
            Ok(inner) => {
                core::inform(&format!("{name}: frames go by {}", way.kind.name()));
                let domain = Domain {
                    fid: fid(class::DOMAIN, context, &FID),
                    ops: &OPS,
                    mr: &mr::OPS,
                    inner: Arc::new(inner),
                    users: Users::default(),
                    mr_mode: registration(mr_mode),
                    name: name.into_owned(),
                    _of: fabric.users.one(),
                };
                // SAFETY: libfabric's rules.
                unsafe { give(domain, into) }
            }
            Err(problem) => {
                core::warn(&format!("{name}: {problem}"));
                -libc::ENODEV
            }
        }
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
pub unsafe extern "C" fn open2(
    fabric: *mut crate::fabric::Fabric,
    info: *mut FiInfo,
    into: *mut *mut Domain,
    _flags: u64,
    context: *mut c_void,
) -> c_int {
    enter(|| -> c_int {
        // SAFETY: the same arguments under the same rules.
        unsafe { open(fabric, info, into, context) }
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    enter(|| -> c_int {
        let domain: &Domain = object!(fid.cast::<Domain>().cast_const());
        if domain.users.any() {
            return -libc::EBUSY;
        }
        if let Err(cut) = domain.inner.node.close(domain.inner.linger) {
            core::warn(&format!("closing: {cut}"));
        }
        // SAFETY: libfabric's rules.
        drop(unsafe { take::<Domain>(fid) });
        0
    })
}

/// What the bits of a registration mode mean, the old name for several of them resolved.
fn registration(mode: c_int) -> c_int {
    if mode == FI_MR_BASIC { FI_MR_VIRT_ADDR | FI_MR_PROV_KEY } else { mode }
}

fn random() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    // SAFETY: writes at most the length of the array.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got == bytes.len() as isize {
        Ok(u64::from_ne_bytes(bytes))
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// A link with the faults that the user wants.
fn with_faults(link: impl Link + 'static, plan: &Option<FaultPlan>, node: NodeId) -> Box<dyn Link> {
    match plan {
        None => Box::new(link),
        Some(plan) => {
            // All processes are given the same plan; they must not fail in step.
            let plan = FaultPlan { seed: plan.seed ^ node.0, ..plan.clone() };
            Box::new(FaultLink::new(link, &plan))
        }
    }
}

/// The link for raw frames, and its address. An interface has one AF_XDP node; other processes that want one too get
/// packet, which reaches the same peers.
fn open_raw(
    way: &Way,
    wish: LinkWish,
    node: NodeId,
) -> Result<(Box<dyn Link>, [u8; 6]), LinkError> {
    let (name, tag) = (&way.interface.name, node.destination_tag());
    if wish == LinkWish::Xdp {
        match XdpLink::open(&XdpOptions::new(name, tag)) {
            Ok(link) => {
                let mac = link.mac();
                return Ok((Box::new(link), mac));
            }
            Err(error) if error.is_taken() => {
                core::inform(&format!("packet instead of xdp on {name}: {error}"));
            }
            Err(error) => return Err(error),
        }
    }
    let link = PacketLink::open(&PacketOptions::new(name, tag))?;
    let mac = link.mac();
    Ok((Box::new(link), mac))
}

fn open_udp(way: &Way, node: NodeId) -> Result<UdpLink, LinkError> {
    let mut options = UdpOptions::new(node.destination_tag());
    // An interface without an address still has ranks of this machine to reach.
    options.bind = Some(way.ip().unwrap_or(std::net::Ipv4Addr::LOCALHOST.into()));
    options.port = 0;
    UdpLink::open(&options)
}

/// The node's own identity, drawn at random, is its number there: so whoever knows the node knows its address. Beside other
/// links it reaches the ranks that are known to be on this machine, and hosts made of namespaces are not.
fn open_shm(node: NodeId, alone: bool) -> Result<ShmLink, LinkError> {
    let options = ShmOptions {
        number: Some(node.0),
        broadcast: alone,
        same_network: !alone,
        ..ShmOptions::new(node.destination_tag())
    };
    ShmLink::open(&options)
}

impl DomainInner {
    fn start(way: &Way, parameters: &Parameters) -> Result<Self, String> {
        let say = |error: &dyn std::fmt::Display| error.to_string();
        let node = loop {
            let node = NodeId(random().map_err(|error| say(&error))?);
            if node != NodeId::ANY {
                break node;
            }
        };
        let name = format!("fi-{}", std::process::id());
        let board = Board::Inline { guardian: true };
        let mut builder = Node::builder()
            .name(name)
            .node_id(node)
            .profile(parameters.profile.clone())
            .board(board)
            .linger(parameters.linger)
            .wait_mode(parameters.wait)
            .log(core::inform)
            .notices(core::warn);
        let mut mac = None;
        let fault = &parameters.fault;
        if way.kind == Kind::Packet {
            let (link, address) =
                open_raw(way, parameters.link, node).map_err(|error| say(&error))?;
            mac = Some(address);
            builder = builder.link(with_faults(link, fault, node));
        }
        let shm = way.kind == Kind::Shm;
        if shm {
            let link = open_shm(node, true).map_err(|error| say(&error))?;
            builder = builder.link(with_faults(link, fault, node));
        }
        let udp_link = if shm { None } else { Some(open_udp(way, node)) };
        let udp_link = match udp_link.transpose() {
            Ok(None) => None,
            Ok(Some(link)) => {
                let local = link.local_address();
                let link = with_faults(link, fault, node);
                builder = builder.link(link);
                Some(local)
            }
            Err(error) if mac.is_some() => {
                core::inform(&format!("ranks of this machine will not be reached: {error}"));
                None
            }
            Err(error) => return Err(say(&error)),
        };
        let mut shm_link = shm.then_some(LinkIndex(0));
        if parameters.link == LinkWish::Auto {
            match open_shm(node, false) {
                Ok(link) => {
                    let before = u8::from(mac.is_some()) + u8::from(udp_link.is_some());
                    shm_link = Some(LinkIndex(before));
                    builder = builder.link(with_faults(link, fault, node));
                }
                Err(error) => core::warn(&format!("no shared memory within a machine: {error}")),
            }
        }
        let all = interfaces().unwrap_or_default();
        Ok(Self {
            node: builder.start().map_err(|error| say(&error))?,
            linger: parameters.linger,
            exporter: OnceLock::new(),
            mac,
            udp: udp_link,
            packet_link: mac.map(|_| LinkIndex(0)),
            shm_link,
            udp_link: udp_link.map(|_| LinkIndex(u8::from(mac.is_some()))),
            own_macs: all.iter().filter(|i| !i.loopback).filter_map(|i| i.mac).collect(),
            own_ips: all.into_iter().flat_map(|i| i.addresses).collect(),
            free_endpoints: Mutex::new((0..ENDPOINTS_MAX).collect()),
            later: Mutex::default(),
            any_later: AtomicBool::new(false),
            _unshared: Unshared::new(),
        })
    }

    /// The node's endpoint that memory is exported by. `None`: the node is closed.
    pub fn exporter(&self) -> Option<&Endpoint> {
        if let Some(exporter) = self.exporter.get() {
            return Some(exporter);
        }
        let exporter = self.node.endpoint(EXPORTER).ok()?;
        Some(self.exporter.get_or_init(|| exporter))
    }

    /// A number for an endpoint; `None` if there were too many.
    pub fn next_endpoint(&self) -> Option<u16> {
        self.free_endpoints.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Gives the number of a closed endpoint back.
    pub fn endpoint_gone(&self, number: u16) {
        self.free_endpoints.lock().unwrap_or_else(PoisonError::into_inner).push_back(number);
    }

    /// The address of an endpoint of this domain.
    pub fn address(&self, endpoint: u16) -> EpAddress {
        let mac = self.mac.map(|mac| match self.udp {
            Some(udp) if udp.is_ipv6() => [0; 6],
            _ => mac,
        });
        EpAddress { node: self.node.id(), endpoint, mac, udp: self.udp }
    }

    /// Tells the node where another one is.
    pub fn learn(&self, peer: &EpAddress) {
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
            Some(mac) if mac != [0; 6] => self.own_macs.contains(&mac),
            _ => same_ip,
        };
        match (packet, udp) {
            (Some((link, mac)), udp) if !same_machine => {
                if mac != [0; 6] {
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
    fn try_later(&self, node: NodeId, udp: std::net::SocketAddr) {
        let when = Instant::now() + FIRST_ALONE;
        self.later().push((when, node, LinkAddress::udp(udp)));
        self.any_later.store(true, Ordering::Release);
    }

    fn later(&self) -> std::sync::MutexGuard<'_, Vec<(Instant, NodeId, LinkAddress)>> {
        self.later.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the hints that have become due.
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
        for (_, node, address) in due {
            if self.node.route(node).is_none() {
                self.node.hint(node, link, address);
            }
        }
    }
}
