//! Messages of one long frame that are copied where nobody waits for their acknowledgement, and not where the answer brings it
//! (decision 32).

mod support;

use emp_firmware::{Counter, Span, Status};
use emp_model::{Action, FaultPlan, MessageId, MessageSpec, Ppm, Rates, Want, WantBits, World};
use support::{count, finish, two_lanes_with_long_frames, wait};

const BYTES: u64 = 24_000;

/// When a program posts the receive for the answer to what it sends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Posts {
    BeforeSend,
    AfterSend,
}

/// One end sends, and everything happens until the other has that. Returns the message, and whether it was copied.
fn turn(world: &mut World, from: usize, posts: Posts) -> (MessageId, bool) {
    if posts == Posts::BeforeSend {
        world.receive(from, Want::ANY, BYTES);
    }
    let before = count(world, from, Counter::BytesCopied);
    let message = world.send(MessageSpec::plain(from, 1 - from, BYTES));
    let copied = count(world, from, Counter::BytesCopied) - before;
    // Next to its header, as this host has its frames, and into the pool.
    assert!(copied == 0 || copied == 2 * BYTES);
    if posts == Posts::AfterSend {
        world.receive(from, Want::ANY, BYTES);
    }
    wait(world, Span::ms(50), |world| world.arrived(message));
    (message, copied > 0)
}

/// The ends take turns, each after it has `computed`. Returns which of so many messages were copied.
fn turns(world: &mut World, count: usize, computed: Span, posts: Posts) -> Vec<bool> {
    let one = |round| {
        world.pass(computed);
        turn(world, round % 2, posts).1
    };
    (0..count).map(one).collect()
}

/// Where the first message finds its receive.
fn open() -> World {
    let mut world = two_lanes_with_long_frames();
    world.receive(1, Want::ANY, BYTES);
    world
}

#[test]
fn what_is_answered_is_not_copied() {
    let mut world = open();
    let copied = turns(&mut world, 20, Span(0), Posts::BeforeSend);
    // Of each the first, and one before which one was answered.
    assert!(!copied[..4].contains(&false) && !copied[4..].contains(&true), "{copied:?}");
}

#[test]
fn it_is_copied_if_the_receive_is_not_posted_yet() {
    let mut world = open();
    let copied = turns(&mut world, 20, Span(0), Posts::AfterSend);
    assert!(!copied.contains(&false), "{copied:?}");
}

/// Its acknowledgement comes long before the answer, and so it is over sooner, copied or not; but not with its post.
#[test]
fn it_is_copied_if_the_answer_takes_long() {
    let mut world = open();
    let copied = turns(&mut world, 200, Span::ms(1), Posts::BeforeSend);
    assert!(!copied.contains(&false), "{copied:?}");
    // Those that follow at once are believed, until they do not.
    let copied = turns(&mut world, 8, Span(0), Posts::BeforeSend);
    assert!(!copied[6..].contains(&true), "{copied:?}");
    let copied = turns(&mut world, 40, Span::ms(1), Posts::BeforeSend);
    // The other end's last of those waited in vain already.
    assert!(!copied[0] && !copied[1..].contains(&false), "{copied:?}");
}

/// Both send at the same time: no message answers the other.
#[test]
fn what_crosses_is_copied() {
    let mut world = open();
    world.receive(0, Want::ANY, BYTES);
    for _ in 0..20 {
        let before = [0, 1].map(|node| count(&world, node, Counter::BytesCopied));
        let sent = [0, 1].map(|from| world.send(MessageSpec::plain(from, 1 - from, BYTES)));
        for from in [0, 1] {
            assert_eq!(count(&world, from, Counter::BytesCopied), before[from] + 2 * BYTES);
        }
        wait(&mut world, Span::ms(50), |world| sent.iter().all(|sent| world.arrived(*sent)));
        for node in [0, 1] {
            world.receive(node, Want::ANY, BYTES);
        }
    }
}

#[test]
fn one_that_counted_on_an_answer_in_vain_is_over_all_the_same() {
    let mut world = open();
    turns(&mut world, 20, Span(0), Posts::BeforeSend);
    let (unanswered, copied) = turn(&mut world, 0, Posts::BeforeSend);
    assert!(!copied);
    assert_eq!(world.sent(unanswered), None);
    let took = wait(&mut world, Span::ms(50), |world| world.sent(unanswered).is_some());
    assert!(took < Span::us(100), "{took:?}");
    assert_eq!(world.sent(unanswered), Some(Status::Ok));
}

/// Nobody looks at the other end for long: who waits for the message to be over does not wait for that.
#[test]
fn one_that_is_not_even_looked_for_is_copied_after_all() {
    let mut world = open();
    turns(&mut world, 20, Span(0), Posts::BeforeSend);
    world.apply(Action::Pause { node: 1, span: Span::ms(20) });
    world.receive(0, Want::ANY, BYTES);
    let before = count(&world, 0, Counter::BytesCopied);
    let message = world.send(MessageSpec::plain(0, 1, BYTES));
    assert_eq!(count(&world, 0, Counter::BytesCopied), before);
    let took = wait(&mut world, Span::ms(10), |world| world.sent(message).is_some());
    assert!(took < Span::us(500), "two round trips: {took:?}");
    assert_eq!(count(&world, 0, Counter::BytesCopied), before + BYTES);
    assert!(!world.arrived(message));
    wait(&mut world, Span::ms(50), |world| world.arrived(message));
}

/// One end waits for its message to be over before it posts the receive for the answer, and has another one posted all the time.
#[test]
fn a_receive_for_something_else_does_not_count() {
    let mut world = open();
    let never = MessageSpec { tag: 77, ..MessageSpec::plain(1, 0, 0) };
    world.receive(0, Want { bits: WantBits::Tag(never.tag), ..Want::ANY }, 0);
    for _ in 0..400 {
        let question = world.send(MessageSpec::plain(0, 1, BYTES));
        let (mut posted, mut answer) = (false, None);
        while !posted || answer.is_none() {
            let (over, there) = (posted, answer.is_some());
            wait(&mut world, Span::ms(50), |world| {
                !over && world.sent(question).is_some() || !there && world.arrived(question)
            });
            if !over && world.sent(question).is_some() {
                world.receive(0, Want { bits: WantBits::Tag(0), ..Want::ANY }, BYTES);
                posted = true;
            }
            if !there && world.arrived(question) {
                world.receive(1, Want::ANY, BYTES);
                answer = Some(world.send(MessageSpec::plain(1, 0, BYTES)));
            }
        }
        let answer = answer.expect("sent");
        wait(&mut world, Span::ms(50), |world| world.arrived(answer));
    }
    let unexpected = count(&world, 0, Counter::Unexpected);
    assert!(unexpected < 20, "{unexpected} answers came before their receives");
    // What was for something else comes in the end.
    world.send(never);
    world.send(MessageSpec::plain(0, 1, BYTES));
    finish(&mut world);
}

#[test]
fn losses_and_repetitions_do_them_no_harm() {
    let mut world = open();
    // Of each of the 17 datagrams of such a frame.
    let (drop, duplicate, reorder) = (Ppm(1_000), Ppm(1_000), Ppm(1_000));
    let rates = Rates { drop, duplicate, reorder, ..Rates::default() };
    world.network_mut().set_faults(1, FaultPlan::uniform(rates));
    let copied = turns(&mut world, 2_000, Span(0), Posts::BeforeSend);
    let kept = copied.iter().filter(|copied| !**copied).count();
    assert!(kept > 100, "{kept}");
    assert!(count(&world, 0, Counter::FramesResent) > 5);
    world.send(MessageSpec::plain(0, 1, BYTES));
    finish(&mut world);
}
