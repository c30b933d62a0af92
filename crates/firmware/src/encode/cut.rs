//! Frames that leave in slices (`SLICE-1`): their train was cut before this way took no longer ones.
//!
//! Rare and slow (every byte is copied twice), so that messages under way need not be begun again.

use emp_wire::{
    Flags, HEADER_BYTES, Header, Kind, SLICE_STEP_BYTES, Seed, Sequence, SliceWord, begin_checksum,
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
        let first_hop = self.before.to;
        let room = limit.saturating_sub(HEADER_BYTES);
        let step = Some(room - room % SLICE_STEP_BYTES).filter(|step| *step > 0);
        let step = step.ok_or(EncodeError::Unsendable)?;
        let slices = whole.len().div_ceil(step);
        let fit = self.room() as usize;
        if slices > fit && !self.is_empty() {
            return Err(EncodeError::Full);
        }
        // More than any batch holds: each copy of the frame is other slices of it, as its receiver keeps those that it has.
        let first = if slices > fit { self.next_slice(slices) } else { 0 };
        let (header, _) = Header::parse(whole).map_err(|_| EncodeError::Unsendable)?;
        let total = whole.len() as u16;
        for place in (first..first + slices.min(fit)).map(|place| place % slices) {
            let slice = &whole[place * step..whole.len().min((place + 1) * step)];
            let header = Header {
                kind: Kind::Slice,
                flags: Flags::default(),
                length: slice.len() as u16,
                acknowledge: Sequence(0),
                word: SliceWord { offset: (place * step) as u16, total }.emit(),
                ..header
            };
            if to.is_behind_relays() {
                self.before.to = first_hop;
            }
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
