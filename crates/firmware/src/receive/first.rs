//! First frames of messages whose payload was copied to its place while it was summed.

use emp_wire::{Header, Message};

use super::sequence::Arrival;
use super::{ReceivePath, Wants, describe};
use crate::cross::Cross;
use crate::lanes::Lane;
use crate::memory::{HostMemory, MemoryFault, Segment};
use crate::time::Time;

impl ReceivePath {
    /// Where the payload of a first frame belongs whose turn it is, if that is one piece of memory of a receive that waits for it;
    /// and which receive. Nothing is done yet.
    pub(crate) fn place_of_first(
        &self,
        peer: u32,
        header: &Header,
        message: &Message,
        payload_bytes: usize,
    ) -> Option<(u32, Segment)> {
        let entry = &self.peers[peer];
        let in_turn = header.word == entry.next_number
            && entry.received.classify(header.sequence) == Arrival::InOrder;
        let open = self.endpoint(message.destination_endpoint).filter(|_| in_turn)?;
        let posted =
            self.match_posted(open, message.node, message.source_endpoint, message.match_bits)?;
        let into = self.posted.at(posted)?.segments.whole(0, payload_bytes)?;
        Some((posted, into))
    }

    /// Takes the first frame of a message whose payload is [where it belongs](Self::place_of_first): in this receive.
    pub(crate) fn handle_filled(
        &mut self,
        now: Time,
        (peer, lane): (u32, Lane),
        (header, message, payload): (&Header, &Message, &[u8]),
        posted: u32,
        cross: &mut Cross,
        memory: &mut impl HostMemory,
    ) {
        self.peers[peer].received.latest = header.sequence;
        self.filled = Some(posted);
        let incoming = describe::describe(peer, header, message, Wants::Receive, payload);
        let number = (peer, header.word);
        let verdict = self.on_described(now, number, incoming, payload, cross, memory);
        self.filled = None;
        self.settle(now, (peer, lane), header, Arrival::InOrder, verdict, cross);
    }

    /// Copies the payload of a message's first frame to its receive, if it is not there; returns how many bytes are.
    #[inline(always)]
    pub(super) fn put_first(
        &mut self,
        posted: u32,
        payload: &[u8],
        memory: &mut impl HostMemory,
    ) -> Result<u64, MemoryFault> {
        if self.filled.take_if(|filled| *filled == posted).is_some() {
            return Ok(payload.len() as u64);
        }
        self.posted.at(posted).expect("it was matched").segments.write(memory, 0, payload)
    }
}
