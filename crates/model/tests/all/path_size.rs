//! Something on the way loses long frames and lets short ones pass: the longest that gets through is found and said, and nothing is
//! lost (`LIMIT-3`, RFC 8899).

use crate::support::{acquainted, acquainted_setup, count, finish, wait};
use emp_firmware::{Counter, LinkInfo, Profile, Span};
use emp_model::{FabricSetup, MessageSpec, NodeSetup, Want, World, WorldSetup};

#[test]
fn the_longest_frame_that_gets_through_is_found() {
    for bytes in [1_400, 1_000, 600, 300] {
        let mut world = acquainted(2, &Profile::DEFAULT);
        world.network_mut().lose_longer(0, 0, 1, bytes);
        for length in [20_000, 200_000, 10] {
            world.receive(1, Want::ANY, length);
            let message = world.send(MessageSpec::plain(0, 1, length));
            let took = wait(&mut world, Span::ms(3_000), |world| world.arrived(message));
            assert!(took < Span::ms(1_500), "{length} bytes took {} ms", took.as_us() / 1_000);
        }
        assert_eq!(
            count(&world, 0, Counter::PathsLimited),
            1,
            "frames over {bytes} bytes are lost"
        );
        assert_eq!(count(&world, 1, Counter::PathsLimited), 0, "the other way is as it was");
        // What follows is cut to fit: nothing is lost any more.
        let before = count(&world, 0, Counter::FramesResent);
        world.receive(1, Want::ANY, 50_000);
        let message = world.send(MessageSpec::plain(0, 1, 50_000));
        wait(&mut world, Span::ms(100), |world| world.arrived(message));
        assert_eq!(count(&world, 0, Counter::FramesResent), before);
        finish(&mut world);
    }
}

#[test]
fn other_losses_are_not_taken_for_it() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    // Nothing at all gets through for a while.
    world.receive(1, Want::ANY, 20_000);
    world.network_mut().cut(0, 0, 1, true);
    let message = world.send(MessageSpec::plain(0, 1, 20_000));
    world.pass(Span::ms(1_500));
    world.network_mut().cut(0, 0, 1, false);
    wait(&mut world, Span::ms(1_000), |world| world.arrived(message));
    world.pass(Span::ms(500));
    assert_eq!(count(&world, 0, Counter::PathsLimited), 0);
    finish(&mut world);
}

/// Two nodes on a link that cuts longer frames into pieces, on whose way usual frames over 1,400 bytes are lost.
fn in_pieces() -> World {
    const PIECE_BYTES: usize = 1_472;
    let mut long = LinkInfo::new(PIECE_BYTES, true);
    (long.segments, long.long_frames) = (true, true);
    let fabrics =
        vec![FabricSetup { latency: Span::us(5), piece_bytes: PIECE_BYTES, ..FabricSetup::lan() }];
    let node = |index| NodeSetup { links: vec![long], ..NodeSetup::new(index, Profile::DEFAULT) };
    let mut world =
        acquainted_setup(WorldSetup { fabrics, nodes: vec![node(0), node(1)], seed: 9 });
    lose_over(&mut world, 1_400);
    world
}

fn lose_over(world: &mut World, bytes: usize) {
    for (from, to) in [(0, 1), (1, 0)] {
        world.network_mut().lose_longer(0, from, to, bytes);
    }
}

/// The same where a link cuts long frames into pieces, whether those are lost as usual frames are, or pass because the way is a
/// virtual switch that gets them uncut.
#[test]
fn it_is_found_where_a_link_carries_longer_frames_in_pieces() {
    for pass in [false, true] {
        let mut world = in_pieces();
        world.network_mut().pass_pieces(0, pass);
        for length in [20_000, 200_000, 10, 200_000] {
            both_ways(&mut world, length);
        }
        for node in 0..2 {
            assert_eq!(count(&world, node, Counter::PathsLimited), 1, "pieces pass: {pass}");
        }
        finish(&mut world);
    }
}

/// Long frames pass, so only trains whose last frame is a usual one tell.
#[test]
fn what_is_left_of_a_train_of_long_frames_arrives() {
    for rest in (1_300..1_500).step_by(7) {
        for length in [rest, 61_440 + rest, 2 * 61_440 + rest] {
            let mut world = in_pieces();
            world.network_mut().pass_pieces(0, true);
            lose_over(&mut world, usize::MAX);
            for _ in 0..3 {
                both_ways(&mut world, 100_000);
            }
            assert_eq!(count(&world, 0, Counter::LongOpened), 1);
            lose_over(&mut world, 1_400);
            both_ways(&mut world, length);
            both_ways(&mut world, length);
            finish(&mut world);
        }
    }
}

fn both_ways(world: &mut World, length: u64) {
    for (from, to) in [(0, 1), (1, 0)] {
        world.receive(to, Want::ANY, length);
        let message = world.send(MessageSpec::plain(from, to, length));
        let took = wait(world, Span::ms(20_000), |world| world.arrived(message));
        assert!(took < Span::ms(500), "{length} bytes took {} ms", took.as_us() / 1_000);
    }
}
