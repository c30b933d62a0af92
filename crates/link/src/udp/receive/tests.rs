//! What is fetched plainly is handed up as if it had been told how it lies.

use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use emp_wire::{DESTINATION_TAG_OFFSET, HEADER_BYTES};

use super::*;
use crate::udp::fetching::Fetch;
use crate::{Link, TxFrame, UdpOptions, system};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn open(ip: IpAddr) -> UdpLink {
    let options = UdpOptions { bind: Some(ip), port: 0, mtu: Some(1500), ..UdpOptions::new(1) };
    UdpLink::open(&options).expect("anyone may")
}

/// A frame of so many bytes for node 1, with contents of its own.
fn frame(number: u8, bytes: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..bytes).map(|i| (i * 7 + i / 256) as u8 ^ number).collect();
    frame[..2].copy_from_slice(&[0x24, 0]);
    frame[2..4].copy_from_slice(&((bytes - HEADER_BYTES) as u16).to_be_bytes());
    frame[DESTINATION_TAG_OFFSET..][..2].copy_from_slice(&[0, 1]);
    frame
}

fn collect(link: &mut UdpLink) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    while link.wait(Some(Duration::from_millis(30))) {
        while link.receive(64, &mut |frame, _| got.push(frame.to_vec())) > 0 {}
    }
    got
}

/// A sender of its own mind, and a link that has had lone frames from it until it fetches the next one plainly.
fn calm(ip: IpAddr) -> (UdpSocket, UdpLink) {
    let mut link = open(ip);
    let socket = UdpSocket::bind((ip, 0)).expect("a port");
    let lone = frame(9, 64);
    for _ in 0..200 {
        if link.fetching.next() == Fetch::Plain {
            return (socket, link);
        }
        socket.send_to(&lone, link.local_address()).expect("it goes");
        while link.receive(64, &mut |got, _| assert_eq!(got, lone)) == 0 {}
        assert_eq!(link.receive(64, &mut |_, _| panic!("there is one")), 0);
    }
    panic!("lone frames are fetched plainly");
}

/// Sends what leaves as one segmented datagram, and returns what is handed up.
fn cut(bytes: &[u8], segment_bytes: usize) -> (UdpLink, Vec<Vec<u8>>) {
    let (socket, mut link) = calm(V4);
    let segment_bytes = segment_bytes as libc::c_int;
    system::set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, &segment_bytes)
        .expect("the kernel segments");
    socket.send_to(bytes, link.local_address()).expect("it goes");
    let got = collect(&mut link);
    (link, got)
}

#[test]
fn frames_of_every_length_come_as_they_were_and_from_whom() {
    for bytes in [HEADER_BYTES, 33, 64, 1056, 1472, 9000, 61_472] {
        let (socket, mut link) = calm(V4);
        let whole = frame(1, bytes);
        socket.send_to(&whole, link.local_address()).expect("it goes");
        assert!(link.wait(Some(Duration::from_secs(5))));
        let own = LinkAddress::udp(socket.local_addr().expect("it has one"));
        let mut got = Vec::new();
        link.receive(64, &mut |frame, from| got.push((frame.to_vec(), *from)));
        assert!(got == [(whole, own)], "{bytes}");
    }
}

#[test]
fn what_was_merged_is_cut_where_frames_end() {
    let frames = |lengths: &[usize]| -> Vec<Vec<u8>> {
        (0..).zip(lengths).map(|(number, bytes)| frame(number, *bytes)).collect()
    };
    for (lengths, segment_bytes) in [
        // A train, one with a shorter end, one that is longer than a datagram may be, one long frame, and one behind another.
        (&[100; 7][..], 100),
        (&[1472, 1472, 500], 1472),
        (&[1472; 40], 1472),
        (&[61_472], 1472),
        (&[1472, 20_000], 1472),
        // Datagrams of several frames each.
        (&[60, 40, 60, 40], 100),
        (&[40, 60, 32], 132),
    ] {
        let all = frames(lengths);
        let (link, got) = cut(&all.concat(), segment_bytes);
        assert!(got == all, "{lengths:?}: {:?}", got.iter().map(Vec::len).collect::<Vec<_>>());
        assert_eq!(link.statistics().receive_lost, 0, "{lengths:?}");
    }
}

#[test]
fn a_budget_is_kept_within_what_was_merged() {
    let (socket, mut link) = calm(V4);
    let frames: Vec<_> = (0..5).map(|number| frame(number, 100)).collect();
    socket.send_to(&frames.concat(), link.local_address()).expect("it goes");
    assert!(link.wait(Some(Duration::from_secs(5))));
    for frames in frames.chunks(2) {
        assert_eq!(link.next_due().is_some(), frames[0] != frame(0, 100));
        let mut got = Vec::new();
        assert_eq!(link.receive(2, &mut |frame, _| got.push(frame.to_vec())), frames.len());
        assert!(got == frames);
    }
    assert_eq!(link.next_due(), None);
}

#[test]
fn what_is_no_frame_costs_no_other_and_ends_plain_fetches() {
    // Padding, which is ignored (`BUNDLE-1`).
    let whole = frame(1, 100);
    let (socket, mut link) = calm(V4);
    let padded = [&whole[..], &[0; 30]].concat();
    socket.send_to(&padded, link.local_address()).expect("it goes");
    assert!(collect(&mut link) == std::slice::from_ref(&whole));
    assert_eq!(link.statistics().receive_lost, 0);
    assert_eq!(link.fetching.next(), Fetch::Told);
    // Padded frames that were merged: the second is found only when it is told where it begins.
    let (mut link, got) = cut(&[&padded[..], &padded].concat(), padded.len());
    assert!(got == std::slice::from_ref(&whole));
    assert_eq!((link.statistics().receive_lost, link.fetching.next()), (1, Fetch::Told));
    let socket = UdpSocket::bind((V4, 0)).expect("a port");
    let segment_bytes = padded.len() as libc::c_int;
    system::set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, &segment_bytes)
        .expect("the kernel segments");
    socket.send_to(&padded.repeat(2), link.local_address()).expect("it goes");
    assert_eq!(collect(&mut link).len(), 2);
    // A frame whose end is missing, one of another version and a stump are for the firmware to count.
    for bad in [&whole[..99], &[&[0x64], &whole[1..]].concat(), &whole[..7], &whole[..5]] {
        let (socket, mut link) = calm(V4);
        socket.send_to(bad, link.local_address()).expect("it goes");
        let got = collect(&mut link);
        assert!(got == if bad.len() > 5 { vec![bad.to_vec()] } else { vec![] });
        assert_eq!(link.fetching.next(), Fetch::Told);
    }
}

#[test]
fn frames_of_other_nodes_are_dropped() {
    let (socket, mut link) = calm(V4);
    let (own, mut other) = (frame(1, 100), frame(2, 100));
    other[DESTINATION_TAG_OFFSET + 1] = 7;
    let before = link.statistics().not_for_us;
    socket.send_to(&[&other[..], &own].concat(), link.local_address()).expect("it goes");
    assert!(collect(&mut link) == [own]);
    assert_eq!(link.statistics().not_for_us, before + 1);
}

/// Notes of each frame whether it came marked.
#[derive(Default)]
struct Marks {
    marked: bool,
    got: Vec<bool>,
}

impl FrameSink for Marks {
    fn frame(&mut self, _: &[u8], _: &LinkAddress) {
        self.got.push(self.marked);
    }

    fn marked(&mut self, marked: bool) {
        self.marked = marked;
    }
}

/// Of lone frames that come marked one of the first few is seen to be, and from then on all are (`ACK-9`).
#[test]
fn marks_of_lone_frames_are_found_soon() {
    for ip in [V4, IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        if UdpSocket::bind((ip, 0)).is_err() {
            continue;
        }
        let (socket, mut link) = calm(ip);
        let (level, class) = match ip {
            IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
            IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
        };
        system::set_option(socket.as_fd(), level, class, &0b11).expect("anyone may");
        let mut marks = Marks::default();
        while marks.got.len() < 40 {
            socket.send_to(&frame(1, 64), link.local_address()).expect("it goes");
            marks.marked = false;
            while link.receive_into(64, &mut marks) == 0 {
                marks.marked = false;
            }
            link.receive_into(64, &mut marks);
        }
        let seen = marks.got.iter().position(|marked| *marked).expect("one is seen");
        assert!(seen < 8, "{:?}", marks.got);
        let missed = marks.got[seen..].iter().filter(|marked| !**marked).count();
        assert_eq!(missed, 0, "{:?}", marks.got);
    }
}

#[test]
fn what_leaves_may_be_marked_by_whichever_socket() {
    for ip in [V4, IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        if UdpSocket::bind((ip, 0)).is_err() {
            continue;
        }
        let (mut a, mut b) = (open(ip), open(ip));
        let (to, whole) = (b.capabilities().address, frame(1, 64));
        for number in 0..60 {
            for fd in a.sending_sockets() {
                let (level, class) = match ip {
                    IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
                    IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
                };
                let mut ours: libc::c_int = 0;
                system::get_option(fd, level, class, &mut ours).expect("known");
                assert_eq!(ours & 0b11, 0b10, "ECT(0), frame {number}");
            }
            assert_eq!(a.send(&[TxFrame { to, parts: &[IoSlice::new(&whole)] }]), 1);
            while b.receive(64, &mut |got, _| assert_eq!(got, whole)) == 0 {}
        }
        assert_eq!(a.sending_sockets().len(), 2, "the peer has one of its own by now");
    }
}
