//! Protection tags and registered memory.
//!
//! Memory that others may write or read is a region of the node. Its key is made of the tag's number and the handle, so that
//! a VI of another tag, or of a handle that is no more, finds nothing: the firmware refuses by itself.

use std::ffi::{c_int, c_ulong, c_void};
use std::time::Duration;

use emp_face::handles::Key;
use emp_face::pointers::{look, store};
use emp_face::slots::Slots;
use emp_host::{Rights, Segment};

use crate::abi::*;
use crate::errors::{enter, lacking, wrong};
use crate::nic::{Nic, REGIONS_MAX, nic};
use crate::points::PTAG;
use crate::state::State;

/// The number of the NIC's default tag, that of a null handle. Other tags have others.
pub const DEFAULT_TAG: u32 = 0;

/// What null attributes of memory stand for: the default tag, and nothing that others may do.
const DEFAULT_ATTRIBUTES: MemAttributes = MemAttributes { ptag: 0, rdma_write: 0, rdma_read: 0 };

/// A protection tag.
pub struct Ptag {
    /// By which other nodes name its memory.
    pub number: u32,
    /// VIs and regions that have it.
    pub users: usize,
}

/// Registered memory.
pub struct Region {
    base: u64,
    bytes: u64,
    /// `None`: the NIC's default tag.
    ptag: Option<Key>,
    number: u32,
    write: bool,
    read: bool,
    /// Descriptors under way that lie or point there.
    users: usize,
}

/// Bytes of a region: its handle, the first byte's address, and how many.
pub type Piece = (MemHandle, u64, u64);

/// Regions by their handles: 16 bits of generation, which is never 0, and 16 of place.
#[derive(Default)]
pub struct Regions {
    slots: Slots<(u16, Region)>,
    generation: u16,
}

/// The regions that a descriptor uses: its own, and those of its segments. If they are more than four, this allocates.
#[derive(Default)]
pub struct Used {
    few: [MemHandle; 4],
    count: u8,
    more: Vec<MemHandle>,
}

impl Used {
    pub fn push(&mut self, handle: MemHandle) {
        match self.few.get_mut(usize::from(self.count)) {
            Some(place) => {
                *place = handle;
                self.count += 1;
            }
            None => self.more.push(handle),
        }
    }

    pub fn all(&self) -> impl Iterator<Item = MemHandle> + '_ {
        self.few[..usize::from(self.count)].iter().chain(&self.more).copied()
    }
}

impl Regions {
    fn insert(&mut self, region: Region) -> Option<MemHandle> {
        if self.slots.used() >= REGIONS_MAX {
            return None;
        }
        self.generation = self.generation.wrapping_add(1).max(1);
        let place = self.slots.insert((self.generation, region)) as u32;
        Some(u32::from(self.generation) << 16 | place)
    }

    #[inline]
    fn get_mut(&mut self, handle: MemHandle) -> Option<&mut Region> {
        let (generation, region) = self.slots.get_mut((handle & 0xffff) as usize)?;
        (u32::from(*generation) == handle >> 16).then_some(region)
    }

    fn remove(&mut self, handle: MemHandle) {
        if self.get_mut(handle).is_some() {
            self.slots.remove((handle & 0xffff) as usize);
        }
    }

    /// The region of a handle, if the address is in it or at its end and its tag and this one go together; and how many bytes it
    /// has from there on. The default tag goes with any, as on Giganet's cards.
    #[inline]
    fn at(
        &mut self,
        handle: MemHandle,
        address: u64,
        ptag: Option<Key>,
    ) -> Option<(&mut Region, u64)> {
        let region = self.get_mut(handle)?;
        let left = region.bytes.checked_sub(address.checked_sub(region.base)?)?;
        let fits = region.ptag == ptag || region.ptag.is_none() || ptag.is_none();
        fits.then_some((region, left))
    }

    /// True if all of these bytes are in memory of this handle and tag.
    #[inline]
    pub fn covers(&mut self, (handle, address, bytes): Piece, ptag: Option<Key>) -> bool {
        self.at(handle, address, ptag).is_some_and(|(_, left)| bytes <= left)
    }

    /// Notes that a descriptor uses these bytes. False: they are not in memory of this handle and tag.
    #[inline]
    pub fn hold(&mut self, piece: Piece, ptag: Option<Key>, used: &mut Used) -> bool {
        let Some((region, left)) = self.at(piece.0, piece.1, ptag) else { return false };
        if piece.2 > left {
            return false;
        }
        region.users += 1;
        used.push(piece.0);
        true
    }

    /// The same for as many of them as the memory has; returns how many. `None`: the first of them is not in it.
    #[inline]
    pub fn hold_part(
        &mut self,
        (handle, address, bytes): Piece,
        ptag: Option<Key>,
        used: &mut Used,
    ) -> Option<u64> {
        let (region, left) = self.at(handle, address, ptag)?;
        if left == 0 {
            return None;
        }
        region.users += 1;
        used.push(handle);
        Some(bytes.min(left))
    }

    /// The descriptor is done.
    #[inline]
    pub fn release(&mut self, used: &Used) {
        for handle in used.all() {
            if let Some(region) = self.get_mut(handle) {
                region.users -= 1;
            }
        }
    }
}

/// By which other nodes name memory.
pub fn region_key(tag: u32, handle: MemHandle) -> u64 {
    u64::from(tag) << 32 | u64::from(handle)
}

/// True if this process has all of this memory.
fn is_mapped(address: usize, bytes: usize) -> bool {
    // SAFETY: takes no pointers, cannot fail.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let first = address & !(page - 1);
    let Some(end) = address.checked_add(bytes) else { return false };
    let first_page = std::ptr::with_exposed_provenance_mut(first);
    // SAFETY: does nothing with the memory but to see whether it is there: changes of files that are mapped are written
    // by the system at its leisure, as they are anyway.
    unsafe { libc::msync(first_page, end - first, libc::MS_ASYNC) == 0 }
}

impl Region {
    /// By which keys others reach it, if they may: that of its tag; and that of the default tag, once a VI has that (`untagged`).
    fn keys(&self, handle: MemHandle, untagged: bool) -> impl Iterator<Item = u64> {
        let shared = self.write || self.read;
        let also = (untagged && self.number != DEFAULT_TAG).then_some(DEFAULT_TAG);
        let tags = [Some(self.number), also].into_iter().flatten();
        tags.filter(move |_| shared).map(move |tag| region_key(tag, handle))
    }
}

impl Nic {
    /// Has others reach memory, if it permits that.
    fn export(&self, handle: MemHandle, region: &Region, untagged: bool) -> Result<(), Return> {
        for key in region.keys(handle, untagged) {
            if let Err(error) = self.export_as(key, region) {
                self.unexport(handle, region, untagged);
                return Err(error);
            }
        }
        Ok(())
    }

    fn export_as(&self, key: u64, region: &Region) -> Result<(), Return> {
        let rights = match (region.write, region.read) {
            (true, false) => Rights::REMOTE_WRITE,
            (false, true) => Rights::REMOTE_READ,
            (false, false) | (true, true) => Rights::BOTH,
        };
        let memory = Segment { address: region.base, bytes: region.bytes };
        // SAFETY: the consumer keeps registered memory until it is deregistered, and expects others to use it meanwhile.
        unsafe { self.endpoint.export_region_raw(Some(key), memory, rights) }
            .map_err(|error| lacking(&format!("memory cannot be reached by others: {error:?}")))?;
        self.endpoint.set_region_base_raw(key, region.base);
        Ok(())
    }

    fn unexport(&self, handle: MemHandle, region: &Region, untagged: bool) {
        for key in region.keys(handle, untagged) {
            self.endpoint.remove_region_raw(key);
        }
    }

    /// A VI has the default tag, and reaches memory of every tag: from now on it can be found under that one as well.
    pub fn let_untagged(&self, state: &mut State) -> Result<(), Return> {
        if std::mem::replace(&mut state.untagged, true) {
            return Ok(());
        }
        for (place, (generation, region)) in state.regions.slots.all() {
            let handle = u32::from(*generation) << 16 | place as u32;
            // That of its own tag, the first one, it has.
            for key in region.keys(handle, true).skip(1) {
                self.export_as(key, region)?;
            }
        }
        Ok(())
    }
}

/// The tag of a handle.
fn ptag(state: &mut State, handle: Handle) -> Result<(Key, &mut Ptag), Return> {
    let key = Key::of(handle, PTAG).ok_or(Return::INVALID_PTAG)?;
    Ok((key, state.ptags.get_mut(key).ok_or(Return::INVALID_PTAG)?))
}

/// The same of attributes, where null is the NIC's default tag (`None`), with the tag's number.
pub fn tag_of(state: &mut State, handle: Handle) -> Result<(Option<Key>, u32), Return> {
    if handle == 0 {
        return Ok((None, DEFAULT_TAG));
    }
    let (key, tag) = ptag(state, handle)?;
    Ok((Some(key), tag.number))
}

/// The handle of a tag as attributes have it.
pub fn handle_of(ptag: Option<Key>) -> Handle {
    ptag.map_or(0, |key| key.handle(PTAG))
}

impl State {
    /// A tag has a user more.
    pub fn use_tag(&mut self, key: Option<Key>) {
        if let Some(tag) = key.and_then(|key| self.ptags.get_mut(key)) {
            tag.users += 1;
        }
    }

    /// A tag has a user less.
    pub fn leave_tag(&mut self, key: Option<Key>) {
        if let Some(tag) = key.and_then(|key| self.ptags.get_mut(key)) {
            tag.users -= 1;
        }
    }
}

/// A region by its handle and first byte.
fn region(
    state: &mut State,
    address: *mut c_void,
    handle: MemHandle,
) -> Result<&mut Region, Return> {
    let region = state.regions.get_mut(handle).ok_or(Return::INVALID_PARAMETER)?;
    if region.base != address.addr() as u64 {
        return Err(Return::INVALID_PARAMETER);
    }
    Ok(region)
}

#[unsafe(no_mangle)]
pub extern "C" fn VipCreatePtag(handle: Handle, into: *mut Handle) -> Return {
    enter(|| {
        let nic = nic(handle)?;
        let mut state = nic.lock()?;
        if into.is_null() {
            return Err(Return::INVALID_PARAMETER);
        }
        let number = state.next_tag;
        let key = state.ptags.insert(Ptag { number, users: 0 });
        let key = key.map_err(|_| lacking(&"too many protection tags"))?;
        state.next_tag = number.wrapping_add(1).max(DEFAULT_TAG + 1);
        // SAFETY: not null, and by the header's rules valid.
        unsafe { store(into, key.handle(PTAG)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipDestroyPtag(handle: Handle, tag: Handle) -> Return {
    enter(|| {
        let nic = nic(handle)?;
        let mut state = nic.lock()?;
        let (key, tag) = ptag(&mut state, tag).map_err(|_| Return::INVALID_PARAMETER)?;
        if tag.users != 0 {
            return Err(Return::ERROR_RESOURCE);
        }
        state.ptags.remove(key);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipRegisterMem(
    handle: Handle,
    address: *mut c_void,
    length: c_ulong,
    attributes: *const MemAttributes,
    into: *mut MemHandle,
) -> Return {
    enter(|| {
        let nic = nic(handle)?;
        let mut state = nic.lock()?;
        // SAFETY: the header's rules: null or valid.
        let wanted = unsafe { look(attributes) }.copied().unwrap_or(DEFAULT_ATTRIBUTES);
        if into.is_null() || address.is_null() || length == 0 {
            return Err(Return::INVALID_PARAMETER);
        }
        let base = address.expose_provenance();
        if !is_mapped(base, length as usize) {
            return Err(wrong("memory that is not there cannot be registered"));
        }
        let (key, number) = tag_of(&mut state, wanted.ptag)?;
        let region = Region {
            base: base as u64,
            bytes: length,
            ptag: key,
            number,
            write: wanted.rdma_write != 0,
            read: wanted.rdma_read != 0,
            users: 0,
        };
        let handle = state.regions.insert(region);
        let handle = handle.ok_or_else(|| lacking(&"too many regions of memory"))?;
        let untagged = state.untagged;
        if let Some(region) = state.regions.get_mut(handle)
            && let Err(error) = nic.export(handle, region, untagged)
        {
            state.regions.remove(handle);
            return Err(error);
        }
        state.use_tag(key);
        // SAFETY: not null, and by the header's rules valid.
        unsafe { store(into, handle) };
        Ok(())
    })
}

/// A descriptor in memory that goes away is given up at once, unless its bytes are on their way: those end within a round
/// trip, or when the peer is lost. This is how often they are looked after.
const DEREGISTER_SLICE: Duration = Duration::from_millis(1);

#[unsafe(no_mangle)]
pub extern "C" fn VipDeregisterMem(
    handle: Handle,
    address: *mut c_void,
    memory: MemHandle,
) -> Return {
    enter(|| {
        let nic = nic(handle)?;
        {
            let mut state = nic.lock()?;
            let untagged = state.untagged;
            let region = region(&mut state, address, memory)?;
            nic.unexport(memory, region, untagged);
            (region.write, region.read) = (false, false);
            if region.users != 0 {
                nic.give_up_memory(&mut state, memory);
            }
        }
        loop {
            let free = |state: &mut State| {
                state.regions.get_mut(memory).is_none_or(|region| region.users == 0).then_some(())
            };
            let end = Some(std::time::Instant::now() + DEREGISTER_SLICE);
            let found = nic.glance(free)?;
            if found.is_some() || nic.wait(end, free)?.is_some() {
                break;
            }
        }
        let mut state = nic.lock()?;
        if let Some(region) = state.regions.get_mut(memory) {
            let tag = region.ptag;
            state.regions.remove(memory);
            state.leave_tag(tag);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipSetMemAttributes(
    handle: Handle,
    address: *mut c_void,
    memory: MemHandle,
    attributes: *const MemAttributes,
) -> Return {
    enter(|| {
        let nic = nic(handle)?;
        let mut state = nic.lock()?;
        // SAFETY: the header's rules: null or valid.
        let wanted = *unsafe { look(attributes) }.ok_or(Return::INVALID_PARAMETER)?;
        region(&mut state, address, memory)?;
        let (key, number) = tag_of(&mut state, wanted.ptag)?;
        state.use_tag(key);
        let untagged = state.untagged;
        let region = region(&mut state, address, memory)?;
        nic.unexport(memory, region, untagged);
        let before = std::mem::replace(&mut region.ptag, key);
        region.number = number;
        (region.write, region.read) = (wanted.rdma_write != 0, wanted.rdma_read != 0);
        let exported = nic.export(memory, region, untagged);
        if exported.is_err() {
            (region.write, region.read) = (false, false);
        }
        state.leave_tag(before);
        exported
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipQueryMem(
    handle: Handle,
    address: *mut c_void,
    memory: MemHandle,
    attributes: *mut MemAttributes,
) -> Return {
    enter(|| {
        let nic = nic(handle)?;
        let mut state = nic.lock()?;
        let region = region(&mut state, address, memory)?;
        if attributes.is_null() {
            return Err(Return::INVALID_PARAMETER);
        }
        let found = MemAttributes {
            ptag: handle_of(region.ptag),
            rdma_write: c_int::from(region.write),
            rdma_read: c_int::from(region.read),
        };
        // SAFETY: not null, and by the header's rules valid.
        unsafe { store(attributes, found) };
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_within_its_bounds_and_tag_only() {
        let (ptag, other) = (Key { place: 1, generation: 1 }, Key { place: 2, generation: 2 });
        let mut regions = Regions::default();
        let region = |base| Region {
            base,
            bytes: 100,
            ptag: Some(ptag),
            number: 1,
            write: false,
            read: false,
            users: 0,
        };
        let handle = regions.insert(region(1000)).unwrap();
        for (address, bytes, good) in [
            (1000, 100, true),
            (1000, 0, true),
            (1100, 0, true),
            (1099, 1, true),
            (999, 1, false),
            (1000, 101, false),
            (1100, 1, false),
            (1001, 100, false),
            (u64::MAX, 2, false),
            (1000, u64::MAX, false),
        ] {
            let (piece, mut used) = ((handle, address, bytes), Used::default());
            assert_eq!(regions.covers(piece, Some(ptag)), good, "{address} {bytes}");
            assert_eq!(regions.covers(piece, None), good, "the default tag goes with any");
            assert!(!regions.hold(piece, Some(other), &mut used));
        }
        let mut used = Used::default();
        for (address, bytes, part) in
            [(1000, 100, Some(100)), (1060, 100, Some(40)), (1100, 1, None), (999, 9, None)]
        {
            assert_eq!(regions.hold_part((handle, address, bytes), Some(ptag), &mut used), part);
        }
        regions.release(&used);
        let mut used = Used::default();
        for _ in 0..6 {
            assert!(regions.hold((handle, 1000, 1), Some(ptag), &mut used));
        }
        assert_eq!(regions.get_mut(handle).unwrap().users, 6);
        regions.release(&used);
        assert_eq!(regions.get_mut(handle).unwrap().users, 0);
        regions.remove(handle);
        let next = regions.insert(region(0)).unwrap();
        assert_ne!(next, handle);
        assert!(
            !regions.covers((handle, 1000, 1), Some(ptag)) && !regions.covers((0, 1000, 1), None)
        );
    }

    #[test]
    fn memory_that_is_not_there_is_noticed() {
        let here = [0u8; 100];
        assert!(is_mapped(here.as_ptr().addr(), here.len()));
        assert!(!is_mapped(8, 1) && !is_mapped(usize::MAX - 3, 10));
        assert!(!is_mapped(here.as_ptr().addr(), usize::MAX / 4));
    }
}
