//! What the scenario tests share.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod cabled;
pub mod crew;
pub mod forger;
pub mod hub;

use emp_firmware::{Counter, LinkInfo, Profile, Span};
use emp_model::{FabricSetup, MessageSpec, NodeSetup, Stop, Verdict, World, WorldSetup};
use emp_wire::{Header, Kind};

/// Nodes on a fault-free LAN, known to each other (every pair has exchanged a message), recording frames.
pub fn acquainted(nodes: usize, profile: &Profile) -> World {
    acquainted_setup(WorldSetup::lan(nodes, profile))
}

/// The same with a world of one's own.
pub fn acquainted_setup(setup: WorldSetup) -> World {
    let nodes = setup.nodes.len();
    let mut world = World::new(setup);
    for from in 0..nodes {
        for to in 0..nodes {
            if from != to {
                world.receive(to, emp_model::Want::ANY, 0);
                world.send(MessageSpec::plain(from, to, 0));
                finish(&mut world);
            }
        }
    }
    world.network_mut().trace_mut().switch(true);
    world
}

/// Bytes of the datagrams that a long frame is cut into.
const LONG_PIECE_BYTES: usize = 1_472;

/// Two nodes on two links, of which the second carries long frames and is for bulk; such frames are known to get through.
pub fn two_paths_with_long_frames() -> World {
    let mut long = LinkInfo::new(LONG_PIECE_BYTES, false);
    (long.segments, long.long_frames) = (true, true);
    let mut links = vec![LinkInfo::new(LONG_PIECE_BYTES, true), long];
    emp_model::divide(&mut links, 1, 5, 3);
    let fabric = || FabricSetup {
        latency: Span::us(5),
        piece_bytes: LONG_PIECE_BYTES,
        ..FabricSetup::lan()
    };
    let node =
        |index| NodeSetup { links: links.clone(), ..NodeSetup::new(index, Profile::DEFAULT) };
    let setup = WorldSetup {
        fabrics: vec![fabric(), fabric()],
        nodes: (0..2).map(node).collect(),
        seed: 9,
    };
    let mut world = acquainted_setup(setup);
    for (from, to) in [(0, 1), (1, 0)] {
        for _ in 0..3 {
            world.receive(to, emp_model::Want::ANY, 100_000);
            world.send(MessageSpec::plain(from, to, 100_000));
            finish(&mut world);
        }
    }
    world
}

/// Runs until all is over and judges the run.
pub fn finish(world: &mut World) {
    settle(world);
    if let Err(what) = world.judge_finished() {
        panic!("{what}");
    }
}

/// Runs until nothing is under way.
pub fn settle(world: &mut World) {
    // Longer than any patience and back-off in these tests.
    let stop = world.run(Span::ms(120_000));
    assert_eq!(stop, Stop::Idle, "{:?}", world.violation());
}

/// Runs until `reached`; returns the virtual time that it took.
pub fn wait(world: &mut World, span: Span, reached: impl FnMut(&World) -> bool) -> Span {
    let start = world.now();
    let stop = world.run_until(span, reached);
    assert_eq!(stop, Stop::Reached, "{:?} at {:?}", world.violation(), world.now());
    world.now().since(start)
}

/// A counter of one node.
pub fn count(world: &World, node: usize, counter: Counter) -> u64 {
    world.firmware(node).counters().get(counter)
}

/// Frames of a kind that a node sent since recording began.
pub fn sent(world: &World, node: usize, kind: Kind) -> usize {
    world.network().trace().count(node, |line| line.is(kind))
}

/// Lets `choose` pick frames from one node to another, which are lost. It sees the header and how many were picked.
pub fn lose(
    world: &mut World,
    sender: usize,
    receiver: usize,
    mut choose: impl FnMut(&Header, usize) -> bool + 'static,
) {
    let mut lost = 0;
    world.network_mut().set_script(Some(Box::new(move |_, from, to, frame| {
        if (from, to) != (sender, receiver) {
            return None;
        }
        let headers = emp_wire::frames(frame).filter_map(|frame| Header::parse(frame).ok());
        let drop = headers.fold(false, |drop, (header, _)| drop | choose(&header, lost));
        lost += usize::from(drop);
        Some(Verdict { drop, ..Verdict::default() })
    })));
}

/// Loses the first frame that `choose` picks.
pub fn lose_first(
    world: &mut World,
    sender: usize,
    receiver: usize,
    mut choose: impl FnMut(&Header) -> bool + 'static,
) {
    lose(world, sender, receiver, move |header, lost| lost == 0 && choose(header));
}
