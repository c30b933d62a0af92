//! What a first frame says: of a message, put or atomic.

use alloc::boxed::Box;

use emp_wire::{Atomic, Flags, Header, Kind, LongPart, Message, Put, Reason, Target};

use super::direct::{self, Direct};
use super::placement::Envelope;
use super::pulling::Pulling;
use super::{Incoming, NONE, Place, Wants};

/// A first frame, read. Nothing is noted of it yet.
pub(super) struct First<'a> {
    pub(super) message: Message,
    pub(super) wants: Wants,
    /// Where its sender has it, if that may be read.
    direct: Option<Box<Direct>>,
    pub(super) payload: &'a [u8],
}

impl<'a> First<'a> {
    /// Reads the first frame of a message, put or atomic.
    #[inline(always)]
    pub(super) fn parse(header: &Header, body: &'a [u8]) -> Result<Self, Reason> {
        if header.kind != Kind::Message {
            return Self::parse_one_sided(header, body);
        }
        let (message, payload) = Message::parse(header.flags, body)?;
        let (direct, payload) = direct::parse(message.long.as_ref(), payload)?;
        Ok(Self { message, wants: Wants::Receive, direct, payload })
    }

    #[inline(never)]
    fn parse_one_sided(header: &Header, body: &'a [u8]) -> Result<Self, Reason> {
        if header.kind == Kind::Put {
            let (put, payload) = Put::parse(header.flags, body)?;
            let (direct, payload) = direct::parse(put.long.as_ref(), payload)?;
            let Target { generation, offset, .. } = put.target;
            let wants = Wants::Put { generation, offset };
            let message = message_of(&put.target, put.long, put.immediate);
            return Ok(Self { message, wants, direct, payload });
        }
        let (Atomic { target, operation, datatype, count }, payload) = Atomic::parse(body)?;
        let Target { generation, offset, .. } = target;
        let fetch = header.flags.has(Flags::FETCH);
        let wants = Wants::Atomic { generation, offset, operation, datatype, count, fetch };
        Ok(Self { message: message_of(&target, None, None), wants, direct: None, payload })
    }

    /// Bytes of the whole message.
    #[inline]
    pub(super) fn total(&self) -> u64 {
        self.message.long.map_or(self.payload.len() as u64, |long| long.total_bytes)
    }

    /// It is a message all of which is in this frame, and its sender waits for nothing: there is nothing to remember.
    #[inline]
    pub(super) fn is_whole(&self, flags: Flags) -> bool {
        let bytes = self.payload.len() as u64;
        let rest = self.message.long.is_some_and(|long| {
            (long.total_bytes, long.unscheduled_bytes.into()) != (bytes, bytes)
        });
        !rest && !flags.has(Flags::SYNCHRONOUS)
    }

    #[inline(always)]
    pub(super) fn envelope(&self, peer: u32, number: u32) -> Envelope {
        Envelope {
            peer,
            number,
            node: self.message.node,
            source_endpoint: self.message.source_endpoint,
            match_bits: self.message.match_bits,
            immediate: self.message.immediate,
            total: self.total(),
        }
    }

    /// As the receive side keeps it.
    #[inline]
    pub(super) fn describe(self, peer: u32, header: &Header) -> Incoming {
        let Self { message, wants, direct, payload } = self;
        let bytes = payload.len() as u32;
        let long = message.long;
        let plain = matches!(wants, Wants::Receive);
        Incoming {
            wants,
            reply: None,
            notifies: false,
            deferred: None,
            without_endpoint_ms: None,
            peer,
            node: message.node,
            number: header.word,
            endpoint: message.destination_endpoint,
            source_endpoint: message.source_endpoint,
            match_bits: message.match_bits,
            immediate: message.immediate,
            total: long.map_or(u64::from(bytes), |long| long.total_bytes),
            unscheduled: long.map_or(bytes, |long| long.unscheduled_bytes),
            first_payload: bytes,
            // A message of one frame that is pulled after all comes in one frame again.
            fragment: long.map_or(bytes.max(1) as u16, |long| long.fragment_bytes),
            handle: message.handle,
            synchronous: plain && header.flags.has(Flags::SYNCHRONOUS),
            void: header.flags.has(Flags::VOID),
            first: header.sequence,
            received: bytes,
            withdrawn: false,
            place: Place::Later,
            early: false,
            claimed: false,
            lands: false,
            kept: None,
            pulling: Pulling::of(0, 0),
            direct,
            next_progress: NONE,
        }
    }
}

/// The part of a one-sided operation that it has in common with messages. The key stands in place of match bits.
fn message_of(target: &Target, long: Option<LongPart>, immediate: Option<u64>) -> Message {
    Message {
        node: target.node,
        source_endpoint: target.source_endpoint,
        destination_endpoint: target.destination_endpoint,
        largest: target.largest,
        match_bits: target.key,
        handle: target.handle,
        long,
        immediate,
    }
}
