//! First frames of messages, copied to where their payload belongs while it is summed: a byte is loaded once for both
//! (`docs/decisions/0029-first-frames-in-one-pass.md`). What follows a first frame is taken so by [`landing`](super::landing).
//!
//! A frame whose sum is wrong has then been written to the receive that waits for it, where the right one will come. Its sender, both
//! incarnations, its number and that of its message were what they should be, or nothing is written before it was summed.

use emp_wire::{
    Epoch, Flags, HEADER_BYTES, Header, Kind, Message, Reason, checksum_of, head_checksum,
};

use crate::counters::Counter;
use crate::engine::Firmware;
use crate::lanes::{Way, Ways};
use crate::memory::HostMemory;
use crate::time::Time;

/// Bytes behind the header from which on a first frame is worth the look-ups before it is summed: 0.1 µs, and a pass over so many bytes
/// takes as long.
const FIRST_BYTES_MIN: u16 = 4 << 10;

/// Flags that such a frame may have.
const USUAL: Flags = Flags(
    Flags::ACK.0
        | Flags::ACK_REQUEST.0
        | Flags::LAST.0
        | Flags::LONG.0
        | Flags::IMMEDIATE.0
        | Flags::SYNCHRONOUS.0,
);

impl Firmware {
    /// A frame that may be [taken so](Self::take_first).
    #[inline(always)]
    pub(crate) fn is_long_first(header: &Header) -> bool {
        header.length >= FIRST_BYTES_MIN && header.kind == Kind::Message
    }

    /// Takes a long first frame in one pass if all about it is usual. `None`: nothing was done with it, and it goes the usual way.
    #[inline(never)]
    pub(crate) fn take_first(
        &mut self,
        now: Time,
        (link, from): Way<'_>,
        header: &Header,
        frame: &[u8],
        body: &[u8],
        memory: &mut impl HostMemory,
    ) -> Option<Result<(), Counter>> {
        let head: &[u8; HEADER_BYTES] = frame.first_chunk()?;
        if !USUAL.has(header.flags) || from.is_memory() || header.source_epoch.check() == 0 {
            return None;
        }
        let (message, payload) = Message::parse(header.flags, body).ok()?;
        if message.long.is_some_and(|long| long.pieces != 0) {
            return None;
        }
        let peer = self.peers.find(message.node)?;
        let entry = &self.peers[peer];
        let current = entry.remote_epoch == header.source_epoch
            && entry.remote_epoch != Epoch::UNKNOWN
            && entry.local_epoch.check() == header.destination_epoch
            && message.node.source_tag() == header.source_tag;
        let mut sum = head_checksum(head, entry.incoming);
        let Ways { small, bulk, .. } = self.peers.ways(peer);
        if !current || ![small, bulk].contains(&Some((link, from))) {
            return None;
        }
        let (posted, into) = self.receive.place_of_first(peer, header, &message, payload.len())?;
        sum.update(&body[..body.len() - payload.len()]);
        memory.write_and_sum(into, payload, &mut sum).ok()?;
        if sum.value() != checksum_of(head) {
            return Some(Err(Reason::Checksum.into()));
        }
        self.counters.count(Counter::FramesReceived);
        self.send.heard(peer, now);
        // It came from where its route leads.
        self.peers.heard_from(now, peer, link, from);
        if header.flags.has(Flags::ACK) {
            self.send.on_riding_ack(now, peer, header.acknowledge);
        }
        let way = (peer, self.peers.lane_of(peer, link));
        let what = (header, &message, payload);
        self.receive.handle_filled(now, way, what, posted, &mut self.cross, memory);
        if self.watch_at.is_none() && self.receive.has_arrivals() {
            self.watch(now);
        }
        if self.send.take_awaits() {
            self.watch(now);
        }
        Some(Ok(()))
    }
}
