//! Counters of ended operations.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::bindings::*;
use crate::domain::{Domain, DomainInner};
use crate::endpoint::{Endpoints, EpInner};
use crate::entry::entry;
use crate::objects::{Object, close_unused, fid, give};
use crate::tables::{CntrOps, FidOps};
use crate::wait_objects::{WaitObject, wait_any};
use emp_face::users::{Use, Users};
use emp_face::waiting::{Waiters, end_of};
use emp_face::yielding;

/// Counters count operations (`FI_CNTR_EVENTS_COMP`), and nothing else.
const COUNTS_OPERATIONS: u32 = 0;

/// What endpoints keep of a counter.
pub struct CntrInner {
    /// That of all endpoints of this counter.
    pub domain: Arc<DomainInner>,
    /// Threads in [`wait`], which whoever changes the counter wakes.
    waiters: Waiters,
    good: AtomicU64,
    bad: AtomicU64,
    /// Endpoints that are bound to it.
    pub endpoints: Endpoints,
    /// Value at the last look, to see whether anything has happened since.
    seen: AtomicU64,
    /// Good and bad together when `fi_trywait` was called last.
    tried: AtomicU64,
    pub waiting: WaitObject,
}

#[repr(C)]
pub struct Cntr {
    fid: Fid,
    ops: *const CntrOps,
    pub inner: Arc<CntrInner>,
    /// Endpoints that are bound to it.
    pub users: Users,
    _of: Use,
}

// SAFETY: `repr(C)`, and begins with its fid, whose table no other type has.
unsafe impl Object for Cntr {
    const CLASS: usize = class::CNTR;

    fn table() -> &'static FidOps {
        &FID
    }
}

static FID: FidOps = FidOps { control, ..FidOps::new(close) };
static OPS: CntrOps =
    CntrOps { size: size_of::<CntrOps>(), read, readerr, add, set, wait, adderr, seterr };

impl CntrInner {
    fn new(domain: &Arc<DomainInner>, waiting: WaitObject) -> Self {
        Self {
            domain: Arc::clone(domain),
            waiters: Waiters::default(),
            good: AtomicU64::new(0),
            bad: AtomicU64::new(0),
            endpoints: Mutex::default(),
            seen: AtomicU64::new(0),
            tried: AtomicU64::new(0),
            waiting,
        }
    }

    /// Notes an operation that has ended.
    pub fn count(&self, good: bool) {
        let counter = if good { &self.good } else { &self.bad };
        counter.fetch_add(1, Ordering::Release);
        self.changed();
    }

    fn changed(&self) {
        self.waiting.ring();
        self.waiters.tell(self.domain.node(), false);
    }

    fn sum(&self) -> u64 {
        let good = self.good.load(Ordering::Acquire);
        good.wrapping_add(self.bad.load(Ordering::Acquire))
    }

    /// True if it was changed since it was last asked this, or by the progress made now.
    pub fn is_ready(&self) -> bool {
        self.waiting.hush();
        self.progress();
        let sum = self.sum();
        self.tried.swap(sum, Ordering::Relaxed) != sum
    }

    fn endpoints(&self) -> Vec<Arc<EpInner>> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn progress(&self) {
        self.endpoints().iter().for_each(|endpoint| endpoint.progress());
    }
}

entry! {
    /// Opens a counter.
    pub fn open(
        domain: &Domain, attr: *mut FiCntrAttr, into: *mut *mut Cntr, context: *mut c_void,
    ) -> c_int {
        // SAFETY: libfabric's rules.
        let (events, wait_obj, flags) = unsafe { attr.as_ref() }
            .map_or((0, wait::NONE, 0), |attr| (attr.events, attr.wait_obj, attr.flags));
        if flags != 0 {
            return -error::BADFLAGS;
        }
        if events != COUNTS_OPERATIONS {
            return -libc::ENOSYS;
        }
        let waiting = match WaitObject::open(wait_obj) {
            Ok(waiting) => waiting,
            Err(refusal) => return refusal,
        };
        let fid = fid(class::CNTR, context, &FID);
        // SAFETY: libfabric's rules.
        unsafe {
            let inner = Arc::new(CntrInner::new(&domain.inner, waiting));
            let (users, of) = (Users::default(), domain.users.one());
            give(Cntr { fid, ops: &OPS, inner, users, _of: of }, into)
        }
    }

    fn close(fid: *mut Fid) -> c_int {
        // SAFETY: libfabric's rules.
        unsafe { close_unused(fid, |counter: &Cntr| &counter.users) }
    }

    fn control(counter: Fid<Cntr>, command: c_int, argument: *mut c_void) -> c_int {
        // SAFETY: libfabric's rules.
        unsafe { counter.inner.waiting.control(command, argument) }
    }

    fn read(counter: &Cntr) -> u64 {
        counter.inner.progress();
        let value = counter.inner.good.load(Ordering::Acquire);
        let idle = counter.inner.endpoints().iter().all(|endpoint| endpoint.is_idle());
        let idle = idle && !counter.inner.domain.spins;
        if counter.inner.seen.swap(value, Ordering::Relaxed) == value && idle {
            yielding::nothing();
        } else {
            yielding::found();
        }
        value
    }

    fn readerr(counter: &Cntr) -> u64 {
        counter.inner.progress();
        counter.inner.bad.load(Ordering::Acquire)
    }

    fn add(counter: &Cntr, value: u64) -> c_int {
        counter.inner.good.fetch_add(value, Ordering::Release);
        counter.inner.changed();
        0
    }

    fn set(counter: &Cntr, value: u64) -> c_int {
        // Not passed by the look at who waits.
        counter.inner.good.swap(value, Ordering::SeqCst);
        counter.inner.changed();
        0
    }

    fn adderr(counter: &Cntr, value: u64) -> c_int {
        counter.inner.bad.fetch_add(value, Ordering::Release);
        counter.inner.changed();
        0
    }

    fn seterr(counter: &Cntr, value: u64) -> c_int {
        counter.inner.bad.swap(value, Ordering::SeqCst);
        counter.inner.changed();
        0
    }

    fn wait(counter: &Cntr, threshold: u64, timeout: c_int) -> c_int {
        let counter = &counter.inner;
        let end = end_of(u64::try_from(timeout).ok().map(Duration::from_millis));
        let bad_before = counter.bad.load(Ordering::Acquire);
        let look = || {
            counter.progress();
            let reached = counter.good.load(Ordering::Acquire) >= threshold;
            let failed = counter.bad.load(Ordering::Acquire) != bad_before;
            let result = if reached { Some(0) } else { failed.then_some(-error::AVAIL) };
            // What is found is told where it is counted.
            (result, false)
        };
        let sleep =
            |nudges, left| wait_any(&counter.endpoints(), nudges, left);
        let waited = counter.waiters.wait_by(counter.domain.node(), end, look, sleep);
        waited.unwrap_or(-libc::ETIMEDOUT)
    }
}
