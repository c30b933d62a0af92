//! `not-ready`: the receiver had no room for a message and did not take it (`READY-1`; V16, O26).
//!
//! The word is the number of the refused message. The frames were received and will be acknowledged, but neither this
//! message nor any later one was taken: the sender sends them again, later, with a new attempt number (`READY-2`).

use crate::header::{u32_at, u64_at};
use crate::{NodeId, Reason};

/// Bytes of the body.
pub const NOT_READY_BYTES: usize = 20;

/// Why the message was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum NotReadyCause {
    /// The pool of unexpected messages is full.
    PoolFull = 1,
    /// The endpoint is not open.
    NoEndpoint = 2,
    /// The profile keeps no unexpected messages (E20).
    NotPosted = 3,
}

/// Body of a `not-ready` frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotReady {
    /// The refusing node.
    pub node: NodeId,
    /// The cause.
    pub cause: NotReadyCause,
    /// The attempt number that the receiver takes from now on.
    pub attempt: u8,
    /// Microseconds that the receiver suggests to wait.
    pub backoff_us: u32,
}

impl NotReady {
    /// Writes the body and returns its length.
    pub fn emit(&self, into: &mut [u8]) -> usize {
        into[..8].copy_from_slice(&self.node.0.to_be_bytes());
        into[8..12].copy_from_slice(&(self.cause as u32).to_be_bytes());
        into[12..16].copy_from_slice(&self.backoff_us.to_be_bytes());
        into[16] = self.attempt;
        into[17..20].fill(0);
        NOT_READY_BYTES
    }

    /// Reads the body.
    pub fn parse(body: &[u8]) -> Result<Self, Reason> {
        if body.len() < NOT_READY_BYTES {
            return Err(Reason::BodyShort);
        }
        let cause = match u32_at(body, 8) {
            1 => NotReadyCause::PoolFull,
            2 => NotReadyCause::NoEndpoint,
            3 => NotReadyCause::NotPosted,
            _ => return Err(Reason::Field),
        };
        let (node, backoff_us) = (NodeId(u64_at(body, 0)), u32_at(body, 12));
        Ok(Self { node, cause, attempt: body[16], backoff_us })
    }
}
