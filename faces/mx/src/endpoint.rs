//! Endpoints: what each has, and how the calls of several threads share it.
//!
//! One thread at a time has the state. Nobody keeps it while waiting or while the application's code runs (handlers), so
//! whatever was looked up before is looked up again after.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use emp_face::handles::{Key, Table};
use emp_face::machines::Claim;
use emp_face::node::FaceNode;
use emp_face::waiting::Waiters;
use emp_face::yielding::Yielding;
use emp_host::{Completion, Region, Selector};

use crate::abi::{Address, ContextId, ErrorHandler, Return};
use crate::connect::Connect;
use crate::identities::endpoint_of;
use crate::partners::Partners;
use crate::requests::{REQUESTS_MAX, Requests};
use crate::unexpected::{Handler, Seen};

/// Numbers of the two EMP endpoints of each MX endpoint's node: messages, and connecting. Not the small ones that programs
/// of other kinds use, so that their messages to a node of this identity would find nobody.
pub const MESSAGES: u16 = 0x4d58;
pub const CONTROL: u16 = 0x4d59;

/// An open endpoint.
pub struct Endpoint {
    pub face: FaceNode,
    /// Messages go by this one,
    pub messages: emp_host::Endpoint,
    /// and what connecting takes by this one.
    pub control: emp_host::Endpoint,
    /// Peers reach it by the filter key; it holds the session.
    pub _door: Region,
    pub id: u32,
    pub board: u32,
    pub key: u32,
    pub session: u32,
    /// Its place among the endpoints of the process; part of addresses.
    place: AtomicU32,
    pub context_id: ContextId,
    pub error_handler: Option<ErrorHandler>,
    state: Mutex<State>,
    /// Progress goes on, or a handler has ended.
    pub resumed: Condvar,
    pub waiters: Waiters,
    pub yielding: Yielding,
    /// What keeps the endpoint id ours on this machine.
    pub _claim: Claim,
}

/// What changes.
pub struct State {
    pub closed: bool,
    pub requests: Requests,
    pub partners: Partners,
    /// Posts that wait for room in the node, in order.
    pub deferred: VecDeque<Key>,
    pub handler: Option<Handler>,
    /// The thread in which the handler runs.
    pub handling: Option<ThreadId>,
    /// Messages that the handler was or will be shown, and that no receive has taken.
    pub seen: VecDeque<Seen>,
    /// Number of the next of them.
    pub next_seen: u32,
    /// The application has stopped progress.
    pub stopped: bool,
    /// Moves with each `mx_wakeup`.
    pub wakeups: u64,
    /// Connects that are under way, also of requests that were given up.
    pub connects: Table<Connect>,
    /// What requests get for a deadline.
    pub timeout: Option<Duration>,
    /// Events of the node that were taken.
    pub events_seen: u64,
    /// Room for what progress takes from the node.
    pub completions: Vec<Completion>,
}

impl Endpoint {
    #[allow(clippy::too_many_arguments, reason = "the parts of one thing, put together once")]
    pub fn new(
        (face, messages, control, door): (FaceNode, emp_host::Endpoint, emp_host::Endpoint, Region),
        (id, board, key): (u32, u32, u32),
        session: u32,
        (context_id, error_handler): (ContextId, Option<ErrorHandler>),
        claim: Claim,
    ) -> Self {
        let mut state = State::new();
        state.partners.connected(face.node.id(), session);
        Self {
            face,
            messages,
            control,
            _door: door,
            id,
            board,
            key,
            session,
            place: AtomicU32::new(0),
            context_id,
            error_handler,
            state: Mutex::new(state),
            resumed: Condvar::new(),
            waiters: Waiters::default(),
            yielding: Yielding::default(),
            _claim: claim,
        }
    }

    /// The state, for this thread alone.
    ///
    /// # Errors
    ///
    /// `BAD_ENDPOINT`: it was closed meanwhile.
    #[inline]
    pub fn lock(&self) -> Result<MutexGuard<'_, State>, Return> {
        let state = self.lock_even_closed();
        if state.closed { Err(Return::BAD_ENDPOINT) } else { Ok(state) }
    }

    #[inline]
    pub fn lock_even_closed(&self) -> MutexGuard<'_, State> {
        // A thread that panicked with the state has ended the library: see `emp_face::boundary`.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its own address.
    pub fn address(&self, state: &mut State) -> Address {
        state.partners.address(self.place(), self.face.node.id())
    }

    /// Ids of the endpoints of a NIC that are partners of this one.
    pub fn partners(&self, nic: u64) -> Vec<u32> {
        let state = self.lock_even_closed();
        let ours = state.partners.nodes().filter_map(endpoint_of);
        ours.filter(|(of, _)| *of == nic).map(|(_, id)| id).collect()
    }

    /// True if this thread runs the endpoint's handler.
    pub fn is_handling(state: &State) -> bool {
        state.handling == Some(std::thread::current().id())
    }

    /// Its place among the endpoints of the process.
    #[inline]
    pub fn place(&self) -> u32 {
        self.place.load(Ordering::Relaxed)
    }

    /// To be called once, before anybody else has the endpoint.
    pub fn set_place(&self, place: u32) {
        self.place.store(place, Ordering::Relaxed);
        self.lock_even_closed().requests.belong_to(place);
    }

    /// The two endpoints of the node, for progress and waiting.
    pub fn both(&self) -> [&emp_host::Endpoint; 2] {
        [&self.messages, &self.control]
    }

    /// Waits until `look` finds something, at most until `end`, or until a wakeup: then the result is `None`. Within a handler
    /// one look is all, as there is no progress meanwhile. `messages`: it also looks at these messages that no receive took.
    pub fn wait<T>(
        &self,
        end: Option<Instant>,
        messages: Option<Selector>,
        mut look: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<Option<T>, Return> {
        let wakeups = self.lock()?.wakeups;
        // What the next sleep ends with, beside completions.
        let (watched, until) = (Cell::new(messages), Cell::new(None));
        let look = || {
            let state = self.lock_even_closed();
            if state.closed {
                return (Some(Err(Return::BAD_ENDPOINT)), false);
            }
            let (mut state, news) = self.progress(state);
            if let Some(found) = look(&mut state) {
                return (Some(Ok(Some(found))), news);
            }
            if state.closed || state.wakeups != wakeups || Self::is_handling(&state) {
                return (Some(Ok(None)), news);
            }
            let shows = state.handler.is_some() && state.has_room_to_show();
            watched.set(if shows { Some(Selector::ANY) } else { messages });
            until.set(state.due());
            if state.stopped || state.handling.is_some() {
                // What the node has must stay there, so waiting for that would not wait.
                let limit = end.map(|end| end.saturating_duration_since(Instant::now()));
                let limit = limit.unwrap_or(STOPPED_SLICE).min(STOPPED_SLICE);
                drop(self.resumed.wait_timeout(state, limit));
            }
            (None, news)
        };
        let sleep = |nudges, left: Option<Duration>| {
            let due = until.get().map(|due: Instant| due.saturating_duration_since(Instant::now()));
            let left = [left, due].into_iter().flatten().min();
            let both = self.both();
            match watched.get() {
                Some(selector) => {
                    emp_host::Endpoint::wait_message_unless_nudged(&both, selector, nudges, left)
                }
                None => emp_host::Endpoint::wait_completions_unless_nudged(&both, nudges, left),
            };
        };
        self.waiters.wait_by(&self.face.node, end, look, sleep).unwrap_or(Ok(None))
    }
}

impl State {
    fn new() -> Self {
        Self {
            closed: false,
            requests: Requests::default(),
            partners: Partners::default(),
            deferred: VecDeque::new(),
            handler: None,
            handling: None,
            seen: VecDeque::new(),
            next_seen: 0,
            stopped: false,
            wakeups: 0,
            connects: Table::new(REQUESTS_MAX),
            timeout: None,
            events_seen: 0,
            completions: Vec::with_capacity(COMPLETIONS_AT_ONCE),
        }
    }

    /// When progress has something to do though nothing arrives, if so.
    fn due(&self) -> Option<Instant> {
        let retries = self.connects.all().filter_map(|(_, connect)| connect.again_at);
        let late = (self.requests.timed != 0).then(|| Instant::now() + DEADLINE_SLICE);
        let deferred = (!self.deferred.is_empty()).then(|| Instant::now() + DEFERRED_SLICE);
        retries.chain(late).chain(deferred).min()
    }
}

/// Completions that are taken at a time: more than a turn of the node brings as a rule, few enough to stay in the cache.
const COMPLETIONS_AT_ONCE: usize = 64;

/// How long a wait of an endpoint whose progress is stopped sleeps at a time: it is woken by what it waits for, but for
/// a wakeup that came in between.
const STOPPED_SLICE: Duration = Duration::from_millis(5);

/// How late the end of a request that was given a time may be: MX counts by half seconds.
const DEADLINE_SLICE: Duration = Duration::from_millis(20);

/// How often a post for which the node had no room is tried again though nothing has ended that would have made room.
const DEFERRED_SLICE: Duration = Duration::from_millis(1);
