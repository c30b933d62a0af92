//! Memory that others reach.

use emp_firmware::{PostError, RegionId, Rights, Segment};

use crate::boards::lock::{Locked, Shared};
use crate::boards::seat::Seat;
use crate::memory::guarded::{self, ALL};
use crate::memory::pointer;
use crate::memory::windows::{RedirectError, Window};

/// Takes a region back; once this returns nothing uses its memory any more. False: there is none.
fn remove(shared: &Shared, core: &mut Locked<'_>, key: u64) -> bool {
    let now = core.now();
    let removed = match &mut core.away {
        Some(away) => away.remove_region(key),
        None => core.firmware_mut().is_some_and(|firmware| firmware.remove_region(now, key)),
    };
    core.let_go_of_memory();
    shared.posted(core, now);
    removed
}

impl Seat {
    /// Exports memory, of whose notifications this endpoint gets those that are for none that is open.
    ///
    /// # Safety
    ///
    /// The segment is covered by the invariant of [`crate::memory::process`] until the region was removed or the node closed.
    pub(crate) unsafe fn export(
        &self,
        key: Option<u64>,
        memory: Segment,
        rights: Rights,
        number: u16,
    ) -> Result<RegionId, PostError> {
        let mut core = self.lock();
        let exported = match &mut core.away {
            Some(away) => away.export(key, memory, rights, number),
            None => {
                let firmware = core.firmware_mut().ok_or(PostError::Closing)?;
                firmware.export_region(key, memory, rights, number)
            }
        };
        self.asked_away(&mut core);
        exported
    }

    /// Has offsets in a region count from `base`. False: there is no such region.
    pub(crate) fn set_region_base(&self, key: u64, base: u64) -> bool {
        let mut core = self.lock();
        let set = match &mut core.away {
            Some(away) => away.set_region_base(key, base),
            None => core.firmware_mut().is_some_and(|one| one.set_region_base(key, base)),
        };
        self.asked_away(&mut core);
        set
    }

    /// Takes a region back; once this returns nothing uses its memory any more. False: there is none.
    pub(crate) fn remove_region(&self, key: u64) -> bool {
        remove(&self.shared, &mut self.lock(), key)
    }

    /// The same for a region that is dropped. False: the node is broken or another process's, and may still use the memory.
    pub(crate) fn remove_dropped_region(&self, key: u64) -> bool {
        let Some(mut core) = self.shared.lock_to_drop() else { return false };
        remove(&self.shared, &mut core, key);
        true
    }

    /// Copies a part of a region out, while nothing of this node touches it. By the kernel, if it is another process that does: of what both do
    /// at once, either may be seen, byte by byte.
    ///
    /// # Safety
    ///
    /// The part is valid for reads, as long as `into`, and no part of it.
    pub(crate) unsafe fn copy_out(&self, part: Segment, into: &mut [u8]) {
        let core = self.lock();
        if core.away.is_some() && guarded::read(ALL.part(part.address, part.bytes), into).is_ok() {
            return;
        }
        // SAFETY: by the caller's promise; whoever else of this process uses it has the lock.
        unsafe { pointer::copy_out(part, into) };
    }

    /// The same, into a part of a region.
    ///
    /// # Safety
    ///
    /// The part is valid for writes, as long as `from`, and no part of it.
    pub(crate) unsafe fn copy_in(&self, part: Segment, from: &[u8]) {
        let core = self.lock();
        if core.away.is_some() && guarded::write(ALL.part(part.address, part.bytes), from).is_ok() {
            return;
        }
        // SAFETY: as above.
        unsafe { pointer::copy_in(part, from) };
    }

    /// Exports a window, to be written to by others only.
    ///
    /// # Safety
    ///
    /// As for [`export`](Self::export), until the window was removed.
    pub(crate) unsafe fn export_window(
        &self,
        key: Option<u64>,
        memory: Segment,
        number: u16,
    ) -> Result<(RegionId, Window), PostError> {
        let mut core = self.lock();
        let refusal = if core.away.is_some() { PostError::NotOnBoard } else { PostError::Closing };
        let (slot, known_as) = core.memory.windows.open(memory).ok_or(PostError::TooManyRegions)?;
        let exported = match core.firmware_mut() {
            Some(firmware) => firmware.export_region(key, known_as, Rights::REMOTE_WRITE, number),
            None => Err(refusal),
        };
        match exported {
            Ok(region) => Ok((region, Window { slot, key: region.key })),
            Err(error) => {
                core.memory.windows.close(slot);
                Err(error)
            }
        }
    }

    /// Takes a window back. False: there is none.
    pub(crate) fn remove_window(&self, window: Window) -> bool {
        let mut core = self.lock();
        let removed = remove(&self.shared, &mut core, window.key);
        if removed {
            core.memory.windows.close(window.slot);
        }
        removed
    }

    /// Has a part of a window elsewhere from now on; says how many bytes of it that had come were copied there.
    ///
    /// # Safety
    ///
    /// `to` is covered by the invariant of [`crate::memory::process`] until the part is at home again or the window was removed.
    pub(crate) unsafe fn redirect(
        &self,
        window: Window,
        offset: u64,
        to: Segment,
    ) -> Result<u64, RedirectError> {
        // SAFETY: as the caller says.
        unsafe { self.lock().memory.windows.redirect(window, offset, to) }
    }

    /// Has a part of a window at home again. False: it was not redirected.
    pub(crate) fn restore(&self, window: Window, offset: u64) -> bool {
        self.lock().memory.windows.come_home(window, offset)
    }

    /// Bytes of a window that have come were taken out of it. False: there is no such window.
    pub(crate) fn taken(&self, window: Window, offset: u64, bytes: u64) -> bool {
        self.lock().memory.windows.forget(window, offset, bytes)
    }
}
