//! Completion queues.

use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::bindings::*;
use crate::domain::{Domain, DomainInner};
use crate::endpoint::Endpoints;
use crate::entry::entry;
use crate::flags::{CqFlags, CqOpenFlags};
use crate::objects::{Object, close_unused, fid, give, object, put_text, store};
use crate::tables::{CqOps, FidOps};
use crate::wait_objects::{WaitObject, wait_any};
use emp_face::users::{Use, Users};
use emp_face::waiting::{Waiters, end_of};
use emp_face::yielding;

/// Entries that a queue holds before operations are refused for it, unless more are asked for: those that were posted may
/// all end at once.
const DEPTH_MIN: usize = 16 << 10;

/// How long ago the links were looked at, at most, for a program that reads until there is nothing more (as Open MPI does) to be told that
/// there is nothing: a look with a message of some KB in it takes 2 to 4 µs, and such a program comes back within another one.
const JUST_LOOKED: Duration = Duration::from_micros(10);

/// Lengths of the queue that entries which nobody here asked for may fill.
const OVERRUN: usize = 4;

/// An operation that has ended.
pub struct Ended {
    pub context: usize,
    pub flags: CqFlags,
    pub len: usize,
    pub buffer: usize,
    pub data: u64,
    pub tag: u64,
    pub source: FiAddr,
    pub failure: Option<Failure>,
}

/// How it failed.
#[derive(Clone, Copy)]
pub struct Failure {
    pub error: i32,
    /// The provider's number: of an [`emp_host::Status`].
    pub detail: i32,
    /// Bytes of the message that did not fit.
    pub overflow: usize,
}

/// What endpoints keep of a completion queue.
pub struct CqInner {
    ended: Mutex<VecDeque<Ended>>,
    /// Entries, to be read without the lock.
    count: AtomicUsize,
    depth: usize,
    format: u32,
    /// Endpoints that are bound to it. Locked before an endpoint, which is locked before `ended`.
    pub endpoints: Endpoints,
    /// How often the queue was signalled, and the last of those signals that has ended a call. One ends all calls that wait, or
    /// else the next.
    signals: AtomicU64,
    signals_answered: AtomicU64,
    /// That of all endpoints of this queue.
    pub domain: Arc<DomainInner>,
    /// Threads in [`sreadfrom`], which whoever adds an entry wakes.
    waiters: Waiters,
    /// Entries were dropped.
    overrun: AtomicBool,
    /// The last look has given entries.
    gave: AtomicBool,
    pub waiting: WaitObject,
}

#[repr(C)]
pub struct Cq {
    fid: Fid,
    ops: *const CqOps,
    pub inner: Arc<CqInner>,
    /// Endpoints that are bound to it.
    pub users: Users,
    /// The program's entries of errors have `err_data_size`.
    sizes_error_data: bool,
    _of: Use,
}

// SAFETY: `repr(C)`, and begins with its fid, whose table no other type has.
unsafe impl Object for Cq {
    const CLASS: usize = class::CQ;

    fn table() -> &'static FidOps {
        &FID
    }
}

static FID: FidOps = FidOps { control, ..FidOps::new(close) };
static OPS: CqOps =
    CqOps { size: size_of::<CqOps>(), read, readfrom, readerr, sread, sreadfrom, signal, strerror };

impl CqInner {
    /// True if operations that will need an entry must wait until some were read.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= self.depth
    }

    /// True if it holds more than [`push_unasked`](Self::push_unasked) puts there.
    #[inline]
    pub fn is_overfull(&self) -> bool {
        self.count.load(Ordering::Relaxed) > OVERRUN * self.depth
    }

    #[inline(always)]
    pub fn push(&self, entry: Ended) {
        let mut ended = self.lock();
        ended.push_back(entry);
        self.count.store(ended.len(), Ordering::Relaxed);
        let waited_for = self.waiters.any();
        drop(ended);
        self.waiting.ring();
        // It may be another thread that has added what one sleeps for.
        if waited_for {
            self.domain.node().nudge();
        }
    }

    /// True if the queue was signalled since the signal that was the last to be answered when a call began: it ends.
    fn answers(&self, begun: u64) -> bool {
        let signals = self.signals.load(Ordering::SeqCst);
        let ends = signals != begun;
        if ends {
            self.signals_answered.fetch_max(signals, Ordering::AcqRel);
        }
        ends
    }

    /// Adds an entry for which no operation of ours was posted: peers decide how many there are. Beyond several times the
    /// queue's length they are dropped, and readers are told (`FI_EOVERRUN`) after what came before: so all that comes later is dropped too.
    pub fn push_unasked(&self, entry: Ended) {
        if self.overrun.load(Ordering::Relaxed)
            || self.count.load(Ordering::Relaxed) >= OVERRUN * self.depth
        {
            self.overrun.store(true, Ordering::Relaxed);
        } else {
            self.push(entry);
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Ended>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes progress. True if there was nothing to do at all, not even for a long message that is on its way.
    #[inline]
    fn progress(&self) -> bool {
        let endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        endpoints.iter().fold(true, |idle, endpoint| {
            endpoint.progress();
            idle & endpoint.is_idle()
        })
    }

    /// True if there is something to read, after progress.
    pub fn is_ready(&self) -> bool {
        self.waiting.hush();
        self.progress();
        self.count.load(Ordering::Relaxed) != 0
    }

    /// True if the last look has given entries, and that just now: who asks at once whether there are more is told without another look. It
    /// would take the time of a system call from the program's answer, and have the node do what it has put off until the answer has left.
    #[inline]
    fn has_just_given(&self) -> bool {
        self.gave.load(Ordering::Relaxed) && {
            // The next look is one whatever this one is told.
            self.gave.store(false, Ordering::Relaxed);
            self.domain.node().has_given_all(JUST_LOOKED)
        }
    }

    /// Progress, and as many entries as there are up to the first failure.
    #[inline]
    fn read(&self, room: usize, mut put: impl FnMut(usize, &Ended)) -> isize {
        if self.count.load(Ordering::Relaxed) == 0 && self.has_just_given() {
            return -(libc::EAGAIN as isize);
        }
        // Without this, an application that reads one entry at a time would pay a turn for each.
        let looked = self.count.load(Ordering::Relaxed) < room.max(1);
        let idle = looked && self.progress();
        if self.count.load(Ordering::Relaxed) == 0 {
            if self.overrun.load(Ordering::Relaxed) {
                return -(error::OVERRUN as isize);
            }
            // Gives the core away, unless there is something to do, or the user wants calls to spin.
            if idle && !self.domain.spins {
                yielding::nothing();
            } else {
                yielding::found();
            }
            return -(libc::EAGAIN as isize);
        }
        yielding::found();
        let mut ended = self.lock();
        let mut count = 0;
        while count < room
            && let Some(entry) = ended.front().filter(|entry| entry.failure.is_none())
        {
            put(count, entry);
            ended.pop_front();
            count += 1;
        }
        self.count.store(ended.len(), Ordering::Relaxed);
        self.gave.store(count != 0, Ordering::Relaxed);
        match (count, ended.front()) {
            (0, Some(entry)) if entry.failure.is_some() => -(error::AVAIL as isize),
            (0, _) => -(libc::EAGAIN as isize),
            _ => count as isize,
        }
    }

    /// Writes entry number `index`.
    ///
    /// # Safety
    ///
    /// libfabric's rules: `into` is null or has room for it.
    #[inline]
    unsafe fn put(&self, into: *mut c_void, index: usize, entry: &Ended) {
        if into.is_null() {
            return;
        }
        // Each format is the beginning of the next. Written member by member: what is put together first and then copied
        // waits for its own stores.
        let bytes = match self.format {
            format::CONTEXT => 8,
            format::MSG => 24,
            format::DATA => 40,
            _ => size_of::<FiCqTaggedEntry>(),
        };
        // SAFETY: there is room for an entry of so many bytes, in which the members that are written lie.
        unsafe {
            let place = into.cast::<u8>().add(index * bytes).cast::<FiCqTaggedEntry>();
            (&raw mut (*place).op_context)
                .write_unaligned(std::ptr::with_exposed_provenance_mut(entry.context));
            if self.format == format::CONTEXT {
                return;
            }
            (&raw mut (*place).flags).write_unaligned(entry.flags);
            (&raw mut (*place).len).write_unaligned(entry.len);
            if self.format == format::MSG {
                return;
            }
            (&raw mut (*place).buf)
                .write_unaligned(std::ptr::with_exposed_provenance_mut(entry.buffer));
            (&raw mut (*place).data).write_unaligned(entry.data);
            if self.format == format::DATA {
                return;
            }
            (&raw mut (*place).tag).write_unaligned(entry.tag);
        }
    }
}

entry! {
    /// Opens a completion queue.
    pub fn open(
        domain: &Domain, attr: *mut FiCqAttr, into: *mut *mut Cq, context: *mut c_void,
    ) -> c_int {
        let (mut depth, mut form, mut waiting) = (0, format::UNSPEC, WaitObject::default());
        // SAFETY: libfabric's rules.
        if let Some(attr) = unsafe { attr.as_mut() } {
            waiting = match WaitObject::open(attr.wait_obj) {
                Ok(waiting) => waiting,
                Err(refusal) => return refusal,
            };
            if attr.flags.exceeds(CqOpenFlags::AFFINITY) {
                return -error::BADFLAGS;
            }
            if attr.format > format::TAGGED {
                return -libc::ENOSYS;
            }
            if attr.format == format::UNSPEC {
                attr.format = format::TAGGED;
            }
            (depth, form) = (attr.size, attr.format);
        }
        let inner = CqInner {
            ended: Mutex::default(),
            count: AtomicUsize::new(0),
            depth: depth.max(DEPTH_MIN),
            format: form,
            endpoints: Mutex::default(),
            signals: AtomicU64::new(0),
            signals_answered: AtomicU64::new(0),
            domain: Arc::clone(&domain.inner),
            waiters: Waiters::default(),
            overrun: AtomicBool::new(false),
            gave: AtomicBool::new(false),
            waiting,
        };
        let fid = fid(class::CQ, context, &FID);
        // SAFETY: libfabric's rules.
        unsafe {
            let (inner, users, of) = (Arc::new(inner), Users::default(), domain.users.one());
            let sizes_error_data = domain.sizes_error_data;
            give(Cq { fid, ops: &OPS, inner, users, sizes_error_data, _of: of }, into)
        }
    }

    fn close(fid: *mut Fid) -> c_int {
        // SAFETY: libfabric's rules.
        unsafe { close_unused(fid, |queue: &Cq| &queue.users) }
    }

    fn control(queue: Fid<Cq>, command: c_int, argument: *mut c_void) -> c_int {
        // SAFETY: libfabric's rules.
        unsafe { queue.inner.waiting.control(command, argument) }
    }

    fn read(cq: &Cq, into: *mut c_void, room: usize) -> isize {
        // SAFETY: libfabric's rules: there is room for so many entries.
        cq.inner.read(room, |index, entry| unsafe { cq.inner.put(into, index, entry) })
    }

    fn readfrom(cq: &Cq, into: *mut c_void, room: usize, sources: *mut FiAddr) -> isize {
        cq.inner.read(room, |index, entry| {
            // SAFETY: libfabric's rules: there is room for so many entries.
            unsafe { cq.inner.put(into, index, entry) };
            if !sources.is_null() {
                store!(sources.wrapping_add(index), entry.source);
            }
        })
    }

    fn sread(
        cq: *mut Cq, into: *mut c_void, room: usize, condition: *const c_void, timeout: c_int,
    ) -> isize {
        // SAFETY: the same arguments under the same rules.
        unsafe { sreadfrom(cq, into, room, std::ptr::null_mut(), condition, timeout) }
    }

    fn sreadfrom(
        cq: *mut Cq, into: *mut c_void, room: usize, sources: *mut FiAddr,
        _condition: *const c_void, timeout: c_int,
    ) -> isize {
        let pointer = cq;
        let cq: &Cq = object!(cq.cast_const());
        let end = end_of(u64::try_from(timeout).ok().map(Duration::from_millis));
        let (inner, again) = (&cq.inner, -(libc::EAGAIN as isize));
        let begun = inner.signals_answered.load(Ordering::Acquire);
        // Who is ready to wait may as well look.
        inner.gave.store(false, Ordering::Relaxed);
        let look = || {
            // Either this comes before an entry is added, and whoever does that sees that somebody waits, or the entry is seen.
            drop(inner.lock());
            // SAFETY: the same arguments under the same rules.
            let result = unsafe { readfrom(pointer, into, room, sources) };
            let over = result != again || inner.answers(begun);
            // What is found is told where it is pushed.
            (over.then_some(result), false)
        };
        let sleep = |nudges, left| {
            let endpoints = inner.endpoints.lock().unwrap_or_else(PoisonError::into_inner).clone();
            wait_any(&endpoints, nudges, left);
        };
        inner.waiters.wait_by(inner.domain.node(), end, look, sleep).unwrap_or(again)
    }

    fn signal(cq: &Cq) -> c_int {
        // Not passed by the look at who waits.
        cq.inner.signals.fetch_add(1, Ordering::SeqCst);
        cq.inner.waiters.tell(cq.inner.domain.node(), false);
        0
    }

    fn readerr(cq: &Cq, pointer: *mut FiCqErrEntry, _flags: u64) -> isize {
        // SAFETY: libfabric's rules.
        let Some(into) = (unsafe { pointer.as_mut() }) else { return -(libc::EINVAL as isize) };
        let mut ended = cq.inner.lock();
        let Some(failure) = ended.front().and_then(|entry| entry.failure) else {
            return -(libc::EAGAIN as isize);
        };
        let Some(entry) = ended.pop_front() else { return -(libc::EAGAIN as isize) };
        cq.inner.count.store(ended.len(), Ordering::Relaxed);
        drop(ended);
        // Who looks for a message again and again reads nothing but that there is none.
        if failure.error == libc::ENOMSG {
            cq.inner.progress();
        }
        into.op_context = std::ptr::with_exposed_provenance_mut(entry.context);
        into.flags = entry.flags;
        into.len = entry.len;
        into.buf = std::ptr::with_exposed_provenance_mut(entry.buffer);
        into.data = entry.data;
        into.tag = entry.tag;
        into.olen = failure.overflow;
        into.err = failure.error;
        into.prov_errno = failure.detail;
        if cq.sizes_error_data {
            // SAFETY: libfabric's rules: such an entry, for a program of such an interface.
            unsafe { (*pointer.cast::<FiCqErrEntrySince15>()).err_data_size = 0 };
        }
        1
    }

    fn strerror(
        _cq: *mut Cq, detail: c_int, _data: *const c_void, into: *mut c_char, room: usize,
    ) -> *const c_char {
        let text: &'static CStr = crate::status::describe(detail);
        // SAFETY: libfabric's rules: so much room.
        unsafe { put_text(&text.to_string_lossy(), into, room) };
        text.as_ptr()
    }
}
