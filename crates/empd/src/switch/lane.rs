//! One interface's frames: a thread that owns the raw link and moves frames between it and the clients, and between clients.
//!
//! What it decides is elsewhere, without a system call in it: [`check`](super::check) which frames leave, [`tags`](super::tags) whose those
//! are that come, [`rounds`](super::rounds) and [`rates`](super::rates) who sends next and how much, [`pace`](super::pace) how to wait.

mod members;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use emp_link::service::channel::{
    ADDRESS_BYTES, Broken, Channel, Heard, Record, Said, Trouble, address_bytes,
};
use emp_link::{LinkAddress, Wire};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::batch::Batch;
use super::client::{Client, Place};
use super::handing::Handing;
use super::pace::{Next, Pace, Polling, TURNS_PER_BELL};
use super::rates::{Rate, Rates};
use super::rounds::{Rounds, cost};
use super::shared::Shared;
use super::tags::{Slot, Tags};
use super::{Attachment, ClientNumber};
pub use members::CLIENTS_MAX;

/// Frames taken off the wire in one turn, so that those that leave wait for no more.
const ARRIVALS: usize = 64;

/// How soon clients are told what befell their frames: soon enough for their engines, and a system call or two each time.
const TELL_EVERY: Duration = Duration::from_millis(10);

/// How often the interface is looked at while there is traffic; without, the kernel tells of changes.
const CONDITION_EVERY: Duration = Duration::from_secs(1);

/// How long a lane without clients keeps its socket: setting one up takes tens of milliseconds, and it costs every frame on the interface a
/// look for as long as it is there.
const LINGER: Duration = Duration::from_secs(5);

/// What `epoll` says is readable beside the bells, which are known by their slots.
const WIRE: u64 = u64::MAX;
const COMMANDS: u64 = u64::MAX - 1;

/// Most descriptors that one look at the bells takes.
const EVENTS: usize = 64;

/// What the door asks of a lane.
pub(super) enum Command {
    Attach(Box<Newcomer>),
    Detach(ClientNumber),
    /// This link is to take the place of the one that there is, and so it is said when it has.
    StepAside(Box<dyn Wire>, SyncSender<()>),
}

/// A client that is to be taken.
pub(super) struct Newcomer {
    pub(super) attachment: Attachment,
    pub(super) channel: Channel,
    pub(super) memory: std::os::fd::OwnedFd,
    pub(super) rate: Option<Rate>,
    pub(super) answer: SyncSender<Result<(), String>>,
}

/// The thread's state.
pub(super) struct Lane {
    wire: Box<dyn Wire>,
    own: LinkAddress,
    bytes_max: usize,
    clients: Vec<Option<Client>>,
    numbers: HashMap<ClientNumber, Slot>,
    tags: Tags,
    rounds: Rounds,
    rates: Rates,
    /// Clients whose users have sent what they may, and until when. First those who have sent least lately, so that a user's clients take turns.
    limited: Vec<(Instant, Slot)>,
    /// How many of these have sent nothing since they last were here.
    unserved: usize,
    batch: Batch,
    /// Clients that frames were written for since they were last woken.
    touched: Vec<Slot>,
    /// Clients that are to be ended, and why.
    broken: Vec<(Slot, Broken)>,
    pace: Pace,
    epoll: Epoll,
    commands: Receiver<Command>,
    shared: Arc<Shared>,
    said: Said,
    /// Something may have happened that clients are to be told.
    untold: bool,
    told_at: Instant,
    looked_at: Instant,
    empty_since: Instant,
    turns: u32,
}

impl Lane {
    pub(super) fn new(
        wire: Box<dyn Wire>,
        polling: Polling,
        commands: Receiver<Command>,
        shared: Arc<Shared>,
    ) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        if let Some(ready) = wire.readiness() {
            epoll.add(ready, EpollEvent::new(EpollFlags::EPOLLIN, WIRE))?;
        }
        epoll.add(shared.wakeup(), EpollEvent::new(EpollFlags::EPOLLIN, COMMANDS))?;
        let capabilities = wire.capabilities();
        let (own, bytes_max) = (capabilities.address, capabilities.frame_bytes_max);
        let bytes_max = bytes_max.min(emp_link::service::channel::FRAME_BYTES_MAX);
        let now = Instant::now();
        Ok(Self {
            wire,
            own,
            bytes_max,
            clients: Vec::new(),
            numbers: HashMap::new(),
            tags: Tags::default(),
            rounds: Rounds::default(),
            rates: Rates::default(),
            limited: Vec::new(),
            unserved: 0,
            batch: Batch::default(),
            touched: Vec::new(),
            broken: Vec::new(),
            pace: Pace::new(polling),
            epoll,
            commands,
            shared,
            said: Said {
                mtu: bytes_max as u32,
                mac: own.as_mac().unwrap_or_default(),
                ..Said::default()
            },
            untold: true,
            told_at: now,
            looked_at: now,
            empty_since: now,
            turns: 0,
        })
    }

    /// Moves frames until nobody has been here for a while, or nobody can come any more.
    pub(super) fn run(mut self) {
        self.look_at_wire(Instant::now());
        while !self.shared.is_over() {
            let worked = self.turn();
            self.turns = self.turns.wrapping_add(1);
            if worked {
                self.pace.worked();
            }
            if self.turns.is_multiple_of(TURNS_PER_BELL) {
                if !self.attend(Some(Duration::ZERO)) {
                    return;
                }
                continue;
            }
            if worked {
                continue;
            }
            match self.pace.idled(Instant::now) {
                Next::Look => std::hint::spin_loop(),
                Next::Yield => {
                    std::thread::yield_now();
                    self.pace.is_back(Instant::now());
                }
                Next::Sleep => {
                    if !self.sleep() {
                        return;
                    }
                }
            }
        }
    }

    /// One look at everything that may have something. True if there was.
    fn turn(&mut self) -> bool {
        let arrived = self.arrivals();
        let left = self.departures();
        if !self.touched.is_empty() {
            self.wake_touched();
        }
        if !self.broken.is_empty() {
            self.end_broken();
        }
        arrived || left
    }

    /// Takes frames off the wire, each for the clients whose tag it bears.
    #[inline]
    fn arrivals(&mut self) -> bool {
        let Self { wire, clients, tags, touched, broken, shared, .. } = self;
        let mut nobodys: Option<Vec<u8>> = None;
        let mut handing = Handing { clients, tags, touched, broken, shared };
        let came = wire.receive(ARRIVALS, &mut |frame, from| {
            let Some(from) = address_bytes(from) else { return };
            if handing.hand(frame, &from, None) == 0 && nobodys.is_none() {
                nobodys = Some(frame.to_vec());
            }
        });
        if let Some(frame) = nobodys {
            self.shared.count(|counts| &counts.nobodys, 1);
            self.wire.note_nobodys(&frame);
        }
        if came > 0 {
            self.shared.count(|counts| &counts.received, came as u64);
        }
        came > 0
    }

    /// Takes clients' frames in their order, as many as the wire takes at once.
    #[inline]
    fn departures(&mut self) -> bool {
        if self.batch.is_pending() && !self.flush() {
            return false;
        }
        if self.rounds.is_empty() {
            return false;
        }
        let mut worked = false;
        for _ in 0..self.rounds.len() {
            let Some(slot) = self.rounds.turn() else { break };
            worked |= self.client_turn(slot);
            if self.batch.is_full() {
                if self.rounds.may(slot) {
                    self.rounds.put_back(slot);
                }
                break;
            }
        }
        if self.batch.is_pending() {
            self.flush();
        }
        worked
    }

    /// One client's turn. True if it had frames.
    fn client_turn(&mut self, slot: Slot) -> bool {
        let mut worked = false;
        let now = (!self.rates.is_empty()).then(Instant::now);
        while self.rounds.may(slot) && !self.batch.is_full() {
            let Some(Some(client)) = self.clients.get_mut(usize::from(slot)) else { break };
            if let Some(Err(until)) = now.map(|now| self.rates.may(client.user, now)) {
                client.place = Place::Limited;
                self.rounds.leave(slot);
                let at = if worked { self.limited.len() } else { self.unserved };
                self.unserved += usize::from(!worked);
                self.limited.insert(at, (until, slot));
                break;
            }
            let popped = client.channel.pop(self.batch.free());
            let over = client.ends_at.is_some_and(|end| client.channel.taken() >= end);
            match popped {
                Ok(Some(Record::Frame(to, bytes))) => {
                    client.was_busy();
                    worked = true;
                    self.rounds.spend(slot, cost(bytes));
                    self.rates.spend(client.user, cost(bytes));
                    self.route(slot, to, bytes);
                    if over {
                        self.forget(slot);
                        break;
                    }
                }
                Ok(Some(Record::Said(_))) => {
                    self.broken.push((slot, Broken::Record));
                    break;
                }
                Ok(None) => {
                    let quiet = client.was_empty();
                    if client.ends_at.is_some() {
                        self.forget(slot);
                    } else if quiet {
                        self.rest(slot);
                    }
                    break;
                }
                Err(broken) => {
                    self.broken.push((slot, broken));
                    break;
                }
            }
        }
        worked
    }

    /// Checks the frame that was read into the batch's free buffer, and says where it goes.
    #[inline]
    fn route(&mut self, slot: Slot, to: LinkAddress, bytes: usize) {
        let Self { clients, tags, touched, broken, shared, .. } = self;
        let Some(Some(client)) = clients.get_mut(usize::from(slot)) else { return };
        let frame = &self.batch.free()[ADDRESS_BYTES..ADDRESS_BYTES + bytes];
        if let Err(refusal) = client.holder.check(frame, self.bytes_max) {
            client.refused += 1;
            self.untold = true;
            shared.refused(refusal, client.refused == 1, || client.name());
            return;
        }
        if to != self.own {
            self.batch.take(to, bytes);
            if to != LinkAddress::EVERYONE {
                return;
            }
        }
        let frame = if to == self.own {
            &self.batch.free()[ADDRESS_BYTES..ADDRESS_BYTES + bytes]
        } else {
            self.batch.last()
        };
        if let Some(from) = address_bytes(&self.own) {
            let mut handing = Handing { clients, tags, touched, broken, shared };
            handing.hand(frame, &from, Some(slot));
        }
    }

    /// Sends what is in the batch. False: the wire is full now.
    fn flush(&mut self) -> bool {
        self.untold = true;
        let before = self.batch.sent();
        let done = self.batch.send(&mut *self.wire);
        let sent = self.batch.sent() - before;
        self.shared.count(|counts| &counts.sent, sent as u64);
        if done {
            self.batch.clear();
        }
        done
    }

    #[cold]
    fn wake_touched(&mut self) {
        for slot in self.touched.drain(..) {
            if let Some(Some(client)) = self.clients.get_mut(usize::from(slot)) {
                client.touched = false;
                client.channel.wake();
            }
        }
    }

    #[cold]
    fn end_broken(&mut self) {
        for (slot, why) in std::mem::take(&mut self.broken) {
            let Some(Some(client)) = self.clients.get(usize::from(slot)) else { continue };
            self.shared.ended(client.number, format!("{}: {why}", client.name()));
            self.forget(slot);
        }
    }

    /// A client's ring has been empty for long: it rings from now on. One that has just written something stays.
    fn rest(&mut self, slot: Slot) -> bool {
        let Some(Some(client)) = self.clients.get_mut(usize::from(slot)) else { return true };
        if client.ends_at.is_some() {
            return false;
        }
        if client.channel.arm() {
            client.channel.disarm();
            client.was_busy();
            return false;
        }
        client.place = Place::Quiet;
        self.rounds.leave(slot);
        true
    }

    /// A client may have something: it is looked at from now on.
    fn rouse(&mut self, slot: Slot) {
        let Some(Some(client)) = self.clients.get_mut(usize::from(slot)) else { return };
        if matches!(client.place, Place::Joining | Place::Quiet) {
            client.channel.disarm();
            client.was_busy();
            client.place = Place::Active;
            self.rounds.enter(slot);
        }
    }

    /// Sleeps until somebody rings, the wire has something, or the time for something else has come. False: the lane is to end.
    #[cold]
    fn sleep(&mut self) -> bool {
        let mut slots: Vec<Slot> = self.rounds.slots().collect();
        // All are asked, though one may have something: who has not is out of the way.
        let mut all_rest = true;
        for slot in slots.drain(..) {
            all_rest &= self.rest(slot);
        }
        let due = self.wire.next_due();
        if !all_rest || self.batch.is_pending() || due.is_some_and(|due| due.is_zero()) {
            return self.attend(Some(Duration::ZERO));
        }
        let now = Instant::now();
        let told = self.untold.then_some(TELL_EVERY);
        let limited = self.limited.iter().map(|(until, _)| *until).min();
        let limited = limited.map(|until| until.saturating_duration_since(now));
        let linger = self.numbers.is_empty().then_some(LINGER);
        self.attend([due, told, limited, linger].into_iter().flatten().min())
    }

    /// Hears what has come by the bells and from the door, waiting for it so long at most; and does what is due. False: the lane is to end.
    #[cold]
    fn attend(&mut self, timeout: Option<Duration>) -> bool {
        let mut events = [EpollEvent::empty(); EVENTS];
        let timeout = timeout.map_or(EpollTimeout::NONE, |time| {
            // Rounded up: a sleep that ends too early is a turn for nothing.
            let millis = time.as_micros().div_ceil(1000).min(60_000);
            EpollTimeout::from(millis as u16)
        });
        let count = self.epoll.wait(&mut events, timeout).unwrap_or(0);
        for event in &events[..count] {
            match event.data() {
                WIRE => {}
                COMMANDS => {
                    self.shared.answer_wakeup();
                    while let Ok(command) = self.commands.try_recv() {
                        self.obey(command);
                    }
                }
                slot => self.listen(slot as Slot),
            }
        }
        let now = Instant::now();
        if !self.limited.is_empty() {
            self.free_limited(now);
        }
        if self.untold && now.saturating_duration_since(self.told_at) >= TELL_EVERY
            || self.wire.next_due().is_some_and(|due| due.is_zero())
        {
            self.tell(now);
        }
        if !self.broken.is_empty() {
            self.end_broken();
        }
        !(self.numbers.is_empty() && now.saturating_duration_since(self.empty_since) >= LINGER)
    }

    /// A client has rung, or is gone.
    fn listen(&mut self, slot: Slot) {
        let Some(Some(client)) = self.clients.get_mut(usize::from(slot)) else { return };
        match client.channel.listen() {
            Ok(Heard::Bell) if client.place == Place::Joining => {
                self.said.system_errors = self.wire.statistics().system_errors;
                client.errors_before = self.said.system_errors;
                match client.keep() {
                    Ok(()) => self.welcome(slot),
                    Err(error) => {
                        let line = format!("{}: sealing its memory: {error}", client.name());
                        self.shared.ended(client.number, line);
                        self.forget(slot);
                    }
                }
            }
            Ok(Heard::Bell) => self.rouse(slot),
            Ok(Heard::Nothing) => {}
            Ok(Heard::Gone) => self.part(slot),
            Err(broken) => self.broken.push((slot, broken)),
        }
    }

    fn unlimit(&mut self, at: usize) {
        self.limited.remove(at);
        self.unserved -= usize::from(at < self.unserved);
    }

    fn free_limited(&mut self, now: Instant) {
        let mut at = 0;
        while let Some((until, slot)) = self.limited.get(at).copied() {
            if until > now {
                at += 1;
                continue;
            }
            self.unlimit(at);
            if let Some(Some(client)) = self.clients.get_mut(usize::from(slot)) {
                client.place = Place::Active;
                self.rounds.enter(slot);
            }
        }
    }

    /// Looks what has become of what was sent, and tells the clients.
    #[cold]
    fn tell(&mut self, now: Instant) {
        self.told_at = now;
        let late = now.saturating_duration_since(self.looked_at) >= CONDITION_EVERY;
        if late || self.wire.next_due().is_some_and(|due| due.is_zero()) {
            self.look_at_wire(now);
        }
        self.said.system_errors = self.wire.statistics().system_errors;
        let mut all_told = true;
        for client in self.clients.iter_mut().flatten() {
            all_told &= client.tell(&self.said);
            client.channel.wake();
        }
        // Who has no room is told when it has.
        self.untold = !all_told;
    }

    fn look_at_wire(&mut self, now: Instant) {
        self.looked_at = now;
        let Some(condition) = self.wire.condition() else { return };
        self.said.mtu = condition.mtu as u32;
        self.said.trouble = Trouble::of(condition.trouble);
        self.bytes_max = condition.frame_bytes_max.min(emp_link::service::channel::FRAME_BYTES_MAX);
        self.own = self.wire.capabilities().address;
        self.said.mac = self.own.as_mac().unwrap_or(self.said.mac);
        if let Some(line) = self.wire.notice() {
            self.shared.note(line);
        }
    }
}

/// Puts the calling thread on a core. `Err`: a line.
pub(super) fn pin(core: usize) -> Result<(), String> {
    let mut cores = nix::sched::CpuSet::new();
    cores
        .set(core)
        .and_then(|()| nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &cores))
        .map_err(|error| format!("putting the switch on core {core}: {error}"))
}
