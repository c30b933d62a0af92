//! Worlds of cables.

use emp_firmware::{CompletionMode, Profile, Span, Status, Time};
use emp_model::{FabricSetup, MessageId, MessageSpec, NodeSetup, Want, Wiring, World, WorldSetup};

use super::wait;

/// Nodes with the links that the cables ask for, on a LAN's cables.
pub fn cabled(wiring: Wiring, profile: &Profile) -> World {
    cabled_by(wiring, profile, FabricSetup::lan(), |_, _| 1_500)
}

/// The same on cables of another kind, with interfaces whose frames have this length, by node and link.
pub fn cabled_by(
    wiring: Wiring,
    profile: &Profile,
    cable: FabricSetup,
    bytes: impl Fn(usize, usize) -> usize,
) -> World {
    let nodes = wiring.links.iter().enumerate().map(|(index, links)| {
        let node = NodeSetup::new(index, profile.clone());
        let mut links = vec![node.links[0]; *links];
        for (link, info) in links.iter_mut().enumerate() {
            info.frame_bytes_max = bytes(index, link);
        }
        NodeSetup { links, ..node }
    });
    let setup = WorldSetup { fabrics: vec![cable], nodes: nodes.collect(), seed: 3 };
    World::cabled(Time(0), setup, Some(wiring))
}

/// The most cables that are crossed from end to end: seven relays.
pub const HOPS: usize = 8;

/// Nodes that all relay.
pub fn relayed(wiring: Wiring) -> World {
    cabled(wiring.relayed(HOPS), &Profile::DEFAULT)
}

/// Sends a message, whose send ends when it is delivered, and posts a receive for it.
pub fn say(world: &mut World, from: usize, to: usize, bytes: u64) -> MessageId {
    let completion = CompletionMode::Delivered;
    let spec = MessageSpec { completion, ..MessageSpec::plain(from, to, bytes) };
    let message = world.send(spec);
    world.receive(to, Want::exactly(message), bytes);
    message
}

/// Whether a message has arrived, or its send ended otherwise.
pub fn is_over(world: &World, message: MessageId) -> bool {
    world.sent(message).is_some_and(|status| status != Status::Ok || world.arrived(message))
}

/// Waits until all of these have arrived; the time that it took.
pub fn arrive(world: &mut World, patience: Span, messages: &[MessageId]) -> Span {
    let took =
        wait(world, patience, |world| messages.iter().all(|message| is_over(world, *message)));
    for message in messages {
        assert_eq!(world.sent(*message), Some(Status::Ok), "message {message}");
    }
    took
}
