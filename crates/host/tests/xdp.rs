//! Two hosts on a real wire, nodes on the xdp link, which they take only by name.
//!
//! Needs root; says so where it is not to be had.

mod common;

use common::{BOARDS, LONG, Pair, both, pattern};
use emp_host::{AutoLinks, Board, Node, Outcome, Selector, Want};
use emp_testing::lab::{INTERFACE, Lab};

fn start(lab: &Lab, side: usize, want: Want, board: Board) -> Node {
    let name = ["a", "b"][side];
    let auto = AutoLinks { want, interfaces: vec![INTERFACE.into()], ..AutoLinks::default() };
    lab.inside(side, || Node::builder().name(name).auto_links(auto).board(board).start())
        .expect("root may")
}

/// Messages of many sizes both ways. Nobody was told where the other is: they find each other by
/// frames to everyone.
fn exchange(pair: &Pair) {
    const SIZES: [usize; 8] = [0, 1, 32, 1440, 1441, 65_537, 300_000, 3 << 20];
    let (a, b) = pair.endpoints();
    both(
        pair,
        || {
            for (bits, size) in (0..).zip(SIZES) {
                a.send_wait(("b", 1), bits, pattern(size, bits), LONG).unwrap();
                let got = a.receive_wait(Selector::bits(bits), vec![0; size], LONG).unwrap();
                assert!(got.buffer == pattern(size, bits + 100), "{size} bytes back differ");
            }
        },
        || {
            for (bits, size) in (0..).zip(SIZES) {
                let got = b.receive_wait(Selector::bits(bits), vec![0; size], LONG).unwrap();
                assert!(got.buffer == pattern(size, bits), "{size} bytes differ");
                b.send_wait(("a", 1), bits, pattern(size, bits + 100), LONG).unwrap();
            }
        },
    );
}

#[test]
fn messages_of_every_size_cross_the_wire() {
    for mtu in [1500, 9000] {
        let Some(lab) = Lab::build(mtu) else { return };
        for board in BOARDS {
            let [a, b] = [0, 1].map(|side| start(&lab, side, Want::Xdp, board));
            assert_eq!((a.links()[0].kind, a.links().len()), ("xdp", 1));
            let report = a.choice().to_string();
            assert!(report.contains("xdp on emp0: chosen"), "{report}");
            assert!(report.contains("native, copying; not native, zero-copy: "), "{report}");
            exchange(&Pair { a, b });
        }
    }
}

#[test]
fn it_talks_to_the_packet_link() {
    let Some(lab) = Lab::build(1500) else { return };
    let a = start(&lab, 0, Want::Xdp, Board::Thread);
    let b = start(&lab, 1, Want::Auto, Board::Thread);
    assert_eq!(b.links()[0].kind, "packet");
    let skipped = &b.choice().rungs[0];
    assert!(skipped.link == "xdp" && matches!(skipped.outcome, Outcome::Skipped(_)), "{skipped}");
    exchange(&Pair { a, b });
}

#[test]
fn a_taken_interface_is_an_error_that_says_so() {
    let Some(lab) = Lab::build(1500) else { return };
    let _first = start(&lab, 0, Want::Xdp, Board::Thread);
    let interfaces = vec![INTERFACE.to_owned()];
    let auto = AutoLinks { want: Want::Xdp, interfaces, ..AutoLinks::default() };
    let second = lab.inside(0, || Node::builder().name("c").auto_links(auto).start().err());
    let error = second.expect("there is room for one").to_string();
    assert!(error.contains("already has an XDP program"), "{error}");
}

/// The program on the interface is the parent's.
#[test]
fn a_child_that_drops_a_node_leaves_its_program_alone() {
    let Some(lab) = Lab::build(1500) else { return };
    // Without a thread, which would hold the links in the child, too.
    let node = |side| start(&lab, side, Want::Xdp, Board::Inline { guardian: false });
    let mut pair = Some(Pair { a: node(0), b: node(1) });
    exchange(pair.as_ref().expect("it is here"));
    common::in_child(|| drop(pair.take()));
    exchange(pair.as_ref().expect("the parent's is here"));
}
