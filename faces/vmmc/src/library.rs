//! What a process has once it is initialized, and how the calls of several threads share it.
//!
//! One thread at a time has the state. Nobody keeps it while waiting or while the application's code runs (handlers), so
//! whatever was looked up before is looked up again after.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use emp_face::handles::{Kind, Table};
use emp_face::machines::{Claim, Places};
use emp_face::node::FaceNode;
use emp_face::pins::{Pinned, Place};
use emp_face::waiting::{Waiters, end_of};
use emp_face::yielding::Yielding;
use emp_host::{Alarm, Completion, Endpoint, NodeId};

use crate::abi::{Code, FOREVER, Process};
use crate::control::Mailbox;
use crate::exports::Exports;
use crate::imports::Import;
use crate::notify::Notices;
use crate::peers::Peers;
use crate::proxies;
use crate::sends::Send;

/// Processes as the places of their machine, which a node number stands for. Their mark is a `V`.
pub const PROCESSES: Places = Places::new("vmmc", 0x56, 0xf200);

/// What operations of the node are for, in their context: sends that were over when they were posted, by their import; others,
/// by themselves; questions to exporters, and room for theirs.
pub const SHORT: Kind = Kind::new(1);
pub const SEND: Kind = Kind::new(2);
pub const ASK: Kind = Kind::new(3);
pub const ROOM: Kind = Kind::new(4);

/// Numbers of the EMP endpoints of each process: sends go from the first, imports by the second, notifications to the third.
/// Not the small ones that programs of other kinds use.
pub const DATA: u16 = 0x564d;
pub const CONTROL: u16 = 0x564e;
pub const NOTICES: u16 = 0x564f;

/// Sends that are not over, or whose end was not asked for: what their handles tell apart.
pub const SENDS_MAX: usize = 1 << 20;

/// Completions that are taken at a time: more than a turn of the node brings as a rule, few enough to stay in the cache.
pub const COMPLETIONS_AT_ONCE: usize = 64;

/// How often a send for which the node had no room is tried again though nothing has ended that would have made room.
pub const CROWDED_SLICE: Duration = Duration::from_millis(1);

/// The library between `vmmc_init` and `vmmc_finalize`.
pub struct Library {
    pub machine: u64,
    pub number: u32,
    /// What this machine is called.
    pub name: String,
    pub face: FaceNode,
    pub data: Endpoint,
    pub control: Endpoint,
    pub notices: Endpoint,
    /// Longest send that is one frame.
    pub short_max: usize,
    state: Mutex<State>,
    /// A handler has ended, or the library.
    pub resumed: Condvar,
    pub waiters: Waiters,
    pub yielding: Yielding,
    /// Rung when there is something for the service thread.
    pub alarm: Arc<Alarm>,
    pub ending: AtomicBool,
    /// The service thread, until it is waited for.
    pub service: Mutex<Option<JoinHandle<()>>>,
    /// What keeps the process number ours on this machine.
    pub _claim: Claim,
}

/// What changes.
#[derive(Default)]
pub struct State {
    pub closed: bool,
    pub exports: Exports,
    pub imports: proxies::Places<Import>,
    pub peers: Peers,
    pub sends: Sends,
    pub notices: Notices,
    pub mailbox: Mailbox,
    /// Memory that others write to, buffers and where parts of them are redirected to: end of each by start.
    pub written: BTreeMap<u64, u64>,
    /// Sends since the node was last asked what has ended.
    pub unasked: u32,
    /// Imports that wait for their exporter.
    pub asking: usize,
    /// Events of the node that were taken.
    pub events_seen: u64,
    /// Room for what progress takes from the node.
    pub completions: Vec<Completion>,
}

/// Sends by handle.
pub struct Sends(pub Table<Send>);

impl Default for Sends {
    fn default() -> Self {
        Self(Table::new(SENDS_MAX))
    }
}

/// It, while it is initialized.
pub static LIBRARY: Place<Library> = Place::new();

/// The library, if it is initialized.
#[inline]
pub fn library() -> Result<Pinned<Library>, Code> {
    LIBRARY.get().ok_or(Code::NOT_INITIALIZED)
}

/// The end of a wait of so many milliseconds; `VMMC_FOREVER`: never.
pub fn end(timeout: u32) -> Option<Instant> {
    end_of((timeout != FOREVER).then(|| Duration::from_millis(timeout.into())))
}

/// The process behind a node; `None` if it is not one of VMMC's.
pub fn process_of(node: NodeId) -> Option<Process> {
    PROCESSES.of(node).map(|(node, number)| Process { node, number, zero: 0 })
}

impl State {
    pub fn new() -> Self {
        Self { completions: Vec::with_capacity(COMPLETIONS_AT_ONCE), ..Self::default() }
    }

    /// Notes memory that others will write to.
    ///
    /// # Errors
    ///
    /// Part of it is noted already, or it wraps around.
    pub fn keep_written(&mut self, start: u64, bytes: u64) -> Result<(), Code> {
        let end = start.checked_add(bytes).ok_or(Code::ARGUMENT)?;
        let before = self.written.range(..end).next_back();
        if before.is_some_and(|(_, until)| *until > start) {
            return Err(Code::OVERLAP);
        }
        self.written.insert(start, end);
        Ok(())
    }
}

impl Library {
    #[allow(clippy::too_many_arguments, reason = "the parts of one thing, put together once")]
    pub fn new(
        (machine, number, name): (u64, u32, String),
        face: FaceNode,
        [data, control, notices]: [Endpoint; 3],
        alarm: Arc<Alarm>,
        claim: Claim,
    ) -> Self {
        let short_max = face.node.atomic_bytes_max();
        Self {
            machine,
            number,
            name,
            face,
            data,
            control,
            notices,
            short_max,
            state: Mutex::new(State::new()),
            resumed: Condvar::new(),
            waiters: Waiters::default(),
            yielding: Yielding::default(),
            alarm,
            ending: AtomicBool::new(false),
            service: Mutex::default(),
            _claim: claim,
        }
    }

    /// The state, for this thread alone.
    ///
    /// # Errors
    ///
    /// `FINALIZED`: the library was finalized meanwhile.
    #[inline]
    pub fn lock(&self) -> Result<MutexGuard<'_, State>, Code> {
        let state = self.lock_even_closed();
        if state.closed { Err(Code::FINALIZED) } else { Ok(state) }
    }

    #[inline]
    pub fn lock_even_closed(&self) -> MutexGuard<'_, State> {
        // A thread that panicked with the state has ended the library: see `emp_face::boundary`.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// Waits until `look` finds something, at most until `end`; `None`: it did not.
    pub fn wait<T>(
        &self,
        end: Option<Instant>,
        mut look: impl FnMut(&mut State) -> Result<Option<T>, Code>,
    ) -> Result<Option<T>, Code> {
        // What the look tells the sleep after it.
        let crowded = Cell::new(false);
        let look = || {
            let mut state = match self.lock() {
                Ok(state) => state,
                Err(code) => return (Some(Err(code)), false),
            };
            let news = self.progress(&mut state);
            crowded.set(state.peers.crowded != 0);
            (look(&mut state).transpose(), news)
        };
        let sleep = |nudges, left: Option<Duration>| {
            let slice = crowded.get().then_some(CROWDED_SLICE);
            let left = [left, slice].into_iter().flatten().min();
            Endpoint::wait_completions_unless_nudged(&[&self.data, &self.control], nudges, left);
        };
        self.waiters.wait_by(&self.face.node, end, look, sleep).transpose()
    }

    /// Others may wait for what was found.
    pub fn tell(&self, news: bool) {
        if news {
            self.waiters.tell(&self.face.node, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_written_to_does_not_overlap() {
        let mut state = State::new();
        assert_eq!(state.keep_written(100, 50), Ok(()));
        assert_eq!(state.keep_written(150, 50), Ok(()));
        assert_eq!(state.keep_written(90, 10), Ok(()));
        for (start, bytes) in [(100, 50), (149, 1), (0, 91), (120, 200), (80, 1_000)] {
            assert_eq!(state.keep_written(start, bytes), Err(Code::OVERLAP), "{start} {bytes}");
        }
        assert_eq!(state.keep_written(u64::MAX, 2), Err(Code::ARGUMENT));
    }
}
