//! How many descriptors nodes of one machine have, however many of them speak to each other: a process may have 1,024 by default.
//!
//! Needs root for `packet`; says so where it is not to be had.

mod common;

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use common::LONG;
use emp_host::{AutoLinks, Board, Node, NodeId, Selector};
use emp_testing::lab::{INTERFACE, Lab};

/// Nodes of this process, unless EMP_TEST_NODES says otherwise: with more it needs another `ulimit -n`, and threads for all.
const NODES: usize = 100;

/// Processes of the other test, and nodes of each, unless EMP_TEST_NODES says otherwise.
const PROCESSES: usize = 3;
const NODES_OF_EACH: usize = 20;

/// Of each, whatever it speaks to.
const EACH: usize = 12;

/// All count what this process has, so one of them at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// In one of several processes: which of them it is.
const PART: &str = "EMP_TEST_PART";

fn nodes_or(usual: usize) -> usize {
    let asked = std::env::var("EMP_TEST_NODES").ok();
    asked.map_or(usual, |asked| asked.parse().expect("a number of nodes"))
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux").count()
}

/// Memory of this process in KB, what it shares by its part.
fn memory() -> usize {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").expect("Linux");
    let pss = rollup.lines().find_map(|line| line.strip_prefix("Pss:")?.split_whitespace().next());
    pss.expect("it has such a line").parse().expect("a number")
}

fn name(number: usize) -> String {
    format!("node-{number}")
}

/// A node with all links that `auto` takes.
fn start(number: usize) -> Node {
    let auto = AutoLinks {
        interfaces: vec![INTERFACE.into()],
        udp_bind: Some("10.77.0.1".parse().unwrap()),
        ..AutoLinks::default()
    };
    let node = Node::builder().name(name(number)).auto_links(auto);
    node.board(Board::Thread).start().expect("root may")
}

/// All speak to all, by every link that `auto` takes.
#[test]
fn nodes_of_a_machine_cost_a_dozen_descriptors_each() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let count = nodes_or(NODES);
    let Some(lab) = Lab::build(1500) else { return };
    lab.inside(0, || {
        // What this thread has to be here is no node's.
        let before = descriptors();
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

/// Several processes of one host, each with many nodes that speak to some of each process.
#[test]
fn nodes_of_several_processes_cost_no_more() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(lab) = Lab::build(1500) else { return };
    lab.inside(0, || {
        let mut parts: Vec<_> = (0..PROCESSES).map(Part::start).collect();
        let begin = Instant::now();
        parts.iter_mut().for_each(|part| _ = part.says("up"));
        println!("up after {:?}", begin.elapsed());
        parts.iter_mut().for_each(Part::go_on);
        let each: Vec<f64> =
            parts.iter_mut().map(|part| part.says("each").parse().unwrap()).collect();
        println!("{each:.1?} descriptors each, after {:?}", begin.elapsed());
        assert!(each.iter().all(|each| *each <= EACH as f64), "{each:?} descriptors each");
        parts.iter_mut().for_each(Part::go_on);
    });
}

/// One of several processes.
struct Part {
    process: Child,
    asks: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Part {
    fn start(number: usize) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("it has a path"));
        command.args(["part", "--exact", "--nocapture"]).env(PART, number.to_string());
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        Self { asks: process.stdin.take().expect("it is piped"), process, lines }
    }

    /// What it says behind this word.
    fn says(&mut self, word: &str) -> String {
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        let found = lines.find_map(|line| {
            println!("{line}");
            Some(line.split_once(word)?.1.trim().to_owned())
        });
        found.unwrap_or_else(|| panic!("it ends without a word about {word}"))
    }

    fn go_on(&mut self) {
        writeln!(self.asks).expect("it waits for it");
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Not a test of its own: one of the processes above.
#[test]
fn part() {
    let Ok(part) = std::env::var(PART) else { return };
    let part: usize = part.parse().expect("a number");
    let waits = || std::io::stdin().read_line(&mut String::new()).expect("a line, or the end");
    let each = nodes_or(NODES_OF_EACH);
    let all = PROCESSES * each;
    let before = (descriptors(), memory());
    let nodes: Vec<Node> = (part * each..(part + 1) * each).map(start).collect();
    let ends: Vec<_> = nodes.iter().map(|node| node.endpoint(1).unwrap()).collect();
    println!("part {part} is up");
    waits();
    let spoken_to = [1, 2, 5, each, each + 1, 2 * each + 1];
    let mut requests = Vec::new();
    for (i, end) in ends.iter().enumerate() {
        let i = part * each + i;
        for away in spoken_to {
            let (from, to) = ((i + all - away) % all, (i + away) % all);
            let receive = end.receive(Selector::bits(from as u64), vec![0; 9_000]).unwrap();
            let to = (NodeId::from_name(&name(to)), 1);
            let send = end.send(to, i as u64, vec![i as u8; 9_000]).unwrap();
            requests.push((receive, send, from));
        }
    }
    for (receive, send, from) in requests {
        send.wait(3 * LONG).unwrap();
        assert!(receive.wait(3 * LONG).unwrap().buffer.iter().all(|byte| *byte == from as u8));
    }
    std::thread::sleep(Duration::from_millis(200));
    let used = (descriptors() - before.0, memory() - before.1);
    println!("part {part}: {} KB a node", used.1 / each);
    println!("part {part}: each {}", used.0 as f64 / each as f64);
    waits();
}
