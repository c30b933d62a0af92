//! The MTU of a cable is lowered while messages are under way: nothing is lost.
//!
//! Needs root; says so where it is not to be had.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{BOARDS, LONG, Pair, SPLIT, both, pattern};
use emp_host::{AutoLinks, Board, Counter, Node, Selector, Want};
use emp_testing::lab::{INTERFACE, Lab};

/// Bytes of one message: enough for many blocks.
const BYTES: usize = 1 << 20;

/// How long messages are exchanged before the MTU is lowered, and after it was noticed.
const RUN: Duration = Duration::from_millis(150);

type Lines = Arc<Mutex<Vec<String>>>;

fn start(lab: &Lab, side: usize, want: Want, board: Board) -> (Node, Lines) {
    let name = ["a", "b"][side];
    let udp_bind = (want == Want::Udp).then(|| format!("10.77.0.{}", side + 1).parse().unwrap());
    let other = format!("10.77.0.{}:51966", 2 - side).parse().unwrap();
    let interfaces = vec![INTERFACE.into()];
    let auto = AutoLinks {
        want,
        interfaces,
        udp_bind,
        udp_peers: vec![other],
        memory: false,
        ..AutoLinks::default()
    };
    let lines = Lines::default();
    let written = lines.clone();
    let log = move |line: &str| written.lock().unwrap().push(line.to_owned());
    let node = Node::builder().name(name).auto_links(auto).board(board).notices(log);
    (lab.inside(side, || node.start()).expect("root may"), lines)
}

/// Messages one way, each answered; meanwhile the MTU of some ends is lowered. Returns the longest time that one took.
fn exchange(
    lab: &Lab,
    pair: &Pair,
    lowered: &[usize],
    mtu: &str,
    noticed: impl Fn() -> bool + Sync,
) -> Duration {
    let (a, b) = pair.endpoints();
    let (running, met) = (AtomicBool::new(true), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let start = Instant::now();
            while !met.load(Ordering::Relaxed) && start.elapsed() < LONG {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(RUN);
            for &side in lowered {
                lab.ip(side, &["link", "set", INTERFACE, "mtu", mtu]);
            }
            let start = Instant::now();
            while !noticed() && start.elapsed() < LONG {
                std::thread::sleep(Duration::from_millis(10));
            }
            std::thread::sleep(RUN);
            running.store(false, Ordering::Relaxed);
        });
        let ((), slowest) = both(
            pair,
            || {
                let mut round = 0;
                while running.load(Ordering::Relaxed) {
                    round += 1;
                    a.send_wait(("b", 1), round, pattern(BYTES, round), LONG).unwrap();
                    let got = a.receive_wait(Selector::ANY, vec![0; 2000], LONG).unwrap();
                    assert!(got.buffer[..got.bytes()] == pattern(1300, round), "{round}");
                    met.store(true, Ordering::Relaxed);
                }
                a.send_wait(("b", 1), 0, vec![1], LONG).unwrap();
            },
            || {
                let mut slowest = Duration::ZERO;
                loop {
                    let begin = Instant::now();
                    let got = b.receive_wait(Selector::ANY, vec![0; BYTES], LONG).unwrap();
                    if got.bytes() == 1 {
                        return slowest;
                    }
                    slowest = slowest.max(begin.elapsed());
                    let round = got.completion.match_bits;
                    assert!(got.buffer == pattern(BYTES, round), "message {round} differs");
                    b.send_wait(("a", 1), round, pattern(1300, round), LONG).unwrap();
                }
            },
        );
        slowest
    })
}

fn survive(want: Want, lowered: &[usize], mtu: &str) {
    for board in BOARDS {
        let Some(lab) = Lab::build(1500) else { return };
        let [(a, a_log), (b, b_log)] = [0, 1].map(|side| start(&lab, side, want, board));
        let pair = Pair { a, b };
        let said = format!("the MTU of {INTERFACE} is {mtu} now: frames have at most");
        let logs = [&a_log, &b_log];
        let says = |side: usize, what: &str| {
            logs[side].lock().unwrap().iter().any(|line| line.contains(what))
        };
        // The end that was not lowered hears of it from the other.
        let heard = |side: usize| says(side, &said) || says(side, "takes frames of at most");
        let noticed = || lowered.iter().all(|side| says(*side, &said)) && heard(0) && heard(1);
        let slowest = exchange(&lab, &pair, lowered, mtu, noticed);
        // Two threads of each node wait for the other's core, where a busy machine has two.
        let most = if board == SPLIT { LONG } else { Duration::from_secs(5) };
        assert!(slowest < most, "{board:?} {want:?} {lowered:?}: {slowest:?}");
        for side in [0, 1] {
            assert_eq!(says(side, &said), lowered.contains(&side), "{side}: {logs:?}");
            assert!(heard(side), "{board:?} {side}: {logs:?}");
        }
        for node in [&pair.a, &pair.b] {
            assert_eq!(node.counters().get(Counter::PeersLost), 0);
        }
    }
}

/// Lowered and raised again: longer frames are used as soon as they are found to get through.
fn rises_again(want: Want) {
    for board in BOARDS {
        let Some(lab) = Lab::build(1500) else { return };
        let [(a, a_log), (b, b_log)] = [0, 1].map(|side| start(&lab, side, want, board));
        let pair = Pair { a, b };
        let both_say = |what: &str| {
            [&a_log, &b_log]
                .iter()
                .all(|log| log.lock().unwrap().iter().any(|line| line.contains(what)))
        };
        exchange(&lab, &pair, &[0, 1], "1000", || both_say("frames have at most"));
        let raised = |node: &Node| node.counters().get(Counter::PeersRaised);
        assert_eq!((raised(&pair.a), raised(&pair.b)), (0, 0));
        let found = || raised(&pair.a) > 0 && raised(&pair.b) > 0;
        exchange(&lab, &pair, &[0, 1], "1500", || {
            both_say(&format!("fit {INTERFACE} again")) && found()
        });
        let (a, b) = pair.endpoints();
        let before = pair.a.counters().get(Counter::FramesSent);
        both(
            &pair,
            || drop(a.send_wait(("b", 1), 7, pattern(4 << 20, 7), LONG).unwrap()),
            || drop(b.receive_wait(Selector::bits(7), vec![0; 4 << 20], LONG).unwrap()),
        );
        let frames = pair.a.counters().get(Counter::FramesSent) - before;
        assert!(frames < (4 << 20) / 1300, "{want:?} {board:?}: {frames} frames for 4 MB");
        for node in [&pair.a, &pair.b] {
            assert_eq!(node.counters().get(Counter::PeersLost), 0);
        }
    }
}

#[test]
fn an_mtu_that_is_raised_again_is_used() {
    rises_again(Want::Packet);
    rises_again(Want::Udp);
}

#[test]
fn packet_survives_a_lower_mtu() {
    survive(Want::Packet, &[0, 1], "1000");
    survive(Want::Packet, &[0], "1400");
}

#[test]
fn packet_survives_a_lower_mtu_of_the_other_end() {
    survive(Want::Packet, &[1], "1400");
    survive(Want::Packet, &[1], "700");
}

#[test]
fn udp_survives_a_lower_mtu() {
    survive(Want::Udp, &[0, 1], "1000");
    survive(Want::Udp, &[0], "1400");
    survive(Want::Udp, &[1], "1400");
}

#[test]
fn two_paths_survive_a_lower_mtu() {
    survive(Want::Auto, &[0, 1], "1000");
    survive(Want::Auto, &[0], "1400");
    survive(Want::Auto, &[1], "1400");
    // In one test, as the nodes of two labs have the same names.
    rises_again(Want::Auto);
}

#[test]
fn xdp_survives_a_lower_mtu() {
    survive(Want::Xdp, &[0, 1], "1000");
    survive(Want::Xdp, &[1], "1400");
}
