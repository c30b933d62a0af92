//! `close`: a node says goodbye (`CLOSE-1`). Unacknowledged: if all of them are lost, silence says the same, later.

use crate::header::u64_at;
use crate::{NodeId, Reason};

/// Bytes of the body.
pub const CLOSE_BYTES: usize = 8;

/// Body of a `close` frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Close {
    /// The node that goes away.
    pub node: NodeId,
}

impl Close {
    /// Writes the body and returns its length.
    pub fn emit(&self, into: &mut [u8]) -> usize {
        into[..8].copy_from_slice(&self.node.0.to_be_bytes());
        CLOSE_BYTES
    }

    /// Reads the body.
    pub fn parse(body: &[u8]) -> Result<Self, Reason> {
        if body.len() < CLOSE_BYTES {
            return Err(Reason::BodyShort);
        }
        Ok(Self { node: NodeId(u64_at(body, 0)) })
    }
}
