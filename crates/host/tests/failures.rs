//! Peers that vanish: a clear error for those who talk to them, nothing for the others.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{LONG, Pair, impatient, pattern};
use emp_host::{Board, Endpoint, Node, NodeEvent, NodeId, Selector, Status, WaitError, WaitMode};
use emp_link::{UdpLink, UdpOptions};

const PATIENCE: Duration = Duration::from_millis(500);

#[test]
fn nobody_there_is_an_error() {
    for board in common::BOARDS {
        let pair = Pair::with(board, WaitMode::default(), impatient(PATIENCE));
        let a = pair.a.endpoint(1).unwrap();
        let send = a.send(("ghost", 1), 0, pattern(100_000, 1)).unwrap();
        let start = Instant::now();
        let error = send.wait(LONG).unwrap_err();
        let operation = error.operation().expect("not the time").clone();
        assert_eq!(operation.status(), Status::NotFound);
        let ghost = NodeId::from_name("ghost");
        assert_eq!(operation.completion.peer, ghost);
        let text = error.to_string();
        assert!(text.contains("node ghost") && !text.contains(&ghost.to_string()), "{text}");
        assert!(start.elapsed() < PATIENCE * 10, "{:?}", start.elapsed());
    }
}

#[test]
fn a_missing_endpoint_is_an_error() {
    let pair = Pair::new(Board::Thread);
    let a = pair.a.endpoint(1).unwrap();
    let options = emp_host::SendOptions::default().synchronous();
    let send = a.send_with((pair.b.id(), 99), 0, vec![0; 10], options).unwrap();
    let Err(WaitError::Failed(failed)) = send.wait(LONG) else { panic!("no such endpoint") };
    assert_eq!(failed.error.status(), Status::NoEndpoint);
    assert!(failed.error.to_string().contains("endpoint 99"), "{}", failed.error);
}

#[test]
fn a_closed_peer_says_so() {
    let pair = Pair::new(Board::Thread);
    let (a, b) = pair.endpoints();
    let receive = b.receive(Selector::ANY, vec![0; 10]).unwrap();
    a.send_wait(b.address(), 0, vec![1; 10], LONG).unwrap();
    receive.wait(LONG).unwrap();
    let send = a.send(b.address(), 0, pattern(1 << 20, 1)).unwrap();
    pair.b.close(Duration::from_millis(1)).ok();
    let Err(WaitError::Failed(failed)) = send.wait(LONG) else { panic!("closed") };
    assert_eq!(failed.error.status(), Status::PeerClosed);
    assert!(failed.error.to_string().contains("node b"), "{}", failed.error);
    let closed = std::iter::from_fn(|| pair.a.wait_event(Duration::from_millis(100)))
        .any(|event| event == NodeEvent::Closed(pair.b.id()));
    assert!(closed);
}

/// A node on UDP over the loopback interface, on a port of its own.
fn on_udp(name: &str) -> (Node, SocketAddr) {
    let mut options = UdpOptions::new(NodeId::from_name(name).destination_tag());
    options.bind = Some(Ipv4Addr::LOCALHOST.into());
    options.port = 0;
    let link = UdpLink::open(&options).expect("UDP on the loopback interface");
    let address = link.local_address();
    let builder = Node::builder().name(name).link(link).profile(impatient(PATIENCE));
    (builder.start().expect("starts"), address)
}

/// Not a test: the program that is killed by the test below, which runs this one in a process of its own.
#[test]
fn victim() {
    if std::env::var_os("EMP_VICTIM").is_none() {
        return;
    }
    let (node, address) = on_udp("victim");
    let endpoint = node.endpoint(1).unwrap();
    // On its own line, whatever the test harness has printed before.
    println!("\nvictim {address}");
    std::io::stdout().flush().unwrap();
    let _receive = endpoint.receive(Selector::bits(1), vec![0; 1 << 30]).unwrap();
    // Never longer than the test that started it.
    std::thread::sleep(LONG);
}

/// Kills what it started, whatever happens.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn start_victim() -> (Victim, SocketAddr) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim", "--nocapture"])
        .env("EMP_VICTIM", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut victim = Victim(child);
    let lines = BufReader::new(victim.0.stdout.take().unwrap()).lines();
    let address = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("victim ")?.parse().ok())
        .expect("it says where it is");
    (victim, address)
}

fn talk(a: &Endpoint, b: &Endpoint) {
    let receive = b.receive(Selector::bits(5), vec![0; 10_000]).unwrap();
    a.send_wait(b.address(), 5, pattern(10_000, 1), LONG).unwrap();
    assert!(receive.wait(LONG).unwrap().buffer == pattern(10_000, 1));
}

#[test]
fn a_killed_peer_is_named_and_others_go_on() {
    let (mut victim, address) = start_victim();
    let (a, _) = on_udp("a");
    let (b, b_address) = on_udp("b");
    let peer = a.resolve_socket(address, LONG).unwrap();
    assert_eq!(peer.name, "victim");
    a.resolve_socket(b_address, LONG).unwrap();
    let (from_a, from_b) = (a.endpoint(1).unwrap(), b.endpoint(1).unwrap());
    talk(&from_a, &from_b);
    // A gigabyte: it is killed in the middle of that.
    let send = from_a.send((peer.node, 1), 1, vec![7u8; 1 << 30]).unwrap();
    let Err(WaitError::TimedOut(send)) = send.wait(Duration::from_millis(60)) else {
        panic!("a gigabyte cannot be there yet")
    };
    victim.0.kill().unwrap();
    victim.0.wait().unwrap();
    let killed = Instant::now();
    let error = send.wait(LONG).unwrap_err();
    assert!(killed.elapsed() < PATIENCE * 6, "{:?}", killed.elapsed());
    let text = error.to_string();
    let WaitError::Failed(failed) = error else { panic!("{text}") };
    assert_eq!(failed.error.status(), Status::Unreachable);
    assert!(text.contains("victim") && text.contains("unreachable"), "{text}");
    assert_eq!(failed.buffer.len(), 1 << 30);
    talk(&from_a, &from_b);
    let lost = std::iter::from_fn(|| a.poll_event())
        .any(|event| event == NodeEvent::Unreachable(peer.node));
    assert!(lost, "an event tells it too");
}
