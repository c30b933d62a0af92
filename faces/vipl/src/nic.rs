//! NICs: a node with one endpoint, and what was made of it.

use std::cell::Cell;
use std::ffi::c_char;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use emp_face::claim::Claim;
use emp_face::node::FaceNode;
use emp_face::pins::Pinned;
use emp_face::pointers::store;
use emp_face::settings::Settings;
use emp_face::waiting::{Waiters, end_of};
use emp_face::ways::Way;
use emp_face::yielding::Yielding;

use crate::abi::*;
use crate::control::Inbox;
use crate::door::Door;
use crate::errors::enter;
use crate::listen::Gate;
use crate::open;
use crate::points::{DISCRIMINATOR_MAX, HOST_BYTES, host_bytes};
use crate::service::Service;
use crate::state::State;

/// Number of the EMP endpoint for what descriptors are of. Not one of the small ones that programs of other kinds use.
pub const CHANNEL: u16 = 0x5649;
/// That of messages to the library itself: their receives, which are always posted, are in nobody's way there.
pub const CONTROL: u16 = 0x564a;

/// Handles tell so many apart and more; these bound what one process can fill memory with.
pub const VIS_MAX: usize = 16_384;
pub const CQS_MAX: usize = 16_384;
pub const PTAGS_MAX: usize = 65_536;
/// Connection requests that the application has neither accepted nor rejected.
pub const INCOMING_MAX: usize = 4_096;
/// Descriptors of a queue, done ones that were not taken included. A descriptor's place is part of what the node gives back
/// ([`crate::queue`]), which has room for more.
pub const DESCRIPTORS_MAX: usize = 8_192;
/// Data segments of a descriptor: VIA 1.0 asks for 252, which fits into what a message of EMP may be gathered from.
pub const SEGMENTS_MAX: usize = 252;
/// Entries of a completion queue; MVICH asks for 32768.
pub const CQ_ENTRIES_MAX: u64 = 1 << 20;
/// Bytes of a message. VIA 1.0 asks for 32 KiB at least. Programs may allocate as much.
pub const TRANSFER_MAX: u32 = 64 << 20;
/// Regions: handles have 16 bits for the place.
pub const REGIONS_MAX: usize = 65_000;

/// A connect that waits for a peer looks after it so often.
const PEER_SLICE: Duration = Duration::from_millis(5);

/// A NIC that is open.
pub struct Nic {
    pub face: FaceNode,
    pub endpoint: emp_host::Endpoint,
    pub control: emp_host::Endpoint,
    pub name: String,
    /// What the machine is called.
    pub machine: String,
    pub host: u64,
    /// The same as C reads it.
    address: [u8; HOST_BYTES],
    mtu: usize,
    pub handle: AtomicU64,
    /// Its place among the NICs of the process, which is part of handles.
    pub place: AtomicU32,
    pub way: Way,
    pub settings: Settings,
    state: Mutex<State>,
    /// The error handler has returned.
    pub told: Condvar,
    pub inbox: Inbox,
    pub waiters: Waiters,
    /// Threads that wait in calls.
    pub blocked: AtomicU32,
    pub yielding: Yielding,
    pub service: Service,
    pub gate: Gate,
    /// What makes the node the one that everyone finds, if it is.
    pub claim: Option<Claim>,
    /// The node that took that over, if this process was the first to see that it was free.
    pub door: OnceLock<Door>,
}

/// Ends of a wait.
struct Blocked<'a>(&'a AtomicU32);

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a NIC is made of.
pub struct Parts {
    pub face: FaceNode,
    pub endpoint: emp_host::Endpoint,
    pub control: emp_host::Endpoint,
    pub machine: String,
    pub host: u64,
    pub way: Way,
    pub settings: Settings,
    pub claim: Option<Claim>,
}

impl Nic {
    pub fn new(parts: Parts) -> std::io::Result<Self> {
        let Parts { face, endpoint, control, machine, host, way, settings, claim } = parts;
        Ok(Self {
            face,
            endpoint,
            control,
            name: way.name(),
            machine,
            host,
            address: host_bytes(host),
            mtu: way.interface.mtu,
            handle: AtomicU64::new(0),
            place: AtomicU32::new(0),
            way,
            settings,
            state: Mutex::new(State::new()),
            told: Condvar::new(),
            inbox: Inbox::default(),
            waiters: Waiters::default(),
            blocked: AtomicU32::new(0),
            yielding: Yielding::default(),
            service: Service::default(),
            gate: Gate::new()?,
            claim,
            door: OnceLock::new(),
        })
    }

    /// The state, for this thread alone.
    ///
    /// # Errors
    ///
    /// It was closed meanwhile.
    #[inline]
    pub fn lock(&self) -> Result<MutexGuard<'_, State>, Return> {
        let state = self.lock_even_closed();
        if state.closed { Err(Return::INVALID_PARAMETER) } else { Ok(state) }
    }

    #[inline]
    pub fn lock_even_closed(&self) -> MutexGuard<'_, State> {
        // A thread that panicked with the state has ended the library: see `emp_face::boundary`.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn handle(&self) -> Handle {
        self.handle.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn place(&self) -> u32 {
        self.place.load(Ordering::Relaxed)
    }

    /// The two endpoints of the node, for progress and waiting.
    #[inline]
    pub fn both(&self) -> [&emp_host::Endpoint; 2] {
        [&self.endpoint, &self.control]
    }

    /// Threads that wait look again.
    pub fn tell(&self) {
        self.waiters.tell(&self.face.node, false);
    }

    /// Waits until `look` finds something, at most until `end`.
    pub fn wait<T>(
        &self,
        end: Option<Instant>,
        mut look: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<Option<T>, Return> {
        self.blocked.fetch_add(1, Ordering::Relaxed);
        let _blocked = Blocked(&self.blocked);
        // What the next sleep ends with, beside completions.
        let (peering, starving) = (Cell::new(false), Cell::new(false));
        let look = || {
            let mut state = self.lock_even_closed();
            if state.closed {
                return (Some(Err(Return::INVALID_PARAMETER)), false);
            }
            let news = self.progress(&mut state);
            peering.set(state.peering != 0);
            starving.set(state.starving != 0);
            (look(&mut state).map(Ok), news)
        };
        let sleep = |nudges, left: Option<Duration>| {
            let slice = peering.get().then_some(PEER_SLICE);
            let left = [left, slice].into_iter().flatten().min();
            self.sleep(starving.get(), nudges, left);
        };
        self.waiters.wait_by(&self.face.node, end, look, sleep).transpose()
    }

    /// Waits until the node has something; if `messages`, also one that no receive takes.
    pub fn sleep(&self, messages: bool, nudges: u64, left: Option<Duration>) {
        let own = self.both();
        if messages {
            emp_host::Endpoint::wait_message_unless_nudged(
                &own,
                emp_host::Selector::ANY,
                nudges,
                left,
            );
        } else {
            emp_host::Endpoint::wait_completions_unless_nudged(&own, nudges, left);
        }
    }

    /// A look for what is there already, which costs no progress; then progress and another look. Whoever spins on it lets
    /// others run now and then.
    #[inline]
    pub fn glance<T>(
        &self,
        mut look: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<Option<T>, Return> {
        let mut state = self.lock()?;
        if let Some(found) = look(&mut state) {
            return Ok(Some(found));
        }
        state.activity += 1;
        let news = self.progress(&mut state);
        let found = look(&mut state);
        drop(state);
        if news {
            self.tell();
        }
        if found.is_some() || !self.endpoint.is_idle() {
            self.yielding.found();
        } else {
            self.yielding.nothing();
        }
        Ok(found)
    }
}

/// The end of a wait of so many milliseconds.
pub fn end(timeout: std::ffi::c_ulong) -> Option<Instant> {
    end_of((timeout < INFINITE).then(|| Duration::from_millis(timeout)))
}

/// A NIC by its handle.
#[inline]
pub fn nic(handle: Handle) -> Result<Pinned<Nic>, Return> {
    open::nic(handle).ok_or(Return::INVALID_PARAMETER)
}

#[unsafe(no_mangle)]
pub extern "C" fn VipQueryNic(handle: Handle, attributes: *mut NicAttributes) -> Return {
    enter(|| {
        let nic = nic(handle)?;
        if attributes.is_null() {
            return Err(Return::INVALID_PARAMETER);
        }
        let mut name = [0 as c_char; 64];
        for (place, byte) in name[..63].iter_mut().zip(nic.name.bytes()) {
            *place = byte as c_char;
        }
        let version = |text: &str| text.parse::<std::ffi::c_ulong>().unwrap_or(0);
        let provider = version(env!("CARGO_PKG_VERSION_MAJOR")) << 16
            | version(env!("CARGO_PKG_VERSION_MINOR")) << 8
            | version(env!("CARGO_PKG_VERSION_PATCH"));
        let found = NicAttributes {
            name,
            hardware_version: 0,
            provider_version: provider,
            address_len: HOST_BYTES as u16,
            address: nic.address.as_ptr(),
            thread_safe: 1,
            max_discriminator_len: DISCRIMINATOR_MAX as u16,
            max_register_bytes: std::ffi::c_ulong::MAX >> 1,
            max_register_regions: REGIONS_MAX as std::ffi::c_ulong,
            max_register_block_bytes: std::ffi::c_ulong::MAX >> 1,
            max_vi: VIS_MAX as std::ffi::c_ulong,
            max_descriptors_per_queue: DESCRIPTORS_MAX as std::ffi::c_ulong,
            max_segments_per_descriptor: SEGMENTS_MAX as std::ffi::c_ulong,
            max_cq: CQS_MAX as std::ffi::c_ulong,
            max_cq_entries: CQ_ENTRIES_MAX,
            max_transfer_size: TRANSFER_MAX.into(),
            native_mtu: nic.mtu as std::ffi::c_ulong,
            max_ptags: PTAGS_MAX as std::ffi::c_ulong,
            reliability_levels: UNRELIABLE | RELIABLE_DELIVERY | RELIABLE_RECEPTION,
            rdma_read_levels: RELIABLE_DELIVERY | RELIABLE_RECEPTION,
        };
        // SAFETY: not null, and by the header's rules valid.
        unsafe { store(attributes, found) };
        Ok(())
    })
}
