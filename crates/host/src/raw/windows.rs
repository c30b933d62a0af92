//! Windows for faces: exported memory parts of which go elsewhere for a while.

use emp_firmware::{PostError, RegionId, Segment};

use crate::endpoint::mailbox::Endpoint;
use crate::memory::windows::{RedirectError, Window};

impl Endpoint {
    /// Exports memory that the caller manages, to be written to by others only, so that parts of it may be redirected
    /// ([`redirect_raw`](Self::redirect_raw)). Otherwise as [`export_region_raw`](Self::export_region_raw).
    ///
    /// # Errors
    ///
    /// As for that; too many regions also if it is longer than 4 TiB.
    ///
    /// # Safety
    ///
    /// As for that, with [`remove_window_raw`](Self::remove_window_raw) for its end.
    pub unsafe fn export_window_raw(
        &self,
        key: Option<u64>,
        memory: Segment,
    ) -> Result<(RegionId, Window), PostError> {
        // SAFETY: as the caller promises.
        unsafe { self.inner.node.seat.export_window(key, memory, self.inner.number) }
    }

    /// Takes a window back, as [`remove_region_raw`](Self::remove_region_raw) does a region. To be called once for each.
    pub fn remove_window_raw(&self, window: Window) -> bool {
        self.inner.node.seat.remove_window(window)
    }

    /// From now on, what others write to the part of a window that begins at `offset` and is as long as `to` goes there
    /// instead. Bytes of it that have come before, and were not taken since ([`taken_raw`](Self::taken_raw)), are copied
    /// there; their number is returned. Nothing comes in between.
    ///
    /// # Errors
    ///
    /// What is wrong with the part; nothing has changed.
    ///
    /// # Safety
    ///
    /// As for the memory of [`export_window_raw`](Self::export_window_raw), until this part is
    /// [`restored`](Self::restore_raw) or the window was taken back.
    pub unsafe fn redirect_raw(
        &self,
        window: Window,
        offset: u64,
        to: Segment,
    ) -> Result<u64, RedirectError> {
        // SAFETY: as the caller says.
        unsafe { self.inner.node.seat.redirect(window, offset, to) }
    }

    /// Ends the redirection of the part that begins at `offset`: once this returns, nothing is written to where it went. False:
    /// there is none.
    pub fn restore_raw(&self, window: Window, offset: u64) -> bool {
        self.inner.node.seat.restore(window, offset)
    }

    /// Bytes of a window that have come were taken out of it by the application, and are of no interest to a redirection. False:
    /// there is no such window.
    pub fn taken_raw(&self, window: Window, offset: u64, bytes: u64) -> bool {
        self.inner.node.seat.taken(window, offset, bytes)
    }
}
