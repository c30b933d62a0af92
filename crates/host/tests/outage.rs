//! A node whose interface is down, or has no carrier, for longer than its limit of silence: its peers are not to blame.
//!
//! Needs root; says so where it is not to be had.

mod common;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{LONG, pattern};
use emp_host::{AutoLinks, Board, Node, Selector, Status, Want};
use emp_testing::lab::{INTERFACE, Lab};

/// The limit of silence of node `a`: the kernel may take a second to say that there is no carrier, and as long to find neighbours again.
const PATIENCE: Duration = Duration::from_millis(3_000);

/// How long the interfaces are down: twice that. In a pair of virtual ones, the other then has no carrier.
const OUTAGE: Duration = Duration::from_millis(6_000);

type Lines = Arc<Mutex<Vec<String>>>;

fn start(lab: &Lab, side: usize, want: Want, silence: Duration) -> (Node, Lines) {
    let name = ["a", "b"][side];
    let udp_bind = (want != Want::Packet).then(|| format!("10.77.0.{}", side + 1).parse().unwrap());
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
    let node = Node::builder().name(name).auto_links(auto).board(Board::Thread).notices(log);
    let node = node.unreachable_after(silence);
    (lab.inside(side, || node.start()).expect("root may"), lines)
}

/// Node `a` has no carrier for longer than it waits for anybody; what was under way arrives after it. Then node `b`, which has no
/// carrier either but more patience, hears in time of everything.
#[test]
fn peers_outlive_a_lost_carrier() {
    std::thread::scope(|scope| {
        for want in [Want::Packet, Want::Udp] {
            scope.spawn(move || outlives(want));
        }
    });
}

fn outlives(want: Want) {
    let Some(lab) = Lab::build(1500) else { return };
    let (a, lines) = start(&lab, 0, want, PATIENCE);
    let (b, _) = start(&lab, 1, want, LONG);
    let (one, two) = (a.endpoint(1).unwrap(), b.endpoint(1).unwrap());
    let post = |seed| {
        let receive = two.receive(Selector::bits(seed), vec![0; 200_000]).unwrap();
        (receive, one.send(two.address(), seed, pattern(200_000, seed)).unwrap())
    };
    let (receive, send) = post(1);
    send.wait(LONG).unwrap();
    assert!(receive.wait(LONG).unwrap().buffer == pattern(200_000, 1));
    // First the other end is set down, and this one has no carrier.
    for (down, seed) in [(1, 2), (0, 3)] {
        lab.ip(down, &["link", "set", INTERFACE, "down"]);
        let (mut receive, send) = post(seed);
        std::thread::sleep(OUTAGE);
        assert!(!receive.test(), "{want:?}: it cannot have arrived");
        lab.ip(down, &["link", "set", INTERFACE, "up"]);
        if let Err(error) = send.wait(LONG) {
            panic!("{want:?}, side {down} down: {error}; {:?}", lines.lock().unwrap());
        }
        assert!(receive.wait(LONG).unwrap().buffer == pattern(200_000, seed));
    }
    let lines = lines.lock().unwrap();
    let told = |what: &str| lines.iter().any(|line| line.contains(what));
    assert!(told("interface emp0 has no carrier") && told("interface emp0 is down"), "{lines:?}");
    assert!(told("interface emp0 is up again and has a carrier, after"), "{lines:?}");
}

/// The other way round: `b` was silent for longer than `a` waits, and `a`, whose own interface was well, gave it up. `b` learns
/// that, why, and which interface it was.
#[test]
fn who_was_given_up_learns_why() {
    let Some(lab) = Lab::build(1500) else { return };
    let patience = Duration::from_millis(600);
    let (a, _) = start(&lab, 0, Want::Packet, patience);
    let (b, _) = start(&lab, 1, Want::Packet, LONG);
    let (one, two) = (a.endpoint(1).unwrap(), b.endpoint(1).unwrap());
    let receive = two.receive(Selector::bits(1), vec![0; 100]).unwrap();
    one.send_wait(two.address(), 1, pattern(100, 1), LONG).unwrap();
    receive.wait(LONG).unwrap();
    let waiting =
        two.receive(Selector { from: a.id(), ..Selector::bits(2) }, vec![0; 100]).unwrap();
    lab.ip(0, &["link", "set", INTERFACE, "down"]);
    // Longer than `a` gives an outage of its own.
    let lost = one.send(two.address(), 3, pattern(200_000, 3)).unwrap();
    let start = Instant::now();
    let error = lost.wait(LONG).unwrap_err();
    assert!(start.elapsed() > 6 * patience && start.elapsed() < 10 * patience, "{error}");
    assert_eq!(error.operation().expect("not the time").status(), Status::Unreachable);
    assert!(error.to_string().ends_with("peer unreachable; interface emp0 is down"), "{error}");
    lab.ip(0, &["link", "set", INTERFACE, "up"]);
    let ask = two.send(one.address(), 4, pattern(20_000, 4));
    let error = waiting.wait(LONG).unwrap_err();
    assert_eq!(error.operation().expect("not the time").status(), Status::GivenUp, "{error}");
    let text = error.to_string();
    assert!(text.contains("gave it up"), "{text}");
    // It may learn so before it has looked at its interface again.
    let since = "interface emp0 was down or had no carrier for";
    assert!(text.contains(since) || text.contains("interface emp0 has no carrier"), "{text}");
    drop(ask);
}
