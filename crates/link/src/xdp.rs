//! Raw Ethernet frames through AF_XDP sockets: rings and frames in memory that is shared with the
//! kernel or, where the driver can, with the card itself. Needs to be root in all but name.
//!
//! One node an interface: the redirect program is attached exclusively, and ends with the process.
//! Frames of others pass through to the kernel, those of other nodes on the same interface (by the
//! packet link) too, except that frames to everyone go to this node alone.
//!
//! There is a socket for each receive queue, as frames can only be redirected to their own queue's.
//! Sent frames leave by queue 0.

mod open;
mod program;
mod self_test;
mod watch;

pub use open::{XdpMode, XdpOptions};

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use emp_rings::Xsk;
use emp_wire::LinkAddress;
use open::Opened;
use watch::Watch;

use crate::condition::{self, Condition};
use crate::failure::SendFailure;
use crate::gather::ETHERNET_HEADER_BYTES;
use crate::namespace::Namespace;
use crate::system::{self, Polled};
use crate::{Capabilities, Link, LinkError, LinkStatistics, TxFrame};

/// Most frames in one call, as for the packet link.
const BATCH_MAX: usize = 64;
/// Looks that find nothing between two looks at whether all is well: a look costs 10 ns, so some 2 µs.
const EMPTY_POLLS_PER_CHECK: u32 = 256;
/// Longest sleep while frames wait to be sent, because the kernel was too busy to take them.
const UNSENT_NAP: Duration = Duration::from_millis(1);
/// Longest sleep without a look at whether the program is still attached.
const WATCH_NAP: Duration = Duration::from_millis(500);

/// A link over AF_XDP sockets.
pub struct XdpLink {
    opened: Opened,
    capabilities: Capabilities,
    counts: LinkStatistics,
    /// The kernel's counts when the self-test was over.
    lost_before: u64,
    watch: Watch,
    busy_poll: bool,
    /// The queue that is looked at first: each in turn.
    first: usize,
    empty_polls: u32,
    /// A socket in the interface's namespace, to ask about it: AF_XDP sockets don't answer.
    questions: Option<OwnedFd>,
}

impl XdpLink {
    /// Opens the link on an interface that exists and is up. The best mode whose self-test passes
    /// is kept.
    pub fn open(options: &XdpOptions) -> Result<Self, LinkError> {
        let opened = open::open(options)?;
        let framing = opened.framing;
        let capabilities = Capabilities {
            kind: "xdp",
            interface: options.interface.clone(),
            frame_bytes_max: framing.frame_bytes_max,
            long_frame_bytes: 0,
            long_frames_held: 0,
            parts_max: framing.parts_max,
            batch_max: BATCH_MAX,
            segmentation: false,
            sums: false,
            past_ip: false,
            broadcast: true,
            privileged: true,
            address: LinkAddress::mac(framing.mac),
        };
        let mut link = Self {
            opened,
            capabilities,
            counts: LinkStatistics::default(),
            lost_before: 0,
            watch: Watch::new(Namespace::current()),
            busy_poll: options.busy_poll.is_some(),
            first: 0,
            empty_polls: 0,
            questions: system::socket(libc::AF_INET, libc::SOCK_DGRAM).ok(),
        };
        link.lost_before = link.kernel_lost();
        Ok(link)
    }

    /// Whether this process may use AF_XDP here at all: makes a socket and loads a program, and
    /// attaches it to nothing.
    pub fn probe() -> Result<(), LinkError> {
        open::probe()
    }

    /// This end's Ethernet address.
    pub fn mac(&self) -> [u8; 6] {
        self.opened.framing.mac
    }

    /// How frames get between the interface and our memory.
    pub fn mode(&self) -> XdpMode {
        self.opened.mode
    }

    /// Better modes that are not to be had here, each with the reason.
    pub fn passed_by(&self) -> &[String] {
        &self.opened.passed_by
    }

    /// Receive queues, each with a socket.
    pub fn queues(&self) -> usize {
        self.opened.sockets.len()
    }

    /// Times that a stalled queue, or a program that was taken off the interface, was set going
    /// again.
    pub fn rearmed(&self) -> u64 {
        self.watch.rearmed()
    }

    /// Takes the program off the interface behind the link's back, for tests of what the link does
    /// then.
    #[doc(hidden)]
    pub fn detach_for_test(&self) -> io::Result<()> {
        self.opened.attachment.detach()
    }

    fn sender(&mut self) -> Option<&mut Xsk> {
        self.opened.sockets.first_mut()
    }

    /// Gets what was pushed on its way, and takes back what has left.
    #[inline]
    fn flush(&mut self) {
        let Some(xsk) = self.opened.sockets.first_mut() else { return };
        xsk.submit();
        if xsk.unsent() && xsk.send_wants_kick() {
            self.kick();
        }
        if let Some(xsk) = self.sender() {
            xsk.reap();
        }
    }

    /// Makes the kernel send until it has seen all frames, or is full, or there is no sense in it.
    fn kick(&mut self) {
        let Some(xsk) = self.opened.sockets.first_mut() else { return };
        let mut full = false;
        // A frame that is dropped ends a call: at most one for each frame, then.
        for _ in 0..=BATCH_MAX {
            self.counts.send_calls += 1;
            let Err(error) = xsk.kick_send() else { return };
            match SendFailure::of(&error) {
                SendFailure::Again => {}
                // Twice in a row: it will not be better at once.
                SendFailure::Full if full => return,
                SendFailure::Full => full = true,
                SendFailure::Refused | SendFailure::Lost => {
                    self.counts.system_errors += 1;
                    if is_dead(&error) {
                        self.watch.dead(Instant::now());
                        return;
                    }
                }
            }
            if xsk.reap() > 0 {
                full = false;
            }
            if !xsk.unsent() {
                return;
            }
        }
    }

    /// Makes room in the send ring. False if there is none now.
    #[cold]
    fn make_room(&mut self) -> bool {
        self.flush();
        let Some(xsk) = self.sender() else { return false };
        if xsk.reap() > 0 || xsk.outstanding() == 0 {
            self.watch.moved();
            return true;
        }
        false
    }

    /// Looks after a link that has nothing to receive: frames that were not sent, a queue that
    /// stands still, a program that is gone.
    #[cold]
    fn look_after(&mut self) {
        let now = Instant::now();
        let Some(xsk) = self.opened.sockets.first_mut() else { return };
        if xsk.reap() > 0 {
            self.watch.moved();
        }
        if xsk.outstanding() > 0 && xsk.unsent() && self.watch.may_kick(now) {
            self.kick();
        }
        if self.watch.is_time_to_look(now) {
            self.look_at_attachment();
        }
    }

    /// Attaches the program anew if someone took it off the interface.
    fn look_at_attachment(&mut self) {
        let opened = &mut self.opened;
        if !matches!(opened.attachment.interface(), Ok(None)) {
            return;
        }
        self.counts.system_errors += 1;
        let native = opened.mode != XdpMode::Generic;
        if !self.watch.is_at_home() {
            return;
        }
        if let Ok(attachment) = opened.program.attach(opened.interface, native) {
            opened.attachment = attachment;
            for (queue, socket) in (0..).zip(&opened.sockets) {
                // A socket that is in the map already is put there again, which does no harm.
                let _ = opened.map.set(queue, socket.as_fd());
            }
            self.watch.count_rearmed();
        }
    }

    /// Frames of all queues that the kernel had to drop.
    fn kernel_lost(&self) -> u64 {
        let lost = |xsk: &Xsk| {
            let counts = xsk.counts().unwrap_or_default();
            counts.receive_dropped + counts.receive_ring_full + xsk.strange()
        };
        self.opened.sockets.iter().map(lost).sum()
    }

    fn any_ready(&self) -> bool {
        self.opened.sockets.iter().any(Xsk::ready)
    }

    fn unsent(&self) -> bool {
        self.opened.sockets.first().is_some_and(|xsk| xsk.outstanding() > 0 && xsk.unsent())
    }

    /// Takes up to `budget` frames of one queue.
    #[inline]
    fn receive_from(
        &mut self,
        queue: usize,
        budget: usize,
        sink: &mut dyn FnMut(&[u8], &LinkAddress),
    ) -> usize {
        let Some(xsk) = self.opened.sockets.get_mut(queue) else { return 0 };
        if !xsk.ready() {
            if self.busy_poll || xsk.receive_wants_kick() {
                self.counts.receive_calls += 1;
                // What goes wrong is seen by the next look.
                let _ = xsk.kick_receive();
            }
            return 0;
        }
        let counts = &mut self.counts;
        let mut handed = 0;
        for _ in 0..budget {
            let looked = xsk.take(|frame| {
                let split = frame.bytes.split_first_chunk::<ETHERNET_HEADER_BYTES>();
                let Some((header, bytes)) = split.filter(|_| frame.whole) else {
                    counts.receive_lost += 1;
                    return;
                };
                let [_, _, _, _, _, _, a, b, c, d, e, f, ..] = *header;
                counts.frames_received += 1;
                counts.bytes_received += bytes.len() as u64;
                handed += 1;
                sink(bytes, &LinkAddress::mac([a, b, c, d, e, f]));
            });
            if looked.is_none() {
                break;
            }
        }
        xsk.publish();
        handed
    }
}

/// Errors that will not go away with the next frame.
fn is_dead(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV))
}

impl Link for XdpLink {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        let mut taken = 0;
        while let Some(frame) = batch.get(taken) {
            let bytes = frame.len();
            let Some(header) = self.opened.framing.header(frame, bytes) else {
                self.counts.send_refused += 1;
                taken += 1;
                continue;
            };
            let pushed =
                |link: &mut Self| link.sender().is_some_and(|xsk| xsk.push(&header, frame.parts));
            if pushed(self) || (self.make_room() && pushed(self)) {
                self.counts.frames_sent += 1;
                self.counts.bytes_sent += bytes as u64;
                taken += 1;
            } else if self.watch.is_stuck(Instant::now()) {
                // Waiting for room would be waiting for a cable: lost, as on a broken one.
                self.counts.system_errors += 1;
                taken += 1;
            } else {
                self.counts.send_full += 1;
                break;
            }
        }
        self.flush();
        taken
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        let queues = self.opened.sockets.len();
        let mut handed = 0;
        for turn in 0..queues {
            let queue = (self.first + turn) % queues;
            handed += self.receive_from(queue, budget - handed, sink);
        }
        if queues > 1 {
            self.first = (self.first + 1) % queues;
        }
        if handed > 0 {
            self.empty_polls = 0;
        } else {
            self.empty_polls += 1;
            if self.empty_polls >= EMPTY_POLLS_PER_CHECK {
                self.empty_polls = 0;
                self.look_after();
            }
        }
        handed
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        match &self.opened.any {
            Some(any) => Some(any.as_fd()),
            None => self.opened.sockets.first().map(AsFd::as_fd),
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> bool {
        // A time too long for the clock is no limit.
        let deadline = timeout.and_then(|time| Instant::now().checked_add(time));
        loop {
            if self.any_ready() {
                return true;
            }
            self.look_after();
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            let nap = if self.unsent() { UNSENT_NAP } else { WATCH_NAP };
            let nap = left.map_or(nap, |left| left.min(nap));
            let Some(fd) = self.readiness() else { return false };
            let mut errors = 0;
            let polled = system::poll_until(fd, Some(nap), |_| errors += 1);
            self.counts.system_errors += errors;
            if polled == Polled::Readable {
                return true;
            }
            if left.is_some_and(|left| left <= nap) {
                return false;
            }
        }
    }

    fn next_due(&self) -> Option<Duration> {
        self.unsent().then_some(UNSENT_NAP)
    }

    fn condition(&mut self) -> Option<Condition<'_>> {
        let fd = self.questions.as_ref()?.as_fd();
        if let Some(now) = system::interface_name(fd, self.opened.interface)
            && now != self.capabilities.interface
        {
            self.capabilities.interface = now;
        }
        let Capabilities { interface, frame_bytes_max, .. } = &self.capabilities;
        Some(condition::condition(fd, interface, 0, *frame_bytes_max))
    }

    /// One system call a queue: asks the kernel for its count of frames that found no chunk.
    fn statistics(&self) -> LinkStatistics {
        let mut counts = self.counts;
        counts.receive_lost += self.kernel_lost().saturating_sub(self.lost_before);
        counts
    }
}
