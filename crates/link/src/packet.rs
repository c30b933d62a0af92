//! Raw Ethernet frames through an AF_PACKET socket: a mapped receive ring that costs no system
//! call, and sends that bypass the queueing discipline. Needs CAP_NET_RAW.

mod demux;
mod filter;
mod follow;
mod group;
mod lender;
mod loan;
mod members;
mod open;
mod sender;
mod table;

pub use lender::{Lender, LoanNumber, LoanOptions, OrderLost, Watch};
pub use open::PacketOptions;
pub(crate) use open::refused;
pub use sender::PacketSender;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use emp_rings::PacketRing;
use emp_wire::{LinkAddress, is_search};

use crate::condition::Condition;
use crate::ethernet::Framing;
use crate::failure::SendFailure;
use crate::gather::{ETHERNET_HEADER_BYTES, Gather};
use crate::sink::Single;
use crate::stamps;
use crate::system::{self, Polled};
use crate::{
    Capabilities, FrameSink, Link, LinkError, LinkStatistics, TxFrame, Wire, is_for, tag_of,
};
use follow::Follower;
use group::Group;
use loan::Loan;

/// Most parts of one frame: a header, and a payload that a user's scatter list cuts into some more.
const PARTS_MAX: usize = 16;
/// Most frames in one `sendmmsg`. Beyond some dozens the cost of the call itself has vanished.
const BATCH_MAX: usize = 64;
/// Frames up to this many bytes (Ethernet header included) are copied together and go out through
/// `send`, which beats `sendmsg` with a gather list by more than such a copy costs: 1,160 ns to 1,290 with a frame of 1,514 bytes
/// (AMD EPYC, veth), by 120 to 140 ns at every size up to that. Jumbo frames would take longer to copy than that.
const COPY_BYTES_MAX: usize = 1536;
/// A pending socket error (the interface went down) makes the descriptor permanently "ready".
/// Someone who polls it and finds nothing so many times in a row gets the error cleared. Rare
/// enough that the check's system call (0.1 µs) vanishes among the polls.
const EMPTY_POLLS_PER_CHECK: u32 = 4096;

/// The kind of a link by which a relay hears searches for nodes that are not here.
pub const SEARCHES: &str = "searches";

/// A link over raw Ethernet frames.
pub struct PacketLink {
    // Declared before the socket so that the ring is unmapped first.
    ring: PacketRing,
    socket: OwnedFd,
    group: Option<Group>,
    /// The socket is lent, by the service that made it a member of its group.
    loan: Option<Loan>,
    /// This node's tag.
    tag: u16,
    capabilities: Capabilities,
    framing: Framing,
    gather: Gather,
    /// Where small frames are put together.
    copied: Box<[u8; COPY_BYTES_MAX]>,
    counts: LinkStatistics,
    /// Frames dropped by the kernel: its counter is cleared by reading, so the sum is kept here.
    ring_drops: AtomicU64,
    empty_polls: u32,
    follower: Follower,
}

impl PacketLink {
    /// Opens the link on an interface that exists and is up.
    pub fn open(options: &PacketOptions) -> Result<Self, LinkError> {
        let opened = open::open(options)?;
        let (mtu, mac) = (opened.interface.mtu, opened.interface.mac.unwrap_or_default());
        let follower = Follower::new(options, opened.socket.as_fd(), mtu)
            .map_err(|error| open::refused(&open::name_of(options), "watching it", error))?;
        let capabilities = Capabilities {
            kind: if options.searches_only { SEARCHES } else { "packet" },
            interface: options.interface.clone(),
            frame_bytes_max: mtu,
            long_frame_bytes: 0,
            long_frames_held: 0,
            parts_max: PARTS_MAX,
            batch_max: BATCH_MAX,
            segmentation: false,
            sums: false,
            past_ip: false,
            broadcast: true,
            privileged: opened.loan.is_none(),
            // Nobody is to send there.
            address: match options.searches_only {
                true => LinkAddress::EVERYONE,
                false => LinkAddress::mac(mac),
            },
        };
        Ok(Self {
            ring: opened.ring,
            socket: opened.socket,
            group: opened.group,
            loan: opened.loan,
            tag: options.node_tag,
            capabilities,
            framing: Framing {
                mac,
                ethertype: options.ethertype,
                frame_bytes_max: mtu,
                parts_max: PARTS_MAX,
            },
            gather: Gather::new(BATCH_MAX, BATCH_MAX * (PARTS_MAX + 1) + 1),
            copied: Box::new([0; COPY_BYTES_MAX]),
            counts: LinkStatistics::default(),
            ring_drops: AtomicU64::new(0),
            empty_polls: 0,
            follower,
        })
    }

    /// This end's Ethernet address.
    pub fn mac(&self) -> [u8; 6] {
        self.framing.mac
    }

    /// Whether this node shares one look at each frame with the others of its interface.
    pub fn is_grouped(&self) -> bool {
        self.group.is_some()
    }

    /// Whether the socket is lent.
    pub fn is_lent(&self) -> bool {
        self.loan.is_some()
    }

    /// Frames that the receive ring holds.
    pub fn ring_slots(&self) -> usize {
        self.ring.shape().slots()
    }

    /// Sends a small frame as one contiguous piece. True if it was taken.
    #[inline]
    fn send_copied(&mut self, header: [u8; ETHERNET_HEADER_BYTES], frame: &TxFrame<'_>) -> bool {
        let bytes = &mut self.copied;
        bytes[..ETHERNET_HEADER_BYTES].copy_from_slice(&header);
        let mut length = ETHERNET_HEADER_BYTES;
        for part in frame.parts {
            bytes[length..length + part.len()].copy_from_slice(part);
            length += part.len();
        }
        loop {
            self.counts.send_calls += 1;
            match system::send(self.socket.as_fd(), &self.copied[..length]) {
                Ok(_) => {
                    self.counts.frames_sent += 1;
                    self.counts.bytes_sent += (length - ETHERNET_HEADER_BYTES) as u64;
                    return true;
                }
                Err(error) => match self.judge(&error) {
                    SendFailure::Again => {}
                    SendFailure::Full => return false,
                    SendFailure::Refused | SendFailure::Lost => return true,
                },
            }
        }
    }

    /// Gathers and sends the frames at the front of `batch` that fit into one call and are not
    /// refused. Returns how many were taken, and whether the link is full now.
    fn send_gathered(&mut self, batch: &[TxFrame<'_>]) -> (usize, bool) {
        // Taken out for the while, so that errors can be counted while messages are in it.
        let mut gather = std::mem::replace(&mut self.gather, Gather::new(0, 0));
        let mut filling = gather.fill();
        for frame in batch {
            let Some(header) = self.framing.header(frame, frame.len()) else { break };
            if !filling.has_room(frame.parts.len() + 1) {
                break;
            }
            filling.begin();
            filling.prefix(header);
            filling.parts(frame.parts);
        }
        let mut taken = 0;
        let mut full = false;
        while taken < filling.messages() && !full {
            self.counts.send_calls += 1;
            match filling.send(self.socket.as_fd(), taken) {
                Ok(sent) => {
                    for message in taken..taken + sent {
                        let bytes = filling.sent_bytes(message);
                        self.counts.bytes_sent += (bytes - ETHERNET_HEADER_BYTES) as u64;
                    }
                    self.counts.frames_sent += sent as u64;
                    taken += sent;
                }
                Err(error) => match self.judge(&error) {
                    SendFailure::Again => {}
                    SendFailure::Full => full = true,
                    SendFailure::Refused | SendFailure::Lost => taken += 1,
                },
            }
        }
        self.gather = gather;
        (taken, full)
    }

    /// Decides what a failed send means, and counts it.
    #[cold]
    fn judge(&mut self, error: &io::Error) -> SendFailure {
        let mut failure = SendFailure::of(error);
        // Past the queueing discipline, a missing carrier reads as "no room". Waiting for room
        // would then be waiting for a cable: such frames are lost, as they would be on a broken
        // one.
        if error.raw_os_error() == Some(libc::ENOBUFS) && !self.has_carrier() {
            failure = SendFailure::Lost;
        }
        match failure {
            SendFailure::Full => self.counts.send_full += 1,
            SendFailure::Refused => self.counts.send_refused += 1,
            SendFailure::Lost => {
                self.counts.system_errors += 1;
                self.follower.suspect();
            }
            SendFailure::Again => {}
        }
        failure
    }

    fn has_carrier(&self) -> bool {
        system::interface_flags(self.socket.as_fd(), &self.capabilities.interface)
            .is_ok_and(|flags| flags & libc::IFF_RUNNING != 0)
    }

    /// A frame came here that is for another node. Its kernel had to pick a member for what is nobody's; or it picked the wrong
    /// one.
    #[cold]
    fn note_stray(&mut self, (tag, greeting): (u16, bool)) {
        if let Some(group) = &mut self.group {
            group.stray(self.socket.as_fd(), tag, greeting);
        }
    }

    /// Something else woke who slept: a change of the interface, or an error, which would wake it for ever.
    #[cold]
    fn woken_by_no_frame(&mut self) {
        self.follower.listen();
        if system::take_error(self.socket.as_fd()).is_some() {
            self.counts.system_errors += 1;
            self.follower.suspect();
        }
    }

    #[inline]
    fn note_empty_poll(&mut self) {
        self.empty_polls += 1;
        if self.empty_polls >= EMPTY_POLLS_PER_CHECK {
            self.empty_polls = 0;
            let pending = system::take_error(self.socket.as_fd()).is_some();
            self.counts.system_errors += u64::from(pending);
        }
    }
}

impl Wire for PacketLink {
    fn note_nobodys(&mut self, frame: &[u8]) {
        if let Some(tag) = tag_of(frame) {
            self.note_stray((tag, filter::is_greeting(frame)));
        }
    }

    fn note_somebody(&mut self, tag: u16) {
        if let Some(group) = &mut self.group {
            group.take(self.socket.as_fd(), tag);
        }
    }

    fn is_taken(&self, tag: u16) -> bool {
        self.group.as_ref().is_some_and(|group| group.has_member(tag))
    }
}

impl Drop for PacketLink {
    fn drop(&mut self) {
        if let Some(group) = &mut self.group {
            // Failing means that the table names one member too many until another change finds its lock free.
            let _ = group.leave(self.socket.as_fd());
        }
    }
}

impl Link for PacketLink {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        let mut taken = 0;
        while let Some(frame) = batch.get(taken) {
            let bytes = frame.len();
            let Some(header) = self.framing.header(frame, bytes) else {
                self.counts.send_refused += 1;
                taken += 1;
                continue;
            };
            let last = taken + 1 == batch.len();
            if last && bytes + ETHERNET_HEADER_BYTES <= COPY_BYTES_MAX {
                return taken + usize::from(self.send_copied(header, frame));
            }
            let (more, full) = self.send_gathered(&batch[taken..]);
            taken += more;
            if full {
                break;
            }
        }
        taken
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        self.receive_into(budget, &mut Single(sink))
    }

    fn receive_into(&mut self, budget: usize, sink: &mut dyn FrameSink) -> usize {
        // That of the last call: of this one's last frame it would delay what the program does with it.
        self.ring.give_back();
        let mut handed = 0;
        let mut stray = None;
        let asks = sink.asks_what_waited();
        let (counts, own_tag) = (&mut self.counts, self.tag);
        let searches_only = self.capabilities.kind == SEARCHES;
        for _ in 0..budget {
            let looked = self.ring.take(|frame| {
                let Some((header, bytes)) =
                    frame.bytes.split_first_chunk::<ETHERNET_HEADER_BYTES>()
                else {
                    counts.receive_lost += 1;
                    return;
                };
                if frame.truncated() {
                    counts.receive_lost += 1;
                    return;
                }
                if searches_only && !is_search(bytes) {
                    return;
                }
                if !is_for(bytes, own_tag) {
                    stray = tag_of(bytes).map(|tag| (tag, filter::is_greeting(bytes))).or(stray);
                    return;
                }
                let [_, _, _, _, _, _, a, b, c, d, e, f, ..] = *header;
                counts.frames_received += 1;
                counts.bytes_received += bytes.len() as u64;
                handed += 1;
                if asks {
                    stamps::tell(sink, frame.stamp());
                }
                sink.frame(bytes, &LinkAddress::mac([a, b, c, d, e, f]));
            });
            if looked.is_none() {
                break;
            }
        }
        if let Some(stray) = stray {
            self.note_stray(stray);
        }
        if handed == 0 {
            self.note_empty_poll();
            if self.follower.looks_why_awake() {
                self.woken_by_no_frame();
            }
        } else {
            self.empty_polls = 0;
        }
        handed
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.ring.give_back();
        self.follower.note_sleep();
        Some(self.follower.descriptor())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> bool {
        if self.ring.ready() {
            return true;
        }
        let counts = &mut self.counts;
        let polled =
            system::poll_until(self.socket.as_fd(), timeout, |_| counts.system_errors += 1);
        polled == Polled::Readable
    }

    /// Zero while a change of the interface waits to be looked at. Also gives the last frame's slot back, without which the descriptor stays
    /// readable.
    fn next_due(&self) -> Option<Duration> {
        self.ring.give_back();
        self.follower.note_sleep();
        self.follower.is_due().then_some(Duration::ZERO)
    }

    /// Also binds the link again where another interface has the name now, and takes its address.
    fn condition(&mut self) -> Option<Condition<'_>> {
        self.follow();
        let Capabilities { interface, frame_bytes_max, .. } = &self.capabilities;
        Some(self.follower.condition(interface, *frame_bytes_max))
    }

    fn interfaces_changed(&mut self) -> Option<bool> {
        self.follower.take_news()
    }

    fn notice(&mut self) -> Option<String> {
        self.follower.take_notice()
    }

    /// One system call: asks the kernel for its count of frames that found the ring full.
    fn statistics(&self) -> LinkStatistics {
        let drops = PacketRing::drops_since_last(self.socket.as_fd()).unwrap_or(0);
        let before = self.ring_drops.fetch_add(u64::from(drops), Ordering::Relaxed);
        let mut counts = self.counts;
        counts.receive_lost += before + u64::from(drops);
        counts
    }
}
