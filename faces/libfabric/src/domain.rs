//! A domain: one EMP node, with the links of the way that its `fi_info` named.

use std::collections::VecDeque;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use emp_face::log;
use emp_face::node::{FaceNode, Identity, random_identity};
use emp_face::settings::Settings;
use emp_face::users::{Use, Users};
use emp_face::ways::{Way, ways};
use emp_face::whereabouts::{SOME_MAC, Whereabouts};
use emp_host::{Endpoint, Node, WaitMode};

use crate::asked::{Format, source_of};
use crate::bindings::*;
use crate::entry::entry;
use crate::ep_address::{EpAddress, SERVICE_ENDPOINT};
use crate::events::Counted;
use crate::flags::Caps;
use crate::objects::{Object, aloud, downcast, fid, give, look, object, take};
use crate::tables::{DomainOps, FidOps, MrOps, NONE};
use crate::{av, cntr, cq, endpoint, mr, params, stx};

/// Endpoints of one domain; each is two of the node's.
pub const ENDPOINTS_MAX: u16 = 256;

/// Number, on the node, of the endpoint that memory is exported by: after those of all endpoints.
const EXPORTER: u16 = 2 * ENDPOINTS_MAX;

/// Everything of a domain that its parts share.
pub struct DomainInner {
    pub face: FaceNode,
    /// The way that was taken.
    pub way: Way,
    pub format: Format,
    service: Service,
    /// Targets are told of what is done to them (`FI_RMA_EVENT`).
    pub tells: bool,
    pub counted: Counted,
    /// Calls that find nothing return at once, and never give the core away (`FI_EMP_WAIT=spin`).
    pub spins: bool,
    /// Exports this node's memory.
    exporter: OnceLock<Endpoint>,
    /// Numbers of endpoints that are free, the longest unused first: what is still under way to a closed one finds
    /// nobody for as long as possible.
    free_endpoints: Mutex<VecDeque<u16>>,
    /// That there is none was said.
    said_full: AtomicBool,
}

/// Where a domain's first endpoint listens, if that was said when it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Service {
    None,
    Listens(EpAddress),
    /// It is somebody else's, or may not be had: the system's error.
    Refused(EpAddress, c_int),
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
    /// As [`Fabric::sizes_error_data`](crate::fabric::Fabric::sizes_error_data).
    pub sizes_error_data: bool,
    _of: Use,
}

// SAFETY: `repr(C)`, and begins with its fid, whose table no other type has.
unsafe impl Object for Domain {
    const CLASS: usize = class::DOMAIN;

    fn table() -> &'static FidOps {
        &FID
    }
}

static FID: FidOps = FidOps::new(close);
static OPS: DomainOps = DomainOps {
    size: size_of::<DomainOps>(),
    av_open: av::open,
    cq_open: cq::open,
    endpoint: endpoint::open,
    scalable_ep: NONE,
    cntr_open: cntr::open,
    poll_open: NONE,
    stx_ctx: stx::open,
    srx_ctx: NONE,
    query_atomic: crate::offered::query,
    query_collective: crate::offered::query_collective,
    endpoint2: endpoint::open2,
};

entry! {
    /// Opens a domain.
    pub fn open(
        fabric: &crate::fabric::Fabric, info: *mut FiInfo, into: *mut *mut Domain,
        context: *mut c_void,
    ) -> c_int {
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
        let Ok(settings) = params::read() else { return -libc::EINVAL };
        let Some(way) = way_called(&name, &settings) else {
            log::warn(&format!("{name} is not there (any more)"));
            return -libc::ENODEV;
        };
        let Some(format) = Format::of(info.addr_format) else { return -libc::EINVAL };
        // SAFETY: libfabric's rules.
        let source = unsafe { source_of(info, std::slice::from_ref(&way)) };
        let tells = info.caps.has(Caps::RMA_EVENT);
        match DomainInner::start(way, format, source, tells, &settings) {
            Ok(inner) => {
                let (by, at) = (inner.face.link_name(), inner.address(SERVICE_ENDPOINT));
                log::inform(&format!("{name}: frames go by {by}; the first endpoint is {at}"));
                let domain = Domain {
                    fid: fid(class::DOMAIN, context, &FID),
                    ops: &OPS,
                    mr: &mr::OPS,
                    inner: Arc::new(inner),
                    users: Users::default(),
                    mr_mode: registration(mr_mode),
                    name: name.into_owned(),
                    sizes_error_data: fabric.sizes_error_data(),
                    _of: fabric.users.one(),
                };
                // SAFETY: libfabric's rules.
                unsafe { give(domain, into) }
            }
            Err(problem) => {
                log::warn(&format!("{name}: {problem}"));
                -libc::ENODEV
            }
        }
    }

    pub fn open2(
        fabric: *mut crate::fabric::Fabric, info: *mut FiInfo, into: *mut *mut Domain, flags: u64,
        context: *mut c_void,
    ) -> c_int {
        // All that there are make it part of something (`FI_PEER`).
        if flags != 0 {
            return -error::BADFLAGS;
        }
        // SAFETY: the same arguments under the same rules.
        unsafe { open(fabric, info, into, context) }
    }

    fn close(fid: *mut Fid) -> c_int {
        let domain: &Domain = downcast!(fid);
        if domain.users.any() {
            return aloud("fi_close", -libc::EBUSY);
        }
        domain.inner.face.close();
        // SAFETY: libfabric's rules.
        drop(unsafe { take::<Domain>(fid) });
        0
    }
}

/// What the bits of a registration mode mean, the old name for several of them resolved.
fn registration(mode: c_int) -> c_int {
    if mode == FI_MR_BASIC { FI_MR_VIRT_ADDR | FI_MR_PROV_KEY } else { mode }
}

/// The way of this name: of those that are offered unasked, or by an interface that was asked for.
fn way_called(name: &str, settings: &Settings) -> Option<Way> {
    let called = |way: &Way| way.name() == name;
    ways(settings).into_iter().find(called).or_else(|| {
        let interface = name.strip_suffix("-udp").unwrap_or(name).to_owned();
        let (interfaces, interfaces_variable) = (vec![interface], String::new());
        let settings = Settings { interfaces, interfaces_variable, ..settings.clone() };
        ways(&settings).into_iter().find(called)
    })
}

/// Takes the place where a service is to listen, as far as it has one. The socket is the node's later on.
fn check_place(service: &EpAddress) -> Result<(), c_int> {
    let Some(udp) = service.udp else { return Ok(()) };
    match std::net::UdpSocket::bind(udp) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.raw_os_error().unwrap_or(libc::EADDRINUSE)),
    }
}

impl DomainInner {
    fn start(
        mut way: Way,
        format: Format,
        source: Option<EpAddress>,
        tells: bool,
        settings: &Settings,
    ) -> Result<Self, String> {
        // An interface may have several addresses: the one that was asked for is the only one then.
        if let Some(ip) = source.and_then(|source| source.udp).map(|udp| udp.ip())
            && way.interface.addresses.contains(&ip)
        {
            way.interface.addresses = vec![ip];
        }
        let service = source.filter(|source| source.service && source.has_somebody());
        let service = service.map_or(Service::None, |service| match check_place(&service) {
            Ok(()) => Service::Listens(service),
            Err(error) => Service::Refused(service, error),
        });
        let start = |node, udp_port| {
            let name = format!("fi-{}", std::process::id());
            let needs_port = udp_port != 0;
            FaceNode::start(&way, settings, Identity { node, name, udp_port, needs_port })
        };
        let alone = || -> Result<_, String> {
            Ok(start(random_identity().map_err(|error| error.to_string())?, 0)?)
        };
        let (face, service) = match service {
            Service::Listens(at) => match start(at.node, at.udp.map_or(0, |udp| udp.port())) {
                Ok(face) => (face, service),
                // Taken since it was looked at, or in shared memory, where the identity itself is the place.
                Err(problem) => {
                    log::inform(&format!("{at}: {problem}"));
                    (alone()?, Service::Refused(at, problem.code.unwrap_or(libc::EADDRNOTAVAIL)))
                }
            },
            _ => (alone()?, service),
        };
        Ok(Self {
            face,
            way,
            format,
            service,
            tells,
            counted: Counted::default(),
            spins: settings.wait == WaitMode::Spin,
            exporter: OnceLock::new(),
            free_endpoints: Mutex::new((0..ENDPOINTS_MAX).collect()),
            said_full: AtomicBool::new(false),
        })
    }

    pub fn node(&self) -> &Node {
        &self.face.node
    }

    /// The node's endpoint that memory is exported by. `None`: the node is closed.
    pub fn exporter(&self) -> Option<&Endpoint> {
        if let Some(exporter) = self.exporter.get() {
            return Some(exporter);
        }
        let exporter = self.node().endpoint(EXPORTER).ok()?;
        Some(self.exporter.get_or_init(|| exporter))
    }

    /// A number for an endpoint. `source`: where it is to be reached, if that was said.
    pub fn next_endpoint(&self, source: Option<EpAddress>) -> Result<u16, c_int> {
        let source = source.filter(|source| source.service && source.has_somebody());
        match (source, self.service) {
            (Some(source), Service::Listens(at)) if source.node == at.node => {
                self.take_endpoint(|_| true)
            }
            (Some(source), Service::Refused(at, error)) if source.node == at.node => {
                let why = std::io::Error::from_raw_os_error(error);
                log::warn(&format!("nothing can listen at {source}: {why}"));
                Err(-error)
            }
            (Some(source), _) => {
                log::warn(&format!("{source}: its domain was opened for another address"));
                Err(-libc::EADDRNOTAVAIL)
            }
            // The number of those who listen is kept for them.
            (None, Service::Listens(_)) => self.take_endpoint(|number| number != SERVICE_ENDPOINT),
            (None, _) => self.take_endpoint(|_| true),
        }
    }

    fn take_endpoint(&self, fits: impl Fn(u16) -> bool) -> Result<u16, c_int> {
        let mut free = self.free_endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever listens again after a close is to be found again.
        let listens = free.iter().position(|number| *number == SERVICE_ENDPOINT && fits(*number));
        let service = listens.filter(|_| matches!(self.service, Service::Listens(_)));
        let place = service.or_else(|| free.iter().position(|number| fits(*number)));
        place.and_then(|place| free.remove(place)).ok_or_else(|| {
            if !self.said_full.swap(true, Ordering::Relaxed) {
                log::warn(&format!(
                    "{ENDPOINTS_MAX} endpoints are open, which is as many as a domain may have: close some, or open another domain"
                ));
            }
            -libc::ENOSPC
        })
    }

    /// Gives the number of a closed endpoint back.
    pub fn endpoint_gone(&self, number: u16) {
        self.free_endpoints.lock().unwrap_or_else(PoisonError::into_inner).push_back(number);
    }

    /// The address of an endpoint of this domain.
    pub fn address(&self, endpoint: u16) -> EpAddress {
        let udp = self.face.udp;
        let mac = self.face.mac.map(|mac| match udp {
            Some(udp) if udp.is_ipv6() => SOME_MAC,
            _ => mac,
        });
        // Its text is where it listens, from which its identity is computed: one that is known by a name is written in full.
        let place = matches!(self.service, Service::Listens(at) if at.udp.is_some());
        let service = place && endpoint == SERVICE_ENDPOINT;
        EpAddress { node: self.node().id(), endpoint, mac, udp, service }
    }

    /// Tells the node where another one is.
    pub fn learn(&self, peer: &EpAddress) {
        self.face.learn(&Whereabouts { node: peer.node, mac: peer.mac, udp: peer.udp });
    }
}
