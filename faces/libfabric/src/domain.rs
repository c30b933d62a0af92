//! A domain: one EMP node, with the links of the way that its `fi_info` named.

use std::collections::VecDeque;
use std::ffi::{CStr, c_int, c_void};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use emp_face::log;
use emp_face::node::{FaceNode, Identity, SOME_MAC, Whereabouts, random_identity};
use emp_face::settings::Settings;
use emp_face::users::{Use, Users};
use emp_face::ways::{Way, ways};
use emp_host::{Endpoint, Node};

use crate::address::EpAddress;
use crate::bindings::*;
use crate::entry::enter;
use crate::handle::{Object, fid, give, look, object, take};
use crate::tables::{DomainOps, FidOps, MrOps, NONE};
use crate::{av, cntr, cq, endpoint, mr, params};

/// Endpoints of one domain; each is two of the node's.
pub const ENDPOINTS_MAX: u16 = 256;

/// Number, on the node, of the endpoint that memory is exported by: after those of all endpoints.
const EXPORTER: u16 = 2 * ENDPOINTS_MAX;

/// Everything of a domain that its parts share.
pub struct DomainInner {
    pub face: FaceNode,
    /// Exports this node's memory.
    exporter: OnceLock<Endpoint>,
    /// Numbers of endpoints that are free, the longest unused first: what is still under way to a closed one finds
    /// nobody for as long as possible.
    free_endpoints: Mutex<VecDeque<u16>>,
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
        let Ok(settings) = params::read() else { return -libc::EINVAL };
        let Some(way) = ways(&settings).into_iter().find(|way| way.name() == name) else {
            log::warn(&format!("{name} is not there (any more)"));
            return -libc::ENODEV;
        };
        match DomainInner::start(&way, &settings) {
            Ok(inner) => {
                log::inform(&format!("{name}: frames go by {}", way.kind.name()));
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
                log::warn(&format!("{name}: {problem}"));
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
        domain.inner.face.close();
        // SAFETY: libfabric's rules.
        drop(unsafe { take::<Domain>(fid) });
        0
    })
}

/// What the bits of a registration mode mean, the old name for several of them resolved.
fn registration(mode: c_int) -> c_int {
    if mode == FI_MR_BASIC { FI_MR_VIRT_ADDR | FI_MR_PROV_KEY } else { mode }
}

impl DomainInner {
    fn start(way: &Way, settings: &Settings) -> Result<Self, String> {
        let node = random_identity().map_err(|error| error.to_string())?;
        let name = format!("fi-{}", std::process::id());
        Ok(Self {
            face: FaceNode::start(way, settings, Identity { node, name, udp_port: 0 })?,
            exporter: OnceLock::new(),
            free_endpoints: Mutex::new((0..ENDPOINTS_MAX).collect()),
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
        let udp = self.face.udp;
        let mac = self.face.mac.map(|mac| match udp {
            Some(udp) if udp.is_ipv6() => SOME_MAC,
            _ => mac,
        });
        EpAddress { node: self.node().id(), endpoint, mac, udp }
    }

    /// Tells the node where another one is.
    pub fn learn(&self, peer: &EpAddress) {
        self.face.learn(&Whereabouts { node: peer.node, mac: peer.mac, udp: peer.udp });
    }
}
