//! A link whose queue does not move: what waits for it is dropped after a while and counted, and everything ends or arrives.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{BOARDS, LONG, impatient, on};
use emp_host::{
    Board, CompletionMode, Counter, Failed, Node, NodeEvent, NodeId, Scheme, Selector, SendOptions,
    Status, WaitError,
};
use emp_link::{Capabilities, Fabric, Link, SimLink, TxFrame};

/// A link that takes nothing while it is stuck.
struct Sticky {
    inner: SimLink,
    stuck: Arc<AtomicBool>,
    /// Frames that were offered and refused, each time that they were.
    refused: Arc<AtomicU64>,
}

impl Link for Sticky {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }
    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        if self.stuck.load(Ordering::Relaxed) {
            self.refused.fetch_add(batch.len() as u64, Ordering::Relaxed);
            return 0;
        }
        self.inner.send(batch)
    }
    common::forward_to_inner!();
}

/// A node on such a link, its switch, and what counts its refusals.
fn sticky(fabric: &Fabric, board: Board) -> (Node, Arc<AtomicBool>, Arc<AtomicU64>) {
    let inner = fabric.link(0, NodeId::from_name("a").destination_tag()).expect("a place");
    let (stuck, refused): (Arc<AtomicBool>, Arc<AtomicU64>) = Default::default();
    let link = Sticky { inner, stuck: Arc::clone(&stuck), refused: Arc::clone(&refused) };
    let builder = Node::builder().name("a").link(link).board(board);
    let node = builder.profile(impatient(Duration::from_millis(300))).start().expect("it starts");
    (node, stuck, refused)
}

/// Frames that were given up because the link did not take them: by the node, or by the thread that makes its link's calls.
fn dropped(node: &Node) -> u64 {
    let by_thread = node.link_statistics().iter().map(|link| link.system_errors).sum::<u64>();
    node.host_counters().frames_dropped + by_thread
}

#[test]
fn a_link_that_never_accepts_drops_what_waits_and_sends_fail() {
    for board in BOARDS {
        let fabric = Fabric::new(2).expect("descriptors");
        let (a, stuck, refused) = sticky(&fabric, board);
        let b = on(&fabric, 1, "b").board(Board::Thread).start().expect("it starts");
        let (from, to) = (a.endpoint(1).unwrap(), b.endpoint(1).unwrap());
        let receive = to.receive(Selector::ANY, vec![0; 10]).unwrap();
        let options = || SendOptions::default().completion(CompletionMode::Delivered);
        from.send_with(to.address(), 0, vec![1; 10], options()).unwrap().wait(LONG).unwrap();
        receive.wait(LONG).unwrap();
        assert_eq!(dropped(&a), 0, "{board:?}");

        stuck.store(true, Ordering::Relaxed);
        let start = Instant::now();
        let sends: Vec<_> = (0..50)
            .map(|bits| from.send_with(to.address(), bits, vec![2; 4_000], options()).unwrap())
            .collect();
        for send in sends {
            let Err(WaitError::Failed(Failed { error, .. })) = send.wait(LONG) else {
                panic!("{board:?}: it cannot have arrived");
            };
            assert_eq!(error.status(), Status::Unreachable, "{board:?}");
        }
        assert!(start.elapsed() < LONG / 2, "{board:?}: {:?}", start.elapsed());
        let dropped = dropped(&a);
        assert!(dropped > 0 && refused.load(Ordering::Relaxed) >= dropped, "{board:?}: {dropped}");
        assert_eq!(a.counters().get(Counter::PeersLost), 1, "{board:?}");
    }
}

/// What was dropped is sent again: nothing is lost by it.
#[test]
fn a_link_that_was_stuck_for_a_while_loses_nothing() {
    for board in BOARDS {
        let fabric = Fabric::new(2).expect("descriptors");
        let (a, stuck, _) = sticky(&fabric, board);
        let b = on(&fabric, 1, "b").board(Board::Thread).start().expect("it starts");
        let (from, to) = (a.endpoint(1).unwrap(), b.endpoint(1).unwrap());
        let receives: Vec<_> =
            (0..21).map(|bits| to.receive(Selector::bits(bits), vec![0; 4_000]).unwrap()).collect();
        let options = || SendOptions::default().completion(CompletionMode::Delivered);
        let send = |bits: u64| {
            from.send_with(to.address(), bits, vec![bits as u8; 4_000], options()).unwrap()
        };
        send(0).wait(LONG).unwrap();
        stuck.store(true, Ordering::Relaxed);
        let sends: Vec<_> = (1..21).map(send).collect();
        // Longer than frames are kept for a stuck link, far shorter than the silence that ends a pair.
        let start = Instant::now();
        while dropped(&a) == 0 && start.elapsed() < LONG {
            // Somebody has to look, whatever the board.
            from.probe(Selector::bits(999));
            sleep(Duration::from_millis(1));
        }
        assert!(dropped(&a) > 0, "{board:?}");
        stuck.store(false, Ordering::Relaxed);
        sends.into_iter().for_each(|send| drop(send.wait(LONG).unwrap()));
        for (bits, receive) in receives.into_iter().enumerate() {
            assert!(receive.wait(LONG).unwrap().buffer == vec![bits as u8; 4_000], "{board:?}");
        }
    }
}

/// Its peers are told that it is gone, though what it cuts short fills its link.
#[test]
fn a_node_that_closes_while_its_link_is_full_says_goodbye() {
    for board in BOARDS {
        // The thread of a link loses what that has refused for 10 ms: on a busy machine the link is stuck for longer, now and then.
        let tries = if matches!(board, Board::Split { scheme: Scheme::Io, .. }) { 5 } else { 1 };
        assert!((0..tries).any(|_| says_goodbye(board)), "{board:?}");
    }
}

/// Whether a node on this board does.
fn says_goodbye(board: Board) -> bool {
    let fabric = Fabric::new(2).expect("descriptors");
    let (a, stuck, refused) = sticky(&fabric, board);
    let b = on(&fabric, 1, "b").board(Board::Thread).start().expect("it starts");
    let (from, to) = (a.endpoint(1).unwrap(), b.endpoint(1).unwrap());
    let receive = to.receive(Selector::bits(0), vec![0; 10]).unwrap();
    let delivered = SendOptions::default().completion(CompletionMode::Delivered);
    from.send_with(to.address(), 0, vec![1; 10], delivered).unwrap().wait(LONG).unwrap();
    receive.wait(LONG).unwrap();
    let receive = to.receive(Selector::bits(1), vec![0; 4 << 20]).unwrap();
    stuck.store(true, Ordering::Relaxed);
    let send = from.send(to.address(), 1, vec![2; 4 << 20]).unwrap();
    let before = refused.load(Ordering::Relaxed);
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while refused.load(Ordering::Relaxed) == before && start.elapsed() < LONG {
                std::hint::spin_loop();
            }
            sleep(Duration::from_millis(5));
            stuck.store(false, Ordering::Relaxed);
        });
        a.close(Duration::ZERO).expect_err("it is cut short");
    });
    drop(send);
    let closed = std::iter::from_fn(|| b.wait_event(Duration::from_secs(3))).take(10);
    let told = closed.into_iter().any(|event| event == NodeEvent::Closed(a.id()));
    drop(receive);
    told && start.elapsed() < Duration::from_secs(3)
}
