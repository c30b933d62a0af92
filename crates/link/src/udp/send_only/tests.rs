//! What leaves by these sockets comes from the link, and nothing that is for the link comes to them.

use std::io::{ErrorKind, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
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
    link.long.send_only.as_ref().map_or(0, |sockets| sockets.sockets.len())
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
    let sockets = &a.long.send_only.as_ref().expect("it was used").sockets;
    // Without checksums the kernel refuses to segment, as it does for cards that cannot do them.
    for fd in sockets.iter().map(|aimed| aimed.socket.as_fd()).chain([a.socket.as_fd()]) {
        system::set_option(fd, libc::SOL_SOCKET, libc::SO_NO_CHECK, &1).expect("anyone may");
    }
    frames[1..].iter().for_each(|frame| send(&mut a, to, frame));
    let got = collect(&mut b, 10);
    assert!(got.iter().map(|(frame, _)| frame).eq(&frames), "{} came", got.len());
    assert!(!a.capabilities().segmentation && a.long.pipe.is_some());
}
