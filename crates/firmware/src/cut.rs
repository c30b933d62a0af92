//! Frames that leave in slices (`SLICE-1`): their train was cut before this way took no longer ones.
//!
//! Rare and slow (every byte is copied twice), so that messages under way need not be begun again.

use emp_wire::{
    Flags, HEADER_BYTES, Header, Kind, Seed, Sequence, SliceWord, begin_checksum, checksum_of,
    store_checksum,
};

use crate::encode::EncodeError;
use crate::memory::HostMemory;
use crate::transmit::TransmitBatch;

impl TransmitBatch {
    /// Puts slices of at most `limit` bytes in the place of the last frame. On failure that is gone.
    #[cold]
    pub(crate) fn cut_last(
        &mut self,
        limit: usize,
        seed: Seed,
        memory: &impl HostMemory,
    ) -> Result<(), EncodeError> {
        let mut whole = core::mem::take(&mut self.whole);
        let result = self.cut(&mut whole, limit, seed, memory);
        self.whole = whole;
        self.sliced += u64::from(result.is_ok());
        result
    }

    fn cut(
        &mut self,
        whole: &mut alloc::vec::Vec<u8>,
        limit: usize,
        seed: Seed,
        memory: &impl HostMemory,
    ) -> Result<(), EncodeError> {
        let (link, to) = self.take_last(whole, memory)?;
        let step = limit.checked_sub(HEADER_BYTES).filter(|step| *step > 0);
        let step = step.ok_or(EncodeError::Unsendable)?;
        if whole.len().div_ceil(step) > self.room() as usize {
            // What fits no batch must not keep others waiting: nothing arrives, and in time the peer counts as lost.
            return Err(if self.is_empty() { EncodeError::Unsendable } else { EncodeError::Full });
        }
        let (header, _) = Header::parse(whole).map_err(|_| EncodeError::Unsendable)?;
        let name = Sequence(checksum_of(whole));
        let total = whole.len() as u16;
        for (place, slice) in whole.chunks(step).enumerate() {
            let header = Header {
                kind: Kind::Slice,
                flags: Flags::default(),
                length: slice.len() as u16,
                sequence: name,
                acknowledge: Sequence(0),
                word: SliceWord { offset: (place * step) as u16, total }.emit(),
                ..header
            };
            self.add((link, &to), None, |inline, _| {
                let inline = &mut inline[..HEADER_BYTES + slice.len()];
                header.emit(inline.first_chunk_mut().expect("just cut so"));
                inline[HEADER_BYTES..].copy_from_slice(slice);
                let sum = begin_checksum(inline, seed);
                store_checksum(inline, sum);
                Ok::<_, EncodeError>(inline.len())
            })?;
        }
        Ok(())
    }
}
