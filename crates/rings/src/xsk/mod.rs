//! An AF_XDP socket: frames go straight between a network driver's queue and memory of ours, through
//! four rings that are shared with the kernel.
//!
//! Who holds which chunk of that memory is kept in `umem.rs`, what the rings' indices mean in
//! `ring.rs`, the system calls in `socket.rs`; each states the invariant that makes it sound. Here
//! they are put together, without `unsafe`.

mod ring;
mod socket;
mod umem;

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ring::{Consumer, Producer};
use socket::RingKind;
use umem::{Holder, Umem};

pub use socket::XskCounts;

/// Bytes that the kernel leaves free before a received frame in its chunk (XDP_PACKET_HEADROOM).
const HEADROOM_BYTES: usize = 256;
/// Small chunks, in bytes: half a page. They hold what MTU 1500 brings, and half the memory stays
/// in the cache.
const SMALL_CHUNK_BYTES: usize = 2048;
/// Large chunks, in bytes: a page, which is the most that drivers take without huge pages.
const LARGE_CHUNK_BYTES: usize = 4096;
/// Most chunks of one frame: what a socket buffer of the kernel has (17 fragments), and one less
/// for its head.
const PIECES_MAX: usize = 16;

/// How the memory and the rings of a socket are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XskShape {
    chunk_bytes: usize,
    receive_chunks: usize,
    send_chunks: usize,
}

impl XskShape {
    /// For frames of up to `frame_bytes` bytes (link header included), with room for so many
    /// received and sent chunks, each rounded up to a power of two.
    pub fn new(frame_bytes: usize, receive_chunks: usize, send_chunks: usize) -> Self {
        let small = frame_bytes + HEADROOM_BYTES <= SMALL_CHUNK_BYTES;
        // Rings are indexed by 32 bits; 2^20 chunks are four gigabytes, more than anyone means.
        let count = |chunks: usize| chunks.clamp(PIECES_MAX, 1 << 20).next_power_of_two();
        Self {
            chunk_bytes: if small { SMALL_CHUNK_BYTES } else { LARGE_CHUNK_BYTES },
            receive_chunks: count(receive_chunks),
            send_chunks: count(send_chunks),
        }
    }

    /// Bytes of a frame that arrives in one chunk.
    pub fn single_bytes_max(&self) -> usize {
        self.chunk_bytes - HEADROOM_BYTES
    }

    /// Bytes of the longest frame that may arrive or leave in several chunks.
    pub fn joined_bytes_max(&self) -> usize {
        self.single_bytes_max() * PIECES_MAX
    }

    /// Frames of `frame_bytes` bytes that can wait to be received.
    pub fn frames(&self, frame_bytes: usize) -> usize {
        self.receive_chunks / frame_bytes.div_ceil(self.single_bytes_max()).max(1)
    }

    /// Chunks that can wait to be sent.
    pub fn send_chunks(&self) -> usize {
        self.send_chunks
    }

    /// Bytes of memory that the kernel pins for it.
    pub fn bytes(&self) -> usize {
        self.chunk_bytes * (self.receive_chunks + self.send_chunks)
    }
}

/// How a socket is bound to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XskBind {
    /// The kernel's number of the interface.
    pub interface: u32,
    /// The queue of the interface.
    pub queue: u32,
    /// The driver reads and writes our memory itself; otherwise the kernel copies.
    pub zero_copy: bool,
    /// A frame may take several chunks.
    pub several_chunks: bool,
}

/// One received frame, lent to the closure of [`Xsk::take`].
#[derive(Clone, Copy, Debug)]
pub struct XskFrame<'a> {
    /// The frame from its link header on.
    pub bytes: &'a [u8],
    /// False if the frame could not be taken whole: its descriptors made no sense, or it is longer
    /// than any that was announced.
    pub whole: bool,
}

/// An AF_XDP socket with its memory and rings.
pub struct Xsk {
    receive: Consumer<libc::xdp_desc>,
    send: Producer<libc::xdp_desc>,
    fill: Producer<u64>,
    done: Consumer<u64>,
    // Closed before the memory is unmapped, after the rings are.
    socket: OwnedFd,
    umem: Umem,
    shape: XskShape,
    /// Chunks to send from, the last used on top, because it is still in the cache.
    free: Vec<u32>,
    /// Chunks whose frames have been looked at, to go back to the kernel.
    returning: Vec<u32>,
    /// Where a frame of several chunks is put together.
    joined: Vec<u8>,
    strange: u64,
}

impl Xsk {
    /// Opens a socket and gives the kernel its memory, all receive chunks already in the fill ring.
    /// Not bound to a queue yet. Needs CAP_NET_RAW.
    pub fn new(shape: XskShape) -> io::Result<Self> {
        let socket = socket::open()?;
        let fd = socket.as_fd();
        let umem = Umem::new(shape.chunk_bytes, shape.receive_chunks + shape.send_chunks)?;
        socket::register(fd, &umem, shape.chunk_bytes)?;
        let (receives, sends) = (shape.receive_chunks as u32, shape.send_chunks as u32);
        for (kind, size) in [
            (RingKind::Fill, receives),
            (RingKind::Receive, receives),
            (RingKind::Done, sends),
            (RingKind::Send, sends),
        ] {
            socket::set_ring_size(fd, kind, size)?;
        }
        let maps = socket::offsets(fd)?;
        let mut xsk = Self {
            receive: maps.consumer(fd, RingKind::Receive, receives)?,
            send: maps.producer(fd, RingKind::Send, sends)?,
            fill: maps.producer(fd, RingKind::Fill, receives)?,
            done: maps.consumer(fd, RingKind::Done, sends)?,
            umem,
            shape,
            free: (receives..receives + sends).rev().collect(),
            returning: (0..receives).collect(),
            joined: Vec::with_capacity(shape.joined_bytes_max()),
            strange: 0,
            socket,
        };
        xsk.publish();
        Ok(xsk)
    }

    /// Lets one call send up to so many frames (the kernel's own limit is 32). False if this kernel
    /// cannot be told.
    pub fn set_send_budget(&self, frames: u32) -> bool {
        socket::set_send_budget(self.socket.as_fd(), frames).is_ok()
    }

    /// Binds it to a queue of an interface.
    pub fn bind(&self, to: &XskBind) -> io::Result<()> {
        socket::bind(self.socket.as_fd(), to)
    }

    /// How it is divided.
    pub fn shape(&self) -> XskShape {
        self.shape
    }

    /// True if a frame, or a part of one, waits.
    #[inline]
    pub fn ready(&self) -> bool {
        self.receive.any()
    }

    /// Lends the next frame to `look`. `None` if there is none. The kernel gets the chunks back at
    /// the latest with [`Xsk::publish`].
    #[inline]
    pub fn take<R>(&mut self, look: impl FnOnce(XskFrame<'_>) -> R) -> Option<R> {
        let first = self.receive.peek(0)?;
        self.give_back();
        if first.options & libc::XDP_PKT_CONTD != 0 {
            return self.take_joined(look);
        }
        self.receive.advance(1);
        let piece = self.accept(&first);
        Some(match piece {
            Some(piece) => look(XskFrame { bytes: self.umem.bytes_of(piece), whole: true }),
            None => look(XskFrame { bytes: &[], whole: false }),
        })
    }

    /// Takes a frame that lies in several chunks.
    fn take_joined<R>(&mut self, look: impl FnOnce(XskFrame<'_>) -> R) -> Option<R> {
        let mut pieces = 0;
        loop {
            let Some(piece) = self.receive.peek(pieces) else {
                // The kernel shows frames whole. One without an end is never going to have one if
                // there are more pieces than a frame can have.
                if pieces as usize <= PIECES_MAX {
                    return None;
                }
                break;
            };
            pieces += 1;
            if piece.options & libc::XDP_PKT_CONTD == 0 {
                break;
            }
        }
        self.joined.clear();
        let mut whole = pieces as usize <= PIECES_MAX;
        for _ in 0..pieces {
            let Some(descriptor) = self.receive.peek(0) else { break };
            self.receive.advance(1);
            match self.accept(&descriptor) {
                Some(piece) if whole => self.joined.extend_from_slice(self.umem.bytes_of(piece)),
                Some(_) => {}
                None => whole = false,
            }
        }
        Some(look(XskFrame { bytes: if whole { &self.joined } else { &[] }, whole }))
    }

    /// Takes the chunk of a received descriptor, which goes back to the kernel soon.
    #[inline]
    fn accept(&mut self, descriptor: &libc::xdp_desc) -> Option<umem::Piece> {
        let Some(chunk) = self.umem.take(descriptor.addr, Holder::Filled) else {
            self.strange += 1;
            return None;
        };
        self.returning.push(chunk);
        let piece = self.umem.piece(chunk, descriptor.addr, descriptor.len);
        self.strange += u64::from(piece.is_none());
        piece
    }

    /// Hands the chunks that were looked at to the fill ring. As many as are out at most, so they
    /// have room there.
    #[inline]
    fn give_back(&mut self) {
        while let Some(chunk) = self.returning.pop() {
            let address = self.umem.address(chunk);
            if !self.umem.give(chunk, Holder::Filled) || !self.fill.push(address) {
                self.strange += 1;
            }
        }
    }

    /// Shows the kernel what was taken and given back. To be called after the last of some
    /// [`Xsk::take`]s.
    #[inline]
    pub fn publish(&mut self) {
        self.give_back();
        self.fill.publish();
        self.receive.publish();
    }

    /// Puts a frame, gathered from a head and parts, into the send ring. False if there is no room
    /// now, or never (longer than [`XskShape::joined_bytes_max`]). The kernel sees it after
    /// [`Xsk::submit`].
    #[inline]
    pub fn push(&mut self, head: &[u8], parts: &[IoSlice<'_>]) -> bool {
        let bytes = head.len() + parts.iter().map(|part| part.len()).sum::<usize>();
        let pieces = bytes.div_ceil(self.shape.chunk_bytes);
        if pieces > PIECES_MAX
            || pieces > self.free.len()
            || bytes == 0
            || !self.send.has_room(pieces as u32)
        {
            return false;
        }
        let mut source = Source { now: head, later: parts };
        let mut left = bytes;
        while left > 0 {
            let Some(chunk) = self.free.pop() else { return false };
            let length = left.min(self.shape.chunk_bytes);
            source.fill(self.umem.chunk_mut(chunk).get_mut(..length).unwrap_or_default());
            left -= length;
            let options = if left > 0 { libc::XDP_PKT_CONTD } else { 0 };
            let addr = self.umem.address(chunk);
            let descriptor = libc::xdp_desc { addr, len: length as u32, options };
            if !self.umem.give(chunk, Holder::Sent) || !self.send.push(descriptor) {
                self.strange += 1;
            }
        }
        true
    }

    /// Shows the kernel the frames that were pushed.
    #[inline]
    pub fn submit(&mut self) {
        self.send.publish();
    }

    /// Takes back the chunks of frames that have left. Returns how many.
    #[inline]
    pub fn reap(&mut self) -> usize {
        let mut reaped = 0;
        while let Some(address) = self.done.peek(0) {
            self.done.advance(1);
            match self.umem.take(address, Holder::Sent) {
                Some(chunk) => {
                    self.free.push(chunk);
                    reaped += 1;
                }
                None => self.strange += 1,
            }
        }
        if reaped > 0 {
            self.done.publish();
        }
        reaped
    }

    /// Chunks of frames that were pushed and have not come back.
    #[inline]
    pub fn outstanding(&self) -> usize {
        self.shape.send_chunks - self.free.len()
    }

    /// True if the kernel has not looked at all frames that were submitted.
    #[inline]
    pub fn unsent(&self) -> bool {
        self.send.unread()
    }

    /// True if the kernel must be called to send ([`Xsk::kick_send`]).
    #[inline]
    pub fn send_wants_kick(&self) -> bool {
        self.send.wants_wakeup()
    }

    /// True if the kernel must be called to receive ([`Xsk::kick_receive`]): it found the fill ring
    /// empty and has stopped looking.
    #[inline]
    pub fn receive_wants_kick(&self) -> bool {
        self.fill.wants_wakeup()
    }

    /// Makes the kernel send. One system call.
    #[inline]
    pub fn kick_send(&self) -> io::Result<()> {
        socket::kick_send(self.socket.as_fd())
    }

    /// Makes the kernel look for received frames. One system call.
    #[inline]
    pub fn kick_receive(&self) -> io::Result<()> {
        socket::kick_receive(self.socket.as_fd())
    }

    /// What the kernel counted. One system call.
    pub fn counts(&self) -> io::Result<XskCounts> {
        socket::counts(self.socket.as_fd())
    }

    /// Descriptors of the kernel that made no sense, and were passed by; each is a chunk less.
    pub fn strange(&self) -> u64 {
        self.strange + u64::from(self.receive.broken()) + u64::from(self.done.broken())
    }
}

impl AsFd for Xsk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Bytes that are read on across parts.
struct Source<'a> {
    now: &'a [u8],
    later: &'a [IoSlice<'a>],
}

impl Source<'_> {
    #[inline]
    fn fill(&mut self, mut to: &mut [u8]) {
        while !to.is_empty() {
            if self.now.is_empty() {
                let Some((first, rest)) = self.later.split_first() else { return };
                (self.now, self.later) = (first, rest);
                continue;
            }
            let length = to.len().min(self.now.len());
            let (head, tail) = to.split_at_mut(length);
            let (from, rest) = self.now.split_at(length);
            head.copy_from_slice(from);
            (to, self.now) = (tail, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_fit_the_frame() {
        let small = XskShape::new(1514, 1000, 500);
        assert_eq!((small.single_bytes_max(), small.bytes()), (1792, 1536 * 2048));
        assert_eq!((small.frames(1514), small.send_chunks()), (1024, 512));
        let jumbo = XskShape::new(9014, 1024, 512);
        assert_eq!((jumbo.single_bytes_max(), jumbo.frames(9014)), (3840, 341));
        assert_eq!(jumbo.joined_bytes_max(), 61_440);
        assert!(XskShape::new(0, 0, usize::MAX).bytes() > 0);
    }

    #[test]
    fn parts_are_read_across_chunks() {
        let parts = [IoSlice::new(b"bc"), IoSlice::new(b""), IoSlice::new(b"defg")];
        let mut source = Source { now: b"a", later: &parts };
        let mut chunk = [0; 4];
        source.fill(&mut chunk);
        assert_eq!(&chunk, b"abcd");
        source.fill(&mut chunk[..3]);
        assert_eq!(&chunk, b"efgd");
        source.fill(&mut chunk);
        assert_eq!(&chunk, b"efgd", "nothing is left");
    }
}
