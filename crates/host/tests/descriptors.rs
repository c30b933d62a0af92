//! How many descriptors nodes of one machine have, however many of them speak to each other: a process may have 1,024 by default.
//!
//! Needs root for `packet`; says so where it is not to be had.

mod common;

use std::time::{Duration, Instant};

use common::LONG;
use emp_host::{AutoLinks, Board, Node, Selector};
use emp_testing::lab::{INTERFACE, Lab};

/// Nodes of this process, unless EMP_TEST_NODES says otherwise: with more it needs another `ulimit -n`, and threads for all.
const NODES: usize = 100;

/// Of each, whatever it speaks to.
const EACH: usize = 12;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux").count()
}

/// All speak to all, by every link that `auto` takes.
#[test]
fn nodes_of_a_machine_cost_a_dozen_descriptors_each() {
    let asked = std::env::var("EMP_TEST_NODES").ok();
    let count = asked.map_or(NODES, |asked| asked.parse().expect("a number of nodes"));
    let Some(lab) = Lab::build(1500) else { return };
    let before = descriptors();
    lab.inside(0, || {
        let start = |i: usize| {
            let auto = AutoLinks {
                interfaces: vec![INTERFACE.into()],
                udp_bind: Some("10.77.0.1".parse().unwrap()),
                ..AutoLinks::default()
            };
            let node = Node::builder().name(format!("node-{i}")).auto_links(auto);
            node.board(Board::Thread).start().expect("root may")
        };
        let nodes: Vec<Node> = (0..count).map(start).collect();
        let ends: Vec<_> = nodes.iter().map(|node| node.endpoint(1).unwrap()).collect();
        let mut requests = Vec::new();
        for (i, from) in ends.iter().enumerate() {
            for (k, to) in ends.iter().enumerate().filter(|(k, _)| *k != i) {
                // By every path of a few; of the others a greeting and a message.
                let bytes = if i < 12 && k < 12 { 9_000 } else { 20 };
                let receive =
                    to.receive(Selector::bits((i * count + k) as u64), vec![0; bytes]).unwrap();
                let send = from.send(to.address(), (i * count + k) as u64, vec![i as u8; bytes]);
                requests.push((receive, send.unwrap(), i));
            }
        }
        let start = Instant::now();
        for (receive, send, i) in requests {
            send.wait(LONG).unwrap();
            assert!(receive.wait(LONG).unwrap().buffer.iter().all(|byte| *byte == i as u8));
        }
        // Those that were opened for a moment are closed.
        std::thread::sleep(Duration::from_millis(200));
        let each = (descriptors() - before) as f64 / count as f64;
        println!("{each:.1} descriptors each, {:?} for all pairs", start.elapsed());
        assert!(each <= EACH as f64, "{each} descriptors each");
    });
}
