//! Delivery between two nodes: repair of losses, acknowledgements, order (V9–V22, E24–E33).

use crate::support::{acquainted, acquainted_setup, count, finish, lose_first, sent, wait};
use emp_firmware::{Counter, Profile, RetransmitUnit, Span};
use emp_model::{
    FaultPlan, MessageSpec, Pace, Ppm, Rates, Stream, Verdict, Want, WorldSetup, measure,
};
use emp_wire::{Flags, Header, Kind};

/// A lost last frame costs about one round trip, not a timer tick: the tail probe.
#[test]
fn a_lost_only_frame_is_repaired_in_under_a_millisecond() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    lose_first(&mut world, 0, 1, |header| header.kind == Kind::Message);
    world.receive(1, Want::ANY, 64);
    let message = world.send(MessageSpec::plain(0, 1, 64));
    let took = wait(&mut world, Span::ms(1_000), |world| world.arrived(message));
    assert!(took < Span::ms(1), "took {} µs", took.as_us());
    finish(&mut world);
}

#[test]
fn a_lost_last_frame_of_many_is_repaired_in_under_a_millisecond() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    lose_first(&mut world, 0, 1, |header| {
        header.kind == Kind::Data && header.flags.has(Flags::LAST)
    });
    world.receive(1, Want::ANY, 20_000);
    let message = world.send(MessageSpec::plain(0, 1, 20_000));
    let took = wait(&mut world, Span::ms(1_000), |world| world.arrived(message));
    assert!(took < Span::ms(1), "took {} µs", took.as_us());
    assert!(sent(&world, 0, Kind::Data) + sent(&world, 0, Kind::Message) <= 17, "one or two extra");
    finish(&mut world);
}

/// The last frame of a pulled block is repaired as fast: what was asked for is missed by the one who asked.
#[test]
fn a_lost_last_frame_of_a_pulled_block_is_repaired_in_under_a_millisecond() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    let mut blocks = 0;
    lose_first(&mut world, 0, 1, move |header| {
        blocks += usize::from(header.kind == Kind::Block && header.flags.has(Flags::LAST));
        blocks == 3
    });
    world.receive(1, Want::ANY, 256 << 10);
    let message = world.send(MessageSpec::plain(0, 1, 256 << 10));
    let took = wait(&mut world, Span::ms(1_000), |world| world.arrived(message));
    // The wire alone needs 220 µs.
    assert!(took < Span::us(1_220), "took {} µs", took.as_us());
    finish(&mut world);
}

/// V14: a duplicate is acknowledged again, or a sender whose acknowledgement was lost would resend for ever.
#[test]
fn a_duplicate_is_acknowledged_again() {
    for profile in Profile::ALL {
        let mut world = acquainted(2, profile);
        lose_first(&mut world, 1, 0, |header| header.kind == Kind::Ack);
        world.receive(1, Want::ANY, 64);
        let message = world.send(MessageSpec::plain(0, 1, 64));
        finish(&mut world);
        assert!(world.arrived(message), "{}", profile.name);
        assert!(count(&world, 1, Counter::DropDuplicate) >= 1, "{}", profile.name);
        assert!(sent(&world, 1, Kind::Ack) >= 2, "{}", profile.name);
    }
}

/// Every frame arrives twice, and nothing happens twice.
#[test]
fn duplication_changes_nothing() {
    for profile in Profile::ALL {
        let mut world = acquainted(2, profile);
        let rates = Rates { duplicate: Ppm::ALWAYS, ..Rates::default() };
        world.network_mut().set_faults(0, FaultPlan::uniform(rates));
        for bytes in [0, 100, 5_000, 100_000, 1_000_000] {
            world.receive(1, Want::ANY, bytes);
            world.send(MessageSpec::plain(0, 1, bytes));
            world.receive(0, Want::ANY, bytes);
            world.send(MessageSpec::plain(1, 0, bytes));
        }
        finish(&mut world);
    }
}

/// V18: in a request and reply exchange faster than the acknowledgement delay, acknowledgements ride on data.
#[test]
fn ping_pong_needs_no_explicit_acknowledgements() {
    // Not emp2001: its sends are complete when they are acknowledged (E27, E32), so they ask for that at once.
    for profile in [&Profile::DEFAULT, &Profile::VMMC2] {
        let mut world = acquainted(2, profile);
        for _ in 0..100 {
            for (from, to) in [(0, 1), (1, 0)] {
                world.receive(to, Want::ANY, 64);
                let message = world.send(MessageSpec::plain(from, to, 64));
                wait(&mut world, Span::ms(10), |world| world.arrived(message));
            }
        }
        finish(&mut world);
        let acks = sent(&world, 0, Kind::Ack) + sent(&world, 1, Kind::Ack);
        assert!(acks <= 4, "{}: {acks} explicit acknowledgements in 100 round trips", profile.name);
        assert!(count(&world, 0, Counter::AcksPiggybacked) >= 99, "{}", profile.name);
    }
}

/// E48: no connection. A first message to a node that no one knew costs one question and one answer more.
#[test]
fn the_first_message_needs_no_connection() {
    let mut world = emp_model::World::new(WorldSetup::lan(2, &Profile::DEFAULT));
    world.network_mut().trace_mut().switch(true);
    world.receive(1, Want::ANY, 64);
    world.send(MessageSpec::plain(0, 1, 64));
    finish(&mut world);
    let kinds: Vec<Kind> =
        world.network().trace().lines().iter().filter_map(|l| l.header.map(|h| h.kind)).collect();
    assert_eq!(kinds, [Kind::Hello, Kind::HelloReply, Kind::Message, Kind::Ack]);
}

/// Random loss of 0.1 % costs at most a tenth of the goodput.
#[test]
fn a_thousandth_lost_costs_at_most_a_tenth() {
    let goodput = |loss| {
        let stream = Stream::lan(&Profile::DEFAULT, 256 << 10, 200, Ppm(loss));
        measure(&stream).unwrap().goodput
    };
    let (clean, lossy) = (goodput(0), goodput(1_000));
    assert!(clean > 8_000_000_000, "lossless goodput is {clean} b/s of 10 Gb/s");
    assert!(lossy * 10 >= clean * 9, "{lossy} b/s of {clean} b/s");
}

/// A receiver that is slow and has a short ring loses frames; the sender adapts, and nothing is lost.
#[test]
fn a_slow_receiver_gets_everything() {
    for profile in Profile::ALL {
        let mut setup = WorldSetup::lan(2, profile);
        setup.nodes[1].pace = Pace {
            late: Span(0),
            turn_interval: Span::us(100),
            frames_per_turn: 16,
            ring_frames: 64,
            posts_at_once: false,
        };
        let mut world = acquainted_setup(setup);
        let start = world.now();
        let messages = [1_000_000, 100, 1_000_000, 5_000].map(|bytes| {
            world.receive(1, Want::ANY, bytes);
            world.send(MessageSpec::plain(0, 1, bytes))
        });
        wait(&mut world, Span::ms(20_000), |world| messages.iter().all(|m| world.arrived(*m)));
        // 2 MB in 16 frames per 100 µs are 9 ms; losses may multiply that, not by a hundred.
        let took = world.now().since(start);
        assert!(took < Span::ms(900), "{}: {} µs", profile.name, took.as_us());
        finish(&mut world);
    }
}

/// Many senders to one receiver through one shallow port: pulls are bounded over all senders (incast control).
#[test]
fn incast_gets_through() {
    let mut setup = WorldSetup::lan(9, &Profile::DEFAULT);
    setup.fabrics[0].queue_bytes = 128 << 10;
    let mut world = acquainted_setup(setup);
    let start = world.now();
    let messages: Vec<_> = (1..9)
        .map(|from| {
            world.receive(0, Want::ANY, 1 << 20);
            world.send(MessageSpec::plain(from, 0, 1 << 20))
        })
        .collect();
    wait(&mut world, Span::ms(1_000), |world| messages.iter().all(|m| world.arrived(*m)));
    let took = world.now().since(start);
    // The port needs 7 ms for 8 MB.
    assert!(took < Span::ms(20), "took {} µs", took.as_us());
    finish(&mut world);
}

/// Reordering alone must not look like loss to a node that takes frames out of order (E31).
#[test]
fn slight_reordering_resends_little() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    let mut n = 0u64;
    world.network_mut().set_script(Some(Box::new(move |_, from, _, frame| {
        let (header, _) = Header::parse(frame).ok()?;
        n += u64::from(from == 0 && header.kind.sequenced());
        // Every tenth frame is overtaken by one or two others (1.2 µs each).
        let late_ns = if n.is_multiple_of(10) { 2_000 } else { 0 };
        Some(Verdict { late_ns, ..Verdict::default() })
    })));
    world.receive(1, Want::ANY, 1 << 20);
    world.send(MessageSpec::plain(0, 1, 1 << 20));
    finish(&mut world);
    let resent = count(&world, 0, Counter::FramesResent);
    assert!(resent <= 20, "{resent} of about 730 frames resent although none was lost");
}

/// A burst that swallows everything that is under way is survived, and quickly (`SEQ-2`).
#[test]
fn a_lost_window_is_repaired() {
    for profile in Profile::ALL {
        let mut world = acquainted(2, profile);
        let until = world.now() + Span::us(150);
        world.network_mut().set_script(Some(Box::new(move |now, from, _, _| {
            Some(Verdict { drop: from == 0 && now < until, ..Verdict::default() })
        })));
        world.receive(1, Want::ANY, 600_000);
        let message = world.send(MessageSpec::plain(0, 1, 600_000));
        let took = wait(&mut world, Span::ms(5_000), |world| world.arrived(message));
        // Profiles without selective acknowledgement need a timer for each collection.
        assert!(took < Span::ms(20), "{}: took {} µs", profile.name, took.as_us());
        finish(&mut world);
    }
}

/// Pulls and dones may be sent ahead of what is left of a train. A receiver that takes nothing out of order must still get
/// the train, even when a silence has shrunk the window below the number of those frames.
#[test]
fn control_frames_ahead_of_a_train_do_not_block_it() {
    for sender in Profile::ALL {
        let mut setup = WorldSetup::lan(2, sender);
        setup.nodes[1].profile = Profile::VMMC2;
        let mut world = acquainted_setup(setup);
        world.receive(1, Want::ANY, 1 << 20);
        let long = world.send(MessageSpec::plain(0, 1, 1 << 20));
        world.cut(0, 1, Span::ms(300));
        for _ in 0..40 {
            world.receive(0, Want::ANY, 10);
            world.send(MessageSpec { synchronous: true, ..MessageSpec::plain(1, 0, 10) });
        }
        let took = wait(&mut world, Span::ms(5_000), |world| world.arrived(long));
        assert!(took < Span::ms(700), "{}: took {} µs", sender.name, took.as_us());
        finish(&mut world);
    }
}

/// A receiver that now and then does not look at its ring lets the sender's timer run out. What the probe then asks after
/// may all be there: only an answer to the probe itself tells of losses, and here there are none.
#[test]
fn a_receiver_that_was_busy_makes_nobody_resend_what_it_has() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    let busy = Pace { turn_interval: Span::ms(1), ..Pace::FAST };
    let messages: Vec<_> = (0..1_000)
        .map(|_| {
            world.receive(1, Want::ANY, 60_000);
            world.send(MessageSpec::plain(0, 1, 60_000))
        })
        .collect();
    for _ in 0..20 {
        for pace in [Pace::FAST, busy] {
            world.set_pace(1, pace);
            world.pass(Span::ms(1));
        }
    }
    world.set_pace(1, Pace::FAST);
    wait(&mut world, Span::ms(5_000), |world| messages.iter().all(|m| world.arrived(*m)));
    let resent = count(&world, 0, Counter::FramesResent);
    let timers = count(&world, 0, Counter::TailProbes) + count(&world, 0, Counter::Timeouts);
    assert!(timers >= 10, "its timer ran out {timers} times");
    assert!(resent <= 2 * timers, "{resent} frames resent, {timers} timers");
    finish(&mut world);
}

/// When losses end, every pair of profiles is back at the pace of the wire at once.
///
/// One pairing is slower, and known to be: a receiver that takes nothing out of order (vmmc2) under a sender that resends
/// less than everything behind a gap. It still gets everything, in bounded time.
#[test]
fn the_pace_returns_when_losses_end() {
    for sender in Profile::ALL {
        for receiver in Profile::ALL {
            for loss in [2, 10] {
                let mut setup = WorldSetup::lan(2, sender);
                setup.nodes[1].profile = receiver.clone();
                let mut world = emp_model::World::new(setup);
                let faults = FaultPlan::uniform(Rates::dropping(Ppm::percent(loss)));
                world.network_mut().set_faults(0, faults);
                let messages: Vec<_> = (0..200)
                    .map(|_| {
                        world.receive(1, Want::ANY, 32 << 10);
                        world.send(MessageSpec::plain(0, 1, 32 << 10))
                    })
                    .collect();
                world.pass(Span::ms(5));
                world.network_mut().heal();
                let all = |world: &emp_model::World| messages.iter().all(|m| world.arrived(*m));
                let took = wait(&mut world, Span::ms(60_000), all);
                let mixed = receiver.retransmit == RetransmitUnit::Window && sender != receiver;
                // 6.4 MB take 5.4 ms; retransmissions that had backed off may come first.
                let most = if mixed { Span::ms(60) } else { Span::ms(20) };
                let (sender, receiver) = (sender.name, receiver.name);
                assert!(took < most, "{sender} → {receiver}, {loss} %: {} µs", took.as_us());
                finish(&mut world);
            }
        }
    }
}
