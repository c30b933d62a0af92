//! `mx_extensions.h`: handlers, progress, addresses' contexts, times; and waking those who wait.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use emp_face::pointers::store;
use emp_host::NodeId;

use crate::abi::*;
use crate::connect::decompose;
use crate::endpoint::{Endpoint, State};
use crate::errors::{call, call_on, enter};
use crate::identities::Parts;
use crate::names::initialized;
use crate::open;
use crate::requests::{Kind, Stage};
use crate::unexpected::Handler;

impl Endpoint {
    /// Ends what was sent to a node and has not left yet; what has left ends as it will.
    pub fn end_sends_to(&self, state: &mut State, node: NodeId) {
        for key in state.requests.pending() {
            let Some(request) = state.requests.get_mut(key) else { continue };
            if request.kind != Kind::Send || Parts::of(request.source).node != node {
                continue;
            }
            match &request.stage {
                Stage::Deferred(_) => {
                    (request.code, request.xfer_length) = (StatusCode::BAD_SESSION, 0);
                    state.deferred.retain(|deferred| *deferred != key);
                    state.requests.end(key);
                }
                Stage::Posted(Some(op)) => {
                    self.messages.cancel_raw(*op);
                }
                Stage::Posted(None) | Stage::Done => {}
            }
        }
    }

    fn set_handler(&self, handler: Option<Handler>) -> Result<(), Return> {
        self.lock()?.handler = handler;
        // Who waits must wait for messages, too.
        self.face.node.nudge();
        Ok(())
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_register_unexp_handler(
    endpoint: EndpointHandle,
    handler: Option<UnexpHandler>,
    context: *mut c_void,
) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            let context = context.expose_provenance();
            endpoint.set_handler(handler.map(|handler| Handler::Unexpected(handler, context)))
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_register_unexp_callback(
    endpoint: EndpointHandle,
    callback: Option<MatchingCallback>,
    context: *mut c_void,
) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            let context = context.expose_provenance();
            endpoint.set_handler(callback.map(|callback| Handler::Callback(callback, context)))
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_progress(endpoint: EndpointHandle) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            let (state, news) = endpoint.progress(endpoint.lock()?);
            drop(state);
            if news {
                endpoint.waiters.tell(&endpoint.face.node, false);
            }
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_wakeup(endpoint: EndpointHandle) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            endpoint.lock()?.wakeups += 1;
            endpoint.resumed.notify_all();
            endpoint.waiters.tell(&endpoint.face.node, false);
            Ok(())
        })
    })
}

/// Waits for a handler that runs in another thread.
#[unsafe(no_mangle)]
pub extern "C" fn mx_disable_progression(endpoint: EndpointHandle) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            let mut state = endpoint.lock()?;
            state.stopped = true;
            let own = std::thread::current().id();
            while state.handling.is_some_and(|thread| thread != own) {
                state =
                    endpoint.resumed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
            }
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_reenable_progression(endpoint: EndpointHandle) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            endpoint.lock()?.stopped = false;
            endpoint.resumed.notify_all();
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_set_request_timeout(
    endpoint: EndpointHandle,
    request: RequestHandle,
    timeout: u32,
) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            let mut state = endpoint.lock()?;
            let time = (timeout != 0).then(|| Duration::from_millis(timeout.into()));
            if request == 0 {
                state.timeout = time;
                return Ok(());
            }
            let (key, _) = state.requests.named(request).ok_or(Return::BAD_REQUEST)?;
            let deadline = time.and_then(|time| Instant::now().checked_add(time));
            state.requests.set_deadline(key, deadline);
            drop(state);
            endpoint.face.node.nudge();
            Ok(())
        })
    })
}

/// What becomes of the context of an address, in the endpoint that it is of.
fn on_context(address: Address, act: impl FnOnce(&mut usize)) -> Result<(), Return> {
    initialized()?;
    let place = Parts::of(address).place;
    let endpoint = open::at(place).ok_or(Return::BAD_ENDPOINT)?;
    let mut state = endpoint.lock()?;
    let partner = state.partners.get_mut(place, address).ok_or(Return::BAD_ENDPOINT)?;
    act(&mut partner.context);
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_set_endpoint_addr_context(address: Address, context: *mut c_void) -> Return {
    enter(|| call(None, || on_context(address, |place| *place = context.expose_provenance())))
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_get_endpoint_addr_context(
    address: Address,
    context: *mut *mut c_void,
) -> Return {
    enter(|| {
        call(None, || {
            on_context(address, |place| {
                // SAFETY: the header's rules: null or valid.
                unsafe { store(context, std::ptr::with_exposed_provenance_mut(*place)) };
            })
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_decompose_endpoint_addr(
    address: Address,
    nic: *mut u64,
    id: *mut u32,
) -> Return {
    enter(|| call(None, || decompose(address, nic, id, std::ptr::null_mut())))
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_decompose_endpoint_addr2(
    address: Address,
    nic: *mut u64,
    id: *mut u32,
    session: *mut u32,
) -> Return {
    enter(|| call(None, || decompose(address, nic, id, session)))
}
