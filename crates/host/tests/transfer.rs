//! Messages arrive: all sizes, all boards, gathered and scattered, expected and not, to oneself and to others.

mod common;
use common as pairs;
mod exercises;

use common::{BOARDS, LONG, Pair, both, pattern};
use emp_host::{Board, Endpoint, Node, Scatter, Selector, SendOptions, WaitError, wait_all};
use exercises::messages;

fn sizes(board: Board) {
    let pair = Pair::new(board);
    let (a, b) = pair.endpoints();
    messages::all_sizes(&pair, (&a, &b));
}

#[test]
fn all_sizes_inline() {
    sizes(Board::Inline { guardian: false });
}

#[test]
fn all_sizes_inline_with_guardian() {
    sizes(Board::Inline { guardian: true });
}

#[test]
fn all_sizes_thread() {
    sizes(Board::Thread);
}

#[test]
fn both_ways_at_once() {
    for board in BOARDS {
        let pair = Pair::new(board);
        let (a, b) = pair.endpoints();
        let exchange = |me: &emp_host::Endpoint, other: &emp_host::Endpoint, seed| {
            let receive = me.receive(Selector::bits(1), vec![0; 1 << 20]).unwrap();
            let send = other.address();
            let send = me.send(send, 1, pattern(1 << 20, seed)).unwrap();
            send.wait(LONG).unwrap();
            let got = receive.wait(LONG).unwrap();
            assert!(got.buffer == pattern(1 << 20, 3 - seed));
        };
        both(&pair, || exchange(&a, &b, 1), || exchange(&b, &a, 2));
    }
}

/// With a thread of its own each.
fn ends(exercise: impl FnOnce((&Endpoint, &Endpoint))) {
    let pair = Pair::new(Board::Thread);
    let (a, b) = pair.endpoints();
    exercise((&a, &b));
}

#[test]
fn gathered_and_scattered() {
    ends(messages::gathered);
}

#[test]
fn too_many_parts_come_back() {
    let pair = Pair::new(Board::Thread);
    let (a, b) = pair.endpoints();
    let refused = a.send(b.address(), 0, Scatter(vec![vec![1u8]; 257])).err().unwrap();
    assert_eq!(refused.buffer.0.len(), 257);
    assert!(refused.to_string().contains("256"), "{refused}");
}

#[test]
fn unexpected_messages_wait() {
    for board in BOARDS {
        let pair = Pair::new(board);
        let (a, b) = pair.endpoints();
        messages::unexpected(&pair, (&a, &b));
    }
}

#[test]
fn order_is_kept_among_equals() {
    let pair = Pair::new(Board::Inline { guardian: true });
    let (a, b) = pair.endpoints();
    messages::in_order(&pair, (&a, &b));
}

#[test]
fn options_reach_the_receiver() {
    ends(messages::options);
}

#[test]
fn a_buffered_send_that_is_too_long_is_refused() {
    ends(messages::too_long);
}

#[test]
fn a_longer_message_is_cut_and_reported() {
    ends(messages::cut);
}

#[test]
fn a_node_sends_to_itself() {
    BOARDS.into_iter().for_each(|board| messages::to_itself(&Pair::new(board)));
}

#[test]
fn a_synchronous_send_waits_for_the_receive() {
    let pair = Pair::new(Board::Thread);
    let (a, b) = pair.endpoints();
    let options = SendOptions::default().synchronous();
    let send = a.send_with(b.address(), 1, vec![1u8; 16], options).unwrap();
    b.probe_wait(Selector::ANY, LONG).expect("it is there");
    let Err(WaitError::TimedOut(send)) = send.wait(std::time::Duration::from_millis(50)) else {
        panic!("complete though nobody has received it");
    };
    b.receive_wait(Selector::ANY, vec![0; 16], LONG).unwrap();
    send.wait(LONG).unwrap();
}

#[test]
fn names_and_shared_buffers_will_do() {
    let pair = Pair::new(Board::Thread);
    let (a, b) = pair.endpoints();
    let shared: std::sync::Arc<[u8]> = pattern(3000, 2).into();
    let receives: Vec<_> =
        (0..2).map(|_| b.receive(Selector::ANY, vec![0; 3000]).unwrap()).collect();
    let sends: Vec<_> =
        (0..2).map(|_| a.send(("b", 1), 0, std::sync::Arc::clone(&shared)).unwrap()).collect();
    for sent in wait_all(sends, LONG) {
        sent.unwrap();
    }
    for got in wait_all(receives, LONG) {
        assert_eq!(got.unwrap().buffer[..], shared[..]);
    }
}

#[test]
fn jumbo_frames_fit() {
    let fabric = emp_link::Fabric::with_frame_bytes(2, 9000).unwrap();
    let start = |index, name| -> Node {
        common::on(&fabric, index, name).board(Board::Thread).start().unwrap()
    };
    let (a, b) = (start(0, "a"), start(1, "b"));
    let (one, two) = (a.endpoint(1).unwrap(), b.endpoint(1).unwrap());
    for size in [8000, 9000, 100_000, 1 << 20] {
        let receive = two.receive(Selector::ANY, vec![0; size]).unwrap();
        one.send_wait(two.address(), 0, pattern(size, 1), LONG).unwrap();
        assert!(receive.wait(LONG).unwrap().buffer == pattern(size, 1));
    }
}
