//! Sends of which others follow leave together, and leave all the same if nothing follows (`BUNDLE-1`).

mod memory_link;

use std::time::Duration;

use emp_host::{Counter, Selector, SendOptions};
use memory_link::pair;

const LONG: Duration = Duration::from_secs(10);

#[test]
fn what_is_followed_waits_for_the_last() {
    let ([a, b], [from, to]) = pair();
    let send = |bits: u64, more: bool| {
        let options = SendOptions::default().more(more);
        from.send_with(to.address(), bits, vec![bits as u8; 48], options).expect("there is room")
    };
    let receive = |bits: u64| to.receive(Selector::bits(bits), vec![0; 48]).expect("there is room");
    // They get to know each other first.
    let (first, got) = (send(0, false), receive(0));
    let know = || {
        a.progress();
        b.progress();
    };
    (0..1_000).for_each(|_| know());
    first.wait(LONG).expect("it arrived");
    got.wait(LONG).expect("it arrived");

    let came = || {
        b.progress();
        b.counters().get(Counter::FramesReceived)
    };
    let before = came();
    let receives: Vec<_> = (1..=6).map(receive).collect();
    let followed: Vec<_> = (1..=5).map(|bits| send(bits, true)).collect();
    assert_eq!(came(), before, "nothing left yet");
    let last = send(6, false);
    assert_eq!(came(), before + 6);
    for request in followed.into_iter().chain([last]) {
        request.wait(LONG).expect("it was copied");
    }
    for (place, request) in receives.into_iter().enumerate() {
        assert_eq!(request.wait(LONG).expect("it arrived").buffer, [place as u8 + 1; 48]);
    }

    // Nothing follows after all: making progress sends it.
    let request = receive(7);
    let alone = send(7, true);
    assert_eq!(came(), before + 6);
    a.progress();
    assert_eq!(came(), before + 7);
    alone.wait(LONG).expect("it was copied");
    request.wait(LONG).expect("it arrived");
}
