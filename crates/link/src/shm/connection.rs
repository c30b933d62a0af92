//! One peer: a pair of rings, and the socket by which the peers wake each other and learn of each other's end.
//!
//! The socket is also the bell. An eventfd would be a little cheaper, but its two ends are one open file: a hostile peer
//! could take its `O_NONBLOCK` away and make this process block, or empty it and make it sleep on. Each end of a socket
//! is its owner's alone.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use emp_rings::{Corrupt, ShmEnd, record_bytes};

use super::heads::{Heads, SAVED_BYTES};
use super::memory::{Introduction, PeerMemory};
use super::socket;
use crate::TxFrame;

/// First bytes of a connection's first message: what it is, and the version of the rings' layout and of what frames are in them.
const MAGIC: [u8; 8] = *b"EMPshm\0\x04";

/// Bytes of that message: the magic, and the number of the node that connects (big endian).
const HELLO_BYTES: usize = 16;

/// How long a full ring may stand still before frames for it are dropped: a reader that lives and was only put aside by
/// the scheduler (1 to 4 ms) comes back to a full ring anyway, and until then the other peers' frames wait behind.
const STALL: Duration = Duration::from_millis(1);

/// First bytes of the messages on a socket after the first: a bell; where the sender's cell is (address and random bits,
/// big endian); "I can read your memory".
const BELL: u8 = 0;
const INTRODUCTION: u8 = 1;
const READS: u8 = 2;

/// Bytes of an introduction.
const INTRODUCTION_BYTES: usize = 17;

/// Bells taken off the socket at a time. One is outstanding, unless the peer is up to something.
const BELLS: usize = 16;

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

/// A peer that rings are shared with.
pub(super) struct Connection {
    /// Its number: its address on this link.
    pub(super) number: u64,
    /// What the watch knows it by.
    pub(super) token: u64,
    pub(super) rings: ShmEnd,
    /// Frames were written since the peer's sleep was last looked at.
    pub(super) pushed: bool,
    /// It is to be forgotten: it broke the rings' rules, or it is gone and its frames are taken.
    pub(super) over: bool,
    /// A frame has come from it.
    pub(super) heard: bool,
    /// Whether its memory can be read; `None`: it has not been tried.
    pub(super) readable: Option<bool>,
    /// Heads of the frames that were written, and of those that came.
    sent: Heads,
    came: Heads,
    /// The socket; closed once the peer is gone.
    socket: Option<OwnedFd>,
    /// The peer is gone: its frames up to this count are still taken.
    ends_at: Option<u64>,
    /// When the ring was found full, and how far the peer had read.
    full: Option<(Instant, u64)>,
}

impl Connection {
    fn new(number: u64, token: u64, rings: ShmEnd, socket: OwnedFd) -> Self {
        let socket = Some(socket);
        Self {
            number,
            token,
            rings,
            pushed: false,
            over: false,
            heard: false,
            readable: None,
            sent: Heads::new(),
            came: Heads::new(),
            socket,
            ends_at: None,
            full: None,
        }
    }

    /// Makes rings and sends them to the node that listens behind `socket`. They can be used at once.
    pub(super) fn offer(socket: OwnedFd, own: u64, number: u64, token: u64) -> io::Result<Self> {
        let (memory, rings) = ShmEnd::create()?;
        let mut hello = [0; HELLO_BYTES];
        hello[..8].copy_from_slice(&MAGIC);
        hello[8..].copy_from_slice(&own.to_be_bytes());
        socket::send_descriptor(socket.as_fd(), &hello, memory.as_fd())?;
        Ok(Self::new(number, token, rings, socket))
    }

    /// Takes the rings that the other end of `socket` has sent. `Ok(Err(socket))`: they have not come yet.
    pub(super) fn take(socket: OwnedFd, token: u64) -> io::Result<Result<Self, OwnedFd>> {
        // One byte more, so that a longer message is seen to be one.
        let mut hello = [0; HELLO_BYTES + 1];
        let (bytes, memory) = match socket::receive_descriptor(socket.as_fd(), &mut hello) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Err(socket)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(Err(socket)),
            got => got?,
        };
        let refuse = || io::Error::from(io::ErrorKind::InvalidData);
        let (magic, number) = hello[..HELLO_BYTES].split_at(8);
        if bytes != HELLO_BYTES || magic != MAGIC {
            return Err(refuse());
        }
        let number = u64::from_be_bytes(number.try_into().map_err(|_| refuse())?);
        let rings = ShmEnd::open(memory.ok_or_else(refuse)?.as_fd())?;
        Ok(Ok(Self::new(number, token, rings, socket)))
    }

    /// True if frames can be sent to the peer.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.ends_at.is_none() && !self.over
    }

    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
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

    /// Wakes the peer if it sleeps and frames were written. True if a bell had to be rung.
    #[inline]
    pub(super) fn wake(&mut self) -> bool {
        if !std::mem::take(&mut self.pushed) || !self.rings.producer.must_wake() {
            return false;
        }
        if let Some(socket) = &self.socket {
            // No room for another bell: it will see the earlier ones. Nobody there: the hangup says so soon.
            let _ = socket::send(socket.as_fd(), &[BELL]);
        }
        true
    }

    /// Tells the peer where this end's cell is, so that it can try to read it.
    pub(super) fn introduce(&self, own: Introduction) {
        let Some(socket) = &self.socket else { return };
        let mut message = [INTRODUCTION; INTRODUCTION_BYTES];
        message[1..9].copy_from_slice(&own.address.to_be_bytes());
        message[9..].copy_from_slice(&own.token.to_be_bytes());
        // If it is lost, all frames go through the rings.
        let _ = socket::send(socket.as_fd(), &message);
    }

    /// The peer has said where its cell is: tries once to read it, and says if that can be done.
    fn meet(&mut self, message: &[u8], memory: &PeerMemory) {
        let (Some(socket), None) = (&self.socket, self.readable) else { return };
        let word = |at: usize| message.get(at..).and_then(|rest| rest.first_chunk().copied());
        let (Some(address), Some(token)) = (word(1), word(9)) else { return };
        let told =
            Introduction { address: u64::from_be_bytes(address), token: u64::from_be_bytes(token) };
        let process = socket::peer(socket.as_fd()).map_or(0, |(_, process)| process);
        let readable = memory.meet(self.number, process, told);
        self.readable = Some(readable);
        if readable {
            let _ = socket::send(socket.as_fd(), &[READS]);
        }
    }

    /// Takes bells and other messages off the socket, and notes if the peer is gone.
    pub(super) fn answer(&mut self, hangup: bool, memory: &PeerMemory) {
        let mut gone = hangup;
        for _ in 0..BELLS {
            let Some(socket) = &self.socket else { return };
            // One byte more, so that a longer message is seen to be one.
            let mut message = [0; INTRODUCTION_BYTES + 1];
            match socket::receive(socket.as_fd(), &mut message) {
                Ok(0) => gone = true,
                Ok(INTRODUCTION_BYTES) if message[0] == INTRODUCTION => {
                    self.meet(&message[..INTRODUCTION_BYTES], memory);
                }
                Ok(1) if message[0] == READS => memory.is_read_by(self.number),
                Ok(_) => {}
                Err(error) => {
                    let waits = matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    );
                    gone |= !waits;
                    break;
                }
            }
        }
        if gone {
            self.socket = None;
            // What it wrote before it ended is still to be read, but no more than a ring holds: somebody else may have
            // the memory too, and go on writing.
            self.ends_at = Some(self.rings.consumer.end());
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

/// Refuses other users' processes, and with `same_network` those of other network namespaces. Other users cannot reach the
/// directory, but a descriptor can be passed on.
pub(super) fn is_welcome(socket: BorrowedFd<'_>, same_network: bool) -> io::Result<()> {
    let (user, process) = socket::peer(socket)?;
    let near = !same_network || network_of(&process.to_string())? == network_of("self")?;
    if user == socket::own_user() && near {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// What tells a process's network namespace from others.
fn network_of(process: &str) -> io::Result<(u64, u64)> {
    let namespace = fs::metadata(format!("/proc/{process}/ns/net"))?;
    Ok((namespace.dev(), namespace.ino()))
}
