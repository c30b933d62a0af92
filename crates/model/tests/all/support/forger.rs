//! Frames made by hand, with right checksums.

use emp_firmware::Firmware;
use emp_model::{MessageSpec, Want, World};
use emp_wire::{
    Epoch, Flags, HEADER_BYTES, Header, Kind, Largest, LongPart, Message, NodeId, Seed, Sequence,
    begin_checksum, covered_bytes, store_checksum,
};

/// Makes frames that look as if one node had sent them to another.
pub struct Forger {
    /// The header that every frame starts from.
    pub header: Header,
    /// The node in whose name they are.
    pub source: NodeId,
    /// The node they are for.
    pub destination: NodeId,
    destination_epoch: Epoch,
}

impl Forger {
    /// For frames from node 0 to node 1, in sequence after what they have exchanged.
    pub fn new(world: &mut World) -> Self {
        world.network_mut().trace_mut().switch(true);
        for (from, to) in [(0, 1), (1, 0)] {
            world.receive(to, Want::ANY, 10);
            world.send(MessageSpec::plain(from, to, 10));
            super::finish(world);
        }
        let last = |from| {
            let lines = world.network().trace().lines().iter().rev();
            let sequenced = |h: &Header| h.kind.sequenced();
            lines
                .filter(|line| line.from == from)
                .find_map(|line| line.header.filter(sequenced))
                .expect("both have sent")
        };
        let (ours, theirs) = (last(0), last(1));
        let header = Header {
            flags: Flags::default(),
            sequence: ours.sequence.plus(1),
            acknowledge: theirs.sequence.plus(1),
            word: 0,
            ..ours
        };
        Self {
            header,
            source: world.id(0),
            destination: world.id(1),
            destination_epoch: theirs.source_epoch,
        }
    }

    /// For the first frames of a node that `to` has never heard of, but which knows its epoch.
    pub fn stranger(from: NodeId, to: &Firmware) -> Self {
        let header = Header {
            kind: Kind::Message,
            flags: Flags::default(),
            length: 0,
            destination_tag: to.node().destination_tag(),
            destination_epoch: to.epoch().check(),
            source_tag: from.source_tag(),
            source_epoch: Epoch::new(from.0 as u32),
            sequence: Sequence(0),
            acknowledge: Sequence(0),
            word: 0,
        };
        Self { header, source: from, destination: to.node(), destination_epoch: to.epoch() }
    }

    /// A frame of this kind: fields, then payload; `change` may spoil the header before it is summed.
    pub fn frame(
        &self,
        kind: Kind,
        flags: Flags,
        fields: &[u8],
        change: impl FnOnce(&mut Header),
    ) -> Vec<u8> {
        let mut header = Header { kind, flags, length: fields.len() as u16, ..self.header };
        change(&mut header);
        let mut frame = vec![0; HEADER_BYTES];
        header.emit((&mut frame[..]).try_into().expect("a header's bytes"));
        let covered = covered_bytes(&header).min(fields.len());
        frame.extend_from_slice(&fields[..covered]);
        let seed = if kind.contact() {
            Seed::CONTACT
        } else {
            Seed::between(self.source, self.destination, self.destination_epoch)
        };
        let sum = begin_checksum(&mut frame, seed);
        frame.extend_from_slice(&fields[covered..]);
        store_checksum(&mut frame, sum);
        frame
    }

    /// Flags, fields and payload of a message.
    pub fn message(&self, long: Option<LongPart>, payload: usize) -> (Flags, Vec<u8>) {
        let message = Message {
            node: self.source,
            source_endpoint: 0,
            destination_endpoint: 0,
            match_bits: 0,
            largest: Largest::from(1_500),
            handle: 0xFFFF_FFFF,
            long,
            immediate: None,
        };
        let mut fields = body(|into| message.emit(into));
        fields.resize(fields.len() + payload, 0x66);
        (message.flags(), fields)
    }
}

/// What an `emit` writes.
pub fn body(emit: impl FnOnce(&mut [u8]) -> usize) -> Vec<u8> {
    let mut fields = vec![0; 128];
    let end = emit(&mut fields);
    fields.truncate(end);
    fields
}
