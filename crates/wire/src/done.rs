//! `done`: the receiver tells a message's sender what became of it (`DONE-1`).
//!
//! Sent for messages that were pulled (the sender may forget them) and for synchronous ones (they were matched), and for
//! every one-sided operation that is not answered otherwise. The word is the sender's handle of the message or operation.
//! With REPLY the word names a get or fetch of the frame's receiver, and what follows the body are the fetched values.

use crate::header::{u32_at, u64_at};
use crate::{NodeId, Reason};

/// Bytes of the body.
pub const DONE_BYTES: usize = 12;

/// What became of the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum DoneStatus {
    /// All that the receiver wanted is in its buffer.
    Complete = 0,
    /// Matched to a receive; the data may still be on its way.
    Matched = 1,
    /// The receiver gave it up (endpoint closed, receive failed).
    Abandoned = 2,
    /// There is no region of this key (any more).
    BadKey = 3,
    /// The region of this key is of another generation.
    BadGeneration = 4,
    /// The operation reaches beyond the region.
    OutOfBounds = 5,
    /// The region does not allow it.
    NoRights = 6,
    /// The region's memory could not be reached.
    Fault = 7,
}

/// Body of a `done` frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// The receiving node.
    pub node: NodeId,
    /// What became of the message.
    pub status: DoneStatus,
}

impl Done {
    /// Writes the body and returns its length.
    pub fn emit(&self, into: &mut [u8]) -> usize {
        into[..8].copy_from_slice(&self.node.0.to_be_bytes());
        into[8..12].copy_from_slice(&(self.status as u32).to_be_bytes());
        DONE_BYTES
    }

    /// Reads the body.
    pub fn parse(body: &[u8]) -> Result<Self, Reason> {
        if body.len() < DONE_BYTES {
            return Err(Reason::BodyShort);
        }
        let status = match u32_at(body, 8) {
            0 => DoneStatus::Complete,
            1 => DoneStatus::Matched,
            2 => DoneStatus::Abandoned,
            3 => DoneStatus::BadKey,
            4 => DoneStatus::BadGeneration,
            5 => DoneStatus::OutOfBounds,
            6 => DoneStatus::NoRights,
            7 => DoneStatus::Fault,
            _ => return Err(Reason::Field),
        };
        Ok(Self { node: NodeId(u64_at(body, 0)), status })
    }
}
