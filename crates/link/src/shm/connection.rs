//! One peer: a pair of rings. All else that is said goes by messages from the one node's socket to the other's, where it goes for all peers
//! alike: the rings themselves, bells that wake a sleeper, where memory is that may be read, and a last word.
//!
//! An eventfd would be a little cheaper as a bell, but its two ends are one open file: a hostile peer could take its `O_NONBLOCK` away and
//! make this process block, or empty it and make it sleep on. A node's socket is its owner's alone, and one is enough for any number of
//! peers. What it does not say is that a peer has died: whoever rings learns it by that, and others are asked after now and then.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use emp_rings::{Corrupt, ShmEnd, record_bytes};

use super::heads::{Heads, SAVED_BYTES};
use super::memory::{Introduction, PeerMemory};
use super::socket::{self, Whereto};
use crate::TxFrame;

/// First bytes of the message that brings rings: what it is, and the version of the rings' layout and of what frames are in them.
const MAGIC: [u8; 8] = *b"EMPshm\0\x05";

/// First bytes of the others: a bell; where the sender's cell is, and whether it reads the receiver's memory; "look whether I am there"; "I
/// have not taken your rings".
const BELL: u8 = 0;
const INTRODUCTION: u8 = 1;
const LOOK: u8 = 2;
const REFUSED: u8 = 3;

/// Bytes of the message that brings rings: magic, the number of the node that makes them, and its introduction (all numbers big endian).
const HELLO_BYTES: usize = 8 + 8 + 16;
/// Bytes of the introduction: kind, number, address and random bits, and 1 if memory is read.
const INTRODUCTION_BYTES: usize = 1 + 8 + 16 + 1;
/// Bytes of a message with nothing but a number.
const NUMBERED_BYTES: usize = 1 + 8;
/// Room for the longest, and one more, so that a longer one is seen to be one.
pub(super) const MESSAGE_BYTES: usize = HELLO_BYTES + 1;

/// What a peer says beside its frames.
#[derive(Debug)]
pub(super) enum Message {
    /// Rings of this node, which says where its cell is.
    Rings(u64, Introduction),
    /// Somebody has written frames.
    Bell,
    /// This node's cell, and whether it reads memory of this process.
    Introduction(u64, Introduction, bool),
    /// This node may be gone.
    Look(u64),
    /// This node has not taken the rings that it was sent.
    Refused(u64),
}

impl Message {
    /// `None`: it is none of these.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let told = |at: usize| Some(Introduction { address: word(at)?, token: word(at + 8)? });
        match (bytes.len(), bytes.first()?) {
            (1, &BELL) => Some(Self::Bell),
            (HELLO_BYTES, _) if bytes.starts_with(&MAGIC) => Some(Self::Rings(word(8)?, told(16)?)),
            (INTRODUCTION_BYTES, &INTRODUCTION) => {
                Some(Self::Introduction(word(1)?, told(9)?, bytes[25] == 1))
            }
            (NUMBERED_BYTES, &LOOK) => Some(Self::Look(word(1)?)),
            (NUMBERED_BYTES, &REFUSED) => Some(Self::Refused(word(1)?)),
            _ => None,
        }
    }
}

/// The message that brings rings of a node.
pub(super) fn hello(own: u64, told: Introduction) -> [u8; HELLO_BYTES] {
    let mut message = [0; HELLO_BYTES];
    message[..8].copy_from_slice(&MAGIC);
    message[8..16].copy_from_slice(&own.to_be_bytes());
    message[16..24].copy_from_slice(&told.address.to_be_bytes());
    message[24..].copy_from_slice(&told.token.to_be_bytes());
    message
}

fn introduction(own: u64, told: Introduction, reads: bool) -> [u8; INTRODUCTION_BYTES] {
    let mut message = [INTRODUCTION; INTRODUCTION_BYTES];
    message[1..9].copy_from_slice(&own.to_be_bytes());
    message[9..17].copy_from_slice(&told.address.to_be_bytes());
    message[17..25].copy_from_slice(&told.token.to_be_bytes());
    message[25] = u8::from(reads);
    message
}

fn numbered(kind: u8, own: u64) -> [u8; NUMBERED_BYTES] {
    let mut message = [kind; NUMBERED_BYTES];
    message[1..].copy_from_slice(&own.to_be_bytes());
    message
}

/// Wakes a node.
pub(super) fn ring(socket: BorrowedFd<'_>, to: &Whereto) -> io::Result<()> {
    socket::send(socket, to, &[BELL], None)
}

/// Says that rings of a node were not taken.
pub(super) fn refuse(socket: BorrowedFd<'_>, to: &Whereto, own: u64) {
    // Lost, it is found out by frames that nobody takes.
    let _ = socket::send(socket, to, &numbered(REFUSED, own), None);
}

/// How long a full ring may stand still before frames for it are dropped: a reader that lives and was only put aside by
/// the scheduler (1 to 4 ms) comes back to a full ring anyway, and until then the other peers' frames wait behind.
const STALL: Duration = Duration::from_millis(1);

/// Frames of up to so many bytes are packed if that saves a line of at most five. Of longer ones it saves less.
const SHORT_BYTES_MAX: usize = 300;

/// Marks of records: a frame; one whose head the next may be like; and one without what is the same as in that one.
const WHOLE: u32 = 0;
const NOTED: u32 = 1;
const PACKED: u32 = 2;

/// What became of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pushed {
    /// It is in the ring.
    Yes,
    /// There is no room, but there will be.
    Full,
    /// The peer takes nothing: the frame is lost, and counted where the peer can see it.
    Lost,
}

/// What a peer is still to be told, as its socket had no room, or there is nothing to be said yet.
#[derive(Default)]
struct Owed {
    /// The rings' memory.
    rings: Option<OwnedFd>,
    introduction: bool,
}

/// A peer that rings are shared with.
pub(super) struct Connection {
    /// Its number: its address on this link.
    pub(super) number: u64,
    /// Where it takes messages.
    to: Whereto,
    pub(super) rings: ShmEnd,
    /// Frames were written since the peer's sleep was last looked at.
    pub(super) pushed: bool,
    /// It is to be forgotten: it broke the rings' rules, or it is gone and its frames are taken.
    pub(super) over: bool,
    /// A frame has come from it.
    pub(super) heard: bool,
    /// Whether its memory can be read; `None`: it has not been tried.
    pub(super) readable: Option<bool>,
    owed: Owed,
    /// Heads of the frames that were written, and of those that came.
    sent: Heads,
    came: Heads,
    /// The peer is gone: its frames up to this count are still taken.
    ends_at: Option<u64>,
    /// When the ring was found full, and how far the peer had read.
    full: Option<(Instant, u64)>,
}

impl Connection {
    fn new(number: u64, to: Whereto, rings: ShmEnd) -> Self {
        Self {
            number,
            to,
            rings,
            pushed: false,
            over: false,
            heard: false,
            readable: None,
            owed: Owed::default(),
            sent: Heads::new(),
            came: Heads::new(),
            ends_at: None,
            full: None,
        }
    }

    /// Makes rings for the node that takes messages there. They can be used at once, and are still to be sent ([`Self::tell`]).
    pub(super) fn offer(number: u64, to: Whereto) -> io::Result<Self> {
        let (memory, rings) = ShmEnd::create()?;
        let owed = Owed { rings: Some(memory), introduction: false };
        Ok(Self { owed, ..Self::new(number, to, rings) })
    }

    /// Takes the rings that a node has sent.
    pub(super) fn take(number: u64, to: Whereto, memory: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self::new(number, to, ShmEnd::open(memory)?))
    }

    /// True if frames can be sent to the peer.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.ends_at.is_none() && !self.over
    }

    /// Something is still to be told.
    pub(super) fn owes(&self) -> bool {
        self.owed.rings.is_some() || self.owed.introduction
    }

    /// Tells the peer what is owed, as far as its socket has room: the rings, or where this end's cell is.
    pub(super) fn tell(&mut self, socket: BorrowedFd<'_>, own: u64, told: Introduction) {
        if !self.owes() || !self.is_open() {
            return;
        }
        let sent = match &self.owed.rings {
            Some(memory) => socket::send(socket, &self.to, &hello(own, told), Some(memory.as_fd())),
            None => {
                let reads = self.readable == Some(true);
                socket::send(socket, &self.to, &introduction(own, told, reads), None)
            }
        };
        match sent {
            Ok(()) => self.owed = Owed::default(),
            Err(error) => self.judge(&error),
        }
    }

    /// Where the peer's cell is: tries once to read it, and says whether that can be done. True if it was tried.
    pub(super) fn meet(
        &mut self,
        process: libc::pid_t,
        told: Introduction,
        memory: &PeerMemory,
    ) -> bool {
        if self.readable.is_some() {
            return false;
        }
        self.readable = Some(memory.meet(self.number, process, told));
        self.owed.introduction = true;
        true
    }

    /// A message to the peer did not leave.
    fn judge(&mut self, error: &io::Error) {
        use io::ErrorKind::{ConnectionRefused, Interrupted, NotFound, WouldBlock};
        match error.kind() {
            // No room: what is owed is told later, and who has that many messages to look at is awake.
            WouldBlock | Interrupted => {}
            ConnectionRefused | NotFound => self.end(),
            // No memory, or what a security module forbids: the rings do without.
            _ if self.owed.rings.is_none() => self.owed = Owed::default(),
            _ => self.over = true,
        }
    }

    /// The peer is gone. What it wrote before it ended is still to be read, but no more than a ring holds: somebody else may have the memory too,
    /// and go on writing.
    pub(super) fn end(&mut self) {
        self.ends_at.get_or_insert(self.rings.consumer.end());
    }

    /// Finds out whether the peer is gone. A few system calls.
    pub(super) fn look(&mut self) {
        let found = self.to.answers();
        self.heed(found);
    }

    /// Finds out whether its name is another's by now. One system call.
    pub(super) fn glance(&mut self) {
        let found = self.to.is_the_same();
        self.heed(found);
    }

    fn heed(&mut self, found: io::Result<()>) {
        use io::ErrorKind::{ConnectionRefused, NotFound};
        if found.is_err_and(|error| matches!(error.kind(), ConnectionRefused | NotFound)) {
            self.end();
        }
    }

    /// A last word: the peer finds that this node is not there any more.
    pub(super) fn say_goodbye(&self, socket: BorrowedFd<'_>, own: u64) {
        if self.is_open() {
            // Lost, it is found out later.
            let _ = socket::send(socket, &self.to, &numbered(LOOK, own), None);
        }
    }

    /// Writes a frame.
    #[inline]
    pub(super) fn push(&mut self, frame: &TxFrame<'_>, bytes: usize) -> Result<Pushed, Corrupt> {
        let pushed = match frame.parts {
            [one] if one.len() <= SHORT_BYTES_MAX => self.push_short(one)?,
            parts => {
                let parts = parts.iter().map(|part| &**part);
                self.rings.producer.push_marked(WHOLE, bytes, parts)?
            }
        };
        if pushed {
            self.pushed = true;
            return Ok(Pushed::Yes);
        }
        self.is_full()
    }

    /// Writes a short frame, packed if that makes it shorter by a line.
    #[inline]
    fn push_short(&mut self, frame: &[u8]) -> Result<bool, Corrupt> {
        let producer = &mut self.rings.producer;
        let length = frame.len();
        if let Some(pieces) = self.sent.pack(frame) {
            let packed = length - SAVED_BYTES;
            return if record_bytes(packed) < record_bytes(length) {
                producer.push_marked(PACKED, packed, pieces.into_iter())
            } else {
                producer.push_marked(WHOLE, length, [frame].into_iter())
            };
        }
        let pushed = producer.push_marked(NOTED, length, [frame].into_iter())?;
        if pushed {
            self.sent.note(frame);
        }
        Ok(pushed)
    }

    #[cold]
    fn is_full(&mut self) -> Result<Pushed, Corrupt> {
        let read = self.rings.producer.look()?;
        match self.full {
            Some((since, then)) if then == read => {
                if since.elapsed() < STALL {
                    return Ok(Pushed::Full);
                }
                self.rings.producer.count_lost();
                Ok(Pushed::Lost)
            }
            _ => {
                self.full = Some((Instant::now(), read));
                Ok(Pushed::Full)
            }
        }
    }

    /// Wakes the peer if it sleeps and frames were written.
    #[inline]
    pub(super) fn wake(&mut self, socket: BorrowedFd<'_>) {
        if std::mem::take(&mut self.pushed) && self.rings.producer.must_wake() {
            self.ring(socket);
        }
    }

    fn ring(&mut self, socket: BorrowedFd<'_>) {
        if let Err(error) = ring(socket, &self.to) {
            self.judge(&error);
        }
    }

    /// The next frame, copied into `buffer`: where it is there. The buffer has room for [`SAVED_BYTES`] more than the longest frame.
    #[inline]
    pub(super) fn pop(&mut self, buffer: &mut [u8]) -> Result<Option<Range<usize>>, Corrupt> {
        let popped = self.rings.consumer.pop_marked(&mut buffer[SAVED_BYTES..])?;
        if let Some(end) = self.ends_at {
            self.over = popped.is_none() || self.rings.consumer.taken() >= end;
        }
        let Some((mark, length)) = popped else { return Ok(None) };
        let end = SAVED_BYTES + length;
        let start = match mark {
            WHOLE => SAVED_BYTES,
            NOTED => {
                self.came.note(&buffer[SAVED_BYTES..end]);
                SAVED_BYTES
            }
            PACKED if length <= SHORT_BYTES_MAX && self.came.unpack(&mut buffer[..end]) => 0,
            _ => return Err(Corrupt),
        };
        Ok(Some(start..end))
    }
}
