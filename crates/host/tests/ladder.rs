//! Links chosen by trying, and said aloud.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use emp_host::{AutoLinks, Board, BuildError, Node, Outcome, Selector, Want};
use emp_testing::lab::Lab;

fn udp_only(port: u16) -> AutoLinks {
    AutoLinks {
        want: Want::Udp,
        udp_bind: Some(Ipv4Addr::LOCALHOST.into()),
        udp_port: port,
        ..AutoLinks::default()
    }
}

#[test]
fn udp_is_to_be_had_by_everyone() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&lines);
    let a = Node::builder()
        .name("a")
        .auto_links(udp_only(0))
        .log(move |line| log.lock().unwrap().push(line.to_owned()))
        .start()
        .unwrap();
    assert_eq!(a.links().len(), 1);
    assert_eq!(a.links()[0].kind, "udp");
    assert!(matches!(a.choice().rungs[0].outcome, Outcome::Skipped(_)));
    assert!(matches!(a.choice().rungs[1].outcome, Outcome::Chosen(_)));
    assert_eq!(*lines.lock().unwrap(), a.choice().lines().collect::<Vec<_>>());

    // The other end knows where it is, and needs no more than that.
    let there: SocketAddr = a.links()[0].address.as_udp().unwrap();
    let auto = AutoLinks { udp_peers: vec![there], ..udp_only(0) };
    let b = Node::builder().name("b").auto_links(auto).start().unwrap();
    let (to, from) = (a.endpoint(0).unwrap(), b.endpoint(0).unwrap());
    let receive = to.receive(Selector::ANY, vec![0; 5]).unwrap();
    from.send_wait(("a", 0), 0, "hello", Duration::from_secs(10)).unwrap();
    assert_eq!(receive.wait(Duration::from_secs(10)).unwrap().buffer, b"hello");
}

#[test]
fn a_required_rung_that_is_missing_is_an_error() {
    let auto = AutoLinks {
        want: Want::Packet,
        interfaces: vec!["no-such-interface".into()],
        ..AutoLinks::default()
    };
    let error = Node::builder().auto_links(auto).start().err().unwrap();
    assert!(matches!(error, BuildError::Link(_)), "{error:?}");
    assert!(error.to_string().contains("no-such-interface"), "{error}");
}

#[test]
fn what_is_not_to_be_had_is_passed_by() {
    let auto =
        AutoLinks { interfaces: vec!["no-such-interface".into()], want: Want::Auto, ..udp_only(0) };
    let node = Node::builder().auto_links(auto).start().unwrap();
    let report = node.choice().to_string();
    assert!(report.contains("no-such-interface: not to be had"), "{report}");
    assert!(report.contains("chosen"), "{report}");
    assert_eq!(node.links()[0].kind, "udp");
}

#[test]
fn a_node_without_links_is_an_error() {
    assert!(matches!(Node::builder().start(), Err(BuildError::NoLinks)));
}

/// The usual port is taken by the first node of a machine; the second says so and does without.
#[test]
fn a_taken_usual_port_is_no_obstacle() {
    let auto = || AutoLinks {
        want: Want::Udp,
        // An address of this test alone: other tests may hold the port at others.
        udp_bind: Some(Ipv4Addr::new(127, 0, 0, 77).into()),
        ..AutoLinks::default()
    };
    let first = Node::builder().auto_links(auto()).start().unwrap();
    let second = Node::builder().auto_links(auto()).start().unwrap();
    let ports = [&first, &second].map(|node| node.links()[0].address.as_udp().unwrap().port());
    assert_eq!(ports[0], AutoLinks::default().udp_port);
    assert_ne!(ports[1], ports[0]);
    let said: Vec<_> = second.choice().lines().filter(|line| line.contains("another's")).collect();
    assert_eq!(said.len(), 1, "{:?}", second.choice());
}

/// The interface that raw frames are sent by leads to nobody; who is known by an address is found there by datagrams, with frames of any length.
#[test]
fn auto_finds_by_datagrams_who_is_not_found_by_raw_frames() {
    const LONG: Duration = Duration::from_secs(30);
    let Some(lab) = Lab::build(1500) else { return };
    let start = |side: usize, peers: &[SocketAddr]| {
        // Of a cable of its own, whose other end has nobody.
        for line in
            ["link add own0 type veth peer name nobody0", "link set own0 up", "link set nobody0 up"]
        {
            lab.ip(side, &line.split(' ').collect::<Vec<_>>());
        }
        let auto = AutoLinks {
            interfaces: vec!["own0".into()],
            udp_bind: Some(Ipv4Addr::new(10, 77, 0, side as u8 + 1).into()),
            udp_peers: peers.to_vec(),
            memory: false,
            ..AutoLinks::default()
        };
        let node = Node::builder().name(["a", "b"][side]).auto_links(auto).board(Board::Thread);
        lab.inside(side, || node.start()).expect("root may")
    };
    let a = start(0, &[]);
    let kinds: Vec<_> = a.links().iter().map(|link| link.kind).collect();
    assert_eq!(kinds, ["packet", "udp"]);
    let b = start(1, &[a.links()[1].address.as_udp().expect("it has one")]);
    let (to, from) = (a.endpoint(0).unwrap(), b.endpoint(0).unwrap());
    for bytes in [100, 5_000, 400_000] {
        let receive = to.receive(Selector::ANY, vec![0; bytes]).unwrap();
        from.send_wait(("a", 0), 0, vec![7; bytes], LONG).unwrap();
        assert_eq!(receive.wait(LONG).unwrap().buffer, vec![7; bytes]);
        // Whoever was met is answered the same way.
        let receive = from.receive(Selector::ANY, vec![0; bytes]).unwrap();
        to.send_wait(from.address(), 0, vec![8; bytes], LONG).unwrap();
        assert_eq!(receive.wait(LONG).unwrap().buffer, vec![8; bytes]);
    }
}
