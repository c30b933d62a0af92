//! The capture is read back by a reader that knows only the format.

use std::io::IoSlice;

use super::*;
use crate::Fabric;

fn word(bytes: &[u8], at: usize) -> usize {
    bytes[at..].first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize)
}

/// Blocks as (type, body), checking that each ends with the length that it begins with.
fn blocks(mut file: &[u8]) -> Vec<(usize, &[u8])> {
    let mut blocks = Vec::new();
    while !file.is_empty() {
        let length = word(file, 4);
        assert_eq!(length % 4, 0);
        assert_eq!(word(file, length - 4), length, "both lengths agree");
        blocks.push((word(file, 0), &file[8..length - 4]));
        file = &file[length..];
    }
    blocks
}

fn frame(length: usize) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..length).map(|at| at as u8).collect();
    frame[4..6].copy_from_slice(&7u16.to_be_bytes());
    frame
}

#[test]
fn frames_of_both_ways_are_written() {
    let fabric = Fabric::new(2).expect("there are descriptors");
    let inner = fabric.link(0, 7).expect("a node of the fabric");
    let mut peer = fabric.link(1, 7).expect("a node of the fabric");
    let mut file = Vec::new();
    let mut link = CaptureLink::new(inner, &mut file, CAPTURE_BYTES).expect("memory takes it");
    let sent = [frame(32), frame(33)];
    for frame in &sent {
        let (to, parts) =
            (LinkAddress::index(1), [IoSlice::new(&frame[..9]), IoSlice::new(&frame[9..])]);
        assert_eq!(link.send(&[TxFrame { to, parts: &parts }]), 1);
    }
    let received = frame(1500);
    let everyone = LinkAddress::EVERYONE;
    peer.send(&[TxFrame { to: everyone, parts: &[IoSlice::new(&received)] }]);
    assert_eq!(link.receive(8, &mut |_, _| ()), 1);
    assert_eq!((link.written(), link.skipped()), (3, 0));
    drop(link);

    let blocks = blocks(&file);
    let kinds: Vec<usize> = blocks.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [0x0A0D_0D0A, 1, 6, 6, 6]);
    assert_eq!(word(blocks[1].1, 0), 1, "Ethernet");
    let node = |index| [0x02, 0xFF, 0, 0, 0, index];
    let expected = [(&sent[0], 1, 0, 2), (&sent[1], 1, 0, 2), (&received, 0, 1, 1)];
    for ((_, body), (frame, to, from, direction)) in blocks[2..].iter().zip(expected) {
        let length = word(body, 12);
        assert_eq!(length, frame.len() + 14);
        let data = &body[20..20 + length];
        assert_eq!(data[..6], node(to));
        assert_eq!(data[6..12], node(from));
        assert_eq!(data[12..14], [0x88, 0xB5]);
        assert_eq!(data[14..], frame[..]);
        let flags = 20 + length.next_multiple_of(4);
        assert_eq!(word(body, flags), 4 << 16 | 2, "the flags option");
        assert_eq!(word(body, flags + 4), direction);
    }
}

#[test]
fn a_full_file_stays_readable() {
    let fabric = Fabric::new(2).expect("there are descriptors");
    let inner = fabric.link(0, 7).expect("a node of the fabric");
    let mut file = Vec::new();
    let mut link = CaptureLink::new(inner, &mut file, 1000).expect("memory takes it");
    let frame = frame(100);
    for _ in 0..20 {
        link.send(&[TxFrame { to: LinkAddress::index(1), parts: &[IoSlice::new(&frame)] }]);
    }
    assert_eq!(link.written() + link.skipped(), 20);
    let written = link.written() as usize;
    assert!((1..20).contains(&written));
    drop(link);
    assert!(file.len() <= 1000);
    assert_eq!(blocks(&file).len(), 2 + written);
}

/// A disk of so many bytes.
struct Disk {
    bytes: Vec<u8>,
    room: usize,
}

impl std::io::Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fits = bytes.len().min(self.room - self.bytes.len());
        if fits == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(&bytes[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Target for &mut Disk {
    fn cut(&mut self, bytes: u64) {
        self.bytes.truncate(bytes as usize);
    }
}

#[test]
fn a_full_disk_ends_with_a_whole_frame_and_is_said_once() {
    let mut disk = Disk { bytes: Vec::new(), room: 2000 };
    let fabric = Fabric::new(2).expect("there are descriptors");
    let inner = fabric.link(0, 7).expect("a node of the fabric");
    let mut link = CaptureLink::new(inner, &mut disk, CAPTURE_BYTES).expect("memory takes it");
    let frame = frame(100);
    for _ in 0..50 {
        link.send(&[TxFrame { to: LinkAddress::index(1), parts: &[IoSlice::new(&frame)] }]);
    }
    assert_eq!(link.notice(), None, "nothing was refused yet");
    link.send(&[TxFrame { to: LinkAddress::index(1), parts: &[IoSlice::new(&frame)] }]);
    let said = link.notice().expect("it is said");
    assert_eq!(link.notice(), None, "once");
    drop(link);
    let written = blocks(&disk.bytes).len() - 2;
    assert!((5..20).contains(&written), "{written} of 51");
    assert!(said.contains(&format!("after {written} frames")), "{said}");
}

#[test]
fn nodes_can_be_told_apart() {
    let udp = |text: &str| ethernet_address(&LinkAddress::udp(text.parse().expect(text)));
    assert_eq!(udp("10.1.2.3:258"), [0x02, 2, 10, 1, 2, 3]);
    assert_ne!(udp("[::1]:1"), udp("[::1]:2"));
    assert_eq!(udp("[::1]:1")[0], 0x06);
    assert_eq!(ethernet_address(&LinkAddress::mac([1, 2, 3, 4, 5, 6])), [1, 2, 3, 4, 5, 6]);
    assert_eq!(ethernet_address(&LinkAddress::EVERYONE), [0xFF; 6]);
}
