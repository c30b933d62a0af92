//! Nodes on datagrams alone find each other: in a multicast group with nothing configured, and by IPv6 as by IPv4.
//!
//! Needs root; says so where it is not to be had.

mod common;

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use common::{LONG, pattern};
use emp_host::{AutoLinks, Board, Node, NodeEvent, Selector, Want};
use emp_testing::lab::{INTERFACE, Lab};

const PORT: u16 = 51_966;

fn start(lab: &Lab, side: usize, bind: Option<IpAddr>, peers: &[SocketAddr]) -> Node {
    let auto = AutoLinks {
        want: Want::Udp,
        udp_bind: bind,
        udp_peers: peers.to_vec(),
        ..AutoLinks::default()
    };
    let node = Node::builder().name(["a", "b"][side]).auto_links(auto).board(Board::Thread);
    lab.inside(side, || node.unreachable_after(LONG).start()).expect("anyone may")
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
            let Some(lab) = lab_without_trials() else { return };
            talk(&[0, 1].map(|side| {
                let bind = bind.unwrap_or_else(|| Some(of(&lab, side).ip()));
                start(&lab, side, bind, &[of(&lab, 1 - side)])
            }));
        }
    }
}

/// A lab whose IPv6 addresses may be used at once: those of cables are tried for a second first.
fn lab_without_trials() -> Option<Lab> {
    let lab = Lab::build(1500)?;
    for side in 0..2 {
        lab.ip(side, &["link", "set", INTERFACE, "down"]);
        let file = format!("/proc/sys/net/ipv6/conf/{INTERFACE}/accept_dad");
        lab.inside(side, || std::fs::write(file, "0").unwrap());
        lab.ip(side, &["link", "set", INTERFACE, "up"]);
        let address = format!("fd77::{}/64", side + 1);
        lab.ip(side, &["address", "replace", &address, "dev", INTERFACE, "nodad"]);
    }
    Some(lab)
}

#[test]
fn two_of_one_name_are_told_where_they_met_by_multicast() {
    let Some(lab) = Lab::build(1500) else { return };
    let [first, second] = [0, 1].map(|side| {
        let auto = AutoLinks { want: Want::Udp, ..AutoLinks::default() };
        let node = Node::builder().name("same").auto_links(auto).board(Board::Thread);
        lab.inside(side, || node.unreachable_after(LONG).start()).expect("anyone may")
    });
    // Each asks for itself, and hears the other answer: one who does is enough, as it tells the other.
    for node in [&first, &second] {
        let start = std::time::Instant::now();
        let claims = |event: &NodeEvent| matches!(event, NodeEvent::Claimed { .. });
        while !node.wait_event(LONG).is_some_and(|event| claims(&event)) {
            assert!(start.elapsed() < LONG, "nothing is told");
        }
    }
}
