//! Asking for the end of requests: testing, waiting, peeking.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use emp_face::handles::Key;
use emp_face::pointers::store;
use emp_face::waiting::end_of;

use crate::abi::*;
use crate::endpoint::{Endpoint, State};
use crate::errors::{call, call_on, enter};
use crate::identities::REQUEST;
use crate::open;
use crate::process::library;
use crate::requests::{Kind, Stage};

/// The end of a wait of so many milliseconds; `MX_INFINITE`: never.
pub fn end(timeout: u32) -> Option<Instant> {
    end_of((timeout != 0).then(|| Duration::from_millis(timeout.into())))
}

impl State {
    /// Takes a request that has ended. `None`: it has not.
    #[inline]
    fn take(&mut self, handle: RequestHandle) -> Result<Option<MxStatus>, Return> {
        let (key, request) = self.requests.named(handle).ok_or(Return::BAD_REQUEST)?;
        if !request.is_done() {
            return Ok(None);
        }
        let status = request.status();
        self.requests.remove(key);
        Ok(Some(status))
    }

    /// Takes the first request that has ended and whose match information agrees.
    fn take_any(&mut self, match_info: u64, match_mask: u64) -> Option<MxStatus> {
        let key = self.requests.first_ended(match_info, match_mask)?;
        self.requests.remove(key).map(|request| request.status())
    }
}

impl Endpoint {
    /// A look for what has ended already, which costs no progress; then progress and another look. Whoever spins on it lets
    /// others run now and then.
    #[inline]
    pub fn glance<T>(
        &self,
        mut look: impl FnMut(&mut State) -> Result<Option<T>, Return>,
    ) -> Result<Option<T>, Return> {
        let mut state = self.lock()?;
        if let Some(found) = look(&mut state)? {
            return Ok(Some(found));
        }
        let (mut state, news) = self.progress(state);
        if news {
            self.waiters.tell(&self.face.node, false);
        }
        let found = look(&mut state)?;
        drop(state);
        if found.is_some() || !self.messages.is_idle() {
            self.yielding.found();
        } else {
            self.yielding.nothing();
        }
        Ok(found)
    }
}

/// Tells the application what came of a look.
///
/// # Safety
///
/// The pointers are null or valid.
#[inline]
pub unsafe fn tell<T>(found: Option<T>, into: *mut T, result: *mut u32) {
    // SAFETY: as the caller says.
    unsafe {
        store(result, found.is_some().into());
        if let Some(found) = found {
            store(into, found);
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_test(
    endpoint: EndpointHandle,
    request: *mut RequestHandle,
    status: *mut MxStatus,
    result: *mut u32,
) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            // SAFETY: the header's rules: null or valid.
            let handle = unsafe { request.as_ref() }.copied().unwrap_or(0);
            let found = endpoint.glance(|state| state.take(handle))?;
            // SAFETY: the header's rules.
            unsafe {
                if found.is_some() {
                    store(request, 0);
                }
                tell(found, status, result);
            }
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_wait(
    endpoint: EndpointHandle,
    request: *mut RequestHandle,
    timeout: u32,
    status: *mut MxStatus,
    result: *mut u32,
) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            // SAFETY: the header's rules: null or valid.
            let handle = unsafe { request.as_ref() }.copied().unwrap_or(0);
            let mut found = endpoint.lock()?.take(handle)?;
            if found.is_none() {
                found = endpoint
                    .wait(end(timeout), None, |state| state.take(handle).transpose())?
                    .transpose()?;
            }
            // SAFETY: the header's rules.
            unsafe {
                if found.is_some() {
                    store(request, 0);
                }
                tell(found, status, result);
            }
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_test_any(
    endpoint: EndpointHandle,
    match_info: u64,
    match_mask: u64,
    status: *mut MxStatus,
    result: *mut u32,
) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            crate::transfer::selector(match_info, match_mask)?;
            let found = endpoint.glance(|state| Ok(state.take_any(match_info, match_mask)))?;
            // SAFETY: the header's rules.
            unsafe { tell(found, status, result) };
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_wait_any(
    endpoint: EndpointHandle,
    timeout: u32,
    match_info: u64,
    match_mask: u64,
    status: *mut MxStatus,
    result: *mut u32,
) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            crate::transfer::selector(match_info, match_mask)?;
            let found = endpoint
                .wait(end(timeout), None, |state| state.take_any(match_info, match_mask))?;
            // SAFETY: the header's rules.
            unsafe { tell(found, status, result) };
            Ok(())
        })
    })
}

/// The oldest request that has ended, which stays.
fn oldest(state: &mut State) -> Option<RequestHandle> {
    state.requests.first_ended(0, 0).map(|key| key.handle(REQUEST))
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_ipeek(
    endpoint: EndpointHandle,
    request: *mut RequestHandle,
    result: *mut u32,
) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            let found = endpoint.glance(|state| Ok(oldest(state)))?;
            // SAFETY: the header's rules.
            unsafe { tell(found, request, result) };
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_peek(
    endpoint: EndpointHandle,
    timeout: u32,
    request: *mut RequestHandle,
    result: *mut u32,
) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            let found = endpoint.wait(end(timeout), None, oldest)?;
            // SAFETY: the header's rules.
            unsafe { tell(found, request, result) };
            Ok(())
        })
    })
}

/// Whether the buffer of a send may be used again: then it has ended, as small ones do at once.
fn buffered(state: &mut State, handle: RequestHandle) -> Result<Option<()>, Return> {
    let (_, request) = state.requests.named(handle).ok_or(Return::BAD_REQUEST)?;
    if request.kind != Kind::Send {
        return Err(Return::BAD_REQUEST);
    }
    Ok(matches!(request.stage, Stage::Done).then_some(()))
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_ibuffered(
    endpoint: EndpointHandle,
    request: *mut RequestHandle,
    result: *mut u32,
) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            // SAFETY: the header's rules: null or valid.
            let handle = unsafe { request.as_ref() }.copied().unwrap_or(0);
            let found = endpoint.glance(|state| buffered(state, handle))?;
            // SAFETY: the header's rules.
            unsafe { store(result, found.is_some().into()) };
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_buffered(
    endpoint: EndpointHandle,
    request: *mut RequestHandle,
    timeout: u32,
    result: *mut u32,
) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            // SAFETY: the header's rules: null or valid.
            let handle = unsafe { request.as_ref() }.copied().unwrap_or(0);
            let found = endpoint
                .wait(end(timeout), None, |state| buffered(state, handle).transpose())?
                .transpose()?;
            // SAFETY: the header's rules.
            unsafe { store(result, found.is_some().into()) };
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_context(request: *mut RequestHandle, context: *mut *mut c_void) -> Return {
    enter(|| {
        call(None, || {
            library()?;
            // SAFETY: the header's rules: null or valid.
            let handle = unsafe { request.as_ref() }.copied().unwrap_or(0);
            let key = Key::of(handle, REQUEST).ok_or(Return::BAD_REQUEST)?;
            let endpoint = open::at(key.owner()).ok_or(Return::BAD_REQUEST)?;
            let mut state = endpoint.lock()?;
            let (_, request) = state.requests.named(handle).ok_or(Return::BAD_REQUEST)?;
            // SAFETY: the header's rules: null or valid.
            unsafe { store(context, std::ptr::with_exposed_provenance_mut(request.context)) };
            Ok(())
        })
    })
}
