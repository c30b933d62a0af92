//! Frames a little longer than the MTU, and tails that are copied behind long frames (`LONG-3`, `LONG-4`).

use crate::support::{acquainted_setup, count, finish};
use emp_firmware::{Counter, LinkInfo, Profile, Span};
use emp_model::{
    FabricSetup, MessageSpec, NodeSetup, Pace, Stop, Verdict, Want, World, WorldSetup,
};
use emp_wire::{Header, Kind};

const PIECE_BYTES: usize = 1_472;

/// Nodes on one link that cuts long frames.
fn setup_of(nodes: usize) -> WorldSetup {
    let mut link = LinkInfo::new(PIECE_BYTES, true);
    (link.segments, link.long_frames) = (true, true);
    let latency = Span::us(5);
    let fabric = FabricSetup { latency, piece_bytes: PIECE_BYTES, ..FabricSetup::lan() };
    let node = |index| NodeSetup { links: vec![link], ..NodeSetup::new(index, Profile::DEFAULT) };
    WorldSetup { fabrics: vec![fabric], nodes: (0..nodes).map(node).collect(), seed: 9 }
}

fn exchange(world: &mut World, from: usize, to: usize, bytes: u64) {
    world.receive(to, Want::ANY, bytes);
    world.send(MessageSpec::plain(from, to, bytes));
    finish(world);
}

/// The tail of a block, of a few KB, is copied. It is resent in the turn in which another peer is asked by 60 KB, which takes the
/// batch's room for what is long.
#[test]
fn a_tail_finds_the_room_for_long_frames_taken() {
    const PEERS: usize = 12;
    let mut world = acquainted_setup(setup_of(PEERS));
    for _ in 0..4 {
        exchange(&mut world, 0, 1, 300_000);
    }
    world.set_pace(0, Pace { turn_interval: Span::ms(1), posts_at_once: false, ..Pace::FAST });
    let mut tails = 0u32;
    world.network_mut().set_script(Some(Box::new(move |_, from, to, frame| {
        let (header, _) = Header::parse(frame).ok()?;
        let tail = header.kind == Kind::Block && (3_000..4_100).contains(&frame.len());
        tails += u32::from(tail);
        let drop = (from, to) == (0, 1) && tail && tails % 2 == 1
            || to == 0 && from > 1 && header.kind == Kind::HelloReply;
        drop.then(|| Verdict { drop: true, ..Verdict::default() })
    })));
    for round in 0..300usize {
        world.receive(1, Want::ANY, 1 << 20);
        world.send(MessageSpec::plain(0, 1, 61_440 + 61_440 + 3_500));
        let to = 2 + round % (PEERS - 2);
        world.receive(to, Want::ANY, 1 << 20);
        world.send(MessageSpec::plain(0, to, 100_000));
        world.pass(Span::us(3_300 + 270 * (round as u64 % 11)));
    }
    finish(&mut world);
}

/// The way ceases to join pieces, and only messages a little longer than the MTU are sent.
#[test]
fn messages_of_two_pieces_close_a_way() {
    for bytes in [2_000u64, 1_413, 1_440, 1_472] {
        let mut world = acquainted_setup(setup_of(2));
        for _ in 0..6 {
            exchange(&mut world, 0, 1, 300_000);
        }
        world.network_mut().set_pieces(0, PIECE_BYTES, false);
        world.receive(1, Want::ANY, bytes);
        let message = world.send(MessageSpec::plain(0, 1, bytes));
        let stop = world.run_until(Span::ms(60_000), |world| world.arrived(message));
        assert_eq!((stop, count(&world, 0, Counter::PeersLost)), (Stop::Reached, 0), "{bytes}");
    }
}
