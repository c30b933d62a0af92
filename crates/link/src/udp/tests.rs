//! What cannot be provoked from outside: a device that does not segment.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr};

use emp_wire::{DESTINATION_TAG_OFFSET, HEADER_BYTES};

use super::scatter::Seen;
use super::send::cannot_segment;
use super::*;

#[test]
fn a_device_that_cannot_segment_gets_single_datagrams() {
    let open = || {
        let bind = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let options = UdpOptions { bind, port: 0, mtu: Some(1500), ..UdpOptions::new(1) };
        UdpLink::open(&options).expect("anyone may")
    };
    let (mut a, mut b) = (open(), open());
    assert!(a.capabilities().segmentation);
    // Without checksums the kernel refuses to segment, as it does for cards that cannot do them.
    system::set_option(a.socket.as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, &1)
        .expect("anyone may");
    let frame = [0x24, 0, 0, 0, 0, 1, 0, 0];
    let to = b.capabilities().address;
    let parts = [IoSlice::new(&frame)];
    for train in 1..=u64::from(DOUBTS_MAX) {
        assert_eq!(a.send(&[TxFrame { to, parts: &parts }; 11]), 11);
        assert_eq!(a.capabilities().segmentation, train < u64::from(DOUBTS_MAX));
        let counts = a.statistics();
        assert_eq!((counts.frames_sent, counts.system_errors), (11 * train, train), "{counts:?}");
    }
    assert_eq!(a.send(&[TxFrame { to, parts: &parts }; 11]), 11);
    assert_eq!(a.statistics().system_errors, u64::from(DOUBTS_MAX), "no more is tried");
    let mut got = 0;
    while b.wait(Some(Duration::from_millis(100))) {
        got += b.receive(64, &mut |bytes, _| assert_eq!(bytes, frame));
    }
    assert_eq!(got, 11 * (1 + DOUBTS_MAX as usize));
}

/// The kernel says the same of an address that cannot be as of a device that cannot segment.
#[test]
fn trains_to_nowhere_do_not_end_segmentation() {
    let bind = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let open = || UdpLink::open(&UdpOptions { bind, port: 0, ..UdpOptions::new(1) });
    let (mut a, b) = (open().expect("anyone may"), open().expect("anyone may"));
    let frame = [0x24, 0, 0, 0, 0, 1, 0, 0];
    let parts = [IoSlice::new(&frame)];
    let nowhere = LinkAddress::udp((Ipv4Addr::LOCALHOST, 0).into());
    for _ in 0..2 * DOUBTS_MAX {
        for to in [nowhere, b.capabilities().address] {
            assert_eq!(a.send(&[TxFrame { to, parts: &parts }; 4]), 4);
        }
    }
    assert!(a.capabilities().segmentation);
}

#[test]
fn frames_fetched_together_are_all_handed_up() {
    let open = || {
        let bind = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        UdpLink::open(&UdpOptions { bind, port: 0, ..UdpOptions::new(1) }).expect("anyone may")
    };
    let (mut a, mut b) = (open(), open());
    let to = b.capabilities().address;
    for number in 0..100u8 {
        let frame = [0x24, 0, 0, 0, 0, 1, number];
        a.send(&[TxFrame { to, parts: &[IoSlice::new(&frame)] }]);
    }
    let mut got = Vec::new();
    while b.wait(Some(Duration::from_millis(50))) {
        b.receive(3, &mut |bytes, _| got.push(bytes[6]));
    }
    assert_eq!(got, (0..100).collect::<Vec<u8>>());
    // Two fetches of one, then eight to a call, plus what it takes to see the end.
    let calls = b.statistics().receive_calls;
    assert!(calls <= 20, "{calls} calls for 100 datagrams");
}

/// Two links on loopback, and a train of `count` frames of 1472 bytes with a short one behind, `times` sent.
fn links_with_trains(count: usize, times: usize) -> (UdpLink, Vec<Vec<u8>>) {
    let open = || {
        let bind = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let options = UdpOptions { bind, port: 0, mtu: Some(1500), ..UdpOptions::new(1) };
        UdpLink::open(&options).expect("anyone may")
    };
    let (mut a, b) = (open(), open());
    let to = b.capabilities().address;
    let mut frames = Vec::new();
    for time in 0..times {
        let length = |index: usize| if index == count { 500 } else { 1472 };
        let frame = |index: usize| {
            let mut frame: Vec<u8> =
                (0..length(index)).map(|i| (i * 7 + index + time) as u8).collect();
            frame[0] = 0x24;
            frame[2..4].copy_from_slice(&((length(index) - HEADER_BYTES) as u16).to_be_bytes());
            frame[DESTINATION_TAG_OFFSET..DESTINATION_TAG_OFFSET + 2].copy_from_slice(&[0, 1]);
            frame
        };
        let train: Vec<Vec<u8>> = (0..=count).map(frame).collect();
        let parts: Vec<[IoSlice<'_>; 1]> = train.iter().map(|f| [IoSlice::new(f)]).collect();
        let batch: Vec<TxFrame<'_>> = parts.iter().map(|parts| TxFrame { to, parts }).collect();
        assert_eq!(a.send(&batch), batch.len());
        frames.extend(train);
    }
    (b, frames)
}

/// Takes payload for so many frames of each train.
struct Taker {
    most: usize,
    memory: Vec<u8>,
    landed: usize,
    got: Vec<Vec<u8>>,
}

impl FrameSink for Taker {
    fn frame(&mut self, frame: &[u8], _from: &LinkAddress) {
        self.got.push(frame.to_vec());
    }

    fn lands(&self) -> bool {
        true
    }

    fn landing(&mut self, train: &crate::Train) -> Option<&mut [u8]> {
        let payload = |i| train.frame_bytes_of(i).saturating_sub(HEADER_BYTES);
        self.memory = vec![0; (0..self.most).map(payload).sum()];
        Some(&mut self.memory)
    }

    fn landed(&mut self, train: &crate::Train, heads: &[crate::Head]) {
        let mut rest = &self.memory[..];
        for (index, head) in heads.iter().enumerate() {
            let (payload, others) = rest.split_at(train.frame_bytes_of(index) - HEADER_BYTES);
            self.got.push([&head[..], payload].concat());
            rest = others;
        }
        assert!(rest.is_empty());
        self.landed += heads.len();
    }
}

#[test]
fn payload_of_trains_lands_where_it_is_wanted() {
    // The first train makes the link look; of the others all, some, or no payload is taken, or more than there is.
    for (most, landed) in [(41, 82), (7, 14), (0, 0), (40, 80)] {
        let (mut link, frames) = links_with_trains(40, 3);
        let mut taker = Taker { most, memory: Vec::new(), landed: 0, got: Vec::new() };
        while taker.got.len() < frames.len() {
            assert!(link.wait(Some(Duration::from_secs(5))), "{} came", taker.got.len());
            link.receive_into(64, &mut taker);
        }
        assert!(taker.got == frames, "memory for {most}");
        assert_eq!(taker.landed, landed, "memory for {most}");
        assert_eq!(link.statistics().frames_received, frames.len() as u64);
    }
}

/// Notes of each frame whether it came marked.
#[derive(Default)]
struct Marks {
    marked: bool,
    got: Vec<(u8, bool)>,
}

impl FrameSink for Marks {
    fn frame(&mut self, frame: &[u8], _: &LinkAddress) {
        self.got.push((frame[HEADER_BYTES], self.marked));
    }

    fn marked(&mut self, marked: bool) {
        self.marked = marked;
    }
}

/// Frames leave as what may be marked, and what comes marked is told (`ACK-9`).
#[test]
fn marks_of_the_network_are_told() {
    for ip in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)] {
        let open = |tag| {
            let options = UdpOptions { bind: Some(ip), port: 0, ..UdpOptions::new(tag) };
            UdpLink::open(&options)
        };
        let (Ok(mut a), Ok(mut b)) = (open(1), open(2)) else {
            assert!(ip.is_ipv6(), "anyone may");
            continue;
        };
        let (level, class) = match ip {
            IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
            IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        let mut ours: libc::c_int = 0;
        system::get_option(a.socket.as_fd(), level, class, &mut ours).expect("known");
        assert_eq!(ours & 0b11, 0b10, "ECT(0)");
        let mut marks = Marks::default();
        let sent = [(1, false), (2, true), (3, true), (4, false)];
        for (number, marked) in sent {
            let class_now: libc::c_int = if marked { 0b11 } else { 0b10 };
            system::set_option(a.socket.as_fd(), level, class, &class_now).expect("anyone may");
            let mut frame = [number; 100];
            frame[..HEADER_BYTES].fill(0);
            frame[2..4].copy_from_slice(&(100 - HEADER_BYTES as u16).to_be_bytes());
            frame[4..6].copy_from_slice(&2u16.to_be_bytes());
            let to = b.capabilities.address;
            assert_eq!(a.send(&[TxFrame { to, parts: &[IoSlice::new(&frame)] }]), 1);
        }
        while marks.got.len() < sent.len() {
            assert!(b.wait(Some(Duration::from_secs(5))), "{:?} came", marks.got);
            marks.marked = false;
            b.receive_into(64, &mut marks);
        }
        assert_eq!(marks.got, sent);
    }
}

/// Memory that can be read and not written.
struct ReadOnly(*mut u8, usize);

impl ReadOnly {
    fn new(bytes: usize) -> Self {
        let (flags, none) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, std::ptr::null_mut());
        // SAFETY: a new mapping at a place of the kernel's choice.
        let start = unsafe { libc::mmap(none, bytes, libc::PROT_READ, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Self(start.cast(), bytes)
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and no slice of it is left.
        unsafe { libc::munmap(self.0.cast(), self.1) };
    }
}

/// Wants the trains of an odd time where nothing can be written.
struct Mixed {
    good: Taker,
    bad: ReadOnly,
    asked: usize,
}

impl FrameSink for Mixed {
    fn frame(&mut self, frame: &[u8], from: &LinkAddress) {
        self.good.frame(frame, from);
    }

    fn lands(&self) -> bool {
        true
    }

    fn landing(&mut self, train: &crate::Train) -> Option<&mut [u8]> {
        let payload = self.good.landing(train)?.len();
        // The first byte of a payload tells the time of its train (`links_with_trains`).
        let time = train.head[1].wrapping_sub(7);
        if time.is_multiple_of(2) {
            return self.good.landing(train);
        }
        self.asked += 1;
        assert!(payload <= self.bad.1);
        // SAFETY: readable for as long as this lives; this program writes nothing to it, and the kernel refuses to.
        Some(unsafe { std::slice::from_raw_parts_mut(self.bad.0, payload) })
    }

    fn landed(&mut self, train: &crate::Train, heads: &[crate::Head]) {
        self.good.landed(train, heads);
    }
}

/// A train for memory that cannot be written is lost, and what is for it after that is handed up frame by frame. What is for other memory
/// lands there as before.
#[test]
fn one_bad_buffer_does_not_end_placement() {
    const TRAINS: usize = 8;
    let (mut link, frames) = links_with_trains(40, TRAINS);
    let good = Taker { most: 40, memory: Vec::new(), landed: 0, got: Vec::new() };
    let mut mixed = Mixed { good, bad: ReadOnly::new(64 << 10), asked: 0 };
    let per_train = frames.len() / TRAINS;
    while mixed.good.got.len() < frames.len() - per_train {
        assert!(link.wait(Some(Duration::from_secs(5))), "{} came", mixed.good.got.len());
        link.receive_into(64, &mut mixed);
    }
    link.receive_into(64, &mut mixed);
    let got = &mixed.good.got;
    assert_eq!(got.len(), frames.len() - per_train, "one train is lost, and once");
    assert!(got.iter().all(|frame| frames.contains(frame)));
    assert!(mixed.asked > 1, "others were for the same memory");
    // The first train is not placed: it makes the link look.
    assert_eq!(mixed.good.landed, 40 * (TRAINS / 2 - 1));
}

#[test]
fn another_train_than_the_one_seen_is_put_together_again() {
    let (link, frames) = links_with_trains(20, 1);
    let mut scatter = Scatter::new();
    assert!(link.readiness().is_some());
    let seen = scatter.look(link.socket.as_fd()).expect("it is there").expect("it is a train");
    assert_eq!((seen.train.frame_bytes, seen.train.bytes), (1472, 20 * 1472 + 500));
    assert_eq!(seen.train.head[..], frames[0][..HEADER_BYTES]);
    // As if a train of other lengths had been seen: more and less than what comes.
    for (frame_bytes, bytes, placed) in
        [(1000, 30_000, 30), (1472, 10 * 1472, 10), (9000, 63_000, 7)]
    {
        let (link, frames) = links_with_trains(20, 1);
        let train = crate::Train { frame_bytes, bytes, ..seen.train };
        let other = Seen::of(train);
        let mut landing = vec![0; bytes - placed * HEADER_BYTES];
        let got =
            scatter.fetch(link.socket.as_fd(), &other, placed, &mut landing).expect("it is there");
        assert!(!got.as_seen && !got.truncated);
        assert!(scatter.gather(&train, placed, &landing, &got) == frames.concat(), "{frame_bytes}");
    }
}

/// Errors that say "not as one": the frames go one by one. Others are judged as those of single frames.
#[test]
fn what_cannot_be_segmented_goes_one_by_one() {
    let judged = |code| cannot_segment(&io::Error::from_raw_os_error(code));
    for code in [libc::EIO, libc::EINVAL, libc::EMSGSIZE] {
        assert!(judged(code), "{code}");
    }
    for code in [libc::EAGAIN, libc::ENOBUFS, libc::ENETUNREACH, libc::EPERM, libc::ECONNREFUSED] {
        assert!(!judged(code), "{code}");
    }
}
