//! Messages of all kinds arrive, by programs without any privilege.

use std::time::Duration;

use emp_host::{
    BuildError, CompletionMode, Endpoint, Node, PostError, RefusedReason, Scatter, Selector,
    SendOptions, Status, WaitError, Want, wait_all,
};
use emp_testing::lab::INTERFACE;

use crate::{LONG, Place, on, pair, pattern};

/// Around every boundary: nothing, one byte, one frame, what is written in one record, several, more than a ring.
const SIZES: [usize; 17] = [
    0,
    1,
    32,
    512,
    1400,
    1468,
    4096,
    9000,
    16_319,
    16_320,
    16_321,
    16_384,
    65_536,
    200_001,
    262_144,
    1 << 20,
    5_000_000,
];

fn endpoints((a, b): (&Node, &Node)) -> (Endpoint, Endpoint) {
    (a.endpoint(1).expect("opens"), b.endpoint(1).expect("opens"))
}

/// All sizes from one to the other, in two threads.
fn all_sizes(a: &Endpoint, b: &Endpoint) {
    let to = b.address();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for size in SIZES {
                let sent = a.send_wait(to, size as u64, pattern(size, 7), LONG).expect("it goes");
                assert_eq!(sent.bytes(), size);
            }
        });
        for size in SIZES {
            let buffer = vec![0xEE; size + 3];
            let got = b.receive_wait(Selector::bits(size as u64), buffer, LONG).expect("it comes");
            assert_eq!(got.bytes(), size);
            assert!(got.buffer[..size] == pattern(size, 7), "{size} bytes differ");
            assert_eq!(got.buffer[size..], [0xEE; 3], "wrote past the message");
            assert_eq!(got.completion.peer, a.address().node);
            assert_eq!(got.completion.peer_endpoint, 1);
        }
    });
}

#[test]
fn all_sizes_go_both_ways_between_two_programs_of_one_service() {
    let Some(place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let (a, b) = pair(&socket);
        let (a, b) = endpoints((&a, &b));
        all_sizes(&a, &b);
        all_sizes(&b, &a);
    });
}

#[test]
fn all_sizes_go_to_a_node_of_another_host_and_back() {
    let Some(place) = Place::new() else { return };
    let (there, here) = place.elsewhere_and_here();
    let (a, b) = endpoints((&here, &there));
    all_sizes(&a, &b);
    all_sizes(&b, &a);
    let peer = here.find("b", LONG).expect("it answers");
    assert_eq!(peer.name, "b");
    assert!(here.find("nobody at all", Duration::from_millis(20)).is_err());
    assert!(here.counters().iter().any(|(_, value)| value > 0), "the engine counts");
}

#[test]
fn messages_are_gathered_scattered_and_kept_in_order() {
    let Some(place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let (a, b) = pair(&socket);
        let (a, b) = endpoints((&a, &b));
        for (from, into) in [(1, 7), (3, 256), (256, 3), (17, 1)] {
            let all = pattern(100_000, from as u64);
            let cut = |parts: usize| -> Vec<Vec<u8>> {
                all.chunks(all.len().div_ceil(parts)).map(<[u8]>::to_vec).collect()
            };
            let empty: Vec<_> = cut(into).iter().map(|part| vec![0u8; part.len()]).collect();
            let receive = b.receive(Selector::ANY, Scatter(empty)).expect("posted");
            a.send_wait(b.address(), 0, Scatter(cut(from)), LONG).expect("it goes");
            let got = receive.wait(LONG).expect("it comes");
            assert!(got.buffer.0.concat() == all, "{from} parts into {into}");
        }
        const COUNT: usize = 2000;
        let receives: Vec<_> = (0..COUNT)
            .map(|_| b.receive(Selector::bits(5), vec![0; 3000]).expect("posted"))
            .collect();
        let sends: Vec<_> = (0..COUNT)
            .map(|i| {
                let mut message = vec![0; [8, 700, 3000, 8, 8][i % 5]];
                message[..8].copy_from_slice(&(i as u64).to_le_bytes());
                let options = SendOptions::default().more(i % 7 != 0 && i + 1 != COUNT);
                a.send_with(b.address(), 5, message, options).expect("there is room")
            })
            .collect();
        // More than the ring holds: the rest goes there in calls of the program's that sends.
        std::thread::scope(|scope| {
            let sent = scope.spawn(|| wait_all(sends, LONG));
            for (i, got) in wait_all(receives, LONG).into_iter().enumerate() {
                assert_eq!(got.expect("it comes").buffer[..8], (i as u64).to_le_bytes());
            }
            let sent = sent.join().expect("ends");
            sent.into_iter().for_each(|sent| drop(sent.expect("it went")));
        });
    });
}

#[test]
fn unexpected_messages_are_probed_claimed_and_received() {
    let Some(place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let (a, b) = pair(&socket);
        let (a, b) = endpoints((&a, &b));
        let sizes = [0, 10, 5000, 60_000, 300_000];
        let sends: Vec<_> = sizes
            .iter()
            .map(|size| a.send(b.address(), *size as u64, pattern(*size, 9)).expect("posted"))
            .collect();
        assert!(b.probe(Selector::bits(77)).is_none());
        let found = b.probe_wait(Selector::bits(300_000), LONG).expect("announced");
        assert_eq!((found.total_bytes, found.from_endpoint), (300_000, 1));
        for size in sizes.into_iter().rev() {
            let got = b.receive_wait(Selector::bits(size as u64), vec![0; size], LONG);
            assert!(got.expect("it comes").buffer == pattern(size, 9), "{size} bytes differ");
        }
        wait_all(sends, LONG).into_iter().for_each(|sent| drop(sent.expect("it went")));
        // A wait that begins before the message is there.
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| b.probe_wait(Selector::bits(6), LONG));
            std::thread::sleep(Duration::from_millis(20));
            a.send_wait(b.address(), 6, "later", LONG).expect("it goes");
            assert_eq!(waiting.join().expect("ends").expect("found").total_bytes, 5);
        });
        b.receive_wait(Selector::bits(6), vec![0; 5], LONG).expect("it comes");
    });
}

#[test]
fn options_cancellation_and_truncation_are_as_on_other_boards() {
    let Some(place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let (a, b) = pair(&socket);
        let (a, b) = endpoints((&a, &b));
        for (bits, options) in [
            (1, SendOptions::default()),
            (2, SendOptions::default().immediate(0xFEED_F00D_0123_4567)),
            (3, SendOptions::default().completion(CompletionMode::Buffered)),
            (4, SendOptions::default().completion(CompletionMode::Delivered).synchronous()),
        ] {
            let receive = b.receive(Selector::bits(bits), vec![0; 64]).expect("posted");
            let send = a.send_with(b.address(), bits, "some text", options).expect("posted");
            send.wait(LONG).expect("it goes");
            let got = receive.wait(LONG).expect("it comes");
            assert_eq!(&got.buffer[..9], b"some text");
            assert_eq!(got.completion.immediate, options.immediate);
        }
        let options = SendOptions::default().completion(CompletionMode::Buffered);
        let refused = a.send_with(b.address(), 0, vec![7u8; 100_000], options);
        assert_eq!(refused.err().expect("too long").buffer.len(), 100_000);

        let mut receive = b.receive(Selector::bits(9), vec![0; 64]).expect("posted");
        assert!(receive.cancel());
        let Err(WaitError::Failed(failed)) = receive.wait(LONG) else { panic!("it was cancelled") };
        assert_eq!(failed.error.status(), Status::Cancelled);
        drop(b.receive(Selector::bits(10), vec![0; 64]).expect("posted"));

        for size in [100usize, 500_000] {
            let receive = b.receive(Selector::bits(11), vec![0; 64]).expect("posted");
            a.send_wait(b.address(), 11, pattern(size, 1), LONG).expect("it goes");
            let Err(WaitError::Failed(failed)) = receive.wait(LONG) else { panic!("it is cut") };
            assert_eq!(failed.error.status(), Status::Truncated);
            assert_eq!(failed.error.completion.total_bytes, size as u64);
            assert!(failed.buffer == pattern(size, 1)[..64]);
        }
        // To itself, and the message of bits 10 went to nobody's dropped buffer.
        a.send(a.address(), 12, "self").expect("posted").wait(LONG).expect("it goes");
        let got = a.receive_wait(Selector::bits(12), vec![0; 4], LONG).expect("it comes");
        assert_eq!(got.buffer, b"self");
        a.send_wait(b.address(), 10, "ten", LONG).expect("it goes");
        let got = b.receive_wait(Selector::bits(10), vec![0; 3], LONG).expect("it comes");
        assert_eq!(got.buffer, b"ten");
    });
}

#[test]
fn an_endpoint_that_is_closed_ends_its_receives_and_can_be_opened_again() {
    let Some(place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let (a, b) = pair(&socket);
        let (ea, eb) = endpoints((&a, &b));
        assert!(b.endpoint(1).is_err(), "it is open");
        let receive = eb.receive(Selector::ANY, vec![0; 1000]).expect("posted");
        drop(eb);
        let Err(WaitError::Failed(failed)) = receive.wait(LONG) else { panic!("it is closed") };
        assert_eq!(failed.error.status(), Status::EndpointClosed);
        let eb = b.endpoint(1).expect("it opens again");
        ea.send_wait(eb.address(), 1, "again", LONG).expect("it goes");
        eb.receive_wait(Selector::bits(1), vec![0; 5], LONG).expect("it comes");
        a.close(LONG).expect("all was delivered");
        assert!(matches!(
            ea.send(eb.address(), 1, "late").err().expect("closed").reason,
            RefusedReason::Firmware(PostError::Closing)
        ));
        let event = std::iter::from_fn(|| b.wait_event(LONG));
        let closed = emp_host::NodeEvent::Closed(a.id());
        assert!(event.take(10).any(|event| event == closed), "b is told");
    });
}

#[test]
fn what_is_not_done_there_is_refused_with_a_line() {
    let Some(place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let line = |builder: emp_host::NodeBuilder| match builder.start() {
            Err(BuildError::Engine(line)) => line,
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("it starts"),
        };
        let auto = emp_host::AutoLinks { want: Want::Udp, ..emp_host::AutoLinks::default() };
        assert!(line(on(&socket, "c").auto_links(auto)).contains("links are the service's"));
        let auto = |interface: &str| emp_host::AutoLinks {
            interfaces: vec![interface.into()],
            ..emp_host::AutoLinks::default()
        };
        assert!(line(on(&socket, "c").auto_links(auto("lo"))).contains("lo is not served"));
        assert!(line(on(std::path::Path::new("/no/such"), "c")).contains("no service listens"));
        on(&socket, "c").auto_links(auto(INTERFACE)).start().expect("that one is served");
    });
}
