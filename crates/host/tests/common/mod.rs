//! What the host's tests share: pairs of nodes, and running both ends at once.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use emp_host::{Board, Endpoint, Node, NodeBuilder, NodeId, Profile, WaitMode};
use emp_link::Fabric;

/// Long against anything that should happen, short against a human's patience.
pub const LONG: Duration = Duration::from_secs(20);

/// All boards.
pub const BOARDS: [Board; 3] =
    [Board::Inline { guardian: false }, Board::Inline { guardian: true }, Board::Thread];

/// A node builder on place `index` of a fabric.
pub fn on(fabric: &Fabric, index: u32, name: &str) -> NodeBuilder {
    let tag = NodeId::from_name(name).destination_tag();
    let link = fabric.link(index, tag).expect("the fabric has the place");
    Node::builder().name(name).link(link)
}

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
