//! Hosts that are cabled box to box: those that are not neighbours reach each other through relays, with no configuration.
//!
//! Needs root; says so where it is not to be had.

mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use common::pattern;
use emp_host::{AutoLinks, Board, Counter, Node, NodeBuilder, NodeId, Selector, Want};
use emp_testing::lab::{INTERFACE, Lab};

/// Four hosts in a ring, of two labs of two: `a0 b0` and `a1 b1` have a cable each, and so have `b0 a1` and `b1 a0`.
struct Ring {
    labs: [Lab; 2],
}

/// Long against anything that should happen, on a machine that has much else to do.
const LONG: Duration = Duration::from_secs(60);

/// The second interface of each host.
const SECOND: &str = "emp1";

impl Ring {
    fn build() -> Option<Self> {
        let ring = Self { labs: [Lab::build(1500)?, Lab::build(1500)?] };
        for (from, to) in [(1, 2), (3, 0)] {
            ring.plug_second(from, to);
        }
        ring.wait_for_carriers();
        Some(ring)
    }

    /// Joins the second interfaces of two hosts, which they have from then on.
    fn plug_second(&self, from: usize, to: usize) {
        let there = self.name(to);
        self.ip(from, &format!("link add {SECOND} type veth peer name {SECOND} netns {there}"));
        self.ip(from, &format!("link set {SECOND} up"));
        self.ip(to, &format!("link set {SECOND} up"));
    }

    fn name(&self, host: usize) -> &str {
        self.labs[host / 2].name(host % 2)
    }

    fn ip(&self, host: usize, line: &str) {
        self.labs[host / 2].ip(host % 2, &line.split(' ').collect::<Vec<_>>());
    }

    fn inside<T: Send>(&self, host: usize, work: impl FnOnce() -> T + Send) -> T {
        self.labs[host / 2].inside(host % 2, work)
    }

    /// The kernel tells of a cable a moment after both ends are up.
    fn wait_for_carriers(&self) {
        let start = Instant::now();
        let up = |host: usize| {
            let output = Command::new("ip").args(["-n", self.name(host), "link"]).output();
            let output = output.expect("the ip program is installed");
            String::from_utf8_lossy(&output.stdout).matches("state UP").count() == 2
        };
        while !(0..4).all(up) {
            assert!(start.elapsed() < LONG, "a cable has no carrier");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn start(&self, host: usize, node: NodeBuilder) -> Node {
        let interfaces = vec![INTERFACE.into(), SECOND.into()];
        let auto =
            AutoLinks { want: Want::Packet, interfaces, memory: false, ..AutoLinks::default() };
        let node = node.auto_links(auto).board(Board::Thread).unreachable_after(LONG);
        self.inside(host, || node.start()).expect("root may")
    }

    /// What `emp relay` runs.
    fn relay(&self, host: usize) -> Node {
        self.start(host, Node::builder().relay(true))
    }

    fn program(&self, host: usize) -> Node {
        self.start(host, Node::builder().name(format!("box {host} of {}", self.name(0))))
    }
}

/// Messages of several lengths each way; all arrive as they were sent. `happens` while they are under way.
fn exchange(one: &Node, other: &Node, round: u64, happens: impl FnOnce()) {
    let ends = [one, other].map(|node| node.endpoint(1).expect("an endpoint"));
    let mut requests = Vec::new();
    for (at, bytes) in [32, 1_400, 20_000, 1_000_000].into_iter().enumerate() {
        for (from, to) in [(0, 1), (1, 0)] {
            let seed = round << 16 | (at * 2 + from) as u64;
            let receive = ends[to].receive(Selector::bits(seed), vec![0; bytes]).unwrap();
            let send = ends[from].send(ends[to].address(), seed, pattern(bytes, seed)).unwrap();
            requests.push((receive, send, seed, bytes));
        }
    }
    happens();
    for (receive, send, seed, bytes) in requests {
        send.wait(LONG).expect("it is delivered");
        let received = receive.wait(LONG).expect("it arrives");
        assert!(received.buffer == pattern(bytes, seed), "message {seed:x} arrived as it was sent");
    }
}

/// What a relay counts of its neighbours is in its state file, some milliseconds later.
fn shows_its_neighbours(relay: &Node) {
    let start = Instant::now();
    let shown = || {
        let all = emp_state::look().into_iter().filter_map(|(_, found)| found.ok());
        let mut own = all.filter(|found| found.identity.node == relay.id().0);
        own.next().map_or(0, |found| found.neighbours.iter().map(|of| of.frames).sum::<u64>())
    };
    while shown() < relay.relay_neighbours().iter().map(|of| of.frames).sum() {
        assert!(start.elapsed() < LONG, "its file shows {} frames", shown());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// `RELAY-3`, `RELAY-7`: opposite corners of a ring of four talk though nothing tells them where the other is, beside programs of the relays'
/// hosts; one way round is cut, then the relay of the other is restarted.
#[test]
fn opposite_corners_of_a_ring_talk_through_relays() {
    let Some(ring) = Ring::build() else { return };
    let mut relays = [ring.relay(1), ring.relay(3)];
    let [a, b, c] = [0, 1, 2].map(|host| ring.program(host));
    // Found by identity, before anything is sent.
    a.find(c.id(), LONG).expect("relays are asked for it");
    exchange(&a, &c, 1, || ());
    exchange(&a, &b, 2, || ());
    // Who is on the ways there answers too, and the other corner is at the end of each.
    let ways = a.trace(c.id(), LONG);
    assert_eq!(ways.len(), 2, "one by each interface: {ways:?}");
    for (_, stages) in &ways {
        let names = stages.iter().map(|stage| stage.who.as_ref().map(|(_, node)| *node));
        let names: Vec<_> = names.collect();
        assert!(names.len() == 2 && names[0].is_some() && names[1] == Some(c.id()), "{ways:?}");
        assert!(stages.iter().all(|stage| stage.round_trip.is_some()), "{ways:?}");
    }
    let paths = a.paths(c.id());
    assert!(paths.iter().all(|path| path.address.is_behind_relays()), "{paths:?}");
    let relayed = relays.iter().map(|relay| relay.counters().get(Counter::Relayed));
    assert!(relayed.sum::<u64>() > 1_000, "1 MB each way in frames of 1,500 bytes");
    for relay in &relays {
        // Liveness probes go on meanwhile.
        let relayed = || relay.counters().get(Counter::Relayed);
        let before = relayed();
        let all = relay.relay_neighbours();
        let after = relayed();
        let left: u64 = all.iter().map(|of| of.frames).sum();
        assert!((before..=after).contains(&left), "{before} to {after}: {all:?}");
    }
    let busy = relays.iter().find(|relay| relay.relay_neighbours().iter().any(|of| of.frames > 0));
    shows_its_neighbours(busy.expect("one of them has sent something on"));

    // A cable of each way round is pulled in turn, at the far side of a relay, while messages are under way.
    exchange(&a, &c, 3, || ring.ip(2, &format!("link set {SECOND} down")));
    exchange(&a, &c, 4, || ());
    ring.ip(2, &format!("link set {SECOND} up"));
    ring.wait_for_carriers();
    exchange(&a, &c, 5, || ring.ip(2, &format!("link set {INTERFACE} down")));
    exchange(&a, &c, 6, || ());
    ring.ip(2, &format!("link set {INTERFACE} up"));
    ring.wait_for_carriers();

    // Neither relay is there for a while, and nothing else is lost by that.
    for round in 7..9 {
        exchange(&a, &c, round, || {
            for (relay, host) in relays.iter_mut().zip([1, 3]) {
                relay.close(Duration::from_millis(1)).ok();
                *relay = ring.relay(host);
            }
        });
    }
}

/// `PATH-15`: a cable that is plugged in while a relay runs is one of those between which it sends on.
#[test]
fn a_relay_takes_up_a_cable_that_appears() {
    let Some(ring) = Ring::build() else { return };
    // What is left is a line, whose second cable is not there yet.
    for host in [1, 3] {
        ring.ip(host, &format!("link delete {SECOND}"));
    }
    let all = |host: usize, node: NodeBuilder| {
        let auto = AutoLinks { want: Want::Packet, memory: false, ..AutoLinks::default() };
        let node = node.auto_links(auto).board(Board::Thread).unreachable_after(LONG);
        ring.inside(host, || node.start()).expect("root may")
    };
    let relay = all(1, Node::builder().relay(true));
    let a = all(0, Node::builder().name(format!("box 0 of {}", ring.name(0))));
    ring.plug_second(1, 2);
    let c = all(2, Node::builder().name(format!("box 2 of {}", ring.name(0))));
    a.find(c.id(), LONG).expect("the relay hears of it");
    exchange(&a, &c, 1, || ());
    assert!(relay.counters().get(Counter::Relayed) > 1_000);
}

/// `RELAY-11`: faces' nodes have names, and identities that are not those of their names. They are found by name beyond relays too, by way of
/// relays on whose hosts other nodes are, and at a host where they are not alone.
#[test]
fn a_node_is_found_by_name_beyond_relays_whatever_its_identity() {
    let Some(ring) = Ring::build() else { return };
    let _relays = [1, 3].map(|host| ring.relay(host));
    let _others = [1, 2].map(|host| ring.program(host));
    let a = ring.program(0);
    let name = format!("face of {}", ring.name(0));
    let identity = NodeId(NodeId::from_name(&name).0 ^ 0x5555);
    let face = ring.start(2, Node::builder().name(&name).node_id(identity));
    let found = a.find(&*name, LONG).expect("relays are asked for it");
    assert_eq!(found.node, identity);
    exchange(&a, &face, 1, || ());
    // Each way round is there at once, time after time.
    for round in 0..5 {
        let asker = ring.start(0, Node::builder().name(format!("asker {round}")));
        let found = asker.find(&*name, LONG).expect("relays are asked for it");
        let ways = asker.trace(found.node, LONG);
        assert_eq!(ways.len(), 2, "{round}: {ways:?}");
    }
    let nobody = a.find("nobody at all", Duration::from_millis(300));
    assert!(nobody.is_err());
}
