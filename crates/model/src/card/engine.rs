//! The seam: a card runs the real protocol engine. The card decides when the engine is called, and on which processor that time is spent; what
//! the engine then does (which frames, which acknowledgements, which ends of operations) is its own, frame for frame.
//!
//! The engine reaches host memory through [`HostRam`], which counts the runs that it touches: each is a transfer for the card's DMA engines.

use std::collections::VecDeque;

use emp_firmware::{Config, Firmware, LinkIndex, LinkInfo, Profile, Time, TransmitBatch};
use emp_wire::{Header, Kind, LinkAddress, Message, NodeId};

use super::ram::HostRam;

/// What a frame is to a card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// It carries a message, or a part of one.
    Data,
    /// An acknowledgement.
    Ack,
    /// Anything else between nodes that know each other.
    Control,
    /// Looking for nodes: before there is anything to measure.
    Contact,
}

impl Class {
    pub(crate) fn of(frame: &[u8]) -> Self {
        match Header::parse(frame).map(|(header, _)| header.kind) {
            Ok(Kind::Message | Kind::Data | Kind::Block | Kind::Put) => Self::Data,
            Ok(Kind::Ack) => Self::Ack,
            Ok(Kind::Hello | Kind::HelloReply) => Self::Contact,
            _ => Self::Control,
        }
    }
}

/// Bytes of a data frame that are a program's.
pub(crate) fn payload_bytes(frame: &[u8]) -> usize {
    let Ok((header, body)) = Header::parse(frame) else { return 0 };
    match header.kind {
        Kind::Message => body.len().saturating_sub(Message::body_bytes_for(header.flags)),
        Kind::Data | Kind::Block => body.len(),
        _ => 0,
    }
}

/// A frame on its way out.
pub(crate) struct OutFrame {
    pub(crate) class: Class,
    pub(crate) bytes: Vec<u8>,
    /// Bytes of it that are fetched from the host, and in how many runs.
    pub(crate) payload: usize,
    pub(crate) runs: u32,
}

/// A node's engine, and what it is asked for.
pub(crate) struct Engine {
    pub(crate) firmware: Firmware,
    batch: TransmitBatch,
    spare: Vec<Vec<u8>>,
    /// The address of the node at a place.
    address: fn(u32) -> LinkAddress,
}

/// The card's only link.
pub(crate) const LINK: LinkIndex = LinkIndex(0);

/// Frames kept to be filled again: those under way between two cards.
const SPARE_MAX: usize = 64;

impl Engine {
    /// A node with endpoint 0 on one broadcast link with frames of so many bytes, whose carrier has a checksum (I5).
    pub(crate) fn new(
        index: u32,
        profile: Profile,
        frame_bytes_max: usize,
        address: fn(u32) -> LinkAddress,
    ) -> Self {
        let link = LinkInfo { sums: true, ..LinkInfo::new(frame_bytes_max, true) };
        let mut firmware = Firmware::new(Config {
            node: node(index),
            epoch: 1 + index,
            name: format!("card-{index}"),
            profile,
            links: vec![link],
            seed: 0x5eed + u64::from(index),
        });
        // A new node has room for its first endpoint.
        let opened = firmware.open_endpoint(0);
        debug_assert!(opened.is_ok());
        let batch = TransmitBatch::new(frame_bytes_max);
        Self { firmware, batch, spare: Vec::new(), address }
    }

    /// Takes a frame that came from the node at this place.
    pub(crate) fn take(&mut self, now: Time, from: u32, frame: Vec<u8>, ram: &mut HostRam) {
        self.firmware.handle_frame(now, LINK, (self.address)(from), &frame, ram);
        if self.spare.len() < SPARE_MAX {
            self.spare.push(frame);
        }
    }

    /// Runs what is due.
    pub(crate) fn timeout(&mut self, now: Time, ram: &mut HostRam) {
        if self.firmware.poll_timeout().is_some_and(|due| due <= now) {
            self.firmware.handle_timeout(now, ram);
        }
    }

    /// Everything that the engine wants to have sent now.
    pub(crate) fn drain(&mut self, now: Time, ram: &mut HostRam, out: &mut VecDeque<OutFrame>) {
        loop {
            self.batch.clear();
            if self.firmware.poll_transmit(now, ram, &mut self.batch) == 0 {
                return;
            }
            for (index, frame) in self.batch.frames().iter().enumerate() {
                let mut bytes = self.spare.pop().unwrap_or_default();
                bytes.clear();
                bytes.extend_from_slice(self.batch.inline(index));
                for segment in frame.segments() {
                    let at = bytes.len();
                    bytes.resize(at + segment.bytes as usize, 0);
                    // What an operation names stays resident; a fault is counted, and the frame carries zeros.
                    let _ = emp_firmware::HostMemory::read(ram, *segment, &mut bytes[at..]);
                }
                let payload = payload_bytes(&bytes);
                // What is copied next to its header is one run, too.
                let runs = (frame.segments().len() as u32).max(1);
                out.push_back(OutFrame { class: Class::of(&bytes), bytes, payload, runs });
            }
        }
    }
}

/// The identity of the node at this place.
pub(crate) fn node(index: u32) -> NodeId {
    NodeId::from_name(&format!("card-{index}"))
}
