//! What boards promise: quiet nodes use no processor, and a silent application is stood in for.

mod common;

use std::time::{Duration, Instant};

use common::{LONG, Pair, SPLIT, both, impatient, pattern, processor_time};
use emp_host::{Board, Node, Profile, Scheme, Selector, WaitError, WaitMode};

/// One test at a time: processor time is that of the whole process.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Nodes that have met, and have nothing to say to each other any more.
fn met(board: Board) -> Pair {
    let pair = Pair::new(board);
    let (a, b) = pair.endpoints();
    both(
        &pair,
        || a.send_wait(b.address(), 0, vec![1; 10], LONG).unwrap(),
        || b.receive_wait(Selector::ANY, vec![0; 10], LONG).unwrap(),
    );
    drop((a, b));
    std::thread::sleep(Duration::from_millis(200));
    pair
}

/// Parts per thousand of one core that the process uses during a second of `idling`.
fn load(idling: impl FnOnce(Duration)) -> u128 {
    let before = processor_time();
    let start = Instant::now();
    idling(Duration::from_secs(1));
    (processor_time() - before).as_nanos() * 1000 / start.elapsed().as_nanos()
}

#[test]
fn quiet_nodes_use_no_processor() {
    let _alone = alone();
    for board in [Board::Thread, Board::Inline { guardian: true }, SPLIT] {
        let _pair = met(board);
        let load = load(std::thread::sleep);
        assert!(load < 10, "{board:?}: {load} ‰ for two quiet nodes");
    }
}

#[test]
fn a_long_wait_uses_no_processor() {
    let _alone = alone();
    for board in [Board::Thread, Board::Inline { guardian: true }, SPLIT] {
        let pair = met(board);
        let endpoint = pair.a.endpoint(9).unwrap();
        let load = load(|time| {
            assert!(endpoint.receive_wait(Selector::ANY, vec![0; 1], time).is_err());
        });
        assert!(load < 10, "{board:?}: {load} ‰ for a long wait");
    }
}

/// How long the application makes no call.
const SILENCE: Duration = Duration::from_secs(5);

#[test]
fn a_silent_application_is_stood_in_for() {
    let _alone = alone();
    std::thread::scope(|scope| {
        for board in [Board::Inline { guardian: true }, Board::Thread, SPLIT] {
            scope.spawn(move || be_silent(board));
        }
    });
}

/// The application of `b` posts receives and then makes no call for several times as long as its peer has patience.
fn be_silent(board: Board) {
    let pair = Pair::with(board, WaitMode::default(), impatient(SILENCE / 5));
    let (a, b) = pair.endpoints();
    let sizes = [10, 10_000, 4 << 20];
    let receives = sizes.map(|bytes| b.receive(Selector::ANY, vec![0; bytes]).unwrap());
    let silent_until = Instant::now() + SILENCE;
    let options = emp_host::SendOptions::default()
        .completion(emp_host::CompletionMode::Delivered)
        .synchronous();
    for (seed, bytes) in sizes.into_iter().enumerate() {
        let bytes = pattern(bytes, seed as u64);
        a.send_with(b.address(), 0, bytes, options).unwrap().wait(LONG).unwrap();
    }
    let left = silent_until.saturating_duration_since(Instant::now());
    assert!(left > SILENCE / 2, "{board:?}: transfers to posted buffers had to wait");
    // Messages that find no receive do not make it look dead either, however long they wait.
    let unexpected = a.send_with(b.address(), 1, pattern(4 << 20, 9), options).unwrap();
    let Err(WaitError::TimedOut(unexpected)) = unexpected.wait(left) else {
        panic!("{board:?}: no receive was posted, and the peer is not lost")
    };
    assert!(Instant::now() >= silent_until);
    for (seed, mut receive) in receives.into_iter().enumerate() {
        assert!(receive.test(), "{board:?}: ended while nobody looked");
        let got = receive.wait(LONG).unwrap();
        assert!(got.buffer == pattern(sizes[seed], seed as u64));
    }
    for counters in [pair.a.counters(), pair.b.counters()] {
        assert_eq!(counters.get(emp_host::Counter::PeersLost), 0, "{board:?}");
    }
    let late = b.receive(Selector::bits(1), vec![0; 4 << 20]).unwrap();
    assert!(late.wait(LONG).unwrap().buffer == pattern(4 << 20, 9));
    unexpected.wait(LONG).unwrap();
}

/// Applications at both ends that compute, and ask every few milliseconds whether a long message has arrived: what happens
/// between two calls is the guardians' part. Calls are counted, not time.
#[test]
fn who_asks_now_and_then_is_stood_in_for_meanwhile() {
    /// A message of 4 MB takes a hundred turns at either end; without guardians each would wait for a call.
    const CALLS_MAX: u32 = 20;
    let _alone = alone();
    let pair = Pair::new(Board::Inline { guardian: true });
    let (a, b) = pair.endpoints();
    for gap in [2, 3, 5].map(Duration::from_millis) {
        let calls = || {
            let mut there = a.send(b.address(), 7, vec![1; 4 << 20]).unwrap();
            let mut here = b.receive(Selector::bits(7), vec![0; 4 << 20]).unwrap();
            let mut calls = 1;
            while !(here.test() & there.test()) {
                std::thread::sleep(gap);
                calls += 1;
            }
            here.wait(LONG).unwrap();
            there.wait(LONG).unwrap();
            calls
        };
        // On a busy machine guardians wait for a processor, too.
        let least = (0..5).map(|_| calls()).min().unwrap();
        assert!(least <= CALLS_MAX, "{least} calls {gap:?} apart");
    }
}

#[test]
fn after_silence_the_application_takes_over_again() {
    let _alone = alone();
    let pair = Pair::new(Board::Inline { guardian: true });
    let (a, b) = pair.endpoints();
    for round in 0..20u64 {
        both(
            &pair,
            || a.send_wait(b.address(), round, pattern(5000, round), LONG).unwrap(),
            || {
                let got = b.receive_wait(Selector::bits(round), vec![0; 5000], LONG).unwrap();
                assert!(got.buffer == pattern(5000, round));
            },
        );
        std::thread::sleep(Duration::from_millis(round % 5));
    }
}

#[test]
fn a_message_to_a_sleeping_waiter_is_prompt() {
    let _alone = alone();
    for board in common::BOARDS {
        let pair = Pair::with(board, WaitMode::Sleep, Profile::DEFAULT);
        let (a, b) = pair.endpoints();
        let mut delays = Vec::new();
        both(
            &pair,
            || {
                for _ in 0..40 {
                    std::thread::sleep(Duration::from_millis(3));
                    let now = common_now();
                    a.send_wait(b.address(), 0, now.to_le_bytes().to_vec(), LONG).unwrap();
                }
            },
            || {
                for _ in 0..40 {
                    let got = b.receive_wait(Selector::ANY, vec![0; 8], LONG).unwrap();
                    let sent = u64::from_le_bytes(got.buffer.try_into().unwrap());
                    delays.push(common_now() - sent);
                }
            },
        );
        delays.sort_unstable();
        let median = Duration::from_nanos(delays[delays.len() / 2]);
        assert!(median < Duration::from_millis(1), "{board:?}: {median:?}");
    }
}

fn common_now() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Of long messages both threads of a board on two have a part, and only there is a second one.
#[test]
fn both_threads_of_a_split_board_work() {
    let _alone = alone();
    for board in common::BOARDS {
        let pair = Pair::with(board, WaitMode::Adaptive, Profile::DEFAULT);
        let (a, b) = pair.endpoints();
        [&pair.a, &pair.b].into_iter().for_each(Node::count_work);
        both(
            &pair,
            || {
                for seed in 0..200 {
                    a.send_wait(b.address(), seed, vec![1; 40_000], LONG).unwrap();
                }
            },
            || {
                for seed in 0..200 {
                    b.receive_wait(Selector::bits(seed), vec![0; 40_000], LONG).unwrap();
                }
            },
        );
        let others = [&pair.a, &pair.b].map(|node| node.worked().other);
        let split = matches!(board, Board::Split { .. });
        // What is sent may all leave within its posts; a turn of `dynamic` may be over before the other thread comes to it.
        let waits =
            matches!(board, Board::Split { scheme: Scheme::SendOnly | Scheme::Dynamic, .. });
        let worked = others.iter().any(|other| !other.is_zero());
        assert!(worked == split || waits, "{board:?}: {others:?}");
    }
}
