//! Endpoints: opening, binding, enabling, naming, and closing them.
//!
//! An endpoint is two of the node's: tagged messages go to the even one, others to the odd one, so that neither kind is
//! ever taken for the other and both have all 64 match bits.

use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use emp_host::{ClaimId, Completion, Endpoint};

use crate::asked::source_of;
use crate::av::{Av, AvInner};
use crate::bindings::*;
use crate::cntr::{Cntr, CntrInner};
use crate::cq::{Cq, CqInner};
use crate::domain::{Domain, DomainInner};
use crate::entry::entry;
use crate::eq::Eq;
use crate::flags::{BindFlags, Caps, Defaults, Directions, OpFlags};
use crate::info::{IOV_LIMIT, RX_FLAGS, TX_FLAGS, with_directions, with_initiators};
use crate::neighbours::Neighbours;
use crate::objects::{Object, aloud, downcast, fid, give, look, object, take};
use crate::operations::Operations;
use crate::options::{control, getname, getopt, setopt};
use crate::stx::Stx;
use crate::tables::{
    AtomicOps, COLLECTIVE, CmOps, EpOps, FidOps, MsgOps, NONE, RmaOps, TaggedOps, UnsupportedTable,
};
use crate::{atomic, msg, rma, tagged};
use emp_face::log;
use emp_face::users::{Use, Users};

/// Bytes below which a buffer for several messages is given back, unless set: a small control message.
const MIN_MULTI_RECV: usize = 256;

/// Completions taken from the node at a time.
const BATCH: usize = 64;

/// What an endpoint is bound to. Fixed once it is enabled.
#[derive(Default)]
pub struct Bound {
    pub tx_cq: Option<Arc<CqInner>>,
    pub rx_cq: Option<Arc<CqInner>>,
    /// Only operations that ask for it have an entry.
    pub tx_selective: bool,
    pub rx_selective: bool,
    pub av: Option<Arc<AvInner>>,
    pub counters: Counters,
}

/// The counter of each direction, from `FI_READ` to `FI_REMOTE_WRITE`. Programs bind some to endpoints that are enabled already.
#[derive(Default)]
pub struct Counters([OnceLock<Arc<CntrInner>>; 6]);

impl Counters {
    /// The places of these directions.
    fn places(&self, directions: Directions) -> impl Iterator<Item = &OnceLock<Arc<CntrInner>>> {
        let each = self.0.iter().zip(Directions::EACH);
        each.filter(move |(_, direction)| directions.has(*direction)).map(|(counter, _)| counter)
    }

    /// Counts an operation of this direction.
    #[inline]
    pub fn count(&self, direction: Directions, good: bool) {
        if let Some(counter) = self.0.get(direction.place()).and_then(OnceLock::get) {
            counter.count(good);
        }
    }

    /// Counts one operation that was all of these: once, where one counter counts several.
    pub fn count_all(&self, directions: Directions) {
        let mut counted: Vec<&Arc<CntrInner>> = Vec::new();
        for counter in self.of(directions) {
            if !counted.iter().any(|other| Arc::ptr_eq(other, counter)) {
                counter.count(true);
                counted.push(counter);
            }
        }
    }

    /// Those that count one of these directions; one that counts several comes several times.
    pub fn of(&self, directions: Directions) -> impl Iterator<Item = &Arc<CntrInner>> {
        self.places(directions).filter_map(OnceLock::get)
    }

    /// False: one of the directions has a counter already. Not to be called by two at a time.
    fn bind(&self, counter: &Arc<CntrInner>, directions: Directions) -> bool {
        let free = self.of(directions).next().is_none();
        if free {
            self.places(directions).for_each(|place| drop(place.set(Arc::clone(counter))));
        }
        free
    }
}

/// An endpoint that can be used.
pub struct Enabled {
    pub bound: Bound,
    pub av: Arc<AvInner>,
    pub tagged: Endpoint,
    pub untagged: Endpoint,
    /// Longest message in bytes that the node copies before the post returns, and longest one-sided operation.
    pub copied: usize,
    pub copied_remote: usize,
}

/// What changes with each operation.
pub struct State {
    pub slots: Operations,
    pub neighbours: Neighbours,
    pub completions: Vec<Completion>,
    /// Messages that were claimed, by the context of the call.
    pub claims: Vec<(usize, ClaimId)>,
    /// Transfers in pieces of which the next could not be posted yet.
    pub parked: Vec<usize>,
}

impl Drop for EpInner {
    fn drop(&mut self) {
        // The node's endpoints must be closed before others take their numbers.
        drop(self.enabled.take());
        self.domain.endpoint_gone(self.number);
    }
}

/// An endpoint, as its queues and counters know it.
pub struct EpInner {
    pub domain: Arc<DomainInner>,
    pub number: u16,
    pub caps: Caps,
    /// It was opened to begin operations, not only to be their target: they are told of somewhere.
    begins: bool,
    pub tx_flags: Defaults,
    pub rx_flags: Defaults,
    pub min_multi_recv: AtomicUsize,
    /// Segments of a message that it sends, and receives: as its `fi_info` says.
    pub iov_limits: (usize, usize),
    binding: Mutex<Bound>,
    /// What it is bound to, which must not be closed before it.
    uses: Mutex<Vec<Use>>,
    pub enabled: OnceLock<Enabled>,
    pub state: Mutex<State>,
}

#[repr(C)]
pub struct Ep {
    fid: Fid,
    ops: *const EpOps,
    cm: *const CmOps,
    msg: *const MsgOps,
    rma: *const RmaOps,
    tagged: *const TaggedOps,
    atomic: *const AtomicOps,
    collective: *const UnsupportedTable<16>,
    pub inner: Arc<EpInner>,
    _of: Use,
}

// SAFETY: `repr(C)`, and begins with its fid, whose table no other type has.
unsafe impl Object for Ep {
    const CLASS: usize = class::EP;

    fn table() -> &'static FidOps {
        &FID
    }
}

static FID: FidOps = FidOps { bind, control, ..FidOps::new(close) };
static OPS: EpOps = EpOps {
    size: size_of::<EpOps>(),
    cancel,
    getopt,
    setopt,
    tx_ctx: NONE,
    rx_ctx: NONE,
    rx_size_left: NONE,
    tx_size_left: NONE,
};
static CM: CmOps = CmOps { size: size_of::<CmOps>(), setname: NONE, getname, others: [NONE; 7] };

/// Number, on the node, of the endpoint for tagged messages.
pub fn tagged_number(number: u16) -> u16 {
    2 * number
}

/// Number, on the node, of the endpoint for others.
pub fn untagged_number(number: u16) -> u16 {
    2 * number + 1
}

impl EpInner {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes progress, and tells the queues and counters what has ended.
    #[inline]
    pub fn progress(&self) {
        if let Some(enabled) = self.enabled.get() {
            self.domain.face.hint_later();
            self.lock().progress(self, enabled);
            self.domain.counted.listen(self);
        }
    }

    /// True if progress found nothing to do.
    pub fn is_idle(&self) -> bool {
        self.enabled.get().is_none_or(|enabled| enabled.untagged.is_idle())
    }

    pub fn enable(self: &Arc<Self>) -> Result<(), c_int> {
        if self.enabled.get().is_some() {
            return Ok(());
        }
        let mut binding = self.binding.lock().unwrap_or_else(PoisonError::into_inner);
        // Who has a counter may do with what that says: Chapel has endpoints without a queue that others write to.
        let counted = binding.counters.of(Directions::ALL).next().is_some();
        let lacks = self.begins && binding.tx_cq.is_none()
            || self.caps.has(Caps::RECV) && binding.rx_cq.is_none();
        if lacks && !counted {
            return Err(-error::NOCQ);
        }
        let Some(av) = binding.av.clone() else { return Err(-error::NOAV) };
        let open = |number| {
            self.domain.node().endpoint(number).map_err(|error| {
                log::warn(&format!("endpoint {number}: {error}"));
                -libc::ENOMEM
            })
        };
        let enabled = Enabled {
            tagged: open(tagged_number(self.number))?,
            untagged: open(untagged_number(self.number))?,
            copied: self.domain.node().buffered_bytes_max(),
            copied_remote: self.domain.node().single_frame_bytes_max(),
            av,
            bound: std::mem::take(&mut *binding),
        };
        enabled.tagged.want_notices();
        enabled.untagged.want_notices();
        for queue in [&enabled.bound.tx_cq, &enabled.bound.rx_cq].into_iter().flatten() {
            join(&queue.endpoints, self);
            queue.waiting.join(&self.domain, &enabled);
        }
        enabled
            .bound
            .counters
            .of(Directions::ALL)
            .for_each(|counter| self.serve(counter, &enabled));
        // Calls that enable an endpoint are not made at the same time.
        let _ = self.enabled.set(enabled);
        if self.tells() {
            self.domain.take_events();
            self.domain.counted.enabled(self);
        }
        Ok(())
    }

    /// True if the counter counts its own operations.
    pub fn has(&self, counter: &Arc<CntrInner>) -> bool {
        let Some(enabled) = self.enabled.get() else { return false };
        enabled.bound.counters.of(Directions::ALL).any(|own| Arc::ptr_eq(own, counter))
    }

    /// From now on it makes progress when the counter is looked at.
    fn serve(self: &Arc<Self>, counter: &CntrInner, enabled: &Enabled) {
        join(&counter.endpoints, self);
        counter.waiting.join(&self.domain, enabled);
    }

    /// Ends the endpoint: what was sent is sent, as far as that is to be had in a bounded time, and no memory of the
    /// application is used any more.
    fn close(self: &Arc<Self>) {
        let Some(enabled) = self.enabled.get() else { return };
        let linger = self.domain.face.linger;
        // As long as some of them end, those left are waited for.
        let sends = || self.lock().slots.sends();
        let mut before = usize::MAX;
        while (1..before).contains(&sends()) {
            before = sends();
            self.progress_until(enabled, Instant::now() + linger, |slots| slots.sends() == 0);
        }
        self.lock().drop_parked();
        self.end_operations(enabled);
        for queue in [&enabled.bound.tx_cq, &enabled.bound.rx_cq].into_iter().flatten() {
            leave(&queue.endpoints, self);
        }
        for counter in enabled.bound.counters.of(Directions::ALL) {
            leave(&counter.endpoints, self);
        }
        self.domain.counted.closing(self);
    }

    /// Makes progress until the operations are as they should be, at most until `end`.
    fn progress_until(&self, enabled: &Enabled, end: Instant, done: fn(&Operations) -> bool) {
        while !done(&self.lock().slots) && Instant::now() < end {
            self.progress();
            if !done(&self.lock().slots) {
                let both = [&enabled.tagged, &enabled.untagged];
                Endpoint::wait_completions_of(&both, Duration::from_millis(1));
            }
        }
    }

    /// Ends all operations, so that the application may free its memory.
    fn end_operations(&self, enabled: &Enabled) {
        let raw = |of_tagged: bool| -> Vec<_> {
            let state = self.lock();
            let of = state.slots.all().filter(|(_, op)| op.tagged == of_tagged);
            of.flat_map(|(_, op)| op.posted()).collect()
        };
        enabled.tagged.end_raw(raw(true));
        enabled.untagged.end_raw(raw(false));
        // What still tries to go on finds the endpoint closed; a frame that waits for its link may delay an end.
        self.progress_until(enabled, Instant::now() + ENDS_WITHIN, |slots| slots.used() == 0);
        self.lock().drop_parked();
        if self.lock().slots.all().next().is_some() {
            log::warn("closing an endpoint with operations that cannot be ended ends its node");
            let _ = self.domain.node().close(Duration::ZERO);
        }
    }
}

/// How long operations that were ended may take to be over: a hundred times what a frame may wait for its link, as machines stand still.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// Segments of an operation; none named: all there can be.
fn iov_limit(named: usize) -> usize {
    if named == 0 { IOV_LIMIT } else { named }
}

pub type Endpoints = Mutex<Vec<Arc<EpInner>>>;

pub fn join(endpoints: &Endpoints, endpoint: &Arc<EpInner>) {
    let mut endpoints = endpoints.lock().unwrap_or_else(PoisonError::into_inner);
    if !endpoints.iter().any(|other| Arc::ptr_eq(other, endpoint)) {
        endpoints.push(Arc::clone(endpoint));
    }
}

pub fn leave(endpoints: &Endpoints, endpoint: &Arc<EpInner>) {
    let mut endpoints = endpoints.lock().unwrap_or_else(PoisonError::into_inner);
    endpoints.retain(|other| !Arc::ptr_eq(other, endpoint));
}

entry! {
    /// Opens an endpoint.
    pub fn open(
        domain: &Domain, info: *mut FiInfo, into: *mut *mut Ep, context: *mut c_void,
    ) -> c_int {
        let info: &FiInfo = object!(info.cast_const());
        // SAFETY: libfabric's rules.
        let (tx, rx) = unsafe { (look(info.tx_attr), look(info.rx_attr)) };
        let defaults = (
            tx.map_or(OpFlags::NONE, |tx| tx.op_flags),
            rx.map_or(OpFlags::NONE, |rx| rx.op_flags),
        );
        // The program may have written there since this was offered.
        if defaults.0.exceeds(TX_FLAGS) || defaults.1.exceeds(RX_FLAGS) {
            return -error::BADFLAGS;
        }
        // SAFETY: libfabric's rules.
        let source = unsafe { source_of(info, std::slice::from_ref(&domain.inner.way)) };
        let named = with_directions(info.caps);
        let number = match domain.inner.next_endpoint(source) {
            Ok(number) => number,
            Err(refusal) => return refusal,
        };
        let inner = EpInner {
            domain: Arc::clone(&domain.inner),
            number,
            caps: with_initiators(named),
            begins: named.has_any(Caps::SEND.with(Caps::READ).with(Caps::WRITE)),
            tx_flags: Defaults::new(defaults.0),
            rx_flags: Defaults::new(defaults.1),
            min_multi_recv: AtomicUsize::new(MIN_MULTI_RECV),
            iov_limits: (
                iov_limit(tx.map_or(0, |tx| tx.iov_limit)),
                iov_limit(rx.map_or(0, |rx| rx.iov_limit)),
            ),
            binding: Mutex::default(),
            uses: Mutex::default(),
            enabled: OnceLock::new(),
            state: Mutex::new(State {
                slots: Operations::default(),
                neighbours: Neighbours::default(),
                completions: Vec::with_capacity(BATCH),
                claims: Vec::new(),
                parked: Vec::new(),
            }),
        };
        let endpoint = Ep {
            fid: fid(class::EP, context, &FID),
            ops: &OPS,
            cm: &CM,
            msg: &msg::OPS,
            rma: &rma::OPS,
            tagged: &tagged::OPS,
            atomic: &atomic::OPS,
            collective: &COLLECTIVE,
            inner: Arc::new(inner),
            _of: domain.users.one(),
        };
        // SAFETY: libfabric's rules.
        unsafe { give(endpoint, into) }
    }

    pub fn open2(
        domain: *mut Domain, info: *mut FiInfo, into: *mut *mut Ep, flags: u64,
        context: *mut c_void,
    ) -> c_int {
        // All that there are make it part of something (`FI_PEER`).
        if flags != 0 {
            return -error::BADFLAGS;
        }
        // SAFETY: the same arguments under the same rules.
        unsafe { open(domain, info, into, context) }
    }

    fn close(fid: *mut Fid) -> c_int {
        // SAFETY: libfabric's rules.
        if let Some(endpoint) = unsafe { take::<Ep>(fid) } {
            endpoint.inner.close();
            endpoint.inner.uses.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        0
    }

    fn bind(endpoint: *mut Fid, to: *mut Fid, flags: u64) -> c_int {
        // SAFETY: the same arguments under the same rules.
        aloud("fi_ep_bind", unsafe { bind_quietly(endpoint, to, flags) })
    }

    fn bind_quietly(endpoint: Fid<Ep>, to: *mut Fid, flags: u64) -> c_int {
        let common: &Fid = object!(to.cast_const());
        let enabled = endpoint.inner.enabled.get();
        // Sandia's SHMEM binds both when its endpoints are enabled.
        let late = matches!(common.fclass, class::CNTR | class::STX);
        if enabled.is_some() && !late {
            return -error::OPBADSTATE;
        }
        let mut bound = endpoint.inner.binding.lock().unwrap_or_else(PoisonError::into_inner);
        // What is bound to each other is of one domain: one node, and one rule for who may call when.
        let beside = |domain: &Arc<DomainInner>| Arc::ptr_eq(domain, &endpoint.inner.domain);
        let user = |users: &Users| {
            let mut uses = endpoint.inner.uses.lock().unwrap_or_else(PoisonError::into_inner);
            uses.push(users.one());
            0
        };
        match common.fclass {
            class::CQ => {
                let queue: &Cq = downcast!(to);
                let flags = BindFlags::from_c(flags);
                let selective = flags.has(BindFlags::SELECTIVE_COMPLETION);
                let (tx, rx) = (flags.has(BindFlags::TRANSMIT), flags.has(BindFlags::RECV));
                let sides = BindFlags::TRANSMIT.with(BindFlags::RECV);
                if flags.exceeds(sides.with(BindFlags::SELECTIVE_COMPLETION)) || !(tx || rx) {
                    return -error::BADFLAGS;
                }
                let taken = tx && bound.tx_cq.is_some() || rx && bound.rx_cq.is_some();
                if taken || !beside(&queue.inner.domain) {
                    return -libc::EINVAL;
                }
                if tx {
                    bound.tx_cq = Some(Arc::clone(&queue.inner));
                    bound.tx_selective = selective;
                }
                if rx {
                    bound.rx_cq = Some(Arc::clone(&queue.inner));
                    bound.rx_selective = selective;
                }
                user(&queue.users)
            }
            class::AV => {
                let av: &Av = downcast!(to);
                if bound.av.is_some() || !beside(&av.inner.domain) {
                    return -libc::EINVAL;
                }
                bound.av = Some(Arc::clone(&av.inner));
                user(&av.users)
            }
            class::CNTR => {
                let counter: &Cntr = downcast!(to);
                let directions = Directions::from_c(flags);
                if directions == Directions::NONE || directions.exceeds(Directions::ALL) {
                    return -error::BADFLAGS;
                }
                let counters = enabled.map_or(&bound.counters, |enabled| &enabled.bound.counters);
                if !beside(&counter.inner.domain) || !counters.bind(&counter.inner, directions) {
                    return -libc::EINVAL;
                }
                if let Some(enabled) = enabled {
                    endpoint.inner.serve(&counter.inner, enabled);
                }
                user(&counter.users)
            }
            // All endpoints of a domain share what it sends by: nothing of the context is needed, and it may be closed first.
            class::STX => {
                let context: &Stx = downcast!(to);
                if beside(&context.domain) { 0 } else { -libc::EINVAL }
            }
            // Nothing happens to an endpoint that an event would tell of.
            class::EQ => {
                let events: &Eq = downcast!(to);
                user(&events.users)
            }
            _ => -libc::EINVAL,
        }
    }

    fn cancel(endpoint: Fid<Ep>, context: *mut c_void) -> isize {
        match endpoint.inner.enabled.get() {
            Some(enabled) => {
                let mut state = endpoint.inner.lock();
                state.cancel(enabled, context.expose_provenance())
            }
            None => -(libc::ENOENT as isize),
        }
    }
}
