//! Nodes on two cables at once: long messages take both, and whichever is pulled, the other carries on (`PATH-13`, `PATH-5`).
//!
//! Needs root; says so where it is not to be had.

mod common;

use std::time::{Duration, Instant};

use common::{LONG, pattern};
use emp_host::{AutoLinks, Board, LinkAddress, LinkIndex, Node, Selector, Want};
use emp_testing::lab::{INTERFACE, Lab};

/// The second cable.
const SECOND: &str = "emp1";

const BYTES: usize = 4 << 20;

fn lab() -> Option<Lab> {
    let lab = Lab::build(1500)?;
    plug(&lab);
    Some(lab)
}

/// Adds the second cable.
fn plug(lab: &Lab) {
    let cable = format!("link add {SECOND} type veth peer name {SECOND} netns {}", lab.name(1));
    lab.ip(0, &cable.split(' ').collect::<Vec<_>>());
    for side in 0..2 {
        let address = format!("10.78.0.{}/24", side + 1);
        lab.ip(side, &["address", "add", &address, "dev", SECOND]);
        lab.ip(side, &["link", "set", SECOND, "up"]);
    }
    // Until both ends have a carrier.
    let start = Instant::now();
    while !(0..2).all(|side| lab.inside(side, || has_carrier(SECOND))) {
        assert!(start.elapsed() < LONG, "the second cable has no carrier");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn has_carrier(name: &str) -> bool {
    let all = emp_link::interfaces().unwrap();
    all.iter().any(|one| one.name == name && one.running)
}

fn start(lab: &Lab, side: usize, want: Want, named: bool) -> Node {
    let peer = format!("10.77.0.{}:51966", 2 - side).parse().unwrap();
    let interfaces = if named { vec![INTERFACE.into(), SECOND.into()] } else { Vec::new() };
    let udp_peers = if want == Want::Udp { vec![peer] } else { Vec::new() };
    let auto = AutoLinks { want, interfaces, udp_peers, memory: false, ..AutoLinks::default() };
    let node = Node::builder().name(["a", "b"][side]).auto_links(auto).board(Board::Thread);
    lab.inside(side, || node.unreachable_after(LONG).start()).expect("root may")
}

/// Bytes that have left by each cable from one side, as its kernel counts them.
fn left(lab: &Lab, side: usize) -> [u64; 2] {
    let table = lab.inside(side, || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap());
    [INTERFACE, SECOND].map(|name| {
        let line = table.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.split(':').nth(1).unwrap().split_whitespace().nth(8).unwrap().parse().unwrap()
    })
}

/// Sends so many long messages, one behind the other; all arrive as they were sent. `happens` while they are under way.
fn transfer(pair: &[Node; 2], messages: u64, happens: impl FnOnce()) {
    let [a, b] = [0, 1].map(|side| pair[side].endpoint(1).unwrap());
    let receive = |seed| b.receive(Selector::bits(seed), vec![0; BYTES]).unwrap();
    let receives: Vec<_> = (0..messages).map(receive).collect();
    let sends: Vec<_> = (0..messages)
        .map(|seed| a.send(b.address(), seed, pattern(BYTES, seed)).unwrap())
        .collect();
    happens();
    for (seed, (receive, send)) in (0..).zip(receives.into_iter().zip(sends)) {
        send.wait(LONG).unwrap();
        let received = receive.wait(LONG).unwrap();
        assert!(received.buffer == pattern(BYTES, seed), "message {seed} arrived as it was sent");
    }
}

/// Transfers until both cables carry a part. How large that is says nothing here, where processors are what is short: a cable that seemed slow
/// once is tried again before long.
fn until_both_carry(lab: &Lab, pair: &[Node; 2], what: &str) {
    let start = Instant::now();
    loop {
        let before = left(lab, 0);
        transfer(pair, 4, || ());
        let after = left(lab, 0);
        if (0..2).all(|at| after[at] - before[at] > BYTES as u64 / 40) {
            return;
        }
        let paths = (pair[0].paths(pair[1].id()), pair[1].paths(pair[0].id()));
        assert!(start.elapsed() < LONG, "{what}: {paths:?}\n{}", pair[0].choice());
    }
}

#[test]
fn long_messages_take_both_cables() {
    let Some(lab) = lab() else { return };
    for (want, named) in [(Want::Auto, true), (Want::Auto, false), (Want::Packet, true)] {
        let pair = [0, 1].map(|side| start(&lab, side, want, named));
        // The first finds the second cable.
        transfer(&pair, 4, || ());
        until_both_carry(&lab, &pair, &format!("{want:?}, named {named}"));
    }
}

/// How two cables' ends are set up for IP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ip {
    /// A subnet for each cable.
    Apart,
    /// The same, and a host takes only what comes from where it would send to, and answers for the addresses of the interface that is asked.
    Strict,
    /// One subnet for both: the kernel would send all by the first.
    Together,
}

/// Transfers until each node's sockets both lead to the other, and where cables have subnets of their own each to the address of its own cable. How much
/// each carries is not asked here: on a busy machine one may carry nearly all for a while.
fn until_each_leads_by_its_own(lab: &Lab, pair: &[Node; 2], ip: Ip) {
    let start = Instant::now();
    loop {
        let before = left(lab, 0);
        transfer(pair, 4, || ());
        let second = left(lab, 0)[1] - before[1];
        let paths = [0, 1].map(|side| pair[side].paths(pair[1 - side].id()));
        let right = (0..2).all(|side| {
            let leads = |link: u8| {
                let address = format!("10.{}.0.{}:51966", 77 + link, 2 - side).parse().unwrap();
                let address = LinkAddress::udp(address);
                let mut paths = paths[side].iter().filter(|path| path.link == LinkIndex(link));
                paths.any(|path| ip == Ip::Together || path.address == address)
            };
            leads(0) && leads(1)
        });
        if right && second > 0 {
            return;
        }
        assert!(start.elapsed() < LONG, "udp, {ip:?}: {paths:?}\n{}", pair[0].choice());
    }
}

/// Sockets alone: each leads by its own cable, whichever of the peer's addresses it is answered from (`PATH-14`).
#[test]
fn sockets_lead_by_their_own_cables() {
    for ip in [Ip::Apart, Ip::Strict, Ip::Together] {
        let Some(lab) = lab() else { return };
        for side in 0..2 {
            if ip == Ip::Strict {
                lab.inside(side, || ["arp_ignore", "rp_filter"].map(|name| set_ipv4(name, "1")));
            }
            if ip == Ip::Together {
                lab.ip(side, &["address", "flush", "dev", SECOND]);
                let address = format!("10.77.0.{}/24", side + 3);
                lab.ip(side, &["address", "add", &address, "dev", SECOND]);
            }
        }
        let pair = [0, 1].map(|side| start(&lab, side, Want::Udp, true));
        transfer(&pair, 4, || ());
        until_each_leads_by_its_own(&lab, &pair, ip);
    }
}

/// Sets how both interfaces of the calling thread's namespace take IPv4.
fn set_ipv4(name: &str, value: &str) {
    for of in ["all", INTERFACE, SECOND] {
        std::fs::write(format!("/proc/sys/net/ipv4/conf/{of}/{name}"), value).unwrap();
    }
}

#[test]
fn a_pulled_cable_hands_over_and_carries_again() {
    let Some(lab) = lab() else { return };
    for want in [Want::Auto, Want::Packet] {
        let pair = [0, 1].map(|side| start(&lab, side, want, true));
        transfer(&pair, 4, || ());
        for cable in [SECOND, INTERFACE] {
            for side in 0..2 {
                transfer(&pair, 12, || lab.ip(side, &["link", "set", cable, "down"]));
                transfer(&pair, 4, || lab.ip(side, &["link", "set", cable, "up"]));
            }
            until_both_carry(&lab, &pair, &format!("{cable} is back, {want:?}"));
        }
    }
}

/// Who is reached by no cable any more is given up, by name, with the places at which it was tried and why; and is found again (`PATH-5`).
#[test]
fn what_was_tried_is_told() {
    let Some(lab) = lab() else { return };
    let patience = Duration::from_millis(400);
    let node = |side: usize| {
        let interfaces = vec![INTERFACE.into(), SECOND.into()];
        let auto = AutoLinks { interfaces, memory: false, ..AutoLinks::default() };
        let node = Node::builder().name(["a", "b"][side]).auto_links(auto).board(Board::Thread);
        lab.inside(side, || node.unreachable_after(patience).start()).expect("root may")
    };
    let pair = [0, 1].map(node);
    transfer(&pair, 4, || ());
    let [a, b] = [0, 1].map(|side| pair[side].endpoint(2).unwrap());
    for cable in [INTERFACE, SECOND] {
        lab.ip(1, &["link", "set", cable, "down"]);
    }
    let lost = a.send(b.address(), 1, pattern(BYTES, 1)).unwrap();
    let error = lost.wait(LONG).unwrap_err().to_string();
    assert!(error.contains("peer unreachable; tried"), "{error}");
    assert!(error.contains("node b"), "{error}");
    assert!(error.contains(INTERFACE) && error.contains(SECOND), "{error}");
}

/// A cable that is plugged in while the nodes run is used with the first; it may go away, and come again (`PATH-15`).
#[test]
fn a_cable_that_appears_joins() {
    for want in [Want::Auto, Want::Packet] {
        let Some(lab) = Lab::build(1500) else { return };
        let pair = [0, 1].map(|side| start(&lab, side, want, false));
        transfer(&pair, 4, || ());
        for time in ["first", "second"] {
            transfer(&pair, 8, || plug(&lab));
            until_both_carry(&lab, &pair, &format!("{want:?}, the {time} time"));
            transfer(&pair, 12, || lab.ip(0, &["link", "delete", SECOND]));
        }
    }
}

/// Cables of 9000 and 1500 bytes beside each other, and ends of one cable that differ: each path has its own length.
#[test]
fn each_cable_has_an_mtu_of_its_own() {
    for (first, second) in [([9000, 9000], [1500, 1500]), ([9000, 1500], [1500, 9000])] {
        let Some(lab) = lab() else { return };
        for (cable, mtus) in [(INTERFACE, first), (SECOND, second)] {
            for (side, mtu) in mtus.iter().enumerate() {
                lab.ip(side, &["link", "set", cable, "mtu", &mtu.to_string()]);
            }
        }
        for want in [Want::Auto, Want::Packet] {
            let pair = [0, 1].map(|side| start(&lab, side, want, true));
            transfer(&pair, 4, || ());
            // What is cut for 9000 bytes takes the cable that carries it whole; where ends differ both carry 1500.
            if first != [9000, 9000] {
                until_both_carry(&lab, &pair, &format!("{want:?}, MTUs {first:?} and {second:?}"));
            }
        }
    }
}
