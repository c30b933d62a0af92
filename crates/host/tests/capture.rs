//! A capture from within: every frame of a node, and why those that were dropped were.

use std::time::Duration;

use emp_host::{Board, Counter, Node, Selector, WaitMode};
use emp_link::{Fabric, Link, LinkAddress, TxFrame};
use emp_testing::pcapng::packets;

const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// What the environment asks for is as good as what the program does.
#[test]
fn a_board_that_captures_nothing_says_so() {
    const ASKED: &str = "EMP_CAPTURE";
    if std::env::var_os(ASKED).is_some() {
        let refused = Node::builder().name("x").board(Board::Daemon).start().err().unwrap();
        println!("refused: {refused}");
        return;
    }
    let mut itself = std::process::Command::new(std::env::current_exe().unwrap());
    itself.args(["--exact", "a_board_that_captures_nothing_says_so", "--nocapture"]);
    let output = itself.env(ASKED, "/nowhere/x.pcapng").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("it captures nothing: unset EMP_CAPTURE"), "{text}");
}

#[test]
fn every_frame_is_there_and_says_what_became_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("b.pcapng");
    let fabric = Fabric::new(3).unwrap();
    let tag = |name: &str| emp_wire::NodeId::from_name(name).destination_tag();
    let start = |index, name: &str, capture: bool| {
        let link = fabric.link(index, tag(name)).unwrap();
        // Never asleep, so that the capture is not written down before a sleep, but when the node is closed.
        let builder =
            Node::builder().name(name).link(link).board(Board::Thread).wait_mode(WaitMode::Spin);
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
    let (sent, received): (Vec<_>, Vec<_>) =
        packets.iter().partition(|packet| packet.sent.expect("a direction"));
    assert!(
        sent.len() >= 3 && received.len() >= 12,
        "{} sent, {} received",
        sent.len(),
        received.len()
    );
    assert!(sent.iter().all(|packet| packet.comment.is_empty()));
    let said = |first: u8| {
        let is = |frame: &[u8]| frame[ETHERNET] == first && frame[ETHERNET + 11] == 9;
        let strange = received.iter().find(|packet| is(&packet.frame));
        strange.map(|packet| packet.comment.as_str())
    };
    assert_eq!(said(0x44), Some("dropped: wrong version"));
    assert_eq!(said(0x24), Some("dropped: unknown peer"));
    let taken = received.iter().filter(|packet| packet.comment.is_empty()).count();
    assert!(taken >= 12, "of {} only {taken} were taken", received.len());
}
