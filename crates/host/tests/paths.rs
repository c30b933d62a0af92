//! Two paths on a real wire: packet for small frames, UDP for bulk, between two network namespaces.
//!
//! Needs root; says so where it is not to be had.

mod common;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{BOARDS, LONG, Pair, both, pattern};
use emp_firmware::Counter;
use emp_host::{AutoLinks, Board, LinkIndex, Node, NodeBuilder, NodeId, Paths, Selector, Want};
use emp_link::{
    Capabilities, Link, LinkAddress, PacketLink, PacketOptions, TxFrame, UdpLink, UdpOptions,
};
use emp_testing::lab::{INTERFACE, Lab};

/// The threshold of these tests, in frames.
const BULK_FRAMES: u32 = 4;

/// A link whose frames a firewall can swallow.
struct Gate<L> {
    inner: L,
    open: Arc<AtomicBool>,
}

impl<L: Link> Link for Gate<L> {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }
    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        if self.open.load(Ordering::Relaxed) { self.inner.send(batch) } else { batch.len() }
    }
    common::forward_to_inner!();
}

fn address(side: usize) -> IpAddr {
    [10, 77, 0, side as u8 + 1].into()
}

fn packet(name: &str) -> PacketLink {
    let tag = NodeId::from_name(name).destination_tag();
    PacketLink::open(&PacketOptions::new(INTERFACE, tag)).expect("root may")
}

fn udp(side: usize, name: &str) -> UdpLink {
    let tag = NodeId::from_name(name).destination_tag();
    let options = UdpOptions { bind: Some(address(side)), port: 0, ..UdpOptions::new(tag) };
    UdpLink::open(&options).expect("the address is there")
}

/// Starts a node in one of the hosts; sockets stay in the namespace that they were opened in.
fn start(
    lab: &Lab,
    side: usize,
    name: &str,
    with: impl FnOnce(NodeBuilder) -> NodeBuilder + Send,
) -> Node {
    lab.inside(side, || with(Node::builder().name(name)).start().expect("the node starts"))
}

/// Two nodes with both links, and what closes each kind of link in both directions.
fn pair(lab: &Lab, board: Board) -> (Pair, [Arc<AtomicBool>; 2]) {
    let gates = [(); 2].map(|()| Arc::new(AtomicBool::new(true)));
    let node = |side, name: &str| {
        start(lab, side, name, |builder| {
            let [small, bulk] = gates.clone();
            builder
                .board(board)
                .paths(Paths::From(BULK_FRAMES))
                .link(Gate { inner: packet(name), open: small })
                .link(Gate { inner: udp(side, name), open: bulk })
        })
    };
    let pair = Pair { a: node(0, "a"), b: node(1, "b") };
    (pair, gates)
}

/// Messages of these sizes there and back.
fn exchange(pair: &Pair, sizes: &[usize]) {
    let (a, b) = pair.endpoints();
    both(
        pair,
        || {
            for (bits, size) in (0..).zip(sizes) {
                a.send_wait(b.address(), bits, pattern(*size, bits), LONG).unwrap();
                let got = a.receive_wait(Selector::bits(bits), vec![0; *size], LONG).unwrap();
                assert!(got.buffer == pattern(*size, bits + 100), "{size} bytes back differ");
            }
        },
        || {
            for (bits, size) in (0..).zip(sizes) {
                let got = b.receive_wait(Selector::bits(bits), vec![0; *size], LONG).unwrap();
                assert!(got.buffer == pattern(*size, bits), "{size} bytes differ");
                b.send_wait(a.address(), bits, pattern(*size, bits + 100), LONG).unwrap();
            }
        },
    );
}

const SIZES: [usize; 7] = [0, 32, 1_400, 9_000, 65_537, 300_000, 3 << 20];

fn bulk_of(node: &Node, peer: &Node) -> Option<LinkIndex> {
    let paths = node.paths(peer.id());
    paths.iter().find(|path| !path.first).map(|path| path.link)
}

#[test]
fn bulk_and_small_frames_take_a_link_each() {
    for mtu in [1500, 9000] {
        let Some(lab) = Lab::build(mtu) else { return };
        for board in BOARDS {
            let (pair, _) = pair(&lab, board);
            let sides = [(&pair.a, &pair.b), (&pair.b, &pair.a)];
            let (bulk, long) = (Counter::FramesFurther, Counter::FramesLong);
            // An exchange alone has so many: none is longer than 60 KB.
            let uses = |(node, peer): (&Node, &Node)| {
                let [bulk, long] = [bulk, long].map(|counter| node.counters().get(counter));
                let path = bulk_of(node, peer) == Some(LinkIndex(1));
                path && bulk as usize > (3 << 20) / (60 << 10) && long > 0
            };
            // The first begins before the path is there; where others have both cores, the peer may not answer the first question in time.
            let start = Instant::now();
            while !sides.into_iter().all(uses) {
                assert!(
                    start.elapsed() < LONG,
                    "{:?}",
                    sides.map(|(node, peer)| node.paths(peer.id()))
                );
                exchange(&pair, &SIZES);
            }
            for (node, peer) in sides {
                assert_eq!(node.route(peer.id()).map(|(link, _)| link), Some(LinkIndex(0)));
                let bulk = node.counters().get(bulk);
                let [small, wide] = node.link_statistics()[..] else { panic!("two links") };
                assert!(small.frames_sent > 0 && wide.frames_sent >= bulk);
                assert!(
                    wide.bytes_sent > wide.send_calls * (mtu as u64) * 3 / 2,
                    "much leaves in one call: {wide:?}"
                );
            }
        }
    }
}

/// A port that closes in the middle of the traffic: it goes on by the other link. When the port opens it is used again.
#[test]
fn a_path_that_is_blocked_hands_over_to_the_other() {
    let Some(lab) = Lab::build(1500) else { return };
    for blocked in [1, 0] {
        let (pair, gates) = pair(&lab, Board::Thread);
        exchange(&pair, &SIZES);
        assert!(bulk_of(&pair.a, &pair.b).is_some());
        gates[blocked].store(false, Ordering::Relaxed);
        exchange(&pair, &SIZES);
        let failed = |node: &Node| node.counters().get(Counter::PathsFailed);
        assert!(failed(&pair.a) + failed(&pair.b) >= 1, "link {blocked}");
        gates[blocked].store(true, Ordering::Relaxed);
        let limit = Instant::now() + LONG;
        loop {
            exchange(&pair, &[32, 100_000]);
            let (a, b) = (pair.a.paths(pair.b.id()), pair.b.paths(pair.a.id()));
            if (a.len(), b.len()) == (2, 2) {
                break;
            }
            assert!(Instant::now() < limit, "link {blocked} is not used again: {a:?} {b:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A link whose card has lost its offloads, as far as one can tell from outside.
struct NoOffloads {
    inner: UdpLink,
    capabilities: Capabilities,
    lost: Arc<AtomicBool>,
}

impl Link for NoOffloads {
    fn capabilities(&self) -> &Capabilities {
        if self.lost.load(Ordering::Relaxed) {
            &self.capabilities
        } else {
            self.inner.capabilities()
        }
    }
    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        self.inner.send(batch)
    }
    common::forward_to_inner!();
}

/// Kernels before 6.11 do not segment sends by cards that compute no checksums: then trains are sooner there by raw frames,
/// whatever loopback has said of them at the start.
#[test]
fn trains_leave_a_bulk_link_that_no_longer_segments() {
    let Some(lab) = Lab::build(1500) else { return };
    let lost = Arc::new(AtomicBool::new(false));
    let node = |side, name: &str| {
        start(&lab, side, name, |builder| {
            let inner = udp(side, name);
            let mut capabilities = inner.capabilities().clone();
            (capabilities.segmentation, capabilities.long_frame_bytes) = (false, 0);
            builder
                .board(Board::Thread)
                .paths(Paths::From(BULK_FRAMES))
                .link(packet(name))
                .link(NoOffloads { inner, capabilities, lost: Arc::clone(&lost) })
        })
    };
    let pair = Pair { a: node(0, "a"), b: node(1, "b") };
    exchange(&pair, &SIZES);
    exchange(&pair, &SIZES);
    let bulk = || pair.a.counters().get(Counter::FramesFurther);
    assert!(bulk() > 0);
    lost.store(true, Ordering::Relaxed);
    // By its end the links were looked at.
    exchange(&pair, &SIZES);
    std::thread::sleep(Duration::from_millis(50));
    exchange(&pair, &[32]);
    // What the first path's timer sends again and again takes the other (`PATH-5`), on a machine that is busy: those alone may.
    let resent = || pair.a.counters().get(Counter::FramesResent);
    let (before, resent_before) = (bulk(), resent());
    exchange(&pair, &SIZES);
    let detours = resent() - resent_before;
    assert!(bulk() - before <= detours, "frames by the link that gains nothing");
    let before = bulk();
    lost.store(false, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(50));
    exchange(&pair, &SIZES);
    exchange(&pair, &SIZES);
    assert!(bulk() > before, "it is used again");
}

/// A node without the privilege for raw frames speaks UDP only; one that has both answers it there.
#[test]
fn a_mixed_pair_speaks_udp() {
    let Some(lab) = Lab::build(1500) else { return };
    let auto = AutoLinks {
        interfaces: vec![INTERFACE.into()],
        udp_bind: Some(address(0)),
        udp_port: 0,
        ..AutoLinks::default()
    };
    let a = start(&lab, 0, "a", |builder| builder.auto_links(auto).board(Board::Thread));
    assert_eq!([a.links()[0].kind, a.links()[1].kind], ["packet", "udp"]);
    let there = a.links()[1].address.as_udp().expect("a socket's address");
    let only_udp = AutoLinks {
        want: Want::Udp,
        udp_bind: Some(address(1)),
        udp_port: 0,
        udp_peers: vec![there],
        ..AutoLinks::default()
    };
    let b = start(&lab, 1, "b", |builder| builder.auto_links(only_udp).board(Board::Thread));
    let at_b: SocketAddr = b.links()[0].address.as_udp().expect("a socket's address");
    a.hint(b.id(), LinkIndex(1), LinkAddress::udp(at_b));
    let pair = Pair { a, b };
    exchange(&pair, &SIZES);
    assert_eq!(pair.a.route(pair.b.id()).map(|(link, _)| link), Some(LinkIndex(1)));
    assert_eq!(bulk_of(&pair.a, &pair.b), None);
}

/// The ladder takes both, measures them and says so; where MTUs are large, a socket on all addresses learns of that too.
#[test]
fn auto_takes_both_and_says_what_they_cost() {
    for mtu in [1500, 9000] {
        let Some(lab) = Lab::build(mtu) else { return };
        let node = |side, name: &str| {
            let auto = AutoLinks { interfaces: vec![INTERFACE.into()], ..AutoLinks::default() };
            start(&lab, side, name, |builder| builder.auto_links(auto).board(Board::Thread))
        };
        let pair = Pair { a: node(0, "a"), b: node(1, "b") };
        assert_eq!(pair.a.links()[1].frame_bytes_max, mtu - 28);
        let costs = pair.a.path_costs().expect("both links are there");
        let said = pair.a.choice().to_string();
        assert!(said.contains("two paths: ") && said.contains("a full frame costs"), "{said}");
        exchange(&pair, &SIZES);
        exchange(&pair, &SIZES);
        // The peer's socket is found by what its hellos tell, without any hint. A jammed machine may measure that
        // datagrams gain nothing.
        if costs.threshold().is_some_and(|frames| frames <= 6) {
            // Where others have both cores, the peer may not answer the first question in time; it is asked again.
            let start = Instant::now();
            while bulk_of(&pair.a, &pair.b).is_none() && start.elapsed() < LONG {
                exchange(&pair, &SIZES);
            }
            assert_eq!(bulk_of(&pair.a, &pair.b), Some(LinkIndex(1)), "{said}");
        }
    }
}
