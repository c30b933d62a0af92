//! Messages of all kinds arrive, by programs without any privilege.

use std::time::Duration;

use emp_host::{
    BuildError, Endpoint, Node, PostError, RefusedReason, Selector, SendOptions, Status, WaitError,
    Want, wait_all,
};
use emp_testing::lab::INTERFACE;

use crate::exercises::messages as exercises;
use crate::pairs::Pair;
use crate::{LONG, Place, on, pair};

fn pairs(socket: &std::path::Path) -> Pair {
    let (a, b) = pair(socket);
    Pair { a, b }
}

fn endpoints((a, b): (&Node, &Node)) -> (Endpoint, Endpoint) {
    (a.endpoint(1).expect("opens"), b.endpoint(1).expect("opens"))
}

#[test]
fn all_sizes_go_both_ways_between_two_programs_of_one_service() {
    let Some(place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let pair = pairs(&socket);
        let (a, b) = pair.endpoints();
        exercises::all_sizes(&pair, (&a, &b));
    });
}

#[test]
fn all_sizes_go_to_a_node_of_another_host_and_back() {
    let Some(place) = Place::new() else { return };
    let (there, here) = place.elsewhere_and_here();
    let pair = Pair { a: here.clone(), b: there };
    let (a, b) = pair.endpoints();
    exercises::all_sizes(&pair, (&a, &b));
    exercises::all_sizes(&pair, (&b, &a));
    let peer = here.find("b", LONG).expect("it answers");
    assert_eq!(peer.name, "b");
    assert!(here.find("nobody at all", Duration::from_millis(20)).is_err());
    assert!(here.counters().iter().any(|(_, value)| value > 0), "the engine counts");
}

/// Long messages are datagrams beside the frames, but where a user's rate is counted, which is that of frames.
#[test]
fn long_messages_are_datagrams_where_no_rate_is_set() {
    const BYTES: usize = 4 << 20;
    const RATE: &str = "[limits]\nbytes_per_second_per_user = 100_000_000_000\n";
    for (lines, datagrams) in [("", true), ("datagrams = false\n", false), (RATE, false)] {
        let Some(place) = Place::with(lines) else { return };
        let (there, here) = place.elsewhere_by(Want::Auto);
        let ends = [&here, &there].map(|node| node.endpoint(1).expect("opens"));
        for (seed, (from, to)) in [(0, 1), (1, 0), (0, 1), (1, 0)].into_iter().enumerate() {
            let (seed, to) = (seed as u64, &ends[to]);
            let receive = to.receive(Selector::bits(seed), vec![0; BYTES]).expect("posted");
            let sent = ends[from].send(to.address(), seed, crate::pattern(BYTES, seed));
            let got = receive.wait(LONG).expect("it comes").buffer;
            assert!(got == crate::pattern(BYTES, seed), "message {seed} came changed");
            sent.expect("posted").wait(LONG).expect("it goes");
        }
        let links = there.links().iter().map(|link| link.kind).zip(there.link_statistics());
        let socket = links.into_iter().find(|(kind, _)| *kind == "udp").expect("it has one").1;
        let came = socket.frames_received;
        assert_eq!(came > 0, datagrams, "{lines}: {came} frames came by datagrams");
    }
}

#[test]
fn messages_are_gathered_scattered_and_kept_in_order() {
    let Some(place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let (a, b) = pair(&socket);
        let (a, b) = endpoints((&a, &b));
        exercises::gathered((&a, &b));
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
fn what_is_true_of_other_boards_is_true_of_this_one() {
    let Some(place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let pair = pairs(&socket);
        let (a, b) = pair.endpoints();
        exercises::unexpected(&pair, (&a, &b));
        exercises::in_order(&pair, (&a, &b));
        exercises::options((&a, &b));
        exercises::too_long((&a, &b));
        exercises::cut((&a, &b));
        exercises::to_itself(&pair);
    });
}

#[test]
fn waits_and_cancellation_are_as_on_other_boards() {
    let Some(place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let pair = pairs(&socket);
        let (a, b) = pair.endpoints();
        // A wait that begins before the message is there.
        assert!(b.probe(Selector::bits(6)).is_none());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| b.probe_wait(Selector::bits(6), LONG));
            std::thread::sleep(Duration::from_millis(20));
            a.send_wait(b.address(), 6, "later", LONG).expect("it goes");
            assert_eq!(waiting.join().expect("ends").expect("found").total_bytes, 5);
        });
        b.receive_wait(Selector::bits(6), vec![0; 5], LONG).expect("it comes");
        let mut receive = b.receive(Selector::bits(9), vec![0; 64]).expect("posted");
        assert!(receive.cancel());
        let Err(WaitError::Failed(failed)) = receive.wait(LONG) else { panic!("it was cancelled") };
        assert_eq!(failed.error.status(), Status::Cancelled);
        // A message goes to nobody's dropped buffer.
        drop(b.receive(Selector::bits(10), vec![0; 64]).expect("posted"));
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
