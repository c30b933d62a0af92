//! Frames between processes of one user on one machine, through rings in shared memory: no system call per frame, no
//! privilege. Peers find each other in a directory that only this user can enter.
//!
//! A node that wants to send to another connects to its socket there and sends it the rings (a sealed memfd): one ring each
//! way, for this pair alone. So nobody but the peer can spoil a ring, and a peer that does is dropped.

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
use connection::{Connection, Pushed};
use heads::SAVED_BYTES;
use place::Place;
use socket::Watch;

/// Longest frame taken, in bytes: longer than those that are made for it, because a message that began on a link with long
/// frames (`LONG-1`) may go on here, where nothing is cut.
const TAKEN_BYTES_MAX: usize = LONG_FRAME_BYTES;
const _: () = assert!(TAKEN_BYTES_MAX >= RING_FRAME_BYTES_MAX);
/// Most parts of one frame: like the other links.
const PARTS_MAX: usize = 16;
/// Most frames in one send: twice what a ring holds of the longest.
const BATCH_MAX: usize = 64;
/// Most peers: each takes a descriptor, of which processes have 1024 by default, and up to 1 MiB.
const CONNECTIONS_MAX: usize = 512;
/// Most connections whose first message has not come: it is sent at once, so more than a few are a mistake.
const PENDING_MAX: usize = 64;
/// Looks at the rings between two looks for new and lost peers, which cost a system call: a tenth of a millisecond for
/// one who looks at other links too, and a nanosecond a look.
const CALLS_PER_SERVICE: u32 = 256;
/// Likewise for so many looks after a new peer has come: it introduces itself within microseconds, and its first long
/// message should not have to go through the rings.
const CALLS_PER_EARLY_SERVICE: u32 = 16;
const EARLY_SERVICES: u32 = 64;
/// What the watch knows the listening socket, this link's own bell, and the first connection by.
const LISTENER: u64 = 0;
const SELF: u64 = 1;
const FIRST_CONNECTION: u64 = 2;

/// A link through shared memory.
pub struct ShmLink {
    capabilities: Capabilities,
    place: Place,
    number: u64,
    /// The process that opened it, whose name in the place it is.
    process: u32,
    node_tag: u16,
    same_network: bool,
    listener: OwnedFd,
    watch: Watch,
    own_bell: OwnedFd,
    /// Reads peers' memory, and lets them read this process's.
    memory: Arc<PeerMemory>,
    connections: Vec<Connection>,
    /// Accepted, but without rings yet.
    pending: Vec<(u64, OwnedFd)>,
    next_token: u64,
    /// The connection to look at first, so that none is always last.
    first: usize,
    calls: u32,
    /// Looks that are still made early.
    early: u32,
    /// Peers were told to wake this end.
    armed: Cell<bool>,
    /// Where frames are copied to before anyone looks at them.
    buffer: Box<[u8]>,
    counts: LinkStatistics,
}

impl ShmLink {
    /// Opens the link.
    pub fn open(options: &ShmOptions) -> Result<Self, LinkError> {
        let opened = open::open(options)?;
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
            address: LinkAddress::shm(opened.number),
        };
        Ok(Self {
            capabilities,
            place: opened.place,
            number: opened.number,
            process: std::process::id(),
            node_tag: options.node_tag,
            same_network: options.same_network,
            listener: opened.listener,
            watch: opened.watch,
            own_bell: opened.own_bell,
            memory: Arc::new(PeerMemory::new(opened.token)),
            connections: Vec::new(),
            pending: Vec::new(),
            next_token: FIRST_CONNECTION,
            first: 0,
            calls: 0,
            early: 0,
            armed: Cell::new(false),
            buffer: vec![0; SAVED_BYTES + TAKEN_BYTES_MAX].into(),
            counts: LinkStatistics::default(),
        })
    }

    /// Peers that rings are shared with now.
    pub fn peers(&self) -> usize {
        self.connections.len()
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token - 1
    }

    /// The connection to a node, made if there is none.
    #[inline]
    fn connection(&mut self, number: u64) -> io::Result<usize> {
        let known = self.connections.iter().position(|one| one.number == number && one.is_open());
        match known {
            Some(place) => Ok(place),
            None => self.connect(number),
        }
    }

    #[cold]
    fn connect(&mut self, number: u64) -> io::Result<usize> {
        if number == self.number {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if self.connections.len() >= CONNECTIONS_MAX {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let path = self.place.socket_of(number);
        let socket = socket::connect(&path).inspect_err(|error| {
            // Its owner died without removing it: a socket gets this name only once it listens.
            if error.kind() == io::ErrorKind::ConnectionRefused {
                let _ = fs::remove_file(&path);
            }
        })?;
        connection::is_welcome(socket.as_fd(), self.same_network)?;
        let token = self.token();
        let connection = Connection::offer(socket, self.number, number, token)?;
        self.add(connection)?;
        Ok(self.connections.len() - 1)
    }

    fn add(&mut self, connection: Connection) -> io::Result<()> {
        if let Some(descriptor) = connection.descriptor() {
            self.watch.add(descriptor, connection.token)?;
        }
        self.welcome(connection);
        Ok(())
    }

    fn welcome(&mut self, connection: Connection) {
        connection.introduce(self.memory.introduction());
        self.early = EARLY_SERVICES;
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
        for number in self.place.numbers() {
            if number != self.number
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

    /// Looks for what the sockets have: new peers, bells, lost peers.
    #[cold]
    fn service(&mut self) {
        let mut events = Vec::new();
        self.counts.receive_calls += 1;
        self.watch.look(|event| events.push(event));
        for event in events {
            match event.token {
                LISTENER => self.accept(),
                SELF => system::event_clear(self.own_bell.as_fd()),
                token => self.answer(token, event.hangup),
            }
        }
    }

    /// Takes the nodes that want to connect.
    fn accept(&mut self) {
        for _ in 0..PENDING_MAX {
            let Ok(socket) = socket::accept(self.listener.as_fd()) else { break };
            let full = self.connections.len() + self.pending.len() >= CONNECTIONS_MAX;
            if full || connection::is_welcome(socket.as_fd(), self.same_network).is_err() {
                self.counts.system_errors += 1;
                continue;
            }
            let token = self.token();
            if self.watch.add(socket.as_fd(), token).is_err() {
                self.counts.system_errors += 1;
                continue;
            }
            if self.pending.len() == PENDING_MAX {
                // The oldest has had its time.
                self.pending.remove(0);
                self.counts.system_errors += 1;
            }
            self.greet(token, socket, false);
        }
    }

    /// Takes the rings of a new peer, if they have come.
    fn greet(&mut self, token: u64, socket: OwnedFd, hangup: bool) {
        match Connection::take(socket, token) {
            Ok(Ok(connection)) => {
                self.welcome(connection);
                // It has introduced itself already.
                self.listen_to(self.connections.len() - 1, hangup);
            }
            Ok(Err(socket)) if !hangup => self.pending.push((token, socket)),
            Ok(Err(_)) => self.counts.system_errors += 1,
            // Not rings, or not such as can be used: the peer sees the socket closed.
            Err(_) => self.counts.system_errors += 1,
        }
    }

    fn answer(&mut self, token: u64, hangup: bool) {
        if let Some(place) = self.pending.iter().position(|(pending, _)| *pending == token) {
            let (_, socket) = self.pending.remove(place);
            return self.greet(token, socket, hangup);
        }
        if let Some(place) = self.connections.iter().position(|one| one.token == token) {
            self.listen_to(place, hangup);
        }
    }

    /// Takes what a peer has said beside its frames.
    fn listen_to(&mut self, place: usize, hangup: bool) {
        let one = &mut self.connections[place];
        let before = one.readable;
        one.answer(hangup, &self.memory);
        if before != one.readable {
            match one.readable {
                Some(true) => self.counts.memory_readable += 1,
                _ => self.counts.memory_refused += 1,
            }
        }
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
        if handed > 0 && !std::mem::replace(&mut one.heard, true) {
            // Its introduction is here, too.
            self.early = EARLY_SERVICES;
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
            one.wake();
            over |= one.over;
        }
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
            system::event_set(self.own_bell.as_fd());
        }
        Some(self.watch.descriptor())
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
            if system::poll(self.watch.descriptor(), left) != Polled::Nothing {
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
        self.arm().then_some(Duration::ZERO)
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
            let _ = fs::remove_file(self.place.socket_of(self.number));
        }
    }
}

#[cfg(test)]
mod tests;
