//! Messages arrive: all sizes, all boards, gathered and scattered, expected and not, to oneself and to others.

mod common;

use common::{BOARDS, LONG, Pair, both, pattern};
use emp_host::{
    Board, CompletionMode, Node, Scatter, Selector, SendOptions, Status, WaitError, wait_all,
};

/// Sizes around every boundary: nothing, one byte, one frame, eager, blocks, and a few megabytes.
const SIZES: [usize; 22] = [
    0,
    1,
    2,
    31,
    32,
    511,
    512,
    1023,
    1024,
    1400,
    1468,
    1500,
    4096,
    9000,
    65_535,
    65_536,
    65_537,
    131_072,
    200_001,
    1 << 20,
    4 << 20,
    5_000_000,
];

fn all_sizes(board: Board) {
    let pair = Pair::new(board);
    let (a, b) = pair.endpoints();
    both(
        &pair,
        || {
            for size in SIZES {
                let sent = a.send_wait(b.address(), size as u64, pattern(size, 7), LONG).unwrap();
                assert_eq!(sent.bytes(), size);
            }
        },
        || {
            for size in SIZES {
                let buffer = vec![0xEE; size + 3];
                let got = b.receive_wait(Selector::bits(size as u64), buffer, LONG).unwrap();
                assert_eq!(got.bytes(), size);
                assert!(got.buffer[..size] == pattern(size, 7), "{size} bytes differ");
                assert_eq!(got.buffer[size..], [0xEE; 3], "wrote past the message");
                assert_eq!(got.completion.peer, a.address().node);
                assert_eq!(got.completion.peer_endpoint, 1);
            }
        },
    );
}

#[test]
fn all_sizes_inline() {
    all_sizes(Board::Inline { guardian: false });
}

#[test]
fn all_sizes_inline_with_guardian() {
    all_sizes(Board::Inline { guardian: true });
}

#[test]
fn all_sizes_thread() {
    all_sizes(Board::Thread);
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

#[test]
fn gathered_and_scattered() {
    let pair = Pair::new(Board::Thread);
    let (a, b) = pair.endpoints();
    for (from, into) in [(1, 1), (2, 7), (3, 256), (256, 3), (256, 256), (17, 1)] {
        let all = pattern(100_000, from as u64);
        let cut = |parts: usize| -> Vec<Vec<u8>> {
            // Uneven parts, some of them empty.
            let mut rest = &all[..];
            let mut cut = Vec::new();
            for part in 0..parts {
                let bytes =
                    if part + 1 == parts { rest.len() } else { (part * 37 % 700).min(rest.len()) };
                cut.push(rest[..bytes].to_vec());
                rest = &rest[bytes..];
            }
            cut
        };
        let empty: Vec<_> = cut(into).iter().map(|part| vec![0u8; part.len()]).collect();
        let receive = b.receive(Selector::ANY, Scatter(empty)).unwrap();
        a.send_wait(b.address(), 0, Scatter(cut(from)), LONG).unwrap();
        let got = receive.wait(LONG).unwrap();
        assert!(got.buffer.0.concat() == all, "{from} parts into {into}");
    }
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
        let sizes = [0, 10, 1000, 5000, 60_000, 300_000];
        both(
            &pair,
            || {
                let sends: Vec<_> = sizes
                    .iter()
                    .map(|size| a.send(b.address(), *size as u64, pattern(*size, 9)).unwrap())
                    .collect();
                for result in wait_all(sends, LONG) {
                    result.unwrap();
                }
            },
            || {
                // All is there, or announced, before the first receive.
                b.probe_wait(Selector::bits(300_000), LONG).expect("announced");
                for size in sizes.into_iter().rev() {
                    let receive = Selector::bits(size as u64);
                    let got = b.receive_wait(receive, vec![0; size], LONG).unwrap();
                    assert!(got.buffer == pattern(size, 9), "{size} bytes differ");
                }
            },
        );
    }
}

#[test]
fn order_is_kept_among_equals() {
    let pair = Pair::new(Board::Inline { guardian: true });
    let (a, b) = pair.endpoints();
    const COUNT: usize = 3000;
    both(
        &pair,
        || {
            let sizes = (0..COUNT).map(|i| [8, 700, 3000, 8, 8][i % 5]);
            for (i, size) in sizes.enumerate() {
                let mut message = vec![0; size];
                message[..8].copy_from_slice(&(i as u64).to_le_bytes());
                a.send_wait(b.address(), 5, message, LONG).unwrap();
            }
        },
        || {
            for i in 0..COUNT {
                let got = b.receive_wait(Selector::bits(5), vec![0; 3000], LONG).unwrap();
                assert_eq!(got.buffer[..8], (i as u64).to_le_bytes());
            }
        },
    );
}

#[test]
fn options_reach_the_receiver() {
    let pair = Pair::new(Board::Thread);
    let (a, b) = pair.endpoints();
    for (bits, options) in [
        (1, SendOptions::default()),
        (2, SendOptions::default().immediate(0xFEED_F00D_0123_4567)),
        (3, SendOptions::default().completion(CompletionMode::Buffered)),
        (4, SendOptions::default().completion(CompletionMode::Delivered).synchronous()),
    ] {
        let receive = b.receive(Selector::bits(bits), vec![0; 64]).unwrap();
        let send = a.send_with(b.address(), bits, "some text", options).unwrap();
        let sent = send.wait(LONG).unwrap();
        assert_eq!(sent.buffer, "some text");
        let got = receive.wait(LONG).unwrap();
        assert_eq!(&got.buffer[..9], b"some text");
        assert_eq!(got.completion.immediate, options.immediate);
        assert_eq!(got.completion.match_bits, bits);
    }
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
fn a_buffered_send_that_is_too_long_is_refused() {
    let pair = Pair::new(Board::Thread);
    let (a, b) = pair.endpoints();
    let options = SendOptions::default().completion(CompletionMode::Buffered);
    let refused = a.send_with(b.address(), 0, vec![7u8; 100_000], options).err().unwrap();
    assert_eq!(refused.buffer, vec![7u8; 100_000]);
}

#[test]
fn a_longer_message_is_cut_and_reported() {
    for size in [100usize, 5000, 500_000] {
        let pair = Pair::new(Board::Thread);
        let (a, b) = pair.endpoints();
        let receive = b.receive(Selector::ANY, vec![0; 64]).unwrap();
        a.send(b.address(), 0, pattern(size, 1)).unwrap().wait(LONG).unwrap();
        let error = receive.wait(LONG).unwrap_err();
        let text = error.to_string();
        let WaitError::Failed(failed) = error else { panic!("{text}") };
        assert_eq!(failed.error.status(), Status::Truncated);
        assert_eq!(failed.error.completion.bytes, 64);
        assert_eq!(failed.error.completion.total_bytes, size as u64);
        assert!(failed.buffer == pattern(size, 1)[..64]);
        assert!(text.contains("64 of"), "{text}");
    }
}

#[test]
fn a_node_sends_to_itself() {
    for board in BOARDS {
        let pair = Pair::new(board);
        let one = pair.a.endpoint(1).unwrap();
        let two = pair.a.endpoint(2).unwrap();
        for size in [0, 10, 1000, 100_000, 3_000_000] {
            let receive = two.receive(Selector::bits(9), vec![0; size]).unwrap();
            let send = one.send(two.address(), 9, pattern(size, 4)).unwrap();
            let got = receive.wait(LONG).unwrap();
            send.wait(LONG).unwrap();
            assert!(got.buffer == pattern(size, 4), "{size} bytes to oneself");
            assert_eq!(got.completion.peer, pair.a.id());
        }
        // The other order: nobody waits for it yet.
        let send = one.send(two.address(), 9, pattern(50_000, 4)).unwrap();
        let got = two.receive_wait(Selector::bits(9), vec![0; 50_000], LONG).unwrap();
        send.wait(LONG).unwrap();
        assert!(got.buffer == pattern(50_000, 4));
    }
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
