//! A link of rings whose frames the service sends and receives for this process: raw Ethernet frames without a privilege of its own.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use emp_wire::{ETHERTYPE_DEFAULT, LinkAddress, NodeId};

use super::attachment::{Asking, Problem, Seat};
use super::channel::{
    ADDRESS_BYTES, Channel, FRAME_BYTES_MAX, Heard, RECORD_BYTES_MAX, Record, Said, address_bytes,
};
use super::protocol::Attach;
use super::socket_path;
use crate::NamedInterface;
use crate::condition::{Condition, NO_SERVICE};
use crate::namespace::Namespace;
use crate::system::{self, Polled};
use crate::{Capabilities, Link, LinkError, LinkStatistics, TxFrame, is_for};

/// Most parts of one frame, and most frames in one send: like the raw links.
const PARTS_MAX: usize = 16;
const BATCH_MAX: usize = 64;

/// How long a service may take to answer who opens a link: setting up its packet socket for the first client takes tens of milliseconds, and
/// seconds while a hundred processes start on two cores.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// How long a full ring may stand still before frames for it are lost, as on a broken cable: a service that shares its core with busy
/// programs comes back within some ten milliseconds, and a node must not wait for one that is stopped.
const STALL: Duration = Duration::from_millis(100);

/// Empty looks between two looks whether the service is still there, each a system call of 0.2 µs.
const LOOKS_PER_CHECK: u32 = 1024;

/// Pauses between tries to find a service after one has ended: at first as short as a restart takes, then such that looking costs nothing.
const SEEK_EVERY: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

/// How often the link looks whether its interface was renamed: until then nothing but its name is wrong.
const NAME_EVERY: Duration = Duration::from_millis(500);

/// How to open a [`ServiceLink`].
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// Where the service listens.
    pub socket: PathBuf,
    /// Network interface, such as `eth0`.
    pub interface: String,
    /// EtherType of EMP frames.
    pub ethertype: u16,
    /// The node whose frames these are: the service lets no others out, and hands up its alone.
    pub node: NodeId,
    /// A number that this node drew; one that attaches again takes its own place.
    pub token: u64,
}

impl ServiceOptions {
    /// The usual options for an interface.
    pub fn new(interface: impl Into<String>, node: NodeId) -> Self {
        Self {
            socket: socket_path(),
            interface: interface.into(),
            ethertype: ETHERTYPE_DEFAULT,
            node,
            token: node.0,
        }
    }
}

/// Where the link stands with its service.
enum State {
    Attached(Seat),
    /// The service has ended: when to look for one again, and how long to wait after that.
    Seeking {
        at: Instant,
        pause: Duration,
    },
    /// One was found and asked.
    Asking {
        asked: Asking,
        until: Instant,
        pause: Duration,
    },
}

/// A link through the service.
pub struct ServiceLink {
    options: ServiceOptions,
    capabilities: Capabilities,
    state: State,
    tag: u16,
    /// Readable when the service rings.
    ready: OwnedFd,
    /// The service was told to ring.
    armed: Cell<bool>,
    buffer: Box<[u8]>,
    /// A frame that was read while this end slept, and where from.
    held: Option<(LinkAddress, Range<usize>)>,
    looks: u32,
    /// When the ring was found full, and how far the service had read.
    full: Option<(Instant, u64)>,
    /// What the service said last, and what it is to be counted from.
    said: Said,
    /// It has said something since this link came.
    heard: bool,
    counts: LinkStatistics,
    notice: Option<String>,
    /// The interface, when it was looked whether it was renamed, and where its number means something.
    named: (NamedInterface, Instant, Option<Namespace>),
}

impl ServiceLink {
    /// Opens the link.
    ///
    /// # Errors
    ///
    /// If no service listens there, or it refuses; the text says which, and what to do.
    pub fn open(options: &ServiceOptions) -> Result<Self, LinkError> {
        let name = format!("empd on {}", options.interface);
        let seat = ask(options).map_err(|problem| refused(&name, options, problem))?;
        let ready = system::any_of([seat.channel.bell()]).map_err(|error| LinkError {
            link: name,
            problem: format!("watching the bell: {error}"),
            advice: "too many open files: raise `ulimit -n`".into(),
            source: Some(error),
            privilege: false,
        })?;
        let capabilities = Capabilities {
            kind: "empd",
            interface: options.interface.clone(),
            frame_bytes_max: FRAME_BYTES_MAX.min(seat.carrier.mtu as usize),
            long_frame_bytes: 0,
            long_frames_held: 0,
            parts_max: PARTS_MAX,
            batch_max: BATCH_MAX,
            segmentation: false,
            sums: false,
            past_ip: false,
            broadcast: true,
            privileged: false,
            address: LinkAddress::mac(seat.carrier.mac),
        };
        let said = Said { mtu: seat.carrier.mtu, mac: seat.carrier.mac, ..Said::default() };
        Ok(Self {
            options: options.clone(),
            capabilities,
            state: State::Attached(seat),
            tag: options.node.destination_tag(),
            ready,
            armed: Cell::new(false),
            buffer: vec![0; RECORD_BYTES_MAX].into(),
            held: None,
            looks: 0,
            full: None,
            said,
            heard: true,
            counts: LinkStatistics::default(),
            notice: None,
            named: (NamedInterface::new(&options.interface), Instant::now(), Namespace::current()),
        })
    }

    /// Whether a service carries its frames now.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        matches!(self.state, State::Attached(_))
    }

    /// Whether the service that carries its frames hands up those that come: from the first that it says on.
    #[must_use]
    pub const fn has_heard(&self) -> bool {
        self.heard
    }

    #[inline]
    fn channel(&mut self) -> Option<&mut Channel> {
        match &mut self.state {
            State::Attached(seat) => Some(&mut seat.channel),
            _ => None,
        }
    }

    /// Sends one frame. False: there is no room now.
    #[inline]
    fn send_one(&mut self, frame: &TxFrame<'_>) -> bool {
        let bytes = frame.len();
        let fits = (1..=self.capabilities.frame_bytes_max).contains(&bytes)
            && frame.parts.len() <= PARTS_MAX;
        let Some(address) = address_bytes(&frame.to).filter(|_| fits) else {
            self.counts.send_refused += 1;
            return true;
        };
        let State::Attached(seat) = &mut self.state else {
            self.counts.system_errors += 1;
            return true;
        };
        match seat.channel.push(&address, bytes, frame.parts.iter().map(|part| &**part)) {
            Ok(true) => {
                self.counts.frames_sent += 1;
                self.counts.bytes_sent += bytes as u64;
                true
            }
            Ok(false) => !self.is_full(),
            Err(broken) => {
                self.lose(&broken.to_string());
                true
            }
        }
    }

    /// The ring has no room. False: the service takes nothing from it, and the frame is lost.
    #[cold]
    fn is_full(&mut self) -> bool {
        self.counts.send_full += 1;
        let read = self.channel().and_then(|channel| channel.look().ok());
        match (self.full, read) {
            (Some((since, then)), Some(read)) if then == read => {
                let stands_still = since.elapsed() >= STALL;
                self.counts.system_errors += u64::from(stands_still);
                !stands_still
            }
            (_, Some(read)) => {
                self.full = Some((Instant::now(), read));
                true
            }
            (_, None) => {
                self.lose("it wrote what cannot be into a ring");
                false
            }
        }
    }

    /// The next frame: where it came from, and where in the buffer it is.
    #[inline]
    fn next(&mut self) -> Option<(LinkAddress, Range<usize>)> {
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        loop {
            let State::Attached(seat) = &mut self.state else { return None };
            match seat.channel.pop(&mut self.buffer) {
                Ok(Some(Record::Frame(from, bytes))) => {
                    return Some((from, ADDRESS_BYTES..ADDRESS_BYTES + bytes));
                }
                Ok(Some(Record::Said(said))) => {
                    self.heard = true;
                    self.heed(said);
                }
                Ok(None) => return None,
                Err(broken) => {
                    self.lose(&broken.to_string());
                    return None;
                }
            }
        }
    }

    #[cold]
    fn heed(&mut self, said: Said) {
        let before = std::mem::replace(&mut self.said, said);
        self.counts.send_refused += said.refused.saturating_sub(before.refused);
        self.counts.system_errors += said.system_errors.saturating_sub(before.system_errors);
        if said.mac != before.mac {
            self.capabilities.address = LinkAddress::mac(said.mac);
            self.note(format!("its address is {} now; peers are told", self.capabilities.address));
        }
    }

    /// The service's socket stays on an interface that is renamed, so this link is that one's; and by that name a service is asked for it again.
    fn follow_name(&mut self) {
        let (interface, looked, home) = &mut self.named;
        if looked.elapsed() < NAME_EVERY || !Namespace::is_here(*home) {
            return;
        }
        *looked = Instant::now();
        if interface.follow() {
            let now = interface.name().to_owned();
            self.note(format!("its interface is {now} now"));
            self.options.interface.clone_from(&now);
            self.capabilities.interface = now;
        }
    }

    fn note(&mut self, line: String) {
        let line = format!("empd on {}: {line}", self.options.interface);
        self.notice = Some(match self.notice.take() {
            Some(first) => format!("{first}; {line}"),
            None => line,
        });
    }

    /// The service has ended, or broke the rings' rules.
    #[cold]
    fn lose(&mut self, why: &str) {
        self.counts.system_errors += 1;
        if let State::Attached(seat) = &self.state {
            self.counts.receive_lost += seat.channel.lost();
        }
        self.note(format!("{why}; looking for a service again"));
        self.state = State::Seeking { at: Instant::now(), pause: SEEK_EVERY.0 };
        self.full = None;
        self.armed.set(false);
    }

    /// Looks whether the service is there, and for a new one if it is not. A few system calls.
    #[cold]
    fn look_after(&mut self, now: Instant) {
        self.looks = 0;
        match &mut self.state {
            State::Attached(seat) => match seat.channel.listen() {
                Ok(Heard::Bell | Heard::Nothing) => {}
                Ok(Heard::Gone) => self.lose("the service has ended"),
                Err(broken) => self.lose(&broken.to_string()),
            },
            State::Seeking { at, .. } | State::Asking { until: at, .. } if now < *at => {
                self.go_on(now);
            }
            State::Seeking { pause, .. } => {
                let pause = *pause;
                let attach = attach_of(&self.options);
                match Asking::begin(&self.options.socket, &attach) {
                    Ok(asked) => {
                        let until = now + ANSWER_PATIENCE;
                        self.state = State::Asking { asked, until, pause };
                    }
                    Err(problem) => self.seek_later(now, pause, problem),
                }
            }
            State::Asking { pause, .. } => {
                let pause = *pause;
                self.seek_later(now, pause, Problem::Absent(io::ErrorKind::TimedOut.into()));
            }
        }
    }

    fn seek_later(&mut self, now: Instant, pause: Duration, problem: Problem) {
        let mut next = (2 * pause).min(SEEK_EVERY.1);
        if let Problem::Refused(why) = problem {
            // Said once: who refuses now will go on to.
            if pause < SEEK_EVERY.1 {
                self.note(why);
            }
            next = SEEK_EVERY.1;
        }
        self.state = State::Seeking { at: now + next, pause: next };
    }

    /// Takes a service's answer, if it is there.
    fn go_on(&mut self, now: Instant) {
        let seeking = State::Seeking { at: now, pause: SEEK_EVERY.1 };
        match std::mem::replace(&mut self.state, seeking) {
            State::Asking { asked, until, pause } => match asked.go_on() {
                Ok(Ok(seat)) => self.sit(seat),
                Ok(Err(asked)) => self.state = State::Asking { asked, until, pause },
                Err(problem) => self.seek_later(now, pause, problem),
            },
            other => self.state = other,
        }
    }

    fn sit(&mut self, seat: Seat) {
        if let Err(error) = system::add_to(self.ready.as_fd(), seat.channel.bell()) {
            self.note(format!("watching the bell: {error}"));
            return;
        }
        self.heed(Said { mtu: seat.carrier.mtu, mac: seat.carrier.mac, ..Said::default() });
        (self.state, self.heard) = (State::Attached(seat), false);
        self.note("attached to a service again".into());
    }

    /// Tells the service to ring from now on. True: something is there already.
    fn arm(&self) -> bool {
        match &self.state {
            State::Attached(seat) if self.held.is_none() => {
                self.armed.set(true);
                seat.channel.settle();
                seat.channel.arm()
            }
            _ => self.held.is_some(),
        }
    }

    /// Awake: takes the bell, and sees whether the service is still there.
    #[cold]
    fn disarm(&mut self) {
        self.armed.set(false);
        if let Some(channel) = self.channel() {
            channel.disarm();
        }
        self.look_after(Instant::now());
    }

    /// True if a frame is there. What the service says of itself is no frame.
    fn hold(&mut self) -> bool {
        self.held = self.next();
        self.held.is_some()
    }

    /// How long until a service is to be looked for again.
    fn seeks_in(&self) -> Option<Duration> {
        let left = |at: &Instant| at.saturating_duration_since(Instant::now());
        match &self.state {
            State::Attached(_) => None,
            State::Seeking { at, .. } => Some(left(at)),
            // The answer does not make the link's descriptor readable.
            State::Asking { .. } => Some(SEEK_EVERY.0),
        }
    }
}

impl Link for ServiceLink {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        self.counts.send_calls += 1;
        let taken = batch.iter().take_while(|frame| self.send_one(frame)).count();
        if let Some(channel) = self.channel() {
            channel.wake();
        }
        taken
    }

    fn send_lent(&mut self, frame: &TxFrame<'_>) -> bool {
        self.send(std::slice::from_ref(frame)) != 0
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        if self.armed.get() {
            self.disarm();
        }
        let mut handed = 0;
        while handed < budget {
            let Some((from, place)) = self.next() else { break };
            let frame = &self.buffer[place];
            if is_for(frame, self.tag) {
                self.counts.frames_received += 1;
                self.counts.bytes_received += frame.len() as u64;
                handed += 1;
                sink(frame, &from);
            } else {
                self.counts.not_for_us += 1;
            }
        }
        if handed == 0 {
            self.looks += 1;
            if self.looks >= LOOKS_PER_CHECK || !self.is_attached() {
                self.counts.receive_calls += 1;
                self.look_after(Instant::now());
            }
        }
        handed
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.arm();
        Some(self.ready.as_fd())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> bool {
        let end = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if self.held.is_some() || self.hold() {
                return true;
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if !self.arm() {
                let soonest = [left, self.seeks_in()].into_iter().flatten().min();
                let polled = system::poll_until(self.ready.as_fd(), soonest, |_| ());
                if polled != Polled::Readable && left.is_some_and(|left| left.is_zero()) {
                    self.disarm();
                    return self.hold();
                }
            }
            self.disarm();
        }
    }

    fn next_due(&self) -> Option<Duration> {
        if self.arm() { Some(Duration::ZERO) } else { self.seeks_in() }
    }

    fn statistics(&self) -> LinkStatistics {
        let mut counts = self.counts;
        if let State::Attached(seat) = &self.state {
            counts.receive_lost += seat.channel.lost();
        }
        counts
    }

    /// As the service has said. Seldom a system call.
    fn condition(&mut self) -> Option<Condition<'_>> {
        self.follow_name();
        let mtu = self.said.mtu as usize;
        let trouble = match self.state {
            State::Attached(_) => self.said.trouble.text(),
            _ => Some(NO_SERVICE),
        };
        let frame_bytes_max = self.capabilities.frame_bytes_max.min(mtu);
        Some(Condition { interface: &self.options.interface, mtu, frame_bytes_max, trouble })
    }

    fn notice(&mut self) -> Option<String> {
        self.notice.take()
    }
}

fn attach_of(options: &ServiceOptions) -> Attach {
    Attach {
        interface: options.interface.clone(),
        ethertype: options.ethertype,
        node: options.node,
        token: options.token,
    }
}

/// Asks the service for a channel, and waits for its answer.
fn ask(options: &ServiceOptions) -> Result<Seat, Problem> {
    let since = Instant::now();
    let mut asked = Asking::begin(&options.socket, &attach_of(options))?;
    let left = || ANSWER_PATIENCE.saturating_sub(since.elapsed());
    let late = || Problem::Absent(io::ErrorKind::TimedOut.into());
    let mut seat = loop {
        asked = match asked.go_on()? {
            Ok(seat) => break seat,
            Err(asked) => asked,
        };
        if left().is_zero() {
            return Err(late());
        }
        system::poll(asked.connection(), Some(left()));
    };
    // Frames that come from now on are handed up.
    match seat.channel.await_said(left()) {
        Ok(Some(_)) => Ok(seat),
        Ok(None) => Err(late()),
        Err(broken) => Err(Problem::Refused(broken.to_string())),
    }
}

fn refused(link: &str, options: &ServiceOptions, problem: Problem) -> LinkError {
    let path = options.socket.display();
    let (problem, advice, source) = match problem {
        Problem::Absent(error) => (
            format!("no service at {path}: {error}"),
            "start `empd` there, or name its socket in EMP_SERVICE; the udp link needs none",
            Some(error),
        ),
        Problem::Refused(why) => (
            format!("the service at {path} does not give it: {why}"),
            "ask its administrator (docs/guide/empd.md), or use the udp link",
            None,
        ),
    };
    let privilege = source.as_ref().is_some_and(|e| e.kind() == io::ErrorKind::PermissionDenied);
    LinkError { link: link.into(), problem, advice: advice.into(), source, privilege }
}
