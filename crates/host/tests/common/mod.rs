//! What the host's tests share: pairs of nodes, and running both ends at once.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use emp_host::{Board, Endpoint, Node, NodeBuilder, NodeId, Profile, Scheme, WaitMode};
use emp_link::{Fabric, UdpLink, UdpOptions};

/// Long against anything that should happen, short against a human's patience.
pub const LONG: Duration = Duration::from_secs(20);

/// All boards.
pub const BOARDS: [Board; 9] = [
    Board::Inline { guardian: false },
    Board::Inline { guardian: true },
    Board::Thread,
    SPLIT,
    Board::Split { scheme: Scheme::SendOnly, cpu: None },
    Board::Split { scheme: Scheme::ReceiveOnly, cpu: None },
    Board::Split { scheme: Scheme::Dedicated, cpu: None },
    Board::Split { scheme: Scheme::SendAndReceive, cpu: None },
    Board::Split { scheme: Scheme::Dynamic, cpu: None },
];

/// The engine in its callers, the links on a thread.
pub const SPLIT: Board = Board::Split { scheme: Scheme::Io, cpu: None };

/// A node builder on place `index` of a fabric.
pub fn on(fabric: &Fabric, index: u32, name: &str) -> NodeBuilder {
    let tag = NodeId::from_name(name).destination_tag();
    let link = fabric.link(index, tag).expect("the fabric has the place");
    Node::builder().name(name).link(link)
}

/// Two UDP links on the loopback interface that know each other, for nodes `a` and `b`.
pub fn udp_links(mtu: usize) -> [UdpLink; 2] {
    let open = |name: &str| {
        let bind = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let tag = NodeId::from_name(name).destination_tag();
        let options = UdpOptions { bind, port: 0, mtu: Some(mtu), ..UdpOptions::new(tag) };
        UdpLink::open(&options).expect("anyone may")
    };
    let (mut a, mut b) = (open("a"), open("b"));
    a.set_peers(vec![b.local_address()]);
    b.set_peers(vec![a.local_address()]);
    [a, b]
}

/// The methods of a [`Link`](emp_link::Link) around another that do as that one does, its field `inner`.
#[allow(unused_macros, reason = "each test file uses some of this")]
macro_rules! forward_to_inner {
    () => {
        fn receive(
            &mut self,
            budget: usize,
            sink: &mut dyn FnMut(&[u8], &emp_link::LinkAddress),
        ) -> usize {
            self.inner.receive(budget, sink)
        }
        fn readiness(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
            self.inner.readiness()
        }
        fn wait(&mut self, timeout: Option<std::time::Duration>) -> bool {
            self.inner.wait(timeout)
        }
        fn next_due(&self) -> Option<std::time::Duration> {
            self.inner.next_due()
        }
        fn statistics(&self) -> emp_link::LinkStatistics {
            self.inner.statistics()
        }
    };
}
#[allow(unused_imports, reason = "as above")]
pub(crate) use forward_to_inner;

/// A profile that gives a silent peer up after a short while.
pub fn impatient(after: Duration) -> Profile {
    let mut profile = Profile::DEFAULT;
    profile.unreachable_after.0 = after.as_nanos() as u64;
    profile
}

/// Two nodes, `a` and `b`, on a fabric of their own.
pub struct Pair {
    pub a: Node,
    pub b: Node,
}

impl Pair {
    pub fn new(board: Board) -> Self {
        Self::with(board, WaitMode::default(), Profile::DEFAULT)
    }

    pub fn with(board: Board, wait_mode: WaitMode, profile: Profile) -> Self {
        let fabric = Fabric::new(2).expect("descriptors");
        let start = |index, name| {
            let builder = on(&fabric, index, name).board(board).wait_mode(wait_mode);
            builder.profile(profile.clone()).start().expect("the node starts")
        };
        Self { a: start(0, "a"), b: start(1, "b") }
    }

    /// Endpoint 1 of each.
    pub fn endpoints(&self) -> (Endpoint, Endpoint) {
        (self.a.endpoint(1).expect("opens"), self.b.endpoint(1).expect("opens"))
    }
}

/// Runs two sides at once: with inline boards each must make its own progress. The one that ends first goes on making
/// progress until the other has ended too, for what it has sent may not have left yet.
pub fn both<A: Send, B: Send>(
    pair: &Pair,
    a: impl FnOnce() -> A + Send,
    b: impl FnOnce() -> B + Send,
) -> (A, B) {
    let running = AtomicUsize::new(2);
    std::thread::scope(|scope| {
        let b = scope.spawn(|| attend(&pair.b, &running, b));
        let a = attend(&pair.a, &running, a);
        (a, b.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn attend<T>(node: &Node, running: &AtomicUsize, side: impl FnOnce() -> T) -> T {
    /// Also after a panic, so that the other side ends.
    struct Ended<'a>(&'a AtomicUsize);
    impl Drop for Ended<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let ended = Ended(running);
    let result = side();
    drop(ended);
    let start = Instant::now();
    while running.load(Ordering::SeqCst) > 0 && start.elapsed() < 2 * LONG {
        node.progress();
        std::thread::sleep(Duration::from_micros(100));
    }
    result
}

/// Bytes that differ by place and by seed.
pub fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(bytes);
    out
}

/// Processor time in use by this process so far, all threads together.
pub fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Runs in a child that is forked here, and waits until it has ended well.
pub fn in_child(work: impl FnOnce()) {
    // SAFETY: the child does what this library says that it may, and ends without returning to the test.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        work();
        // SAFETY: ends this process.
        unsafe { libc::_exit(0) }
    }
    let start = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: the status is written to where it is.
        let ended = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        if ended == child {
            break;
        }
        if start.elapsed() > LONG / 2 {
            // SAFETY: it is ours, and was not waited for.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("the child hangs");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(status, 0, "the child failed");
}
