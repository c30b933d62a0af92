//! Completion queues: which queues have descriptors that are done.

use std::collections::VecDeque;
use std::ffi::{c_int, c_ulong};

use emp_face::handles::Key;
use emp_face::pointers::store;

use crate::abi::*;
use crate::errors::{enter, lacking};
use crate::nic::{CQ_ENTRIES_MAX, end, nic};
use crate::points::{CQ, VI};
use crate::queue::Side;
use crate::state::{State, owner_of};

pub struct Cq {
    /// Never lost, also beyond what the consumer asked for: they are bounded as descriptors are.
    pub entries: VecDeque<(Key, Side)>,
    /// Queues of VIs that end here.
    pub users: usize,
    pub notify: VecDeque<(CqHandler, usize)>,
}

/// A number of entries that a queue may have.
fn entries(count: c_ulong) -> Result<(), Return> {
    match count {
        0 => Err(Return::INVALID_PARAMETER),
        count if count > CQ_ENTRIES_MAX => {
            Err(lacking(&"a completion queue with more entries than MaxCQEntries says"))
        }
        _ => Ok(()),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn VipCreateCQ(handle: Handle, count: c_ulong, into: *mut Handle) -> Return {
    enter(|| {
        let nic = nic(handle)?;
        let mut state = nic.lock()?;
        if into.is_null() {
            return Err(Return::INVALID_PARAMETER);
        }
        entries(count)?;
        let cq = Cq { entries: VecDeque::new(), users: 0, notify: VecDeque::new() };
        let key = state.cqs.insert(cq).map_err(|_| lacking(&"too many completion queues"))?;
        // SAFETY: not null, and by the header's rules valid.
        unsafe { store(into, key.handle(CQ)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipDestroyCQ(handle: Handle) -> Return {
    enter(|| {
        let (nic, key) = owner_of(handle, CQ)?;
        let mut state = nic.lock()?;
        let cq = state.cqs.get_mut(key).ok_or(Return::INVALID_PARAMETER)?;
        if cq.users != 0 {
            return Err(Return::ERROR_RESOURCE);
        }
        let notifies = cq.notify.len();
        state.cqs.remove(key);
        state.notifies -= notifies;
        drop(state);
        // Whoever waits there hears that it is gone.
        nic.tell();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipResizeCQ(handle: Handle, count: c_ulong) -> Return {
    enter(|| {
        let (nic, key) = owner_of(handle, CQ)?;
        let state = nic.lock()?;
        let cq = state.cqs.get(key).ok_or(Return::INVALID_PARAMETER)?;
        entries(count)?;
        if (cq.entries.len() as c_ulong) > count {
            return Err(Return::ERROR_RESOURCE);
        }
        Ok(())
    })
}

/// The first entry; an error of the call if the queue is no more.
#[inline]
fn take(state: &mut State, key: Key) -> Option<Result<(Key, Side), Return>> {
    match state.cqs.get_mut(key) {
        None => Some(Err(Return::INVALID_PARAMETER)),
        Some(cq) => cq.entries.pop_front().map(Ok),
    }
}

/// Tells C which queue it is.
///
/// # Safety
///
/// Each pointer is null or valid.
unsafe fn tell((key, side): (Key, Side), vi: *mut Handle, receive: *mut c_int) {
    // SAFETY: as the caller says.
    unsafe {
        store(vi, key.handle(VI));
        store(receive, (side == Side::Receive).into());
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn VipCQDone(handle: Handle, vi: *mut Handle, receive: *mut c_int) -> Return {
    enter(|| {
        let (nic, key) = owner_of(handle, CQ)?;
        let found = nic.glance(|state| take(state, key))?.ok_or(Return::NOT_DONE)??;
        // SAFETY: the header's rules: each is null or valid.
        unsafe { tell(found, vi, receive) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipCQWait(
    handle: Handle,
    timeout: c_ulong,
    vi: *mut Handle,
    receive: *mut c_int,
) -> Return {
    enter(|| {
        let (nic, key) = owner_of(handle, CQ)?;
        let mut found = take(&mut *nic.lock()?, key);
        if found.is_none() {
            found = nic.wait(end(timeout), |state| take(state, key))?;
        }
        let found = found.ok_or(Return::TIMEOUT)??;
        // SAFETY: the header's rules: each is null or valid.
        unsafe { tell(found, vi, receive) };
        Ok(())
    })
}

/// Not of VIA, but of Giganet's cards, which could tell of messages by a tag in them: no message of EMP's has one.
#[unsafe(no_mangle)]
pub extern "C" fn VipAddTagCQ(
    handle: Handle,
    _event: *mut Handle,
    _tag: c_ulong,
    _priority: c_ulong,
) -> Return {
    enter(|| no_tags(handle))
}

#[unsafe(no_mangle)]
pub extern "C" fn VipRemoveTagCQ(handle: Handle, _event: Handle, _tag: c_ulong) -> Return {
    enter(|| no_tags(handle))
}

fn no_tags(handle: Handle) -> Result<(), Return> {
    let (nic, key) = owner_of(handle, CQ)?;
    nic.lock()?.cqs.get(key).ok_or(Return::INVALID_PARAMETER)?;
    Err(Return::ERROR_NOT_SUPPORTED)
}
