//! Long frames: what their sizes are, what a receiver makes of hostile ones, and what happens when the kernel does not go along.

use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use emp_wire::{DESTINATION_TAG_OFFSET, Flags, Kind, LinkAddress};
use proptest::prelude::*;

use super::*;
use crate::udp::receive::LOOKS_AFTER_MISS;
use crate::udp::scatter::{Scatter, Seen};
use crate::{FrameSink, Link, Train, UdpOptions, system};

/// A frame of so many bytes for node 1, with contents of its own.
fn frame(number: u8, bytes: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..bytes).map(|i| (i * 7 + i / 256) as u8 ^ number).collect();
    frame[..2].copy_from_slice(&[0x24, Flags::PAYLOAD_UNCHECKED.0]);
    frame[2..4].copy_from_slice(&((bytes - HEADER_BYTES) as u16).to_be_bytes());
    frame[DESTINATION_TAG_OFFSET..][..2].copy_from_slice(&[0, 1]);
    frame
}

fn open() -> UdpLink {
    let bind = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let options = UdpOptions { bind, port: 0, mtu: Some(1500), ..UdpOptions::new(1) };
    let mut link = UdpLink::open(&options).expect("anyone may");
    // Whether splicing gains anything on this machine is another matter.
    link.long.costs = Costs::settled(By::Splice);
    link.long.try_splicing();
    link
}

fn send(from: &mut UdpLink, to: LinkAddress, frame: &[u8]) {
    let (head, body) = frame.split_at(HEADER_BYTES);
    let parts = [IoSlice::new(head), IoSlice::new(body)];
    assert_eq!(from.send(&[TxFrame { to, parts: &parts }]), 1);
}

fn collect(link: &mut UdpLink) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    while link.wait(Some(Duration::from_millis(50))) {
        link.receive(64, &mut |frame, _| got.push(frame.to_vec()));
    }
    got
}

fn collect_one(link: &mut UdpLink) -> Vec<u8> {
    let mut got = Vec::new();
    assert!(link.wait(Some(Duration::from_secs(5))));
    link.receive(1, &mut |frame, _| got = frame.to_vec());
    got
}

#[test]
fn sizes_follow_the_mtu() {
    assert_eq!(LONG_FRAME_BYTES, 61_472);
    let long = |frame_bytes_max| Long::new(frame_bytes_max, frame_bytes_max, true);
    assert_eq!(long(1472).bytes(true), LONG_FRAME_BYTES);
    assert_eq!(long(1472).bytes(false), 0);
    assert_eq!(long(961).bytes(true), LONG_FRAME_BYTES);
    // Too many pieces; and an MTU that such frames fit as they are.
    assert_eq!([long(960).bytes(true), long(61_472).bytes(true), long(65_492).bytes(true)], [0; 3]);
    assert_eq!(Long::new(1472, 1472, false).bytes(true), 0);
    let mut long = long(8972);
    assert_eq!(long.segment_of(LONG_FRAME_BYTES), Some(8972));
    assert_eq!(long.segment_of(2 * 8972), Some(8971), "the last is shorter");
    assert_eq!([long.segment_of(8972), long.segment_of(LONG_FRAME_BYTES + 1)], [None; 2]);
    long.cut_to(1200);
    assert_eq!((long.bytes(true), long.segment_of(61_000)), (LONG_FRAME_BYTES, Some(1200)));
    long.cut_to(900);
    assert_eq!((long.bytes(true), long.segment_of(61_000)), (0, None));
    assert_eq!(long.most(), LONG_FRAME_BYTES);
    long.cut_to(0);
    assert_eq!((long.bytes(true), long.segment_of(61_000)), (0, None));
}

proptest! {
    /// Whatever was merged, frames are taken off its front until nothing is left.
    #[test]
    fn any_bytes_are_cut(
        bytes in prop::collection::vec(any::<u8>(), 1..600),
        heads in prop::collection::vec((0usize..600, any::<u16>()), 0..8),
        segment_bytes in 1usize..200,
    ) {
        let mut bytes = bytes;
        for (at, length) in heads {
            if let Some(place) = bytes.get_mut(at..at + 4) {
                place.copy_from_slice(&[0x24, 0, length.to_be_bytes()[0], length.to_be_bytes()[1]]);
            }
        }
        let mut rest = &bytes[..];
        while let Some((frame, next)) = first_frame(rest, segment_bytes) {
            prop_assert!(!frame.is_empty() && frame.len() <= next && next <= rest.len());
            prop_assert!(frame.len() <= segment_bytes || long_bytes(rest, segment_bytes) == Some(frame.len()));
            rest = &rest[next..];
            if rest.is_empty() {
                break;
            }
        }
        // What stopped it is a long frame whose end is missing.
        prop_assert!(rest.is_empty() || long_bytes(rest, segment_bytes).is_some_and(|l| l > rest.len()));
    }
}

/// A sender of its own mind: `bytes` leave as one segmented datagram.
fn send_cut(to: &UdpLink, bytes: &[u8], segment_bytes: libc::c_int) {
    send_cut_by(&UdpSocket::bind("127.0.0.1:0").expect("a port"), to, bytes, segment_bytes);
}

fn send_cut_by(socket: &UdpSocket, to: &UdpLink, bytes: &[u8], segment_bytes: libc::c_int) {
    system::set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, &segment_bytes)
        .expect("the kernel segments");
    socket.send_to(bytes, to.local_address()).expect("it goes");
}

#[test]
fn a_long_frame_whose_end_is_missing_is_lost_alone() {
    let mut link = open();
    let (short, long) = (frame(1, 1000), frame(2, 20_000));
    let merged = [&short[..], &long[..9000]].concat();
    send_cut(&link, &merged, 1000);
    let after = frame(3, 500);
    send_cut(&link, &after, 1000);
    assert!(collect(&mut link) == [short, after]);
    let counts = link.statistics();
    assert_eq!((counts.receive_lost, counts.frames_received), (1, 2), "{counts:?}");
}

#[test]
fn frames_follow_a_long_one_where_datagrams_begin() {
    let mut link = open();
    let frames = [frame(1, 3000), frame(2, 1000), frame(3, 2500), frame(4, 700)];
    let padded = |frame: &Vec<u8>| {
        [&frame[..], &vec![0; frame.len().next_multiple_of(1000) - frame.len()]].concat()
    };
    let merged: Vec<u8> = frames[..3].iter().flat_map(padded).chain(frames[3].clone()).collect();
    send_cut(&link, &merged, 1000);
    assert!(collect(&mut link) == frames);
    // Another node's is passed over.
    let mut other = frame(5, 3000);
    other[DESTINATION_TAG_OFFSET + 1] = 2;
    send_cut(&link, &[other, frames[3].clone()].concat(), 1000);
    assert!(collect(&mut link) == frames[3..]);
    assert_eq!(link.statistics().not_for_us, 1);
}

/// Takes the payload of long frames in place, and other frames as they come.
#[derive(Default)]
struct Lands {
    memory: Vec<u8>,
    got: Vec<Vec<u8>>,
    landed: usize,
}

impl FrameSink for Lands {
    fn frame(&mut self, frame: &[u8], _from: &LinkAddress) {
        self.got.push(frame.to_vec());
    }

    fn lands(&self) -> bool {
        true
    }

    fn landing(&mut self, train: &Train) -> Option<&mut [u8]> {
        self.memory = vec![0; train.frame_bytes_of(0) - HEADER_BYTES];
        Some(&mut self.memory)
    }

    fn landed(&mut self, train: &Train, heads: &[Head]) {
        assert_eq!((heads.len(), train.frame_bytes - HEADER_BYTES), (1, self.memory.len()));
        self.got.push([&heads[0][..], &self.memory].concat());
        self.landed += 1;
    }
}

#[test]
fn long_frames_land_and_what_follows_comes_as_ever() {
    let mut link = open();
    let frames =
        [frame(1, 9000), frame(2, 61_472), frame(3, 20_000), frame(4, 1472), frame(5, 300)];
    for bytes in [&frames[0], &frames[1]] {
        send_cut(&link, bytes, 1472);
    }
    // A long one with others behind it in one datagram.
    let padded =
        frames[2].iter().copied().chain(vec![0; 20_000usize.next_multiple_of(1472) - 20_000]);
    let merged: Vec<u8> = padded.chain(frames[3].clone()).chain(frames[4].clone()).collect();
    send_cut(&link, &merged, 1472);
    let mut sink = Lands::default();
    while link.wait(Some(Duration::from_millis(50))) {
        link.receive_into(64, &mut sink);
    }
    assert!(sink.got == frames);
    // All but the first, after which the link looks.
    assert_eq!(sink.landed, 2);
    assert_eq!(link.statistics().frames_received, 5);
}

/// A frame of a block, with its number and place.
fn of_block(number: u8, bytes: usize, flags: Flags) -> Vec<u8> {
    let mut frame = frame(number, bytes);
    frame[0] = (frame[0] & 0xE0) | Kind::Block as u8;
    frame[1] = flags.0;
    frame[6..16].fill(0x77);
    frame[16..20].copy_from_slice(&u32::from(number).to_be_bytes());
    frame[24..28].copy_from_slice(&(7 << 16 | u32::from(number)).to_be_bytes());
    frame
}

/// What follows in a block is fetched without a look; whatever comes instead arrives all the same.
#[test]
fn the_next_frame_of_a_block_is_expected() {
    let full = |number| of_block(number, 61_472, Flags::ACK);
    // The calls for each: a look and a fetch, or one fetch; for one that is short, or follows such, another.
    let before_miss = [
        (full(1), 2),
        (full(2), 1),
        (of_block(3, 61_472, Flags::ACK_REQUEST), 1),
        (of_block(4, 61_472, Flags::LAST), 1),
        (full(5), 2),
        (frame(6, 300), 1),
        (full(6), 1),
    ];
    // Then they are looked at for a while, and expected again until another comes.
    let looked_at = (7..7 + LOOKS_AFTER_MISS as u8).map(|number| (full(number), 2));
    let after = [(full(23), 1), (full(24), 1), (full(100), 1), (full(101), 2)];
    let all: Vec<_> = before_miss.into_iter().chain(looked_at).chain(after).collect();
    let (mut link, mut sink) = (open(), Lands::default());
    let from = UdpSocket::bind("127.0.0.1:0").expect("a port");
    send_cut_by(&from, &link, &frame(0, 9000), 1472);
    assert!(link.wait(Some(Duration::from_secs(1))));
    link.receive_into(64, &mut sink);
    sink.got.clear();
    for (number, (frame, calls)) in all.iter().enumerate() {
        let before = link.statistics().receive_calls;
        assert_eq!(link.receive_into(64, &mut sink), 0);
        send_cut_by(&from, &link, frame, 1472);
        assert!(link.wait(Some(Duration::from_secs(1))));
        let empty = link.statistics().receive_calls - before;
        assert_eq!(link.receive_into(64, &mut sink), 1, "frame {number}");
        let took = link.statistics().receive_calls - before - empty;
        assert_eq!(took, *calls, "frame {number}");
        assert!(sink.got.pop().as_ref() == Some(frame), "frame {number}");
    }
}

#[test]
fn another_frame_than_the_one_seen_is_put_together_again() {
    let link = open();
    let seen_head = |length: usize| *frame(9, length).first_chunk().expect("long enough");
    // As if one of another length had been seen, cut in the same way; and as if short ones had been.
    for (seen_bytes, placed) in [(50_000, 49_968), (10_000, 9968), (1472, 1440)] {
        let whole = frame(1, 30_000);
        send_cut(&link, &whole, 1472);
        let from = LinkAddress::EVERYONE;
        let train =
            Train { from, head: seen_head(seen_bytes), frame_bytes: seen_bytes, bytes: seen_bytes };
        let (mut scatter, mut landing) = (Scatter::new(), vec![0; placed]);
        let got = scatter
            .fetch(link.socket.as_fd(), &Seen::of(train), 1, &mut landing)
            .expect("it is there");
        assert!(!got.as_seen && !got.truncated);
        assert!(scatter.gather(&train, 1, &landing, &got) == whole, "{seen_bytes}");
    }
}

/// Two calls splice a frame, one copies it.
#[test]
fn payload_is_named_only_if_it_is_long_and_not_summed() {
    let (mut a, mut b) = (open(), open());
    let to = b.capabilities().address;
    let mut summed = frame(1, 61_472);
    summed[FLAGS_OFFSET] = 0;
    let least = HEADER_BYTES + splice::SPLICED_BYTES_MIN;
    for (frame, calls) in
        [(frame(1, 61_472), 2), (summed, 1), (frame(2, least), 2), (frame(3, least - 1), 1)]
    {
        let before = a.statistics().send_calls;
        send(&mut a, to, &frame);
        assert_eq!(a.statistics().send_calls - before, calls, "{} bytes", frame.len());
        assert!(collect(&mut b) == [frame]);
    }
}

/// What costs less is found by sending, and holds for all frames of a train that is longer than a run.
#[test]
fn frames_arrive_whichever_way_is_tried() {
    let (mut a, mut b) = (open(), open());
    a.long.costs = Costs::new();
    let to = b.capabilities().address;
    let frame = frame(1, 61_472);
    let mut calls = Vec::new();
    for _ in 0..40 {
        let before = a.statistics().send_calls;
        send(&mut a, to, &frame);
        calls.push(a.statistics().send_calls - before);
        assert!(collect_one(&mut b) == frame);
    }
    // A run of each, whichever is cheaper then.
    assert_eq!(calls[..12], [1; 12]);
    assert_eq!(calls[12..24], [2; 12]);
}

#[test]
fn what_cannot_be_spliced_is_copied_and_the_socket_stays_usable() {
    let (mut a, mut b) = (open(), open());
    let to = b.capabilities().address;
    let (long, short) = (frame(1, 61_472), frame(2, 100));
    for time in 1..=DOUBTS_MAX {
        // A pipe without room for it.
        a.long.pipe.as_mut().expect("this kernel splices").shrink();
        send(&mut a, to, &long);
        send(&mut a, to, &short);
        let got = collect(&mut b);
        assert!(got == [long.clone(), short.clone()], "{time}: {}", got.len());
        let counts = a.statistics();
        assert_eq!((counts.system_errors, counts.send_full), (u64::from(time), 0));
        assert_eq!(a.long.pipe.is_some(), time < DOUBTS_MAX, "given up after some in a row");
        let notice = a.notice();
        assert_eq!(notice.is_some(), time == DOUBTS_MAX, "said when it is given up");
        if let Some(notice) = notice {
            // A short write has no number of its own.
            let why = io::Error::from(io::ErrorKind::WriteZero).to_string();
            assert!(notice.contains("127.0.0.1") && notice.ends_with(&why), "{notice}");
        }
    }
    assert_eq!(a.notice(), None, "once");
    assert_eq!(a.capabilities().long_frame_bytes, LONG_FRAME_BYTES, "copied ones still go");
    send(&mut a, to, &long);
    assert!(collect(&mut b) == [long]);
    assert_eq!(a.statistics().frames_sent, 2 * u64::from(DOUBTS_MAX) + 1);
}

#[test]
fn splicing_that_works_again_is_trusted_again() {
    let (mut a, mut b) = (open(), open());
    let to = b.capabilities().address;
    let long = frame(1, 40_000);
    for _ in 0..2 * DOUBTS_MAX {
        a.long.pipe.as_mut().expect("not given up").shrink();
        send(&mut a, to, &long);
        send(&mut a, to, &long);
        collect(&mut b);
    }
    assert!(a.long.pipe.is_some());
}

/// Where the kernel does not segment any more, frames that were promised still go, and no more are promised.
#[test]
fn what_cannot_be_segmented_goes_as_one_datagram() {
    let (mut a, mut b) = (open(), open());
    a.long.costs = Costs::settled(By::Copy);
    let to = b.capabilities().address;
    let long = frame(1, 61_472);
    // Without checksums the kernel refuses to segment, as it does for cards that cannot do them.
    let no_check = |link: &UdpLink, on: libc::c_int| {
        system::set_option(link.socket.as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, &on)
            .expect("anyone may");
    };
    no_check(&a, 1);
    for time in 1..=DOUBTS_MAX + 2 {
        assert_eq!(a.capabilities().long_frame_bytes > 0, time <= DOUBTS_MAX, "{time}");
        assert_eq!(a.capabilities().segmentation, time <= DOUBTS_MAX, "{time}");
        send(&mut a, to, &long);
        let got = collect(&mut b);
        assert!(got.last() == Some(&long), "{time}: {}", got.len());
    }
    // Tried again after many sends, it works again.
    no_check(&a, 0);
    for _ in 0..super::super::RETRY_SEGMENTS_SENDS {
        if a.capabilities().segmentation {
            break;
        }
        send(&mut a, to, &long);
        b.receive(64, &mut |_, _| ());
    }
    assert_eq!(a.capabilities().long_frame_bytes, LONG_FRAME_BYTES);
}

#[test]
fn long_frames_to_everyone_are_refused() {
    let mut a = open();
    a.set_peers(vec![a.local_address()]);
    send(&mut a, LinkAddress::EVERYONE, &frame(1, 5000));
    assert_eq!((a.statistics().send_refused, a.statistics().frames_sent), (1, 0));
}
