//! Over links that lose, duplicate, reorder, delay and damage frames, everything still arrives once and whole: nodes
//! wake for their timers and for frames that a link holds back.

mod common;

use common::{BOARDS, LONG, Pair, both, pattern};
use emp_host::{Board, Node, NodeId, Selector, WaitMode};
use emp_link::{Fabric, FaultLink, FaultPlan};

fn pair(board: Board, wait_mode: WaitMode, plan: &str) -> Pair {
    let fabric = Fabric::new(2).unwrap();
    let plan: FaultPlan = plan.parse().unwrap();
    let start = |index, name| {
        let tag = NodeId::from_name(name).destination_tag();
        let link = FaultLink::new(fabric.link(index, tag).unwrap(), &plan);
        Node::builder().name(name).link(link).board(board).wait_mode(wait_mode).start().unwrap()
    };
    Pair { a: start(0, "a"), b: start(1, "b") }
}

fn exchange(pair: &Pair) {
    let (a, b) = pair.endpoints();
    const SIZES: [usize; 5] = [0, 40, 1200, 30_000, 400_000];
    both(
        pair,
        || {
            for (bits, size) in (0..).zip(SIZES) {
                a.send_wait(b.address(), bits, pattern(size, bits), LONG).unwrap();
                a.receive_wait(Selector::bits(bits), vec![], LONG).unwrap();
            }
        },
        || {
            for (bits, size) in (0..).zip(SIZES) {
                let got = b.receive_wait(Selector::bits(bits), vec![0; size], LONG).unwrap();
                assert!(got.buffer == pattern(size, bits), "{size} bytes differ");
                b.send_wait(a.address(), bits, vec![], LONG).unwrap();
            }
        },
    );
}

#[test]
fn all_arrives_in_spite_of_faults() {
    let plan = "drop:2%,duplicate:1%,reorder:2%@4,corrupt:1%,truncate:0.5%,seed:5";
    for board in BOARDS {
        for mode in [WaitMode::default(), WaitMode::Sleep] {
            exchange(&pair(board, mode, plan));
        }
    }
}

#[test]
fn frames_held_back_by_a_link_wake_a_sleeper() {
    for board in BOARDS {
        exchange(&pair(board, WaitMode::Sleep, "delay:300us"));
    }
}
