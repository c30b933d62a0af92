//! `fi_getinfo`: what this provider can do, as far as it fits what the application asks for.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use crate::asked::{Asked, Format, asked, text as given_text};
use crate::bindings::*;
use crate::core;
use crate::domain::Domain;
use crate::entry::entry;
use crate::ep_address::EpAddress;
use crate::fabric::Fabric;
use crate::flags::{Caps, InfoFlags, OpFlags};
use crate::inject::{self, INJECT_BYTES};
use crate::objects::{Object, down, look};
use crate::params;
use crate::places::Place;
use emp_face::log;
use emp_face::ways::{Way, ways};
use emp_host::Board;

/// What an endpoint has that is asked for nothing: all but what costs others something.
pub const CAPS: Caps = CAPS_PRIMARY.with(CAPS_DIRECTION).with(CAPS_SECONDARY).with(CAPS_PLACE);
const CAPS_PRIMARY: Caps = CAPS_MESSAGES.with(CAPS_REMOTE);
const CAPS_MESSAGES: Caps = Caps::MSG.with(Caps::TAGGED);
const CAPS_REMOTE: Caps = Caps::RMA.with(Caps::ATOMIC);
const CAPS_DIRECTION: Caps = MESSAGE_DIRECTIONS.with(REMOTE_DIRECTIONS);
const MESSAGE_DIRECTIONS: Caps = Caps::SEND.with(Caps::RECV);
const INITIATORS: Caps = Caps::READ.with(Caps::WRITE);
const TARGETS: Caps = Caps::REMOTE_READ.with(Caps::REMOTE_WRITE);
const REMOTE_DIRECTIONS: Caps = INITIATORS.with(TARGETS);
const CAPS_SECONDARY: Caps = Caps::MULTI_RECV.with(Caps::SOURCE).with(Caps::DIRECTED_RECV);
/// These cost nothing and are always given.
const CAPS_PLACE: Caps = Caps::LOCAL_COMM.with(Caps::REMOTE_COMM);

/// For those who ask for it only: it costs frames.
const CAPS_EVENTS: Caps = Caps::RMA_EVENT;
/// Of a domain, for those who ask for it.
const CAPS_DOMAIN: Caps = Caps::AV_USER_ID;

const TX_CAPS: Caps = CAPS_PRIMARY.with(Caps::SEND).with(INITIATORS);
const RX_CAPS: Caps = CAPS_PRIMARY.with(CAPS_SECONDARY).with(Caps::RECV).with(TARGETS);

/// What programs from before each direction had capabilities of its own name for both, as they were asked to: those of receiving
/// mean nothing of sending, and the other way round.
const RX_ONLY: Caps =
    Caps::RECV.with(TARGETS).with(CAPS_SECONDARY).with(CAPS_EVENTS).with(Caps::SOURCE_ERR);
const TX_ONLY: Caps =
    Caps::SEND.with(INITIATORS).with(Caps::FENCE).with(Caps::MULTICAST).with(Caps::NAMED_RX_CTX);

/// Flags that may be set for all operations of an endpoint.
pub const TX_FLAGS: OpFlags =
    OpFlags::COMPLETION.with(OpFlags::INJECT).with(OpFlags::COMPLETION_LEVELS);
pub const RX_FLAGS: OpFlags = OpFlags::COMPLETION.with(OpFlags::MULTI_RECV);

/// What arrives in the order in which it was posted: messages, and atomics.
const ORDERS: u64 = FI_ORDER_SAS | FI_ORDER_ATOMIC;
/// Runs of remote memory that one operation names: what MPIs make use of.
pub const REMOTE_IOV_LIMIT: usize = 4;
/// Segments of one operation, as offered unasked: what other providers have, and applications are tested with.
const IOV_USUAL: usize = 4;
/// The same, at most.
pub const IOV_LIMIT: usize = 8;
/// Operations of one endpoint that may be outstanding, unless more are asked for.
const DEPTH: usize = 1024;
/// The same, at most. More are taken than this says: what a node may have is for all its endpoints, and nothing is set aside for one.
const DEPTH_MAX: usize = 32 << 10;
/// Longest message in bytes: beyond any memory, and far from where sums overflow.
pub const MESSAGE_BYTES_MAX: usize = 1 << 46;
/// The same of a node whose engine is in the service: a quarter of what that holds for it (`held_bytes_per_engine`), all of a message at once.
const MESSAGE_BYTES_SERVED: usize = 64 << 20;
/// All tag bits are to be had: no field is marked.
const TAG_FORMAT: u64 = 0xAAAA_AAAA_AAAA_AAAA;

/// Version of the wire protocol, and bytes of a region's key.
const PROTOCOL_VERSION: u32 = 1;
const KEY_BYTES: usize = 8;

/// Interface version from which on modes of registration are bits.
const MR_MODE_BITS_SINCE: u32 = version(1, 5);

/// Endpoints of a domain.
const ENDPOINTS: usize = crate::domain::ENDPOINTS_MAX as usize;
/// Completion queues of a domain, and counters: memory is the only limit; this says "many".
const QUEUES: usize = 1 << 12;
/// Regions of a domain: as many as a node can export.
const REGIONS: usize = 1 << 16;
/// Highest values of these enumerations that are known.
const THREADING_MAX: u32 = 5;
const PROGRESS_MAX: u32 = 3;

/// Wire protocol and address format, in the space of providers' own values.
const PROTOCOL: u32 = FI_PROV_SPECIFIC | 0x45_4D50;
pub const ADDRESS_FORMAT: u32 = PROTOCOL;

/// Bytes that each block is longer than the structure in it, all zero: newer cores have members there.
const SPARE_BYTES: usize = 256;

const _: () = assert!(size_of::<FiDomainAttrSince25>() <= SPARE_BYTES);

/// A zeroed block that the core can `free`. Null if there is no memory.
fn zeroed<T>() -> *mut T {
    // SAFETY: asks for memory only.
    unsafe { libc::calloc(1, size_of::<T>() + SPARE_BYTES).cast() }
}

/// A text that the core can `free`.
fn text(text: &str) -> *mut c_char {
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: it ends with a zero.
    unsafe { libc::strdup(text.as_ptr()) }
}

/// The parts of hints that were given.
struct Hints<'a> {
    info: Option<&'a FiInfo>,
    tx: Option<&'a FiTxAttr>,
    rx: Option<&'a FiRxAttr>,
    ep: Option<&'a FiEpAttr>,
    domain: Option<&'a FiDomainAttr>,
    fabric: Option<&'a FiFabricAttr>,
    /// The user wants this provider and no other: what it lacks is said aloud.
    wanted: bool,
}

/// True if a list of providers, as `FI_PROVIDER` has it, names this one.
fn names_emp(list: &str) -> bool {
    !list.starts_with('^') && list.split(',').any(|name| name.eq_ignore_ascii_case("emp"))
}

impl<'a> Hints<'a> {
    /// # Safety
    ///
    /// As [`look`].
    unsafe fn new(hints: *const FiInfo, flags: InfoFlags) -> Self {
        // SAFETY: libfabric's rules, for the hints and all that they point to.
        unsafe {
            let info: Option<&'a FiInfo> = look(hints);
            let fabric = info.and_then(|info| look(info.fabric_attr));
            let name =
                fabric.map_or(std::ptr::null_mut(), |fabric: &FiFabricAttr| fabric.prov_name);
            let named = !name.is_null() && CStr::from_ptr(name) == c"emp";
            let chosen = || core::chosen_providers().is_some_and(|list| names_emp(&list));
            Self {
                info,
                tx: info.and_then(|info| look(info.tx_attr)),
                rx: info.and_then(|info| look(info.rx_attr)),
                ep: info.and_then(|info| look(info.ep_attr)),
                domain: info.and_then(|info| look(info.domain_attr)),
                fabric,
                // Providers that would be put on top of this one ask for what it is not, each time that anybody asks for anything.
                wanted: !flags.has(InfoFlags::FROM_WITHIN) && (named || chosen()),
            }
        }
    }

    /// What no way at all can have of what is asked for.
    fn too_much(&self, board: Board) -> Option<&'static str> {
        let problems = [
            (
                self.info.is_some_and(|i| i.caps.exceeds(CAPS.with(CAPS_DOMAIN).with(CAPS_EVENTS))),
                "capabilities",
            ),
            (self.info.is_some_and(|i| Format::of(i.addr_format).is_none()), "addresses"),
            (self.ep.is_some_and(|e| ![0, FI_EP_RDM].contains(&e.kind)), "endpoint type"),
            (self.ep.is_some_and(|e| ![0, PROTOCOL].contains(&e.protocol)), "protocol"),
            (self.ep.is_some_and(|e| e.max_msg_size > longest(board)), "message size"),
            (self.ep.is_some_and(|e| many(e.tx_ctx_cnt) && !shares(e)), "transmit contexts"),
            (self.ep.is_some_and(|e| many(e.rx_ctx_cnt)), "receive contexts"),
            (self.ep.is_some_and(|e| e.auth_key_size != 0), "authorization keys"),
            (
                self.tx.is_some_and(|t| t.caps.exceeds(TX_CAPS.with(CAPS_PLACE).with(RX_ONLY))),
                "tx capabilities",
            ),
            (self.tx.is_some_and(|t| t.op_flags.exceeds(TX_FLAGS)), "tx flags"),
            (self.tx.is_some_and(|t| t.msg_order & !ORDERS != 0), "tx order"),
            (self.tx.is_some_and(|t| t.comp_order != 0), "tx completion order"),
            (self.tx.is_some_and(|t| t.inject_size > INJECT_BYTES), "inject size"),
            (self.tx.is_some_and(|t| t.size > DEPTH_MAX), "tx size"),
            (self.tx.is_some_and(|t| t.iov_limit > IOV_LIMIT), "tx segments"),
            (self.tx.is_some_and(|t| t.rma_iov_limit > REMOTE_IOV_LIMIT), "remote segments"),
            (
                self.rx.is_some_and(|r| {
                    r.caps.exceeds(RX_CAPS.with(CAPS_PLACE).with(CAPS_EVENTS).with(TX_ONLY))
                }),
                "rx capabilities",
            ),
            (self.rx.is_some_and(|r| r.op_flags.exceeds(RX_FLAGS)), "rx flags"),
            (self.rx.is_some_and(|r| r.msg_order & !ORDERS != 0), "rx order"),
            (self.rx.is_some_and(|r| r.comp_order != 0), "rx completion order"),
            (self.rx.is_some_and(|r| r.size > DEPTH_MAX), "rx size"),
            (self.rx.is_some_and(|r| r.iov_limit > IOV_LIMIT), "rx segments"),
            (self.domain.is_some_and(|d| d.cq_data_size > 8), "completion data size"),
            (self.domain.is_some_and(|d| d.threading > THREADING_MAX), "threading"),
            (self.domain.is_some_and(|d| d.control_progress > PROGRESS_MAX), "control progress"),
            (self.domain.is_some_and(|d| d.data_progress > PROGRESS_MAX), "data progress"),
            (self.domain.is_some_and(|d| d.av_type > FI_AV_TABLE), "address vectors"),
            (self.domain.is_some_and(|d| d.ep_cnt > ENDPOINTS), "endpoints"),
            (self.domain.is_some_and(|d| d.tx_ctx_cnt > ENDPOINTS), "transmit contexts"),
            (self.domain.is_some_and(|d| d.rx_ctx_cnt > ENDPOINTS), "receive contexts"),
            (self.domain.is_some_and(|d| d.cq_cnt > QUEUES), "completion queues"),
            (self.domain.is_some_and(|d| d.cntr_cnt > QUEUES), "counters"),
            (
                self.domain.is_some_and(|d| d.caps.exceeds(CAPS_PLACE.with(CAPS_DOMAIN))),
                "domain capabilities",
            ),
            (self.domain.is_some_and(|d| d.auth_key_size != 0), "authorization keys"),
            (self.domain.is_some_and(|d| d.mr_iov_limit > 1), "segments of a region"),
            (self.domain.is_some_and(|d| d.mr_cnt > REGIONS), "regions"),
            (self.domain.is_some_and(|d| d.max_err_data > 0), "error data"),
            (self.domain.is_some_and(|d| d.mr_key_size > KEY_BYTES), "key size"),
            (self.domain.is_some_and(|d| d.max_ep_stx_ctx > ENDPOINTS), "shared transmit contexts"),
            (self.domain.is_some_and(|d| d.max_ep_srx_ctx > 0), "shared receive contexts"),
            (self.domain.is_some_and(|d| many(d.max_ep_tx_ctx)), "contexts of an endpoint"),
            (self.domain.is_some_and(|d| many(d.max_ep_rx_ctx)), "contexts of an endpoint"),
            (self.ep.is_some_and(|e| e.max_order_raw_size > MESSAGE_BYTES_MAX), "ordered size"),
            (self.ep.is_some_and(|e| e.max_order_war_size > MESSAGE_BYTES_MAX), "ordered size"),
            (self.ep.is_some_and(|e| e.max_order_waw_size > MESSAGE_BYTES_MAX), "ordered size"),
            (self.ep.is_some_and(|e| e.msg_prefix_size > 0), "message prefixes"),
            (self.ep.is_some_and(|e| e.protocol_version > PROTOCOL_VERSION), "protocol version"),
            (
                self.fabric.is_some_and(|f| f.prov_version > crate::PROVIDER_VERSION),
                "provider version",
            ),
        ];
        problems.into_iter().find(|(problem, _)| *problem).map(|(_, what)| what)
    }

    /// True if the hints name this domain, or none.
    fn name(&self, domain: &str) -> bool {
        let is = |name: *mut c_char, ours: &str| {
            // SAFETY: libfabric's rules: null or a text.
            name.is_null() || unsafe { CStr::from_ptr(name) }.to_str() == Ok(ours)
        };
        // SAFETY: libfabric's rules: null or an open domain, of whatever provider.
        let open = self.domain.map_or(Some(None), |hint| unsafe { given(hint.domain) });
        let Some(open) = open else { return false };
        // SAFETY: likewise, a fabric.
        let fabric = self.fabric.map_or(Some(None), |hint| unsafe { given::<Fabric>(hint.fabric) });
        fabric.is_some()
            && open.is_none_or(|open: &Domain| open.name == domain)
            && self.domain.is_none_or(|hint| is(hint.name, domain))
            && self.fabric.is_none_or(|hint| is(hint.name, FABRIC))
    }

    /// The capabilities that are given: those asked for, and what comes with them.
    fn caps(&self) -> Caps {
        with_directions(self.info.map_or(Caps::NONE, |info| info.caps)).with(CAPS_PLACE)
    }
}

/// An object that hints hand in: `Some(None)` if there is none, `None` if it is another provider's.
///
/// # Safety
///
/// Null or an open object of any provider.
unsafe fn given<'a, T: Object>(pointer: *mut c_void) -> Option<Option<&'a T>> {
    // SAFETY: the caller says so.
    if pointer.is_null() { Some(None) } else { unsafe { down(pointer.cast()) }.map(Some) }
}

/// Capabilities as they are meant: all if none is named, all directions of messages, or of remote memory, if none of
/// them is.
pub fn with_directions(caps: Caps) -> Caps {
    if caps == Caps::NONE {
        return CAPS;
    }
    let pairs = [(CAPS_MESSAGES, MESSAGE_DIRECTIONS), (CAPS_REMOTE, REMOTE_DIRECTIONS)];
    pairs.into_iter().fold(caps, |all, (primary, directions)| {
        let open = caps.has_any(primary) && !caps.has_any(directions);
        if open { all.with(directions) } else { all }
    })
}

/// The same with the right to begin reads and writes for who names only those of the target: libfabric's own providers give it.
pub fn with_initiators(caps: Caps) -> Caps {
    let none = caps.has_any(CAPS_REMOTE) && !caps.has_any(INITIATORS);
    if none { caps.with(INITIATORS) } else { caps }
}

fn many(contexts: usize) -> bool {
    // All bits set asks for a shared context.
    contexts > 1
}

fn shares(endpoint: &FiEpAttr) -> bool {
    endpoint.tx_ctx_cnt == FI_SHARED_CONTEXT
}

/// The name of the fabric: one for all, as any node may reach any other.
const FABRIC: &str = "emp";

/// An address that the core can `free`, with its length. None if there is no memory.
fn address(format: Format, address: &EpAddress) -> (*mut c_void, usize) {
    let bytes = format.write(address);
    // SAFETY: asks for memory, and writes what there is room for.
    unsafe {
        let block = libc::calloc(1, bytes.len() + SPARE_BYTES);
        if block.is_null() {
            return (block, 0);
        }
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), block.cast::<u8>(), bytes.len());
        (block, bytes.len())
    }
}

/// One `fi_info`.
fn build(
    (way, source): &(Way, EpAddress),
    destination: Option<&EpAddress>,
    hints: &Hints<'_>,
    api_version: u32,
    board: Board,
) -> Option<*mut FiInfo> {
    let info = zeroed::<FiInfo>();
    let parts = (zeroed(), zeroed(), zeroed(), zeroed(), zeroed());
    let (tx, rx, ep, domain, fabric): (
        *mut FiTxAttr,
        *mut FiRxAttr,
        *mut FiEpAttr,
        *mut FiDomainAttr,
        *mut FiFabricAttr,
    ) = parts;
    if info.is_null()
        || tx.is_null()
        || rx.is_null()
        || ep.is_null()
        || domain.is_null()
        || fabric.is_null()
    {
        let blocks: [*mut c_void; 6] =
            [info.cast(), tx.cast(), rx.cast(), ep.cast(), domain.cast(), fabric.cast()];
        for block in blocks {
            // SAFETY: null or from `calloc`, and not used any more.
            unsafe { libc::free(block) };
        }
        return None;
    }
    // SAFETY: fresh blocks of these types; all zero is a valid value of each.
    let (info, tx, rx, ep, domain, fabric) =
        unsafe { (&mut *info, &mut *tx, &mut *rx, &mut *ep, &mut *domain, &mut *fabric) };
    let caps = hints.caps();

    tx.caps = with_initiators(caps).only(TX_CAPS);
    tx.op_flags = hints.tx.map_or(OpFlags::NONE, |hint| hint.op_flags);
    tx.msg_order = ORDERS;
    tx.inject_size = hints.tx.map_or(0, |hint| hint.inject_size).max(inject::offered());
    tx.size = hints.tx.map_or(0, |hint| hint.size).max(DEPTH);
    tx.iov_limit = hints.tx.map_or(0, |hint| hint.iov_limit).max(IOV_USUAL);
    tx.rma_iov_limit = if caps.has_any(CAPS_REMOTE) { REMOTE_IOV_LIMIT } else { 0 };

    rx.caps = caps.only(RX_CAPS.with(CAPS_EVENTS));
    rx.op_flags = hints.rx.map_or(OpFlags::NONE, |hint| hint.op_flags);
    rx.msg_order = ORDERS;
    rx.size = hints.rx.map_or(0, |hint| hint.size).max(DEPTH);
    rx.iov_limit = hints.rx.map_or(0, |hint| hint.iov_limit).max(IOV_USUAL);

    fill_endpoint(ep, hints, board);
    fill_domain(domain, way, hints, api_version);
    let newer: *mut FiDomainAttrSince25 = std::ptr::from_mut(domain).wrapping_add(1).cast();
    // SAFETY: the block is so much longer, and all zero is a valid value.
    let newer = unsafe { &mut *newer };
    // Whatever a hint wants: counters go round at 64 bits.
    (newer.max_cntr_value, newer.max_err_cntr_value) = (u64::MAX, u64::MAX);

    fabric.name = text(FABRIC);
    fabric.prov_version = crate::PROVIDER_VERSION;
    fabric.api_version = api_version;

    info.caps = caps;
    let format = hints.info.and_then(|hint| Format::of(hint.addr_format));
    let format = format.unwrap_or(Format::Bytes);
    info.addr_format = format.number();
    (info.src_addr, info.src_addrlen) = address(format, source);
    if let Some(destination) = destination {
        (info.dest_addr, info.dest_addrlen) = address(format, destination);
    }
    info.tx_attr = tx;
    info.rx_attr = rx;
    info.ep_attr = ep;
    info.domain_attr = domain;
    info.fabric_attr = fabric;
    info.nic = crate::nic::describe(&way.interface).cast();
    Some(info)
}

/// The longest message of nodes on this board.
fn longest(board: Board) -> usize {
    if board == Board::Daemon { MESSAGE_BYTES_SERVED } else { MESSAGE_BYTES_MAX }
}

fn fill_endpoint(ep: &mut FiEpAttr, hints: &Hints<'_>, board: Board) {
    ep.kind = FI_EP_RDM;
    ep.protocol = PROTOCOL;
    ep.protocol_version = PROTOCOL_VERSION;
    ep.max_msg_size = longest(board);
    // Of atomics, all that fit are ordered.
    ep.max_order_raw_size = MESSAGE_BYTES_MAX;
    ep.max_order_war_size = MESSAGE_BYTES_MAX;
    ep.max_order_waw_size = MESSAGE_BYTES_MAX;
    let format = hints.ep.map_or(0, |hint| hint.mem_tag_format);
    ep.mem_tag_format = if format == 0 { TAG_FORMAT } else { format };
    ep.tx_ctx_cnt = if hints.ep.is_some_and(shares) { FI_SHARED_CONTEXT } else { 1 };
    ep.rx_ctx_cnt = 1;
}

fn fill_domain(domain: &mut FiDomainAttr, way: &Way, hints: &Hints<'_>, api_version: u32) {
    let or = |asked: u32, otherwise: u32| if asked == 0 { otherwise } else { asked };
    let hint = |field: fn(&FiDomainAttr) -> u32| hints.domain.map_or(0, field);
    let hint_caps = hints.info.map_or(Caps::NONE, |info| info.caps);
    let hint_caps = hint_caps.with(hints.domain.map_or(Caps::NONE, |domain| domain.caps));
    let hint_mode = hints.domain.map_or(0, |hint| hint.mr_mode);
    domain.name = text(&way.name());
    // Everything is locked as it must be, and the guardian makes progress: whatever is asked for is kept.
    domain.threading = or(hint(|d| d.threading), FI_THREAD_SAFE);
    domain.control_progress = or(hint(|d| d.control_progress), FI_PROGRESS_MANUAL);
    domain.data_progress = or(hint(|d| d.data_progress), FI_PROGRESS_MANUAL);
    domain.resource_mgmt = FI_RM_ENABLED;
    // If none is asked for: any.
    domain.av_type = hint(|d| d.av_type);
    domain.mr_key_size = KEY_BYTES;
    domain.cq_data_size = 8;
    domain.cq_cnt = QUEUES;
    domain.ep_cnt = ENDPOINTS;
    domain.tx_ctx_cnt = domain.ep_cnt;
    domain.rx_ctx_cnt = domain.ep_cnt;
    domain.max_ep_tx_ctx = 1;
    domain.max_ep_rx_ctx = 1;
    domain.max_ep_stx_ctx = ENDPOINTS;
    domain.cntr_cnt = QUEUES;
    // Names of today's rules: none of them is needed. Applications from before those know two others only; those that take
    // either are made for the first, and Charm++ has no memory for long messages with the second.
    domain.mr_mode = match hint_mode {
        FI_MR_BASIC | FI_MR_SCALABLE => hint_mode,
        _ if api_version < MR_MODE_BITS_SINCE => FI_MR_BASIC,
        _ => 0,
    };
    domain.mr_iov_limit = 1;
    domain.mr_cnt = REGIONS;
    domain.caps = CAPS_PLACE.with(hint_caps.only(CAPS_DOMAIN));
}

impl Hints<'_> {
    /// Says why there is nothing: aloud to who wants this provider.
    fn refuse(&self, problem: &str) -> c_int {
        let say = if self.wanted { log::warn } else { log::inform };
        say(&format!("fi_getinfo: {problem}"));
        -libc::ENODATA
    }
}

entry! {
    /// Entry point of the provider: what it can do.
    pub fn getinfo(
        api_version: u32, node: *const c_char, service: *const c_char, flags: InfoFlags,
        hints: *const FiInfo, out: *mut *mut FiInfo,
    ) -> c_int {
        // SAFETY: libfabric's rules.
        let hints = unsafe { Hints::new(hints, flags) };
        if out.is_null() {
            return -libc::EINVAL;
        }
        let Ok(settings) = params::read() else { return -libc::ENODATA };
        if let Some(what) = hints.too_much(settings.board) {
            return hints.refuse(&format!("more than EMP has of {what} is asked for"));
        }
        // SAFETY: libfabric's rules.
        let found = unsafe {
            let place = |numeric| {
                Ok(Place { node: given_text(node)?, service: given_text(service)?, numeric })
            };
            place(flags.has(InfoFlags::NUMERICHOST))
                .and_then(|place| asked(place, flags, hints.info, &settings, ways(&settings)))
        };
        let Asked { sources, destination } = match found {
            Ok(found) => found,
            Err(problem) => return hints.refuse(&problem),
        };
        let fitting = sources.iter().filter(|(way, _)| hints.name(&way.name()));
        let mut first: *mut FiInfo = std::ptr::null_mut();
        let mut last: *mut FiInfo = first;
        let built = fitting.filter_map(|way| {
            build(way, destination.as_ref(), &hints, api_version, settings.board)
        });
        for info in built {
            if first.is_null() {
                first = info;
            } else {
                // SAFETY: `last` is the info before, made above.
                unsafe { (*last).next = info };
            }
            last = info;
        }
        if first.is_null() {
            return hints.refuse("no interface that is allowed is up, or none of that name");
        }
        // SAFETY: not null, and libfabric's rules.
        unsafe { out.write(first) };
        0
    }
}
