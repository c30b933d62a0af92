//! Long frames that are lost together (`LONG-4`): what follows a lost first frame is not taken, and a receiver without room
//! for an instant loses a whole window.

use crate::support::{acquainted_setup, count, finish, wait};
use emp_firmware::{Counter, LinkInfo, Profile, Span};
use emp_model::{FabricSetup, MessageSpec, NodeSetup, Verdict, Want, World, WorldSetup};

const PIECE_BYTES: usize = 1_472;

/// Two nodes on a link for long frames that has room for so many, after so much traffic that their round trips are mostly waiting.
fn busy(held: u32) -> World {
    let mut link = LinkInfo::new(PIECE_BYTES, true);
    (link.segments, link.long_frames, link.long_frames_held) = (true, true, held);
    // A window that queues 120 µs has ten of them.
    let fabric = FabricSetup {
        bits_per_second: 40_000_000_000,
        latency: Span::us(5),
        piece_bytes: PIECE_BYTES,
        ..FabricSetup::lan()
    };
    let node = |index| NodeSetup { links: vec![link], ..NodeSetup::new(index, Profile::DEFAULT) };
    let setup = WorldSetup { fabrics: vec![fabric], nodes: (0..2).map(node).collect(), seed: 3 };
    let mut world = acquainted_setup(setup);
    for _ in 0..20 {
        world.receive(1, Want::ANY, 4 << 20);
        world.send(MessageSpec::plain(0, 1, 4 << 20));
        finish(&mut world);
    }
    // Longer than a path is busy with what was.
    world.pass(Span::ms(20));
    assert_eq!(count(&world, 0, Counter::LongClosed), 0);
    world
}

/// Sends a message of which so many long frames are lost after the first `skip`; returns how long it took.
fn with_lost(world: &mut World, bytes: u64, skip: usize, lost: usize) -> Span {
    // The window is as wide as the path allows.
    world.receive(1, Want::ANY, 4 << 20);
    let opens = world.send(MessageSpec::plain(0, 1, 4 << 20));
    wait(world, Span::ms(1_000), |world| world.arrived(opens));
    let mut seen = 0;
    world.network_mut().set_script(Some(Box::new(move |_, from, _, frame| {
        if from != 0 || frame.len() < 5_000 {
            return None;
        }
        seen += 1;
        let drop = seen > skip && seen <= skip + lost;
        Some(Verdict { drop, ..Verdict::default() })
    })));
    world.receive(1, Want::ANY, bytes);
    let message = world.send(MessageSpec::plain(0, 1, bytes));
    let took = wait(world, Span::ms(1_000), |world| world.arrived(message));
    finish(world);
    world.network_mut().set_script(None);
    took
}

/// What follows it is not taken, which its sender is told: no timer is needed.
#[test]
fn a_lost_first_frame_costs_no_probe() {
    for held in [0, 64] {
        let mut world = busy(held);
        let took = with_lost(&mut world, 512 << 10, 0, 1);
        assert!(took < Span::us(2_000), "{held} held: {took:?}");
        assert_eq!(count(&world, 0, Counter::TailProbes), 0);
        assert_eq!(count(&world, 0, Counter::LongClosed), 0);
    }
}

/// One burst says little of the way, however many are lost in it.
#[test]
fn a_burst_does_not_close_the_way() {
    for (bytes, skip, lost) in
        [(512 << 10, 0, 4), (512 << 10, 0, 9), (4 << 20, 20, 4), (4 << 20, 20, 8)]
    {
        let mut world = busy(64);
        with_lost(&mut world, bytes, skip, lost);
        assert_eq!(count(&world, 0, Counter::LongClosed), 0, "{lost} of {bytes} B");
        world.pass(Span::ms(30));
        let long = count(&world, 0, Counter::FramesLong);
        with_lost(&mut world, 1 << 20, 0, 0);
        assert!(count(&world, 0, Counter::FramesLong) > long + 10, "{lost} of {bytes} B");
    }
}
