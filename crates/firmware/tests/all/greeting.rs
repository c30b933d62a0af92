//! A node that is spoken to by nobody it knows shows itself to the speaker alone (`EPOCH-3`, `FRAME-4`).

use crate::common::forge::*;
use crate::common::{Memory, make};
use emp_firmware::*;
use emp_wire::{Flags, HELLO_BODY_BYTES_MAX, Header, Hello, Kind, LinkAddress, NodeId, Sequence};

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

/// Who is asked by many at once, or again and again, acknowledges all the same: in the batch that leaves first.
#[test]
fn questions_keep_no_acknowledgement_from_leaving() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    for asker in 0..300 {
        let stranger = Forged::new(1_000 + asker);
        let mut body = [0; HELLO_BODY_BYTES_MAX];
        let bytes = Hello::new(stranger.node, OWN, asker, MTU as u16, "").emit(&mut body);
        real.hear(&stranger, &stranger.frame(Kind::Hello, Flags(0), 0, 0, &body[..bytes]));
    }
    let message = peer.message(Flags::ACK_REQUEST, None, 0, b"x");
    real.hear(&peer, &message);
    let said = kinds(&real.speak());
    let replies = said.iter().filter(|kind| **kind == Kind::HelloReply).count();
    let acknowledged = said.iter().position(|kind| *kind == Kind::Ack);
    assert!(replies > TransmitBatch::FRAMES_MAX, "{replies} replies");
    assert!(acknowledged.is_some_and(|at| at < TransmitBatch::FRAMES_MAX), "{acknowledged:?}");
}
