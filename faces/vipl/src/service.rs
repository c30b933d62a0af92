//! The thread of a NIC: progress while the application makes none, handlers, and a look at peers that are silent.
//!
//! While the application calls, the thread keeps away: it would only be in the way of the next message.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use emp_face::boundary;
use emp_host::NodeId;

use crate::control::Purpose;
use crate::errors::lacking;
use crate::nic::Nic;
use crate::state::State;
use crate::wire::Message;

/// An application that has not called for so long is busy elsewhere: this is how late what it is to be told may be then.
const TICK: Duration = Duration::from_millis(20);

/// A peer with which nothing was exchanged for so long is asked whether it is there. That it is not is found after
/// `EMP_TIMEOUT` more.
const ALIVE_EVERY: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Flags {
    stop: bool,
    woken: bool,
}

#[derive(Default)]
pub struct Service {
    flags: Mutex<Flags>,
    changed: Condvar,
    /// The thread waits for the node.
    waiting: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
    id: OnceLock<ThreadId>,
}

impl Service {
    /// Has the thread look for handlers to be called.
    #[cold]
    pub fn wake(&self, nic: &Nic) {
        self.flags.lock().unwrap_or_else(PoisonError::into_inner).woken = true;
        self.changed.notify_one();
        if self.waiting.load(Ordering::SeqCst) {
            nic.face.node.nudge();
        }
    }

    /// True in a handler.
    pub fn is_current(&self) -> bool {
        self.id.get() == Some(&std::thread::current().id())
    }

    /// Ends the thread, once a handler that runs has returned.
    pub fn stop(&self, nic: &Nic) {
        self.flags.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
        self.wake(nic);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It has ended by a panic if this fails, and the library is broken already.
            let _ = thread.join();
        }
    }

    /// Sleeps until woken, at most for so long. True if it was woken.
    fn pause(&self, time: Duration) -> bool {
        let mut flags = self.flags.lock().unwrap_or_else(PoisonError::into_inner);
        if !flags.stop && !flags.woken {
            let (after, _) =
                self.changed.wait_timeout(flags, time).unwrap_or_else(PoisonError::into_inner);
            flags = after;
        }
        std::mem::take(&mut flags.woken)
    }

    fn is_stopped(&self) -> bool {
        self.flags.lock().unwrap_or_else(PoisonError::into_inner).stop
    }
}

/// Starts the thread of a NIC.
pub fn start(nic: &Arc<Nic>) {
    let own = Arc::clone(nic);
    let body = move || boundary::enter(|| own.serve(), |_| ());
    match std::thread::Builder::new().name("vipl-service".into()).spawn(body) {
        Ok(thread) => {
            let _ = nic.service.id.set(thread.thread().id());
            *nic.service.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        }
        Err(error) => {
            lacking(&format!("without a thread no handler is called: {error}"));
        }
    }
}

impl Nic {
    fn serve(&self) {
        let (mut seen, mut looked) = (u64::MAX, Instant::now());
        while !self.service.is_stopped() {
            let (activity, handlers) = {
                let state = self.lock_even_closed();
                (state.activity, state.notifies != 0 || !state.events.is_empty())
            };
            let busy = activity != seen || self.blocked.load(Ordering::Relaxed) != 0;
            seen = activity;
            if busy && !handlers {
                // Threads that wait in calls make progress, and wake this one if need be.
                self.service.pause(TICK);
                self.call_handlers();
            }
            if looked.elapsed() >= ALIVE_EVERY {
                looked = Instant::now();
                self.ask_who_is_there(&mut self.lock_even_closed());
            }
            if busy && !handlers {
                continue;
            }
            self.service.waiting.store(true, Ordering::SeqCst);
            let nudges = self.face.node.nudges();
            let news = {
                let mut state = self.lock_even_closed();
                !state.closed && self.progress(&mut state) | self.take_events(&mut state)
            };
            if news {
                self.tell();
            }
            self.call_handlers();
            if !self.service.pause(Duration::ZERO) && !self.service.is_stopped() {
                let (peering, starving) = {
                    let state = self.lock_even_closed();
                    (state.peering != 0, state.starving != 0)
                };
                let slice = if peering { TICK } else { ALIVE_EVERY };
                self.sleep(starving, nudges, Some(slice));
            }
            self.service.waiting.store(false, Ordering::SeqCst);
        }
    }

    /// Asks the nodes of connections on which nothing has happened. The answer is the node's; that there is none ends the
    /// connection.
    fn ask_who_is_there(&self, state: &mut State) {
        let mut silent: HashSet<NodeId> = HashSet::new();
        let keys: Vec<_> = state.vis.all().map(|(key, _)| key).collect();
        for key in keys {
            let Some(vi) = state.vis.get_mut(key) else { continue };
            let numbers = (vi.send.taken(), vi.receive.taken());
            let quiet = std::mem::replace(&mut vi.seen, numbers) == numbers;
            if let Some(remote) = &vi.remote
                && vi.is_open()
                && quiet
                && remote.node != self.face.node.id()
            {
                silent.insert(remote.node);
            }
        }
        if state.closed {
            return;
        }
        for node in silent {
            self.send_control(state, node, &Message::Alive, Purpose::Other);
        }
    }
}
