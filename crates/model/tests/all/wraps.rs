//! Numbers and times that begin again where their bits end (`SEQ-1`, `MSG-3`).

use emp_firmware::{Profile, Span, Time};
use emp_model::{MessageSpec, Stop, Want, World, WorldSetup};
use emp_wire::Kind;

/// Sends messages of all lengths until numbers and times have passed their wraps, and looks at what was on the wire.
fn passes(profile: &Profile, first: (u32, u32), began: Time) {
    let mut setup = WorldSetup::lan(2, profile);
    setup.nodes.iter_mut().for_each(|node| node.first_numbers = first);
    let mut world = World::beginning(began, setup);
    world.network_mut().trace_mut().switch(true);
    for round in 0..40 {
        for bytes in [0, 1_000, 20_000, 150_000] {
            let (from, to) = (round % 2, 1 - round % 2);
            world.receive(to, Want::ANY, bytes);
            world.send(MessageSpec::plain(from, to, bytes));
        }
        world.pass(Span::ms(1));
    }
    assert_eq!(world.run(Span::ms(10_000)), Stop::Idle, "{}", profile.name);
    assert_eq!(world.judge_finished(), Ok(()), "{}", profile.name);
    let numbers = world.network().trace().lines().iter().filter_map(|line| line.header);
    let sequenced = numbers.filter(|header| matches!(header.kind, Kind::Message | Kind::Data));
    let sequences: Vec<u32> = sequenced.map(|header| header.sequence.0).collect();
    let all = |side: bool| sequences.iter().any(|number| (*number < first.0) == side);
    assert!(all(true) && all(false), "{}: numbers did not wrap", profile.name);
}

#[test]
fn sequence_numbers_message_numbers_and_clocks_wrap() {
    for profile in Profile::ALL {
        // Milliseconds and microseconds of 32 bits, and those of 16 bits with them.
        let wraps = [(1 << 32) * 1_000_000, (1 << 32) * 1_000];
        for wrap in wraps {
            passes(profile, (u32::MAX - 90, u32::MAX - 30), Time(wrap - 12_000_000));
        }
    }
}

/// Nodes that count from different numbers do not understand each other: nothing on the wire says it.
#[test]
fn first_numbers_are_used() {
    let mut setup = WorldSetup::lan(2, &Profile::DEFAULT);
    setup.nodes[0].first_numbers = (1 << 20, 0);
    let mut world = World::new(setup);
    world.receive(1, Want::ANY, 10);
    let message = world.send(MessageSpec::plain(0, 1, 10));
    world.pass(Span::ms(1_000));
    assert!(!world.arrived(message));
}
