//! Address vectors: addresses by number. Inserting an address again gives the same number.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use emp_host::NodeId;

use crate::address::{ADDRESS_BYTES, EpAddress};
use crate::bindings::*;
use crate::domain::{Domain, DomainInner};
use crate::entry::enter;
use crate::eq::{Eq, EqInner};
use crate::handle::{Object, close_unused, fid, give, list, look, object, put_text, store};
use crate::tables::{AvOps, FidOps, NONE};
use emp_face::users::{Use, Users};

struct Entry {
    address: EpAddress,
    bytes: [u8; ADDRESS_BYTES],
    /// Insertions less removals.
    count: usize,
}

/// Mixes a node and a number of an endpoint: asked for with each message whose source is wanted, where the standard hash
/// costs as much as the rest of its receive. Nodes draw their identities at random, and only what the application inserts
/// is kept, so that nobody else can fill one bucket.
#[derive(Default)]
struct Mixer(u64);

/// An odd number with its bits well spread: the fractional part of the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        // Tables look at both ends of it.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(SPREAD);
    }
}

#[derive(Default)]
struct Entries {
    list: Vec<Option<Entry>>,
    numbers: HashMap<(NodeId, u16), usize, BuildHasherDefault<Mixer>>,
    /// Places of removed entries, to be used again.
    free: Vec<usize>,
}

/// What endpoints keep of an address vector.
pub struct AvInner {
    domain: Arc<DomainInner>,
    entries: RwLock<Entries>,
    /// Moves when an entry is removed.
    version: AtomicU64,
    events: bool,
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

// SAFETY: `repr(C)`, and begins with its fid.
unsafe impl Object for Av {}

static FID: FidOps = FidOps { bind, ..FidOps::new(close) };
static OPS: AvOps = AvOps {
    size: size_of::<AvOps>(),
    insert,
    insertsvc: NONE,
    insertsym: NONE,
    remove,
    lookup,
    straddr,
    av_set: NONE,
    newer: [NONE; 3],
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
        let entry = entries.list.get(usize::try_from(address).ok()?)?.as_ref()?;
        Some((entry.address.node, entry.address.endpoint))
    }

    /// The number of a node's endpoint; [`FI_ADDR_UNSPEC`] if it was not inserted.
    pub fn number(&self, node: NodeId, endpoint: u16) -> FiAddr {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.numbers.get(&(node, endpoint)).map_or(FI_ADDR_UNSPEC, |number| *number as FiAddr)
    }

    /// A node's endpoint as people know it: where it is, and its identity as errors have it elsewhere.
    pub fn describe(&self, node: NodeId, endpoint: u16) -> String {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let number = entries.numbers.get(&(node, endpoint));
        let address = number.and_then(|number| Some(entries.list.get(*number)?.as_ref()?.address));
        let name = format!("{:016x}:{endpoint}", node.0);
        match address.and_then(|address| address.udp) {
            Some(udp) => format!("{} ({name})", udp.ip()),
            None => name,
        }
    }

    fn insert(&self, bytes: &[u8; ADDRESS_BYTES]) -> Option<FiAddr> {
        let address = EpAddress::decode(bytes)?;
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let Entries { list, numbers, free } = &mut *entries;
        let next = free.last().copied().unwrap_or(list.len());
        let number = *numbers.entry((address.node, address.endpoint)).or_insert(next);
        if number == list.len() {
            list.push(None);
        }
        if list[number].is_none() {
            free.pop();
            list[number] = Some(Entry { address, bytes: *bytes, count: 0 });
            self.domain.learn(&address);
        }
        list[number].as_mut()?.count += 1;
        Some(number as FiAddr)
    }

    fn remove(&self, address: FiAddr) -> bool {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let Entries { list, numbers, free } = &mut *entries;
        let place = usize::try_from(address).ok().and_then(|number| list.get_mut(number));
        let Some(Some(entry)) = place else { return false };
        entry.count -= 1;
        if entry.count == 0 {
            self.version.fetch_add(1, Ordering::Release);
            numbers.remove(&(entry.address.node, entry.address.endpoint));
            list[address as usize] = None;
            free.push(address as usize);
        }
        true
    }
}

/// Opens an address vector.
///
/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
pub unsafe extern "C" fn open(
    domain: *mut Domain,
    attr: *mut FiAvAttr,
    into: *mut *mut Av,
    context: *mut c_void,
) -> c_int {
    enter(|| -> c_int {
        let domain: &Domain = object!(domain.cast_const());
        let mut events = false;
        // SAFETY: libfabric's rules.
        if let Some(attr) = unsafe { attr.as_mut() } {
            if !attr.name.is_null() || attr.rx_ctx_bits > 0 {
                return -libc::ENOSYS;
            }
            if ![FI_AV_MAP, FI_AV_TABLE].contains(&attr.kind) {
                attr.kind = FI_AV_TABLE;
            }
            events = attr.flags & event::EVENT != 0;
        }
        let inner = AvInner {
            domain: Arc::clone(&domain.inner),
            entries: RwLock::default(),
            version: AtomicU64::new(0),
            events,
            eq: OnceLock::new(),
        };
        let fid = fid(class::AV, context, &FID);
        // SAFETY: libfabric's rules.
        unsafe {
            let (users, of) = (Users::default(), domain.users.one());
            let inner = Arc::new(inner);
            give(Av { fid, ops: &OPS, inner, users, _of: of, uses: Mutex::default() }, into)
        }
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    enter(|| -> c_int {
        // SAFETY: libfabric's rules.
        unsafe { close_unused(fid, |av: &Av| &av.users) }
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn bind(fid: *mut Fid, to: *mut Fid, _flags: u64) -> c_int {
    enter(|| -> c_int {
        let av: &Av = object!(fid.cast::<Av>().cast_const());
        let common: &Fid = object!(to.cast_const());
        if common.fclass != class::EQ {
            return -libc::EINVAL;
        }
        let eq: &Eq = object!(to.cast::<Eq>().cast_const());
        if av.inner.eq.set(Arc::clone(&eq.inner)).is_err() {
            return -libc::EINVAL;
        }
        *av.uses.lock().unwrap_or_else(PoisonError::into_inner) = Some(eq.users.one());
        0
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn insert(
    av: *mut Av,
    addresses: *const c_void,
    count: usize,
    numbers: *mut FiAddr,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    enter(|| -> c_int {
        let pointer = av;
        let av: &Av = object!(av.cast_const());
        if av.inner.events && av.inner.eq.get().is_none() {
            return -error::NOEQ;
        }
        let mut good = 0;
        for (index, bytes) in
            list!(addresses.cast::<[u8; ADDRESS_BYTES]>(), count).iter().enumerate()
        {
            let number = av.inner.insert(bytes);
            good += c_int::from(number.is_some());
            if !numbers.is_null() {
                store!(numbers.wrapping_add(index), number.unwrap_or(FI_ADDR_UNSPEC));
            }
            if flags & event::SYNC_ERR != 0 && !context.is_null() {
                let error = if number.is_some() { 0 } else { libc::EINVAL };
                store!(context.cast::<c_int>().wrapping_add(index), error);
            }
        }
        match av.inner.eq.get().filter(|_| av.inner.events) {
            Some(eq) => {
                let data = u64::from(good.unsigned_abs());
                eq.push(event::AV_COMPLETE, FiEqEntry { fid: pointer.cast(), context, data });
                0
            }
            None => good,
        }
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn remove(av: *mut Av, numbers: *mut FiAddr, count: usize, _flags: u64) -> c_int {
    enter(|| -> c_int {
        let av: &Av = object!(av.cast_const());
        let mut result = 0;
        for number in list!(numbers.cast_const(), count) {
            if !av.inner.remove(*number) {
                result = -libc::EINVAL;
            }
        }
        result
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn lookup(
    av: *mut Av,
    number: FiAddr,
    into: *mut c_void,
    room: *mut usize,
) -> c_int {
    enter(|| -> c_int {
        let av: &Av = object!(av.cast_const());
        let entries = av.inner.entries.read().unwrap_or_else(PoisonError::into_inner);
        let place = usize::try_from(number).ok().and_then(|number| entries.list.get(number));
        let Some(Some(entry)) = place else { return -libc::EINVAL };
        // SAFETY: libfabric's rules.
        match unsafe { put_address(&entry.bytes, into, room) } {
            // What fits is there, and how much there is: that is all that this call promises.
            result if result == -error::TOOSMALL => 0,
            result => result,
        }
    })
}

/// Writes an address as far as there is room, and says how long it is.
///
/// # Safety
///
/// libfabric's rules: `into` has `*room` bytes.
pub unsafe fn put_address(
    bytes: &[u8; ADDRESS_BYTES],
    into: *mut c_void,
    room: *mut usize,
) -> c_int {
    // SAFETY: libfabric's rules.
    let Some(given) = (unsafe { look(room) }).copied() else { return -libc::EINVAL };
    let count = if into.is_null() { 0 } else { given.min(ADDRESS_BYTES) };
    // SAFETY: there is room for so many bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), into.cast::<u8>(), count) };
    store!(room, ADDRESS_BYTES);
    if count < ADDRESS_BYTES { -error::TOOSMALL } else { 0 }
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn straddr(
    _av: *mut Av,
    address: *const c_void,
    into: *mut c_char,
    room: *mut usize,
) -> *const c_char {
    enter(|| -> *const c_char {
        // SAFETY: libfabric's rules.
        let (bytes, given) =
            unsafe { (look(address.cast::<[u8; ADDRESS_BYTES]>()), look(room).copied()) };
        let text = match bytes.and_then(EpAddress::decode) {
            Some(address) => address.to_string(),
            None => "not an address of EMP".into(),
        };
        // SAFETY: libfabric's rules: so much room.
        let needed = unsafe { put_text(&text, into, given.unwrap_or(0)) };
        store!(room, needed);
        into
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    #[test]
    fn neighbouring_endpoints_and_nodes_are_told_apart_at_both_ends_of_the_hash() {
        let hash = |node, endpoint: u16| {
            BuildHasherDefault::<Mixer>::default().hash_one((NodeId(node), endpoint))
        };
        let all: Vec<u64> =
            (0..64).flat_map(|node| (0..64).map(move |endpoint| hash(node, endpoint))).collect();
        let different = |part: fn(&u64) -> u64| all.iter().map(part).collect::<HashSet<_>>().len();
        assert_eq!(different(|hash| *hash), 4096);
        // As many of 7 bits as there are, and nearly as many of 16 as 4096 draws give.
        assert_eq!(different(|hash| hash >> 57), 128);
        assert!(different(|hash| hash & 0xffff) > 3700, "{}", different(|hash| hash & 0xffff));
    }
}
