//! What `put`, `get` and `atomic` begin with: who asks, and for which place in whose memory (`REGION-1`; V8, V29).
//!
//! ```text
//!  0  source node          8      16  region key         8
//!  8  source endpoint      2      24  handle             4
//! 10  destination endpoint 2      28  region generation  4
//! 12  largest frame here   2      32  offset             8
//! 14  largest frame        2
//! ```
//!
//! The first 16 bytes are those of a `message`.

use crate::header::{u16_at, u32_at, u64_at};
use crate::{Largest, NodeId, Reason};

/// Bytes of it.
pub const TARGET_BYTES: usize = 40;

/// A place in a node's exported memory, and who asks for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// The sender.
    pub node: NodeId,
    /// Endpoint that asks.
    pub source_endpoint: u16,
    /// Endpoint that notifications are for.
    pub destination_endpoint: u16,
    /// The largest frames that the sender takes: a node that learns of it by this frame knows no other way.
    pub largest: Largest,
    /// Key of the region.
    pub key: u64,
    /// The sender's name for the operation, which pulls and dones give back.
    pub handle: u32,
    /// Generation of the region; 0: not to be checked.
    pub generation: u32,
    /// First byte, counted from the region's start.
    pub offset: u64,
}

impl Target {
    /// Writes it; `into` has room for [`TARGET_BYTES`].
    pub(crate) fn emit(&self, into: &mut [u8]) {
        into[..8].copy_from_slice(&self.node.0.to_be_bytes());
        into[8..10].copy_from_slice(&self.source_endpoint.to_be_bytes());
        into[10..12].copy_from_slice(&self.destination_endpoint.to_be_bytes());
        into[12..16].copy_from_slice(&self.largest.bits().to_be_bytes());
        into[16..24].copy_from_slice(&self.key.to_be_bytes());
        into[24..28].copy_from_slice(&self.handle.to_be_bytes());
        into[28..32].copy_from_slice(&self.generation.to_be_bytes());
        into[32..40].copy_from_slice(&self.offset.to_be_bytes());
    }

    /// Reads it; returns it and what follows.
    pub fn parse(body: &[u8]) -> Result<(Self, &[u8]), Reason> {
        let Some((fields, rest)) = body.split_first_chunk::<TARGET_BYTES>() else {
            return Err(Reason::BodyShort);
        };
        let target = Self {
            node: NodeId(u64_at(fields, 0)),
            source_endpoint: u16_at(fields, 8),
            destination_endpoint: u16_at(fields, 10),
            largest: Largest::of_bits(u32_at(fields, 12)),
            key: u64_at(fields, 16),
            handle: u32_at(fields, 24),
            generation: u32_at(fields, 28),
            offset: u64_at(fields, 32),
        };
        Ok((target, rest))
    }
}
