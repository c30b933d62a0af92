//! Ways to move EMP frames: `packet` (AF_PACKET rings), `xdp` (AF_XDP), `udp`, `shm` (memory shared by
//! processes of one machine), an in-memory `sim`, and wrappers around any link.
//!
//! A [`Link`] is narrow on purpose: it says what it can do, sends batches of gathered frames, hands
//! received frames to a sink, can be waited for, and counts. It knows nothing of the protocol
//! except where a frame's destination tag is.

mod aside;
mod capture;
mod condition;
pub mod conformance;
mod device;
mod ethernet;
mod failure;
mod fault;
mod gather;
mod interfaces;
mod locks;
mod name;
mod namespace;
mod netlink;
mod newcomers;
mod packet;
mod ranking;
mod renamed;
pub mod service;
mod shm;
mod sim;
mod sink;
mod stamps;
mod system;
mod tap;
mod threaded;
mod udp;
mod xdp;

use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use emp_wire::{DESTINATION_TAG_OFFSET, TAG_EVERYONE};

pub use aside::let_go;
pub use capture::{CAPTURE_BYTES, CaptureFile, CaptureLink, Captured, Direction, Pcapng, Target};
pub use condition::Condition;
pub use emp_wire::LinkAddress;
pub use fault::{FaultCounters, FaultLink, FaultPlan, FaultPlanError};
pub use interfaces::{Interface, interfaces};
pub use newcomers::{InterfaceWatch, LinkGroup};
pub use packet::{
    Lender, LoanNumber, LoanOptions, OrderLost, PacketLink, PacketOptions, PacketSender, SEARCHES,
    Watch,
};
pub use ranking::{Class, Ranked, ranked};
pub use renamed::NamedInterface;
pub use shm::{PeerMemory, PeerMemoryError, ShmLink, ShmOptions};
pub use sim::{Fabric, SimLink};
pub use sink::{FrameSink, Head, Train};
pub use tap::{Seen, TAP_PORTS_MAX, Tap, TapOptions, carried_frame};
pub use threaded::{LinkThread, LinkWork, ThreadedLink};
pub use udp::{UdpLink, UdpOptions};
pub use xdp::{XdpLink, XdpMode, XdpOptions};

/// What a link can do and what it needs. Fixed when the link is opened, but for `segmentation` and
/// `long_frame_bytes`, which end while the device turns out not to do it.
#[derive(Clone, Debug)]
pub struct Capabilities {
    /// The link's kind: `"packet"`, `"empd"`, `"xdp"`, `"udp"`, `"shm"`, `"sim"`.
    pub kind: &'static str,
    /// The interface it is bound to, or a socket address, for people.
    pub interface: String,
    /// Largest EMP frame in bytes (EMP header included, Ethernet or IP/UDP headers not).
    pub frame_bytes_max: usize,
    /// Largest frame in bytes that this link carries in several datagrams of one segmented send: it arrives whole or not at
    /// all. Zero: none longer than `frame_bytes_max`.
    pub long_frame_bytes: usize,
    /// How many of these can wait to be received before one is lost. 0: nobody knows.
    pub long_frames_held: usize,
    /// Most parts that one frame may be gathered from.
    pub parts_max: usize,
    /// Most frames that are worth handing over in one [`Link::send`].
    pub batch_max: usize,
    /// Frames of one size to one address can leave in one segmented system call.
    pub segmentation: bool,
    /// What carries the frames has a checksum over all of each.
    pub sums: bool,
    /// Long frames to neighbours leave by a packet socket, past the kernel's IP layer and its firewall (only `udp`, with CAP_NET_RAW).
    pub past_ip: bool,
    /// A frame to [`LinkAddress::EVERYONE`] reaches nodes that were never configured.
    pub broadcast: bool,
    /// Opening it took a privilege (CAP_NET_RAW).
    pub privileged: bool,
    /// This end's address as peers see it, where that can be known.
    pub address: LinkAddress,
}

impl Capabilities {
    /// Largest frame in bytes that [`Link::send`] takes now, long ones included.
    #[must_use]
    pub fn sent_bytes_max(&self) -> usize {
        self.frame_bytes_max.max(self.long_frame_bytes)
    }
}

/// One frame to send: where to, and the parts it is gathered from, in order.
#[derive(Clone, Copy, Debug)]
pub struct TxFrame<'a> {
    /// Where to. [`LinkAddress::EVERYONE`] sends to all.
    pub to: LinkAddress,
    /// The frame's bytes; at most [`Capabilities::parts_max`] parts.
    pub parts: &'a [IoSlice<'a>],
}

impl TxFrame<'_> {
    /// Length of the whole frame in bytes.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// True if the frame has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Counts since the link was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStatistics {
    /// Frames handed to the kernel (or the fabric).
    pub frames_sent: u64,
    /// Bytes of those frames.
    pub bytes_sent: u64,
    /// Sent frames that left past the kernel's IP layer (only `udp`).
    pub frames_past_ip: u64,
    /// Frames handed to a sink.
    pub frames_received: u64,
    /// Bytes of those frames.
    pub bytes_received: u64,
    /// System calls made to send.
    pub send_calls: u64,
    /// System calls made to receive (a memory-mapped ring needs none).
    pub receive_calls: u64,
    /// Times the link could not take a frame now.
    pub send_full: u64,
    /// Frames that the link refused for good (too long, empty, address of another family).
    pub send_refused: u64,
    /// Frames lost on the way up, as far as the link can know (ring full, truncated).
    pub receive_lost: u64,
    /// Frames dropped because their destination tag is another node's, where the kernel did not do
    /// it.
    pub not_for_us: u64,
    /// Peers of this machine whose memory can be read, so that long messages from them need no frames (only `shm`).
    pub memory_readable: u64,
    /// Peers of this machine whose memory the kernel does not let this process read: all goes through rings.
    pub memory_refused: u64,
    /// Errors of the system that the link outlived (interface down, port unreachable). A frame that
    /// met one counts as taken, and is lost.
    pub system_errors: u64,
}

/// Why a link could not be opened, or can no longer be used. The text names the link and says what
/// to do.
#[derive(Debug, thiserror::Error)]
#[error("{link}: {problem}; {advice}")]
pub struct LinkError {
    /// Which link, for people: `packet on eth0`.
    pub link: String,
    /// What happened.
    pub problem: String,
    /// What to do next.
    pub advice: String,
    /// The error of the system behind it, if there is one.
    #[source]
    pub source: Option<std::io::Error>,
    /// True if a missing privilege is the reason.
    pub privilege: bool,
}

impl LinkError {
    /// True if something else holds what the link needs alone: another program on the interface,
    /// another socket on its queue.
    pub fn is_taken(&self) -> bool {
        let code = self.source.as_ref().and_then(std::io::Error::raw_os_error);
        matches!(code, Some(libc::EBUSY | libc::EEXIST | libc::EADDRINUSE))
    }
}

/// A way to move frames. See the crate's text.
pub trait Link: Send {
    /// What this link can do.
    fn capabilities(&self) -> &Capabilities;

    /// Sends frames in order and returns how many were *taken*. Fewer than given means that the
    /// link is full now: offer the rest later. A frame that can never be sent is counted
    /// (`send_refused`) and counts as taken: reliability is the firmware's.
    ///
    /// Frames of up to [`Capabilities::sent_bytes_max`] bytes are sent, and those that a link once said it carries even after
    /// it has found out that it does not any more, as well as it can. What lies in the parts of a frame is
    /// read during the call, but for one thing: of a frame longer than `frame_bytes_max` those parts that follow the first, from
    /// the first of a page (4096 bytes) or more on, may be read until the receiver has the frame. Who changes them sooner makes it
    /// a frame with a wrong checksum, no worse: one whose payload is under none (`CRC-3`) is copied.
    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize;

    /// As [`send`](Self::send), of one frame, and nothing that lies in its parts is read after the call. True if it was taken. Links
    /// that read nothing later, or know how not to, need not have it in one piece for that.
    fn send_lent(&mut self, frame: &TxFrame<'_>) -> bool {
        let mut whole = Vec::with_capacity(frame.len());
        frame.parts.iter().for_each(|part| whole.extend_from_slice(part));
        self.send(&[TxFrame { to: frame.to, parts: &[IoSlice::new(&whole)] }]) != 0
    }

    /// Hands up to `budget` received frames to `sink` with the address they came from; returns how
    /// many. Never blocks.
    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize;

    /// As [`receive`](Self::receive), and where the link can, the kernel puts the payload of trains straight where the sink
    /// wants it. Every frame still reaches the sink, one way or the other; a train whose front was placed comes whole,
    /// beyond the budget if need be. Wrappers that must see whole frames don't pass this on.
    fn receive_into(&mut self, budget: usize, sink: &mut dyn FrameSink) -> usize {
        self.receive(budget, &mut |frame, from| sink.frame(frame, from))
    }

    /// A descriptor that becomes readable when [`Link::receive`] has something, for `poll(2)`.
    /// `None`: must be polled by hand. Always the same one; but whoever sleeps on it must have
    /// called this or [`Link::next_due`] after the last `receive`: that tells a link whose peers
    /// wake it that they are to.
    fn readiness(&self) -> Option<BorrowedFd<'_>>;

    /// Sleeps until a frame is there (true) or `timeout` has passed (false). `None` waits without
    /// end.
    fn wait(&mut self, timeout: Option<Duration>) -> bool;

    /// How long from now until the link has something to do that [`Link::readiness`] cannot show:
    /// delayed frames of a wrapper are due, or (zero) received frames wait inside it. Callers' own
    /// sleeps must not last longer; `wait` knows. To be asked before each sleep.
    fn next_due(&self) -> Option<Duration> {
        None
    }

    /// Counts so far. May cost a system call.
    fn statistics(&self) -> LinkStatistics;

    /// What the interface is like now, if the link is bound to one. Costs a few system calls.
    fn condition(&mut self) -> Option<Condition<'_>> {
        None
    }

    /// What befell the link that people should know of, each thing once, as a line for a log. Counters tell how often.
    fn notice(&mut self) -> Option<String> {
        None
    }

    /// True if interfaces of the link's network namespace have changed, this one or others, since this was last asked. `None`: the link does not hear
    /// of that.
    fn interfaces_changed(&mut self) -> Option<bool> {
        None
    }

    /// True if whoever was at this address of the link is known to have ended: not that nothing is heard from there. Costs a few system calls.
    fn has_ended(&self, _address: &LinkAddress) -> bool {
        false
    }

    /// What reads the memory of peers on this machine, if the link's peers are there.
    fn peer_memory(&self) -> Option<Arc<PeerMemory>> {
        None
    }

    /// What a [`FaultLink`] in this stack of wrappers did; `None` if there is none.
    fn faults(&self) -> Option<FaultCounters> {
        None
    }
}

/// A boxed link is a link, so that wrappers wrap what was chosen at run time.
impl<L: Link + ?Sized> Link for Box<L> {
    fn capabilities(&self) -> &Capabilities {
        (**self).capabilities()
    }

    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        (**self).send(batch)
    }

    fn send_lent(&mut self, frame: &TxFrame<'_>) -> bool {
        (**self).send_lent(frame)
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        (**self).receive(budget, sink)
    }

    fn receive_into(&mut self, budget: usize, sink: &mut dyn FrameSink) -> usize {
        (**self).receive_into(budget, sink)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        (**self).readiness()
    }

    fn wait(&mut self, timeout: Option<Duration>) -> bool {
        (**self).wait(timeout)
    }

    fn next_due(&self) -> Option<Duration> {
        (**self).next_due()
    }

    fn statistics(&self) -> LinkStatistics {
        (**self).statistics()
    }

    fn condition(&mut self) -> Option<Condition<'_>> {
        (**self).condition()
    }

    fn notice(&mut self) -> Option<String> {
        (**self).notice()
    }

    fn interfaces_changed(&mut self) -> Option<bool> {
        (**self).interfaces_changed()
    }

    fn has_ended(&self, address: &LinkAddress) -> bool {
        (**self).has_ended(address)
    }

    fn peer_memory(&self) -> Option<Arc<PeerMemory>> {
        (**self).peer_memory()
    }

    fn faults(&self) -> Option<FaultCounters> {
        (**self).faults()
    }
}

/// In place of a node's tag: the link takes the frames of all nodes that have no link of their own on the interface. No node has this one
/// (`FRAME-3`).
pub const TAG_ANY: u16 = 0;

/// A link for the frames of several nodes, opened with [`TAG_ANY`]: whoever has it knows which they are.
pub trait Wire: Link {
    /// A frame came that is none of these nodes'. Its kernel may have handed it to the wrong socket, or need not hand up such at all.
    fn note_nobodys(&mut self, frame: &[u8]) {
        let _ = frame;
    }

    /// The node with this tag is one of these from now on.
    fn note_somebody(&mut self, tag: u16) {
        let _ = tag;
    }

    /// Another link of the interface has this tag's frames.
    fn is_taken(&self, tag: u16) -> bool {
        let _ = tag;
        false
    }
}

impl<W: Wire + ?Sized> Wire for Box<W> {
    fn note_nobodys(&mut self, frame: &[u8]) {
        (**self).note_nobodys(frame);
    }

    fn note_somebody(&mut self, tag: u16) {
        (**self).note_somebody(tag);
    }

    fn is_taken(&self, tag: u16) -> bool {
        (**self).is_taken(tag)
    }
}

/// True if a frame carries this node's destination tag, or everyone's. False for a stump without
/// one.
#[inline]
pub(crate) fn is_for(frame: &[u8], node_tag: u16) -> bool {
    tag_of(frame).is_some_and(|tag| tag == node_tag || tag == TAG_EVERYONE || node_tag == TAG_ANY)
}

/// A frame's destination tag, if it is long enough to have one.
#[inline]
#[must_use]
pub fn tag_of(frame: &[u8]) -> Option<u16> {
    let tag = frame.get(DESTINATION_TAG_OFFSET..)?.first_chunk()?;
    Some(u16::from_be_bytes(*tag))
}
