//! A process that is killed says nothing, but its host's kernel does: its peers are told soon. One that is stopped is waited for (`RESEND-9`).

mod common;

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::LONG;
use emp_host::{
    Board, CompletionMode, LinkIndex, Node, NodeBuilder, NodeEvent, NodeId, Selector, SendOptions,
    Status, WaitError,
};
use emp_link::{ShmLink, ShmOptions, UdpLink, UdpOptions};
use emp_wire::LinkAddress;

/// Set in the process that is to be killed: the directory for shared memory, or nothing, for datagrams.
const CHILD: &str = "EMP_TEST_ENDED";

const PEER: NodeId = NodeId(0x7777);

fn by_memory(builder: NodeBuilder, node: NodeId, directory: &Path) -> NodeBuilder {
    let options = ShmOptions {
        directory: Some(directory.join("emp")),
        broadcast: true,
        same_network: false,
        number: Some(node.0),
        ..ShmOptions::new(node.destination_tag())
    };
    builder.link_with_peers(ShmLink::open(&options).expect("a place in memory"))
}

fn by_datagrams(builder: NodeBuilder, node: NodeId) -> (NodeBuilder, SocketAddr) {
    let options = UdpOptions {
        bind: Some(Ipv4Addr::LOCALHOST.into()),
        port: 0,
        ..UdpOptions::new(node.destination_tag())
    };
    let link = UdpLink::open(&options).expect("anyone may");
    let at = link.local_address();
    (builder.link(link), at)
}

/// Not a test of its own: a process with a node that takes what comes.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(CHILD) else { return };
    let builder = Node::builder().node_id(PEER).board(Board::Thread);
    let (builder, at) = match directory.is_empty() {
        true => by_datagrams(builder, PEER),
        false => (by_memory(builder, PEER, directory.as_ref()), (Ipv4Addr::UNSPECIFIED, 0).into()),
    };
    let node = builder.start().expect("it starts");
    let _endpoint = node.endpoint(1).expect("it is free");
    eprintln!("listens {at}");
    std::thread::sleep(Duration::from_secs(60));
}

/// Ends with the test.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Peer {
    fn start(directory: &Path) -> (Self, SocketAddr) {
        let mut command = Command::new(std::env::current_exe().expect("it has a path"));
        command.args(["child", "--exact", "--nocapture"]).env(CHILD, directory);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut peer = Self(child.expect("it starts"));
        let lines = BufReader::new(peer.0.stderr.take().expect("it is piped")).lines();
        let at = lines.map_while(Result::ok).find_map(|line| {
            line.strip_prefix("listens ").map(|at| at.parse().expect("an address"))
        });
        (peer, at.expect("it says so"))
    }

    fn signal(&self, signal: i32) {
        // SAFETY: no pointers; the process is this one's child and was not waited for.
        assert_eq!(unsafe { libc::kill(self.0.id() as i32, signal) }, 0);
    }
}

impl Peer {
    /// Waits until no thread of it runs any more: the signal alone leaves them time to answer.
    fn is_stopped(&self) {
        let threads = format!("/proc/{}/task", self.0.id());
        let runs = |thread: std::io::Result<std::fs::DirEntry>| {
            let state = std::fs::read_to_string(thread.expect("a thread").path().join("stat"));
            !state.expect("it lives").contains(") T ")
        };
        while std::fs::read_dir(&threads).expect("it lives").any(runs) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Speaks to the peer for as long, each message delivered.
fn speak(node: &Node, time: Duration) {
    let endpoint = node.endpoint(2).expect("it is free");
    let delivered = SendOptions::default().completion(CompletionMode::Delivered);
    let start = Instant::now();
    while start.elapsed() < time {
        endpoint.send_wait_with((PEER, 1), 1, "x", delivered, LONG).expect("it lives");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A peer that is stopped is not lost; one that is killed is, long before silence would say so.
fn stopped_and_killed(node: &Node, mut peer: Peer) {
    speak(node, Duration::from_millis(300));
    peer.signal(libc::SIGSTOP);
    peer.is_stopped();
    let endpoint = node.endpoint(3).expect("it is free");
    let delivered = SendOptions::default().completion(CompletionMode::Delivered);
    let mut sent = endpoint.send_with((PEER, 1), 2, "y", delivered).expect("it is posted");
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        assert!(!sent.test(), "it is stopped");
        std::thread::sleep(Duration::from_millis(5));
    }
    peer.signal(libc::SIGCONT);
    sent.wait(LONG).expect("it goes on");

    let receive = endpoint.receive(Selector { from: PEER, ..Selector::ANY }, vec![0; 8]).unwrap();
    peer.0.kill().expect("it lives");
    let start = Instant::now();
    let Err(WaitError::Failed(failed)) = receive.wait(LONG) else { panic!("nobody sends that") };
    assert_eq!(failed.error.status(), Status::PeerEnded);
    println!("told after {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(7), "{:?}", start.elapsed());
    let events: Vec<_> = std::iter::from_fn(|| node.take_event()).collect();
    assert!(events.contains(&NodeEvent::Ended(PEER)), "{events:?}");
    // And so is what is sent to it from now on.
    let start = Instant::now();
    let sent = endpoint.send((PEER, 1), 3, "z").expect("it is posted");
    sent.wait(LONG).expect_err("it is gone");
    assert!(start.elapsed() < Duration::from_secs(7), "{:?}", start.elapsed());
}

#[test]
fn a_host_tells_of_a_killed_process() {
    let (peer, at) = Peer::start(Path::new(""));
    let own = NodeId(0x1111);
    let node = by_datagrams(Node::builder().node_id(own), own).0.start().expect("it starts");
    node.hint(PEER, LinkIndex(0), LinkAddress::udp(at));
    stopped_and_killed(&node, peer);
}

#[test]
fn memory_tells_of_a_killed_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let (peer, _) = Peer::start(directory.path());
    let own = NodeId(0x1111);
    let node = by_memory(Node::builder().node_id(own), own, directory.path()).start();
    stopped_and_killed(&node.expect("it starts"), peer);
}
