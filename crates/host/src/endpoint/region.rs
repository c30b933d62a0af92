//! Memory that other nodes may reach by themselves.
//!
//! # Why this is sound
//!
//! Peers write to a region at any time, so no reference to its bytes may ever exist outside the node's lock: the firmware
//! touches memory only with that lock held, and so does [`Region::read`] and [`Region::write`], which copy. The bytes are
//! kept in a [`Held`], through which nothing else reaches them, until the firmware has forgotten the region. Where the firmware is in another
//! process, the kernel copies on both sides.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use emp_firmware::{RegionId, RemoteRegion, Rights, Segment};

use crate::endpoint::error::{Refused, RefusedReason};
use crate::memory::buffer::Held;
use crate::node::running::{Node, NodeInner};

/// Most bytes that are copied while the node's lock is held: about 10 µs, so that others get their turn.
const COPY_AT_ONCE: usize = 64 << 10;

/// How a region is exported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionOptions {
    /// What others may do with it. Default: everything.
    pub rights: Rights,
    /// Its key. Default: one that is free.
    pub key: Option<u64>,
    /// The endpoint that is notified of puts whose own endpoint is not open. Default: 0.
    pub endpoint: u16,
}

impl Default for RegionOptions {
    fn default() -> Self {
        Self { rights: Rights::BOTH, key: None, endpoint: 0 }
    }
}

/// Memory of this node that other nodes read and write by [`put`](crate::Endpoint::put), [`get`](crate::Endpoint::get) and
/// atomics, without this application having a part in it.
///
/// Dropping it takes it back: what is under way in it ends with an error at its initiator.
pub struct Region {
    node: Arc<NodeInner>,
    id: RegionId,
    endpoint: u16,
    segment: Segment,
    memory: ManuallyDrop<Held<Vec<u8>>>,
}

impl Node {
    /// Exports memory with all rights.
    ///
    /// # Errors
    ///
    /// The memory comes back, with the reason: too many regions, or the node is closed.
    pub fn export(&self, memory: Vec<u8>) -> Result<Region, Refused<Vec<u8>>> {
        self.export_with(memory, RegionOptions::default())
    }

    /// As [`export`](Self::export), with options. Refused as well if the key is taken.
    pub fn export_with(
        &self,
        memory: Vec<u8>,
        options: RegionOptions,
    ) -> Result<Region, Refused<Vec<u8>>> {
        let mut memory = Held::new(memory);
        let list = memory.segments_mut().expect("a vector is one run of memory");
        let segment = list.as_slice().first().copied().unwrap_or_default();
        let RegionOptions { rights, key, endpoint } = options;
        // SAFETY: the segment is the vector's, which the region keeps until `give_back` has had the firmware forget it.
        let exported = unsafe { self.inner.seat.export(key, segment, rights, endpoint) };
        match exported {
            Ok(id) => {
                let (node, memory) = (Arc::clone(&self.inner), ManuallyDrop::new(memory));
                Ok(Region { node, id, endpoint, segment, memory })
            }
            Err(error) => {
                let reason = RefusedReason::Firmware(error);
                // SAFETY: nothing was exported.
                Err(Refused { reason, buffer: unsafe { memory.release() } })
            }
        }
    }
}

impl Region {
    /// Its key and generation.
    pub fn id(&self) -> RegionId {
        self.id
    }

    /// What others need in order to reach it: to be sent to them, or known by them otherwise.
    pub fn remote(&self) -> RemoteRegion {
        RemoteRegion {
            to: self.node.id,
            to_endpoint: self.endpoint,
            key: self.id.key,
            generation: self.id.generation,
            offset: 0,
        }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        // It was a vector's length.
        self.segment.bytes as usize
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the bytes from `offset` on out of the region.
    ///
    /// What peers write meanwhile may be seen in part: pieces of up to 64 KB are copied at once.
    ///
    /// # Panics
    ///
    /// If that reaches beyond the region.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        self.check(offset, into.len());
        for (nth, piece) in into.chunks_mut(COPY_AT_ONCE).enumerate() {
            let part = self.part(offset + nth * COPY_AT_ONCE, piece.len());
            // SAFETY: the part is within the vector, which the region keeps.
            unsafe { self.node.seat.copy_out(part, piece) };
        }
    }

    /// Copies bytes into the region, from `offset` on.
    ///
    /// What peers read meanwhile may have changed in part: pieces of up to 64 KB are copied at once.
    ///
    /// # Panics
    ///
    /// If that reaches beyond the region.
    pub fn write(&self, offset: usize, from: &[u8]) {
        self.check(offset, from.len());
        for (nth, piece) in from.chunks(COPY_AT_ONCE).enumerate() {
            let part = self.part(offset + nth * COPY_AT_ONCE, piece.len());
            // SAFETY: as for `read`.
            unsafe { self.node.seat.copy_in(part, piece) };
        }
    }

    /// The bytes from `offset` on, copied.
    ///
    /// # Panics
    ///
    /// If that reaches beyond the region.
    pub fn to_vec(&self, offset: usize, bytes: usize) -> Vec<u8> {
        self.check(offset, bytes);
        let mut copy = vec![0; bytes];
        self.read(offset, &mut copy);
        copy
    }

    /// Takes the region back, and its memory with it.
    pub fn take_back(self) -> Vec<u8> {
        let mut region = ManuallyDrop::new(self);
        // SAFETY: `drop` does not run, so this happens once; the node's handle is not used afterwards.
        unsafe {
            let memory = region.give_back();
            std::ptr::drop_in_place(&raw mut region.node);
            memory.expect("this thread did not panic while it had the node")
        }
    }

    fn check(&self, offset: usize, bytes: usize) {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.len());
        assert!(inside, "{bytes} bytes at {offset} of a region of {}", self.len());
    }

    fn part(&self, offset: usize, bytes: usize) -> Segment {
        self.segment.part(offset as u64, bytes as u64)
    }

    /// Ends the region. `None`: the node is broken, and the memory is leaked, for it may still be used.
    ///
    /// # Safety
    ///
    /// To be called once; the region is of no use afterwards.
    unsafe fn give_back(&mut self) -> Option<Vec<u8>> {
        if !self.node.seat.remove_dropped_region(self.id.key) {
            return None;
        }
        // SAFETY: called once; the firmware has forgotten the region, and nothing that names it is under way.
        Some(unsafe { ManuallyDrop::take(&mut self.memory).release() })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the last that happens to the region.
        drop(unsafe { self.give_back() });
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region").field("id", &self.id).field("len", &self.len()).finish()
    }
}
