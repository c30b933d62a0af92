//! Two links of different MTU to one node: by each leave frames of its own length, and what one takes is nothing to the other (`HELLO-7`,
//! `LIMIT-1`, `SLICE-1`).

use crate::support::{acquainted_setup, count, finish, wait};
use emp_firmware::{Counter, LinkIndex, LinkInfo, Profile, Span};
use emp_model::{FabricSetup, MessageSpec, NodeSetup, Want, World, WorldSetup};
use emp_wire::Kind;

/// Trains of so many frames of the shorter length take the second link.
const BULK_FRAMES: u32 = 5;

const FIRST: LinkIndex = LinkIndex(0);
const BULK: LinkIndex = LinkIndex(1);

/// Frames of the two cases: the long trains take the link of the long frames, or the other.
const CASES: [[usize; 2]; 2] = [[1_450, 9_000], [9_000, 1_450]];

const BOTH_WAYS: [(usize, usize); 2] = [(0, 1), (1, 0)];

/// Two nodes with two links; frames that are too long for one are lost there. Each has found the other's second path.
fn two_paths(bytes: [usize; 2]) -> World {
    let mut links = bytes.map(|bytes| LinkInfo::new(bytes, true)).to_vec();
    emp_model::divide(&mut links, 1, BULK_FRAMES, BULK_FRAMES);
    let node =
        |index| NodeSetup { links: links.clone(), ..NodeSetup::new(index, Profile::DEFAULT) };
    let fabric = || FabricSetup { latency: Span::us(2), ..FabricSetup::lan() };
    let mut world = acquainted_setup(WorldSetup {
        fabrics: vec![fabric(), fabric()],
        nodes: vec![node(0), node(1)],
        seed: 5,
    });
    for (fabric, bytes) in bytes.into_iter().enumerate() {
        BOTH_WAYS.iter().for_each(|(from, to)| {
            world.network_mut().lose_longer(fabric, *from, *to, bytes);
        });
    }
    for (from, to) in BOTH_WAYS {
        exchange(&mut world, from, to, 100_000);
    }
    for node in 0..2 {
        assert_eq!(lengths(&world, node), bytes.map(Some), "node {node}");
    }
    world
}

/// The largest frame by each link to the other node, if there is a path.
fn lengths(world: &World, node: usize) -> [Option<usize>; 2] {
    let paths = world.firmware(node).paths(world.id(1 - node));
    [FIRST, BULK]
        .map(|link| paths.iter().find(|path| path.link == link).map(|path| path.frame_bytes_max))
}

fn exchange(world: &mut World, from: usize, to: usize, bytes: u64) {
    world.receive(to, Want::ANY, bytes);
    world.send(MessageSpec::plain(from, to, bytes));
    finish(world);
}

/// Bytes of the longest frame of a message or block that a node sent by a link.
fn longest(world: &World, node: usize, link: LinkIndex) -> usize {
    let kinds = [Kind::Message, Kind::Data, Kind::Block, Kind::Slice];
    let lines = world.network().trace().lines().iter().filter(|line| {
        line.from == node && line.link == link && kinds.iter().any(|kind| line.is(*kind))
    });
    lines.map(|line| line.bytes).max().unwrap_or(0)
}

fn sum(world: &World, counter: Counter) -> u64 {
    (0..2).map(|node| count(world, node, counter)).sum()
}

/// `PATH-11`.
#[test]
fn each_path_has_frames_of_its_own_length() {
    for bytes in CASES {
        let mut world = two_paths(bytes);
        let before = sum(&world, Counter::FramesSent);
        for (from, to) in BOTH_WAYS {
            world.network_mut().trace_mut().clear();
            // Three frames of the shorter length are no bulk, and one of the longer.
            exchange(&mut world, from, to, 3 * 1_400);
            exchange(&mut world, from, to, 1 << 20);
            assert_eq!(longest(&world, from, FIRST), bytes[0].min(3 * 1_400 + 60), "{bytes:?}");
            assert_eq!(longest(&world, from, BULK), bytes[1], "{bytes:?}");
        }
        let frames = sum(&world, Counter::FramesSent) - before;
        let most = 2 * ((1 << 20) / (bytes[1] as u64 - 32) + 120);
        assert!(frames < most, "{frames} frames for two megabytes, {bytes:?}");
        let nothing = [Counter::FramesSliced, Counter::FramesResent, Counter::PeersLimited];
        assert_eq!(nothing.map(|counter| sum(&world, counter)), [0; 3], "{bytes:?}");
    }
}

/// One of the paths dies in the middle of a message: what has its number leaves in slices if the other takes shorter frames, and nothing
/// is longer than the path that it takes. It comes back, and is used as it was (`PATH-10`).
#[test]
fn what_was_cut_for_one_path_goes_on_by_the_other() {
    for bytes in CASES {
        for (dead, length) in [(1, 4 << 20), (1, 40_000), (0, 4_000)] {
            let mut world = two_paths(bytes);
            let cut = |world: &mut World, cut: bool| {
                BOTH_WAYS.iter().for_each(|(from, to)| {
                    world.network_mut().cut(dead, *from, *to, cut);
                });
            };
            world.receive(1, Want::ANY, length);
            let in_the_middle = length > 100_000;
            if !in_the_middle {
                cut(&mut world, true);
            }
            let message = world.send(MessageSpec::plain(0, 1, length));
            if in_the_middle {
                world.pass(Span::us(300));
                cut(&mut world, true);
            }
            world.network_mut().trace_mut().clear();
            let what = format!("{length} bytes, link {dead} dead, {bytes:?}");
            let took = wait(&mut world, Span::ms(2_000), |world| world.arrived(message));
            assert!(took < Span::ms(400), "{} µs, {what}", took.as_us());
            finish(&mut world);
            let narrow = bytes[dead] > bytes[1 - dead];
            let sliced = sum(&world, Counter::FramesSliced);
            let long = length > bytes[1 - dead] as u64;
            assert_eq!(sliced > 0, narrow && long, "{sliced} frames in slices, {what}");
            for node in 0..2 {
                let other = LinkIndex(1 - dead as u8);
                assert!(longest(&world, node, other) <= bytes[1 - dead], "{what}");
            }
            cut(&mut world, false);
            for _ in 0..20 {
                world.pass(Span::ms(500));
                BOTH_WAYS.iter().for_each(|(from, to)| exchange(&mut world, *from, *to, 100_000));
            }
            for node in 0..2 {
                assert_eq!(lengths(&world, node), bytes.map(Some), "node {node}, {what}");
            }
            world.network_mut().trace_mut().clear();
            exchange(&mut world, 0, 1, 1 << 20);
            assert_eq!(longest(&world, 0, BULK), bytes[1], "{what}");
            assert_eq!(sum(&world, Counter::PeersLost), 0, "{what}");
        }
    }
}

/// The MTU of one interface falls at one end, and rises again: frames by the other link are as long as ever.
#[test]
fn a_limit_concerns_its_link_alone() {
    for bytes in CASES {
        for (link, end) in [(FIRST, 0), (FIRST, 1), (BULK, 0), (BULK, 1)] {
            let mut world = two_paths(bytes);
            let at = usize::from(link.0);
            let usual = bytes.map(Some);
            world.frames_may_shrink();
            world.poke(end, |firmware, _, now| {
                assert!(firmware.limit_frame_bytes(now, link, 1_000));
            });
            finish(&mut world);
            let mut lowered = usual;
            lowered[at] = Some(1_000);
            assert_eq!([lengths(&world, 0), lengths(&world, 1)], [lowered; 2], "{bytes:?} {at}");
            assert_eq!(sum(&world, Counter::PeersLimited), 1, "the other end is told");
            world.network_mut().trace_mut().clear();
            for (from, to) in BOTH_WAYS {
                // Three frames of the shortest length, which are no bulk.
                exchange(&mut world, from, to, 2_500);
                exchange(&mut world, from, to, 1 << 20);
                let other = LinkIndex(1 - link.0);
                assert_eq!(longest(&world, from, link), 1_000, "{bytes:?} {at}");
                let whole = if other == FIRST { 2_500 + 60 } else { usize::MAX };
                assert_eq!(longest(&world, from, other), bytes[1 - at].min(whole));
            }
            world.pass(Span::ms(2));
            world.poke(end, |firmware, _, now| {
                assert!(firmware.raise_frame_bytes(now, link, usize::MAX));
            });
            finish(&mut world);
            assert_eq!([lengths(&world, 0), lengths(&world, 1)], [usual; 2], "{bytes:?} {at}");
        }
    }
}

/// Both interfaces at once, as where a whole host is set up anew.
#[test]
fn limits_of_both_links_are_told_at_once() {
    for bytes in CASES {
        let mut world = two_paths(bytes);
        world.frames_may_shrink();
        let set = |world: &mut World, bytes: [usize; 2]| {
            world.pass(Span::ms(2));
            world.poke(0, |firmware, _, now| {
                for (link, bytes) in [FIRST, BULK].into_iter().zip(bytes) {
                    let changed = firmware.limit_frame_bytes(now, link, bytes)
                        || firmware.raise_frame_bytes(now, link, bytes);
                    assert!(changed);
                }
            });
            // As a host repeats it.
            for _ in 0..5 {
                finish(world);
                world.pass(Span::ms(10));
                world.poke(0, |firmware, _, now| {
                    [FIRST, BULK].into_iter().for_each(|link| firmware.announce(now, link));
                });
            }
            finish(world);
        };
        for now in [[700, 1_200], [1_200, 700], bytes] {
            set(&mut world, now);
            assert_eq!([lengths(&world, 0), lengths(&world, 1)], [now.map(Some); 2]);
        }
    }
}

/// Long frames are lost on the way by one link, and nobody says so: that is found out of that link, and only shorter ones leave by it.
#[test]
fn lengths_are_found_by_path() {
    for bytes in CASES {
        let mut world = two_paths(bytes);
        let at = usize::from(BULK.0);
        BOTH_WAYS.iter().for_each(|(from, to)| {
            world.network_mut().lose_longer(at, *from, *to, 1_200);
        });
        // The other path would take over if it worked meanwhile.
        BOTH_WAYS.iter().for_each(|(from, to)| world.network_mut().cut(0, *from, *to, true));
        world.receive(1, Want::ANY, 100_000);
        let message = world.send(MessageSpec::plain(0, 1, 100_000));
        wait(&mut world, Span::ms(3_000), |world| world.arrived(message));
        BOTH_WAYS.iter().for_each(|(from, to)| world.network_mut().cut(0, *from, *to, false));
        for _ in 0..20 {
            world.pass(Span::ms(500));
            exchange(&mut world, 0, 1, 100_000);
        }
        let [first, bulk] = lengths(&world, 0);
        assert_eq!(first, Some(bytes[0]), "{bytes:?}");
        assert!(bulk.is_some_and(|bulk| (1_168..=1_200).contains(&bulk)), "{bulk:?} {bytes:?}");
        let resent = count(&world, 0, Counter::FramesResent);
        exchange(&mut world, 0, 1, 1 << 20);
        assert_eq!(count(&world, 0, Counter::FramesResent), resent, "{bytes:?}");
    }
}

/// A train of long frames goes on by the other path in slices, and these are longer than what gets through there: that is found out as for any frames.
#[test]
fn slices_that_are_lost_are_looked_into() {
    let mut world = two_paths([1_450, 9_000]);
    world.receive(1, Want::ANY, 1 << 20);
    let message = world.send(MessageSpec::plain(0, 1, 1 << 20));
    world.pass(Span::us(100));
    BOTH_WAYS.iter().for_each(|(from, to)| {
        world.network_mut().cut(1, *from, *to, true);
        world.network_mut().lose_longer(0, *from, *to, 1_200);
    });
    let took = wait(&mut world, Span::ms(5_000), |world| world.arrived(message));
    assert!(took < Span::ms(4_000), "{} µs", took.as_us());
    assert!(sum(&world, Counter::FramesSliced) > 0);
    let first = lengths(&world, 0)[0];
    assert!(first.is_some_and(|first| (1_168..=1_200).contains(&first)), "{first:?}");
}

/// Beside a link whose frames are longer, as processes of one machine have one, messages that leave as one long frame leave whole.
#[test]
fn what_a_link_cuts_is_not_cut_before() {
    let mut long = LinkInfo::new(1_472, true);
    (long.segments, long.long_frames) = (true, true);
    let links = vec![LinkInfo::new(16 << 10, true), long];
    let node =
        |index| NodeSetup { links: links.clone(), ..NodeSetup::new(index, Profile::DEFAULT) };
    let fabric = || FabricSetup { latency: Span::us(2), piece_bytes: 1_472, ..FabricSetup::lan() };
    let setup =
        WorldSetup { fabrics: vec![fabric(), fabric()], nodes: vec![node(0), node(1)], seed: 5 };
    let mut world = World::new(setup);
    // They do not meet by the first.
    BOTH_WAYS.iter().for_each(|(from, to)| world.network_mut().cut(0, *from, *to, true));
    for _ in 0..3 {
        BOTH_WAYS.iter().for_each(|(from, to)| exchange(&mut world, *from, *to, 100_000));
    }
    let (frames, long) = (sum(&world, Counter::FramesSent), sum(&world, Counter::FramesLong));
    assert!(long > 0, "long frames get through");
    for (from, to) in BOTH_WAYS {
        exchange(&mut world, from, to, 8_000);
    }
    assert_eq!(sum(&world, Counter::FramesLong) - long, 2);
    assert_eq!(sum(&world, Counter::FramesSent) - frames, 2, "and what acknowledges them");
    assert_eq!(sum(&world, Counter::FramesSliced), 0);
}
