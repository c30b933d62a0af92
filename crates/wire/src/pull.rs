//! `pull`: the receiver asks for a part of a message (`PULL-1`; O7).
//!
//! The word is the sender's handle of the message, from its long part.

use crate::header::{u16_at, u32_at, u64_at};
use crate::{NodeId, Reason};

/// Bytes of the body.
pub const PULL_BYTES: usize = 24;

/// Body of a `pull` frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pull {
    /// The pulling node.
    pub node: NodeId,
    /// First byte wanted, counted from the start of the message.
    pub offset: u64,
    /// Bytes wanted; at least 1.
    pub bytes: u32,
    /// Identifier that the answering `block` frames carry.
    pub pull: u16,
}

impl Pull {
    /// Writes the body and returns its length.
    pub fn emit(&self, into: &mut [u8]) -> usize {
        into[..8].copy_from_slice(&self.node.0.to_be_bytes());
        into[8..16].copy_from_slice(&self.offset.to_be_bytes());
        into[16..20].copy_from_slice(&self.bytes.to_be_bytes());
        into[20..22].copy_from_slice(&self.pull.to_be_bytes());
        into[22..24].fill(0);
        PULL_BYTES
    }

    /// Reads the body.
    pub fn parse(body: &[u8]) -> Result<Self, Reason> {
        if body.len() < PULL_BYTES {
            return Err(Reason::BodyShort);
        }
        let pull = Self {
            node: NodeId(u64_at(body, 0)),
            offset: u64_at(body, 8),
            bytes: u32_at(body, 16),
            pull: u16_at(body, 20),
        };
        if pull.bytes == 0 { Err(Reason::Field) } else { Ok(pull) }
    }
}
