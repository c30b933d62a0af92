//! Event queues. Nothing here connects; they tell of address insertions, and of what the application writes.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::bindings::*;
use crate::entry::entry;
use crate::fabric::Fabric;
use crate::flags::{EqFlags, EqOpenFlags};
use crate::objects::{Object, close_unused, fid, give, list, put_text, store};
use crate::tables::{EqOps, FidOps};
use crate::wait_objects::WaitObject;
use emp_face::users::{Use, Users};

/// Events that wait to be read and beside which an application may write its own. What an insertion has to tell is never
/// dropped: the application waits for it, and has made those events itself, one for each address that was none.
const EVENTS_MAX: usize = 4096;

/// What happened.
#[derive(Clone)]
enum Event {
    /// Its number, and what is to be read of it.
    Good(u32, Vec<u8>),
    /// Something has failed: the object, context and data that it is told with, and the error.
    Bad([usize; 2], u64, c_int),
}

/// What other objects keep of an event queue.
pub struct EqInner {
    events: Mutex<VecDeque<Event>>,
    more: Condvar,
    waiting: WaitObject,
}

#[repr(C)]
pub struct Eq {
    fid: Fid,
    ops: *const EqOps,
    pub inner: Arc<EqInner>,
    /// What is bound to it.
    pub users: Users,
    /// The program's entries of errors have `err_data_size`.
    sizes_error_data: bool,
    _of: Use,
}

// SAFETY: `repr(C)`, and begins with its fid, whose table no other type has.
unsafe impl Object for Eq {
    const CLASS: usize = class::EQ;

    fn table() -> &'static FidOps {
        &FID
    }
}

static FID: FidOps = FidOps { control, ..FidOps::new(close) };
static OPS: EqOps = EqOps { size: size_of::<EqOps>(), read, readerr, write, sread, strerror };

impl EqInner {
    /// Adds an event.
    pub fn push(&self, event: u32, entry: FiEqEntry) {
        let fields = [entry.fid.addr() as u64, entry.context.addr() as u64, entry.data];
        let bytes = fields.iter().flat_map(|field| field.to_ne_bytes()).collect();
        self.push_event(Event::Good(event, bytes), usize::MAX);
    }

    /// Adds an address that could not be inserted.
    pub fn push_error(&self, entry: FiEqEntry) {
        let pointers = [entry.fid.expose_provenance(), entry.context.expose_provenance()];
        self.push_event(Event::Bad(pointers, entry.data, libc::EINVAL), usize::MAX);
    }

    /// Adds an event unless so many wait already; false if they do.
    fn push_event(&self, event: Event, most: usize) -> bool {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let room = events.len() < most;
        if room {
            events.push_back(event);
            self.more.notify_all();
            self.waiting.ring();
        }
        room
    }

    /// True if there is an event.
    pub fn is_ready(&self) -> bool {
        self.waiting.hush();
        !self.events.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Waits for an event for `time` at most (`None`: without limit), and takes it unless it is to stay.
    /// A failure stays until [`readerr`] takes it.
    fn next(&self, time: Option<Duration>, stay: bool) -> Option<Event> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if events.is_empty() && time != Some(Duration::ZERO) {
            let none = |events: &mut VecDeque<_>| events.is_empty();
            events = match time {
                None => self.more.wait_while(events, none).unwrap_or_else(PoisonError::into_inner),
                Some(time) => {
                    self.more
                        .wait_timeout_while(events, time, none)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
        match events.front() {
            Some(event @ Event::Bad(..)) => Some(event.clone()),
            front if stay => front.cloned(),
            _ => events.pop_front(),
        }
    }
}

entry! {
    /// Opens an event queue.
    pub fn open(
        fabric: &Fabric, attr: *mut FiEqAttr, into: *mut *mut Eq, context: *mut c_void,
    ) -> c_int {
        // SAFETY: libfabric's rules.
        let (wait_obj, flags) = unsafe { attr.as_ref() }
            .map_or((wait::NONE, EqOpenFlags::NONE), |attr| (attr.wait_obj, attr.flags));
        if flags.exceeds(EqOpenFlags::WRITE.with(EqOpenFlags::AFFINITY)) {
            return -error::BADFLAGS;
        }
        let waiting = match WaitObject::open(wait_obj) {
            Ok(waiting) => waiting,
            Err(refusal) => return refusal,
        };
        let inner = Arc::new(EqInner { events: Mutex::default(), more: Condvar::new(), waiting });
        let fid = fid(class::EQ, context, &FID);
        // SAFETY: libfabric's rules.
        unsafe {
            let (users, of) = (Users::default(), fabric.users.one());
            let sizes_error_data = fabric.sizes_error_data();
            give(Eq { fid, ops: &OPS, inner, users, sizes_error_data, _of: of }, into)
        }
    }

    fn close(fid: *mut Fid) -> c_int {
        // SAFETY: libfabric's rules.
        unsafe { close_unused(fid, |events: &Eq| &events.users) }
    }

    fn control(events: Fid<Eq>, command: c_int, argument: *mut c_void) -> c_int {
        // SAFETY: libfabric's rules.
        unsafe { events.inner.waiting.control(command, argument) }
    }

    fn read(eq: *mut Eq, event: *mut u32, into: *mut c_void, room: usize, flags: EqFlags) -> isize {
        // SAFETY: the same arguments under the same rules.
        unsafe { sread(eq, event, into, room, 0, flags) }
    }

    fn sread(
        eq: &Eq, event: *mut u32, into: *mut c_void, room: usize, timeout: c_int, flags: EqFlags,
    ) -> isize {
        let time = u64::try_from(timeout).ok().map(Duration::from_millis);
        let (number, bytes) = match eq.inner.next(time, flags.has(EqFlags::PEEK)) {
            None => return -(libc::EAGAIN as isize),
            Some(Event::Bad(..)) => return -(error::AVAIL as isize),
            Some(Event::Good(number, bytes)) => (number, bytes),
        };
        let count = if into.is_null() { 0 } else { bytes.len().min(room) };
        // SAFETY: libfabric's rules: there is so much room.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), into.cast::<u8>(), count) };
        store!(event, number);
        count as isize
    }

    fn readerr(eq: &Eq, pointer: *mut FiEqErrEntry, flags: EqFlags) -> isize {
        // SAFETY: libfabric's rules.
        let Some(into) = (unsafe { pointer.as_mut() }) else { return -(libc::EINVAL as isize) };
        let mut events = eq.inner.events.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Event::Bad([fid, context], data, error)) = events.front() else {
            return -(libc::EAGAIN as isize);
        };
        into.fid = std::ptr::with_exposed_provenance_mut(*fid);
        into.context = std::ptr::with_exposed_provenance_mut(*context);
        (into.data, into.err, into.prov_errno) = (*data, *error, *error);
        if !flags.has(EqFlags::PEEK) {
            events.pop_front();
        }
        if !eq.sizes_error_data {
            return size_of::<FiEqErrEntry>() as isize;
        }
        // SAFETY: libfabric's rules: such an entry, for a program of such an interface.
        unsafe { (*pointer.cast::<FiEqErrEntrySince15>()).err_data_size = 0 };
        size_of::<FiEqErrEntrySince15>() as isize
    }

    fn write(eq: &Eq, event: u32, from: *const c_void, len: usize, _flags: u64) -> isize {
        if from.is_null() && len > 0 {
            return -(libc::EINVAL as isize);
        }
        let bytes = list!(from.cast::<u8>(), len).to_vec();
        let written = eq.inner.push_event(Event::Good(event, bytes), EVENTS_MAX);
        if written { len as isize } else { -(error::OVERRUN as isize) }
    }

    fn strerror(
        _eq: *mut Eq, number: c_int, _data: *const c_void, into: *mut c_char, room: usize,
    ) -> *const c_char {
        let text = match number {
            0 => c"no error",
            libc::EINVAL => c"not an address that can be inserted: the log says why (FI_LOG_LEVEL=warn)",
            _ => c"not an error of EMP's event queues",
        };
        // SAFETY: libfabric's rules: so much room.
        unsafe { put_text(&text.to_string_lossy(), into, room) };
        text.as_ptr()
    }
}
