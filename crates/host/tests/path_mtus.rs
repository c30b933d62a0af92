//! Two cables of different MTU between two hosts, raw frames by one and datagrams by the other: each path has frames of its own length.
//!
//! Needs root; says so where it is not to be had.

mod common;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{LONG, Pair, both, pattern};
use emp_firmware::Counter;
use emp_host::{Board, LinkIndex, Node, NodeId, Paths, Selector};
use emp_link::{Capabilities, Condition, Link, PacketLink, PacketOptions, TxFrame};
use emp_link::{UdpLink, UdpOptions};
use emp_testing::lab::{INTERFACE, Lab};

/// The second cable's end in either namespace.
const SECOND: &str = "emp1";

/// Trains of so many frames, of the shorter length, take the datagrams.
const BULK_FRAMES: u32 = 4;

/// IP and UDP headers, which an MTU counts and a frame does not.
const HEADERS: usize = 28;

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
    fn condition(&mut self) -> Option<Condition<'_>> {
        self.inner.condition()
    }
    common::forward_to_inner!();
}

/// A lab with a second cable.
fn lab([first, second]: [usize; 2]) -> Option<Lab> {
    let lab = Lab::build(first)?;
    let mtu = second.to_string();
    lab.ip(
        0,
        &[
            "link",
            "add",
            SECOND,
            "mtu",
            &mtu,
            "type",
            "veth",
            "peer",
            "name",
            SECOND,
            "mtu",
            &mtu,
            "netns",
            lab.name(1),
        ],
    );
    for side in 0..2 {
        let address = format!("{}/24", address(side));
        lab.ip(side, &["address", "add", &address, "dev", SECOND]);
        lab.ip(side, &["link", "set", SECOND, "up"]);
    }
    Some(lab)
}

/// A host's address on the second cable.
fn address(side: usize) -> IpAddr {
    [10, 78, 0, side as u8 + 1].into()
}

/// Two nodes, raw frames on the first cable and datagrams on the second, and what closes each in both directions.
fn pair(lab: &Lab) -> (Pair, [Arc<AtomicBool>; 2]) {
    let gates = [(); 2].map(|()| Arc::new(AtomicBool::new(true)));
    let node = |side: usize, name: &str| {
        let tag = NodeId::from_name(name).destination_tag();
        let [raw, datagrams] = gates.clone();
        lab.inside(side, || {
            let options = UdpOptions { bind: Some(address(side)), port: 0, ..UdpOptions::new(tag) };
            let packet = PacketLink::open(&PacketOptions::new(INTERFACE, tag)).expect("root may");
            let udp = UdpLink::open(&options).expect("the address is there");
            let builder = Node::builder().name(name).board(Board::Thread);
            let builder = builder.paths(Paths::From(BULK_FRAMES));
            let builder = builder.link(Gate { inner: packet, open: raw });
            builder.link(Gate { inner: udp, open: datagrams }).start().expect("the node starts")
        })
    };
    (Pair { a: node(0, "a"), b: node(1, "b") }, gates)
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

/// The largest frame by each link, at both ends.
fn lengths(pair: &Pair) -> [[Option<usize>; 2]; 2] {
    [(&pair.a, &pair.b), (&pair.b, &pair.a)].map(|(node, peer)| {
        let paths = node.paths(peer.id());
        [0, 1].map(|link| {
            let path = paths.iter().find(|path| path.link == LinkIndex(link));
            path.map(|path| path.frame_bytes_max)
        })
    })
}

/// Exchanges messages until the paths are as they should be.
fn until(pair: &Pair, wanted: [usize; 2]) {
    let limit = Instant::now() + LONG;
    while lengths(pair) != [wanted.map(Some); 2] {
        assert!(Instant::now() < limit, "{:?}, not {wanted:?}", lengths(pair));
        exchange(pair, &[32, 100_000]);
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn count(pair: &Pair, counter: Counter) -> u64 {
    [&pair.a, &pair.b].iter().map(|node| node.counters().get(counter)).sum()
}

const SIZES: [usize; 7] = [0, 32, 1_400, 9_000, 65_537, 300_000, 3 << 20];

/// The cables of the two cases.
const MTUS: [[usize; 2]; 2] = [[9_000, 1_500], [1_500, 9_000]];

#[test]
fn each_path_has_frames_of_its_cable() {
    for mtus in MTUS {
        let Some(lab) = lab(mtus) else { return };
        let (pair, _) = pair(&lab);
        until(&pair, [mtus[0], mtus[1] - HEADERS]);
        exchange(&pair, &SIZES);
        // Three frames of the shorter length take the first path.
        let bytes = 4_000_usize;
        let frames = bytes.div_ceil(mtus[0] - 60) as u64;
        let rounds = 50;
        let before = count(&pair, Counter::FramesSent);
        exchange(&pair, &[bytes; 50]);
        let sent = count(&pair, Counter::FramesSent) - before;
        // What else leaves is not much: a probe where a machine is crowded.
        let wanted = 2 * rounds * frames;
        assert!((wanted..wanted + rounds / 2).contains(&sent), "{sent}, not {wanted} {mtus:?}");
        // On a crowded machine a path is late now and then, and what was cut for it goes by the other.
        let sliced = count(&pair, Counter::FramesSliced);
        assert!(sliced < rounds / 2, "{sliced} of {} {mtus:?}", count(&pair, Counter::FramesSent));
    }
}

/// A path dies in the middle of the traffic, and comes back: what was cut for it goes on by the other.
#[test]
fn a_path_that_is_blocked_hands_over_to_one_of_another_mtu() {
    for mtus in MTUS {
        let Some(lab) = lab(mtus) else { return };
        for blocked in [0, 1] {
            let (pair, gates) = pair(&lab);
            until(&pair, [mtus[0], mtus[1] - HEADERS]);
            gates[blocked].store(false, Ordering::Relaxed);
            exchange(&pair, &SIZES);
            exchange(&pair, &[4_000; 20]);
            assert!(count(&pair, Counter::PathsFailed) >= 1, "link {blocked}, {mtus:?}");
            gates[blocked].store(true, Ordering::Relaxed);
            until(&pair, [mtus[0], mtus[1] - HEADERS]);
            assert_eq!(count(&pair, Counter::PeersLost), 0);
        }
    }
}

/// The MTU of one cable is lowered at both ends, and raised again: frames by the other stay as they are.
#[test]
fn a_lower_mtu_concerns_its_cable() {
    for mtus in MTUS {
        let Some(lab) = lab(mtus) else { return };
        for (link, interface) in [INTERFACE, SECOND].into_iter().enumerate() {
            let (pair, _) = pair(&lab);
            let usual = [mtus[0], mtus[1] - HEADERS];
            until(&pair, usual);
            let set = |mtu: usize| {
                let mtu = mtu.to_string();
                (0..2).for_each(|side| lab.ip(side, &["link", "set", interface, "mtu", &mtu]));
            };
            set(1_200);
            let mut lowered = usual;
            lowered[link] = [1_200, 1_200 - HEADERS][link];
            until(&pair, lowered);
            exchange(&pair, &SIZES);
            set(mtus[link]);
            until(&pair, usual);
            exchange(&pair, &SIZES);
            assert_eq!(count(&pair, Counter::PeersLost), 0);
        }
    }
}
