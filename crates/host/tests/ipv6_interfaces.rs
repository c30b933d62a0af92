//! Nodes on two cables that have IPv6 addresses alone, or none but those that each interface gives itself and that mean nothing beyond its cable: long
//! messages take both cables, by whichever links there are (`PATH-13`, `PATH-1`).
//!
//! Needs root; says so where it is not to be had.

mod common;

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::time::Instant;

use common::{LONG, pattern};
use emp_host::{AutoLinks, Board, Node, Selector, Want};
use emp_testing::lab::{INTERFACE, Lab};

const INTERFACES: [&str; 2] = [INTERFACE, "emp1"];

const BYTES: usize = 4 << 20;

const PORT: u16 = 51_966;

/// What interfaces have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Have {
    /// What the kernel gives each: fe80::/64 on all of them.
    LinkLocal,
    /// The same on both, as VLANs on one card have whose Ethernet address is all that is theirs.
    OneLinkLocal,
    /// Link-local ones, and an address of a subnet of each cable's own.
    Subnets,
}

/// Two hosts with two cables and no IPv4.
fn lab(have: Have) -> Option<Lab> {
    let lab = Lab::build(1500)?;
    let cable = format!("link add emp1 type veth peer name emp1 netns {}", lab.name(1));
    lab.ip(0, &cable.split(' ').collect::<Vec<_>>());
    for side in 0..2 {
        for (at, name) in INTERFACES.into_iter().enumerate() {
            lab.ip(side, &["address", "flush", "dev", name]);
            lab.ip(side, &["link", "set", name, "down"]);
            if have == Have::OneLinkLocal {
                lab.ip(side, &["link", "set", name, "addrgenmode", "none"]);
            }
            lab.ip(side, &["link", "set", name, "up"]);
            let by_hand = match have {
                Have::LinkLocal => None,
                Have::OneLinkLocal => Some(format!("fe80::{}/64", side + 1)),
                Have::Subnets => Some(format!("fd77:{at}::{}/64", side + 1)),
            };
            if let Some(address) = by_hand {
                lab.ip(side, &["address", "add", &address, "dev", name, "nodad"]);
            }
        }
    }
    let start = Instant::now();
    let ready = |side| {
        let all = lab.inside(side, || emp_link::interfaces().unwrap());
        let is = |name: &str| {
            all.iter().any(|one| one.name == name && one.running && !one.addresses.is_empty())
        };
        INTERFACES.into_iter().all(is)
    };
    while !(0..2).all(ready) {
        assert!(start.elapsed() < LONG, "a cable has no carrier or no address");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Some(lab)
}

/// Where the other host is on the first cable, as this one has to name it.
fn peer_of(lab: &Lab, side: usize, have: Have) -> SocketAddr {
    let of = |side| {
        let all = lab.inside(side, || emp_link::interfaces().unwrap());
        all.into_iter().find(|one| one.name == INTERFACES[0]).unwrap()
    };
    let is = |ip: &IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    let wanted = |ip: &IpAddr| is(ip) == (have != Have::Subnets);
    match of(1 - side).addresses.into_iter().find(wanted).unwrap() {
        IpAddr::V6(ip) if have != Have::Subnets => {
            SocketAddrV6::new(ip, PORT, 0, of(side).index).into()
        }
        ip => SocketAddr::new(ip, PORT),
    }
}

fn start(lab: &Lab, side: usize, have: Have, want: Want) -> Node {
    let interfaces = INTERFACES.map(str::to_owned).to_vec();
    // Sockets of single interfaces are in no group.
    let udp_peers = if want == Want::Udp { vec![peer_of(lab, side, have)] } else { Vec::new() };
    let auto = AutoLinks { want, interfaces, udp_peers, memory: false, ..AutoLinks::default() };
    let node = Node::builder().name(["a", "b"][side]).auto_links(auto).board(Board::Thread);
    lab.inside(side, || node.unreachable_after(LONG).start()).expect("root may")
}

/// Bytes that have left by each cable from the first host, as its kernel counts them.
fn left(lab: &Lab) -> [u64; 2] {
    let table = lab.inside(0, || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap());
    INTERFACES.map(|name| {
        let line = table.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        line.split(':').nth(1).unwrap().split_whitespace().nth(8).unwrap().parse().unwrap()
    })
}

/// Sends four long messages at once; all arrive as they were sent.
fn transfer(pair: &[Node; 2]) {
    let [a, b] = [0, 1].map(|side| pair[side].endpoint(1).unwrap());
    let receive = |seed| b.receive(Selector::bits(seed), vec![0; BYTES]).unwrap();
    let receives: Vec<_> = (0..4).map(receive).collect();
    let send = |seed| a.send(("b", 1), seed, pattern(BYTES, seed)).unwrap();
    let sends: Vec<_> = (0..4).map(send).collect();
    for (seed, (receive, send)) in (0..).zip(receives.into_iter().zip(sends)) {
        let chosen = || format!("{}\n{}", pair[0].choice(), pair[1].choice());
        send.wait(LONG).unwrap_or_else(|error| panic!("{error}\n{}", chosen()));
        assert!(receive.wait(LONG).unwrap().buffer == pattern(BYTES, seed), "message {seed}");
    }
}

/// Until each socket leads to the other host, by an address of its own cable, and both cables carry.
fn takes_both(have: Have, want: Want) {
    let Some(lab) = lab(have) else { return };
    let pair = [0, 1].map(|side| start(&lab, side, have, want));
    let start = Instant::now();
    loop {
        let before = left(&lab);
        transfer(&pair);
        let after = left(&lab);
        let paths = [0, 1].map(|side| pair[side].paths(pair[1 - side].id()));
        let carry = (0..2).all(|at| after[at] - before[at] > BYTES as u64 / 40);
        let sockets = |side: usize| {
            let all = paths[side].iter().filter(|path| path.address.as_udp().is_some());
            all.map(|path| path.link.0).collect::<std::collections::BTreeSet<_>>().len()
        };
        if carry && (0..2).all(|side| sockets(side) == 2) {
            return;
        }
        assert!(start.elapsed() < LONG, "{want:?}: {paths:?}\n{}", pair[0].choice());
    }
}

#[test]
fn two_cables_with_ipv6_subnets_carry_both() {
    [Want::Udp, Want::Auto].into_iter().for_each(|want| takes_both(Have::Subnets, want));
}

#[test]
fn two_cables_with_link_local_addresses_alone_carry_both() {
    [Want::Udp, Want::Auto].into_iter().for_each(|want| takes_both(Have::LinkLocal, want));
}

#[test]
fn two_cables_with_one_link_local_address_carry_both() {
    [Want::Udp, Want::Auto].into_iter().for_each(|want| takes_both(Have::OneLinkLocal, want));
}
