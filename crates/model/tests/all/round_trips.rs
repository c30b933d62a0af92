//! Round trips longer than the retransmission timer's usual ceiling: nothing is resent that was not lost (`RESEND-2`).

use crate::support::{acquainted, acquainted_setup, count, finish, lose, wait};
use emp_firmware::{Counter, Profile, Span};
use emp_model::{FabricSetup, MessageSpec, Pace, Verdict, Want, World, WorldSetup};
use emp_wire::Kind;

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

/// Nothing was ever measured of a way that is longer than the first timer: each frame is resent before it can be acknowledged, which measures
/// nothing, so the first answer says how long it may be. Else long messages take a hundred times as long, all frames of them sent ten times.
#[test]
fn the_first_answer_on_a_long_way_is_enough() {
    for (latency, bytes) in
        [(2, 64), (5, 64), (16, 64), (16, 4_000), (16, 64 << 10), (41, 64 << 10)]
    {
        let mut setup = WorldSetup::lan(2, &Profile::DEFAULT);
        setup.fabrics = vec![FabricSetup { latency: Span::ms(latency), ..FabricSetup::lan() }];
        let mut world = World::new(setup);
        let mut send = |messages: u32| {
            let before = count(&world, 0, Counter::FramesResent);
            let post = |_| {
                world.receive(1, Want::ANY, bytes);
                world.send(MessageSpec::plain(0, 1, bytes))
            };
            let sent: Vec<_> = (0..messages).map(post).collect();
            // The first is sent alone, and its acknowledgement is waited for.
            let all = |world: &World| {
                sent.iter().all(|sent| world.arrived(*sent)) && world.firmware(0).is_drained()
            };
            let took = wait(&mut world, Span::ms(60_000), all);
            (took, count(&world, 0, Counter::FramesResent) - before)
        };
        send(1);
        let (took, resent) = send(20);
        println!("{latency} ms, {bytes} bytes: {took:?}, {resent} resent");
        assert!(resent <= 2, "{latency} ms, {bytes} bytes: {resent} frames resent");
        assert!(took < Span::ms(latency * 100), "{latency} ms, {bytes} bytes: {took:?}");
        finish(&mut world);
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

/// Sends one message whose first copy is lost; gives how long it takes to arrive.
fn lost_once(world: &mut World) -> Span {
    let mut first = true;
    world.network_mut().set_script(Some(Box::new(move |_, from, _, _| {
        let drop = from == 0 && core::mem::take(&mut first);
        drop.then(|| Verdict { drop, ..Verdict::default() })
    })));
    world.receive(1, Want::ANY, 64);
    let sent = world.send(MessageSpec::plain(0, 1, 64));
    let took = wait(world, Span::ms(20_000), |world| world.arrived(sent));
    world.pass(Span::ms(1));
    took
}

/// A way that was cut for a while, and whose acknowledgements were lost as well, looks like one with long round trips. The timer may be
/// made long enough for them once; that a loss then takes as long is no evidence for longer ones.
#[test]
fn losses_do_not_make_the_timer_longer_and_longer() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    let cut = |world: &mut World, there: bool, back: bool| {
        world.network_mut().cut(0, 0, 1, there);
        world.network_mut().cut(0, 1, 0, back);
    };
    cut(&mut world, true, true);
    world.receive(1, Want::ANY, 64);
    let message = world.send(MessageSpec::plain(0, 1, 64));
    world.pass(Span::ms(150));
    cut(&mut world, false, true);
    wait(&mut world, Span::ms(200), |world| world.arrived(message));
    // Its acknowledgement comes with something else, well after the last copy left.
    world.pass(Span::ms(50));
    cut(&mut world, true, false);
    world.receive(0, Want::ANY, 64);
    world.send(MessageSpec::plain(1, 0, 64));
    world.pass(Span::ms(1));
    cut(&mut world, false, false);
    let took: Vec<_> = (0..4).map(|_| lost_once(&mut world)).collect();
    finish(&mut world);
    assert!(took[0] > Span::ms(100), "round trips did not look long: {took:?}");
    assert!(took[1..].iter().all(|took| *took <= Span::ms(5)), "{took:?}");
}

/// Without selective acknowledgements all that is behind a gap is acknowledged when that is filled: what arrived long before says nothing of
/// how long a round trip takes.
#[test]
fn what_waits_behind_a_gap_took_no_longer() {
    let mut world = acquainted(2, &Profile::EMP2001);
    let send = |world: &mut World| {
        world.receive(1, Want::ANY, 100_000);
        world.send(MessageSpec::plain(0, 1, 100_000))
    };
    // The window opens.
    for _ in 0..30 {
        send(&mut world);
        finish(&mut world);
    }
    // Its first runs resend all that is under way, the later ones what is next to the gap.
    lose(&mut world, 0, 1, |header, lost| {
        header.kind == Kind::Data && header.word == 1 && lost < 14
    });
    let message = send(&mut world);
    let took = wait(&mut world, Span::ms(1_000), |world| world.arrived(message));
    assert!(took > Span::ms(150), "{took:?}");
    world.pass(Span::ms(1));
    let took = lost_once(&mut world);
    finish(&mut world);
    assert!(took <= Span::ms(5), "{took:?}");
}

/// However long round trips are, what is not answered is sent several times before its silence ends a peer.
#[test]
fn a_silence_is_never_one_lost_copy() {
    let profile = Profile { unreachable_after: Span::ms(1_000), ..Profile::DEFAULT };
    let mut setup = WorldSetup::lan(2, &profile);
    setup.fabrics = vec![FabricSetup { latency: Span::ms(100), ..FabricSetup::lan() }];
    let mut world = acquainted_setup(setup);
    stream(&mut world, 12, 1);
    // It loses the message and what its timer, of two round trips, resends; the next would come after the patience.
    world.network_mut().cut(0, 0, 1, true);
    world.receive(1, Want::ANY, 64);
    let sent = world.send(MessageSpec::plain(0, 1, 64));
    world.pass(Span::ms(600));
    world.network_mut().cut(0, 0, 1, false);
    let took = wait(&mut world, Span::ms(3_000), |world| world.arrived(sent));
    assert!(took <= Span::ms(400), "{took:?}");
    finish(&mut world);
}
