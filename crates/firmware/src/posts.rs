//! Posts of one-sided operations, and the regions that they reach.

use emp_wire::{Atomic, Epoch, HEADER_BYTES};

use crate::descriptor::{OpId, PostError};
use crate::engine::Firmware;
use crate::memory::{HostMemory, Segment};
use crate::one_sided::{AtomicDescriptor, GetDescriptor, PutDescriptor, RegionId, Rights};
use crate::time::Time;

impl Firmware {
    /// Exports memory, so that other nodes may read and write it without this node's host having a part in it. `None` as
    /// key: one that is free is chosen. Notifications of puts whose endpoint is not open are for `endpoint`.
    ///
    /// Errors: [`PostError::KeyTaken`], [`PostError::TooManyRegions`], [`PostError::Closing`].
    pub fn export_region(
        &mut self,
        key: Option<u64>,
        memory: Segment,
        rights: Rights,
        endpoint: u16,
    ) -> Result<RegionId, PostError> {
        if self.closing.is_some() {
            return Err(PostError::Closing);
        }
        self.receive.export_region(key, memory, rights, endpoint)
    }

    /// Has offsets in a region count from `base` instead of 0, as for a face whose peers name places by the addresses that
    /// they have in the owner's memory. To be called before peers know the key. False: there is no such region.
    pub fn set_region_base(&mut self, key: u64, base: u64) -> bool {
        self.receive.set_region_base(key, base)
    }

    /// Takes a region back. What is under way in it ends with an error at its initiator. Once this returns, nothing is
    /// written to its memory any more (`REGION-3`), and nothing read but what frames in a batch name already: send or
    /// drop those before the memory goes away. False: there is no such region.
    pub fn remove_region(&mut self, now: Time, key: u64) -> bool {
        let removed = self.receive.remove_region(key);
        self.relay(now);
        removed
    }

    /// Posts a put. It is complete when the target has placed it.
    ///
    /// Errors: as [`post_send`](Self::post_send).
    pub fn post_put(
        &mut self,
        now: Time,
        put: PutDescriptor,
        memory: &mut impl HostMemory,
    ) -> Result<OpId, PostError> {
        let peer = self.destination(now, put.target.to, put.endpoint)?;
        let buffered_max = self.atomic_bytes_max();
        self.send.post_put(now, peer, put, buffered_max, memory)
    }

    /// Posts a get. It is complete when all bytes are here.
    ///
    /// Errors: as [`post_send`](Self::post_send).
    pub fn post_get(
        &mut self,
        now: Time,
        get: GetDescriptor,
        _memory: &mut impl HostMemory,
    ) -> Result<OpId, PostError> {
        let peer = self.destination(now, get.target.to, get.endpoint)?;
        let known = self.peers[peer].remote_epoch != Epoch::UNKNOWN;
        let fragment = known.then(|| self.fragment_bytes(peer));
        self.receive.set_time(now);
        let op = self.receive.post_get(peer, get, fragment)?;
        self.watch(now);
        self.relay(now);
        Ok(op)
    }

    /// Payload bytes of the frames that a peer is asked for: none is longer than the MTU (`LONG-5`).
    pub(crate) fn fragment_bytes(&self, peer: u32) -> u16 {
        self.peers[peer].frame_bytes_max - HEADER_BYTES as u16
    }

    /// Posts an atomic operation. It is complete when the target has executed it and the old values, if wanted, are here.
    ///
    /// Errors: as [`post_send`](Self::post_send); [`PostError::TooLong`] beyond
    /// [`atomic_bytes_max`](Self::atomic_bytes_max); [`PostError::PoolFull`]; [`PostError::Unsupported`].
    pub fn post_atomic(
        &mut self,
        now: Time,
        atomic: AtomicDescriptor,
        memory: &mut impl HostMemory,
    ) -> Result<OpId, PostError> {
        self.check_atomic(&atomic)?;
        let peer = self.destination(now, atomic.target.to, atomic.endpoint)?;
        let Some(into) = atomic.fetch_into.clone() else {
            return self.send.post_atomic(now, peer, &atomic, None, memory);
        };
        let (op, name) = self.receive.expect_values(peer, &atomic, into)?;
        match self.send.post_atomic(now, peer, &atomic, Some(name), memory) {
            Ok(_) => {
                self.watch(now);
                Ok(op)
            }
            Err(error) => {
                self.receive.forget_fetch(op);
                Err(error)
            }
        }
    }

    /// Most bytes of operands, with what to compare, that one atomic operation takes; of elements, for a read. A peer
    /// that takes smaller frames takes less: then the operation ends with [`Status::TooLong`](crate::Status::TooLong).
    pub fn atomic_bytes_max(&self) -> usize {
        usize::from(self.frame_bytes_max) - HEADER_BYTES - emp_wire::ATOMIC_BYTES
    }

    fn check_atomic(&self, atomic: &AtomicDescriptor) -> Result<(), PostError> {
        let AtomicDescriptor { operation, datatype, count, .. } = *atomic;
        let bytes = Atomic::element_bytes((datatype, count));
        let fits = |list: &Option<crate::memory::SegmentList>, wanted: bool| match list {
            Some(list) => wanted && list.bytes() == bytes,
            None => !wanted,
        };
        let operand_bytes = if operation.has_operands() { bytes } else { 0 };
        let fetch = &atomic.fetch_into;
        let sane = count > 0
            && operation.defined_for(datatype)
            && atomic.operands.bytes() == operand_bytes
            && fits(&atomic.compare, operation.compares())
            && fits(fetch, fetch.is_some());
        if !sane {
            return Err(PostError::Unsupported);
        }
        let payload = Atomic::payload_bytes(operation, bytes).max(bytes);
        if payload > self.atomic_bytes_max() as u64 { Err(PostError::TooLong) } else { Ok(()) }
    }
}
