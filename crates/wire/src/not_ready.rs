//! `not-ready`: the receiver had no room for a message (`READY-4`; V16, O26).
//!
//! The word is the message's number, the sequence field the number of the frame that was not taken. That first frame was not taken; the sender puts a `skip` in its place. A *deferred* message
//! stands in the receiver's order without its bytes: they will be pulled when it is matched. A *refused* one must be
//! sent again. Not numbered: it is said again whenever the frame comes again.

use crate::header::{u32_at, u64_at};
use crate::{NodeId, Reason};

/// Bytes of the body.
pub const NOT_READY_BYTES: usize = 16;

/// What was not ready, and what that means for the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum NotReadyCause {
    /// Refused: too many messages wait.
    Full = 1,
    /// Deferred: the endpoint is not open (yet).
    NoEndpoint = 2,
    /// Deferred: the profile stores no unexpected bytes (E20).
    NotPosted = 3,
    /// Deferred: the pool of unexpected data is full.
    NoRoom = 4,
    /// Given up: too many messages wait, and for too long none of them was received.
    Stuck = 5,
}

impl NotReadyCause {
    /// The message was not refused: it has its place in the order, and only its bytes were not stored.
    pub const fn defers(self) -> bool {
        !matches!(self, Self::Full | Self::Stuck)
    }
}

/// Body of a `not-ready` frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotReady {
    /// The refusing node.
    pub node: NodeId,
    /// The cause.
    pub cause: NotReadyCause,
    /// Microseconds that the receiver suggests to wait.
    pub backoff_us: u32,
}

impl NotReady {
    /// Writes the body and returns its length.
    pub fn emit(&self, into: &mut [u8]) -> usize {
        into[..8].copy_from_slice(&self.node.0.to_be_bytes());
        into[8..12].copy_from_slice(&(self.cause as u32).to_be_bytes());
        into[12..16].copy_from_slice(&self.backoff_us.to_be_bytes());
        NOT_READY_BYTES
    }

    /// Reads the body.
    pub fn parse(body: &[u8]) -> Result<Self, Reason> {
        if body.len() < NOT_READY_BYTES {
            return Err(Reason::BodyShort);
        }
        let cause = match u32_at(body, 8) {
            1 => NotReadyCause::Full,
            2 => NotReadyCause::NoEndpoint,
            3 => NotReadyCause::NotPosted,
            4 => NotReadyCause::NoRoom,
            5 => NotReadyCause::Stuck,
            _ => return Err(Reason::Field),
        };
        let (node, backoff_us) = (NodeId(u64_at(body, 0)), u32_at(body, 12));
        Ok(Self { node, cause, backoff_us })
    }
}
