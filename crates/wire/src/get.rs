//! `get`: asks for a block of a node's exported memory (`GET-1`).
//!
//! It is answered by `block` frames as a `pull` is, or by a `done` with REPLY if it cannot be. The word is 0. After the
//! target (40 bytes): bytes wanted (4), identifier that the `block` frames carry (2), payload bytes of each of them but
//! the last (2).

use crate::Reason;
use crate::header::{u16_at, u32_at};
use crate::target::{TARGET_BYTES, Target};

/// Bytes of the body.
pub const GET_BYTES: usize = TARGET_BYTES + 8;

/// Body of a `get` frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Get {
    /// Where the bytes are; the handle is the asker's name for the whole get.
    pub target: Target,
    /// Bytes wanted. None: only the answer, whether the place may be read.
    pub bytes: u32,
    /// Identifier that the answering `block` frames carry.
    pub pull: u16,
    /// Payload bytes of every `block` frame but the last; at least 1.
    pub fragment_bytes: u16,
}

impl Get {
    /// Writes the body and returns its length.
    pub fn emit(&self, into: &mut [u8]) -> usize {
        self.target.emit(into);
        into[40..44].copy_from_slice(&self.bytes.to_be_bytes());
        into[44..46].copy_from_slice(&self.pull.to_be_bytes());
        into[46..48].copy_from_slice(&self.fragment_bytes.to_be_bytes());
        GET_BYTES
    }

    /// Reads the body.
    pub fn parse(body: &[u8]) -> Result<Self, Reason> {
        if body.len() < GET_BYTES {
            return Err(Reason::BodyShort);
        }
        let (target, _) = Target::parse(body)?;
        let get = Self {
            target,
            bytes: u32_at(body, 40),
            pull: u16_at(body, 44),
            fragment_bytes: u16_at(body, 46),
        };
        if get.fragment_bytes == 0 { Err(Reason::Field) } else { Ok(get) }
    }
}
