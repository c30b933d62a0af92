//! Closing a node ends every call that waits on it in another thread.

mod common;

use std::sync::mpsc;
use std::time::Duration;

use common::{BOARDS, LONG, Pair};
use emp_host::{Board, Endpoint, Node, Profile, Selector, WaitMode};

type Wait = fn(Node, Endpoint);

const WAITS: [(&str, Wait); 6] = [
    ("probe_wait", |_, endpoint| {
        endpoint.probe_wait(Selector::ANY, None);
    }),
    ("receive_wait", |_, endpoint| {
        drop(endpoint.receive_wait(Selector::ANY, vec![0u8; 8], None));
    }),
    ("wait_event", |node, _| {
        // What has happened before comes first.
        while node.wait_event(None).is_some() {}
    }),
    ("wait_completions", |_, endpoint| {
        endpoint.wait_completions(&mut Vec::with_capacity(1), None);
    }),
    ("send_wait", |_, endpoint| drop(endpoint.send_wait(("ghost", 1), 0, "x", 4 * LONG))),
    ("find", |node, _| drop(node.find("ghost", 4 * LONG))),
];

fn wakes(board: Board, wait_mode: WaitMode) {
    for (name, wait) in WAITS {
        let pair = Pair::with(board, wait_mode, Profile::DEFAULT);
        let (node, endpoint) = (pair.a.clone(), pair.a.endpoint(1).unwrap());
        let (ended, end) = mpsc::channel();
        let waiter = std::thread::spawn(move || {
            wait(node, endpoint);
            ended.send(()).ok();
        });
        // Long enough for it to fall asleep.
        std::thread::sleep(Duration::from_millis(20));
        // What is sent to nobody is not waited for.
        pair.a.close(Duration::from_millis(5)).ok();
        assert!(end.recv_timeout(LONG / 4).is_ok(), "{name} sleeps on, {board:?} {wait_mode:?}");
        waiter.join().unwrap();
    }
}

#[test]
fn closing_wakes_who_sleeps() {
    BOARDS.into_iter().for_each(|board| wakes(board, WaitMode::Sleep));
}

#[test]
fn closing_wakes_who_spins() {
    BOARDS.into_iter().for_each(|board| wakes(board, WaitMode::Spin));
}

#[test]
fn a_closed_node_is_not_waited_on() {
    let pair = Pair::new(Board::default());
    let (a, _) = pair.endpoints();
    pair.a.close(LONG).unwrap();
    assert!(a.probe_wait(Selector::ANY, None).is_none());
    assert!(pair.a.wait_event(None).is_none());
}
