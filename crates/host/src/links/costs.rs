//! Paths over two links: what frames cost by each, so that a train takes the one by which it is there soonest (decisions 16, 35).
//!
//! Small frames go by the link that needs no system call to receive (packet, xdp), long trains by the one that carries
//! many frames in a call (udp). The firmware compares the costs, which are measured at start.

use std::collections::HashMap;
use std::fmt;
use std::io::IoSlice;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use emp_firmware::{LinkCost, Span};
use emp_link::{Link, PacketSender, TxFrame, UdpLink, UdpOptions};
use emp_wire::{Epoch, Flags, HEADER_BYTES, Header, Kind, LinkAddress, Sequence};

use crate::machine::clock;
use crate::machine::signals;

/// How often the bulk link is looked at while nothing comes by it, if another link costs no system call to look at. A
/// look takes 0.2 to 0.3 µs: less than a tenth of a spinning receiver's time goes there, and so does less than that of
/// the latency of small frames; a long train that comes out of the blue waits half of it on average, against the 10 µs
/// and more that it takes itself.
pub(crate) const BULK_LOOK_EVERY: Span = Span::us(4);

/// Frames of a train that is measured: what one segmented send of 64 KB carries at MTU 1500, less a few that a
/// receiver's budget may leave for the next call.
const TRAIN: usize = 40;

/// Frames of a train that is measured where each is on the wire: enough to tell the cost of one from that of the call.
const TRAIN_ON_WIRE: usize = 8;

/// What firmware and host do at both ends for each frame of a message, in nanoseconds: by that a ping-pong of two to five frames over
/// rings took longer than the bare link's, which a long frame saves.
const FRAME_NS: u64 = 300;

/// What it takes at least to hand a frame to the thread of a service, in nanoseconds: 2,300 on a core that both share and 17,000 to 24,000 on one that
/// sleeps (AMD EPYC, two cores, where a datagram took 2,500: on slower machines a wake takes as much longer as that), next to nothing where the thread has a core for itself and looks on. What is small leaves as datagrams so, which take a
/// system call more and wait for nobody (decision 132).
const HAND_OVER_NS: u64 = 2_300;

/// Frames of the longest train that is compared for people to read: of a megabyte at MTU 1500.
const FRAMES_COMPARED: u32 = 1 << 10;

/// Measurements of each cost; the least counts, because all that disturbs makes it more.
const TRIES: u32 = 7;

/// What comes back is waited for so long; on a jammed machine the second path is done without.
const PATIENCE: Duration = Duration::from_millis(20);

/// Destination tag of frames that measure: no node's need to be, because nobody else has the socket.
const TAG: u16 = 0x7e57;

/// What frames of full length cost by one link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkCosts {
    /// One alone, in nanoseconds.
    pub alone_ns: u64,
    /// Each further one of a train, in nanoseconds.
    pub further_ns: u64,
}

/// How a node's frames are divided between two links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathCosts {
    /// By the link for small frames.
    pub small: LinkCosts,
    /// By the one for bulk.
    pub bulk: LinkCosts,
    /// By that in one frame longer than the MTU instead of several, if it carries such: as if of so many frames.
    pub long: Option<LinkCosts>,
}

impl PathCosts {
    /// What the firmware compares: of the link for small frames, and of the one for bulk.
    pub fn of_links(&self) -> [LinkCost; 2] {
        let Self { small, bulk, long } = *self;
        // The receiver's look at the bulk link comes half an interval late on average. Where long frames get through there were long
        // messages before, and those so short come behind each other if they matter: so its bulk link is looked at each time.
        let later_ns = BULK_LOOK_EVERY.0 / 2;
        let first = LinkCost {
            first_ns: small.alone_ns,
            further_ns: small.further_ns + FRAME_NS,
            long_ns: None,
            segments: false,
            named: false,
        };
        let second = LinkCost {
            first_ns: bulk.alone_ns + later_ns,
            further_ns: bulk.further_ns + FRAME_NS,
            long_ns: long.map(|long| (long.alone_ns, long.further_ns)),
            segments: true,
            named: false,
        };
        [first, second]
    }

    /// Least frames of a train that is sooner there by the bulk link. `None`: no train is.
    pub fn threshold(&self) -> Option<u32> {
        self.least(false)
    }

    /// The same where frames longer than the MTU get through to a peer.
    pub fn threshold_long(&self) -> Option<u32> {
        self.long.and_then(|_| self.least(true))
    }

    fn least(&self, long: bool) -> Option<u32> {
        let [small, bulk] = self.of_links();
        let sooner = |frames: &u32| bulk.of(*frames, long) < small.of(*frames, false);
        (2..=FRAMES_COMPARED).find(sooner)
    }
}

impl fmt::Display for PathCosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.threshold() {
            Some(frames) => write!(f, "bulk from {frames} frames on"),
            None => f.write_str("no bulk: no train gains by it"),
        }?;
        if let Some(frames) = self.threshold_long() {
            write!(f, ", from {frames} if they leave as one long one")?;
        }
        let us = |ns: u64| ns as f64 / 1e3;
        write!(
            f,
            "; a full frame costs {:.2} µs by the first path and {:.2} by the other, each further one {:.2} and {:.2}",
            us(self.small.alone_ns),
            us(self.bulk.alone_ns),
            us(self.small.further_ns),
            us(self.bulk.further_ns)
        )?;
        let Some(long) = &self.long else { return Ok(()) };
        let (alone, further) = (us(long.alone_ns), us(long.further_ns));
        write!(f, "; as a part of a long one {alone:.2} and {further:.2}")
    }
}

/// Costs by interface, whether a service sends for this process, IP address and frame length.
type Measured = HashMap<(String, bool, IpAddr, usize), PathCosts>;

/// What this process has measured so far: many nodes of one process measure once.
static MEASURED: Mutex<Option<Measured>> = Mutex::new(None);

/// Measures what frames of so many bytes cost by raw frames on an interface and by datagrams from an address, once per
/// process; `served`: a service sends the former. Who may not open a raw socket to time them takes what they cost beside datagrams. `None`: there
/// are no datagrams.
pub fn measure_paths(
    (interface, served): (&str, bool),
    ip: IpAddr,
    frame_bytes: usize,
) -> Option<PathCosts> {
    let mut measured = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = measured.get_or_insert_default();
    let key = (interface.to_owned(), served, ip, frame_bytes);
    if let Some(costs) = known.get(&key) {
        return Some(*costs);
    }
    let own = if served { None } else { packet_costs(interface, frame_bytes) };
    let (bulk, long) = udp_costs(ip, frame_bytes)?;
    let small = own.unwrap_or_else(|| bulk.of_raw_frames(served));
    let costs = PathCosts { small, bulk, long };
    known.insert(key, costs);
    Some(costs)
}

/// Of raw frames: what sending takes. Receiving is done by the kernel as they come and by a look at memory. They go to the
/// interface's own address, where no switch sends them on, and are no EMP frames.
fn packet_costs(interface: &str, frame_bytes: usize) -> Option<LinkCosts> {
    /// EtherType for experiments on one machine (IEEE local experimental 2): not the one that nodes listen to.
    const ETHERTYPE: u16 = 0x88B6;
    let mut link = PacketSender::open(interface, ETHERTYPE).ok()?;
    let to = LinkAddress::mac(link.mac());
    let frame = frame(frame_bytes);
    let mut send = |frames: usize| {
        let parts = [IoSlice::new(&frame)];
        let batch = [TxFrame { to, parts: &parts }; TRAIN_ON_WIRE];
        least(|| {
            let start = Instant::now();
            (link.send(&batch[..frames]) == frames).then(|| start.elapsed())
        })
    };
    let costs = send(1).zip(send(TRAIN_ON_WIRE));
    close_aside(link);
    costs.map(|(alone, train)| LinkCosts::of(alone, train, TRAIN_ON_WIRE))
}

/// Closes a raw socket, which waits for a grace period of the kernel's, where nobody waits for it.
fn close_aside(socket: PacketSender) {
    let thread = std::thread::Builder::new().name("emp-close".into());
    // Failing means that it is closed here.
    let _ = signals::blocked(|| thread.spawn(move || drop(socket)));
}

/// Of datagrams, alone and in trains, and of those that make up a long frame: what sending and receiving take, from one socket to
/// itself through the kernel's loopback.
fn udp_costs(ip: IpAddr, frame_bytes: usize) -> Option<(LinkCosts, Option<LinkCosts>)> {
    let options = UdpOptions { bind: Some(ip), port: 0, ..UdpOptions::new(TAG) };
    let mut link = UdpLink::open(&options).ok()?;
    let mut to = link.local_address();
    if to.ip().is_unspecified() {
        to.set_ip(match ip {
            IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    let to = LinkAddress::udp(to);
    let frame_bytes = frame_bytes.min(link.capabilities().frame_bytes_max);
    let long_bytes = link.capabilities().long_frame_bytes;
    let mut there_and_up = |frame: &[u8], frames: usize| {
        let parts = [IoSlice::new(frame)];
        let batch = [TxFrame { to, parts: &parts }; TRAIN];
        least(|| {
            let start = Instant::now();
            let mut missing = link.send(&batch[..frames]);
            while missing > 0 && start.elapsed() < PATIENCE {
                missing -= link.receive(missing, &mut |_, _| {}).min(missing);
            }
            (missing == 0).then(|| start.elapsed())
        })
    };
    let usual = frame(frame_bytes);
    let (alone, train) = (there_and_up(&usual, 1)?, there_and_up(&usual, TRAIN)?);
    let parts = TRAIN_ON_WIRE.min(long_bytes / frame_bytes);
    let mut long = || {
        let mut of = |parts: usize| there_and_up(&frame(parts * frame_bytes), 1);
        let (two, all) = (of(2)?, of(parts)?);
        let costs = LinkCosts::of(two, all, parts - 1);
        // Of the two, one is a further one.
        Some(LinkCosts { alone_ns: costs.alone_ns.saturating_sub(costs.further_ns), ..costs })
    };
    let long = if parts > 2 { long() } else { None };
    Some((LinkCosts::of(alone, train, TRAIN), long))
}

impl LinkCosts {
    /// What raw frames cost where datagrams cost this: of two machines where both were measured, two fifths for the kernel's part. A service adds what
    /// it takes to look at each, which is as much again and a half; a megabyte by one took 2.9 and 3.3 µs a frame there. And it is handed each lone
    /// one, as its own end is by the other service, by a thread that may sleep.
    fn of_raw_frames(self, served: bool) -> Self {
        let raw_ns = self.alone_ns * 2 / 5;
        if !served {
            return Self { alone_ns: raw_ns, further_ns: raw_ns };
        }
        let hand_over_ns = HAND_OVER_NS.max(self.alone_ns);
        Self { alone_ns: raw_ns + 2 * hand_over_ns, further_ns: self.alone_ns }
    }

    fn of(alone: Duration, train: Duration, frames: usize) -> Self {
        let further = train.saturating_sub(alone) / (frames as u32 - 1);
        Self { alone_ns: clock::span(alone).0, further_ns: clock::span(further).0 }
    }
}

/// A frame for the measuring socket: a header, by which a long one is known, and zeros.
fn frame(bytes: usize) -> Vec<u8> {
    let mut frame = vec![0; bytes];
    let length = u16::try_from(bytes - HEADER_BYTES).unwrap_or(u16::MAX);
    let (head, _) = frame.split_first_chunk_mut().expect("all are longer than a header");
    let none = Sequence(0);
    let header = Header {
        kind: Kind::Skip,
        flags: Flags::default(),
        length,
        destination_tag: TAG,
        destination_epoch: 0,
        source_tag: 0,
        source_epoch: Epoch::UNKNOWN,
        sequence: none,
        acknowledge: none,
        word: 0,
    };
    header.emit(head);
    frame
}

/// The least of several measurements; `None` if one failed.
fn least(mut measure: impl FnMut() -> Option<Duration>) -> Option<Duration> {
    (0..TRIES).map(|_| measure()).try_fold(Duration::MAX, |least, next| Some(least.min(next?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn costs(alone_ns: u64, further_ns: u64) -> LinkCosts {
        LinkCosts { alone_ns, further_ns }
    }

    #[test]
    fn the_threshold_is_where_both_take_as_long() {
        let half_look = BULK_LOOK_EVERY.0 / 2;
        let paths = PathCosts { small: costs(500, 600), bulk: costs(2_000, 100), long: None };
        let frames = u64::from(paths.threshold().unwrap());
        let small = |n: u64| 500 + (n - 1) * 600;
        let bulk = |n: u64| 2_000 + half_look + (n - 1) * 100;
        assert!(bulk(frames) < small(frames) && bulk(frames - 1) >= small(frames - 1));
        assert!(paths.to_string().starts_with("bulk from"), "{paths}");
        assert_eq!(paths.threshold_long(), None);
        // In one long frame it takes longer by less than two frames.
        let long = Some(costs(500 + 2 * (600 + FRAME_NS - 50) - 1, 50));
        let paths = PathCosts { long, ..paths };
        assert_eq!(paths.threshold_long(), Some(3));
        let slow = PathCosts { long: Some(costs(90_000, 50)), ..paths };
        assert_eq!(slow.threshold_long(), Some(frames as u32));
        assert!(paths.to_string().contains("from 3 if"), "{paths}");
    }

    #[test]
    fn what_gains_nothing_is_not_done() {
        let long = Some(costs(1_000, 10));
        let paths = PathCosts { small: costs(500, 100), bulk: costs(2_000, 100), long: None };
        assert_eq!((paths.threshold(), paths.threshold_long()), (None, None));
        let paths = PathCosts { long, ..paths };
        assert_eq!((paths.threshold(), paths.threshold_long()), (None, Some(3)));
        let paths = PathCosts { small: costs(9_000, 900), bulk: costs(2_000, 100), long };
        assert_eq!(paths.threshold(), Some(2));
    }

    /// Programs without privilege: without costs all would leave by raw frames, a megabyte in sixteen times as long as by datagrams.
    #[test]
    fn who_may_open_no_raw_socket_has_costs_as_well() {
        let ip = std::net::Ipv4Addr::LOCALHOST.into();
        for served in [false, true] {
            let costs = measure_paths(("no such interface", served), ip, 1_472).expect("datagrams");
            assert!(costs.threshold().is_some_and(|frames| frames < 40), "{costs}");
            // A service is not woken for what is small.
            let [small, bulk] = costs.of_links().map(|link| link.of(1, false));
            assert_eq!(served, bulk < small, "{costs}");
        }
    }

    #[test]
    fn a_service_is_not_woken_for_what_is_small_however_slow_the_machine() {
        for datagram_ns in [500, 1_000, 2_500, 5_570, 10_000, 100_000] {
            let bulk = costs(datagram_ns, datagram_ns / 20);
            let paths = PathCosts { small: bulk.of_raw_frames(true), bulk, long: None };
            let [small, bulk] = paths.of_links().map(|link| link.of(1, false));
            assert!(bulk < small, "{paths}");
        }
    }

    #[test]
    fn datagrams_are_measured_through_loopback() {
        let (costs, long) = udp_costs(std::net::Ipv4Addr::LOCALHOST.into(), 1_472).unwrap();
        assert!(long.is_none_or(|long| long.further_ns < costs.alone_ns), "{long:?}");
        assert!(costs.alone_ns > 0 && costs.further_ns < costs.alone_ns * 40, "{costs:?}");
    }
}
