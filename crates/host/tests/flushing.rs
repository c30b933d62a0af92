//! Several threads of both ends that put and flush, beside programs that take the processors: what an MPI's threaded one-sided test does.
//! However slow that is, it goes on: no wait is longer than a few turns of the scheduler.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{LONG, on};
use emp_host::{Board, Endpoint, Node, RemoteRegion, WaitMode};
use emp_link::Fabric;

const THREADS: u64 = 4;

/// Puts between two flushes, and how long each thread goes on.
const PUTS: u64 = 16;
const RUN: Duration = Duration::from_secs(3);

/// Longest that one flush may take: the scheduler's turns of six threads and two hogs on a core are far below it, and what waits for
/// a timer that nobody runs is beyond it.
const FLUSH_MAX: Duration = Duration::from_secs(5);

/// Puts and waits for all of them, again and again. Returns how often, and the longest time.
fn put_and_flush(from: &Endpoint, to: RemoteRegion, bytes: usize, end: Instant) -> (u64, Duration) {
    let (mut flushes, mut longest) = (0, Duration::ZERO);
    while Instant::now() < end {
        let start = Instant::now();
        let puts: Vec<_> =
            (0..PUTS).map(|_| from.put(to, vec![7; bytes]).expect("there is room")).collect();
        for put in puts {
            put.wait(LONG).expect("both ends live");
        }
        flushes += 1;
        longest = longest.max(start.elapsed());
    }
    (flushes, longest)
}

fn node(fabric: &Fabric, index: u32, board: Board, mode: WaitMode) -> Node {
    let name = ["a", "b"][index as usize];
    on(fabric, index, name).board(board).wait_mode(mode).start().expect("the node starts")
}

#[test]
fn flushes_end_beside_busy_programs() {
    let inline = Board::Inline { guardian: true };
    let ways = [
        (inline, WaitMode::Adaptive),
        (inline, WaitMode::Spin),
        (Board::Thread, WaitMode::Adaptive),
    ];
    for (board, mode) in ways {
        let fabric = Fabric::new(2).expect("descriptors");
        let nodes = [0, 1].map(|index| node(&fabric, index, board, mode));
        let ends = nodes.each_ref().map(|node| node.endpoint(1).expect("opens"));
        let regions = nodes.each_ref().map(|node| node.export(vec![0; 1 << 20]).expect("fits"));
        let busy = AtomicBool::new(true);
        let results: Vec<_> = std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while busy.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let end = Instant::now() + RUN;
            let both = [0, 1].into_iter().flat_map(|side| (0..THREADS).map(move |t| (side, t)));
            let threads: Vec<_> = both
                .map(|(side, thread)| {
                    let (from, region) = (&ends[side], &regions[1 - side]);
                    let bytes = [8, 1_000, 8, 20_000][thread as usize];
                    scope.spawn(move || put_and_flush(from, region.remote(), bytes, end))
                })
                .collect();
            let results = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            busy.store(false, Ordering::Relaxed);
            results
        });
        println!("{board:?} {mode:?}: flushes and longest {results:?}");
        for (flushes, longest) in results {
            assert!(
                flushes > 0 && longest < FLUSH_MAX,
                "{board:?} {mode:?}: {flushes}, {longest:?}"
            );
        }
    }
}
