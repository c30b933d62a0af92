//! All memory of the process as one region, for faces.

use emp_firmware::{PostError, RegionId, Rights};

use crate::endpoint::mailbox::Endpoint;
use crate::memory::guarded::{ALL, is_allowed};

impl Endpoint {
    /// Exports all memory of this process: offsets in the region are addresses. What is not mapped when a peer reaches for it, or
    /// not to be written to, ends the peer's operation with an error. Slower than
    /// [`export_region_raw`](Self::export_region_raw), by a call of the kernel for each frame.
    ///
    /// # Errors
    ///
    /// As for that; [`PostError::MemoryFault`] if the system does not let processes copy so (`process_vm_readv`).
    ///
    /// # Safety
    ///
    /// Until [`remove_region_raw`](Self::remove_region_raw) or [`Node::close`](crate::Node::close) has returned, the application
    /// expects peers that know the key to read and, if the rights say so, write any of its memory.
    pub unsafe fn export_address_space_raw(
        &self,
        key: Option<u64>,
        rights: Rights,
    ) -> Result<RegionId, PostError> {
        if !is_allowed() {
            return Err(PostError::MemoryFault);
        }
        // SAFETY: no pointer, and never used as one.
        unsafe { self.export_region_raw(key, ALL, rights) }
    }
}
