//! A capture from within: every frame of a node, and why those that were dropped were. Read back by a reader that knows only the
//! format.

use std::time::Duration;

use emp_host::{Board, Counter, Node, Selector};
use emp_link::{Fabric, Link, LinkAddress, TxFrame};

const PATIENCE: Duration = Duration::from_secs(10);

fn word(bytes: &[u8], at: usize) -> usize {
    bytes[at..].first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize)
}

/// The packets of a capture: frame without its Ethernet header, whether it was sent, comment.
fn packets(mut file: &[u8]) -> Vec<(Vec<u8>, bool, String)> {
    let mut packets = Vec::new();
    while !file.is_empty() {
        let length = word(file, 4);
        assert_eq!(word(file, length - 4), length, "both lengths agree");
        if word(file, 0) == 6 {
            let bytes = word(file, 20);
            let (mut at, mut sent, mut comment) =
                (28 + bytes.next_multiple_of(4), None, String::new());
            loop {
                let option = word(file, at);
                let (code, size) = (option & 0xFFFF, option >> 16);
                match code {
                    0 => break,
                    1 => comment = String::from_utf8(file[at + 4..at + 4 + size].to_vec()).unwrap(),
                    2 => sent = Some(word(file, at + 4) & 3 == 2),
                    _ => panic!("option {code}"),
                }
                at += 4 + size.next_multiple_of(4);
            }
            packets.push((file[28 + 14..28 + bytes].to_vec(), sent.expect("a direction"), comment));
        }
        file = &file[length..];
    }
    packets
}

#[test]
fn every_frame_is_there_and_says_what_became_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("b.pcapng");
    let fabric = Fabric::new(3).unwrap();
    let tag = |name: &str| emp_wire::NodeId::from_name(name).destination_tag();
    let start = |index, name: &str, capture: bool| {
        let link = fabric.link(index, tag(name)).unwrap();
        let builder = Node::builder().name(name).link(link).board(Board::Thread);
        let builder = if capture { builder.capture(&path) } else { builder };
        builder.start().unwrap()
    };
    let (a, b) = (start(0, "a", false), start(1, "b", true));
    let (sender, receiver) = (a.endpoint(1).unwrap(), b.endpoint(1).unwrap());
    let mut stranger = fabric.link(2, 77).unwrap();
    let text = vec![7u8; 5000];
    for round in 0..3 {
        sender.send_wait(("b", 1), round, text.clone(), PATIENCE).unwrap();
        let got = receiver.receive(Selector::bits(round), vec![0; 6000]).unwrap();
        assert_eq!(got.wait(PATIENCE).unwrap().bytes(), 5000);
    }
    // Of another version; from nobody that is known; shorter than a header.
    let mut frame = vec![0u8; 40];
    frame[4..6].copy_from_slice(&tag("b").to_be_bytes());
    let versions = [0x44u8, 0x24];
    for first in versions {
        frame[0] = first;
        frame[3] = 8;
        (frame[11], frame[15]) = (9, 9);
        let parts = [std::io::IoSlice::new(&frame)];
        assert_eq!(stranger.send(&[TxFrame { to: LinkAddress::index(1), parts: &parts }]), 1);
    }
    let until = std::time::Instant::now() + PATIENCE;
    while b.counters().get(Counter::DropUnknownPeer) == 0 {
        assert!(std::time::Instant::now() < until, "the strange frames did not arrive");
        std::thread::sleep(Duration::from_millis(5));
    }
    a.close(PATIENCE).unwrap();
    b.close(PATIENCE).unwrap();

    let packets = packets(&std::fs::read(&path).unwrap());
    let (sent, received): (Vec<_>, Vec<_>) = packets.iter().partition(|(_, sent, _)| *sent);
    assert!(
        sent.len() >= 3 && received.len() >= 12,
        "{} sent, {} received",
        sent.len(),
        received.len()
    );
    assert!(sent.iter().all(|(_, _, comment)| comment.is_empty()));
    let said = |first: u8| {
        let strange = received.iter().find(|(frame, _, _)| frame[0] == first && frame[11] == 9);
        strange.map(|(_, _, comment)| comment.as_str())
    };
    assert_eq!(said(0x44), Some("dropped: wrong version"));
    assert_eq!(said(0x24), Some("dropped: unknown peer"));
    let taken = received.iter().filter(|(_, _, comment)| comment.is_empty()).count();
    assert!(taken >= 12, "of {} only {taken} were taken", received.len());
}
