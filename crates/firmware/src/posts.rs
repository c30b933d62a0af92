//! Posts of one-sided operations, and the regions that they reach.

use crate::descriptor::{OpId, PostError};
use crate::engine::Firmware;
use crate::memory::{HostMemory, Segment};
use crate::one_sided::{AtomicDescriptor, GetDescriptor, PutDescriptor, RegionId, Rights};
use crate::time::Time;

impl Firmware {
    /// Exports memory, so that other nodes may read and write it without this node's host having a part in it. `None` as
    /// key: one that is free is chosen. Notifications of puts whose endpoint is not open go to `endpoint`.
    ///
    /// Errors: [`PostError::KeyTaken`], [`PostError::TooManyRegions`], [`PostError::Closing`].
    pub fn export_region(
        &mut self,
        _key: Option<u64>,
        _memory: Segment,
        _rights: Rights,
        _endpoint: u16,
    ) -> Result<RegionId, PostError> {
        Err(PostError::Unsupported)
    }

    /// Takes a region back. What is under way in it ends with an error at its initiator; once this returns, nothing is
    /// written to its memory any more, and nothing read that is not named by a batch already. False: there is none.
    pub fn remove_region(&mut self, _now: Time, _key: u64) -> bool {
        false
    }

    /// Posts a put. It is complete when the target has placed it.
    ///
    /// Errors: as [`post_send`](Self::post_send).
    pub fn post_put(
        &mut self,
        _now: Time,
        _put: PutDescriptor,
        _memory: &mut impl HostMemory,
    ) -> Result<OpId, PostError> {
        Err(PostError::Unsupported)
    }

    /// Posts a get. It is complete when all bytes are here.
    ///
    /// Errors: as [`post_send`](Self::post_send).
    pub fn post_get(
        &mut self,
        _now: Time,
        _get: GetDescriptor,
        _memory: &mut impl HostMemory,
    ) -> Result<OpId, PostError> {
        Err(PostError::Unsupported)
    }

    /// Posts an atomic operation. It is complete when the target has executed it and the old values, if wanted, are here.
    ///
    /// Errors: as [`post_send`](Self::post_send); [`PostError::TooLong`] beyond
    /// [`atomic_bytes_max`](Self::atomic_bytes_max); [`PostError::PoolFull`]; [`PostError::Unsupported`].
    pub fn post_atomic(
        &mut self,
        _now: Time,
        _atomic: AtomicDescriptor,
        _memory: &mut impl HostMemory,
    ) -> Result<OpId, PostError> {
        Err(PostError::Unsupported)
    }

    /// Most bytes of operands, with what to compare, that one atomic operation takes.
    pub fn atomic_bytes_max(&self) -> usize {
        self.single_frame_bytes_max()
    }
}
