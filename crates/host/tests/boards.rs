//! What boards promise: quiet nodes use no processor, and a silent application is stood in for.

mod common;

use std::time::{Duration, Instant};

use common::{LONG, Pair, both, impatient, pattern, processor_time};
use emp_host::{Board, Profile, Selector, WaitMode};

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
    for board in [Board::Thread, Board::Inline { guardian: true }] {
        let _pair = met(board);
        let load = load(std::thread::sleep);
        assert!(load < 10, "{board:?}: {load} ‰ for two quiet nodes");
    }
}

#[test]
fn a_long_wait_uses_no_processor() {
    let _alone = alone();
    for board in [Board::Thread, Board::Inline { guardian: true }] {
        let pair = met(board);
        let endpoint = pair.a.endpoint(9).unwrap();
        let load = load(|time| {
            assert!(endpoint.receive_wait(Selector::ANY, vec![0; 1], time).is_err());
        });
        assert!(load < 10, "{board:?}: {load} ‰ for a long wait");
    }
}

#[test]
fn a_silent_application_is_stood_in_for() {
    let _alone = alone();
    for board in [Board::Inline { guardian: true }, Board::Thread] {
        let pair = Pair::with(board, WaitMode::default(), impatient(Duration::from_millis(400)));
        let (a, b) = pair.endpoints();
        let bytes = 4 << 20;
        let receive = b.receive(Selector::ANY, vec![0; bytes]).unwrap();
        // From now on b's application is silent; a's transfer must end all the same, and well before that is over.
        let silent_until = Instant::now() + Duration::from_secs(2);
        let options = emp_host::SendOptions::default()
            .completion(emp_host::CompletionMode::Delivered)
            .synchronous();
        let send = a.send_with(b.address(), 0, pattern(bytes, 1), options).unwrap();
        send.wait(LONG).unwrap();
        assert!(Instant::now() < silent_until, "took {board:?} too long");
        // Messages that find no receive do not make it look dead either.
        drop(a.send(b.address(), 1, pattern(bytes, 2)).unwrap());
        std::thread::sleep(silent_until.saturating_duration_since(Instant::now()));
        let mut receive = receive;
        assert!(receive.test());
        let got = receive.wait(LONG).unwrap();
        assert!(got.buffer == pattern(bytes, 1));
        let counters = pair.a.counters();
        assert_eq!(counters.get(emp_host::Counter::PeersLost), 0);
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
