//! Threads that wait for completions can be told to look at something else.

use std::time::{Duration, Instant};

use emp_host::link::Fabric;
use emp_host::{Board, Endpoint, Node, NodeId, WaitMode};

const LONG: Duration = Duration::from_secs(20);

/// Waits are ended by a nudge however they wait, and by one that came before they began.
#[test]
fn a_nudge_ends_waits() {
    let split = Board::named("split:io").unwrap();
    let boards =
        [Board::Inline { guardian: true }, Board::Inline { guardian: false }, Board::Thread, split];
    for board in boards {
        for wait in [WaitMode::Spin, WaitMode::Adaptive, WaitMode::Sleep] {
            let fabric = Fabric::new(1).unwrap();
            let tag = NodeId::from_name("ann").destination_tag();
            let link = fabric.link(0, tag).unwrap();
            let builder = Node::builder().name("ann").link(link).board(board).wait_mode(wait);
            let node = builder.start().unwrap();
            let (one, two) = (node.endpoint(1).unwrap(), node.endpoint(2).unwrap());
            let before = node.nudges();
            let start = Instant::now();
            std::thread::scope(|scope| {
                let (one, two) = (&one, &two);
                let wait = move |endpoints: &[&Endpoint]| {
                    Endpoint::wait_completions_unless_nudged(endpoints, before, LONG)
                };
                let waiting =
                    [scope.spawn(move || wait(&[one])), scope.spawn(move || wait(&[one, two]))];
                std::thread::sleep(Duration::from_millis(20));
                node.nudge();
                assert!(waiting.map(|thread| thread.join().unwrap()).iter().all(|woken| *woken));
                assert!(wait(&[two]), "a nudge that came before");
            });
            assert!(start.elapsed() < LONG / 2, "{board:?} {wait:?}: {:?}", start.elapsed());
            let none = Endpoint::wait_completions_unless_nudged(
                &[&one],
                node.nudges(),
                Duration::from_millis(5),
            );
            assert!(!none);
        }
    }
}
