//! Engines of clients: nodes that this service runs, each in a thread of its own, over this service's own links.
//!
//! What a client writes into its ring is read once into memory of the thread's own and checked; what cannot be ends the client with a line,
//! and nobody else. No memory of a client is ever named to an engine: payloads are copied in and out (docs/decisions/0086). An engine is itself
//! a client of the [`switch`](crate::switch): so its frames are checked, shared out and counted as any client's, for the user whose it is.

mod apart;
mod cut_short;
mod engine;
mod intake;
mod links;
mod memory;
mod node;
mod operations;
mod outbox;
#[doc(hidden)]
pub mod trial;

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use emp_link::service::channel::{Channel, MEMORY_BYTES};
use emp_link::service::protocol::{Engine as Wanted, Seated};
use emp_wire::NodeId;

use crate::bell::{Bell, Ringer, bell};
use crate::switch::ClientNumber;
use crate::switch::pace::Polling;

/// What each engine is given.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where this service listens: engines are its clients.
    pub socket: PathBuf,
    /// EtherType of frames.
    pub ethertype: u16,
    /// How clients and frames are waited for.
    pub polling: Polling,
    /// Bytes that an engine keeps for its client at most: of messages that are sent, and of buffers for those that are received.
    pub held_bytes_max: u64,
    /// Operations that an engine has under way for its client at most, and as many receives: each takes a quarter of a kilobyte.
    pub operations_max: usize,
    /// Messages that it holds before there are receives for them, at most; likewise.
    pub incoming_max: usize,
    /// Nodes that it knows at most.
    pub peers_max: usize,
    /// Regions that it exports at most.
    pub regions_max: usize,
    /// Engines of one user.
    pub per_user: usize,
    /// They send long messages as datagrams, which pass the switch and its rates by.
    pub datagrams: bool,
}

/// What a client is given.
#[derive(Debug)]
pub struct Given {
    /// Goes to it first.
    pub answer: Seated,
    /// The memory of its rings.
    pub memory: OwnedFd,
    /// Its end of the bell.
    pub bell: OwnedFd,
}

/// How long engines may take to say goodbye when the service ends: one that reaches for memory that somebody keeps from it is left behind.
const GOODBYE: Duration = Duration::from_secs(2);

/// Goes on.
const SERVES: u8 = 0;
/// Its client is gone: what was sent is delivered, for a while.
const LEFT: u8 = 1;
/// The service ends.
const ENDS: u8 = 2;

/// What an engine's thread and the door have in common.
struct Shared {
    client: ClientNumber,
    node: NodeId,
    state: AtomicU8,
    /// Its links are there, or it has ended.
    started: AtomicBool,
    /// Its thread is at its end.
    over: AtomicBool,
    ringer: Ringer,
    news: Arc<News>,
}

impl Shared {
    fn state(&self) -> u8 {
        self.state.load(Ordering::Acquire)
    }

    /// The door need wait for no more calls of its.
    fn started(&self) {
        self.started.store(true, Ordering::Release);
        self.news.ringer.ring();
    }

    fn turn_to(&self, state: u8) {
        self.state.fetch_max(state, Ordering::AcqRel);
        self.ringer.ring();
    }
}

/// Dropped at the end of an engine's thread, however that comes: the door hears of it, and frees what it had.
struct AtEnd(Arc<Shared>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
        self.0.news.ringer.ring();
    }
}

/// What engines tell the door.
struct News {
    ended: Mutex<Vec<(ClientNumber, String)>>,
    ringer: Ringer,
}

impl News {
    fn ended(&self, client: ClientNumber, why: String) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push((client, why));
        self.ringer.ring();
    }
}

struct Running {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The engines.
pub struct Engines {
    options: Options,
    running: Vec<Running>,
    news: Arc<News>,
    bell: Bell,
    /// To whom identities belong: for as long as a node of that identity runs.
    owners: HashMap<NodeId, u32>,
}

impl Engines {
    /// None yet.
    ///
    /// # Errors
    ///
    /// If there is no descriptor to be had.
    pub fn new(options: Options) -> std::io::Result<Self> {
        let (ringer, bell) = bell()?;
        let news = Arc::new(News { ended: Mutex::default(), ringer });
        Ok(Self { options, running: Vec::new(), news, bell, owners: HashMap::new() })
    }

    /// Whose an engine's node is.
    #[must_use]
    pub fn user_of(&self, node: NodeId) -> Option<u32> {
        self.owners.get(&node).copied()
    }

    /// The client whose engine is that node's.
    pub(crate) fn client_of(&self, node: NodeId) -> Option<ClientNumber> {
        let its = self.running.iter().find(|running| running.shared.node == node);
        its.map(|running| running.shared.client)
    }

    /// Whether an engine of that identity, whose program has ended, still delivers what that sent. It does so no longer, if its user has another
    /// program that wants to be that node: ask again in a moment.
    pub fn makes_way(&mut self, user: u32, node: NodeId) -> bool {
        self.sweep();
        let its = self.running.iter().find(|running| running.shared.node == node);
        let Some(Running { shared, .. }) = its else { return false };
        if self.owners.get(&node) != Some(&user) || shared.state() == SERVES {
            return false;
        }
        shared.turn_to(ENDS);
        true
    }

    /// Gives a client an engine, on these interfaces.
    ///
    /// # Errors
    ///
    /// A line for the client: what is refused, and what to do.
    pub fn seat(
        &mut self,
        (client, user): (ClientNumber, u32),
        wanted: Wanted,
        interfaces: Vec<String>,
    ) -> Result<Given, String> {
        self.sweep();
        match self.user_of(wanted.node) {
            Some(owner) if owner == user => {
                return Err(format!(
                    "your node {:016x} runs already, or still delivers what it has sent",
                    wanted.node.0
                ));
            }
            Some(_) => {
                return Err(format!("the identity {:016x} is another user's", wanted.node.0));
            }
            None => {}
        }
        let same = self.owners.values().filter(|owner| **owner == user).count();
        if same >= self.options.per_user {
            return Err(format!("user {user} has {same} engines, and may have no more"));
        }
        let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
        let (ringer, wakeup) = bell().map_err(|error| failed("no descriptor is left", &error))?;
        let (channel, memory, others) =
            Channel::create().map_err(|error| failed("no memory for another client", &error))?;
        let kept = memory.try_clone().map_err(|error| failed("no descriptor is left", &error))?;
        let node = wanted.node;
        let news = Arc::clone(&self.news);
        let state = AtomicU8::new(SERVES);
        let (started, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let shared = Arc::new(Shared { client, node, state, started, over, ringer, news });
        let moved = [channel.bell(), kept.as_fd(), wakeup.descriptor()];
        let (share, taker) = apart::share(&moved);
        let start = engine::Start { wanted, interfaces, channel, memory: kept, wakeup };
        let (its, options) = (Arc::clone(&shared), self.options.clone());
        let thread = std::thread::Builder::new().name("engine".into());
        let thread = thread.spawn(move || {
            let _at_end = AtEnd(Arc::clone(&its));
            taker.leave(&[its.ringer.descriptor(), its.news.ringer.descriptor()]);
            engine::run(start, &options, &its);
        });
        let thread = Some(thread.map_err(|error| failed("starting an engine", &error))?);
        share.close();
        self.owners.insert(node, user);
        self.running.push(Running { shared, thread });
        let answer = Seated { memory_bytes: MEMORY_BYTES as u32 };
        Ok(Given { answer, memory, bell: others })
    }

    /// A client is gone. Its engine delivers what was sent, for as long as the client has said. Unknown numbers mean nothing.
    pub fn leave(&mut self, client: ClientNumber) {
        let its = self.running.iter().find(|running| running.shared.client == client);
        if let Some(running) = its {
            running.shared.turn_to(LEFT);
        }
        self.sweep();
    }

    /// Whether one of them has yet to come to the door for its links.
    #[must_use]
    pub fn are_starting(&self) -> bool {
        self.running.iter().any(|running| !running.shared.started.load(Ordering::Acquire))
    }

    /// Readable when there is something for [`take_ended`](Self::take_ended).
    #[must_use]
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.bell.descriptor()
    }

    /// Clients whose engines have ended since this was last asked, with why.
    pub fn take_ended(&mut self) -> Vec<(ClientNumber, String)> {
        self.bell.take();
        self.sweep();
        std::mem::take(&mut *self.news.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Forgets engines that have ended.
    fn sweep(&mut self) {
        for running in &mut self.running {
            if running.shared.over.load(Ordering::Acquire)
                && let Some(thread) = running.thread.take()
            {
                if thread.join().is_err() {
                    let why = "its engine broke: a fault of the service's".into();
                    self.news.ended(running.shared.client, why);
                }
                self.owners.remove(&running.shared.node);
            }
        }
        self.running.retain(|running| running.thread.is_some());
    }
}

impl Drop for Engines {
    fn drop(&mut self) {
        self.running.iter().for_each(|running| running.shared.turn_to(ENDS));
        let since = Instant::now();
        while !self.running.is_empty() && since.elapsed() < GOODBYE {
            std::thread::sleep(Duration::from_millis(1));
            self.sweep();
        }
    }
}
