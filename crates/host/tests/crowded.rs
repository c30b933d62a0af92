//! More threads that wait than there are cores: nothing collapses.

mod common;

use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use common::LONG;
use emp_host::{Board, Node, NodeId, Selector, WaitMode};
use emp_link::{ShmLink, ShmOptions};

/// Pairs of threads, each end of a pair waiting for the other: sixteen threads on two cores.
const PAIRS: usize = 8;

/// Round trips of each pair.
const ROUNDS: u64 = 1_000;

/// For all of them. Where each hand-over of a core waited for a slice of the scheduler (3 ms), they would take 8 × 1,000 ×
/// 2 × 3 ms ÷ 2 cores = 24 s at least; as they should be they take well under one second.
const BOUND: Duration = Duration::from_secs(12);

fn node(directory: &Path, name: &str, wait: WaitMode) -> Node {
    let tag = NodeId::from_name(name).destination_tag();
    let options = ShmOptions { directory: Some(directory.join("emp")), ..ShmOptions::new(tag) };
    let link = ShmLink::open(&options).expect("anyone may");
    let board = Board::Inline { guardian: false };
    Node::builder().name(name).link(link).board(board).wait_mode(wait).start().expect("starts")
}

/// Leaves this thread, and those that it starts, two cores.
fn keep_to_two_cores() {
    // SAFETY: the set is plain bits, read and written by the calls within its size; pid 0 is this thread.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of_val(&allowed);
        assert_eq!(libc::sched_getaffinity(0, size, &raw mut allowed), 0);
        let mut left = 2usize;
        for core in 0..libc::CPU_SETSIZE as usize {
            if libc::CPU_ISSET(core, &allowed) {
                if left == 0 {
                    libc::CPU_CLR(core, &mut allowed);
                }
                left = left.saturating_sub(1);
            }
        }
        assert_eq!(libc::sched_setaffinity(0, size, &raw const allowed), 0);
    }
}

/// One end of a pair: the even one speaks first.
fn end(directory: &Path, number: usize, wait: WaitMode, start: &Barrier) -> Node {
    let node = node(directory, &format!("n{number}"), wait);
    let endpoint = node.endpoint(1).expect("opens");
    let other = format!("n{}", number ^ 1);
    start.wait();
    for round in 0..ROUNDS {
        if number.is_multiple_of(2) {
            let ping = endpoint.send((other.as_str(), 1), round, "ping");
            ping.expect("room").wait(LONG).expect("sent");
        }
        endpoint.receive_wait(Selector::bits(round), vec![0; 4], LONG).expect("comes");
        if !number.is_multiple_of(2) {
            // Over when it is copied: nobody makes progress for a node whose end has come.
            let pong = endpoint.send((other.as_str(), 1), round, "pong");
            pong.expect("room").wait(LONG).expect("sent");
        }
    }
    node
}

#[test]
fn pairs_that_wait_leave_the_cores_to_those_that_need_them() {
    keep_to_two_cores();
    for wait in [WaitMode::Adaptive, WaitMode::Spin, WaitMode::Sleep] {
        let directory = tempfile::tempdir().expect("a directory");
        let start = Barrier::new(2 * PAIRS + 1);
        let (passed, nodes) = std::thread::scope(|scope| {
            let ends: Vec<_> = (0..2 * PAIRS)
                .map(|number| {
                    let (directory, start) = (directory.path(), &start);
                    scope.spawn(move || end(directory, number, wait, start))
                })
                .collect();
            start.wait();
            let begin = Instant::now();
            let nodes: Vec<_> = ends.into_iter().map(|end| end.join().expect("ends")).collect();
            (begin.elapsed(), nodes)
        });
        let sum = |count: fn(&emp_host::HostCounters) -> u64| -> u64 {
            nodes.iter().map(|node| count(&node.host_counters())).sum()
        };
        let (yields, sleeps) = (sum(|counts| counts.yields), sum(|counts| counts.sleeps));
        println!("{wait:?}: {passed:?}, {yields} yields, {sleeps} sleeps");
        assert!(passed < BOUND, "{wait:?}: {passed:?}, {yields} yields, {sleeps} sleeps");
        match wait {
            WaitMode::Spin => assert_eq!(sleeps, 0),
            WaitMode::Adaptive => assert!(yields > 0, "sixteen threads had two cores to spin on"),
            WaitMode::Sleep => assert!(sleeps > 0),
        }
    }
}
