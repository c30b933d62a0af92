//! Buffers belong to someone at any time: requests that are dropped, forgotten, or outlived by nothing.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{BOARDS, LONG, Pair, both, pattern};
use emp_host::{Board, ReceiveBuffer, Selector, SendBuffer, Status, WaitError};

/// A buffer that tells when it is dropped.
struct Watched {
    bytes: Vec<u8>,
    dropped: Arc<AtomicUsize>,
}

impl Watched {
    fn new(bytes: Vec<u8>, dropped: &Arc<AtomicUsize>) -> Self {
        Self { bytes, dropped: Arc::clone(dropped) }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Freed memory that the node still uses would show.
        self.bytes.fill(0xDD);
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

// SAFETY: the memory is the vector's, on the heap and its own.
unsafe impl SendBuffer for Watched {
    fn visit(&self, run: &mut dyn FnMut(*const u8, usize)) {
        self.bytes.visit(run);
    }
}

// SAFETY: as above.
unsafe impl ReceiveBuffer for Watched {
    fn visit_mut(&mut self, run: &mut dyn FnMut(*mut u8, usize)) {
        self.bytes.visit_mut(run);
    }
}

fn until(mut condition: impl FnMut() -> bool, what: &str) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_dropped_send_still_arrives() {
    for board in BOARDS {
        let pair = Pair::new(board);
        let (a, b) = pair.endpoints();
        let dropped = Arc::new(AtomicUsize::new(0));
        let bytes = 1 << 20;
        both(
            &pair,
            || {
                let send = a.send(b.address(), 0, Watched::new(pattern(bytes, 1), &dropped));
                drop(send.unwrap());
                until(
                    || {
                        pair.a.progress();
                        dropped.load(Ordering::SeqCst) == 1
                    },
                    "the buffer is freed",
                );
            },
            || {
                let got = b.receive_wait(Selector::ANY, vec![0; bytes], LONG).unwrap();
                assert!(got.buffer == pattern(bytes, 1), "freed too early");
            },
        );
    }
}

#[test]
fn a_dropped_receive_is_cancelled_and_freed() {
    for board in BOARDS {
        let pair = Pair::new(board);
        let (a, b) = pair.endpoints();
        let dropped = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            drop(b.receive(Selector::ANY, Watched::new(vec![0; 100], &dropped)).unwrap());
        }
        until(
            || {
                pair.b.progress();
                dropped.load(Ordering::SeqCst) == 10
            },
            "the buffers are freed",
        );
        let (_, got) = both(
            &pair,
            || a.send_wait(b.address(), 0, vec![8u8; 100], LONG).unwrap(),
            || b.receive_wait(Selector::ANY, vec![0; 100], LONG).unwrap(),
        );
        assert_eq!(got.buffer, [8; 100]);
    }
}

#[test]
fn a_receive_dropped_half_way_keeps_its_buffer_until_it_is_over() {
    let pair = Pair::new(Board::Thread);
    let (a, b) = pair.endpoints();
    let dropped = Arc::new(AtomicUsize::new(0));
    for _ in 0..20 {
        let before = dropped.load(Ordering::SeqCst);
        let bytes = 4 << 20;
        let receive = b.receive(Selector::ANY, Watched::new(vec![0; bytes], &dropped)).unwrap();
        let send = a.send(b.address(), 0, Watched::new(pattern(bytes, 1), &dropped)).unwrap();
        std::thread::sleep(Duration::from_micros(500));
        drop(receive);
        // Either way the send ends: taken by the receive that is no longer wanted, or given up, or it waits.
        drop(send);
        let next = b.receive(Selector::ANY, Watched::new(vec![0; bytes], &dropped)).unwrap();
        let last = a.send(b.address(), 0, Watched::new(vec![1; bytes], &dropped)).unwrap();
        let _ = next.wait(LONG).map(drop);
        drop(last);
        until(|| dropped.load(Ordering::SeqCst) >= before + 2, "buffers are freed");
    }
}

#[test]
fn closing_hands_every_buffer_back() {
    for board in BOARDS {
        let pair = Pair::new(board);
        let (a, _b) = pair.endpoints();
        let dropped = Arc::new(AtomicUsize::new(0));
        let receive = a.receive(Selector::ANY, Watched::new(vec![0; 9], &dropped)).unwrap();
        drop(a.receive(Selector::ANY, Watched::new(vec![0; 9], &dropped)).unwrap());
        // Nobody of that name: it cannot end well.
        let to = ("nobody", 1);
        let send = a.send(to, 0, Watched::new(vec![1; 100_000], &dropped)).unwrap();
        drop(a.send(to, 0, Watched::new(vec![1; 100_000], &dropped)).unwrap());
        let error = pair.a.close(Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.sends, 2);
        for request in [receive, send] {
            let Err(WaitError::Failed(failed)) = request.wait(LONG) else { panic!("closed") };
            assert_eq!(failed.error.status(), Status::EndpointClosed);
            drop(failed);
        }
        assert_eq!(dropped.load(Ordering::SeqCst), 4);
        let refused = a.receive(Selector::ANY, vec![0; 4]).err().expect("closed");
        assert_eq!(refused.buffer.len(), 4);
        assert!(refused.to_string().contains("closed"), "{refused}");
    }
}

#[test]
fn a_forgotten_request_harms_nobody() {
    let pair = Pair::new(Board::Thread);
    let (a, b) = pair.endpoints();
    let dropped = Arc::new(AtomicUsize::new(0));
    let receive = b.receive(Selector::ANY, Watched::new(vec![0; 4096], &dropped)).unwrap();
    std::mem::forget(receive);
    a.send_wait(b.address(), 0, pattern(4096, 1), LONG).unwrap();
    a.send_wait(b.address(), 0, pattern(10, 2), LONG).unwrap();
    let got = b.receive_wait(Selector::ANY, vec![0; 10], LONG).unwrap();
    assert_eq!(got.buffer, pattern(10, 2));
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
}

#[test]
fn the_last_handle_flushes() {
    for board in BOARDS {
        let pair = Pair::new(board);
        let (a, b) = pair.endpoints();
        let Pair { a: node_a, b: _b } = pair;
        let to = b.address();
        let bytes = 300_000;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // Everything of this node goes while the message is on its way.
                drop(node_a);
                let send = a.send(to, 0, pattern(bytes, 1)).unwrap();
                drop(a);
                drop(send);
            });
            let got = b.receive_wait(Selector::ANY, vec![0; bytes], LONG).unwrap();
            assert!(got.buffer == pattern(bytes, 1));
        });
    }
}
