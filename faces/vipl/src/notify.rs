//! Handlers of the application's: of queues, of completion queues, and of errors that no call returns. The service thread
//! calls them, with nothing locked.

use std::ffi::c_void;
use std::sync::PoisonError;

use emp_face::handles::Key;
use emp_face::log;

use crate::abi::*;
use crate::errors::enter;
use crate::nic::{Nic, nic};
use crate::points::{CQ, VI};
use crate::queue::Side;
use crate::state::{State, owner_of};

/// A call that is due.
enum Call {
    Queue(QueueHandler, usize, Handle, u64),
    Cq(CqHandler, usize, Handle, bool),
    Error(Option<(ErrorHandler, usize)>, ErrorDescriptor),
}

/// Errors that wait for the handler. More are counted as one line in the log: a handler that does not return would have them
/// grow for ever.
const EVENTS_MAX: usize = 4_096;

impl State {
    /// The handler is to be told of an error.
    pub fn push_event(&mut self, event: ErrorDescriptor) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        } else {
            log::warn("VIPL: an error is not told, as the error handler does not return");
        }
    }

    /// The next call that is due.
    fn next_call(&mut self) -> Option<Call> {
        if let Some(event) = self.events.pop_front() {
            return Some(Call::Error(self.error_handler, event));
        }
        if self.notifies == 0 {
            return None;
        }
        let keys: Vec<Key> = self.vis.all().map(|(key, _)| key).collect();
        for key in keys {
            let Some(vi) = self.vis.get_mut(key) else { continue };
            for side in [Side::Send, Side::Receive] {
                let queue = vi.queue(side);
                if queue.done.is_empty() {
                    continue;
                }
                let Some((handler, context)) = queue.notify.pop_front() else { continue };
                let Some((descriptor, _)) = queue.done.pop_front() else { continue };
                self.notifies -= 1;
                return Some(Call::Queue(handler, context, key.handle(VI), descriptor));
            }
        }
        let keys: Vec<Key> = self.cqs.all().map(|(key, _)| key).collect();
        for key in keys {
            let Some(cq) = self.cqs.get_mut(key) else { continue };
            if cq.entries.is_empty() {
                continue;
            }
            let Some((handler, context)) = cq.notify.pop_front() else { continue };
            let Some((vi, side)) = cq.entries.pop_front() else { continue };
            self.notifies -= 1;
            return Some(Call::Cq(handler, context, vi.handle(VI), side == Side::Receive));
        }
        None
    }
}

impl Nic {
    /// Calls the handlers whose calls are due.
    pub fn call_handlers(&self) {
        loop {
            let call = {
                let mut state = self.lock_even_closed();
                if state.closed {
                    return;
                }
                let call = state.next_call();
                state.telling = matches!(call, Some(Call::Error(Some(_), _)));
                call
            };
            let context = std::ptr::with_exposed_provenance_mut::<c_void>;
            let handle = self.handle();
            match call {
                None => return,
                // SAFETY: the application has given the handler for exactly these calls; nothing is locked.
                Some(Call::Queue(handler, pointer, vi, descriptor)) => unsafe {
                    handler(context(pointer), handle, vi, descriptor);
                },
                // SAFETY: likewise.
                Some(Call::Cq(handler, pointer, vi, receive)) => unsafe {
                    handler(context(pointer), handle, vi, receive.into());
                },
                Some(Call::Error(Some((handler, pointer)), mut event)) => {
                    // SAFETY: likewise; the event outlives the call.
                    unsafe { handler(context(pointer), &raw mut event) }
                    self.lock_even_closed().telling = false;
                    self.told.notify_all();
                }
                Some(Call::Error(None, event)) => {
                    let text = format!("VIPL: VI {:x}: {}", event.vi, event.code.describe());
                    // That the other side disconnects is no fault; of one that is lost the node tells.
                    if event.code == ErrorCode::CONN_LOST {
                        log::inform(&text);
                    } else {
                        log::warn(&text);
                    }
                }
            }
        }
    }
}

/// Registers a handler with a queue of a VI.
fn notify(
    handle: Handle,
    side: Side,
    context: *mut c_void,
    handler: Option<QueueHandler>,
) -> Result<(), Return> {
    let (nic, key) = owner_of(handle, VI)?;
    let mut state = nic.lock()?;
    let vi = state.vi(key)?;
    let handler = handler.ok_or(Return::INVALID_PARAMETER)?;
    if vi.cq(side).is_some() {
        return Err(Return::INVALID_PARAMETER);
    }
    vi.queue(side).notify.push_back((handler, context.expose_provenance()));
    state.notifies += 1;
    drop(state);
    nic.service.wake(&nic);
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn VipSendNotify(
    handle: Handle,
    context: *mut c_void,
    handler: Option<QueueHandler>,
) -> Return {
    enter(|| notify(handle, Side::Send, context, handler))
}

#[unsafe(no_mangle)]
pub extern "C" fn VipRecvNotify(
    handle: Handle,
    context: *mut c_void,
    handler: Option<QueueHandler>,
) -> Return {
    enter(|| notify(handle, Side::Receive, context, handler))
}

#[unsafe(no_mangle)]
pub extern "C" fn VipCQNotify(
    handle: Handle,
    context: *mut c_void,
    handler: Option<CqHandler>,
) -> Return {
    enter(|| {
        let (nic, key) = owner_of(handle, CQ)?;
        let mut state = nic.lock()?;
        let cq = state.cqs.get_mut(key).ok_or(Return::INVALID_PARAMETER)?;
        let handler = handler.ok_or(Return::INVALID_PARAMETER)?;
        cq.notify.push_back((handler, context.expose_provenance()));
        state.notifies += 1;
        drop(state);
        nic.service.wake(&nic);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipErrorCallback(
    handle: Handle,
    context: *mut c_void,
    handler: Option<ErrorHandler>,
) -> Return {
    enter(|| {
        let nic = nic(handle)?;
        let mut state = nic.lock()?;
        state.error_handler = handler.map(|handler| (handler, context.expose_provenance()));
        // What the one before stands on may be gone once this returns.
        while state.telling && !nic.service.is_current() {
            state = nic.told.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipQuerySystemManagementInfo(
    handle: Handle,
    _kind: std::ffi::c_ulong,
    _into: *mut c_void,
) -> Return {
    enter(|| {
        nic(handle)?;
        Err(Return::ERROR_NOT_SUPPORTED)
    })
}
