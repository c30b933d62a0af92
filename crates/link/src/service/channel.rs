//! The way frames go between a client and the service: two rings in memory that both have mapped, and a socket by which each wakes the other.
//!
//! A record is a frame behind the address that it goes to or came from, or what the service says of itself ([`Said`]). Each end reads a
//! record once, into memory of its own, before it believes anything of it; what cannot be ends the channel ([`Broken`]).
//!
//! The bell is a connected socket of which each end has its own open file: nobody can take `O_NONBLOCK` away from the other's, as from an
//! eventfd that both share, and the kernel says when the other is gone. An end is rung once for each time that it has said that it will
//! sleep. Who rings oftener wants to keep it busy.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use emp_rings::{Corrupt, RING_FRAME_BYTES_MAX, SharedEnd, shm_bytes};
use emp_wire::LinkAddress;

use super::socket;
use crate::system;

/// Bytes of one ring: some 160 frames of Ethernet's usual MTU, a tenth of a millisecond of 20 Gb/s, and both rings stay in a second-level
/// cache. All of it is there from the start, so it is also what a client costs.
const RING_BYTES: usize = 256 << 10;

/// Bytes of the memory of a channel.
pub const MEMORY_BYTES: usize = shm_bytes(RING_BYTES);

/// Bytes of the address before a frame: a MAC address, and two zeros that keep what follows aligned.
pub const ADDRESS_BYTES: usize = 8;

/// Longest frame in bytes.
pub const FRAME_BYTES_MAX: usize = RING_FRAME_BYTES_MAX - ADDRESS_BYTES;

/// Bytes of the longest record.
pub const RECORD_BYTES_MAX: usize = RING_FRAME_BYTES_MAX;

/// Marks of records.
const FRAME: u32 = 0;
const SAID: u32 = 1;

/// The bell. The first that a client rings says that it has mapped the memory.
const BELL: [u8; 1] = [1];

/// What a client gives the service a descriptor of, and rings with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gift {
    /// Its memory.
    Memory = 2,
    /// The file in which its node shows its state.
    State = 3,
}

impl Gift {
    fn of(rung: &[u8]) -> Option<Self> {
        [Self::Memory, Self::State].into_iter().find(|gift| rung == [*gift as u8])
    }
}

/// How long a bell that must come is waited for: the other end is between looking and ringing, and if for longer, it shares this core.
const BELL_PATIENCE: Duration = Duration::from_millis(1);

/// Everyone's address, on the wire and in a record.
const EVERYONE: [u8; 6] = [0xFF; 6];

/// The other end did what it must not: the channel is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Broken {
    /// A record or a count of a ring that cannot be.
    #[error("it wrote what cannot be into a ring")]
    Ring,
    /// A record of a kind that this end is not told.
    #[error("it wrote a record of another kind")]
    Record,
    /// An address that is none.
    #[error("it wrote an address that is none")]
    Address,
    /// It rings without being asked to.
    #[error("it rang although nobody slept")]
    Rung,
}

impl From<Corrupt> for Broken {
    fn from(_: Corrupt) -> Self {
        Self::Ring
    }
}

/// What was read of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// A frame of so many bytes, from [`ADDRESS_BYTES`] on in the buffer.
    Frame(LinkAddress, usize),
    /// What the service says.
    Said(Said),
}

/// What the service says of itself and of its interface, all of it each time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Said {
    /// Frames of this client that the service did not let out.
    pub refused: u64,
    /// Errors of the system that the service's link has met since the client came.
    pub system_errors: u64,
    /// The interface's MTU in bytes.
    pub mtu: u32,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Why nothing can cross it.
    pub trouble: Trouble,
}

/// Why nothing can cross an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Trouble {
    /// There is nothing wrong.
    #[default]
    None,
    /// It is switched off.
    Down,
    /// It has no cable.
    NoCarrier,
    /// It is not there.
    Gone,
    /// Something else that the service said when it looked.
    Other,
}

impl Trouble {
    const ALL: [Self; 5] = [Self::None, Self::Down, Self::NoCarrier, Self::Gone, Self::Other];

    /// By the text of a [`Condition`](crate::Condition).
    #[must_use]
    pub fn of(text: Option<&'static str>) -> Self {
        let known = |trouble: &Self| trouble.text() == text;
        Self::ALL.into_iter().find(known).unwrap_or(Self::Other)
    }

    /// The text of a [`Condition`](crate::Condition).
    #[must_use]
    pub const fn text(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Down => Some("is down"),
            Self::NoCarrier => Some("has no carrier"),
            Self::Gone => Some(crate::condition::GONE),
            Self::Other => Some("cannot be used by its service"),
        }
    }
}

/// Bytes of [`Said`] in a record.
const SAID_BYTES: usize = 8 + 8 + 4 + 6 + 1;

impl Said {
    fn emit(&self) -> [u8; SAID_BYTES] {
        let mut bytes = [0; SAID_BYTES];
        bytes[..8].copy_from_slice(&self.refused.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.system_errors.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.mtu.to_be_bytes());
        bytes[20..26].copy_from_slice(&self.mac);
        bytes[26] = self.trouble as u8;
        bytes
    }

    fn parse(bytes: &[u8]) -> Result<Self, Broken> {
        let bytes: &[u8; SAID_BYTES] = bytes.try_into().map_err(|_| Broken::Record)?;
        let long = |at: usize| bytes[at..].first_chunk().map_or(0, |b| u64::from_be_bytes(*b));
        let mtu = bytes[16..].first_chunk().map_or(0, |b| u32::from_be_bytes(*b));
        let mac = *bytes[20..].first_chunk().ok_or(Broken::Record)?;
        let trouble = Trouble::ALL.get(usize::from(bytes[26])).ok_or(Broken::Record)?;
        Ok(Self { refused: long(0), system_errors: long(8), mtu, mac, trouble: *trouble })
    }
}

/// An address as it stands before a frame. `None`: frames do not go there by an interface.
#[inline]
#[must_use]
pub fn address_bytes(address: &LinkAddress) -> Option<[u8; ADDRESS_BYTES]> {
    let [a, b, c, d, e, f] = match address.as_mac() {
        Some(mac) => mac,
        None if *address == LinkAddress::EVERYONE => EVERYONE,
        None => return None,
    };
    Some([a, b, c, d, e, f, 0, 0])
}

/// The address before a frame. `None`: it is that of several that are not everyone, or none at all.
#[inline]
#[must_use]
pub fn address_of(bytes: [u8; ADDRESS_BYTES]) -> Option<LinkAddress> {
    let [a, b, c, d, e, f, 0, 0] = bytes else { return None };
    match [a, b, c, d, e, f] {
        EVERYONE => Some(LinkAddress::EVERYONE),
        mac if a & 1 == 0 && mac != [0; 6] => Some(LinkAddress::mac(mac)),
        _ => None,
    }
}

/// What came by the bell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// Nothing.
    Nothing,
    /// The other end has something, or had.
    Bell,
    /// The other end is gone.
    Gone,
}

/// One end of a channel.
#[derive(Debug)]
pub struct Channel {
    rings: SharedEnd<RING_BYTES>,
    bell: OwnedFd,
    /// Times that this end said that it will sleep, and one that the other end rings at first.
    asked: Cell<u64>,
    /// Times that it was rung.
    rung: Cell<u64>,
    /// The other end has seen it asleep, and its bell has not come yet.
    due: Cell<bool>,
    /// Records were written since the other's sleep was last looked at.
    wrote: bool,
}

impl Channel {
    /// The service's end, and the two descriptors for the client: the memory's, and its end of the bell.
    ///
    /// # Errors
    ///
    /// What the system says if there is no memory, or no descriptor.
    pub fn create() -> io::Result<(Self, OwnedFd, OwnedFd)> {
        let (memory, rings) = SharedEnd::create_filled()?;
        let (bell, others) = socket::pair()?;
        Ok((Self::of(rings, bell), memory, others))
    }

    /// The client's end. Tells the service that the memory is mapped.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if it is no such memory; what the system says if it cannot be mapped, or the service is gone.
    pub fn open(memory: BorrowedFd<'_>, bell: OwnedFd) -> io::Result<Self> {
        let rings = SharedEnd::open_filled(memory)?;
        socket::send(bell.as_fd(), &BELL, &[])?;
        Ok(Self::of(rings, bell))
    }

    fn of(rings: SharedEnd<RING_BYTES>, bell: OwnedFd) -> Self {
        Self {
            rings,
            bell,
            asked: Cell::new(1),
            rung: Cell::new(0),
            due: Cell::new(false),
            wrote: false,
        }
    }

    /// To be called by the service when the client has rung for the first time: from then on nobody can take the memory away.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn keep(&self, memory: BorrowedFd<'_>) -> io::Result<()> {
        self.rings.keep(memory)
    }

    /// Readable when the other end rings, or is gone.
    #[must_use]
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Writes a frame. False: there is no room now.
    ///
    /// # Errors
    ///
    /// If the other end's count cannot be.
    ///
    /// # Panics
    ///
    /// If the parts are not `bytes` long together.
    #[inline]
    pub fn push<'a>(
        &mut self,
        address: &'a [u8; ADDRESS_BYTES],
        bytes: usize,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<bool, Broken> {
        let all = std::iter::once(&address[..]).chain(parts);
        let pushed = self.rings.producer.push_marked(FRAME, ADDRESS_BYTES + bytes, all)?;
        self.wrote |= pushed;
        Ok(pushed)
    }

    /// Says something to the client. False: there is no room now.
    ///
    /// # Errors
    ///
    /// As for [`push`](Self::push).
    pub fn say(&mut self, said: &Said) -> Result<bool, Broken> {
        let bytes = said.emit();
        let pushed = self.rings.producer.push_marked(SAID, SAID_BYTES, [&bytes[..]].into_iter())?;
        self.wrote |= pushed;
        Ok(pushed)
    }

    /// Writes a record of a channel that carries no frames: what its mark means is for both ends to know. False: there is no room now.
    ///
    /// # Errors
    ///
    /// As for [`push`](Self::push).
    ///
    /// # Panics
    ///
    /// If the parts have no bytes at all.
    #[inline]
    pub fn write(&mut self, mark: u32, parts: &[&[u8]]) -> Result<bool, Broken> {
        let bytes = parts.iter().map(|part| part.len()).sum();
        let pushed = self.rings.producer.push_marked(mark, bytes, parts.iter().copied())?;
        self.wrote |= pushed;
        Ok(pushed)
    }

    /// Reads such a record into `buffer`, of at least [`RECORD_BYTES_MAX`] bytes: its mark and its length.
    ///
    /// # Errors
    ///
    /// If there is none that can be.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<Option<(u32, usize)>, Broken> {
        Ok(self.rings.consumer.pop_marked(buffer)?)
    }

    /// Reads the next record into `buffer`, of at least [`RECORD_BYTES_MAX`] bytes.
    ///
    /// # Errors
    ///
    /// If it is none.
    #[inline]
    pub fn pop(&mut self, buffer: &mut [u8]) -> Result<Option<Record>, Broken> {
        let Some((mark, length)) = self.rings.consumer.pop_marked(buffer)? else {
            return Ok(None);
        };
        match mark {
            FRAME => {
                let address = *buffer.first_chunk().ok_or(Broken::Record)?;
                let bytes = length.checked_sub(ADDRESS_BYTES).filter(|bytes| *bytes > 0);
                let address = address_of(address).ok_or(Broken::Address)?;
                Ok(Some(Record::Frame(address, bytes.ok_or(Broken::Record)?)))
            }
            SAID => Ok(Some(Record::Said(Said::parse(&buffer[..length])?))),
            _ => Err(Broken::Record),
        }
    }

    /// Waits until the service has said something, which it does first as soon as the client is there. `None`: it does not in time.
    ///
    /// # Errors
    ///
    /// As for [`pop`](Self::pop).
    pub fn await_said(&mut self, patience: Duration) -> Result<Option<Said>, Broken> {
        let (since, mut buffer) = (Instant::now(), vec![0; RECORD_BYTES_MAX]);
        loop {
            match self.pop(&mut buffer)? {
                Some(Record::Said(said)) => return Ok(Some(said)),
                Some(Record::Frame(..)) => return Err(Broken::Record),
                None => {}
            }
            let left = patience.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            if self.nap(left)? == Heard::Gone {
                return Ok(None);
            }
        }
    }

    /// True if [`pop`](Self::pop) would find something.
    #[inline]
    #[must_use]
    pub fn ready(&self) -> bool {
        self.rings.consumer.ready()
    }

    /// Bytes of records that were read so far.
    #[must_use]
    pub const fn taken(&self) -> u64 {
        self.rings.consumer.taken()
    }

    /// How far the other end can have written at most, to be asked once it is gone.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.rings.consumer.end()
    }

    /// How far the other end has read, in bytes.
    ///
    /// # Errors
    ///
    /// As for [`push`](Self::push).
    pub fn look(&mut self) -> Result<u64, Broken> {
        Ok(self.rings.producer.look()?)
    }

    /// Counts a frame that was dropped for want of room, where the other end sees it.
    pub fn count_lost(&mut self) {
        self.rings.producer.count_lost();
    }

    /// Frames that the other end says it dropped so.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.rings.consumer.lost()
    }

    /// Takes a bell that must come, as the other end has seen this one asleep: it would end the next sleep for nothing. Only for those who
    /// may wait for the other end.
    pub fn settle(&self) {
        if self.due.take() {
            system::poll(self.bell.as_fd(), Some(BELL_PATIENCE));
            // What else it says is said again when it is next asked.
            let _ = self.listen();
        }
    }

    /// Says that this end is about to sleep. True: something is there, do not.
    pub fn arm(&self) -> bool {
        self.asked.set(self.asked.get() + 1);
        self.rings.consumer.arm()
    }

    /// Says that this end is awake.
    pub fn disarm(&self) {
        let seen_asleep = !self.rings.consumer.disarm();
        self.due.set(self.due.get() || seen_asleep);
    }

    /// Wakes the other end if it sleeps and records were written. True if it had to.
    #[inline]
    pub fn wake(&mut self) -> bool {
        if !std::mem::take(&mut self.wrote) || !self.rings.producer.must_wake() {
            return false;
        }
        // No room: who has that many to take is awake. Gone: the bell's other side says so.
        let _ = socket::send(self.bell.as_fd(), &BELL, &[]);
        true
    }

    /// Sleeps until the other end writes or rings, or the time has passed.
    ///
    /// # Errors
    ///
    /// As for [`listen`](Self::listen).
    pub fn nap(&self, limit: Duration) -> Result<Heard, Broken> {
        self.settle();
        if !self.arm() {
            system::poll(self.bell.as_fd(), Some(limit));
        }
        self.disarm();
        self.listen()
    }

    /// Takes what came by the bell; descriptors that come are closed.
    ///
    /// # Errors
    ///
    /// If the other end rings oftener than it was asked to.
    pub fn listen(&self) -> Result<Heard, Broken> {
        self.heard(socket::receive(self.bell.as_fd(), &mut [0; 2]))
    }

    /// The same, and takes a descriptor that the other end [gives](Self::give). Only for a thread that serves nobody but this client: a file
    /// that is the client's to serve may keep whoever closes it.
    ///
    /// # Errors
    ///
    /// As for [`listen`](Self::listen).
    pub fn listen_for_gifts(&self) -> Result<(Heard, Option<(Gift, OwnedFd)>), Broken> {
        let mut bytes = [0; 2];
        match socket::receive_with(self.bell.as_fd(), &mut bytes) {
            Ok((got, mut given)) => match Gift::of(&bytes[..got]).zip(given.pop()) {
                Some(gift) => Ok((Heard::Bell, Some(gift))),
                // One that comes without is a bell like others.
                None => Ok((self.heard(Ok(got))?, None)),
            },
            Err(error) => Ok((self.heard(Err(error))?, None)),
        }
    }

    fn heard(&self, received: io::Result<usize>) -> Result<Heard, Broken> {
        match received {
            Ok(0) => Ok(Heard::Gone),
            Ok(_) => {
                self.due.set(false);
                self.rung.set(self.rung.get() + 1);
                if self.rung.get() > self.asked.get() { Err(Broken::Rung) } else { Ok(Heard::Bell) }
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Heard::Nothing),
                _ => Ok(Heard::Gone),
            },
        }
    }

    /// Gives the service a descriptor, which is there before what is written afterwards is.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn give(&self, gift: Gift, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        socket::send(self.bell.as_fd(), &[gift as u8], &[descriptor])
    }

    /// Tells the other end that this one is gone; that the other is can be heard still.
    pub fn hang_up(&self) {
        socket::end_sending(self.bell.as_fd());
    }
}

#[cfg(test)]
mod tests;
