//! A node that is spoken to by nobody it knows shows itself to the speaker alone (`EPOCH-3`, `FRAME-4`).

use crate::common::{Memory, make};
use emp_firmware::*;
use emp_wire::{Header, Kind, LinkAddress, NodeId, Sequence};

/// A sequenced frame without an identity, from a node that is not known here.
fn unidentified(from: NodeId, to: NodeId) -> Vec<u8> {
    let header = Header {
        kind: Kind::Data,
        flags: Default::default(),
        length: 0,
        destination_tag: to.destination_tag(),
        destination_epoch: 9,
        source_tag: from.source_tag(),
        source_epoch: emp_wire::Epoch::new(5),
        sequence: Sequence(3),
        acknowledge: Sequence(0),
        word: 1,
    };
    let mut bytes = vec![0; emp_wire::HEADER_BYTES];
    header.emit(bytes.first_chunk_mut().expect("room for a header"));
    bytes
}

#[test]
fn the_answer_to_a_stranger_has_the_strangers_tag() {
    let mut node = make(1, 77, &Profile::default());
    let (mut memory, mut batch) = (Memory(Vec::new()), TransmitBatch::new(1500));
    for id in [2u64, 3, 0xFFFF_0000_1234_5678] {
        let from = NodeId(id);
        // No more than one answer a millisecond or so.
        let now = Time(0) + Span::ms(100 * id.min(9));
        let frame = unidentified(from, NodeId(1));
        node.handle_frame(now, LinkIndex(0), LinkAddress::index(4), &frame, &mut memory);
        batch.clear();
        node.poll_transmit(now, &mut memory, &mut batch);
        assert_eq!(batch.frames().len(), 1, "it shows itself");
        assert_eq!(batch.frames()[0].to, LinkAddress::index(4));
        let (header, _) = Header::parse(batch.inline(0)).expect("a frame");
        assert_eq!(header.kind, Kind::Hello);
        assert_eq!(header.destination_tag, from.destination_tag());
    }
}
