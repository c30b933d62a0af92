//! Exported regions (V8): what other nodes may reach of this node's memory, and the checks that stand before it (V29). A key
//! that is exported again gets another generation (`REGION-4`).

use hashbrown::HashMap;

use emp_wire::{DoneStatus, Get};

use super::bookkeeping::Verdict;
use super::{Place, ReceiveSide};
use crate::counters::Counter;
use crate::cross::{Control, RegionBlock, ToSend};
use crate::descriptor::PostError;
use crate::memory::Segment;
use crate::onesided::{RegionId, Rights};
use crate::tables::slots::Slots;

/// An exported region.
struct Region {
    generation: u32,
    memory: Segment,
    rights: Rights,
    /// The offset of its first byte.
    base: u64,
    /// Where notifications go whose own endpoint is not open.
    endpoint: u16,
}

/// All of a node's.
pub(crate) struct Regions {
    regions: Slots<Region>,
    by_key: HashMap<u64, u32>,
    /// The generation given out last, and the key chosen last.
    generation: u32,
    key: u64,
}

/// What an operation wants of a region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) key: u64,
    pub(super) generation: u32,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) rights: Rights,
}

impl Regions {
    /// None yet, of so many at most.
    pub(super) fn new(most: usize) -> Self {
        Self { regions: Slots::new(most), by_key: HashMap::new(), generation: 0, key: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.regions.len()
    }

    pub(crate) fn export(
        &mut self,
        key: Option<u64>,
        memory: Segment,
        rights: Rights,
        endpoint: u16,
    ) -> Result<RegionId, PostError> {
        if key.is_some_and(|key| self.by_key.contains_key(&key)) {
            return Err(PostError::KeyTaken);
        }
        if self.regions.is_full() {
            return Err(PostError::TooManyRegions);
        }
        let key = key.unwrap_or_else(|| self.free_key());
        // 0 in a request means "not to be checked".
        self.generation = self.generation.wrapping_add(1).max(1);
        let generation = self.generation;
        let region = Region { generation, memory, rights, base: 0, endpoint };
        let (index, _) = self.regions.insert(region).ok_or(PostError::TooManyRegions)?;
        self.by_key.insert(key, index);
        Ok(RegionId { key, generation })
    }

    fn free_key(&mut self) -> u64 {
        loop {
            self.key = self.key.wrapping_add(1);
            if !self.by_key.contains_key(&self.key) {
                return self.key;
            }
        }
    }

    /// The region that an operation may reach, or why it may not (`REGION-2`).
    pub(super) fn find(&self, access: &Access) -> Result<u32, DoneStatus> {
        let index = *self.by_key.get(&access.key).ok_or(DoneStatus::BadKey)?;
        let region = self.regions.at(index).ok_or(DoneStatus::BadKey)?;
        if access.generation != 0 && access.generation != region.generation {
            return Err(DoneStatus::BadGeneration);
        }
        let offset = access.offset.checked_sub(region.base);
        let end = offset.and_then(|offset| offset.checked_add(access.bytes));
        if end.is_none_or(|end| end > region.memory.bytes) {
            return Err(DoneStatus::OutOfBounds);
        }
        if !region.rights.allow(access.rights) {
            return Err(DoneStatus::NoRights);
        }
        Ok(index)
    }

    /// A part of a region. What does not lie in it is cut off.
    pub(super) fn part(&self, index: u32, offset: u64, bytes: u64) -> Option<Segment> {
        let region = self.regions.at(index)?;
        Some(region.memory.part(offset.checked_sub(region.base)?, bytes))
    }

    /// Has offsets in a region count from `base`. False: there is no such region.
    pub(crate) fn set_base(&mut self, key: u64, base: u64) -> bool {
        let Some(index) = self.by_key.get(&key) else { return false };
        self.regions.at_mut(*index).map(|region| region.base = base).is_some()
    }

    pub(super) fn endpoint(&self, index: u32) -> u16 {
        self.regions.at(index).map_or(0, |region| region.endpoint)
    }
}

impl ReceiveSide {
    /// Takes a region back, and ends what is under way in it (`REGION-3`).
    pub(crate) fn remove_region(&mut self, key: u64) -> bool {
        let Some(region) = self.regions.by_key.remove(&key) else { return false };
        if !self.order.is_idle() {
            let within: alloc::vec::Vec<u32> = self
                .incoming
                .indices()
                .filter(|i| {
                    let place = self.incoming.at(*i).map(|message| &message.place);
                    matches!(place, Some(Place::Region { region: other, .. }) if *other == region)
                })
                .collect();
            for index in within {
                self.counters.count(Counter::RefusedKey);
                self.give_up_with(index, DoneStatus::BadKey);
            }
        }
        self.regions.regions.remove(region);
        self.to_send.push_back(ToSend::RegionRemoved { region });
        true
    }

    /// Finds the region of an operation, and counts what is refused.
    pub(super) fn find_region(&mut self, access: &Access) -> Result<u32, DoneStatus> {
        let found = self.regions.find(access);
        if let Err(status) = found {
            self.counters.count(match status {
                DoneStatus::BadGeneration => Counter::RefusedGeneration,
                DoneStatus::OutOfBounds => Counter::RefusedBounds,
                DoneStatus::NoRights => Counter::RefusedRights,
                _ => Counter::RefusedKey,
            });
        }
        found
    }

    /// The peer wants a block of a region (`GET-1`). It is found here; the send side reads and sends it.
    pub(super) fn on_get(&mut self, peer: u32, body: &[u8]) -> Verdict {
        let Get { target, bytes, pull, fragment_bytes } = match Get::parse(body) {
            Ok(get) => get,
            Err(reason) => return Verdict::Dropped(reason.into()),
        };
        let access = Access {
            key: target.key,
            generation: target.generation,
            offset: target.offset,
            bytes: bytes.into(),
            rights: Rights::REMOTE_READ,
        };
        let handle = target.handle;
        let found = self.find_region(&access);
        let message = match found {
            Ok(region) if bytes > 0 => {
                let memory = self.regions.part(region, target.offset, bytes.into());
                let memory = memory.unwrap_or_default();
                let block = RegionBlock { region, memory, fragment: fragment_bytes, pull, handle };
                ToSend::GetRequested { peer, block }
            }
            answer => {
                let status = answer.err().unwrap_or(DoneStatus::Complete);
                let control = Control::Reply { handle, status, values: None };
                ToSend::Control { peer, control }
            }
        };
        if found.is_ok() {
            self.counters.count(Counter::GetsServed);
        }
        self.to_send.push_back(message);
        Verdict::Taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(key: u64, generation: u32, offset: u64, bytes: u64) -> Access {
        Access { key, generation, offset, bytes, rights: Rights::REMOTE_READ }
    }

    #[test]
    fn each_check_has_its_answer() {
        let mut regions = Regions::new(2);
        let memory = Segment { address: 4096, bytes: 100 };
        let read = Rights::REMOTE_READ;
        let RegionId { generation, .. } = regions.export(Some(7), memory, read, 0).unwrap();
        assert_eq!(regions.export(Some(7), memory, read, 0), Err(PostError::KeyTaken));
        assert!(regions.find(&access(7, generation, 0, 100)).is_ok());
        assert!(regions.find(&access(7, 0, 100, 0)).is_ok(), "no bytes at the end");
        let of = |access: &Access| regions.find(access).unwrap_err();
        assert_eq!(of(&access(8, 0, 0, 1)), DoneStatus::BadKey);
        assert_eq!(of(&access(7, generation + 1, 0, 1)), DoneStatus::BadGeneration);
        for (offset, bytes) in [(0, 101), (100, 1), (101, 0), (u64::MAX, 1), (1, u64::MAX)] {
            assert_eq!(of(&access(7, 0, offset, bytes)), DoneStatus::OutOfBounds);
        }
        let write = Access { rights: Rights::REMOTE_WRITE, ..access(7, 0, 0, 1) };
        assert_eq!(of(&write), DoneStatus::NoRights);
        let both = Access { rights: Rights::BOTH, ..access(7, 0, 0, 1) };
        assert_eq!(of(&both), DoneStatus::NoRights);
    }

    /// `REGION-4`.
    #[test]
    fn chosen_keys_are_free() {
        let mut regions = Regions::new(3);
        let memory = Segment { address: 0, bytes: 1 };
        regions.export(Some(1), memory, Rights::NONE, 0).unwrap();
        let second = regions.export(None, memory, Rights::NONE, 0).unwrap();
        assert_ne!(second.key, 1);
        regions.by_key.remove(&1);
        let third = regions.export(Some(1), memory, Rights::NONE, 0).unwrap();
        assert!(third.generation > second.generation, "a key used again is another region");
    }
}
