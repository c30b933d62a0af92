//! EMP frames in UDP datagrams, IPv4 or IPv6: needs no privilege, crosses routers, and moves bulk
//! faster than raw frames because the kernel cuts (`UDP_SEGMENT`) and merges (`UDP_GRO`) trains.

mod copy_or_splice;
mod fetching;
mod inbox;
mod leaving;
mod long;
mod multicast;
mod open;
mod past_ip;
mod receive;
mod scatter;
mod send;
mod send_only;
mod splice;
mod splice_test;
mod train;

pub use open::UdpOptions;

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use emp_wire::{AddressFamily, LinkAddress};

use crate::condition::{self, Condition};
use crate::gather::Gather;
use crate::sink::Single;
use crate::stamps;
use crate::system::{self, Polled};
use crate::{Capabilities, FrameSink, Link, LinkError, LinkStatistics, TxFrame};
use fetching::Fetching;
use inbox::Inbox;
use long::Long;
use multicast::Group;
use open::{Owner, SEGMENTS_MAX};
use past_ip::PastIp;
use receive::Looked;
use scatter::{Scatter, Seen};
use send_only::SendOnly;

/// Most parts of one frame: 64 frames of a train with 16 parts each are the kernel's 1024.
const PARTS_MAX: usize = 16;
/// Most frames in one send: two full trains of 64, so that one is put together while the device
/// still works on the other.
const BATCH_MAX: usize = 128;
/// Lone frames up to this many bytes, which are those of the usual MTU, are copied together and go out through `sendto`, which beats
/// `sendmsg` with a gather list by 0.14 µs; such a copy costs 0.03.
const COPY_BYTES_MAX: usize = 1536;
/// `getsockopt` that reports socket memory (since Linux 4.12) and the place of the drop count in
/// it.
const SO_MEMINFO: libc::c_int = 55;
const MEMINFO_DROPS: usize = 8;

/// How often what a fetch brought is offered as a train: whole, after its first frame (a message's, which says where the others
/// go), and after what was not as expected.
const OFFERS_MAX: u32 = 4;

/// A link over UDP.
pub struct UdpLink {
    socket: OwnedFd,
    capabilities: Capabilities,
    local: SocketAddr,
    peers: Vec<SocketAddr>,
    /// Where it looks for nodes that nobody told it of.
    group: Group,
    node_tag: u16,
    /// Most frames of one segmented send; 1 where the kernel or the card cannot.
    segments_max: usize,
    /// The interface that owns the address.
    interface: Option<Owner>,
    /// The number of the interface that all leaves by. `None`: of that to which the kernel's routes lead.
    leaves_by: Option<u32>,
    /// The interface's MTU when it was last looked at, and as many frames as one send could have when the link was opened.
    mtu: usize,
    /// When it is looked for again after it was found to be gone.
    look_again: Option<Instant>,
    segments_once: usize,
    /// Trains in a row that the kernel did not take as such.
    doubts: u32,
    /// Sends since segmentation was given up.
    sends_alone: u32,
    /// The next call sends frames one by one.
    alone: bool,
    long: Long,
    /// Sockets of peers that are sent to often. `None`: they cannot be had.
    send_only: Option<SendOnly>,
    /// Where a frame's parts are put together.
    copy: Box<[u8; COPY_BYTES_MAX]>,
    /// `None`: nothing leaves past IP.
    past_ip: Option<PastIp>,
    gather: Gather,
    inbox: Inbox,
    /// Next message of the inbox to hand up, and the offset in it.
    next: (usize, usize),
    fetching: Fetching,
    /// `None`: the kernel cannot write where payload would go.
    scatter: Option<Scatter>,
    /// What the next train to be placed will be, if it follows the last one.
    expected: Option<Seen>,
    /// Frames that are still looked at first, as one that was expected was not what came.
    looks: u32,
    counts: LinkStatistics,
}

/// What a long frame takes of a receive buffer, in bytes: each of its 42 datagrams has half a page where most cards receive it, which
/// is 97 KB with the kernel's own part, and a page where others do, which is 180. Between the two, as one sender seldom fills it.
const LONG_FRAME_HELD_BYTES: usize = 128 << 10;
/// Trains that must fail in a row before segmentation counts as impossible here: one may have had a bad address, which the
/// kernel reports by the same error.
const DOUBTS_MAX: u32 = 4;
/// Sends after which segmentation that was given up is tried again, once: a path's MTU may be as long as it was, and one call
/// that fails among so many costs nothing.
const RETRY_SEGMENTS_SENDS: u32 = 4096;

/// How often an interface is looked for that is gone: to ask for one that is not there may have the kernel look for its driver.
const LOOK_EVERY_GONE: Duration = Duration::from_millis(250);

impl UdpLink {
    /// Opens the link.
    pub fn open(options: &UdpOptions) -> Result<Self, LinkError> {
        let opened = open::open(options)?;
        let segments = opened.segments_max > 1;
        let most = opened.frame_bytes_max;
        let past_ip =
            options.past_ip.then(|| PastIp::open(opened.local, opened.leaves_by)).flatten();
        let long = Long::new(most, opened.datagram_bytes().min(most), segments);
        let looks = options.multicast && opened.local.ip().is_unspecified();
        let group =
            if looks { Group::join(opened.socket.as_fd(), opened.local) } else { Group::default() };
        let capabilities = Capabilities {
            kind: "udp",
            interface: opened.local.to_string(),
            frame_bytes_max: most,
            long_frame_bytes: long.bytes(segments),
            long_frames_held: opened.receive_bytes / LONG_FRAME_HELD_BYTES,
            parts_max: PARTS_MAX,
            batch_max: BATCH_MAX,
            segmentation: segments,
            sums: true,
            past_ip: past_ip.is_some() && long.bytes(segments) > 0,
            broadcast: group.is_joined() || !options.peers.is_empty(),
            privileged: false,
            address: LinkAddress::udp(opened.local),
        };
        Ok(Self {
            socket: opened.socket,
            capabilities,
            local: opened.local,
            peers: options.peers.clone(),
            group,
            node_tag: options.node_tag,
            segments_max: opened.segments_max,
            interface: opened.interface,
            leaves_by: opened.leaves_by,
            mtu: opened.mtu,
            look_again: None,
            segments_once: opened.segments_max,
            doubts: 0,
            sends_alone: 0,
            alone: false,
            long,
            send_only: SendOnly::open(opened.local, opened.leaves_by).ok(),
            copy: Box::new([0; COPY_BYTES_MAX]),
            past_ip,
            gather: Gather::new(BATCH_MAX, BATCH_MAX * PARTS_MAX + 1),
            inbox: Inbox::new(),
            next: (0, 0),
            fetching: Fetching::default(),
            scatter: Some(Scatter::new()),
            expected: None,
            looks: 0,
            counts: LinkStatistics::default(),
        })
    }

    /// The address and port that the socket is bound to.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// All sockets that frames leave by.
    #[cfg(test)]
    fn sending_sockets(&self) -> Vec<BorrowedFd<'_>> {
        let peers = self.send_only.iter().flat_map(SendOnly::sockets);
        peers.chain([self.socket.as_fd()]).collect()
    }

    /// Replaces the peers that a frame to everyone goes to.
    pub fn set_peers(&mut self, peers: Vec<SocketAddr>) {
        self.peers = peers;
    }
}

impl Link for UdpLink {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        let mut taken = 0;
        while let Some(frame) = batch.get(taken) {
            if frame.to.family() == AddressFamily::Everyone {
                self.send_to_everyone(frame);
                taken += 1;
                continue;
            }
            let bytes = frame.len();
            let Some(to) = self.destination(frame, bytes) else {
                self.counts.send_refused += 1;
                taken += 1;
                continue;
            };
            if bytes > self.capabilities.frame_bytes_max {
                if !self.send_long(to, frame, bytes, true) {
                    break;
                }
                taken += 1;
                continue;
            }
            let last = taken + 1 == batch.len();
            if last {
                return taken + usize::from(self.send_lone(to, frame, bytes));
            }
            let (more, full) = self.send_trains(&batch[taken..]);
            taken += more;
            if full {
                break;
            }
        }
        taken
    }

    fn send_lent(&mut self, frame: &TxFrame<'_>) -> bool {
        let bytes = frame.len();
        match self.destination(frame, bytes) {
            Some(to) if bytes > self.capabilities.frame_bytes_max => {
                self.send_long(to, frame, bytes, false)
            }
            _ => self.send(std::slice::from_ref(frame)) != 0,
        }
    }

    /// One system call at most, but for now and then: a caller that polls gets a lone frame for one call.
    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        if budget == 0 || (!self.holds_frames() && !self.fetch()) {
            return self.hear_group(budget, &mut Single(sink));
        }
        self.hand_up(budget, &mut Single(sink))
    }

    /// After a long message, and if the sink wants any, a look (one more system call) tells whether a train waits, and of what.
    fn receive_into(&mut self, budget: usize, sink: &mut dyn FrameSink) -> usize {
        if self.fetching.after_long && !self.holds_frames() && budget > 0 && sink.lands() {
            match self.place_train(sink) {
                Looked::Handed(frames) => return frames,
                Looked::Empty => return self.hear_group(budget, sink),
                Looked::Usual => {}
            }
        }
        if budget == 0 || (!self.holds_frames() && !self.fetch()) {
            return self.hear_group(budget, sink);
        }
        stamps::tell_of_last(sink, self.socket.as_fd());
        self.hand_up(budget, sink)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        Some(self.group.readiness().unwrap_or_else(|| self.socket.as_fd()))
    }

    fn wait(&mut self, timeout: Option<Duration>) -> bool {
        if self.holds_frames() {
            return true;
        }
        let on = self.group.readiness().unwrap_or_else(|| self.socket.as_fd());
        let counts = &mut self.counts;
        let polled = system::poll_until(on, timeout, |_| counts.system_errors += 1);
        polled == Polled::Readable
    }

    /// Zero while the rest of a merged train waits in this link, where no descriptor can show it.
    fn next_due(&self) -> Option<Duration> {
        let _ = self.group.readiness();
        self.holds_frames().then_some(Duration::ZERO)
    }

    /// Where the MTU has changed, segmented sends are tried again: the kernel refuses them as long as frames are longer than that.
    fn condition(&mut self) -> Option<Condition<'_>> {
        self.follow_interface();
        let Owner { name: interface, headers, .. } = self.interface.as_ref()?;
        let most = self.capabilities.frame_bytes_max;
        let now = Instant::now();
        if self.look_again.is_some_and(|at| now < at) {
            return Some(Condition::gone(interface, *headers, most));
        }
        let condition = condition::condition(self.socket.as_fd(), interface, *headers, most);
        self.look_again = condition.is_gone().then_some(now + LOOK_EVERY_GONE);
        if condition.mtu != self.mtu {
            (self.mtu, self.doubts, self.segments_max) = (condition.mtu, 0, self.segments_once);
            self.long.cut_to(condition.frame_bytes_max);
            let segments = self.segments_once > 1;
            self.capabilities.segmentation = segments;
            self.capabilities.long_frame_bytes = self.long.bytes(segments);
        }
        Some(condition)
    }

    fn notice(&mut self) -> Option<String> {
        let notice = self.long.take_notice()?;
        Some(format!("udp on {}: {notice}", self.capabilities.interface))
    }

    /// One system call: asks the kernel how many datagrams the full socket buffer cost.
    fn statistics(&self) -> LinkStatistics {
        let mut memory = [0u32; MEMINFO_DROPS + 1];
        let fd = self.socket.as_fd();
        let known = system::get_option(fd, libc::SOL_SOCKET, SO_MEMINFO, &mut memory).is_ok();
        let mut counts = self.counts;
        counts.receive_lost += if known { u64::from(memory[MEMINFO_DROPS]) } else { 0 };
        counts
    }
}

#[cfg(test)]
mod tests;
