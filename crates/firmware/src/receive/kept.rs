//! The last bytes of a put are written after all others (`PUT-5`, `docs/decisions/0064-puts-end-with-their-last-bytes.md`): programs
//! wait for them instead of a notification, as cards of this kind write in order.
//!
//! What comes of them before its time is kept beside the put, one small box for a put of several frames.

use alloc::boxed::Box;

use super::frame::{Room, room};
use super::{Incoming, Place, ReceiveSide};
use crate::memory::{HostMemory, MemoryFault};

/// How many: the flag that a program polls, and what stands with it in its cache line.
pub(super) const KEPT_BYTES: usize = 64;

/// They, at the end; a shorter put begins later.
pub(super) type Kept = [u8; KEPT_BYTES];

impl Incoming {
    /// Of the bytes from here to the end, how many are kept until the others are in their place.
    pub(super) fn kept_from(&self, offset: u64, left: u64) -> u64 {
        let put = matches!(self.place, Place::Region { .. });
        let end = offset.saturating_add(left) == self.total;
        if put && end { left.min(KEPT_BYTES as u64) } else { 0 }
    }

    /// Keeps bytes that are among the last ones.
    pub(super) fn keep(&mut self, offset: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        if bytes.is_empty() {
            return Ok(());
        }
        // Counted from the end, so that a put may be shorter than what is kept.
        let before_end = self.total.checked_sub(offset).ok_or(MemoryFault)?;
        let start = (KEPT_BYTES as u64).checked_sub(before_end).ok_or(MemoryFault)? as usize;
        let kept = self.kept.get_or_insert_with(|| Box::new([0; KEPT_BYTES]));
        let place = kept.get_mut(start..start + bytes.len()).ok_or(MemoryFault)?;
        place.copy_from_slice(bytes);
        Ok(())
    }

    /// Writes bytes of a message where they belong, but those that are to be written last. Returns how many there was room for.
    pub(super) fn write_part(
        &mut self,
        room: &Room<'_>,
        offset: u64,
        payload: &[u8],
        memory: &mut impl HostMemory,
    ) -> Result<u64, MemoryFault> {
        if !matches!(self.place, Place::Region { .. }) {
            return room.write(offset, payload, memory);
        }
        let before = self.total.saturating_sub(KEPT_BYTES as u64).saturating_sub(offset);
        let (now, later) = payload.split_at(before.min(payload.len() as u64) as usize);
        self.keep(offset + now.len() as u64, later)?;
        if now.is_empty() { Ok(0) } else { room.write(offset, now, memory) }
    }
}

impl ReceiveSide {
    /// Writes bytes of a message in the table where they belong, or keeps them.
    #[inline]
    pub(super) fn write_part(
        &mut self,
        index: u32,
        offset: u64,
        payload: &[u8],
        memory: &mut impl HostMemory,
    ) -> Result<u64, MemoryFault> {
        let Some(incoming) = self.incoming.at_mut(index) else { return Ok(0) };
        let room = room(&incoming.place, &self.posted, &self.fetches, &self.regions);
        incoming.write_part(&room, offset, payload, memory)
    }

    /// All others are in their place: writes what was kept.
    pub(super) fn write_kept(
        &mut self,
        incoming: &Incoming,
        memory: &mut impl HostMemory,
    ) -> Result<(), MemoryFault> {
        let Some(kept) = &incoming.kept else { return Ok(()) };
        let bytes = incoming.total.min(KEPT_BYTES as u64);
        let room = room(&incoming.place, &self.posted, &self.fetches, &self.regions);
        let last = &kept[KEPT_BYTES - bytes as usize..];
        let written = room.write_last(incoming.total - bytes, last, memory);
        self.note_written(written)
    }
}
