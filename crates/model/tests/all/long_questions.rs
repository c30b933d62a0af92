//! Long frames that nothing follows: their senders ask early what became of them (`RESEND-6`), and are told of trains that come
//! without their first frame (`ACK-7`).

use crate::support::{acquainted_setup, count, finish, wait};
use emp_firmware::{Counter, LinkInfo, Profile, Span};
use emp_model::{
    Action, FabricSetup, MessageSpec, NodeSetup, Pace, Verdict, Want, World, WorldSetup,
};
use emp_wire::{Header, Kind};

const PIECE_BYTES: usize = 1_472;

/// Two nodes on one link for long frames, as quick as the memory of one machine, after so many messages there and back that they know
/// how long an answer takes. `two_paths`: long frames have a link of their own.
fn quick(two_paths: bool) -> World {
    quick_but(two_paths, Span::us(2), Profile::DEFAULT)
}

/// The same; long frames take so long.
fn quick_but(two_paths: bool, latency: Span, profile: Profile) -> World {
    let mut long = LinkInfo::new(PIECE_BYTES, !two_paths);
    (long.segments, long.long_frames, long.long_frames_held) = (true, true, 64);
    let mut links =
        if two_paths { vec![LinkInfo::new(PIECE_BYTES, true), long] } else { vec![long] };
    if two_paths {
        emp_model::divide(&mut links, 1, 5, 3);
    }
    let fabric = FabricSetup {
        bits_per_second: 80_000_000_000,
        latency: Span::us(2),
        piece_bytes: PIECE_BYTES,
        ..FabricSetup::lan()
    };
    let mut fabrics: Vec<_> = links.iter().map(|_| fabric.clone()).collect();
    fabrics.last_mut().expect("there is one").latency = latency;
    let node = |index| NodeSetup { links: links.clone(), ..NodeSetup::new(index, profile.clone()) };
    let setup = WorldSetup { fabrics, nodes: (0..2).map(node).collect(), seed: 3 };
    let mut world = acquainted_setup(setup);
    for _ in 0..50 {
        for from in 0..2 {
            send(&mut world, from, 64 << 10);
        }
    }
    finish(&mut world);
    // Longer than a path is busy with what was.
    world.pass(Span::ms(20));
    world
}

/// Sends a message; returns how long it took to arrive.
fn send(world: &mut World, from: usize, bytes: u64) -> Span {
    world.receive(1 - from, Want::ANY, bytes);
    let message = world.send(MessageSpec::plain(from, 1 - from, bytes));
    wait(world, Span::ms(1_000), |world| world.arrived(message))
}

/// Node 0's window is as wide as the path allows.
fn open(world: &mut World) {
    send(world, 0, 1 << 20);
}

/// Loses those of node 0's sequenced frames that `choose` picks; it sees the header, and how many came before.
fn lose(world: &mut World, mut choose: impl FnMut(&Header, usize) -> bool + 'static) {
    let mut seen = 0;
    world.network_mut().set_script(Some(Box::new(move |_, from, _, frame| {
        let (header, _) = Header::parse(frame).ok()?;
        if from != 0 || !header.kind.sequenced() {
            return None;
        }
        seen += 1;
        choose(&header, seen - 1).then(|| Verdict { drop: true, ..Verdict::default() })
    })));
}

/// Of a message of several frames one is lost: the last, which nothing shows, or the first, without which no other is taken.
#[test]
fn a_lost_long_frame_is_missed_before_any_timer() {
    for two_paths in [false, true] {
        for (bytes, lost, resent) in
            [(64 << 10, 1, 1), (64 << 10, 0, 2), (512 << 10, 8, 1), (512 << 10, 0, 9)]
        {
            let mut world = quick(two_paths);
            let opens =
                |world: &mut World| if bytes > 64 << 10 { open(world) } else { finish(world) };
            opens(&mut world);
            let usual = send(&mut world, 0, bytes);
            opens(&mut world);
            lose(&mut world, move |_, seen| seen == lost);
            let took = send(&mut world, 0, bytes);
            finish(&mut world);
            let late = Span(took.0 - usual.0);
            // What is resent takes as long as at first, so a first frame costs as much as the message.
            // A window that has just opened has round trips of many lengths, and two of them pass before the question.
            let limit = Span(Span::us(200).0 + usual.0 * resent / 9);
            assert!(late < limit, "two paths {two_paths}, {lost} of {bytes} B: {late:?} late");
            assert_eq!(count(&world, 0, Counter::FramesResent), resent, "{lost} of {bytes} B");
            assert_eq!(count(&world, 0, Counter::Timeouts), 0);
        }
    }
}

/// The only frame of a message, which was copied: no answer was asked for, so its acknowledgement may wait for a ride.
#[test]
fn a_lost_lone_long_frame_is_asked_after() {
    let mut world = quick(false);
    for _ in 0..20 {
        for from in 0..2 {
            send(&mut world, from, 8_000);
        }
    }
    finish(&mut world);
    lose(&mut world, |_, seen| seen == 0);
    let took = send(&mut world, 0, 8_000);
    assert!(took < Span::us(150), "{took:?}");
    finish(&mut world);
}

/// What is sent again may be lost again, and so may the question.
#[test]
fn questions_may_be_lost_too() {
    let mut world = quick(false);
    lose(&mut world, |_, seen| (1..3).contains(&seen));
    let took = send(&mut world, 0, 64 << 10);
    assert!(took < Span::us(400), "{took:?}");
    finish(&mut world);
    assert_eq!(count(&world, 0, Counter::FramesResent), 2, "the frame, and the question");
    let mut world = quick(false);
    lose(&mut world, |header, seen| {
        header.kind != Kind::Skip && (1..3).contains(&seen) || seen == 3
    });
    let took = send(&mut world, 0, 64 << 10);
    assert!(took < Span::us(300), "{took:?}");
    finish(&mut world);
}

/// A receiver that looks seldom, as one that computes, or has no processor: no frame is sent twice because of that, but what asks.
#[test]
fn who_answers_late_is_not_sent_it_all_again() {
    let mut world = quick(false);
    world.set_pace(1, Pace { turn_interval: Span::us(150), posts_at_once: false, ..Pace::FAST });
    let before = count(&world, 0, Counter::FramesSent);
    for _ in 0..100 {
        send(&mut world, 0, 64 << 10);
    }
    finish(&mut world);
    assert_eq!(count(&world, 0, Counter::FramesResent), 0);
    let questions = count(&world, 0, Counter::FramesSent) - before - 200;
    assert!(questions <= 100, "{questions} questions after 100 messages");
}

/// The same for milliseconds: the timer asks once more before it sends 60 KB again.
#[test]
fn who_does_not_run_is_asked_twice() {
    let mut world = quick(false);
    // A question after 0.05 ms, and one after 0.2; the frame after 0.6, 1.4, 3, 6.2.
    for (pause_ms, runs) in [(0, 0), (1, 1), (2, 2), (5, 3), (10, 4)] {
        let resent = count(&world, 0, Counter::FramesResent);
        world.receive(1, Want::ANY, 64 << 10);
        world.apply(Action::Pause { node: 1, span: Span::ms(pause_ms) });
        world.send(MessageSpec::plain(0, 1, 64 << 10));
        finish(&mut world);
        let resent = count(&world, 0, Counter::FramesResent) - resent;
        assert!(resent <= runs, "{resent} resent in {pause_ms} ms");
    }
    assert_eq!(count(&world, 0, Counter::LongClosed), 0);
}

/// Of a train whose first two frames are lost its last one tells.
#[test]
fn the_last_frame_tells_of_the_first() {
    let mut world = quick(false);
    open(&mut world);
    let usual = send(&mut world, 0, 512 << 10);
    open(&mut world);
    let probes = count(&world, 0, Counter::TailProbes);
    lose(&mut world, |_, seen| seen < 2);
    let took = send(&mut world, 0, 512 << 10);
    finish(&mut world);
    // No round trip more than if the second had told of the first.
    assert!(took < Span(2 * usual.0 + Span::us(30).0), "{took:?}, usually {usual:?}");
    assert_eq!(count(&world, 0, Counter::TailProbes), probes);
    assert_eq!(count(&world, 0, Counter::FramesResent), 9);
}

/// Short frames pass, and so do questions and their answers, but no long frames, nor slices of them: that a question is answered does
/// not make the sender try harder.
#[test]
fn answers_to_questions_are_no_progress() {
    let mut world = quick(false);
    world.network_mut().set_script(Some(Box::new(|_, _, _, frame| {
        Some(Verdict { drop: frame.len() > 1_000, ..Verdict::default() })
    })));
    world.receive(1, Want::ANY, 64 << 10);
    let message = world.send(MessageSpec::plain(0, 1, 64 << 10));
    world.run(Span::ms(10));
    assert!(!world.arrived(message));
    let resent = count(&world, 0, Counter::FramesResent);
    assert!(resent <= 20, "{resent} resent in 10 ms");
    let timeouts = count(&world, 0, Counter::Timeouts);
    assert!(timeouts >= 3, "the timer ran out {timeouts} times");
    assert_eq!(count(&world, 0, Counter::LongClosed), 1, "the way is closed");
}

/// A `not-ready` for a first frame takes the second path, which is slower: that its train came without it is not told by the
/// other, as if it had been lost.
#[test]
fn refused_trains_do_not_close_the_way() {
    for us in [2, 6, 20] {
        // Who knows no grants goes on as if there were room.
        let profile = Profile { unasked_bytes_max: u64::MAX, ..Profile::DEFAULT };
        let mut world = quick_but(true, Span::us(us), profile);
        // Nobody waits for them, so they fill the pool.
        for _ in 0..200 {
            world.send(MessageSpec::plain(0, 1, 64 << 10));
            world.pass(Span::us(60));
        }
        world.pass(Span::ms(5));
        assert!(count(&world, 0, Counter::NotReadyReceived) > 50);
        assert_eq!(count(&world, 0, Counter::LongClosed), 0, "a path of {us} us");
    }
}

/// Small frames of the other path have used up all numbers behind a lost one: it is resent, as no question could be asked.
#[test]
fn without_a_number_for_the_question_the_frame_is_resent() {
    let mut world = quick(true);
    let mut long = 0;
    lose(&mut world, move |header, _| {
        long += usize::from(header.length > 10_000);
        header.length > 10_000 && long == 2
    });
    world.receive(1, Want::ANY, 64 << 10);
    let message = world.send(MessageSpec::plain(0, 1, 64 << 10));
    for _ in 0..400 {
        world.receive(1, Want::ANY, 64);
        world.send(MessageSpec::plain(0, 1, 64));
    }
    let took = wait(&mut world, Span::ms(1_000), |world| world.arrived(message));
    assert!(took < Span::us(400), "{took:?}");
    finish(&mut world);
}
