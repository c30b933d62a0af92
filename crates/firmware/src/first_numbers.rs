//! The numbers that streams begin with: 0 (`SEQ-1`, `MSG-3`), except in tests of what happens where they wrap.

use emp_wire::Sequence;

use crate::engine::Firmware;

/// First sequence number and first message number of every stream of a node, in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FirstNumbers {
    pub(crate) sequence: Sequence,
    pub(crate) message: u32,
}

impl Firmware {
    /// For tests: streams begin with these numbers instead of 0, so that a test need not send 2³² frames to see them wrap. All
    /// nodes of a test must be told the same, before they know anyone: nothing on the wire says it.
    ///
    /// # Panics
    /// If a peer is known already.
    pub fn set_first_numbers(&mut self, sequence: u32, message: u32) {
        assert!(self.peers() == 0, "streams have begun");
        let first = FirstNumbers { sequence: Sequence(sequence), message };
        (self.send.first, self.receive.first) = (first, first);
    }
}
