//! Lent links of users without privilege, and frames between them.

use std::io::IoSlice;
use std::path::Path;
use std::time::{Duration, Instant};

use emp_link::{Link, LinkAddress, LinkError, PacketLink, PacketOptions, TxFrame};
use emp_testing::lab::{INTERFACE, Lab};
use emp_wire::{DESTINATION_TAG_OFFSET, HEADER_BYTES, Kind};

use super::{PATIENCE, become_nobody, nobodys_group};

pub fn lends_to_nobodys_group() -> String {
    format!("lend = '{}'\n", nobodys_group())
}

pub fn options(path: &Path, tag: u16) -> PacketOptions {
    PacketOptions { lender: Some(path.to_path_buf()), ..PacketOptions::new(INTERFACE, tag) }
}

/// Opens a lent link on a host, as a user without privilege.
pub fn borrow(lab: &Lab, side: usize, options: &PacketOptions) -> Result<PacketLink, LinkError> {
    lab.inside(side, || {
        become_nobody();
        PacketLink::open(options)
    })
}

/// A frame for the node with this tag, with a number in it.
pub fn frame(tag: u16, number: u8) -> Vec<u8> {
    let mut bytes = vec![number; HEADER_BYTES + 32];
    bytes[0] = 1 << 5 | Kind::Data as u8;
    bytes[DESTINATION_TAG_OFFSET..DESTINATION_TAG_OFFSET + 2].copy_from_slice(&tag.to_be_bytes());
    bytes
}

pub fn send(link: &mut PacketLink, to: LinkAddress, bytes: &[u8]) {
    let parts = [IoSlice::new(bytes)];
    assert_eq!(link.send(&[TxFrame { to, parts: &parts }]), 1);
}

/// Sends a frame of this number until it is there: frames may be lost while a group changes.
pub fn reaches(from: &mut PacketLink, to: &mut PacketLink, tag: u16, number: u8) {
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
