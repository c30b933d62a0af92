//! EMP frames in UDP datagrams, IPv4 or IPv6: needs no privilege, crosses routers, and moves bulk
//! faster than raw frames because the kernel cuts (`UDP_SEGMENT`) and merges (`UDP_GRO`) trains.

mod inbox;
mod open;
mod scatter;
mod train;

pub use open::UdpOptions;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use emp_wire::{AddressFamily, HEADER_BYTES, LinkAddress};

use crate::condition::{self, Condition};
use crate::failure::SendFailure;
use crate::gather::{Filling, Gather};
use crate::name::SocketName;
use crate::sink::Single;
use crate::system::{self, Polled};
use crate::{Capabilities, FrameSink, Link, LinkError, LinkStatistics, TxFrame, is_for};
use inbox::Inbox;
use scatter::{Fetched, PLACED_MAX, Scatter};

/// Most parts of one frame: 64 frames of a train with 16 parts each are the kernel's 1024.
const PARTS_MAX: usize = 16;
/// Most frames in one send: two full trains of 64, so that one is put together while the device
/// still works on the other.
const BATCH_MAX: usize = 128;
/// Frames up to this many bytes are copied together and go out through `sendto`, which beats
/// `sendmsg` with a gather list by more than such a copy costs.
const COPY_BYTES_MAX: usize = 512;
/// Datagrams shorter than this, in bytes, are fetched several to a call when they come thick: there
/// the call costs more than the copy. For longer ones it does not matter, and fetching one by one
/// keeps the working set small.
const FETCH_MANY_BELOW_BYTES: usize = 8192;
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
    node_tag: u16,
    /// Most frames of one segmented send; 1 where the kernel or the card cannot.
    segments_max: usize,
    /// The interface that owns the address, and the bytes that IP and UDP take of its MTU.
    interface: Option<(String, usize)>,
    /// The interface's MTU when it was last looked at, and as many frames as one send could have when the link was opened.
    mtu: usize,
    segments_once: usize,
    /// Trains in a row that the kernel did not take as such.
    doubts: u32,
    /// Sends since segmentation was given up.
    sends_alone: u32,
    /// The next call sends frames one by one.
    alone: bool,
    gather: Gather,
    inbox: Inbox,
    /// Next message of the inbox to hand up, and the offset in it.
    next: (usize, usize),
    /// Fetches in a row that found something short.
    short_fetches: u32,
    /// What was fetched last was long: a train may follow, worth a look before it is fetched.
    after_long: bool,
    /// `None`: the kernel cannot write where payload would go.
    scatter: Option<Scatter>,
    counts: LinkStatistics,
}

/// Trains that must fail in a row before segmentation counts as impossible here: one may have had a bad address, which the
/// kernel reports by the same error.
const DOUBTS_MAX: u32 = 4;
/// Sends after which segmentation that was given up is tried again, once: a path's MTU may be as long as it was, and one call
/// in vain among so many costs nothing.
const RETRY_SEGMENTS_SENDS: u32 = 4096;

impl UdpLink {
    /// Opens the link.
    pub fn open(options: &UdpOptions) -> Result<Self, LinkError> {
        let opened = open::open(options)?;
        let capabilities = Capabilities {
            kind: "udp",
            interface: opened.local.to_string(),
            frame_bytes_max: opened.frame_bytes_max,
            long_frame_bytes: 0,
            parts_max: PARTS_MAX,
            batch_max: BATCH_MAX,
            segmentation: opened.segments_max > 1,
            broadcast: false,
            privileged: false,
            address: LinkAddress::udp(opened.local),
        };
        Ok(Self {
            socket: opened.socket,
            capabilities,
            local: opened.local,
            peers: options.peers.clone(),
            node_tag: options.node_tag,
            segments_max: opened.segments_max,
            interface: opened.interface,
            mtu: opened.mtu,
            segments_once: opened.segments_max,
            doubts: 0,
            sends_alone: 0,
            alone: false,
            gather: Gather::new(BATCH_MAX, BATCH_MAX * PARTS_MAX + 1),
            inbox: Inbox::new(),
            next: (0, 0),
            short_fetches: 0,
            after_long: false,
            scatter: Some(Scatter::new()),
            counts: LinkStatistics::default(),
        })
    }

    /// The address and port that the socket is bound to.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Replaces the peers that a frame to everyone goes to.
    pub fn set_peers(&mut self, peers: Vec<SocketAddr>) {
        self.peers = peers;
    }

    /// The address of a frame, or `None` if the frame can never be sent.
    #[inline]
    fn destination(&self, frame: &TxFrame<'_>, bytes: usize) -> Option<SocketAddr> {
        let fits = (1..=self.capabilities.frame_bytes_max).contains(&bytes);
        if !fits || frame.parts.len() > PARTS_MAX {
            return None;
        }
        frame.to.as_udp().filter(|to| to.is_ipv4() == self.local.is_ipv4())
    }

    /// Sends a copy of the frame to every configured peer. Copies that find no room are lost:
    /// frames to everyone only look for nodes, and are repeated.
    fn send_to_everyone(&mut self, frame: &TxFrame<'_>) {
        for index in 0..self.peers.len() {
            let to = LinkAddress::udp(self.peers[index]);
            let copy = TxFrame { to, parts: frame.parts };
            if self.destination(&copy, copy.len()).is_none() {
                self.counts.send_refused += 1;
                continue;
            }
            self.send_trains(&[copy]);
        }
    }

    /// Sends a small frame as one contiguous piece. True if it was taken.
    #[inline]
    fn send_copied(&mut self, to: SocketAddr, frame: &TxFrame<'_>) -> bool {
        let mut bytes = [0; COPY_BYTES_MAX];
        let mut length = 0;
        for part in frame.parts {
            bytes[length..length + part.len()].copy_from_slice(part);
            length += part.len();
        }
        let name = SocketName::of(to);
        loop {
            self.counts.send_calls += 1;
            match system::send_to(self.socket.as_fd(), &bytes[..length], &name) {
                Ok(_) => {
                    self.counts.frames_sent += 1;
                    self.counts.bytes_sent += length as u64;
                    return true;
                }
                Err(error) => match self.judge(&error, 1) {
                    SendFailure::Again => {}
                    SendFailure::Full => return false,
                    SendFailure::Refused | SendFailure::Lost => return true,
                },
            }
        }
    }

    /// Gathers the frames at the front of `batch` into trains and sends them, as far as they fit
    /// into one call and are not refused. Returns how many frames were taken, and whether the link
    /// is full.
    fn send_trains(&mut self, batch: &[TxFrame<'_>]) -> (usize, bool) {
        if self.segments_max < self.segments_once {
            self.sends_alone += 1;
            if self.sends_alone >= RETRY_SEGMENTS_SENDS {
                (self.sends_alone, self.doubts) = (0, DOUBTS_MAX - 1);
                self.segments_max = self.segments_once;
            }
        }
        // Taken out for the while, so that errors can be counted while messages are in it.
        let mut gather = std::mem::replace(&mut self.gather, Gather::new(0, 0));
        let mut filling = gather.fill();
        let mut frames_of = [0u8; BATCH_MAX];
        self.fill_trains(&mut filling, &mut frames_of, batch);
        self.alone = false;
        let mut left = &frames_of[..filling.messages()];
        let (mut taken, mut full) = (0, false);
        while !left.is_empty() && !full {
            let at = filling.messages() - left.len();
            let frames = usize::from(left[0]);
            self.counts.send_calls += 1;
            match filling.send(self.socket.as_fd(), at) {
                Ok(sent) => {
                    let (gone, rest) = left.split_at(sent.min(left.len()));
                    for (message, frames) in gone.iter().enumerate() {
                        self.counts.bytes_sent += filling.sent_bytes(at + message) as u64;
                        self.counts.frames_sent += u64::from(*frames);
                        taken += usize::from(*frames);
                        if *frames > 1 {
                            self.doubts = 0;
                            self.capabilities.segmentation = true;
                        }
                    }
                    left = rest;
                }
                Err(error) if frames > 1 && cannot_segment(&error) => {
                    // The caller comes back with the same frames, which now go one by one.
                    self.alone = true;
                    self.doubts += 1;
                    if self.doubts >= DOUBTS_MAX {
                        self.segments_max = 1;
                        self.capabilities.segmentation = false;
                    }
                    self.counts.system_errors += 1;
                    break;
                }
                Err(error) => match self.judge(&error, frames) {
                    SendFailure::Again => {}
                    SendFailure::Full => full = true,
                    SendFailure::Refused | SendFailure::Lost => {
                        taken += frames;
                        left = &left[1..];
                    }
                },
            }
        }
        self.gather = gather;
        (taken, full)
    }

    /// Makes one message of each train at the front of `batch`, and notes its number of frames.
    fn fill_trains<'a>(
        &self,
        filling: &mut Filling<'_, 'a>,
        frames_of: &mut [u8; BATCH_MAX],
        batch: &[TxFrame<'a>],
    ) {
        let mut rest = batch;
        let segments_max = if self.alone { 1 } else { self.segments_max };
        while let Some(first) = rest.first() {
            let Some(to) = self.destination(first, first.len()) else { break };
            let train = train::longest(rest, segments_max);
            if !filling.has_room(train.parts) {
                break;
            }
            frames_of[filling.messages()] = train.frames as u8;
            filling.begin();
            filling.name(&SocketName::of(to));
            if train.frames > 1 {
                filling.segment(train.frame_bytes as u16);
            }
            let (frames, others) = rest.split_at(train.frames);
            for frame in frames {
                filling.parts(frame.parts);
            }
            rest = others;
        }
    }

    /// Decides what the failed send of so many frames means, and counts it.
    #[cold]
    fn judge(&mut self, error: &io::Error, frames: usize) -> SendFailure {
        let failure = SendFailure::of(error);
        match failure {
            SendFailure::Full => self.counts.send_full += 1,
            SendFailure::Refused => self.counts.send_refused += frames as u64,
            SendFailure::Lost => self.counts.system_errors += frames as u64,
            SendFailure::Again => {}
        }
        failure
    }

    /// True if the inbox holds something that was not handed up yet.
    fn holds_frames(&self) -> bool {
        self.next.0 < self.inbox.filled()
    }

    /// Refills the inbox. False if nothing was there.
    fn fetch(&mut self) -> bool {
        self.counts.receive_calls += 1;
        self.next = (0, 0);
        // A lone frame is followed by nothing: only the third in a row is worth the larger call.
        let many = self.short_fetches >= 2;
        match self.inbox.fetch(self.socket.as_fd(), many) {
            Ok(()) => {
                let first = self.inbox.message(0);
                let short = first.is_some_and(|first| first.bytes.len() < FETCH_MANY_BELOW_BYTES);
                self.short_fetches = if short { self.short_fetches.saturating_add(1) } else { 0 };
                self.after_long = !short;
                true
            }
            Err(error) => {
                self.short_fetches = 0;
                if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) {
                    self.counts.system_errors += 1;
                }
                false
            }
        }
    }

    /// Hands up to `budget` frames out of the inbox to `sink`; a train that it takes in one go may go beyond that.
    fn hand_up(&mut self, budget: usize, sink: &mut dyn FrameSink) -> usize {
        let mut handed = 0;
        while let Some(message) = self.inbox.message(self.next.0) {
            let from = message.name.decode().map(LinkAddress::udp);
            let usable = from.filter(|_| !message.truncated);
            let Some(from) = usable else {
                self.counts.receive_lost += 1;
                self.next = (self.next.0 + 1, 0);
                continue;
            };
            let frame_bytes = message.segment_bytes;
            let mut offers = OFFERS_MAX;
            while self.next.1 < message.bytes.len() && handed < budget {
                let rest = &message.bytes[self.next.1..];
                if rest.len() > frame_bytes && offers > 0 {
                    offers -= 1;
                    let taken = sink.train(rest, frame_bytes, &from).min(rest.len());
                    if taken > 0 {
                        let frames = taken.div_ceil(frame_bytes);
                        self.counts.frames_received += frames as u64;
                        self.counts.bytes_received += taken as u64;
                        (self.next.1, handed) = (self.next.1 + taken, handed + frames);
                        continue;
                    }
                }
                let frame = &rest[..frame_bytes.min(rest.len())];
                self.next.1 += frame.len();
                if is_for(frame, self.node_tag) {
                    self.counts.frames_received += 1;
                    self.counts.bytes_received += frame.len() as u64;
                    handed += 1;
                    sink.frame(frame, &from);
                } else {
                    self.counts.not_for_us += 1;
                }
            }
            if self.next.1 < message.bytes.len() {
                break;
            }
            self.next = (self.next.0 + 1, 0);
        }
        handed
    }
}

/// How a look at what waits ended.
enum Looked {
    /// So many frames were handed up.
    Handed(usize),
    /// There is nothing.
    Empty,
    /// What waits is to be fetched the usual way.
    Usual,
}

impl UdpLink {
    /// Hands up the train that waits, its payload placed where the sink wants it.
    /// How many frames the caller wants does not matter: it has asked for these.
    fn place_train(&mut self, sink: &mut dyn FrameSink) -> Looked {
        let Some(scatter) = &mut self.scatter else { return Looked::Usual };
        self.counts.receive_calls += 1;
        let train = match scatter.look(self.socket.as_fd()) {
            Ok(Some(train)) => train,
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => return Looked::Empty,
            Ok(None) | Err(_) => return Looked::Usual,
        };
        let Some(landing) = sink.landing(&train) else { return Looked::Usual };
        let frames = train.frames_with(landing.len());
        let Some(frames) = frames.filter(|frames| *frames <= PLACED_MAX) else {
            return Looked::Usual;
        };
        let placed_bytes = landing.len() + frames * HEADER_BYTES;
        self.counts.receive_calls += 1;
        let got = match scatter.fetch(self.socket.as_fd(), &train, frames, landing) {
            Ok(got) => got,
            Err(error) => {
                if error.raw_os_error() == Some(libc::EFAULT) {
                    // The user's memory is not what it was said to be: whoever copies there will find out.
                    self.scatter = None;
                }
                self.counts.system_errors += 1;
                return Looked::Handed(0);
            }
        };
        self.after_long = got.bytes >= FETCH_MANY_BELOW_BYTES;
        if got.as_seen {
            self.counts.frames_received += frames as u64;
            self.counts.bytes_received += placed_bytes as u64;
            sink.landed(&train, scatter.heads(frames));
            let rest = scatter.rest(train.bytes - placed_bytes);
            let others = hand_up_all(&mut self.counts, self.node_tag, rest, &got, sink);
            return Looked::Handed(frames + others);
        }
        // Another one: the one that was seen failed its checksum, which the kernel looks at late.
        let whole = scatter.gather(&train, frames, landing, &got);
        Looked::Handed(hand_up_all(&mut self.counts, self.node_tag, &whole, &got, sink))
    }
}

/// Hands up frames that lie one after the other.
fn hand_up_all(
    counts: &mut LinkStatistics,
    node_tag: u16,
    bytes: &[u8],
    got: &Fetched,
    sink: &mut dyn FrameSink,
) -> usize {
    let Some(from) = got.from.filter(|_| !got.truncated) else {
        counts.receive_lost += 1;
        return 0;
    };
    let mut handed = 0;
    for frame in bytes.chunks(got.frame_bytes) {
        if is_for(frame, node_tag) {
            counts.frames_received += 1;
            counts.bytes_received += frame.len() as u64;
            handed += 1;
            sink.frame(frame, &from);
        } else {
            counts.not_for_us += 1;
        }
    }
    handed
}

/// What the kernel says when the card cannot do checksums, or the kernel not so many segments, or when they are longer than the
/// interface takes now.
fn cannot_segment(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE))
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
            let last = taken + 1 == batch.len();
            if last && bytes <= COPY_BYTES_MAX {
                return taken + usize::from(self.send_copied(to, frame));
            }
            let (more, full) = self.send_trains(&batch[taken..]);
            taken += more;
            if full {
                break;
            }
        }
        taken
    }

    /// One system call at most: a caller that polls gets a lone frame for one call.
    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        if budget == 0 || (!self.holds_frames() && !self.fetch()) {
            return 0;
        }
        self.hand_up(budget, &mut Single(sink))
    }

    /// After a long message, and if the sink wants any, a look (one more system call) tells whether a train waits, and of what.
    fn receive_into(&mut self, budget: usize, sink: &mut dyn FrameSink) -> usize {
        if self.after_long && !self.holds_frames() && budget > 0 && sink.lands() {
            match self.place_train(sink) {
                Looked::Handed(frames) => return frames,
                Looked::Empty => return 0,
                Looked::Usual => {}
            }
        }
        if budget == 0 || (!self.holds_frames() && !self.fetch()) {
            return 0;
        }
        self.hand_up(budget, sink)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> bool {
        if self.holds_frames() {
            return true;
        }
        let counts = &mut self.counts;
        let polled =
            system::poll_until(self.socket.as_fd(), timeout, |_| counts.system_errors += 1);
        polled == Polled::Readable
    }

    /// Zero while the rest of a merged train waits in this link, where no descriptor can show it.
    fn next_due(&self) -> Option<Duration> {
        self.holds_frames().then_some(Duration::ZERO)
    }

    /// Where the MTU has changed, segmented sends are tried again: the kernel refuses them as long as frames are longer than that.
    fn condition(&mut self) -> Option<Condition<'_>> {
        let (interface, headers) = self.interface.as_ref()?;
        let most = self.capabilities.frame_bytes_max;
        let condition = condition::condition(self.socket.as_fd(), interface, *headers, most);
        if condition.mtu != self.mtu {
            (self.mtu, self.doubts, self.segments_max) = (condition.mtu, 0, self.segments_once);
            self.capabilities.segmentation = self.segments_once > 1;
        }
        Some(condition)
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
