//! Regions that their owner writes while peers get them: what a peer gets may be half old and half new, but frames are never found
//! damaged (`LONG-5`). Were they sent as messages are, the kernel would refer to pages that were summed before and are read after.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::{LONG, Pair, pattern, udp_links};
use emp_firmware::Counter;
use emp_host::{Board, Node, Selector};

const BYTES: usize = 1 << 20;

/// Gets of all of the region.
const GETS: usize = 200;

fn nodes(mtu: usize) -> Pair {
    let [a, b] = udp_links(mtu);
    let start = |link, name: &str| {
        let builder = Node::builder().name(name).link_with_peers(link).board(Board::Thread);
        builder.start().expect("the node starts")
    };
    Pair { a: start(a, "a"), b: start(b, "b") }
}

#[test]
fn what_is_got_meanwhile_keeps_its_sums() {
    for mtu in [1500, 4000] {
        let pair = nodes(mtu);
        let (a, b) = pair.endpoints();
        // Long frames are known to get through both ways.
        for bits in 0..4 {
            for (from, to) in [(&a, &b), (&b, &a)] {
                let receive = to.receive(Selector::ANY, vec![0; BYTES]).unwrap();
                from.send_wait(to.address(), bits, pattern(BYTES, bits), LONG).unwrap();
                receive.wait(LONG).unwrap();
            }
        }
        for node in [&pair.a, &pair.b] {
            assert!(node.counters().get(Counter::FramesLong) > 0, "mtu {mtu}");
        }
        let region = pair.b.export(vec![0; BYTES]).unwrap();
        let (target, over) = (region.remote(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut rounds = 0u64;
                while !over.load(Ordering::Relaxed) {
                    rounds += 1;
                    region.write(0, &vec![rounds as u8; BYTES]);
                    std::thread::yield_now();
                }
                rounds
            });
            for _ in 0..GETS {
                let got = a.get(target, vec![0; BYTES]).unwrap().wait(LONG);
                assert_eq!(got.map(|got| got.bytes()).ok(), Some(BYTES));
            }
            over.store(true, Ordering::Relaxed);
            assert!(writer.join().expect("it writes") > 10);
        });
        let damaged = pair.a.counters().get(Counter::DropChecksum);
        assert_eq!(damaged, 0, "frames found damaged, mtu {mtu}");
    }
}
