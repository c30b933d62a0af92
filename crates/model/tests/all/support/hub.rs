//! A node that many others send their first message to.

use emp_firmware::{Config, Firmware, LinkInfo, Profile};
use emp_wire::{Flags, Kind, NodeId};

use super::forger::Forger;

/// The node, with one endpoint.
pub fn hub() -> Firmware {
    let mut firmware = Firmware::new(Config {
        node: NodeId::from_name("hub"),
        epoch: 77,
        name: "hub".into(),
        profile: Profile::DEFAULT,
        links: vec![LinkInfo::new(1_500, false)],
        seed: 5,
    });
    firmware.open_endpoint(0).unwrap();
    firmware
}

/// The first frame of a peer that knows the hub's epoch: an empty message that asks to be acknowledged. A whole firmware
/// for each peer would only be slower.
pub fn first_message(from: NodeId, hub: &Firmware) -> Vec<u8> {
    let forger = Forger::stranger(from, hub);
    let (flags, fields) = forger.message(None, 0);
    let flags = flags.with(Flags::LAST).with(Flags::ACK_REQUEST);
    forger.frame(Kind::Message, flags, &fields, |_| {})
}
