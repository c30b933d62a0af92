//! `block`: a frame of a block that the receiver pulled (`PULL-3`; O7).
//!
//! No body: after the common header comes payload. The word holds the pull's identifier and the frame's index.

/// What a `block` frame's word says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockWord {
    /// The receiver's identifier of the pull that asked for it.
    pub pull: u16,
    /// Place of the frame in the block.
    pub index: u16,
}

impl BlockWord {
    /// As the header's word.
    pub const fn emit(self) -> u32 {
        (self.pull as u32) << 16 | self.index as u32
    }

    /// From the header's word.
    pub const fn parse(word: u32) -> Self {
        Self { pull: (word >> 16) as u16, index: word as u16 }
    }
}
