//! The shortest way through the receive path: a message of one frame whose turn it is and for which a receive waits. The usual
//! way ([`bookkeeping`](super::bookkeeping)) does the same with it, at twice the cost: most messages are such.

use emp_wire::{Flags, Header, Kind, Message};

use super::placement::Envelope;
use super::{NONE, ReceivePath};
use crate::counters::Counter;
use crate::descriptor::Status;
use crate::memory::HostMemory;

impl ReceivePath {
    /// Takes the message, if it is such; says whether later ones came before it and wait. `None`: nothing was done with it.
    #[inline]
    pub(super) fn take_short(
        &mut self,
        peer: u32,
        header: &Header,
        body: &[u8],
        memory: &mut impl HostMemory,
    ) -> Option<bool> {
        let flags = header.flags;
        let alone =
            !flags.has(Flags::LONG) && !flags.has(Flags::SYNCHRONOUS) && !flags.has(Flags::VOID);
        if header.kind != Kind::Message || !alone || header.word != self.peers[peer].next_number {
            return None;
        }
        let (message, payload) = Message::parse(flags, body).ok()?;
        let open = self.endpoint(message.destination_endpoint)?;
        let (node, source, bits) = (message.node, message.source_endpoint, message.match_bits);
        let endpoint = self.endpoints[open].as_mut().expect("it is open");
        let first = *endpoint.posted.front()?;
        let posted = if self.posted.at(first)?.selector.accepts(node, source, bits) {
            // As most often.
            endpoint.posted.pop_front()
        } else {
            let accepts = |index: &u32| {
                self.posted.at(*index).is_some_and(|p| p.selector.accepts(node, source, bits))
            };
            let at = endpoint.posted.iter().position(accepts)?;
            endpoint.posted.remove(at)
        };
        let posted = posted.expect("just found");
        let envelope = Envelope {
            peer,
            number: header.word,
            node,
            source_endpoint: source,
            match_bits: bits,
            immediate: message.immediate,
            total: payload.len() as u64,
        };
        self.place_single(posted, &envelope, payload, memory);
        let entry = &mut self.peers[peer];
        entry.next_number = entry.next_number.wrapping_add(1);
        Some(entry.early != NONE)
    }

    /// A message of one frame that found its receive, which is on no list any more.
    #[inline(always)]
    pub(super) fn place_single(
        &mut self,
        posted: u32,
        envelope: &Envelope,
        payload: &[u8],
        memory: &mut impl HostMemory,
    ) {
        let receive = self.posted.at(posted).expect("it was matched");
        let status = match receive.segments.write(memory, 0, payload) {
            Ok(placed) => {
                self.counters.add(Counter::BytesPlaced, placed);
                Status::Ok
            }
            Err(_) => Status::MemoryFault,
        };
        self.report(posted, envelope, status);
    }
}
