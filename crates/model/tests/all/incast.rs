//! Many senders and one port of a switch, whose queue holds far less than they may have under way: everything arrives, and nobody is
//! given up.

use crate::support::{acquainted_setup, count, finish};
use emp_firmware::{Counter, LinkInfo, Profile};
use emp_model::{FabricSetup, MessageSpec, PortSetup, Want, WorldSetup};

const SENDERS: usize = 16;

/// A port of 10 Gb/s with the buffer of an ordinary switch.
const PORT: PortSetup = PortSetup {
    bits_per_second: 10_000_000_000,
    queue_bytes: 512 << 10,
    ecn_bytes: None,
    burst_bytes: 0,
};

fn sixteen_into_one(long: bool, bytes: u64, messages: usize) {
    let mut setup = WorldSetup::lan(SENDERS + 1, &Profile::DEFAULT);
    setup.fabrics = vec![FabricSetup { piece_bytes: 1_472, ..FabricSetup::lan() }];
    for node in &mut setup.nodes {
        let mut link = LinkInfo::new(1_472, true);
        (link.segments, link.long_frames) = (long, long);
        node.links = vec![link];
    }
    let mut world = acquainted_setup(setup);
    world.network_mut().trace_mut().switch(false);
    world.network_mut().set_port(0, 0, PORT);
    let sent: Vec<_> = (0..messages * SENDERS)
        .map(|i| {
            world.receive(0, Want::ANY, bytes);
            world.send(MessageSpec::plain(1 + i % SENDERS, 0, bytes))
        })
        .collect();
    finish(&mut world);
    assert!(sent.iter().all(|message| world.arrived(*message)));
    let port = world.network().port(0, 0);
    assert!(port.wire_bytes > bytes * sent.len() as u64, "{port:?}");
    assert!(port.queue_bytes_max > PORT.queue_bytes / 2, "the port was never busy: {port:?}");
    for node in 0..=SENDERS {
        assert_eq!(count(&world, node, Counter::PeersLost), 0, "node {node}, {port:?}");
    }
}

/// Eager messages all at once: more than three queues full leave unasked.
#[test]
fn sixteen_senders_of_short_messages() {
    sixteen_into_one(false, 8 << 10, 16);
    sixteen_into_one(false, 60 << 10, 4);
}

/// Pulled ones, in frames of the MTU and in longer ones.
#[test]
fn sixteen_senders_of_long_messages() {
    sixteen_into_one(false, 1 << 20, 2);
    sixteen_into_one(true, 1 << 20, 2);
}
