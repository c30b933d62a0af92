//! The switch: a lane for each interface that clients are attached to, opened with the first of them and closed after the last.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use emp_link::service::channel::{Channel, MEMORY_BYTES};
use emp_link::service::protocol::Attached;
use emp_link::{NamedInterface, PacketLink, PacketOptions, TAG_ANY, Wire};

use super::lane::{Command, Lane, Newcomer, pin};
use super::pace::Polling;
use super::rates::Rate;
use super::shared::{Board, Counts, Shared};
use super::{Attachment, ClientNumber, Given, Switch};

/// How long a lane may take to look at what it is told, before it counts as dead: it shares its core with others at worst.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where a raw link stands to the others of its interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stand {
    /// In their group: it gets what is no other member's.
    Member,
    /// Beside it, as another service has that place: it gets a copy of all.
    Aside,
}

/// Makes the raw link of an interface (by name) and EtherType.
pub type OpenWire = Box<dyn FnMut(&str, u16, Stand) -> Result<Box<dyn Wire>, String> + Send>;

/// What a user may send; `None`: all.
pub type RateOf = Box<dyn Fn(u32) -> Option<Rate> + Send>;

/// How frames are moved.
pub struct Options {
    /// How lanes wait. On a core of its own there can be but one lane.
    pub polling: Polling,
    /// What each user may send.
    pub rate: RateOf,
    /// Opens raw links.
    pub open: OpenWire,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            polling: Polling::default(),
            rate: Box::new(|_| None),
            open: Box::new(|interface, ethertype, stand| {
                let usual = PacketOptions::new(interface, TAG_ANY);
                let group = stand == Stand::Member;
                let options = PacketOptions { ethertype, group, ..usual };
                let link = PacketLink::open(&options).map_err(|error| error.to_string())?;
                Ok(Box::new(link))
            }),
        }
    }
}

/// One interface's lane.
struct Running {
    interface: NamedInterface,
    commands: Sender<Command>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// A wakeup that has not been seen answered, and when it was made.
    asked: Option<(u64, Instant)>,
}

impl Running {
    fn start(
        (interface, wire): (&str, Box<dyn Wire>),
        polling: Polling,
        board: &Arc<Board>,
    ) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("starting the switch: {error}");
        let shared = Arc::new(Shared::new(Arc::clone(board)).map_err(|error| failed(&error))?);
        let (commands, received): (Sender<Command>, Receiver<Command>) = channel();
        let lane = Lane::new(wire, polling, received, Arc::clone(&shared));
        let lane = lane.map_err(|error| failed(&error))?;
        let told = Arc::clone(&shared);
        let run = move || {
            if let Polling::Dedicated(core) = polling
                && let Err(line) = pin(core)
            {
                told.note(line);
            }
            lane.run();
        };
        let thread = std::thread::Builder::new().name("switch".into()).spawn(run);
        let thread = Some(thread.map_err(|error| failed(&error))?);
        let interface = NamedInterface::new(interface);
        Ok(Self { interface, commands, shared, thread, asked: None })
    }

    /// Its thread goes on, or ended as it had nobody to serve.
    fn is_alive(&mut self, now: Instant) -> bool {
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            // A thread that panicked has left clients behind.
            return self.thread.take().is_none_or(|thread| thread.join().is_ok());
        }
        match self.asked {
            Some((number, since)) if !self.shared.has_answered(number) => {
                now.saturating_duration_since(since) < PATIENCE
            }
            _ => {
                self.asked = Some((self.shared.wake(), now));
                true
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The lanes.
pub struct Lanes {
    options: Options,
    lanes: HashMap<(String, u16), Running>,
    clients: HashMap<ClientNumber, (String, u16)>,
    board: Arc<Board>,
    stand: Stand,
}

impl Lanes {
    /// A switch without lanes yet.
    ///
    /// # Errors
    ///
    /// If there is no descriptor to be had.
    pub fn new(options: Options) -> Result<Self, String> {
        let board = Board::new().map_err(|error| format!("starting the switch: {error}"))?;
        let (lanes, clients) = (HashMap::new(), HashMap::new());
        Ok(Self { options, lanes, clients, board: Arc::new(board), stand: Stand::Member })
    }

    /// Each lane's interface and counts.
    pub fn counts(&self) -> impl Iterator<Item = (&str, &Counts)> {
        self.lanes.iter().map(|((name, _), lane)| (name.as_str(), &lane.shared.counts))
    }

    /// A lane's link stays on an interface that is renamed: who asks for it by its new name gets that lane, not a second one beside it.
    fn follow_names(&mut self) {
        let renamed = |(key, lane): (&(String, u16), &mut Running)| {
            let before = key.clone();
            lane.interface.follow().then(|| (before, lane.interface.name().to_owned()))
        };
        let renamed: Vec<_> = self.lanes.iter_mut().filter_map(renamed).collect();
        // Two may have changed names with each other.
        let taken = renamed.into_iter().filter_map(|(before, now)| {
            let lane = self.lanes.remove(&before)?;
            Some((lane, before, now))
        });
        let taken: Vec<_> = taken.collect();
        let before = std::mem::take(&mut self.clients);
        self.clients = before
            .into_iter()
            .map(|(client, mut key)| {
                if let Some((.., now)) = taken.iter().find(|(_, before, _)| *before == key) {
                    key.0.clone_from(now);
                }
                (client, key)
            })
            .collect();
        for (lane, before, now) in taken {
            self.lanes.insert((now, before.1), lane);
        }
    }

    /// The lane of an interface. `anew`: the one that there was has ended.
    fn lane(&mut self, key: &(String, u16), anew: bool) -> Result<&Running, String> {
        if anew {
            self.lanes.remove(key);
        }
        if !self.lanes.contains_key(key) {
            let wire = (self.options.open)(&key.0, key.1, self.stand)?;
            let lane = Running::start((&key.0, wire), self.options.polling, &self.board)?;
            self.lanes.insert(key.clone(), lane);
        }
        self.lanes.get(key).ok_or_else(|| "the lane is gone".into())
    }

    /// Offers a client to a lane. `Ok(None)`: the lane was just ending.
    fn offer(
        &mut self,
        attachment: &Attachment,
        anew: bool,
    ) -> Result<Option<(std::os::fd::OwnedFd, std::os::fd::OwnedFd)>, String> {
        let rate = (self.options.rate)(attachment.user);
        let key = (attachment.interface.clone(), attachment.ethertype);
        let lane = self.lane(&key, anew)?;
        let made = Channel::create()
            .and_then(|(channel, memory, bell)| Ok((channel, memory.try_clone()?, memory, bell)));
        let (channel, kept, memory, bell) =
            made.map_err(|error| format!("no memory for another client: {error}"))?;
        let (answer, answered) = sync_channel(1);
        let attachment = attachment.clone();
        let newcomer = Newcomer { attachment, channel, memory: kept, rate, answer };
        if lane.commands.send(Command::Attach(Box::new(newcomer))).is_err() {
            return Ok(None);
        }
        lane.shared.wake();
        match answered.recv_timeout(PATIENCE) {
            Ok(taken) => taken.map(|()| Some((memory, bell))),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => Ok(None),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                Err("the switch does not answer: the service is overloaded".into())
            }
        }
    }
}

impl Switch for Lanes {
    fn attach(&mut self, attachment: &Attachment) -> Result<Given, String> {
        self.follow_names();
        let given = match self.offer(attachment, false)? {
            Some(given) => Some(given),
            None => self.offer(attachment, true)?,
        };
        let (memory, bell) = given.ok_or("the switch has ended")?;
        let key = (attachment.interface.clone(), attachment.ethertype);
        self.clients.insert(attachment.client, key);
        let memory_bytes = MEMORY_BYTES as u32;
        let answer = Attached { carrier: attachment.carrier, memory_bytes };
        Ok(Given { answer, memory, bell })
    }

    fn detach(&mut self, client: ClientNumber) {
        let Some(key) = self.clients.remove(&client) else { return };
        let Some(lane) = self.lanes.get(&key) else { return };
        if lane.commands.send(Command::Detach(client)).is_ok() {
            lane.shared.wake();
        }
    }

    fn ended(&self) -> Option<BorrowedFd<'_>> {
        Some(self.board.ready())
    }

    fn take_ended(&mut self) -> Vec<(ClientNumber, String)> {
        self.board.take_ended()
    }

    fn take_lines(&mut self) -> Vec<String> {
        self.board.take_lines()
    }

    /// Each lane's new link gets all that comes before its old one leaves the group, so no frame is missed; some come by both.
    fn step_aside(&mut self) -> Result<(), String> {
        self.follow_names();
        let mut wires = Vec::new();
        for (interface, ethertype) in self.lanes.keys() {
            wires.push((self.options.open)(interface, *ethertype, Stand::Aside)?);
        }
        self.stand = Stand::Aside;
        for (lane, wire) in self.lanes.values().zip(wires) {
            let (done, stands) = sync_channel(1);
            if lane.commands.send(Command::StepAside(wire, done)).is_ok() {
                lane.shared.wake();
                let _ = stands.recv_timeout(PATIENCE);
            }
        }
        Ok(())
    }

    fn is_alive(&mut self) -> bool {
        let now = Instant::now();
        self.lanes.values_mut().all(|lane| lane.is_alive(now))
    }
}
