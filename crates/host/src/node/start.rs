//! Describing and starting a node.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use emp_firmware::{Config, Firmware, Integrity, LinkInfo, Profile};
use emp_link::{Capabilities, CaptureFile, FaultPlan, Link, LinkThread, PeerMemory};
use emp_wire::{Epoch, NodeId};

use crate::boards::seat::{Beside, Engine, Halved, Parts, Placed, Seat};
use crate::choices::{Board, Collections, Scheme, StateFile, WaitMode};
use crate::links::apart::{self, Apart};
use crate::links::capture;
use crate::links::choice::{self, Choice};
use crate::links::division::{Division, divide};
use crate::links::error::BuildError;
use crate::links::joining::{AutoNewcomers, Description, Joining, Newcomers};
use crate::links::ladder::{self, AutoLinks};
use crate::links::set::{self, ChosenLink};
use crate::machine::clock;
use crate::machine::second::Second;
use crate::machine::system;
use crate::memory::process::ProcessMemory;
use crate::node::running::{Node, NodeInner};
use crate::told::journal::{Journal, Level, Log};
use crate::told::names;
use crate::told::news::News;
use crate::told::shown::{self, Shown};

/// How long a node that is dropped waits for acknowledgements unless said otherwise: long enough for a few
/// retransmissions at their slowest, short enough for a program's end.
const LINGER_DEFAULT: Duration = Duration::from_secs(1);

/// Describes a node; [`start`](Self::start) starts it.
#[must_use]
pub struct NodeBuilder {
    pub(super) name: Option<String>,
    pub(super) node: Option<NodeId>,
    pub(super) epoch: Option<u32>,
    pub(super) seed: Option<u64>,
    pub(super) profile: Profile,
    pub(super) collections: Collections,
    pub(super) board: Board,
    pub(super) wait_mode: WaitMode,
    pub(super) linger: Duration,
    pub(super) links: Vec<ChosenLink>,
    pub(super) auto_links: Option<AutoLinks>,
    pub(super) newcomers: Option<Box<dyn Newcomers>>,
    pub(super) paths: Paths,
    pub(super) relay: bool,
    pub(super) capture: Option<PathBuf>,
    pub(super) log: Option<Log>,
    pub(super) notices: Option<Log>,
    pub(super) alarms: Option<Log>,
    pub(super) patience_hint: Option<String>,
    pub(super) state: Option<StateFile>,
    pub(super) service: Option<PathBuf>,
    pub(super) faults: Option<FaultPlan>,
}

/// Whether a node uses several links to the same peer at once: those with rings for small and control frames, one that segments
/// for long trains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Paths {
    /// If it has such links, from the train length on that costs measured at start give.
    #[default]
    Measured,
    /// Likewise, from this many frames on: for tests.
    From(u32),
    /// No: the first link that leads to a peer takes all.
    One,
}

impl Default for NodeBuilder {
    fn default() -> Self {
        Self {
            name: None,
            node: None,
            epoch: None,
            seed: None,
            profile: Profile::DEFAULT,
            collections: Collections::default(),
            board: Board::default(),
            wait_mode: WaitMode::default(),
            linger: LINGER_DEFAULT,
            links: Vec::new(),
            auto_links: None,
            newcomers: None,
            paths: Paths::default(),
            relay: false,
            capture: None,
            log: None,
            notices: None,
            alarms: None,
            patience_hint: None,
            state: None,
            service: None,
            faults: None,
        }
    }
}

impl Node {
    /// Describes a node to be started.
    pub fn builder() -> NodeBuilder {
        NodeBuilder::default()
    }
}

impl NodeBuilder {
    /// Its name: what others find it by, and what its identity comes from unless that is given. No two nodes that may meet
    /// should have the same one; if they do, both say so ([`NodeEvent::Claimed`](emp_firmware::NodeEvent::Claimed)). Default: a name for people, made of the machine's and
    /// the process's number; the identity is drawn at random then, so that any number of nodes may go without a name. They send
    /// to others; who answers them knows their identity by what they sent.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Its identity. Default: that of its name, or drawn at random if it has none.
    pub fn node_id(mut self, node: NodeId) -> Self {
        self.node = Some(node);
        self
    }

    /// Its generation; must differ from that of earlier runs. Default: drawn at random.
    pub fn epoch(mut self, epoch: u32) -> Self {
        self.epoch = Some(epoch);
        self
    }

    /// Seed of all the firmware's randomness. Default: drawn at random.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Protocol parameters. Default: [`Profile::DEFAULT`].
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// How long nothing may be heard of a peer that owes something before it is given up, if not as long as
    /// [`profile`](Self::profile) says (10 s). Time in which this node did not run does not count, nor, up to six times as much
    /// and five minutes, time in which its own interface had no carrier. A peer whose host tells that its process has ended is given up within about a
    /// second, whatever this is. Call it after `profile`, which sets it as well.
    pub fn unreachable_after(mut self, silence: Duration) -> Self {
        self.profile.unreachable_after = clock::span(silence);
        self
    }

    /// What payloads are checked by on links whose carrier has a checksum of its own (`udp`), if not by that alone. Call it after
    /// [`profile`](Self::profile), which sets it as well.
    pub fn integrity(mut self, integrity: Integrity) -> Self {
        self.profile.integrity = integrity;
        self
    }

    /// How many frames one acknowledgement covers, for all peers, which sets what [`profile`](Self::profile) has (call it after that), and for
    /// single ones, from when they are met on.
    pub fn collections(mut self, collections: Collections) -> Self {
        self.profile.collection = collections.all.unwrap_or(self.profile.collection);
        self.collections = collections;
        self
    }

    /// Where the firmware runs. Default: in the caller, with a guardian.
    pub fn board(mut self, board: Board) -> Self {
        self.board = board;
        self
    }

    /// How callers wait. Default: look for as long as recent waits make it worth while, then sleep.
    pub fn wait_mode(mut self, wait_mode: WaitMode) -> Self {
        self.wait_mode = wait_mode;
        self
    }

    /// How long a node that is dropped waits for what it has sent to be delivered. Default: one second.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// Adds a link. The first one is the best: a node that answers on several is reached over the first of them.
    pub fn link(mut self, link: impl Link + 'static) -> Self {
        let asks_everyone = link.capabilities().broadcast;
        self.links.push(ChosenLink { link: Box::new(link), asks_everyone });
        self
    }

    /// As [`link`](Self::link), for a link on which frames to everyone reach configured peers: it is worth asking there
    /// for nodes that are not known yet.
    pub fn link_with_peers(mut self, link: impl Link + 'static) -> Self {
        self.links.push(ChosenLink { link: Box::new(link), asks_everyone: true });
        self
    }

    /// Lets the node choose links by trying, after those that were added by hand. [`Node::choice`] says what came of it.
    pub fn auto_links(mut self, auto_links: AutoLinks) -> Self {
        self.auto_links = Some(auto_links);
        self
    }

    /// Who opens links on interfaces that appear while the node runs. Default: with [`auto_links`](Self::auto_links) the node itself, as it does at its start;
    /// else nobody.
    pub fn newcomers(mut self, newcomers: impl Newcomers + 'static) -> Self {
        self.newcomers = Some(Box::new(newcomers));
        self
    }

    /// Whether several links to the same peer are used at once. Default: if that gains anything.
    pub fn paths(mut self, paths: Paths) -> Self {
        self.paths = paths;
        self
    }

    /// Whether it sends on what others' lists of hops say, from one of its interfaces to another, and repeats their searches. It takes raw links
    /// (`packet`) on the interfaces between which it relays, with [`auto_links`](Self::auto_links). Default: it does not.
    pub fn relay(mut self, relay: bool) -> Self {
        self.relay = relay;
        self
    }

    /// Writes every frame that the node's links send and receive to a pcapng file, with what the firmware made of those that it did not
    /// take; `%p` in the name is the process's number. Nodes of this process that name the same file share it. At most
    /// [`CAPTURE_BYTES`](emp_link::CAPTURE_BYTES); it costs each frame some microseconds. If it cannot be written, a line of the log
    /// says so, and the node runs without. Default: what `EMP_CAPTURE` says.
    pub fn capture(mut self, file: impl Into<PathBuf>) -> Self {
        self.capture = Some(file.into());
        self
    }

    /// Is given a line for each choice that is made, for each peer that is met or says goodbye, and with what was counted when
    /// the node is closed. `EMP_LOG=info` writes the same lines to standard error. Must not call the node, which is locked
    /// meanwhile.
    pub fn log(mut self, log: impl Fn(&str) + Send + 'static) -> Self {
        self.log = Some(Box::new(log));
        self
    }

    /// Is given a line for each change that the running node notices: a peer, a path to it or a link that is lost or works again, an
    /// interface whose MTU was lowered, an identity that two nodes claim, messages that were lost with the node. `EMP_LOG=warn` writes
    /// the same lines to standard error. Must not call the node, which is locked meanwhile.
    pub fn notices(mut self, notices: impl Fn(&str) + Send + 'static) -> Self {
        self.notices = Some(Box::new(notices));
        self
    }

    /// Is given the lines of lost peers instead of [`notices`](Self::notices): who was lost, since when, and why as far as anybody knows.
    /// Must not call the node, which is locked meanwhile.
    pub fn alarms(mut self, alarms: impl Fn(&str) + Send + 'static) -> Self {
        self.alarms = Some(Box::new(alarms));
        self
    }

    /// What lines of peers that were silent for too long end with: how whoever reads them has the node wait longer.
    pub fn patience_hint(mut self, hint: impl Into<String>) -> Self {
        self.patience_hint = Some(hint.into());
        self
    }

    /// Whether the node shows its state to `emp nodes`, `emp top` and `emp why`, which need no help of the process for that, by a file of
    /// 16 KB in `/dev/shm/emp/UID`. Where it cannot be made the node runs without, and the log says so once. Default: what `EMP_STATE` says,
    /// else to its user.
    pub fn state(mut self, state: StateFile) -> Self {
        self.state = Some(state);
        self
    }

    /// Where the service listens that has the engine of the daemon board. Default: what `EMP_SERVICE` says, else `/run/empd/socket`.
    pub fn service(mut self, socket: impl Into<PathBuf>) -> Self {
        self.service = Some(socket.into());
        self
    }

    /// Faults that the engine of the daemon board injects into its links, for tests. Those of a node's own links are their wrapper's
    /// ([`FaultLink`](emp_link::FaultLink)).
    pub fn faults_of_service(mut self, plan: FaultPlan) -> Self {
        self.faults = Some(plan);
        self
    }

    /// Its name and identity: those that were given, the one from the other, or drawn.
    fn identity(&self) -> Result<(String, NodeId), BuildError> {
        Ok(match (&self.name, self.node) {
            (Some(name), node) => (name.clone(), node.unwrap_or_else(|| names::identity(name))),
            (None, Some(node)) => (system::process_name(), node),
            (None, None) => loop {
                let node = NodeId(system::random().map_err(system_error("drawing an identity"))?);
                if node != NodeId::ANY {
                    break (system::process_name(), node);
                }
            },
        })
    }

    /// The links that were given, and those that are chosen.
    fn open_links(
        &mut self,
        id: NodeId,
        choice: &mut Choice,
    ) -> Result<Vec<ChosenLink>, BuildError> {
        let mut links = std::mem::take(&mut self.links);
        for given in &links {
            choice.given(given.link.capabilities());
        }
        if let Some(auto_links) = &self.auto_links {
            links.extend(ladder::climb(auto_links, id, choice)?);
            if self.relay {
                ladder::searches(auto_links, choice, &mut links)?;
            }
        }
        Ok(links)
    }

    /// Which frames take which link.
    fn divide(&self, kinds: &[Capabilities]) -> Option<Division> {
        match self.paths {
            Paths::One => None,
            Paths::Measured => divide(kinds, None),
            Paths::From(frames) => divide(kinds, Some(frames)),
        }
    }

    fn config(&self, node: NodeId, name: &str, links: Vec<LinkInfo>) -> Result<Config, BuildError> {
        let random = || system::random().map_err(system_error("drawing random numbers"));
        Ok(Config {
            node,
            epoch: self.epoch.map_or_else(|| random().map(|bits| bits as u32), Ok)?,
            name: name.to_owned(),
            profile: self.profile.clone(),
            links,
            seed: self.seed.map_or_else(random, Ok)?,
        })
    }

    /// Starts the node.
    pub fn start(mut self) -> Result<Node, BuildError> {
        let (name, id) = self.identity()?;
        if id == NodeId::ANY {
            return Err(BuildError::Identity);
        }
        if self.board == Board::Daemon {
            return self.start_elsewhere(name, id);
        }
        let mut journal = Journal::new(&name, self.log.take(), self.notices.take());
        journal.set_alarms(self.alarms.take());
        let mut choice = Choice::default();
        let links = self.open_links(id, &mut choice)?;
        choice.lines().for_each(|line| journal.say(Level::Info, &line));
        set::check(&links)?;
        let kinds: Vec<_> = links.iter().map(|chosen| chosen.link.capabilities().clone()).collect();
        let division = self.divide(&kinds);
        let path_costs = division.as_ref().and_then(|division| division.costs);
        if let Some(costs) = &path_costs {
            choice.paths(costs);
            say_last(&choice, &journal);
        }
        let several = self.paths != Paths::One;
        let asks_everyone = links.iter().map(|chosen| chosen.asks_everyone).collect();
        let links: Vec<_> = links.into_iter().map(|chosen| chosen.link).collect();
        let description = Description { asks_everyone, division, several };
        let all: Vec<&dyn Link> = links.iter().map(|link| &**link).collect();
        let (infos, over) = description.of(&all);
        if several && over.are_several() {
            choice.together(over.names());
            say_last(&choice, &journal);
        }
        let config = self.config(id, &name, infos)?;
        let epoch = Epoch::new(config.epoch);
        let peers: Vec<_> = links.iter().map(|link| link.peer_memory()).collect();
        let file = captured_to(self.capture.or_else(capture::asked_for), &journal);
        let apart = Apart { capture: file, thread: thread_of(self.board, self.wait_mode)? };
        let links = links.into_iter().map(|link| apart.of(link));
        let mut links = links.collect::<Result<Vec<_>, _>>()?;
        let auto = self.auto_links.map(|auto| -> Box<dyn Newcomers> {
            Box::new(AutoNewcomers { auto, node: id, relays: self.relay })
        });
        let newcomers = self.newcomers.or(auto);
        let beside = beside(self.board, self.wait_mode, &peers, &apart)?;
        let joining = newcomers.and_then(|new| Joining::new(new, description, &mut links, apart));
        // SAFETY: every segment that the firmware will see comes from posts (`Seat::post` and its kin),
        // which ask their callers for what the module's invariant asks for, or from an exported region, which keeps it.
        let memory = unsafe { ProcessMemory::new(peers) };
        let mut firmware = Firmware::new(config);
        firmware.set_relay(self.relay);
        if id == NodeId::from_name(&name) {
            firmware.claim_identity();
        }
        let news = News::new(kinds.iter().map(choice::name).collect(), self.patience_hint);
        let patience = self.profile.unreachable_after;
        let identity = shown::identity((id, epoch, &name), self.board, patience);
        let shown = Shown::new(self.state, &identity, &mut journal);
        let (engine, collections) = (Engine::Here(Box::new(firmware)), self.collections);
        let parts =
            Parts { engine, links, memory, journal, news, collections, shown, joining, beside };
        let seat = Seat::compose(parts, self.board, self.wait_mode)
            .map_err(|(what, reason)| BuildError::System { what, reason })?;
        let node = NodeInner {
            seat,
            id,
            epoch,
            name,
            profile: self.profile,
            choice,
            path_costs,
            linger: self.linger,
            capabilities: kinds,
        };
        Ok(Node { inner: Arc::new(node) })
    }
}

/// The thread of a board that has the calls of its links on another.
fn thread_of(board: Board, wait_mode: WaitMode) -> Result<Option<Arc<LinkThread>>, BuildError> {
    match board {
        Board::Split { scheme: Scheme::Io, cpu } => apart::thread(wait_mode, cpu)
            .map(Some)
            .map_err(system_error("starting a thread for the links")),
        _ => Ok(None),
    }
}

/// What a board has beside the thread of its callers.
fn beside(
    board: Board,
    wait_mode: WaitMode,
    peers: &[Option<Arc<PeerMemory>>],
    apart: &Apart,
) -> Result<Beside, BuildError> {
    let links = Beside { halved: None, worked: apart.thread.as_ref().map(|one| one.worked()) };
    let Board::Split { scheme, cpu } = board else { return Ok(links) };
    let placed = match scheme {
        Scheme::Io => return Ok(links),
        Scheme::SendOnly => Placed::Sending,
        Scheme::Dedicated => Placed::Receiving,
        Scheme::Dynamic => Placed::Either,
        Scheme::ReceiveOnly => Placed::Copies,
        Scheme::SendAndReceive => Placed::SendingAndCopies,
    };
    let second = Second::start(apart::look_for(wait_mode), cpu)
        .map_err(system_error("starting a second thread"))?;
    // SAFETY: the segments that it will see are those that the firmware's own memory sees, of which `start` says why they are valid.
    let source = unsafe { ProcessMemory::new(peers.to_vec()) };
    let worked = Some(second.worked());
    let halved = Some(Box::new(Halved::new(second, placed, source)));
    Ok(Beside { halved, worked })
}

/// Says what was chosen last.
fn say_last(choice: &Choice, journal: &Journal) {
    if let Some(line) = choice.lines().last() {
        journal.say(Level::Info, &line);
    }
}

/// What the links' frames are captured to, if that is wanted and can be had.
fn captured_to(file: Option<PathBuf>, journal: &Journal) -> Option<CaptureFile> {
    let opened = capture::open(&file?);
    opened.map_err(|problem| journal.say(Level::Error, &problem)).ok()
}

pub(super) fn system_error(what: &'static str) -> impl Fn(std::io::Error) -> BuildError {
    move |reason| BuildError::System { what, reason }
}
