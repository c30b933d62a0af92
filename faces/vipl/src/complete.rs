//! Asking for descriptors that are done, and waiting for them.

use std::ffi::c_ulong;

use emp_face::handles::Key;
use emp_face::pointers::store;

use crate::abi::*;
use crate::errors::enter;
use crate::nic::end;
use crate::points::VI;
use crate::queue::Side;
use crate::state::{State, owner_of};

/// What a look at a queue has found: a descriptor and whether it failed; null if the queue is empty; an error of the call.
type Found = Result<(u64, bool), Return>;

/// The first descriptor, if it is done.
#[inline]
fn take(state: &mut State, key: Key, side: Side) -> Option<Found> {
    let Some(vi) = state.vis.get_mut(key) else { return Some(Err(Return::INVALID_PARAMETER)) };
    let queue = vi.queue(side);
    if let Some(done) = queue.done.pop_front() {
        return Some(Ok(done));
    }
    queue.entries.is_empty().then_some(Ok((0, true)))
}

/// Tells C what was found.
///
/// # Safety
///
/// `into` is null or valid.
#[inline]
unsafe fn tell(found: Found, into: *mut u64) -> Result<(), Return> {
    let (descriptor, failed) = found?;
    // SAFETY: as the caller says.
    unsafe { store(into, descriptor) };
    if failed { Err(Return::DESCRIPTOR_ERROR) } else { Ok(()) }
}

#[inline]
fn done(handle: Handle, side: Side, into: *mut u64) -> Result<(), Return> {
    let (nic, key) = owner_of(handle, VI)?;
    if into.is_null() {
        return Err(Return::INVALID_PARAMETER);
    }
    match nic.glance(|state| take(state, key, side))? {
        // SAFETY: the header's rules: valid.
        Some(found) => unsafe { tell(found, into) },
        None => {
            // SAFETY: likewise.
            unsafe { store(into, 0) };
            Err(Return::NOT_DONE)
        }
    }
}

fn wait(handle: Handle, side: Side, timeout: c_ulong, into: *mut u64) -> Result<(), Return> {
    let (nic, key) = owner_of(handle, VI)?;
    if into.is_null() {
        return Err(Return::INVALID_PARAMETER);
    }
    let mut found = take(&mut *nic.lock()?, key, side);
    if found.is_none() {
        found = nic.wait(end(timeout), |state| take(state, key, side))?;
    }
    // SAFETY: the header's rules: valid.
    unsafe {
        store(into, 0);
        tell(found.unwrap_or(Err(Return::TIMEOUT)), into)
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn VipSendDone(handle: Handle, into: *mut u64) -> Return {
    enter(|| done(handle, Side::Send, into))
}

#[unsafe(no_mangle)]
pub extern "C" fn VipRecvDone(handle: Handle, into: *mut u64) -> Return {
    enter(|| done(handle, Side::Receive, into))
}

#[unsafe(no_mangle)]
pub extern "C" fn VipSendWait(handle: Handle, timeout: c_ulong, into: *mut u64) -> Return {
    enter(|| wait(handle, Side::Send, timeout, into))
}

#[unsafe(no_mangle)]
pub extern "C" fn VipRecvWait(handle: Handle, timeout: c_ulong, into: *mut u64) -> Return {
    enter(|| wait(handle, Side::Receive, timeout, into))
}
