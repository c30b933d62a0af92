//! `message`: the first frame of a two-sided message (`MSG-1`; E21, E23).
//!
//! The header's word is the message number of the pair.
//!
//! ```text
//!  0  source node          8      16  match bits          8
//!  8  source endpoint      2      24  handle              4
//! 10  destination endpoint 2      28  [long part         16]  if LONG
//! 12  largest frame here   2      ..  [immediate data     8]  if IMMEDIATE
//! 14  largest frame        2      ..  payload
//! ```

use crate::header::{u16_at, u32_at, u64_at};
use crate::pieces::{PIECES_MAX, pieces_bytes};
use crate::{Flags, Largest, NodeId, Reason};

/// Bytes of the fixed part of the body.
pub const MESSAGE_BYTES: usize = 28;
/// Bytes of the long part.
pub const LONG_BYTES: usize = 16;
/// Bytes of immediate data.
pub const IMMEDIATE_BYTES: usize = 8;
/// Largest body: fixed, long and immediate parts.
pub const MESSAGE_BODY_BYTES_MAX: usize = MESSAGE_BYTES + LONG_BYTES + IMMEDIATE_BYTES;

/// What a message of more than one frame says of itself (`MSG-2`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LongPart {
    /// Bytes of the whole message.
    pub total_bytes: u64,
    /// Bytes of it that the sender sends unasked, this frame's included; the rest is pulled.
    pub unscheduled_bytes: u32,
    /// Payload bytes of every `data` and `block` frame but the last of its train.
    pub fragment_bytes: u16,
    /// Pieces of the sender's memory that are named in place of payload; 0: none (`DIRECT-1`).
    pub pieces: u16,
}

/// Body of a `message` frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// The sender.
    pub node: NodeId,
    /// Endpoint it was sent from.
    pub source_endpoint: u16,
    /// Endpoint it is for.
    pub destination_endpoint: u16,
    /// The largest frames that the sender takes: a node that learns of it by this frame knows no other way.
    pub largest: Largest,
    /// Match bits.
    pub match_bits: u64,
    /// The sender's name for the message, which pulls and dones give back.
    pub handle: u32,
    /// Present if LONG.
    pub long: Option<LongPart>,
    /// Present if IMMEDIATE.
    pub immediate: Option<u64>,
}

impl Message {
    /// The flags that this body needs in the common header.
    pub fn flags(&self) -> Flags {
        Flags::default()
            .with_if(self.long.is_some(), Flags::LONG)
            .with_if(self.immediate.is_some(), Flags::IMMEDIATE)
    }

    /// Bytes that [`Message::emit`] writes.
    pub fn body_bytes(&self) -> usize {
        Self::body_bytes_for(self.flags())
    }

    /// Bytes of body fields that these flags imply.
    pub fn body_bytes_for(flags: Flags) -> usize {
        MESSAGE_BYTES
            + if flags.has(Flags::LONG) { LONG_BYTES } else { 0 }
            + if flags.has(Flags::IMMEDIATE) { IMMEDIATE_BYTES } else { 0 }
    }

    /// Writes the body and returns its length. `into` must have room for [`Message::body_bytes`].
    #[inline(always)]
    pub fn emit(&self, into: &mut [u8]) -> usize {
        // In words, as the checksum reads them: a processor waits for narrower stores that lie within a later load.
        let places = u64::from(self.source_endpoint) << 48
            | u64::from(self.destination_endpoint) << 32
            | u64::from(self.largest.bits());
        let fixed: &mut [u8; MESSAGE_BYTES] =
            into.first_chunk_mut().expect("the caller has given room");
        let (words, handle) = fixed.as_chunks_mut::<8>();
        for (place, word) in words.iter_mut().zip([self.node.0, places, self.match_bits]) {
            *place = word.to_be_bytes();
        }
        handle.copy_from_slice(&self.handle.to_be_bytes());
        let mut at = MESSAGE_BYTES;
        if let Some(long) = &self.long {
            long.emit(&mut into[at..]);
            at += LONG_BYTES;
        }
        if let Some(immediate) = self.immediate {
            into[at..at + 8].copy_from_slice(&immediate.to_be_bytes());
            at += IMMEDIATE_BYTES;
        }
        at
    }

    /// Reads the body; returns it and the payload. Inlined: what a caller knows of the flags, and does not look at, falls out.
    #[inline(always)]
    pub fn parse(flags: Flags, body: &[u8]) -> Result<(Self, &[u8]), Reason> {
        let bytes = Self::body_bytes_for(flags);
        if body.len() < bytes {
            return Err(Reason::BodyShort);
        }
        let (fields, payload) = body.split_at(bytes);
        let long = flags.has(Flags::LONG).then(|| LongPart::parse(&fields[MESSAGE_BYTES..]));
        let immediate =
            flags.has(Flags::IMMEDIATE).then(|| u64_at(fields, bytes - IMMEDIATE_BYTES));
        let message = Self {
            node: NodeId(u64_at(fields, 0)),
            source_endpoint: u16_at(fields, 8),
            destination_endpoint: u16_at(fields, 10),
            largest: Largest::of_bits(u32_at(fields, 12)),
            match_bits: u64_at(fields, 16),
            handle: u32_at(fields, 24),
            long,
            immediate,
        };
        if let Some(long) = &message.long {
            long.check(payload.len())?;
        }
        Ok((message, payload))
    }
}

impl LongPart {
    /// Writes it; `into` has room for [`LONG_BYTES`].
    pub(crate) fn emit(&self, into: &mut [u8]) {
        into[..8].copy_from_slice(&self.total_bytes.to_be_bytes());
        into[8..12].copy_from_slice(&self.unscheduled_bytes.to_be_bytes());
        into[12..14].copy_from_slice(&self.fragment_bytes.to_be_bytes());
        into[14..16].copy_from_slice(&self.pieces.to_be_bytes());
    }

    /// Reads it. The caller has checked the length.
    pub(crate) fn parse(fields: &[u8]) -> Self {
        Self {
            total_bytes: u64_at(fields, 0),
            unscheduled_bytes: u32_at(fields, 8),
            fragment_bytes: u16_at(fields, 12),
            pieces: u16_at(fields, 14),
        }
    }

    /// Whether it can be true of a first frame with so much payload.
    pub(crate) fn check(&self, payload_bytes: usize) -> Result<(), Reason> {
        let unscheduled = u64::from(self.unscheduled_bytes);
        let pieces = usize::from(self.pieces);
        if pieces != 0 {
            let sane = pieces <= PIECES_MAX
                && payload_bytes == pieces_bytes(pieces)
                && unscheduled == 0
                && self.fragment_bytes > 0
                && self.total_bytes <= i64::MAX as u64;
            return if sane { Ok(()) } else { Err(Reason::Field) };
        }
        let sane = unscheduled <= self.total_bytes
            && payload_bytes as u64 <= unscheduled
            && self.total_bytes <= i64::MAX as u64
            && (self.fragment_bytes > 0 || payload_bytes as u64 == self.total_bytes);
        if sane { Ok(()) } else { Err(Reason::Field) }
    }
}
