//! Whose frames reach whom, as sockets are lent and taken back. Alone in its program, for the reason that `lent_conformance` has: the links of this
//! test are used from another network than theirs, and so can't ask again.
//!
//! Needs root for the hosts and the service; says so where it is not to be had. Who borrows has no privilege.

mod common;

use std::io::IoSlice;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{PATIENCE, Service, become_nobody, nobodys_group};
use emp_link::{Link, LinkAddress, LinkError, PacketLink, PacketOptions, TxFrame};
use emp_testing::lab::{INTERFACE, Lab};
use emp_wire::{DESTINATION_TAG_OFFSET, HEADER_BYTES, Kind};

fn lends_to_nobodys_group() -> String {
    format!("lend = '{}'\n", nobodys_group())
}

fn options(path: &Path, tag: u16) -> PacketOptions {
    PacketOptions { lender: Some(path.to_path_buf()), ..PacketOptions::new(INTERFACE, tag) }
}

/// Opens a lent link on a host, as a user without privilege.
fn borrow(lab: &Lab, side: usize, options: &PacketOptions) -> Result<PacketLink, LinkError> {
    lab.inside(side, || {
        become_nobody();
        PacketLink::open(options)
    })
}

/// A frame for the node with this tag, with a number in it.
fn frame(tag: u16, number: u8) -> Vec<u8> {
    let mut bytes = vec![number; HEADER_BYTES + 32];
    bytes[0] = 1 << 5 | Kind::Data as u8;
    bytes[DESTINATION_TAG_OFFSET..DESTINATION_TAG_OFFSET + 2].copy_from_slice(&tag.to_be_bytes());
    bytes
}

fn send(link: &mut PacketLink, to: LinkAddress, bytes: &[u8]) {
    let parts = [IoSlice::new(bytes)];
    assert_eq!(link.send(&[TxFrame { to, parts: &parts }]), 1);
}

/// Sends a frame of this number until it is there: frames may be lost while a group changes.
fn reaches(from: &mut PacketLink, to: &mut PacketLink, tag: u16, number: u8) {
    let (start, address) = (Instant::now(), to.capabilities().address);
    let mut there = false;
    while !there {
        assert!(start.elapsed() < PATIENCE, "tag {tag} gets nothing");
        send(from, address, &frame(tag, number));
        let until = Instant::now() + Duration::from_millis(50);
        while !there && Instant::now() < until {
            to.receive(64, &mut |bytes, _| {
                let its = u16::from_be_bytes([
                    bytes[DESTINATION_TAG_OFFSET],
                    bytes[DESTINATION_TAG_OFFSET + 1],
                ]);
                assert_eq!(its, tag, "another's frame");
                there |= bytes[HEADER_BYTES] == number;
            });
            from.condition();
            to.condition();
        }
    }
}

/// Nodes of a host get their own frames, whoever comes and goes, and whatever the interface does.
#[test]
fn each_borrower_has_its_frames() {
    let Some(lab) = Lab::build(1500) else { return };
    let service = Service::start(&lab, 1, &lends_to_nobodys_group());
    let mut from = lab.inside(0, || PacketLink::open(&PacketOptions::new(INTERFACE, 9)));
    let from = from.as_mut().expect("root may");
    let lend = |tag| borrow(&lab, 1, &options(&service.socket(), tag)).expect("it is lent");
    let mut links: Vec<(u16, PacketLink)> = (100..106).map(|tag| (tag, lend(tag))).collect();
    let mut number = 0;
    let mut all = |links: &mut [(u16, PacketLink)]| {
        for (tag, link) in links {
            number += 1;
            reaches(from, link, *tag, number);
        }
    };
    all(&mut links);
    // One from the midst goes: the last takes its place. One comes. One takes a tag that was another's.
    drop(links.remove(1));
    all(&mut links);
    drop(links.remove(2));
    links.push((101, lend(101)));
    all(&mut links);
    // The kernel takes all in again, in another order than they came to be in.
    lab.ip(1, &["link", "set", INTERFACE, "down"]);
    lab.ip(1, &["link", "set", INTERFACE, "up"]);
    all(&mut links);
    drop(links.remove(0));
    all(&mut links);
}
