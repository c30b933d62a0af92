//! Counters of ended operations.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::bindings::*;
use crate::domain::Domain;
use crate::endpoint::{EpInner, wait_any};
use crate::entry::enter;
use crate::handle::{Object, close_unused, fid, give, object};
use crate::tables::{CntrOps, FidOps};
use crate::waiting::WaitObject;
use emp_face::users::{Use, Users};
use emp_face::yielding::Yielding;

/// Longest sleep of a wait before the counter is looked at again: the application may change it, too.
const SLICE: Duration = Duration::from_millis(10);

/// What endpoints keep of a counter.
#[derive(Default)]
pub struct CntrInner {
    good: AtomicU64,
    bad: AtomicU64,
    /// Endpoints that are bound to it.
    pub endpoints: Mutex<Vec<Arc<EpInner>>>,
    /// Value at the last look, to see whether anything has happened since.
    seen: AtomicU64,
    /// Good and bad together when `fi_trywait` was called last.
    tried: AtomicU64,
    yielding: Yielding,
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

// SAFETY: `repr(C)`, and begins with its fid.
unsafe impl Object for Cntr {}

static FID: FidOps = FidOps { control, ..FidOps::new(close) };
static OPS: CntrOps =
    CntrOps { size: size_of::<CntrOps>(), read, readerr, add, set, wait, adderr, seterr };

impl CntrInner {
    /// Notes an operation that has ended.
    pub fn count(&self, good: bool) {
        let counter = if good { &self.good } else { &self.bad };
        counter.fetch_add(1, Ordering::Release);
        self.waiting.ring();
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

/// Opens a counter.
///
/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
pub unsafe extern "C" fn open(
    domain: *mut Domain,
    attr: *mut FiCntrAttr,
    into: *mut *mut Cntr,
    context: *mut c_void,
) -> c_int {
    enter(|| -> c_int {
        let domain: &Domain = object!(domain.cast_const());
        // SAFETY: libfabric's rules.
        let wait_obj = unsafe { attr.as_ref() }.map_or(wait::NONE, |attr| attr.wait_obj);
        let waiting = match WaitObject::open(wait_obj) {
            Ok(waiting) => waiting,
            Err(refusal) => return refusal,
        };
        let fid = fid(class::CNTR, context, &FID);
        // SAFETY: libfabric's rules.
        unsafe {
            let inner = Arc::new(CntrInner { waiting, ..CntrInner::default() });
            let (users, of) = (Users::default(), domain.users.one());
            give(Cntr { fid, ops: &OPS, inner, users, _of: of }, into)
        }
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    enter(|| -> c_int {
        // SAFETY: libfabric's rules.
        unsafe { close_unused(fid, |counter: &Cntr| &counter.users) }
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn control(fid: *mut Fid, command: c_int, argument: *mut c_void) -> c_int {
    enter(|| -> c_int {
        let counter: &Cntr = object!(fid.cast::<Cntr>().cast_const());
        // SAFETY: libfabric's rules.
        unsafe { counter.inner.waiting.control(command, argument) }
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn read(counter: *mut Cntr) -> u64 {
    enter(|| -> u64 {
        let counter: &Cntr = object!(counter.cast_const());
        counter.inner.progress();
        let value = counter.inner.good.load(Ordering::Acquire);
        let idle = counter.inner.endpoints().iter().all(|endpoint| endpoint.is_idle());
        if counter.inner.seen.swap(value, Ordering::Relaxed) == value && idle {
            counter.inner.yielding.nothing();
        } else {
            counter.inner.yielding.found();
        }
        value
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn readerr(counter: *mut Cntr) -> u64 {
    enter(|| -> u64 {
        let counter: &Cntr = object!(counter.cast_const());
        counter.inner.progress();
        counter.inner.bad.load(Ordering::Acquire)
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn add(counter: *mut Cntr, value: u64) -> c_int {
    enter(|| -> c_int {
        let counter: &Cntr = object!(counter.cast_const());
        counter.inner.good.fetch_add(value, Ordering::Release);
        counter.inner.waiting.ring();
        0
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn set(counter: *mut Cntr, value: u64) -> c_int {
    enter(|| -> c_int {
        let counter: &Cntr = object!(counter.cast_const());
        counter.inner.good.store(value, Ordering::Release);
        counter.inner.waiting.ring();
        0
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn adderr(counter: *mut Cntr, value: u64) -> c_int {
    enter(|| -> c_int {
        let counter: &Cntr = object!(counter.cast_const());
        counter.inner.bad.fetch_add(value, Ordering::Release);
        counter.inner.waiting.ring();
        0
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn seterr(counter: *mut Cntr, value: u64) -> c_int {
    enter(|| -> c_int {
        let counter: &Cntr = object!(counter.cast_const());
        counter.inner.bad.store(value, Ordering::Release);
        counter.inner.waiting.ring();
        0
    })
}

/// # Safety
///
/// The pointers follow libfabric's rules ([`crate::handle`]).
unsafe extern "C" fn wait(counter: *mut Cntr, threshold: u64, timeout: c_int) -> c_int {
    enter(|| -> c_int {
        let counter: &Cntr = object!(counter.cast_const());
        let counter = &counter.inner;
        let end = u64::try_from(timeout).ok().map(|ms| Instant::now() + Duration::from_millis(ms));
        let bad_before = counter.bad.load(Ordering::Acquire);
        loop {
            counter.progress();
            if counter.good.load(Ordering::Acquire) >= threshold {
                return 0;
            }
            if counter.bad.load(Ordering::Acquire) != bad_before {
                return -error::AVAIL;
            }
            let left = end.map_or(SLICE, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return -libc::ETIMEDOUT;
            }
            wait_any(&counter.endpoints(), left.min(SLICE));
        }
    })
}
