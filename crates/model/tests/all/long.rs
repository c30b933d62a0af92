//! Frames longer than the MTU, by links that carry them in pieces (`LONG-1` to `LONG-5`).

use crate::support::{acquainted_setup, count, finish, wait};
use emp_firmware::{Counter, LinkInfo, Profile, Span};
use emp_model::{
    Action, FabricSetup, FaultPlan, MessageSpec, NodeSetup, Pace, Ppm, Rates, Verdict, Want, World,
    WorldSetup,
};
use emp_wire::{Flags, Header};

const PIECE_BYTES: usize = 1_472;

/// Two nodes on one link that cuts long frames, or on two of which the second does and is for bulk.
fn setup(two_paths: bool) -> WorldSetup {
    setup_of(2, PIECE_BYTES, two_paths)
}

fn setup_of(nodes: usize, piece_bytes: usize, two_paths: bool) -> WorldSetup {
    let mut long = LinkInfo::new(piece_bytes, !two_paths);
    (long.segments, long.long_frames) = (true, true);
    let mut links =
        if two_paths { vec![LinkInfo::new(piece_bytes, true), long] } else { vec![long] };
    if two_paths {
        emp_model::divide(&mut links, 1, 5, 3);
    }
    let fabric = |latency| FabricSetup { latency, piece_bytes, ..FabricSetup::lan() };
    let fabrics = links.iter().map(|_| fabric(Span::us(5))).collect();
    let node =
        |index| NodeSetup { links: links.clone(), ..NodeSetup::new(index, Profile::DEFAULT) };
    WorldSetup { fabrics, nodes: (0..nodes).map(node).collect(), seed: 9 }
}

fn exchange(world: &mut World, from: usize, to: usize, bytes: u64) {
    world.receive(to, Want::ANY, bytes);
    world.send(MessageSpec::plain(from, to, bytes));
    finish(world);
}

/// A world in which long frames are known to get through both ways.
fn open(two_paths: bool) -> World {
    open_of(setup(two_paths))
}

fn open_of(setup: WorldSetup) -> World {
    let mut world = acquainted_setup(setup);
    for (from, to) in [(0, 1), (1, 0)] {
        for _ in 0..3 {
            exchange(&mut world, from, to, 100_000);
        }
        assert_eq!(count(&world, from, Counter::LongOpened), 1);
    }
    world
}

fn sum(world: &World, counter: Counter) -> u64 {
    (0..2).map(|node| count(world, node, counter)).sum()
}

#[test]
fn a_megabyte_takes_few_frames() {
    for two_paths in [false, true] {
        let mut world = open(two_paths);
        let before = (count(&world, 0, Counter::FramesSent), count(&world, 0, Counter::FramesLong));
        exchange(&mut world, 0, 1, 1 << 20);
        let frames = count(&world, 0, Counter::FramesSent) - before.0;
        let long = count(&world, 0, Counter::FramesLong) - before.1;
        assert!((17..=20).contains(&long) && frames <= long + 4, "{long} of {frames}");
        assert_eq!(
            (sum(&world, Counter::FramesResent), sum(&world, Counter::FramesSliced)),
            (0, 0)
        );
        assert_eq!(sum(&world, Counter::LongClosed), 0);
    }
}

/// What was lost before they were known to get through narrows the window; the question that came through shows room for one.
#[test]
fn losses_of_usual_frames_before_it_opened_keep_none_back() {
    let mut world = acquainted_setup(setup(false));
    let mut seen = 0;
    world.network_mut().set_script(Some(Box::new(move |_, from, _, frame| {
        let (header, _) = Header::parse(frame).ok()?;
        if from != 0 || !header.kind.sequenced() {
            return None;
        }
        seen += 1;
        let lost = (2..20).contains(&seen);
        lost.then(|| Verdict { drop: true, ..Verdict::default() })
    })));
    exchange(&mut world, 0, 1, 60_000);
    world.network_mut().set_script(None);
    assert_eq!(count(&world, 0, Counter::LongOpened), 1);
    assert!(count(&world, 0, Counter::FramesResent) > 0);
    let before = count(&world, 0, Counter::FramesLong);
    exchange(&mut world, 0, 1, 1 << 20);
    let long = count(&world, 0, Counter::FramesLong) - before;
    assert!(long >= 17, "{long}");
}

/// What several long frames hold leaves whole, in frames of one length but for the last.
#[test]
fn some_hundred_kilobytes_leave_unasked() {
    for two_paths in [false, true] {
        for (bytes, frames) in [(100_000, 2), (192 << 10, 4), (512 << 10, 9), (513 << 10, 0)] {
            let mut world = open(two_paths);
            world.pass(Span::ms(20));
            let before = sum(&world, Counter::FramesSent);
            let pulls = sum(&world, Counter::PullsSent);
            exchange(&mut world, 0, 1, bytes);
            let sent = sum(&world, Counter::FramesSent) - before;
            if frames > 0 {
                assert_eq!(sent, frames, "{bytes} bytes");
            }
            let asked = sum(&world, Counter::PullsSent) > pulls;
            assert_eq!(asked, frames == 0, "{bytes} bytes");
        }
    }
}

/// Messages that nobody waits for leave half of the pool to shorter ones, and the next come in parts.
#[test]
fn unexpected_long_messages_leave_room_for_others() {
    let mut world = open(false);
    world.pass(Span::ms(20));
    let unready = |world: &World| count(world, 1, Counter::NotReadySent);
    let long: Vec<_> = (0..12)
        .map(|_| {
            let message = world.send(MessageSpec::plain(0, 1, 500_000));
            world.pass(Span::ms(1));
            message
        })
        .collect();
    // Of 4 MB two have four of them; the fifth is refused its bytes, and those that come then have sent little.
    assert_eq!(unready(&world), 1);
    let short = world.send(MessageSpec::plain(0, 1, 60_000));
    world.pass(Span::ms(1));
    assert_eq!(unready(&world), 1, "no room for a shorter one");
    for message in long.into_iter().chain([short]) {
        world.receive(1, Want::ANY, 500_000);
        wait(&mut world, Span::ms(100), |world| world.arrived(message));
    }
    finish(&mut world);
}

/// A sender that is ahead of its receiver does not have each long frame answered by itself: an answer takes its receiver as long as a fifth of a
/// frame.
#[test]
fn a_full_window_asks_once() {
    let mut world = open(false);
    world.network_mut().trace_mut().clear();
    for _ in 0..8 {
        world.receive(1, Want::ANY, 1 << 20);
        world.send(MessageSpec::plain(0, 1, 1 << 20));
    }
    finish(&mut world);
    let asks = |header: Header| header.flags.has(Flags::ACK_REQUEST);
    let asked = world.network().trace().count(0, |line| line.header.is_some_and(asks));
    // Of 144 long frames: a window that queues 120 µs at 10 Gb/s holds two or three of them, and each asks once.
    assert!((16..=72).contains(&asked), "{asked} requests");
}

/// Every length around what one frame holds, and what is too scattered for one.
#[test]
fn messages_of_every_length_arrive() {
    let mut world = open(false);
    for bytes in
        [1_400, 1_411, 1_412, 1_413, 2_000, 8_192, 8_193, 24_576, 49_151, 49_152, 65_536, 65_537]
    {
        exchange(&mut world, 0, 1, bytes);
    }
    for around in [61_440u64, 86_016, 122_880, 400_000] {
        for bytes in around - 2..around + 3 {
            exchange(&mut world, 1, 0, bytes);
        }
    }
    assert_eq!(sum(&world, Counter::FramesSliced), 0);
}

/// Those that are copied, and so complete at once, leave in one long frame from as many usual ones on as that is sooner.
#[test]
fn copied_messages_take_one_frame() {
    for (two_paths, least) in [(false, 2), (true, 3)] {
        let mut world = open(two_paths);
        for bytes in [1_000, 1_412, 1_413, 1_500, 2_850, 2_851, 4_096, 8_191, 8_192] {
            let before = (sum(&world, Counter::FramesSent), sum(&world, Counter::FramesLong));
            let message = world.send(MessageSpec::plain(0, 1, bytes));
            world.receive(1, Want::ANY, bytes);
            finish(&mut world);
            assert!(world.arrived(message));
            let usual = if bytes <= 1_412 { 1 } else { (bytes + 44).div_ceil(1_440) };
            let sent = sum(&world, Counter::FramesSent) - before.0;
            let long = sum(&world, Counter::FramesLong) - before.1;
            let whole = usual >= least;
            let frames = if whole { 1 } else { usual };
            assert_eq!((sent, long), (frames, whole.into()), "{bytes} bytes");
        }
        assert_eq!(sum(&world, Counter::FramesSliced), 0);
    }
}

/// Longer ones are copied, and complete at once, while little else is under way.
#[test]
fn messages_complete_at_once_while_little_is_under_way() {
    let mut world = open(true);
    for (bytes, lone) in [(33 << 10, true), ((33 << 10) + 1, false)] {
        let copied = count(&world, 0, Counter::BytesCopied);
        let messages = [0; 4].map(|_| {
            world.receive(1, Want::ANY, bytes);
            world.send(MessageSpec::plain(0, 1, bytes))
        });
        finish(&mut world);
        assert!(messages.iter().all(|message| world.arrived(*message)));
        let copied = count(&world, 0, Counter::BytesCopied) - copied;
        // Two of them are more than 64 KB.
        let expected = if lone { 2 * 2 * bytes } else { 0 };
        assert_eq!(copied, expected, "{bytes}: the first two, into the frame and the pool");
    }
}

/// Both ends send a few messages and then wait for the other's: these bring the acknowledgements.
#[test]
fn who_exchanges_messages_acknowledges_with_them() {
    for two_paths in [false, true] {
        let mut world = open(two_paths);
        let before = sum(&world, Counter::AcksSent);
        let (rounds, batch, bytes) = (40, 5, 10_000);
        for _ in 0..rounds {
            for _ in 0..batch {
                for (from, to) in [(0, 1), (1, 0)] {
                    world.receive(to, Want::ANY, bytes);
                    world.send(MessageSpec::plain(from, to, bytes));
                }
                // As long as a post takes, in which each leaves.
                world.run(Span::us(3));
            }
            world.run(Span::us(50));
        }
        finish(&mut world);
        let (acks, messages) = (sum(&world, Counter::AcksSent) - before, 2 * rounds * batch);
        // Two of three where only the first of each five is copied.
        assert!(acks < messages / 3, "{acks} acknowledgements for {messages} messages");
    }
}

/// They are sent again out of the copy, whole or, where that does not arrive any more, in slices.
#[test]
fn copied_messages_survive_losses() {
    for two_paths in [false, true] {
        let mut world = open(two_paths);
        let rates = Rates { drop: Ppm(50_000), ..Rates::default() };
        let fabric = usize::from(two_paths);
        world.network_mut().set_faults(fabric, FaultPlan::uniform(rates));
        let long = count(&world, 0, Counter::FramesLong);
        for round in 0..200 {
            // Some alone, some behind each other.
            for _ in 0..=round % 4 {
                world.receive(1, Want::ANY, 6_000);
                world.send(MessageSpec::plain(0, 1, 6_000));
            }
            finish(&mut world);
        }
        assert!(sum(&world, Counter::FramesResent) > 20);
        assert!(count(&world, 0, Counter::FramesLong) > long + 100);
        world.network_mut().set_faults(fabric, FaultPlan::default());
        world.network_mut().set_pieces(fabric, PIECE_BYTES, false);
        for _ in 0..50 {
            exchange(&mut world, 0, 1, 6_000);
        }
        assert!(sum(&world, Counter::FramesSliced) > 0 || sum(&world, Counter::LongClosed) > 0);
    }
}

/// One piece of a thousand is lost: one long frame of 24. They stay, and little is sent twice.
#[test]
fn losses_are_repaired() {
    for two_paths in [false, true] {
        let mut world = open(two_paths);
        let rates = Rates { drop: Ppm(1_000), ..Rates::default() };
        let fabric = usize::from(two_paths);
        world.network_mut().set_faults(fabric, FaultPlan::uniform(rates));
        let before = world.network().totals().dropped;
        for _ in 0..60 {
            exchange(&mut world, 0, 1, 2 << 20);
        }
        let (lost, resent) =
            (world.network().totals().dropped - before, sum(&world, Counter::FramesResent));
        assert!(lost > 20 && resent <= 2 * lost + 10, "{lost} lost, {resent} resent");
        assert_eq!(sum(&world, Counter::LongClosed), 0);
    }
}

/// Where pieces are not put together no message waits long for that: frames are as short as ever.
#[test]
fn a_path_that_does_not_join_pieces_gets_none() {
    let mut setup = setup(false);
    setup.fabrics[0].joins_pieces = false;
    let mut world = acquainted_setup(setup);
    for _ in 0..10 {
        exchange(&mut world, 0, 1, 1 << 20);
        world.pass(Span::ms(100));
    }
    assert_eq!((sum(&world, Counter::LongOpened), sum(&world, Counter::FramesLong)), (0, 0));
    assert_eq!(sum(&world, Counter::FramesResent), 0);
    // Five of the first search, then at 200, 600 and 1,400 ms or later.
    let dropped = world.network().totals().dropped;
    assert!((5..=25).contains(&dropped), "{dropped} questions");
}

/// A path that ceases to join pieces in the middle of a message: what was cut leaves in slices, what comes then is short.
/// When it joins them again they are long again.
#[test]
fn a_path_may_cease_to_join_pieces() {
    for two_paths in [false, true] {
        let mut world = open(two_paths);
        let fabric = usize::from(two_paths);
        world.receive(1, Want::ANY, 8 << 20);
        let message = world.send(MessageSpec::plain(0, 1, 8 << 20));
        world.pass(Span::us(300));
        world.network_mut().set_pieces(fabric, PIECE_BYTES, false);
        wait(&mut world, Span::ms(3_000), |world| world.arrived(message));
        finish(&mut world);
        assert_eq!(count(&world, 0, Counter::LongClosed), 1);
        assert!(count(&world, 0, Counter::FramesSliced) > 0);
        let long = count(&world, 0, Counter::FramesLong);
        exchange(&mut world, 0, 1, 1 << 20);
        assert_eq!(count(&world, 0, Counter::FramesLong), long);
        world.network_mut().set_pieces(fabric, PIECE_BYTES, true);
        for _ in 0..4 {
            world.pass(Span::ms(500));
            exchange(&mut world, 0, 1, 1 << 20);
        }
        assert_eq!(count(&world, 0, Counter::LongOpened), 2);
        assert!(count(&world, 0, Counter::FramesLong) > long);
    }
}

/// What leaves in slices while the way is closed is lost often, here. That says nothing of long frames: when they are found to get
/// through again they are used, and stay.
#[test]
fn losses_of_slices_do_not_close_the_way_again() {
    for round in 0..4 {
        let mut setup = setup(false);
        // Where one long frame takes longer than a window may queue, there are none.
        setup.fabrics[0].bits_per_second = 10_000_000_000;
        let mut world = open_of(setup);
        world.receive(1, Want::ANY, 64 << 20);
        let message = world.send(MessageSpec::plain(0, 1, 64 << 20));
        world.pass(Span::ms(3));
        world.network_mut().set_pieces(0, PIECE_BYTES, false);
        wait(&mut world, Span::ms(3_000), |world| count(world, 0, Counter::LongClosed) == 1);
        // Of frames of 42 slices, three of four.
        let rates = Rates { drop: Ppm::percent(3), ..Rates::default() };
        world.network_mut().set_faults(0, FaultPlan::uniform(rates));
        world.pass(Span::ms(60 + 17 * round));
        world.network_mut().set_pieces(0, PIECE_BYTES, true);
        wait(&mut world, Span::ms(30_000), |world| count(world, 0, Counter::LongOpened) == 2);
        world.network_mut().set_faults(0, FaultPlan::default());
        assert!(count(&world, 0, Counter::FramesSliced) > 3 && !world.arrived(message));
        finish(&mut world);
        assert_eq!(count(&world, 0, Counter::LongClosed), 1, "round {round}");
    }
}

/// On a narrow path that loses one frame of fifty hardly a frame of 120 slices comes whole in one go. What has come of it is kept, so the
/// next copies complete it.
#[test]
fn frames_of_many_slices_arrive_in_several_copies() {
    let piece_bytes = 576;
    for seed in 0..8 {
        let mut setup = setup_of(2, piece_bytes, false);
        setup.seed = seed;
        let mut world = open_of(setup);
        world.receive(1, Want::ANY, 1 << 20);
        let message = world.send(MessageSpec::plain(0, 1, 1 << 20));
        world.pass(Span::us(100));
        world.network_mut().set_pieces(0, piece_bytes, false);
        let rates = Rates { truncate: Ppm::percent(2), ..Rates::default() };
        world.network_mut().set_faults(0, FaultPlan::uniform(rates));
        let took = wait(&mut world, Span::ms(3_000), |world| world.arrived(message));
        assert!(took < Span::ms(1_000), "seed {seed}: {} ms", took.as_us() / 1_000);
        assert!(count(&world, 1, Counter::FramesAssembled) > 0, "nothing was cut");
        finish(&mut world);
    }
}

/// A frame that is more slices than any batch holds leaves in several copies, each of other slices, and nobody else waits for that.
#[test]
fn slices_that_fit_no_batch_hold_nobody_up() {
    let piece_bytes = 400;
    let mut world = open_of(setup_of(3, piece_bytes, false));
    world.receive(1, Want::ANY, 8 << 20);
    let cut = world.send(MessageSpec::plain(0, 1, 8 << 20));
    world.pass(Span::us(300));
    world.network_mut().set_pieces(0, piece_bytes, false);
    wait(&mut world, Span::ms(100), |world| count(world, 0, Counter::FramesSliced) > 0);
    for bytes in [10, 1_000, 20_000, 200_000] {
        world.receive(2, Want::ANY, bytes);
        let message = world.send(MessageSpec::plain(0, 2, bytes));
        let took = wait(&mut world, Span::ms(500), |world| world.arrived(message));
        assert!(took < Span::ms(1), "{} µs for {bytes} bytes", took.as_us());
    }
    let took = wait(&mut world, Span::ms(4_000), |world| world.arrived(cut));
    assert!(took < Span::ms(2_000), "{} ms", took.as_us() / 1_000);
    // A caller that asks again as long as there is something would do so for ever, or let others wait for the next timer.
    finish(&mut world);
    let busy = world.firmware(0).has_transmit(world.now());
    assert!(!busy, "what cannot leave counts as waiting to");
}

/// What is asked of a sender that does not answer, or hardly, leaves others room to be asked (`PULL-2`).
#[test]
fn a_sender_that_hardly_runs_holds_no_other_up() {
    let slow = Pace { turn_interval: Span::ms(20), ..Pace::FAST };
    for (pace, bytes, limit) in [(None, 4 << 20, Span::ms(6)), (Some(slow), 16 << 20, Span::ms(25))]
    {
        let mut setup = setup_of(3, PIECE_BYTES, false);
        setup.seed = 11;
        let mut world = open_of(setup);
        (0..3).for_each(|_| exchange(&mut world, 2, 0, 100_000));
        assert_eq!(count(&world, 2, Counter::LongOpened), 1);
        world.receive(0, Want::ANY, 32 << 20);
        world.send(MessageSpec::plain(1, 0, 32 << 20));
        world.pass(Span::ms(1));
        match pace {
            None => world.apply(Action::Pause { node: 1, span: Span::ms(400) }),
            Some(pace) => world.set_pace(1, pace),
        }
        world.pass(Span::ms(1));
        world.receive(0, Want::ANY, bytes);
        let message = world.send(MessageSpec::plain(2, 0, bytes));
        let took = wait(&mut world, Span::ms(20_000), |world| world.arrived(message));
        assert!(took < limit, "{} µs for {bytes} bytes", took.as_us());
        finish(&mut world);
    }
}

/// A receiver that does not run for a while answers nothing, short or long: its way stays open.
#[test]
fn a_peer_that_does_not_run_is_no_reason() {
    for two_paths in [false, true] {
        let mut world = open(two_paths);
        for pause_ms in [3, 10, 40, 200] {
            world.receive(1, Want::ANY, 8 << 20);
            world.send(MessageSpec::plain(0, 1, 8 << 20));
            world.pass(Span::us(700));
            world.apply(Action::Pause { node: 1, span: Span::ms(pause_ms) });
            finish(&mut world);
        }
        assert_eq!(sum(&world, Counter::LongClosed), 0, "two paths: {two_paths}");
    }
}

/// A profile that stands for another system has frames as that has.
#[test]
fn other_systems_have_none() {
    for profile in [Profile::EMP2001, Profile::OPENMX, Profile::VMMC2] {
        let mut setup = setup(false);
        for node in &mut setup.nodes {
            node.profile = profile.clone();
        }
        let mut world = acquainted_setup(setup);
        for _ in 0..3 {
            exchange(&mut world, 0, 1, 300_000);
        }
        assert_eq!(sum(&world, Counter::LongOpened) + sum(&world, Counter::FramesLong), 0);
    }
}

/// Frames that were cut for an MTU that has fallen since are no longer than the link's usual ones, so the link does not cut them: they
/// leave in slices, though longer ones get through (`SLICE-1`, `LIMIT-1`).
#[test]
fn what_was_cut_for_a_longer_mtu_arrives_where_long_frames_get_through() {
    let mut world = open(false);
    let message = MessageSpec { pieces: 20, ..MessageSpec::plain(0, 1, 60_000) };
    world.receive(1, Want::ANY, 60_000);
    // It leaves in frames of the MTU, as it is in too many pieces, and the receiver's interface does not take them any more.
    world.apply(Action::SetMtu { node: 1, frame_bytes: Some(1_000) });
    let message = world.send(message);
    let took = wait(&mut world, Span::ms(3_000), |world| world.arrived(message));
    assert!(took < Span::ms(500), "{} ms", took.as_us() / 1_000);
    assert!(count(&world, 0, Counter::FramesSliced) > 10);
    assert_eq!(count(&world, 0, Counter::LongOpened), 1);
    finish(&mut world);
}
