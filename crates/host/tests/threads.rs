//! Many threads on one node.

mod common;

use std::time::Duration;

use common::{BOARDS, LONG, Pair, both, pattern};
use emp_host::{Board, Endpoint, Profile, Selector, WaitMode};

const THREADS: u64 = 6;
const ROUNDS: u64 = 150;

/// Each thread has its own conversation; all use the same endpoints.
fn ping(me: &Endpoint, other: &Endpoint, thread: u64, first: bool) {
    for round in 0..ROUNDS {
        let size = [4, 1000, 40, 20_000][(round % 4) as usize];
        let bits = thread << 32 | round;
        let say = || {
            let message = pattern(size, bits);
            me.send_wait(other.address(), bits, message, LONG).unwrap();
        };
        let hear = || {
            let got = me.receive_wait(Selector::bits(bits), vec![0; size], LONG).unwrap();
            assert!(got.buffer == pattern(size, bits));
        };
        if first {
            say();
            hear();
        } else {
            hear();
            say();
        }
    }
}

#[test]
fn conversations_side_by_side() {
    for board in BOARDS {
        for mode in [WaitMode::default(), WaitMode::Sleep] {
            let pair = Pair::with(board, mode, Profile::DEFAULT);
            let (a, b) = pair.endpoints();
            let side = |me: &Endpoint, other: &Endpoint, first: bool| {
                std::thread::scope(|scope| {
                    for thread in 0..THREADS {
                        scope.spawn(move || ping(me, other, thread, first));
                    }
                });
            };
            both(&pair, || side(&a, &b, true), || side(&b, &a, false));
        }
    }
}

#[test]
fn a_spinning_thread_does_not_starve_others() {
    for board in BOARDS {
        let pair = Pair::with(board, WaitMode::Spin, Profile::DEFAULT);
        let (a, b) = pair.endpoints();
        let patient = a.receive(Selector::bits(u64::MAX), vec![0; 1]).unwrap();
        std::thread::scope(|scope| {
            // Spins in a wait all the time.
            let waits = scope.spawn(|| patient.wait(LONG).unwrap());
            both(&pair, || ping(&a, &b, 1, true), || ping(&b, &a, 1, false));
            b.send_wait(a.address(), u64::MAX, vec![1], LONG).unwrap();
            waits.join().unwrap();
        });
    }
}

#[test]
fn the_watch_is_handed_over() {
    // The one that sleeps on the descriptors leaves first; the others must still hear what comes later.
    for board in BOARDS {
        let pair = Pair::with(board, WaitMode::Sleep, Profile::DEFAULT);
        let (a, b) = pair.endpoints();
        let wait_for = &|bits: u64| {
            a.receive_wait(Selector::bits(bits), vec![0; 8], LONG).unwrap();
        };
        both(
            &pair,
            || {
                std::thread::scope(|scope| {
                    for bits in 0..5 {
                        scope.spawn(move || wait_for(bits));
                        std::thread::sleep(Duration::from_millis(2));
                    }
                });
            },
            || {
                for bits in 0..5u64 {
                    std::thread::sleep(Duration::from_millis(3));
                    b.send_wait(a.address(), bits, vec![0; 8], LONG).unwrap();
                }
            },
        );
    }
}

#[test]
fn requests_move_between_threads() {
    let pair = Pair::new(BOARDS[1]);
    let (a, b) = pair.endpoints();
    let receive = b.receive(Selector::ANY, vec![0; 100_000]).unwrap();
    let send = a.send(b.address(), 0, pattern(100_000, 3)).unwrap();
    let receiver = std::thread::spawn(move || receive.wait(LONG).unwrap().buffer);
    let sender = std::thread::spawn(move || send.wait(LONG).unwrap().buffer);
    assert_eq!(receiver.join().unwrap(), sender.join().unwrap());
}

/// Closing a node ends every wait on it, whoever makes the progress and however the waiters wait.
#[test]
fn closing_ends_waits() {
    for board in
        [Board::Thread, Board::Inline { guardian: true }, Board::Inline { guardian: false }]
    {
        for wait_mode in [WaitMode::Spin, WaitMode::Sleep] {
            let pair = Pair::with(board, wait_mode, Profile::DEFAULT);
            let endpoint = pair.a.endpoint(5).unwrap();
            let receive = endpoint.receive(Selector::ANY, vec![0; 8]).unwrap();
            let (ended, end) = std::sync::mpsc::channel();
            let waiter = std::thread::spawn(move || {
                let failed = receive.wait(None).is_err();
                ended.send(failed).unwrap();
            });
            std::thread::sleep(Duration::from_millis(20));
            let _ = pair.a.close(Duration::from_millis(10));
            let failed = end.recv_timeout(LONG).expect("the wait ends with the node");
            assert!(failed, "{board:?}, {wait_mode:?}");
            waiter.join().unwrap();
        }
    }
}
