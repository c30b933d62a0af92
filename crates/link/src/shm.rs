//! Frames between processes of one user on one machine, through rings in shared memory: no system call per frame, no
//! privilege. Peers find each other in a directory that only this user can enter.
//!
//! A node has one socket there, by which it wakes others and is woken, for any number of peers. One that wants to send to another sends it the
//! rings (a sealed memfd): one ring each way, for this pair alone. So nobody but the peer can spoil a ring, and a peer that does is dropped.

mod connection;
mod heads;
mod memory;
mod open;
pub(crate) mod place;
mod socket;

pub use memory::{PeerMemory, PeerMemoryError};
pub use open::ShmOptions;

use std::cell::Cell;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use emp_rings::RING_FRAME_BYTES_MAX;
use emp_wire::{AddressFamily, LONG_FRAME_BYTES, LinkAddress};

use crate::system::{self, Polled};
use crate::{Capabilities, Link, LinkError, LinkStatistics, TxFrame, is_for};
use connection::{Connection, MESSAGE_BYTES, Message, Pushed};
use heads::SAVED_BYTES;
use memory::Introduction;
use place::{Name, Place};
use socket::{Received, Whereto};

/// Longest frame taken, in bytes: longer than those that are made for it, because a message that began on a link with long
/// frames (`LONG-1`) may go on here, where nothing is cut.
const TAKEN_BYTES_MAX: usize = LONG_FRAME_BYTES;
const _: () = assert!(TAKEN_BYTES_MAX >= RING_FRAME_BYTES_MAX);
/// Most parts of one frame: like the other links.
const PARTS_MAX: usize = 16;
/// Most frames in one send: twice what a ring holds of the longest.
const BATCH_MAX: usize = 64;
/// Most peers: each takes up to 1 MiB.
const CONNECTIONS_MAX: usize = 512;
/// Messages taken off the socket in one look: more than most systems let wait there.
const MESSAGES: usize = 64;
/// How often peers are asked after that said nothing when they ended, a few each time: soon while there is traffic, ever more seldom without, as
/// all that is to gain is a megabyte. Asking takes three system calls.
const CHECK_EVERY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
const CHECKS: usize = 4;
/// How soon a peer whose socket had no room is told again what it is to be told.
const TELL_AGAIN: Duration = Duration::from_millis(1);
/// Looks at the rings between two looks for new and lost peers, which cost a system call: a tenth of a millisecond for
/// one who looks at other links too, and a nanosecond a look.
const CALLS_PER_SERVICE: u32 = 256;
/// Likewise for so many looks after a new peer has come: it introduces itself within microseconds, and its first long
/// message should not have to go through the rings.
const CALLS_PER_EARLY_SERVICE: u32 = 16;
const EARLY_SERVICES: u32 = 64;
/// A link through shared memory.
pub struct ShmLink {
    capabilities: Capabilities,
    place: Place,
    name: Name,
    /// The process that opened it, whose name in the place it is.
    process: u32,
    node_tag: u16,
    /// Where all messages come, and what they are sent by.
    socket: OwnedFd,
    /// Where that is.
    own: Whereto,
    /// Reads peers' memory, and lets them read this process's.
    memory: Arc<PeerMemory>,
    connections: Vec<Connection>,
    /// The connection to look at first, so that none is always last.
    first: usize,
    calls: u32,
    /// Looks that are still made early.
    early: u32,
    /// Peers were told to wake this end.
    armed: Cell<bool>,
    /// When peers are asked after next, at which pause, and which is the first.
    check_at: Instant,
    check_every: Duration,
    check_first: usize,
    /// Frames came or went since.
    busy: bool,
    /// Where frames are copied to before anyone looks at them.
    buffer: Box<[u8]>,
    counts: LinkStatistics,
}

impl ShmLink {
    /// Opens the link.
    pub fn open(options: &ShmOptions) -> Result<Self, LinkError> {
        let opened = open::open(options)?;
        let path = opened.place.socket_of(opened.name);
        // Shorter than the draft that it was bound to.
        let own = Whereto::of(&path).map_err(|source| LinkError {
            link: format!("shm in {}", opened.place.path().display()),
            problem: format!("naming the socket: {source}"),
            advice: "set XDG_RUNTIME_DIR to a directory with a shorter name".into(),
            source: Some(source),
            privilege: false,
        });
        let own = own.inspect_err(|_| drop(fs::remove_file(&path)))?;
        let capabilities = Capabilities {
            kind: "shm",
            interface: opened.place.path().display().to_string(),
            frame_bytes_max: RING_FRAME_BYTES_MAX,
            long_frame_bytes: TAKEN_BYTES_MAX,
            long_frames_held: 0,
            parts_max: PARTS_MAX,
            batch_max: BATCH_MAX,
            segmentation: false,
            sums: false,
            past_ip: false,
            broadcast: options.broadcast,
            privileged: false,
            address: LinkAddress::shm(opened.name.number),
        };
        Ok(Self {
            capabilities,
            place: opened.place,
            name: opened.name,
            process: std::process::id(),
            node_tag: options.node_tag,
            socket: opened.socket,
            own,
            memory: Arc::new(PeerMemory::new(opened.token)),
            connections: Vec::new(),
            first: 0,
            calls: 0,
            early: 0,
            armed: Cell::new(false),
            check_at: Instant::now(),
            check_every: CHECK_EVERY.0,
            check_first: 0,
            busy: false,
            buffer: vec![0; SAVED_BYTES + TAKEN_BYTES_MAX].into(),
            counts: LinkStatistics::default(),
        })
    }

    /// Peers that rings are shared with now.
    pub fn peers(&self) -> usize {
        self.connections.len()
    }

    /// The connection to a node, made if there is none.
    #[inline]
    fn connection(&mut self, number: u64) -> io::Result<usize> {
        // The newest: an older one may be with a node that had the number before.
        let known = self.connections.iter().rposition(|one| one.number == number && one.is_open());
        match known {
            Some(place) => Ok(place),
            None => self.connect(number),
        }
    }

    #[cold]
    fn connect(&mut self, number: u64) -> io::Result<usize> {
        if number == self.name.number {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if self.connections.len() >= CONNECTIONS_MAX {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let path = self.place.find(number, self.name).ok_or(io::ErrorKind::NotFound)?;
        let mut connection = Connection::offer(number, Whereto::of(&path)?)?;
        connection.tell(self.socket.as_fd(), self.name.number, self.memory.introduction());
        if !connection.is_open() {
            // Its owner died without removing it: a socket gets this name only once it takes messages.
            open::remove_dead(&path);
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        self.add(connection);
        Ok(self.connections.len() - 1)
    }

    fn add(&mut self, connection: Connection) {
        self.early = EARLY_SERVICES;
        self.busy = true;
        self.connections.push(connection);
    }

    /// Writes a frame for the connection at `place`. False: no room now.
    #[inline]
    fn push(&mut self, place: usize, frame: &TxFrame<'_>, bytes: usize) -> bool {
        match self.connections[place].push(frame, bytes) {
            Ok(Pushed::Yes) => {
                self.counts.frames_sent += 1;
                self.counts.bytes_sent += bytes as u64;
            }
            // The frame has left as far as this end is concerned: the peer counts it as lost.
            Ok(Pushed::Lost) => self.counts.frames_sent += 1,
            Ok(Pushed::Full) => {
                self.counts.send_full += 1;
                return false;
            }
            Err(emp_rings::Corrupt) => {
                self.counts.system_errors += 1;
                self.connections[place].over = true;
            }
        }
        true
    }

    /// Sends a frame to every node in the directory. Copies that find no room are lost: frames to everyone only look for
    /// nodes, and are repeated.
    fn send_to_everyone(&mut self, frame: &TxFrame<'_>, bytes: usize) {
        // Who is looked for may have started again, under the name of the one that rings are shared with.
        self.connections.iter_mut().for_each(Connection::glance);
        for number in self.place.numbers(self.name) {
            if number != self.name.number
                && let Ok(place) = self.connection(number)
            {
                self.push(place, frame, bytes);
            }
        }
    }

    /// Sends one frame. False: no room now.
    #[inline]
    fn send_one(&mut self, frame: &TxFrame<'_>) -> bool {
        let bytes = frame.len();
        let fits = (1..=TAKEN_BYTES_MAX).contains(&bytes) && frame.parts.len() <= PARTS_MAX;
        match frame.to.as_shm() {
            Some(number) if fits => match self.connection(number) {
                Ok(place) => return self.push(place, frame, bytes),
                // Nobody there: lost, as on a cable without an other end.
                Err(_) => self.counts.system_errors += 1,
            },
            None if fits && frame.to.family() == AddressFamily::Everyone => {
                self.send_to_everyone(frame, bytes);
            }
            _ => self.counts.send_refused += 1,
        }
        true
    }

    /// True if some ring has a frame.
    fn holds_frames(&self) -> bool {
        self.connections.iter().any(|one| one.rings.consumer.ready())
    }

    /// Tells all peers to wake this end from now on. True: a frame is there already.
    fn arm(&self) -> bool {
        self.armed.set(true);
        let mut ready = false;
        for one in &self.connections {
            ready |= one.rings.consumer.arm();
        }
        ready
    }

    /// Tells them that it is awake, and takes their bells.
    #[cold]
    fn disarm(&mut self) {
        self.armed.set(false);
        for one in &self.connections {
            one.rings.consumer.disarm();
        }
        self.service();
    }

    /// Looks for what has been said to this node, says what it owes, and asks after peers.
    #[cold]
    fn service(&mut self) {
        self.counts.receive_calls += 1;
        for _ in 0..MESSAGES {
            let mut words = [0; MESSAGE_BYTES];
            match socket::receive(self.socket.as_fd(), &mut words) {
                Ok(received) => {
                    let message = Message::parse(&words[..received.bytes.min(MESSAGE_BYTES)]);
                    self.heed(message, received);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let (own, told) = (self.name.number, self.memory.introduction());
        for one in &mut self.connections {
            one.tell(self.socket.as_fd(), own, told);
        }
        self.check(Instant::now());
    }

    fn heed(&mut self, message: Option<Message>, received: Received) {
        let by_own_user = received.sender.is_some_and(|(user, _)| user == socket::own_user());
        let process = received.sender.map_or(0, |(_, process)| process);
        match message.filter(|_| by_own_user) {
            Some(Message::Bell) => {}
            Some(Message::Rings(number, told)) => {
                if self.accept(number, (process, told), received.descriptor).is_err() {
                    self.counts.system_errors += 1;
                }
            }
            Some(Message::Introduction(number, told, reads)) => {
                self.meet(number, process, told);
                if reads && self.connections.iter().any(|one| one.number == number) {
                    self.memory.is_read_by(number);
                }
            }
            Some(Message::Look(number)) => {
                self.connections_of(number).for_each(Connection::look);
            }
            Some(Message::Refused(number)) => {
                // Whoever has answered has taken them.
                self.connections_of(number)
                    .filter(|one| !one.heard)
                    .for_each(|one| one.over = true);
            }
            None => self.counts.system_errors += 1,
        }
    }

    fn connections_of(&mut self, number: u64) -> impl Iterator<Item = &mut Connection> {
        self.connections.iter_mut().filter(move |one| one.number == number)
    }

    /// Takes the rings of a node that this process may meet.
    fn accept(
        &mut self,
        number: u64,
        (process, told): (libc::pid_t, Introduction),
        memory: Option<OwnedFd>,
    ) -> io::Result<()> {
        let refused = || io::Error::from(io::ErrorKind::PermissionDenied);
        // A descriptor can be passed on, so the name alone is not believed.
        if self.name.keeps_to_it && !open::is_in_network(process, self.name.network)? {
            return Err(refused());
        }
        let path = self.place.find(number, self.name).ok_or_else(refused)?;
        let to = Whereto::of(&path)?;
        let taken = match memory {
            Some(memory) if self.connections.len() < CONNECTIONS_MAX => {
                Connection::take(number, to, memory.as_fd())
            }
            _ => Err(refused()),
        };
        let connection = taken.inspect_err(|_| {
            connection::refuse(self.socket.as_fd(), &to, self.name.number);
        })?;
        // A node that has started again takes the place of the one before.
        self.connections_of(number).for_each(Connection::look);
        self.add(connection);
        self.meet(number, process, told);
        Ok(())
    }

    /// A peer has said where its cell is.
    fn meet(&mut self, number: u64, process: libc::pid_t, told: Introduction) {
        let memory = Arc::clone(&self.memory);
        let Some(one) = self.connections_of(number).filter(|one| one.is_open()).last() else {
            return;
        };
        if one.meet(process, told, &memory) {
            match one.readable {
                Some(true) => self.counts.memory_readable += 1,
                _ => self.counts.memory_refused += 1,
            }
        }
    }

    /// Asks after a few peers, if it is time to.
    fn check(&mut self, now: Instant) {
        if std::mem::take(&mut self.busy) {
            self.check_every = CHECK_EVERY.0;
            self.check_at = self.check_at.min(now + self.check_every);
        }
        if now < self.check_at {
            return;
        }
        self.check_at = now + self.check_every;
        self.check_every = (2 * self.check_every).min(CHECK_EVERY.1);
        let count = self.connections.len();
        for _ in 0..count.min(CHECKS) {
            self.check_first = (self.check_first + 1) % count;
            self.connections[self.check_first].look();
        }
    }

    /// How long from now until there is something to say, or peers are asked after.
    fn service_due(&self) -> Option<Duration> {
        if self.connections.iter().any(|one| one.owes() && one.is_open()) {
            return Some(TELL_AGAIN);
        }
        let check = self.check_at.saturating_duration_since(Instant::now());
        (!self.connections.is_empty()).then_some(check)
    }

    /// Forgets peers that are over, and frees what was shared with them.
    #[cold]
    fn bury(&mut self) {
        let counts = &mut self.counts;
        let mut gone = Vec::new();
        self.connections.retain(|one| {
            if one.over {
                gone.push(one.number);
                counts.receive_lost = counts.receive_lost.saturating_add(one.rings.consumer.lost());
            }
            !one.over
        });
        for number in gone {
            // There may be a second connection, where both ends have made one.
            if self.connections.iter().all(|one| one.number != number) {
                self.memory.forget(number);
            }
        }
        self.first = 0;
    }

    /// Hands up what one peer has sent, at most `budget` frames. Frames for others are dropped, and bounded likewise.
    #[inline]
    fn hand_up(
        &mut self,
        place: usize,
        budget: usize,
        sink: &mut dyn FnMut(&[u8], &LinkAddress),
    ) -> usize {
        let one = &mut self.connections[place];
        let mut handed = 0;
        for _ in 0..budget {
            match one.pop(&mut self.buffer) {
                Ok(None) => break,
                Ok(Some(place)) => {
                    let frame = &self.buffer[place];
                    if is_for(frame, self.node_tag) {
                        self.counts.frames_received += 1;
                        self.counts.bytes_received += frame.len() as u64;
                        handed += 1;
                        sink(frame, &LinkAddress::shm(one.number));
                    } else {
                        self.counts.not_for_us += 1;
                    }
                }
                Err(emp_rings::Corrupt) => {
                    self.counts.system_errors += 1;
                    one.over = true;
                    break;
                }
            }
            if one.over {
                break;
            }
        }
        if handed > 0 {
            self.busy = true;
            if !std::mem::replace(&mut one.heard, true) {
                // Its introduction is here, too.
                self.early = EARLY_SERVICES;
            }
        }
        handed
    }
}

impl Link for ShmLink {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        self.counts.send_calls += 1;
        let taken = batch.iter().take_while(|frame| self.send_one(frame)).count();
        let mut over = false;
        for one in &mut self.connections {
            one.wake(self.socket.as_fd());
            over |= one.over;
        }
        self.busy = true;
        if over {
            self.bury();
        }
        taken
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        if budget == 0 {
            return 0;
        }
        self.calls = self.calls.wrapping_add(1);
        if self.armed.get() {
            self.disarm();
        } else if self.calls.is_multiple_of(CALLS_PER_SERVICE) {
            self.service();
        } else if self.early > 0 && self.calls.is_multiple_of(CALLS_PER_EARLY_SERVICE) {
            self.early -= 1;
            self.service();
        }
        let count = self.connections.len();
        let (mut handed, mut over) = (0, false);
        let mut place = self.first;
        for _ in 0..count {
            // A comparison: who spins should not divide.
            if place >= count {
                place = 0;
            }
            handed += self.hand_up(place, budget - handed, sink);
            over |= self.connections[place].over;
            place += 1;
            if handed == budget {
                self.first = place;
                break;
            }
        }
        if over {
            self.bury();
        }
        handed
    }

    /// Also tells the peers to wake this end.
    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        if self.arm() {
            // No room for it: there are others to be read.
            let _ = connection::ring(self.socket.as_fd(), &self.own);
        }
        Some(self.socket.as_fd())
    }

    /// The kernel has closed the socket where it took messages.
    fn has_ended(&self, address: &LinkAddress) -> bool {
        let Some(number) = address.as_shm() else { return false };
        let Some(path) = self.place.find(number, self.name) else { return true };
        let answer = Whereto::of(&path).and_then(|to| to.answers());
        answer.is_err_and(|error| {
            matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
        })
    }

    fn peer_memory(&self) -> Option<Arc<PeerMemory>> {
        Some(Arc::clone(&self.memory))
    }

    fn wait(&mut self, timeout: Option<Duration>) -> bool {
        // A time too long for the clock is no limit.
        let deadline = timeout.and_then(|time| Instant::now().checked_add(time));
        loop {
            if self.arm() {
                return true;
            }
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            let limit = [left, self.service_due()].into_iter().flatten().min();
            let polled = system::poll(self.socket.as_fd(), limit);
            if polled != Polled::Nothing || limit != left {
                self.disarm();
                if self.holds_frames() {
                    return true;
                }
            }
            if deadline.is_some_and(|end| Instant::now() >= end) {
                return false;
            }
        }
    }

    /// Zero if a frame is there. Also tells the peers to wake this end.
    fn next_due(&self) -> Option<Duration> {
        if self.arm() { Some(Duration::ZERO) } else { self.service_due() }
    }

    fn statistics(&self) -> LinkStatistics {
        let mut counts = self.counts;
        for one in &self.connections {
            counts.receive_lost = counts.receive_lost.saturating_add(one.rings.consumer.lost());
        }
        counts
    }
}

impl Drop for ShmLink {
    fn drop(&mut self) {
        // A child that was forked from it has a copy of this value, and its parent goes on.
        if self.process == std::process::id() {
            let _ = fs::remove_file(self.place.socket_of(self.name));
            for one in &self.connections {
                one.say_goodbye(self.socket.as_fd(), self.name.number);
            }
        }
    }
}

#[cfg(test)]
mod tests;
