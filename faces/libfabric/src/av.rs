//! Address vectors: addresses by number.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockWriteGuard};

use emp_face::log;
use emp_host::NodeId;

use crate::asked::{Format, text};
use crate::bindings::*;
use crate::domain::{Domain, DomainInner};
use crate::entries::Entries;
use crate::entry::entry;
use crate::ep_address::{ADDRESS_BYTES, EpAddress, SCHEME};
use crate::eq::{Eq, EqInner};
use crate::flags::AvFlags;
use crate::objects::{
    Object, aloud, close_unused, downcast, fid, give, list, look, object, put_text, store,
};
use crate::places::{Place, Problem, destination};
use crate::symmetric::{hosts, ports};
use crate::tables::{AvOps, FidOps, NONE};
use emp_face::users::{Use, Users};

/// Flags of insertions.
const INSERT_FLAGS: AvFlags =
    AvFlags::MORE.with(AvFlags::SYNC_ERR).with(AvFlags::USER_ID).with(AvFlags::FIREWALL);
/// Flags of address vectors.
const OPEN_FLAGS: AvFlags = AvFlags::EVENT.with(AvFlags::SYMMETRIC).with(AvFlags::USER_ID);

/// What endpoints keep of an address vector.
pub struct AvInner {
    pub domain: Arc<DomainInner>,
    entries: RwLock<Entries>,
    /// Moves when an entry is removed, or called by another name.
    version: AtomicU64,
    events: bool,
    /// Completions call entries as `fi_av_set_user_id` says, and until then nothing.
    users_own: bool,
    eq: OnceLock<Arc<EqInner>>,
}

#[repr(C)]
pub struct Av {
    fid: Fid,
    ops: *const AvOps,
    pub inner: Arc<AvInner>,
    /// Endpoints that are bound to it.
    pub users: Users,
    _of: Use,
    /// The event queue that it is bound to.
    uses: Mutex<Option<Use>>,
}

// SAFETY: `repr(C)`, and begins with its fid, whose table no other type has.
unsafe impl Object for Av {
    const CLASS: usize = class::AV;

    fn table() -> &'static FidOps {
        &FID
    }
}

static FID: FidOps = FidOps { bind, ..FidOps::new(close) };
static OPS: AvOps = AvOps {
    size: size_of::<AvOps>(),
    insert,
    insertsvc,
    insertsym,
    remove,
    lookup,
    straddr,
    av_set: NONE,
    insert_auth_key: NONE,
    lookup_auth_key: NONE,
    set_user_id,
};

impl AvInner {
    /// Moves when what [`find`](Self::find) and [`number`](Self::number) have found may no longer be so.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The node and endpoint of an entry.
    #[inline]
    pub fn find(&self, address: FiAddr) -> Option<(NodeId, u16)> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get(address)?;
        Some((entry.address.node, entry.address.endpoint))
    }

    /// What completions call a node's endpoint by; [`FI_ADDR_UNSPEC`] if it was not inserted.
    pub fn number(&self, node: NodeId, endpoint: u16) -> FiAddr {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.called(node, endpoint)
    }

    /// A node's endpoint as people know it: where it is, and its identity as errors have it elsewhere.
    pub fn describe(&self, node: NodeId, endpoint: u16) -> String {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let address = entries.by_endpoint(node, endpoint).map(|entry| entry.address);
        let name = format!("{:016x}:{endpoint}", node.0);
        match address {
            Some(address) if address.service => format!("{address} ({name})"),
            Some(EpAddress { udp: Some(udp), .. }) => format!("{} ({name})", udp.ip()),
            _ => name,
        }
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Inserts an address; `called` is what completions are to call it by.
    fn insert(&self, address: EpAddress, called: Option<FiAddr>) -> FiAddr {
        let called = called.or(self.users_own.then_some(FI_ADDR_UNSPEC));
        let (number, new) = self.write().insert(address, called);
        if new {
            self.domain.learn(&address);
        } else if called.is_some() {
            self.version.fetch_add(1, Ordering::Release);
        }
        number
    }

    fn remove(&self, number: FiAddr) -> bool {
        let removed = self.write().remove(number);
        if removed == Some(true) {
            self.version.fetch_add(1, Ordering::Release);
        }
        removed.is_some()
    }

    /// The address at a place.
    fn destination(&self, place: Place<'_>) -> Result<EpAddress, Problem> {
        destination(place, std::slice::from_ref(&self.domain.way))
    }
}

entry! {
    /// Opens an address vector.
    pub fn open(
        domain: &Domain, attr: *mut FiAvAttr, into: *mut *mut Av, context: *mut c_void,
    ) -> c_int {
        let (mut events, mut users_own) = (false, false);
        // SAFETY: libfabric's rules.
        if let Some(attr) = unsafe { attr.as_mut() } {
            if !attr.name.is_null() || attr.rx_ctx_bits > 0 {
                return -libc::ENOSYS;
            }
            if ![FI_AV_MAP, FI_AV_TABLE].contains(&attr.kind) {
                attr.kind = FI_AV_TABLE;
            }
            if attr.flags.exceeds(OPEN_FLAGS) {
                return -error::BADFLAGS;
            }
            (events, users_own) =
                (attr.flags.has(AvFlags::EVENT), attr.flags.has(AvFlags::USER_ID));
        }
        let inner = AvInner {
            domain: Arc::clone(&domain.inner),
            entries: RwLock::default(),
            version: AtomicU64::new(0),
            events,
            users_own,
            eq: OnceLock::new(),
        };
        let fid = fid(class::AV, context, &FID);
        // SAFETY: libfabric's rules.
        unsafe {
            let (users, of) = (Users::default(), domain.users.one());
            let inner = Arc::new(inner);
            give(Av { fid, ops: &OPS, inner, users, _of: of, uses: Mutex::default() }, into)
        }
    }

    fn close(fid: *mut Fid) -> c_int {
        // SAFETY: libfabric's rules.
        unsafe { close_unused(fid, |av: &Av| &av.users) }
    }

    fn bind(av: *mut Fid, to: *mut Fid, flags: u64) -> c_int {
        // SAFETY: the same arguments under the same rules.
        aloud("fi_av_bind", unsafe { bind_quietly(av, to, flags) })
    }

    fn bind_quietly(av: Fid<Av>, to: *mut Fid, flags: u64) -> c_int {
        let common: &Fid = object!(to.cast_const());
        if flags != 0 {
            return -error::BADFLAGS;
        }
        if common.fclass != class::EQ {
            return -libc::EINVAL;
        }
        let eq: &Eq = downcast!(to);
        if av.inner.eq.set(Arc::clone(&eq.inner)).is_err() {
            return -libc::EINVAL;
        }
        *av.uses.lock().unwrap_or_else(PoisonError::into_inner) = Some(eq.users.one());
        0
    }
}

/// Where the results of an insertion go.
struct Results {
    numbers: *mut FiAddr,
    flags: AvFlags,
    context: *mut c_void,
}

/// Inserts what was found, in order; returns what the call is to return.
///
/// # Safety
///
/// libfabric's rules: the lists of the results are as long as that of the addresses.
unsafe fn insert_all(
    pointer: *mut Av,
    addresses: impl Iterator<Item = Result<EpAddress, Problem>>,
    results: &Results,
) -> c_int {
    let av: &Av = object!(pointer.cast_const());
    let Results { numbers, flags, context } = *results;
    let events = av.inner.eq.get().filter(|_| av.inner.events);
    if av.inner.events && events.is_none() {
        return -error::NOEQ;
    }
    let one_by_one = flags.has(AvFlags::USER_ID);
    let clash = one_by_one && (av.inner.users_own || numbers.is_null());
    if flags.exceeds(INSERT_FLAGS) || clash || events.is_some() && flags.has(AvFlags::SYNC_ERR) {
        return -error::BADFLAGS;
    }
    let mut good = 0;
    for (index, address) in addresses.enumerate() {
        let place = numbers.wrapping_add(index);
        // SAFETY: libfabric's rules: with this flag the list is given, and says how to call them.
        let called = one_by_one.then(|| unsafe { place.read() });
        let nobody = |address: &EpAddress| format!("{address} names no port");
        let address = address.and_then(|address| match address.has_somebody() {
            true => Ok(address),
            false => Err(nobody(&address)),
        });
        let number = match address {
            Ok(address) => Some(av.inner.insert(address, called)),
            Err(problem) => {
                log::warn(&format!("address {index} of an insertion: {problem}"));
                None
            }
        };
        good += c_int::from(number.is_some());
        if !numbers.is_null() {
            store!(place, number.unwrap_or(FI_ADDR_UNSPEC));
        }
        if flags.has(AvFlags::SYNC_ERR) && !context.is_null() {
            let error = if number.is_some() { 0 } else { libc::EINVAL };
            store!(context.cast::<c_int>().wrapping_add(index), error);
        }
        if let Some(eq) = events.filter(|_| number.is_none()) {
            eq.push_error(FiEqEntry { fid: pointer.cast(), context, data: index as u64 });
        }
    }
    match events {
        Some(eq) => {
            let data = u64::from(good.unsigned_abs());
            eq.push(FI_AV_COMPLETE, FiEqEntry { fid: pointer.cast(), context, data });
            0
        }
        None => good,
    }
}

entry! {
    fn insert(
        av: *mut Av, addresses: *const c_void, count: usize, numbers: *mut FiAddr, flags: AvFlags,
        context: *mut c_void,
    ) -> c_int {
        let inner = {
            let av: &Av = object!(av.cast_const());
            Arc::clone(&av.inner)
        };
        if addresses.is_null() && count > 0 {
            return -libc::EINVAL;
        }
        let results = Results { numbers, flags, context };
        match inner.domain.format {
            Format::Bytes => {
                let foreign = || "it is none of EMP's".to_string();
                let addresses = list!(addresses.cast::<[u8; ADDRESS_BYTES]>(), count).iter();
                let addresses = addresses.map(|a| EpAddress::decode(a).ok_or_else(foreign));
                // SAFETY: libfabric's rules.
                unsafe { insert_all(av, addresses, &results) }
            }
            Format::Text => {
                // Mercury, and providers of shared memory, have the text itself where the manual has a pointer to it.
                let itself = addresses.cast::<c_char>();
                let pointer = if count == 1 { size_of::<*const c_char>() } else { 0 };
                let start = list!(addresses.cast::<u8>(), pointer);
                let texts = match count == 1 && SCHEME.as_bytes().starts_with(start) {
                    true => std::slice::from_ref(&itself),
                    false => list!(addresses.cast::<*const c_char>(), count),
                };
                let texts = texts.iter();
                let addresses = texts.map(|address| {
                    // SAFETY: libfabric's rules: a text.
                    let node = unsafe { text(*address) }?;
                    inner.destination(Place { node, ..Place::default() })
                });
                // SAFETY: libfabric's rules.
                unsafe { insert_all(av, addresses, &results) }
            }
        }
    }

    fn insertsvc(
        av: *mut Av, node: *const c_char, service: *const c_char, numbers: *mut FiAddr, flags: AvFlags,
        context: *mut c_void,
    ) -> c_int {
        // SAFETY: the same arguments under the same rules; texts are read only.
        unsafe { insertsym(av, node, 1, service, 1, numbers, flags, context) }
    }

    fn insertsym(
        av: *mut Av, node: *const c_char, nodes: usize, service: *const c_char, services: usize,
        numbers: *mut FiAddr, flags: AvFlags, context: *mut c_void,
    ) -> c_int {
        let inner = {
            let av: &Av = object!(av.cast_const());
            Arc::clone(&av.inner)
        };
        // SAFETY: libfabric's rules: null or texts.
        let (Ok(node), Ok(service)) = (unsafe { (text(node), text(service)) }) else {
            return -libc::EINVAL;
        };
        let (Some(hosts), Some(ports)) = (hosts(node, nodes), ports(service, services)) else {
            return -libc::EINVAL;
        };
        let each = hosts.flat_map(|host| ports.clone().map(move |port| (host.clone(), port)));
        let addresses = each.map(|(host, port)| {
            let (node, service) = (host.as_deref(), port.as_deref());
            inner.destination(Place { node, service, numeric: false })
        });
        // SAFETY: libfabric's rules.
        unsafe { insert_all(av, addresses, &Results { numbers, flags, context }) }
    }

    fn set_user_id(av: &Av, number: FiAddr, called: FiAddr, flags: u64) -> c_int {
        if flags != 0 {
            return -error::BADFLAGS;
        }
        if !av.inner.users_own || !av.inner.write().call(number, called) {
            return -libc::EINVAL;
        }
        av.inner.version.fetch_add(1, Ordering::Release);
        0
    }

    fn remove(av: &Av, numbers: *mut FiAddr, count: usize, flags: u64) -> c_int {
        if flags != 0 {
            return -error::BADFLAGS;
        }
        let mut result = 0;
        for number in list!(numbers.cast_const(), count) {
            if !av.inner.remove(*number) {
                result = -libc::EINVAL;
            }
        }
        result
    }

    fn lookup(av: &Av, number: FiAddr, into: *mut c_void, room: *mut usize) -> c_int {
        let entries = av.inner.entries.read().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = entries.get(number) else { return -libc::EINVAL };
        // SAFETY: libfabric's rules.
        match unsafe { put_address(&av.inner.domain.format.write(&entry.address), into, room) } {
            // What fits is there, and how much there is: that is all that this call promises.
            result if result == -error::TOOSMALL => 0,
            result => result,
        }
    }
}

/// Writes an address as far as there is room, and says how long it is.
///
/// # Safety
///
/// libfabric's rules: `into` has `*room` bytes.
pub unsafe fn put_address(bytes: &[u8], into: *mut c_void, room: *mut usize) -> c_int {
    // SAFETY: libfabric's rules.
    let Some(given) = (unsafe { look(room) }).copied() else { return -libc::EINVAL };
    let count = if into.is_null() { 0 } else { given.min(bytes.len()) };
    // SAFETY: there is room for so many bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), into.cast::<u8>(), count) };
    store!(room, bytes.len());
    if count < bytes.len() { -error::TOOSMALL } else { 0 }
}

entry! {
    fn straddr(
        av: *mut Av, address: *const c_void, into: *mut c_char, room: *mut usize,
    ) -> *const c_char {
        // SAFETY: libfabric's rules.
        let given = unsafe { look(room).copied() };
        // SAFETY: libfabric's rules; the vector is one, or what stands for it is null.
        let format = unsafe { look(av) }.map_or(Format::Bytes, |av| av.inner.domain.format);
        // SAFETY: libfabric's rules: an address of the vector's format.
        let known = unsafe {
            match format {
                Format::Bytes => look(address.cast::<[u8; ADDRESS_BYTES]>())
                    .and_then(EpAddress::decode)
                    .map(|address| address.to_string()),
                Format::Text => text(address.cast()).ok().flatten().map(str::to_owned),
            }
        };
        let text = known.unwrap_or_else(|| "not an address of EMP".into());
        // SAFETY: libfabric's rules: so much room.
        let needed = unsafe { put_text(&text, into, given.unwrap_or(0)) };
        store!(room, needed);
        into
    }
}
