//! Round trips longer than the retransmission timer's usual ceiling: nothing is resent that was not lost (`RESEND-2`).

mod support;

use emp_firmware::{Counter, Profile, Span};
use emp_model::{FabricSetup, MessageSpec, Pace, Want, World, WorldSetup};
use support::{acquainted, count, finish, wait};

/// So many messages are under way at a time.
fn stream(world: &mut World, messages: usize, at_once: usize) {
    for _ in 0..messages / at_once {
        for _ in 0..at_once {
            world.receive(1, Want::ANY, 64);
        }
        let sent: Vec<_> = (0..at_once).map(|_| world.send(MessageSpec::plain(0, 1, 64))).collect();
        wait(world, Span::ms(5_000), |world| sent.iter().all(|sent| world.arrived(*sent)));
    }
}

/// The way itself is long, and each message waits for the one before: whether something is under way when round trips are first measured
/// makes no difference.
#[test]
fn a_long_way_resends_nothing() {
    for at_once in [1, 12] {
        let mut setup = WorldSetup::lan(2, &Profile::DEFAULT);
        setup.fabrics = vec![FabricSetup { latency: Span::ms(75), ..FabricSetup::lan() }];
        let mut world = World::new(setup);
        stream(&mut world, at_once * 4, at_once);
        let before = count(&world, 0, Counter::FramesResent);
        stream(&mut world, 240, at_once);
        finish(&mut world);
        let resent = count(&world, 0, Counter::FramesResent) - before;
        assert!(resent <= 5, "{resent} of 240 frames resent, {at_once} at once");
    }
}

/// A receiver that is given its processor every 150 ms only: round trips are as long.
#[test]
fn an_overloaded_receiver_is_sent_nothing_twice() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    world.set_pace(1, Pace { turn_interval: Span::ms(150), ..Pace::FAST });
    stream(&mut world, 40, 10);
    let before = count(&world, 0, Counter::FramesResent);
    stream(&mut world, 1_200, 10);
    let resent = count(&world, 0, Counter::FramesResent) - before;
    world.set_pace(1, Pace::FAST);
    finish(&mut world);
    assert!(resent <= 12, "{resent} of 1,200 frames resent");
}

/// A link that heals after a second on a usual way is noticed as soon as before.
#[test]
fn a_short_way_that_heals_is_noticed_soon() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    world.receive(1, Want::ANY, 64);
    world.network_mut().cut(0, 0, 1, true);
    let message = world.send(MessageSpec::plain(0, 1, 64));
    world.pass(Span::ms(1_000));
    world.network_mut().cut(0, 0, 1, false);
    let took = wait(&mut world, Span::ms(1_000), |world| world.arrived(message));
    assert!(took <= Span::ms(101), "{} ms", took.as_us() / 1_000);
    finish(&mut world);
}
