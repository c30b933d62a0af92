//! An application that has not asked for what comes, or asks late: nothing stays behind for good.

mod memory_link;

use std::time::Duration;

use emp_host::{Counter, Endpoint, ReceiveRequest, Selector, SendOptions};
use memory_link::pair;

const LONG: Duration = Duration::from_secs(10);

/// Messages at a time: less than a window.
const MESSAGES: u64 = 200;

#[test]
fn what_nobody_asked_for_is_kept_until_somebody_does() {
    let ([a, b], [from, to]) = pair();
    let flood = || {
        for place in 1..=MESSAGES {
            let options = SendOptions::default().more(place < MESSAGES);
            let request = from.send_with(to.address(), 1, vec![1; 48], options);
            request.expect("there is room").wait(LONG).expect("it is copied");
        }
    };
    let receives = || -> Vec<ReceiveRequest<Vec<u8>>> {
        let receive = |_| to.receive(Selector::bits(1), vec![0; 48]).expect("there is room");
        (0..MESSAGES).map(receive).collect()
    };
    let all_arrive = |requests: Vec<ReceiveRequest<Vec<u8>>>| {
        for mut request in requests {
            let turns = (0..100_000).find(|_| {
                a.progress();
                request.test()
            });
            assert!(turns.is_some(), "a message does not arrive");
            assert_eq!(request.wait(LONG).expect("it has arrived").buffer, [1; 48]);
        }
    };
    // They get to know each other, and the receiver finds that it is behind.
    let settle = || {
        for _ in 0..1_000 {
            a.progress();
            b.progress();
        }
    };
    flood();
    settle();
    all_arrive(receives());

    let earlier = b.counters().get(Counter::Unexpected);
    assert!(earlier > 0);
    flood();
    // Who goes on making progress gets them all, asked for or not.
    settle();
    let unexpected = b.counters().get(Counter::Unexpected);
    assert_eq!(unexpected - earlier, MESSAGES);
    all_arrive(receives());

    // What was asked for is unexpected no more.
    let requests = receives();
    flood();
    settle();
    assert_eq!(b.counters().get(Counter::Unexpected), unexpected);
    all_arrive(requests);
}

/// Who is behind looks at what arrives less often while it posts, but what it sends shares link frames as before.
#[test]
fn what_shares_link_frames_still_does_when_its_sender_is_behind() {
    let ([a, b], [from, to]) = pair();
    let settle = || {
        for _ in 0..1_000 {
            a.progress();
            b.progress();
        }
    };
    let bundled = |from: &Endpoint, to: &Endpoint| {
        for place in 1..=MESSAGES {
            let options = SendOptions::default().more(place < MESSAGES);
            let request = from.send_with(to.address(), 1, vec![1; 48], options);
            request.expect("there is room").wait(LONG).expect("it is copied");
        }
    };
    let link_frames = || b.link_statistics()[0].frames_sent;
    // They get to know each other.
    bundled(&to, &from);
    settle();
    let before = link_frames();
    bundled(&to, &from);
    let usual = link_frames() - before;
    settle();
    // Nobody asked for these.
    bundled(&from, &to);
    settle();
    assert!(b.counters().get(Counter::Unexpected) > 0);
    let before = link_frames();
    bundled(&to, &from);
    let behind = link_frames() - before;
    // Some more, as it acknowledges more often.
    assert!(behind < usual * 2, "{behind} link frames, {usual} otherwise");
    assert!(usual < MESSAGES / 4, "{usual} link frames for {MESSAGES} messages");
}
