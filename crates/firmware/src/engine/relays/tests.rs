use alloc::string::String;
use alloc::vec;

use super::*;
use crate::{Config, LinkInfo, Profile};

/// Whoever's a frame is that no batch has room for: it is gone, and counted.
#[test]
fn what_is_too_long_for_a_batch_is_counted_whoever_sent_it() {
    let mut relay = Firmware::new(Config {
        node: NodeId(1),
        epoch: 1,
        name: String::new(),
        profile: Profile::DEFAULT,
        links: vec![LinkInfo::new(1_500, true)],
        seed: 1,
    });
    let to = (LinkIndex(0), LinkAddress::mac([2; 6]));
    let (place, _) = relay.relays.neighbours.of(to.0, &to.1);
    let mut batch = TransmitBatch::new(600);
    for (flow, source) in [(1, Source::Other), (2, Source::Neighbour(place))] {
        for bytes in [600, 1_200] {
            let pushed = relay.relays.queue.push((flow, source), to, |into| into.resize(bytes, 0));
            assert_eq!(pushed, Ok(()));
        }
    }
    relay.emit_transit(&mut batch, 9);
    assert_eq!((batch.frames().len(), relay.relays.queue.len()), (2, 0));
    let counted = [Counter::DropHopTooLong, Counter::Relayed].map(|of| relay.counters.get(of));
    assert_eq!(counted, [2, 1], "the relay's own word is none that it relays");
    let neighbour = relay.relay_neighbours()[0];
    assert_eq!((neighbour.dropped(), neighbour.frames, neighbour.bytes), (1, 1, 600));
}
