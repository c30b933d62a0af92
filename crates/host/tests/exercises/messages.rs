//! Messages between two nodes, whatever their boards.

use emp_host::{
    CompletionMode, Endpoint, Scatter, Selector, SendOptions, Status, WaitError, wait_all,
};

use crate::pairs::{LONG, Pair, both, pattern};

/// Sizes around every boundary: nothing, one byte, one frame, eager, what is one record of the service's, blocks, and a few megabytes.
const SIZES: [usize; 25] = [
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
    16_319,
    16_320,
    16_321,
    65_535,
    65_536,
    65_537,
    131_072,
    200_001,
    1 << 20,
    4 << 20,
    5_000_000,
];

/// All sizes from one to the other.
pub fn all_sizes(pair: &Pair, (a, b): (&Endpoint, &Endpoint)) {
    both(
        pair,
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

/// Gathered and scattered.
pub fn gathered((a, b): (&Endpoint, &Endpoint)) {
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

/// Messages that come before there are receives for them wait.
pub fn unexpected(pair: &Pair, (a, b): (&Endpoint, &Endpoint)) {
    let sizes = [0, 10, 1000, 5000, 60_000, 300_000];
    both(
        pair,
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

/// Messages of one kind keep their order.
pub fn in_order(pair: &Pair, (a, b): (&Endpoint, &Endpoint)) {
    const COUNT: usize = 3000;
    both(
        pair,
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

/// Options reach the receiver.
pub fn options((a, b): (&Endpoint, &Endpoint)) {
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

/// A buffered send that is too long is refused.
pub fn too_long((a, b): (&Endpoint, &Endpoint)) {
    let options = SendOptions::default().completion(CompletionMode::Buffered);
    let refused = a.send_with(b.address(), 0, vec![7u8; 100_000], options).err().unwrap();
    assert_eq!(refused.buffer, vec![7u8; 100_000]);
}

/// A longer message is cut, and reported.
pub fn cut((a, b): (&Endpoint, &Endpoint)) {
    for size in [100usize, 5000, 500_000] {
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

/// A node sends to itself.
pub fn to_itself(pair: &Pair) {
    let one = pair.a.endpoint(11).unwrap();
    let two = pair.a.endpoint(12).unwrap();
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
