//! Nodes on datagrams alone find each other: in a multicast group with nothing configured, and by IPv6 as by IPv4.
//!
//! Needs root; says so where it is not to be had.

mod common;

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use common::{LONG, pattern};
use emp_host::{AutoLinks, Board, Counter, Node, NodeEvent, Selector, Want};
use emp_testing::lab::{INTERFACE, Lab};

const PORT: u16 = 51_966;

fn start(lab: &Lab, side: usize, bind: Option<IpAddr>, peers: &[SocketAddr]) -> Node {
    let auto = AutoLinks { udp_bind: bind, udp_peers: peers.to_vec(), ..on_datagrams() };
    start_with(lab, side, ["a", "b"][side], auto)
}

fn on_datagrams() -> AutoLinks {
    AutoLinks { want: Want::Udp, ..AutoLinks::default() }
}

fn start_with(lab: &Lab, side: usize, name: &str, auto: AutoLinks) -> Node {
    let node = Node::builder().name(name).auto_links(auto).board(Board::Thread);
    lab.inside(side, || node.unreachable_after(LONG).start()).expect("anyone may")
}

/// One at a port of its own, which is in no group: it knows whom it is told of.
fn start_apart(lab: &Lab, side: usize, name: &str, port: u16, peers: &[SocketAddr]) -> Node {
    let auto = AutoLinks { udp_port: port, udp_peers: peers.to_vec(), ..on_datagrams() };
    start_with(lab, side, name, auto)
}

/// Where a side's node is, at a port.
fn at(side: u8, port: u16) -> SocketAddr {
    ([10, 77, 0, side + 1], port).into()
}

/// A message to a node by its name.
fn tell(from: &Node, to: &Node, name: &str) {
    let ends = [from, to].map(|node| node.endpoint(1).unwrap());
    let receive = ends[1].receive(Selector::bits(7), vec![0; 20]).unwrap();
    let sent = ends[0].send((name, 1), 7, pattern(20, 7)).unwrap().wait(LONG);
    let chosen = || format!("{}\n{}", from.choice(), to.choice());
    sent.unwrap_or_else(|error| panic!("to {name}: {error}\n{}", chosen()));
    assert!(receive.wait(LONG).unwrap().buffer == pattern(20, 7));
}

/// Waits until a node is told that an identity is used twice.
fn is_told_of_two(node: &Node) {
    let start = std::time::Instant::now();
    let claims = |event: &NodeEvent| matches!(event, NodeEvent::Claimed { .. });
    while !node.wait_event(LONG).is_some_and(|event| claims(&event)) {
        assert!(start.elapsed() < LONG, "nothing is told");
    }
}

/// Messages of one frame and of many, both ways.
fn talk(pair: &[Node; 2]) {
    let [a, b] = [0, 1].map(|side| pair[side].endpoint(1).unwrap());
    for bytes in [20, 300_000] {
        for (from, to, name) in [(&a, &b, "b"), (&b, &a, "a")] {
            let receive = to.receive(Selector::bits(7), vec![0; bytes]).unwrap();
            let sent = from.send((name, 1), 7, pattern(bytes, 7)).unwrap().wait(LONG);
            let chosen = || format!("{}\n{}", pair[0].choice(), pair[1].choice());
            sent.unwrap_or_else(|error| panic!("{bytes} bytes to {name}: {error}\n{}", chosen()));
            assert!(receive.wait(LONG).unwrap().buffer == pattern(bytes, 7));
        }
    }
}

#[test]
fn nodes_of_a_local_network_need_no_peers() {
    for bind in [None, Some(IpAddr::from(Ipv6Addr::UNSPECIFIED))] {
        let Some(lab) = Lab::build(1500) else { return };
        talk(&[0, 1].map(|side| start(&lab, side, bind, &[])));
    }
}

/// The address of a side that is valid on its cable only, as the other side has to name it.
fn link_local(lab: &Lab, side: usize) -> SocketAddr {
    let of = |side| {
        let all = lab.inside(side, || emp_link::interfaces().unwrap());
        all.into_iter().find(|one| one.name == INTERFACE).unwrap()
    };
    let local = |ip: &IpAddr| match ip {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => Some(*ip),
        _ => None,
    };
    let ip = of(side).addresses.iter().find_map(local).expect("each interface has one");
    SocketAddrV6::new(ip, PORT, 0, of(1 - side).index).into()
}

#[test]
fn ipv6_is_as_good_as_ipv4() {
    let unique = |_: &Lab, side: usize| format!("[fd77::{}]:{PORT}", side + 1).parse().unwrap();
    let everywhere = Some(IpAddr::from(Ipv6Addr::UNSPECIFIED));
    for of in [&link_local as &dyn Fn(&Lab, usize) -> SocketAddr, &unique] {
        // The last: at that address alone. Each in a lab of its own, where nobody has the port.
        for bind in [Some(None), Some(everywhere), None] {
            let Some(lab) = Lab::build(1500) else { return };
            talk(&[0, 1].map(|side| {
                let bind = bind.unwrap_or_else(|| Some(of(&lab, side).ip()));
                start(&lab, side, bind, &[of(&lab, 1 - side)])
            }));
        }
    }
}

/// Of several nodes of a machine one has the usual port, and all are found, also by each other.
#[test]
fn all_nodes_of_a_machine_are_found_by_multicast() {
    for bind in [None, Some(IpAddr::from(Ipv6Addr::UNSPECIFIED))] {
        let Some(lab) = Lab::build(1500) else { return };
        let names = ["a", "b", "c", "d", "e"];
        let auto = || AutoLinks { udp_bind: bind, ..on_datagrams() };
        let nodes: Vec<_> = (0..5).map(|i| start_with(&lab, i / 3, names[i], auto())).collect();
        for (from, to) in (0..5).flat_map(|from| (0..5).map(move |to| (from, to))) {
            if from != to {
                tell(&nodes[from], &nodes[to], names[to]);
            }
        }
    }
}

#[test]
fn peers_are_asked_for_others_that_they_know() {
    let Some(lab) = Lab::build(1500) else { return };
    let hub = start_apart(&lab, 0, "hub", 6001, &[]);
    let known = [at(0, 6001)];
    let [a, c] = [(0, "a", 6002), (1, "c", 6003)]
        .map(|(side, name, port)| start_apart(&lab, side, name, port, &known));
    [&a, &c].into_iter().for_each(|node| tell(node, &hub, "hub"));
    tell(&a, &c, "c");
    tell(&c, &a, "a");
    let count = |node: &Node, counter| node.counters().get(counter);
    assert!(count(&a, Counter::PeersAsked) > 0 && count(&hub, Counter::PeersTold) > 0);
    assert_eq!(count(&c, Counter::PeersAsked), 0, "it knows who has spoken to it");
}

#[test]
fn two_of_one_name_are_told_by_whom_both_know() {
    let Some(lab) = Lab::build(1500) else { return };
    let hub = start_apart(&lab, 0, "hub", 6001, &[]);
    let known = [at(0, 6001)];
    let twice = [0, 1].map(|side| start_apart(&lab, side, "same", 6002, &known));
    twice.iter().for_each(|node| tell(node, &hub, "hub"));
    // The first speaks again in an epoch that the hub took for its past.
    let again = twice[0].endpoint(1).unwrap();
    let _sent = again.send(("hub", 1), 7, pattern(20, 7)).unwrap();
    is_told_of_two(&hub);
}

#[test]
fn two_of_one_name_are_told_where_one_lists_the_other() {
    let Some(lab) = Lab::build(1500) else { return };
    let first = start_apart(&lab, 0, "same", 6001, &[]);
    let second = start_apart(&lab, 1, "same", 6001, &[at(0, 6001)]);
    [&first, &second].into_iter().for_each(is_told_of_two);
}

/// Each asks for itself, and hears the other answer: one who does is enough, as it tells the other. Also where another has the usual port.
#[test]
fn two_of_one_name_are_told_where_they_met_by_multicast() {
    for others in [0, 1] {
        let Some(lab) = Lab::build(1500) else { return };
        let names = ["x", "y"].into_iter().enumerate().take(2 * others);
        let _others: Vec<_> =
            names.map(|(side, name)| start_with(&lab, side, name, on_datagrams())).collect();
        let twice = [0, 1].map(|side| start_with(&lab, side, "same", on_datagrams()));
        twice.iter().for_each(is_told_of_two);
    }
}
