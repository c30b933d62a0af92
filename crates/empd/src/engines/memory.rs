//! Memory that an engine has for a client's operation.
//!
//! # Invariant
//!
//! A [`Lent`] is a whole allocation of this process. From the post that names it until the end of that operation was handed out, or the node
//! was closed, it is the firmware's: nothing here touches it but by [`Lent::copy`], of what an end has told. So it must not be dropped before
//! either: [`operations`](super::operations) keeps it until the one, the engine until the other.

use std::alloc::{Layout, alloc_zeroed};
use std::ptr::NonNull;

use emp_host::{Segment, SegmentList};

/// Memory that is the firmware's meanwhile.
pub(super) struct Lent {
    at: NonNull<[u8]>,
}

// SAFETY: plain memory that this value owns.
unsafe impl Send for Lent {}

impl Lent {
    pub(super) fn new(bytes: Box<[u8]>) -> Self {
        // A box is never null.
        let at = NonNull::from(Box::leak(bytes));
        Self { at }
    }

    /// So many bytes of zeros, which are there once they are touched. `None`: there is no memory, of which one client must not be the end of all.
    pub(super) fn zeros(bytes: usize) -> Option<Self> {
        if bytes == 0 {
            return Some(Self::new(Box::default()));
        }
        let layout = Layout::array::<u8>(bytes).ok()?;
        // SAFETY: the layout has bytes.
        let at = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        // That layout is what a box of so many bytes has, and zeros are bytes: it is leaked as one would be.
        Some(Self { at: NonNull::slice_from_raw_parts(at, bytes) })
    }

    /// Bytes that are sent, and zeros behind them for what comes back. `None`: as above.
    pub(super) fn with_room(payload: &[u8], room: usize) -> Option<Self> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(payload.len().checked_add(room)?).ok()?;
        bytes.extend_from_slice(payload);
        bytes.resize(payload.len() + room, 0);
        Some(Self::new(bytes.into()))
    }

    pub(super) fn len(&self) -> usize {
        self.at.len()
    }

    /// A part of it as the firmware is told of it, cut to what there is.
    pub(super) fn part(&self, from: usize, bytes: usize) -> SegmentList {
        let address = self.at.as_ptr().cast::<u8>().expose_provenance() as u64;
        let all = Segment { address, bytes: self.len() as u64 };
        match all.part(from as u64, bytes as u64) {
            Segment { bytes: 0, .. } => SegmentList::empty(),
            part => SegmentList::one(part),
        }
    }

    /// A copy of a part of it, cut to what there is.
    ///
    /// # Safety
    ///
    /// An end has told of these bytes: the firmware writes to them no more.
    pub(super) unsafe fn copy(&self, from: usize, bytes: usize) -> Box<[u8]> {
        let from = from.min(self.len());
        let bytes = bytes.min(self.len() - from);
        // SAFETY: inside the allocation, as was just seen, and by the caller's promise nobody writes there.
        let part = unsafe {
            std::slice::from_raw_parts(self.at.as_ptr().cast::<u8>().add(from).cast_const(), bytes)
        };
        part.into()
    }

    /// It is this process's again.
    ///
    /// # Safety
    ///
    /// The operation's last end was handed out.
    pub(super) unsafe fn back(self) -> Box<[u8]> {
        let at = self.at;
        std::mem::forget(self);
        // SAFETY: it was leaked from a box, and by the caller's promise nobody else has it.
        unsafe { Box::from_raw(at.as_ptr()) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: it was leaked from a box; by the module's invariant the firmware has let go of it.
        drop(unsafe { Box::from_raw(self.at.as_ptr()) });
    }
}

/// Bytes that are copied before a post returns, as the firmware is told of them.
pub(super) fn segments_of(bytes: &[u8]) -> SegmentList {
    match bytes.len() {
        0 => SegmentList::empty(),
        length => {
            let address = bytes.as_ptr().expose_provenance() as u64;
            SegmentList::one(Segment { address, bytes: length as u64 })
        }
    }
}
