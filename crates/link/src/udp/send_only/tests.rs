//! What leaves by these sockets comes from the link, and nothing that is for the link comes to them.

use std::io::{ErrorKind, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use emp_wire::{DESTINATION_TAG_OFFSET, Flags, HEADER_BYTES, Kind, LinkAddress};

use crate::udp::UdpLink;
use crate::udp::copy_or_splice::{By, Costs};
use crate::{Link, TxFrame, UdpOptions, system};

fn open(bind: Option<IpAddr>) -> UdpLink {
    let mut link =
        UdpLink::open(&UdpOptions { bind, port: 0, mtu: Some(1500), ..UdpOptions::new(1) })
            .expect("anyone may");
    link.long.costs = Costs::settled(By::Splice);
    link.long.try_splicing();
    link
}

/// A frame of a block for node 1, with contents of its own.
fn block(number: u32, bytes: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..bytes as u32).map(|i| (i * 7 + i / 256 + number) as u8).collect();
    frame[..2].copy_from_slice(&[0x20 | Kind::Block as u8, Flags::PAYLOAD_UNCHECKED.0]);
    frame[2..4].copy_from_slice(&((bytes - HEADER_BYTES) as u16).to_be_bytes());
    frame[DESTINATION_TAG_OFFSET..][..2].copy_from_slice(&[0, 1]);
    frame[16..20].copy_from_slice(&number.to_be_bytes());
    frame
}

fn send(from: &mut UdpLink, to: LinkAddress, frame: &[u8]) {
    let (head, body) = frame.split_at(HEADER_BYTES);
    let parts = [IoSlice::new(head), IoSlice::new(body)];
    assert_eq!(from.send(&[TxFrame { to, parts: &parts }]), 1);
}

fn collect(link: &mut UdpLink, count: usize) -> Vec<(Vec<u8>, LinkAddress)> {
    let mut got = Vec::new();
    while got.len() < count && link.wait(Some(Duration::from_secs(5))) {
        link.receive(64, &mut |frame, from| got.push((frame.to_vec(), *from)));
    }
    got
}

fn spliced(link: &UdpLink) -> usize {
    link.send_only.as_ref().map_or(0, |sockets| sockets.sockets.len())
}

/// Each end sends to the other, which has sent to it by such a socket: what answers must arrive at the link, not at that socket.
fn both_ways(bind: Option<IpAddr>, via: IpAddr) {
    let mut ends = [open(bind), open(bind)];
    if ends[0].long.pipe.is_none() {
        return;
    }
    let place = |end: &UdpLink| LinkAddress::udp(SocketAddr::new(via, end.local_address().port()));
    for number in 0..40 {
        for from in [0, 1] {
            let (to, own) = (place(&ends[1 - from]), place(&ends[from]));
            // One by the link's own socket behind one that is spliced.
            let (long, short) = (block(number, 61_472), block(number, 700));
            send(&mut ends[from], to, &long);
            send(&mut ends[from], to, &short);
            let got = collect(&mut ends[1 - from], 2);
            assert!(got == [(long, own), (short, own)], "{number} from {from}: {}", got.len());
        }
    }
    assert_eq!(ends.each_ref().map(spliced), [1, 1]);
    let calls = ends.map(|end| end.statistics().send_calls);
    assert_eq!(calls, [120, 120], "two to splice, one to copy");
}

#[test]
fn what_is_spliced_comes_from_the_link_and_answers_reach_it() {
    both_ways(Some([127, 0, 0, 1].into()), [127, 0, 0, 1].into());
    both_ways(None, [127, 0, 0, 1].into());
    let v6 = "::1".parse().expect("an address");
    both_ways(Some(v6), v6);
}

/// The address that frames leave from is the one that the link's own socket would take, for each peer.
#[test]
fn each_peer_sees_the_address_that_it_is_reached_from() {
    let (mut a, mut b) = (open(None), open(None));
    if a.long.pipe.is_none() {
        return;
    }
    let port = b.local_address().port();
    for number in 0..6 {
        for to in [[127, 0, 0, 1], [127, 0, 0, 7]] {
            let to = LinkAddress::udp((to, port).into());
            let (long, short) = (block(number, 30_000), block(number, 700));
            send(&mut a, to, &long);
            send(&mut a, to, &short);
            let got = collect(&mut b, 2);
            assert!(got[0].0 == long && got[1].0 == short);
            assert_eq!(got[0].1, got[1].1);
        }
    }
    assert!(spliced(&a) > 0);
}

/// Heads are under way until they are read, and each stays what it was.
#[test]
fn many_heads_under_way_stay_what_they_were() {
    let local = Some([127, 0, 0, 1].into());
    let (mut a, mut b) = (open(local), open(local));
    let to = b.capabilities().address;
    // More than fit a page of heads, and fewer than fit a receive buffer.
    let frames: Vec<Vec<u8>> = (0..150).map(|number| block(number, 17_000)).collect();
    let held = b.capabilities().long_frames_held * 61_472 / 17_000 / 2;
    for frames in frames.chunks(held.max(1)) {
        for frame in frames {
            send(&mut a, to, frame);
        }
        let got = collect(&mut b, frames.len());
        assert!(got.iter().map(|(frame, _)| frame).eq(frames), "{} of {}", got.len(), frames.len());
    }
}

/// While such a socket is open nobody else gets the link's port, though both sockets have it.
#[test]
fn the_links_port_stays_its_own() {
    for bind in [None, Some([127, 0, 0, 1].into())] {
        let (mut a, b) = (open(bind), open(bind));
        let to = LinkAddress::udp(([127, 0, 0, 1], b.local_address().port()).into());
        send(&mut a, to, &block(1, 61_472));
        let taken = UdpSocket::bind(a.local_address()).expect_err("it is taken");
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    }
}

/// A peer that is gone says so to a connected socket; frames to others, and to one that comes back, are spliced all the same.
#[test]
fn a_peer_that_is_gone_ends_nothing() {
    let local = Some([127, 0, 0, 1].into());
    let (mut a, mut b) = (open(local), open(local));
    if a.long.pipe.is_none() {
        return;
    }
    let gone = open(local).capabilities().address;
    let to = b.capabilities().address;
    for number in 0..20 {
        send(&mut a, gone, &block(number, 61_472));
        send(&mut a, gone, &block(number, 61_472));
        let whole = block(number, 61_472);
        send(&mut a, to, &whole);
        assert!(collect(&mut b, 1).first().is_some_and(|(got, _)| *got == whole), "{number}");
    }
    assert!(a.long.pipe.is_some() && a.notice().is_none());
    assert_eq!(a.capabilities().long_frame_bytes, 61_472);
}

/// Where the kernel does not segment for this socket either, frames that were promised go as datagrams of their own, and splicing is not blamed.
#[test]
fn what_cannot_be_segmented_is_copied() {
    let local = Some([127, 0, 0, 1].into());
    let (mut a, mut b) = (open(local), open(local));
    if a.long.pipe.is_none() {
        return;
    }
    let to = b.capabilities().address;
    // What is spliced is read where it is.
    let frames: Vec<_> = (0..10).map(|number| block(number, 61_472)).collect();
    send(&mut a, to, &frames[0]);
    let sockets = &a.send_only.as_ref().expect("it was used").sockets;
    // Without checksums the kernel refuses to segment, as it does for cards that cannot do them.
    for fd in sockets.iter().map(|aimed| aimed.socket.as_fd()).chain([a.socket.as_fd()]) {
        system::set_option(fd, libc::SOL_SOCKET, libc::SO_NO_CHECK, &1).expect("anyone may");
    }
    frames[1..].iter().for_each(|frame| send(&mut a, to, frame));
    let got = collect(&mut b, 10);
    assert!(got.iter().map(|(frame, _)| frame).eq(&frames), "{} came", got.len());
    assert!(!a.capabilities().segmentation && a.long.pipe.is_some());
}

fn sockets(link: &UdpLink) -> usize {
    link.sending_sockets().len() - 1
}

/// Sends one short frame to a peer and takes it there.
fn reach(from: &mut UdpLink, to: &mut UdpLink, number: u32) {
    let whole = block(number, 64 + number as usize % 1300);
    let own = LinkAddress::udp(from.local_address());
    send(from, LinkAddress::udp(to.local_address()), &whole);
    let got = collect(to, 1);
    let lengths: Vec<_> = got.iter().map(|(frame, from)| (frame.len(), *from)).collect();
    assert!(got == [(whole, own)], "{number}: {lengths:?} instead of one from {own:?}");
}

/// Peers that are sent to often have a socket each, and no more than a few have: those that are sent to now.
#[test]
fn few_peers_have_sockets_and_all_are_reached() {
    let local = Some([127, 0, 0, 1].into());
    let mut a = open(local);
    let mut peers: Vec<_> = (0..super::SOCKETS_MAX + 8).map(|_| open(local)).collect();
    reach(&mut a, &mut peers[0], 1);
    assert_eq!(sockets(&a), 0, "one frame is worth no socket");
    for number in 0..40 {
        peers.iter_mut().for_each(|peer| reach(&mut a, peer, number));
    }
    let all = &a.send_only.as_ref().expect("they can be had").sockets;
    assert_eq!(all.len(), super::SOCKETS_MAX, "as many as there may be");
    let led = |a: &UdpLink, peer: &UdpLink| {
        let to = peer.local_address();
        a.send_only.iter().flat_map(|all| &all.sockets).any(|aimed| aimed.to == to)
    };
    let without = peers.iter().rposition(|peer| !led(&a, peer)).expect("there are more peers");
    // All are sent to: nobody takes another's. Once only one is, it does.
    (0..super::FRAMES_BEFORE as u32).for_each(|n| reach(&mut a, &mut peers[without], n));
    assert!(!led(&a, &peers[without]));
    let frames = super::IDLE_FRAMES as u32 + 2 * super::FRAMES_BEFORE as u32;
    (0..frames).for_each(|number| reach(&mut a, &mut peers[without], number));
    assert!(led(&a, &peers[without]));
    assert_eq!(sockets(&a), super::SOCKETS_MAX);
    // Whoever lost a socket is reached as before, and so are long frames to all.
    for number in 0..3 {
        peers.iter_mut().for_each(|peer| reach(&mut a, peer, number));
    }
    let place = |peer: &UdpLink| LinkAddress::udp(peer.local_address());
    let long = block(7, 61_472);
    for peer in &mut peers {
        send(&mut a, place(peer), &long);
        assert!(collect(peer, 1)[0].0 == long);
    }
    assert_eq!(sockets(&a), super::SOCKETS_MAX);
}

/// What the kernel is told of long frames does not cut those that fit a datagram.
#[test]
fn full_frames_after_long_ones_leave_whole() {
    let local = Some([127, 0, 0, 1].into());
    let mut a = open(local);
    // It does not merge what was cut.
    let peer = UdpSocket::bind("127.0.0.1:0").expect("a port");
    peer.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket");
    let to = LinkAddress::udp(peer.local_addr().expect("bound"));
    let mut buffer = vec![0; 70_000];
    let mut next = || peer.recv_from(&mut buffer).expect("it comes").0;
    for _ in 0..40 {
        // So long that its last datagram would be full: it is cut one byte shorter.
        send(&mut a, to, &block(1, 40 * 1472));
        let lengths: usize = (0..41).map(|_| next()).sum();
        assert_eq!(lengths, 40 * 1472);
        for short in [1472, 1472, 1471, 64] {
            send(&mut a, to, &block(2, short));
            assert_eq!(next(), short);
        }
    }
    (0..20).for_each(|_| {
        send(&mut a, to, &block(2, 1472));
        assert_eq!(next(), 1472);
    });
    let all = &a.send_only.as_ref().expect("they can be had").sockets;
    assert!(
        all.iter().all(|aimed| aimed.segment == 0),
        "what is short is not put together of pages"
    );
}

/// A peer that is gone, and says so, ends nothing: frames to it are lost, and reach it when it is there again.
#[test]
fn short_frames_to_a_peer_that_is_gone_are_lost_until_it_is_back() {
    let local = Some([127, 0, 0, 1].into());
    let (mut a, mut b, c) = (open(local), open(local), open(local));
    let place = c.local_address();
    let to = LinkAddress::udp(place);
    drop(c);
    for number in 0..60 {
        send(&mut a, to, &block(number, 100));
        reach(&mut a, &mut b, number);
    }
    let back = UdpOptions { bind: local, port: place.port(), ..UdpOptions::new(1) };
    let mut c = UdpLink::open(&back).expect("its port is free");
    (0..20).for_each(|number| reach(&mut a, &mut c, number));
    let counts = a.statistics();
    assert_eq!((counts.system_errors, counts.send_refused), (0, 0), "{counts:?}");
}

/// Where the socket of a peer does not send, the link's does, and the peer gets another.
#[test]
fn what_a_peers_socket_does_not_send_leaves_all_the_same() {
    let local = Some([127, 0, 0, 1].into());
    let (mut a, mut b) = (open(local), open(local));
    (0..30).for_each(|number| reach(&mut a, &mut b, number));
    assert_eq!(sockets(&a), 1);
    for fd in &a.sending_sockets()[..1] {
        // SAFETY: no pointers; what was going to be sent by it meets a broken pipe.
        assert_eq!(unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_WR) }, 0);
    }
    reach(&mut a, &mut b, 1);
    assert_eq!(sockets(&a), 0);
    (0..30).for_each(|number| reach(&mut a, &mut b, number));
    assert_eq!(sockets(&a), 1);
    assert_eq!(a.statistics().system_errors, 0);
}

/// Frames of several links on one port and different addresses come from the right ones, and answers to the right ones.
#[test]
fn links_that_share_a_port_stay_apart() {
    let port = open(Some([127, 0, 0, 1].into())).local_address().port();
    let open = |ip: [u8; 4]| {
        UdpLink::open(&UdpOptions { bind: Some(ip.into()), port, ..UdpOptions::new(1) })
    };
    let (Ok(mut a), Ok(mut b)) = (open([127, 0, 0, 2]), open([127, 0, 0, 3])) else { return };
    for number in 0..50 {
        reach(&mut a, &mut b, number);
        reach(&mut b, &mut a, number);
    }
    assert_eq!([sockets(&a), sockets(&b)], [1, 1]);
}
