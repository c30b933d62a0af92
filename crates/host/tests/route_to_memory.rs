//! A route that turns to shared memory in the middle of a long message: what was cut for long datagrams goes on there, whole.

mod common;

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{LONG, Pair, both, impatient, pattern};
use emp_firmware::Counter;
use emp_host::{Board, Node, NodeId, Selector};
use emp_link::{Capabilities, Link, ShmLink, ShmOptions, TxFrame, UdpLink, UdpOptions};

/// So many frames of both ends pass by UDP; after that all by memory.
#[derive(Default)]
struct Turn {
    sent: AtomicU64,
    at: AtomicU64,
}

impl Turn {
    fn is_over(&self) -> bool {
        self.sent.load(Ordering::Relaxed) >= self.at.load(Ordering::Relaxed)
    }

    /// After so many frames from now on.
    fn after(&self, frames: u64) {
        self.at.store(self.sent.load(Ordering::Relaxed) + frames, Ordering::Relaxed);
    }
}

/// One of the two links of a node, of which one carries at a time.
struct Turning<L> {
    inner: L,
    memory: bool,
    turn: Arc<Turn>,
}

impl<L: Link> Link for Turning<L> {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }
    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        let mut taken = 0;
        for frame in batch {
            let carries = self.turn.is_over() == self.memory;
            if carries && self.inner.send(core::slice::from_ref(frame)) == 0 {
                break;
            }
            if !self.memory {
                self.turn.sent.fetch_add(1, Ordering::Relaxed);
            }
            taken += 1;
        }
        taken
    }
    common::forward_to_inner!();
}

fn nodes(directory: &Path, turn: &Arc<Turn>) -> Pair {
    let tag = |name: &str| NodeId::from_name(name).destination_tag();
    let udp = |name: &str| {
        let bind = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let options = UdpOptions { bind, port: 0, mtu: Some(1500), ..UdpOptions::new(tag(name)) };
        UdpLink::open(&options).expect("anyone may")
    };
    let shm = |name: &str| {
        let directory = Some(directory.join("emp"));
        ShmLink::open(&ShmOptions { directory, ..ShmOptions::new(tag(name)) }).expect("anyone may")
    };
    let (mut a, mut b) = (udp("a"), udp("b"));
    a.set_peers(vec![b.local_address()]);
    b.set_peers(vec![a.local_address()]);
    let start = |link, name: &str| {
        Node::builder()
            .name(name)
            .board(Board::Inline { guardian: true })
            .profile(impatient(Duration::from_millis(500)))
            .link(Turning { inner: shm(name), memory: true, turn: Arc::clone(turn) })
            .link_with_peers(Turning { inner: link, memory: false, turn: Arc::clone(turn) })
            .start()
            .expect("the node starts")
    };
    Pair { a: start(a, "a"), b: start(b, "b") }
}

#[test]
fn what_was_cut_for_long_datagrams_goes_on_through_memory() {
    const BYTES: usize = 4 << 20;
    for frames in [2, 9, 30] {
        let directory = tempfile::tempdir().expect("a directory");
        let turn = Arc::new(Turn::default());
        turn.after(u64::MAX / 2);
        let pair = nodes(directory.path(), &turn);
        let (a, b) = pair.endpoints();
        let exchange = |bits| {
            both(
                &pair,
                || drop(a.send_wait(b.address(), bits, pattern(BYTES, bits), LONG).unwrap()),
                || {
                    let got = b.receive(Selector::ANY, vec![0; BYTES]).unwrap().wait(LONG).unwrap();
                    assert!(got.buffer == pattern(BYTES, bits), "message {bits} differs");
                },
            );
        };
        (0..4).for_each(exchange);
        let long = pair.a.counters().get(Counter::FramesLong);
        assert!(long > 0, "no long frames by UDP");
        turn.after(frames);
        exchange(4);
        assert!(turn.is_over() && pair.a.counters().get(Counter::FramesLong) > long);
        let route = pair.a.route(b.address().node).expect("they know each other");
        assert_eq!(pair.a.links()[usize::from(route.0.0)].kind, "shm");
        let refused: u64 = pair.a.link_statistics().iter().map(|link| link.send_refused).sum();
        assert_eq!(refused, 0, "frames that memory does not take");
        exchange(5);
    }
}
