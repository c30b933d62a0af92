//! What payloads are checked by over `udp`: by its own checksum, or from end to end by the frame's as well (`CRC-3`).

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{LONG, Pair, both, pattern, udp_links};
use emp_host::{Integrity, Node, Selector};
use emp_link::{Capabilities, Link, TxFrame, UdpLink};
use emp_wire::{Flags, Header, has_bulk};

/// Frames with payload that a link sent: all of them, and those whose payload is under no checksum of theirs.
#[derive(Default)]
struct Seen {
    all: AtomicU64,
    unchecked: AtomicU64,
}

struct Looking {
    inner: UdpLink,
    seen: Arc<Seen>,
}

impl Link for Looking {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        let sent = self.inner.send(batch);
        for frame in &batch[..sent] {
            let bytes: Vec<u8> = frame.parts.iter().flat_map(|part| part.to_vec()).collect();
            for (header, _) in emp_wire::frames(&bytes).filter_map(|one| Header::parse(one).ok()) {
                let counts = has_bulk(header.kind) && header.length > 1_000;
                let unchecked = header.flags.has(Flags::PAYLOAD_UNCHECKED);
                self.seen.all.fetch_add(u64::from(counts), Ordering::Relaxed);
                self.seen.unchecked.fetch_add(u64::from(counts && unchecked), Ordering::Relaxed);
            }
        }
        sent
    }

    common::forward_to_inner!();
}

/// Messages of every kind of train: frames with payload that were sent, and those of them whose payload is the carrier's to check.
fn exchange(integrity: Option<Integrity>) -> (u64, u64) {
    let seen = Arc::new(Seen::default());
    let start = |link: UdpLink, name: &str| {
        let link = Looking { inner: link, seen: Arc::clone(&seen) };
        let builder = Node::builder().name(name).link_with_peers(Box::new(link) as Box<dyn Link>);
        let builder = match integrity {
            Some(integrity) => builder.integrity(integrity),
            None => builder,
        };
        builder.start().expect("the node starts")
    };
    let [a, b] = udp_links(1500);
    let pair = Pair { a: start(a, "a"), b: start(b, "b") };
    let (a, b) = pair.endpoints();
    for bytes in [1_400, 24 << 10, 200 << 10, 2 << 20] {
        both(
            &pair,
            || drop(a.send_wait(b.address(), 1, pattern(bytes, 3), LONG).unwrap()),
            || {
                let got = b.receive_wait(Selector::ANY, vec![0; bytes], LONG).unwrap();
                assert!(got.buffer == pattern(bytes, 3), "{bytes} bytes");
            },
        );
    }
    (seen.all.load(Ordering::Relaxed), seen.unchecked.load(Ordering::Relaxed))
}

#[test]
fn payloads_are_the_carriers_to_check_unless_all_is_asked_for() {
    for integrity in [None, Some(Integrity::Carrier)] {
        let (all, unchecked) = exchange(integrity);
        assert!(all > 4 && unchecked == all, "{unchecked} of {all}, {integrity:?}");
    }
    let (all, unchecked) = exchange(Some(Integrity::EndToEnd));
    assert!(all > 4 && unchecked == 0, "{unchecked} of {all}");
}
