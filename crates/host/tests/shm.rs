//! Nodes of one machine on the link `shm`: threads of this process, and processes that are killed.

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{BOARDS, LONG, Pair, both, impatient, pattern};
use emp_host::{
    AutoLinks, Board, CompletionMode, Counter, Endpoint, Node, NodeBuilder, NodeId, Outcome,
    Segment, SegmentList, Selector, SendDescriptor, Status, WaitMode, Want,
};
use emp_link::{FaultLink, FaultPlan, Link, ShmLink, ShmOptions};

fn link(directory: &Path, name: &str) -> ShmLink {
    let tag = NodeId::from_name(name).destination_tag();
    let options = ShmOptions { directory: Some(directory.join("emp")), ..ShmOptions::new(tag) };
    ShmLink::open(&options).expect("anyone may")
}

fn node(directory: &Path, name: &str) -> NodeBuilder {
    Node::builder().name(name).link(link(directory, name))
}

fn pair<L: Link + 'static>(
    wrap: impl Fn(ShmLink) -> L,
    with: impl Fn(NodeBuilder) -> NodeBuilder,
) -> (tempfile::TempDir, Pair) {
    let directory = tempfile::tempdir().expect("a directory");
    let start = |name| {
        let link = wrap(link(directory.path(), name));
        with(Node::builder().name(name).link(link)).start().expect("the node starts")
    };
    let pair = Pair { a: start("a"), b: start("b") };
    (directory, pair)
}

/// Messages of many sizes both ways.
fn exchange(pair: &Pair) {
    const SIZES: [usize; 9] = [0, 1, 32, 4096, 16_384, 16_385, 65_537, 300_000, 5 << 20];
    let (a, b) = pair.endpoints();
    both(
        pair,
        || {
            for (bits, size) in (0..).zip(SIZES) {
                a.send_wait(b.address(), bits, pattern(size, bits), LONG).unwrap();
                let got = a.receive_wait(Selector::bits(bits), vec![0; size], LONG).unwrap();
                assert!(got.buffer == pattern(size, bits + 100), "{size} bytes back differ");
            }
        },
        || {
            for (bits, size) in (0..).zip(SIZES) {
                let got = b.receive_wait(Selector::bits(bits), vec![0; size], LONG).unwrap();
                assert!(got.buffer == pattern(size, bits), "{size} bytes differ");
                b.send_wait(a.address(), bits, pattern(size, bits + 100), LONG).unwrap();
            }
        },
    );
}

#[test]
fn messages_of_every_size_pass() {
    for board in BOARDS {
        for wait in [WaitMode::Spin, WaitMode::default(), WaitMode::Sleep] {
            let (_directory, pair) = pair(|link| link, |node| node.board(board).wait_mode(wait));
            let read = |node: &Node| node.counters().get(Counter::BytesFetched);
            for _ in 0..20 {
                exchange(&pair);
                // On a busy machine they may learn only now that they can.
                if read(&pair.a).min(read(&pair.b)) >= 5 << 20 {
                    break;
                }
            }
            for node in [&pair.a, &pair.b] {
                assert!(read(node) >= 5 << 20, "{board:?} {wait:?}: {:?}", node.link_statistics());
                assert_eq!(node.counters().get(Counter::FetchRefused), 0);
            }
            let links = pair.a.links();
            assert_eq!((links[0].kind, links[0].frame_bytes_max), ("shm", 16 << 10));
        }
    }
}

#[test]
fn they_pass_whole_in_spite_of_faults() {
    let plan = "drop:2%,duplicate:1%,reorder:2%@4,corrupt:1%,truncate:0.5%,seed:9";
    let plan: FaultPlan = plan.parse().unwrap();
    for board in BOARDS {
        let (_directory, pair) = pair(|link| FaultLink::new(link, &plan), |node| node.board(board));
        exchange(&pair);
    }
}

/// Processor time that this thread has used.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A thread that waits for what does not come sleeps, and is there when it comes.
#[test]
fn waiting_is_sleeping() {
    let (_directory, pair) =
        pair(|link| link, |node| node.board(Board::Inline { guardian: false }));
    let (a, b) = pair.endpoints();
    let round = |bits| {
        both(
            &pair,
            || a.send_wait(b.address(), bits, "x", LONG).map(|_| ()).unwrap(),
            || b.receive_wait(Selector::bits(bits), vec![0; 1], LONG).map(|_| ()).unwrap(),
        );
    };
    round(1);
    let before = thread_time();
    let late = b.receive_wait(Selector::bits(9), vec![0; 1], Duration::from_millis(500));
    assert!(late.is_err(), "nobody sent that");
    let used = thread_time() - before;
    assert!(used < Duration::from_millis(100), "{used:?} of 500 ms were not slept");
    round(2);
}

/// Set in the processes that tests start, to the directory to meet in.
const CHILD: &str = "EMP_TEST_SHM_CHILD";

/// Not a test of its own: what the processes do that the next tests start and kill.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(CHILD) else { return };
    let node = node(Path::new(&directory), "child").start().expect("the node starts");
    let endpoint = node.endpoint(1).expect("opens");
    if std::env::var_os(LIES).is_some() {
        return lie(&endpoint);
    }
    // Until killed, or long enough.
    let end = Instant::now() + 3 * LONG;
    let mut bits = 0;
    while Instant::now() < end {
        bits += 1;
        let to = (NodeId::from_name("parent"), 1);
        let _ = endpoint.send_wait(to, bits, pattern(100_000, bits), Duration::from_secs(5));
    }
}

/// Set in such a process if it is to name memory that it does not have.
const LIES: &str = "EMP_TEST_SHM_LIES";

/// Bytes that the liar says it has.
const LIE_BYTES: u64 = 100_000;

/// Shows that it can be read, then announces what is not there.
fn lie(endpoint: &Endpoint) {
    let to = (NodeId::from_name("parent"), 1);
    for bits in 0..20 {
        endpoint.send_wait(to, bits, pattern(100_000, bits), LONG).expect("the parent listens");
    }
    // Long enough for the guardian to hear that the parent can read this process.
    std::thread::sleep(Duration::from_millis(100));
    let nowhere = Segment { address: 0x10_0000, bytes: LIE_BYTES };
    let send = SendDescriptor {
        to: to.0,
        endpoint: 1,
        to_endpoint: 1,
        match_bits: 99,
        segments: SegmentList::one(nowhere),
        immediate: None,
        synchronous: false,
        completion: CompletionMode::Auto,
        context: 0,
    };
    // SAFETY: none. It breaks the promise on purpose: this process ends by a fault as soon as it is asked for the bytes.
    unsafe { endpoint.post_send_raw(send) }.expect("there is room");
    endpoint.wait_completions(&mut Vec::with_capacity(1), LONG);
}

struct Killed(Child);

impl Killed {
    fn start(directory: &Path) -> Self {
        Self::run(Self::command(directory))
    }

    fn command(directory: &Path) -> Command {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new(program);
        command.args(["child", "--exact"]).env(CHILD, directory).stdout(Stdio::null());
        command
    }

    fn run(mut command: Command) -> Self {
        Self(command.spawn().expect("it starts"))
    }

    fn kill(&mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it was ours");
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// By its silence, or by what the kernel tells of it.
fn is_gone(status: Status) -> bool {
    matches!(status, Status::Unreachable | Status::PeerEnded)
}

/// A process that is killed in the middle of what it does is reported by name; the next one under its name is found.
#[test]
fn a_killed_process_is_survived() {
    let directory = tempfile::tempdir().expect("a directory");
    let profile = impatient(Duration::from_millis(400));
    let node = node(directory.path(), "parent").profile(profile).board(Board::Thread);
    let node = node.start().expect("the node starts");
    let endpoint = node.endpoint(1).expect("opens");
    for _ in 0..3 {
        let mut child = Killed::start(directory.path());
        for _ in 0..20 {
            let from = Selector::ANY;
            let got = endpoint.receive_wait(from, vec![0; 100_000], LONG);
            let got = got.unwrap_or_else(|error| panic!("the child sends: {error}"));
            assert!(got.buffer == pattern(100_000, got.completion.match_bits), "other bytes");
        }
        child.kill();
        // Nobody reads it: it ends with an error that says who is gone.
        let send = endpoint.send((NodeId::from_name("child"), 1), 1, pattern(300_000, 1)).unwrap();
        let error = send.wait(LONG).unwrap_err();
        let operation = error.operation().expect("not the time");
        assert!(is_gone(operation.status()), "{error}");
        assert_eq!(operation.completion.peer, NodeId::from_name("child"));
    }
}

/// A process that names memory which it does not have is asked for the bytes instead, and that it does not survive.
#[test]
fn a_process_that_names_nothing_harms_only_itself() {
    let directory = tempfile::tempdir().expect("a directory");
    let profile = impatient(Duration::from_millis(400));
    let node = node(directory.path(), "parent").profile(profile).board(Board::Thread);
    let node = node.start().expect("the node starts");
    let endpoint = node.endpoint(1).expect("opens");
    let mut command = Killed::command(directory.path());
    command.env(LIES, "1").stderr(Stdio::null());
    let _child = Killed::run(command);
    for bits in 0..20 {
        endpoint.receive_wait(Selector::bits(bits), vec![0; 100_000], LONG).expect("it comes");
    }
    // From this peer by name, so that its end is heard of even before the message is matched.
    let from = Selector { from: NodeId::from_name("child"), ..Selector::bits(99) };
    let receive = endpoint.receive(from, vec![0; LIE_BYTES as usize]).unwrap();
    let error = receive.wait(LONG).unwrap_err();
    assert!(is_gone(error.operation().expect("not the time").status()), "{error}");
    assert_eq!(node.counters().get(Counter::FetchRefused), 1);
}

/// What a process that was killed has announced and nobody had received yet is not to be had any more.
#[test]
fn what_the_dead_announced_ends_with_an_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let profile = impatient(Duration::from_millis(400));
    let node = node(directory.path(), "parent").profile(profile).board(Board::Thread);
    let node = node.start().expect("the node starts");
    let endpoint = node.endpoint(1).expect("opens");
    let mut child = Killed::start(directory.path());
    for _ in 0..20 {
        endpoint.receive_wait(Selector::ANY, vec![0; 100_000], LONG).expect("it comes");
    }
    let info = endpoint.probe_wait(Selector::ANY, LONG).expect("another one comes");
    assert_eq!(info.total_bytes, 100_000);
    assert!(node.counters().get(Counter::BytesFetched) > 0);
    child.kill();
    let receive = endpoint.receive(Selector::ANY, vec![0; 100_000]).unwrap();
    let error = receive.wait(LONG).unwrap_err();
    assert!(is_gone(error.operation().expect("not the time").status()), "{error}");
}

#[test]
fn the_ladder_takes_it_when_told() {
    let auto = AutoLinks { want: Want::Shm, ..AutoLinks::default() };
    // The directory is this user's real one: other nodes may be there, which are none of this test's business.
    let start = |name: &str| {
        let name = format!("{name} of test {}", std::process::id());
        Node::builder().name(name).auto_links(auto.clone()).start()
    };
    let (a, b) = (start("a").expect("anyone may"), start("b").expect("anyone may"));
    assert_eq!((a.links().len(), a.links()[0].kind), (1, "shm"));
    let outcomes: Vec<_> = a.choice().rungs.iter().map(|rung| &rung.outcome).collect();
    assert!(
        matches!(outcomes[..], [Outcome::Skipped(_), Outcome::Skipped(_), Outcome::Chosen(_)]),
        "{outcomes:?}"
    );
    let pair = Pair { a, b };
    exchange(&pair);
}

/// Two nodes that choose for themselves: beside what leads to other machines they have this, and find each other by it.
#[test]
fn nodes_of_one_machine_meet_by_themselves() {
    let auto = AutoLinks {
        // Nobody else's business: no raw frames, datagrams to this machine alone.
        interfaces: vec!["no-such-interface".into()],
        udp_bind: Some(std::net::Ipv4Addr::LOCALHOST.into()),
        udp_port: 0,
        ..AutoLinks::default()
    };
    let start = |name: &str| {
        let name = format!("{name} of auto test {}", std::process::id());
        Node::builder().name(name).auto_links(auto.clone()).start().expect("anyone may")
    };
    let pair = Pair { a: start("a"), b: start("b") };
    let kinds: Vec<_> = pair.a.links().iter().map(|link| link.kind).collect();
    assert_eq!(kinds, ["udp", "shm"], "{}", pair.a.choice());
    for _ in 0..20 {
        exchange(&pair);
        if pair.a.counters().get(Counter::BytesFetched) > 0 {
            break;
        }
    }
    let (link, address) = pair.a.route(pair.b.id()).expect("they met");
    assert!(link.0 == 1 && address.as_shm().is_some(), "{address} on link {}", link.0);
    assert!(pair.a.counters().get(Counter::BytesFetched) > 0);
}
