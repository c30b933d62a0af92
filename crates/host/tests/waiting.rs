//! Waiting, testing, probing, cancelling.

mod common;

use std::time::{Duration, Instant};

use common::{BOARDS, LONG, Pair, both};
use emp_host::{
    Board, OpenError, Profile, Selector, Status, WaitError, WaitMode, wait_all, wait_any,
};

const SHORT: Duration = Duration::from_millis(30);

#[test]
fn a_wait_that_times_out_returns_the_request() {
    for board in BOARDS {
        for mode in [WaitMode::Spin, WaitMode::default(), WaitMode::Sleep] {
            let pair = Pair::with(board, mode, Profile::DEFAULT);
            let (a, b) = pair.endpoints();
            let receive = b.receive(Selector::ANY, vec![1u8; 10]).unwrap();
            let start = Instant::now();
            let Err(WaitError::TimedOut(receive)) = receive.wait(SHORT) else {
                panic!("nothing was sent")
            };
            let waited = start.elapsed();
            assert!(waited >= SHORT && waited < SHORT * 100, "{board:?} {mode:?}: {waited:?}");
            let (_, got) = both(
                &pair,
                || a.send_wait(b.address(), 0, vec![2u8; 10], LONG).unwrap(),
                || receive.wait(LONG).unwrap(),
            );
            assert_eq!(got.buffer, [2; 10]);
        }
    }
}

#[test]
fn testing_ends_too() {
    for board in BOARDS {
        let pair = Pair::new(board);
        let (a, b) = pair.endpoints();
        both(
            &pair,
            || a.send_wait(b.address(), 0, vec![3u8; 100], LONG).unwrap(),
            || {
                let mut receive = b.receive(Selector::ANY, vec![0; 100]).unwrap();
                let start = Instant::now();
                while !receive.test() {
                    assert!(start.elapsed() < LONG);
                    std::thread::yield_now();
                }
                assert!(receive.test(), "ended is ended");
                let got = receive.try_finish().ok().expect("ended").unwrap();
                assert_eq!(got.buffer, [3; 100]);
            },
        );
    }
}

#[test]
fn any_of_several() {
    for board in BOARDS {
        let pair = Pair::new(board);
        let (a, b) = pair.endpoints();
        both(
            &pair,
            || {
                for bits in [2u64, 0, 1] {
                    a.send_wait(b.address(), bits, vec![bits as u8; 8], LONG).unwrap();
                    // The answer keeps the order for sure.
                    a.receive_wait(Selector::bits(9), vec![], LONG).unwrap();
                }
            },
            || {
                let post = |bits| b.receive(Selector::bits(bits), vec![0; 8]).unwrap();
                let mut requests: Vec<_> = (0..3).map(|bits| Some(post(bits))).collect();
                for want in [2usize, 0, 1] {
                    let mut places = Vec::new();
                    let mut open: Vec<&mut dyn emp_host::Pending> = Vec::new();
                    for (place, request) in requests.iter_mut().enumerate() {
                        if let Some(request) = request {
                            places.push(place);
                            open.push(request);
                        }
                    }
                    let place = places[wait_any(&mut open, LONG).expect("one ends")];
                    assert_eq!(place, want);
                    let request = requests[place].take().expect("was open");
                    let got = request.try_finish().ok().expect("ended").unwrap();
                    assert_eq!(got.buffer, [want as u8; 8]);
                    b.send_wait(a.address(), 9, vec![], LONG).unwrap();
                }
            },
        );
        let mut late = b.receive(Selector::ANY, vec![0; 8]).unwrap();
        assert_eq!(wait_any(&mut [&mut late], SHORT), None);
        assert_eq!(wait_any(&mut [], SHORT), None);
    }
}

#[test]
fn any_of_several_nodes() {
    let pair = Pair::new(Board::Thread);
    let (a, b) = pair.endpoints();
    let mut on_a = a.receive(Selector::ANY, vec![0; 8]).unwrap();
    let mut on_b = b.receive(Selector::ANY, vec![0; 8]).unwrap();
    a.send_wait(b.address(), 0, vec![1u8; 8], LONG).unwrap();
    assert_eq!(wait_any(&mut [&mut on_a, &mut on_b], LONG), Some(1));
}

#[test]
fn probes_see_what_nobody_took() {
    for board in BOARDS {
        let pair = Pair::new(board);
        let (a, b) = pair.endpoints();
        assert!(b.probe(Selector::ANY).is_none());
        assert!(b.probe_wait(Selector::ANY, SHORT).is_none());
        both(
            &pair,
            || a.send_wait(b.address(), 77, vec![4u8; 300], LONG).unwrap(),
            || {
                let info = b.probe_wait(Selector::bits(77), LONG).expect("it comes");
                assert_eq!((info.total_bytes, info.match_bits), (300, 77));
                assert_eq!(info.from, a.address().node);
                assert!(b.probe(Selector::bits(78)).is_none());
                // Looking does not take it.
                assert!(b.probe(Selector::bits(77)).is_some());
                b.receive_wait(Selector::ANY, vec![0; 300], LONG).unwrap();
                assert!(b.probe(Selector::ANY).is_none());
            },
        );
    }
}

#[test]
fn claims_are_exclusive() {
    let pair = Pair::new(Board::Thread);
    let (a, b) = pair.endpoints();
    for text in ["first", "second", "third"] {
        a.send_wait(b.address(), 0, text, LONG).unwrap();
    }
    b.probe_wait(Selector::ANY, LONG).unwrap();
    let first = b.claim(Selector::ANY).unwrap();
    assert_eq!(first.info().total_bytes, 5);
    let start = Instant::now();
    let second = loop {
        // It may still be under way.
        if let Some(second) = b.claim(Selector::ANY) {
            break second;
        }
        assert!(start.elapsed() < LONG);
    };
    let got = b.receive_wait(Selector::ANY, vec![0; 10], LONG).unwrap();
    assert_eq!(&got.buffer[..5], b"third");
    drop(second);
    let got = first.receive(vec![0; 10]).unwrap().wait(LONG).unwrap();
    assert_eq!(&got.buffer[..5], b"first");
    assert!(b.probe(Selector::ANY).is_none());
}

#[test]
fn receives_can_be_cancelled() {
    for board in BOARDS {
        let pair = Pair::new(board);
        let (a, b) = pair.endpoints();
        let mut cancelled = b.receive(Selector::ANY, vec![5u8; 10]).unwrap();
        assert!(cancelled.cancel());
        let Err(WaitError::Failed(failed)) = cancelled.wait(LONG) else { panic!("cancelled") };
        assert_eq!(failed.error.status(), Status::Cancelled);
        assert_eq!(failed.buffer, [5; 10]);
        // The next message goes to the next receive.
        let mut receive = b.receive(Selector::ANY, vec![0; 10]).unwrap();
        both(
            &pair,
            || a.send_wait(b.address(), 0, vec![6u8; 10], LONG).unwrap(),
            || {
                while !receive.test() {
                    std::thread::yield_now();
                }
            },
        );
        assert!(!receive.cancel(), "too late");
        assert_eq!(receive.wait(LONG).unwrap().buffer, [6; 10]);
    }
}

#[test]
fn many_requests_at_once() {
    for board in BOARDS {
        let pair = Pair::new(board);
        let (a, b) = pair.endpoints();
        const COUNT: u64 = 2000;
        both(
            &pair,
            || {
                let sends: Vec<_> = (0..COUNT)
                    .map(|i| a.send(b.address(), i, i.to_le_bytes().to_vec()).unwrap())
                    .collect();
                wait_all(sends, LONG).into_iter().for_each(|sent| drop(sent.unwrap()));
            },
            || {
                // In another order than they are sent in.
                let receives: Vec<_> = (0..COUNT)
                    .map(|i| (i * 7) % COUNT)
                    .map(|i| b.receive(Selector::bits(i), vec![0; 8]).unwrap())
                    .collect();
                for (i, got) in wait_all(receives, LONG).into_iter().enumerate() {
                    let want = (i as u64 * 7) % COUNT;
                    assert_eq!(got.unwrap().buffer, want.to_le_bytes());
                }
            },
        );
        assert_eq!(pair.a.host_counters().sends, 0);
        assert_eq!(pair.b.host_counters().receives, 0);
    }
}

#[test]
fn endpoints_are_exclusive_until_dropped() {
    let pair = Pair::new(Board::Inline { guardian: false });
    let endpoint = pair.a.endpoint(3).unwrap();
    assert_eq!(pair.a.endpoint(3).err(), Some(OpenError::AlreadyOpen(3)));
    let clone = endpoint.clone();
    drop(endpoint);
    assert!(pair.a.endpoint(3).is_err());
    drop(clone);
    assert!(pair.a.endpoint(3).is_ok());
}

#[test]
fn a_dropped_endpoint_ends_its_receives() {
    let pair = Pair::new(Board::Inline { guardian: false });
    let endpoint = pair.a.endpoint(3).unwrap();
    let receive = endpoint.receive(Selector::ANY, vec![0; 10]).unwrap();
    drop(endpoint);
    let Err(WaitError::Failed(failed)) = receive.wait(LONG) else { panic!("closed") };
    assert_eq!(failed.error.status(), Status::EndpointClosed);
}

#[test]
fn nodes_find_each_other() {
    for board in BOARDS {
        let pair = Pair::new(board);
        // An inline node without guardian answers only while it makes progress.
        let stop = std::sync::atomic::AtomicBool::new(false);
        both(
            &pair,
            || {
                let peer = pair.a.find("b", LONG).unwrap();
                assert_eq!((peer.node, peer.name.as_str()), (pair.b.id(), "b"));
                assert_eq!(pair.a.find(pair.b.id(), LONG).unwrap().node, pair.b.id());
                let address = emp_host::LinkAddress::index(1);
                assert_eq!(pair.a.resolve_address(address, LONG).unwrap().node, pair.b.id());
                assert!(pair.a.peers().iter().any(|peer| peer.name == "b"));
                let error = pair.a.find("nobody", SHORT).unwrap_err();
                assert!(error.to_string().contains("nobody"), "{error}");
                stop.store(true, std::sync::atomic::Ordering::Release);
            },
            || {
                while !stop.load(std::sync::atomic::Ordering::Acquire) {
                    pair.b.progress();
                    std::thread::sleep(Duration::from_micros(200));
                }
            },
        );
    }
}
