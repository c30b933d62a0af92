//! `put`: the first frame of bytes for another node's memory (`PUT-1`; V8).
//!
//! The header's word is the message number of the pair: puts stand in one order with messages and atomics. After the
//! target (40 bytes) come the long part (16) if LONG, immediate data (8) if IMMEDIATE, and payload, as in a `message`.

use crate::header::u64_at;
use crate::message::{IMMEDIATE_BYTES, LONG_BYTES, LongPart};
use crate::target::{TARGET_BYTES, Target};
use crate::{Flags, Reason};

/// Body of a `put` frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Put {
    /// Where the bytes go.
    pub target: Target,
    /// Present if LONG: more than this frame belongs to it.
    pub long: Option<LongPart>,
    /// Present if IMMEDIATE: the target's host is to be notified with these eight bytes.
    pub immediate: Option<u64>,
}

impl Put {
    /// The flags that this body needs in the common header.
    pub fn flags(&self) -> Flags {
        Flags::default()
            .with_if(self.long.is_some(), Flags::LONG)
            .with_if(self.immediate.is_some(), Flags::IMMEDIATE)
    }

    /// Bytes of body fields that these flags imply.
    pub fn body_bytes_for(flags: Flags) -> usize {
        TARGET_BYTES
            + if flags.has(Flags::LONG) { LONG_BYTES } else { 0 }
            + if flags.has(Flags::IMMEDIATE) { IMMEDIATE_BYTES } else { 0 }
    }

    /// Writes the body and returns its length.
    pub fn emit(&self, into: &mut [u8]) -> usize {
        self.target.emit(into);
        let mut at = TARGET_BYTES;
        if let Some(long) = &self.long {
            long.emit(&mut into[at..]);
            at += LONG_BYTES;
        }
        if let Some(immediate) = self.immediate {
            into[at..at + IMMEDIATE_BYTES].copy_from_slice(&immediate.to_be_bytes());
            at += IMMEDIATE_BYTES;
        }
        at
    }

    /// Reads the body; returns it and the payload.
    pub fn parse(flags: Flags, body: &[u8]) -> Result<(Self, &[u8]), Reason> {
        let bytes = Self::body_bytes_for(flags);
        if body.len() < bytes {
            return Err(Reason::BodyShort);
        }
        let (fields, payload) = body.split_at(bytes);
        let (target, rest) = Target::parse(fields)?;
        let long = flags.has(Flags::LONG).then(|| LongPart::parse(rest));
        let immediate =
            flags.has(Flags::IMMEDIATE).then(|| u64_at(rest, rest.len() - IMMEDIATE_BYTES));
        if let Some(long) = &long {
            long.check(payload.len())?;
        }
        Ok((Self { target, long, immediate }, payload))
    }
}
