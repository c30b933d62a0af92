//! Notifications: a handler of the application's runs for each send that notifies, once its bytes are in the buffer. One runs at
//! a time, in the order in which their sender sent them; in the service thread, or in a thread that calls `vmmc_poll`.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::MutexGuard;
use std::thread::ThreadId;

use emp_host::Completion;

use crate::abi::{Code, Handler, Notification};
use crate::errors::{count, enter};
use crate::exports::Exports;
use crate::library::{Library, State, process_of};

/// A handler to be run.
struct Notice {
    handler: Handler,
    context: usize,
    notification: Notification,
}

/// Those that wait, and what holds them.
#[derive(Default)]
pub struct Notices {
    queue: VecDeque<Notice>,
    /// How often they are blocked.
    blocks: u32,
    /// The thread in which a handler runs.
    pub handling: Option<ThreadId>,
}

impl Notices {
    /// True if more would be handled soon.
    #[inline]
    pub fn takes_more(&self) -> bool {
        self.blocks == 0 && self.queue.is_empty()
    }

    /// A send that notifies has arrived.
    pub fn add(&mut self, exports: &Exports, completion: &Completion) {
        // Of buffers that are not exported any more, or not by VMMC, and from others than its processes, nobody wants to know.
        let Some((id, export)) = exports.of_key(completion.match_bits) else { return };
        let (Some(from), Some(handler)) = (process_of(completion.peer), export.handler) else {
            return;
        };
        let (offset, bytes) = (completion.immediate.unwrap_or(0), completion.bytes);
        let notification = Notification { from, id, zero: 0, offset, bytes };
        self.queue.push_back(Notice { handler, context: export.context, notification });
    }

    /// True if handlers are to be run.
    #[inline]
    pub fn are_due(&self) -> bool {
        !self.queue.is_empty()
    }

    /// A buffer is unexported: its handler is not called any more.
    pub fn forget(&mut self, id: u32) {
        self.queue.retain(|notice| notice.notification.id != id);
    }
}

/// True if this thread runs a handler.
pub fn is_handling(state: &State) -> bool {
    state.notices.handling == Some(std::thread::current().id())
}

impl Library {
    /// Runs the handlers that are due, unless one runs already; the state is unlocked meanwhile. Says how many.
    pub fn handle<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> (MutexGuard<'a, State>, c_int) {
        let mut handled = 0;
        while state.notices.blocks == 0
            && state.notices.handling.is_none()
            && !state.closed
            && let Some(notice) = state.notices.queue.pop_front()
        {
            state.notices.handling = Some(std::thread::current().id());
            drop(state);
            let context = std::ptr::with_exposed_provenance_mut(notice.context);
            // SAFETY: the application has given this handler for this context.
            unsafe { (notice.handler)(&raw const notice.notification, context) };
            handled += 1;
            state = self.lock_even_closed();
            state.notices.handling = None;
            self.resumed.notify_all();
        }
        (state, handled)
    }
}

/// Makes progress, and runs handlers that are due.
#[unsafe(no_mangle)]
pub extern "C" fn vmmc_poll() -> Code {
    enter(|| {
        count(|library| {
            let mut state = library.lock()?;
            let news = library.take(&mut state);
            let (state, handled) =
                if state.notices.are_due() { library.handle(state) } else { (state, 0) };
            drop(state);
            library.tell(news);
            if news || !library.data.is_idle() {
                library.yielding.found();
            } else {
                library.yielding.nothing();
            }
            Ok(handled)
        })
    })
}

/// Once this returns, no handler runs but the one that has called it.
#[unsafe(no_mangle)]
pub extern "C" fn vmmc_block_notifications() -> Code {
    enter(|| {
        count(|library| {
            let mut state = library.lock()?;
            state.notices.blocks = state.notices.blocks.checked_add(1).ok_or(Code::NO_RESOURCES)?;
            while state.notices.handling.is_some() && !is_handling(&state) {
                state =
                    library.resumed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
            }
            Ok(0)
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_unblock_notifications() -> Code {
    enter(|| {
        count(|library| {
            let mut state = library.lock()?;
            let in_handler = is_handling(&state);
            match state.notices.blocks {
                0 if in_handler => return Err(Code::IN_HANDLER),
                0 => return Ok(0),
                _ => state.notices.blocks -= 1,
            }
            let unblocked = state.notices.blocks == 0 && !in_handler;
            drop(state);
            if unblocked {
                // Those that have waited are handled there.
                library.alarm.ring();
            }
            Ok(unblocked.into())
        })
    })
}
