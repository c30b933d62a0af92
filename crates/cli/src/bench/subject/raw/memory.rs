//! The bare link of one machine at large sizes: one read of the other end's memory, and a frame that says where.
//!
//! # Invariant
//!
//! Memory of this process is written through a slice that the caller lends for the call.

use std::sync::Arc;

use emp_link::{LinkAddress, PeerMemory};

/// Messages longer than this are read, as EMP does with the default profile.
const READ_ABOVE: usize = 8 << 10;

/// What the frame says: the stamp, and where the bytes are.
pub(super) const NOTE_BYTES: usize = 16;

/// The index of a frame that says where the message is instead of bringing it.
pub(super) const NOTE: u32 = u32::MAX;

/// Reads the other end's memory, where the link has that.
pub(super) struct RawMemory(pub(super) Option<Arc<PeerMemory>>);

impl RawMemory {
    /// What to tell the other end of a message, if it reads such messages.
    pub(super) fn note(&self, to: &LinkAddress, message: &[u8]) -> Option<[u8; NOTE_BYTES]> {
        let stamp = self.0.as_ref().filter(|_| message.len() > READ_ABOVE)?.stamp(to)?;
        let mut note = [0; NOTE_BYTES];
        note[..8].copy_from_slice(&stamp.to_be_bytes());
        let address = message.as_ptr().expose_provenance() as u64;
        note[8..].copy_from_slice(&address.to_be_bytes());
        Some(note)
    }

    /// Reads what a note tells of. False: it could not be read.
    pub(super) fn read(&self, from: &LinkAddress, note: &[u8], into: &mut [u8]) -> bool {
        let word = |at: usize| note.get(at..).and_then(|rest| rest.first_chunk().copied());
        let (Some(memory), Some(stamp), Some(address)) = (&self.0, word(0), word(8)) else {
            return false;
        };
        let there = (u64::from_be_bytes(address), into.len() as u64);
        let here = (into.as_mut_ptr().expose_provenance() as u64, into.len() as u64);
        let (there, here) = ([there].into_iter(), [here].into_iter());
        // SAFETY: `here` is all of `into`, which is this function's for the call.
        unsafe { memory.read(from, u64::from_be_bytes(stamp), there, here) }.is_ok()
    }
}
