//! The index arithmetic of the four rings that an AF_XDP socket shares with the kernel.
//!
//! # Invariant
//!
//! A [`Memory`] points into a mapping that it owns: two indices and a word of flags, each aligned
//! and only ever accessed as one atomic word by either side, and `size` entries (a power of two).
//! The indices run freely and wrap at 2³²; an entry's place is its index modulo `size`. Entries from
//! the consumer's index up to the producer's belong to the consumer, all others to the producer.
//! The producer writes entries before it stores its index (release) and the consumer loads that
//! index (acquire) before it reads them; the same holds the other way round for giving them back.
//! The other side's index is only believed if it is at most `size` away from ours: with any other,
//! the ring reads as empty (or full) and says that it is broken. Entries are made of integers, for
//! which every bit pattern is a value, so nothing else needs to be believed.

use std::io;
use std::mem::size_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::mapping::Mapping;

/// Where the parts of a ring are, in bytes from the start of its mapping.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offsets {
    pub(super) producer: u64,
    pub(super) consumer: u64,
    pub(super) flags: u64,
    pub(super) entries: u64,
}

/// What an entry may be: integers only.
pub(super) trait Entry: Copy {}
impl Entry for u64 {}
impl Entry for libc::xdp_desc {}

/// A ring's memory.
struct Memory<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// Keeps what the pointers lead to.
    _map: Mapping,
}

// SAFETY: the memory belongs to the process; everything in it is accessed through `&mut self` of
// the one owner or by atomic words.
unsafe impl<T: Send> Send for Memory<T> {}

impl<T: Entry> Memory<T> {
    fn new(map: Mapping, offsets: Offsets, size: u32) -> io::Result<Self> {
        let place = |offset: u64, bytes: usize, align: usize| -> io::Result<NonNull<u8>> {
            let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidData)?;
            let end = offset.checked_add(bytes).ok_or(io::ErrorKind::InvalidData)?;
            if end > map.bytes() || !offset.is_multiple_of(align) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            // SAFETY: `offset` is inside the mapping, as was just checked.
            Ok(unsafe { map.base().add(offset) })
        };
        if !size.is_power_of_two() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Self {
            producer: place(offsets.producer, 4, 4)?.cast(),
            consumer: place(offsets.consumer, 4, 4)?.cast(),
            flags: place(offsets.flags, 4, 4)?.cast(),
            entries: place(offsets.entries, size as usize * size_of::<T>(), align_of::<T>())?
                .cast(),
            size,
            _map: map,
        })
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: see the invariant; the mapping lives as long as `self`.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: see the invariant; the mapping lives as long as `self`.
        unsafe { self.consumer.as_ref() }
    }

    #[inline]
    fn wants_wakeup(&self) -> bool {
        // SAFETY: see the invariant; the mapping lives as long as `self`.
        let flags = unsafe { self.flags.as_ref() };
        flags.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    #[inline]
    fn entry(&self, index: u32) -> NonNull<T> {
        // SAFETY: masked, the index is below `size`, so this is inside the mapping.
        unsafe { self.entries.add((index & (self.size - 1)) as usize) }
    }
}

/// The writing end of a ring that the kernel reads.
pub(super) struct Producer<T> {
    memory: Memory<T>,
    /// Our index, perhaps ahead of what the kernel has been shown.
    next: u32,
    /// The kernel's index when last looked at.
    taken: u32,
}

impl<T: Entry> Producer<T> {
    pub(super) fn new(map: Mapping, offsets: Offsets, size: u32) -> io::Result<Self> {
        let memory = Memory::new(map, offsets, size)?;
        let next = memory.producer().load(Ordering::Relaxed);
        let taken = memory.consumer().load(Ordering::Relaxed);
        Ok(Self { memory, next, taken })
    }

    /// True if at least `wanted` entries can be written. Looks at the kernel's index only if what
    /// is known does not do.
    #[inline]
    pub(super) fn has_room(&mut self, wanted: u32) -> bool {
        let room = |taken: u32| self.memory.size.saturating_sub(self.next.wrapping_sub(taken));
        if room(self.taken) >= wanted {
            return true;
        }
        let taken = self.memory.consumer().load(Ordering::Acquire);
        let enough = room(taken) >= wanted;
        self.taken = taken;
        enough
    }

    /// Writes an entry that the kernel sees after [`Producer::publish`]. False if there is no room.
    #[inline]
    pub(super) fn push(&mut self, entry: T) -> bool {
        if !self.has_room(1) {
            return false;
        }
        // SAFETY: there is room, so the entry is ours (see the invariant).
        unsafe { self.memory.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Shows the kernel what was written.
    #[inline]
    pub(super) fn publish(&mut self) {
        self.memory.producer().store(self.next, Ordering::Release);
    }

    /// True if the kernel has not taken all that was written.
    #[inline]
    pub(super) fn unread(&self) -> bool {
        self.memory.consumer().load(Ordering::Relaxed) != self.next
    }

    /// True if the kernel sleeps and must be called to look at the ring.
    #[inline]
    pub(super) fn wants_wakeup(&self) -> bool {
        self.memory.wants_wakeup()
    }
}

/// The reading end of a ring that the kernel writes.
pub(super) struct Consumer<T> {
    memory: Memory<T>,
    next: u32,
    /// The kernel's index was not to be believed.
    broken: bool,
}

impl<T: Entry> Consumer<T> {
    pub(super) fn new(map: Mapping, offsets: Offsets, size: u32) -> io::Result<Self> {
        let memory = Memory::new(map, offsets, size)?;
        let next = memory.consumer().load(Ordering::Relaxed);
        Ok(Self { memory, next, broken: false })
    }

    /// Entries that wait.
    #[inline]
    pub(super) fn ready(&mut self) -> u32 {
        let ready = self.memory.producer().load(Ordering::Acquire).wrapping_sub(self.next);
        if ready > self.memory.size {
            self.broken = true;
            return 0;
        }
        ready
    }

    /// Whether entries wait, for callers that only look.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.memory.producer().load(Ordering::Acquire) != self.next
    }

    /// The entry `ahead` places from the front, `None` beyond what waits.
    #[inline]
    pub(super) fn peek(&mut self, ahead: u32) -> Option<T> {
        if ahead >= self.ready() {
            return None;
        }
        // SAFETY: the entry waits, so it is ours to read (see the invariant).
        Some(unsafe { self.memory.entry(self.next.wrapping_add(ahead)).read() })
    }

    /// Passes by the first `count` entries, at most those that wait.
    #[inline]
    pub(super) fn advance(&mut self, count: u32) {
        let count = count.min(self.ready());
        self.next = self.next.wrapping_add(count);
    }

    /// Gives the kernel the places that were passed by.
    #[inline]
    pub(super) fn publish(&mut self) {
        self.memory.consumer().store(self.next, Ordering::Release);
    }

    /// True once the kernel's index made no sense.
    pub(super) fn broken(&self) -> bool {
        self.broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFSETS: Offsets = Offsets { producer: 0, consumer: 64, flags: 128, entries: 192 };
    const SIZE: u32 = 8;

    fn map(start: u32) -> Mapping {
        let map = Mapping::anonymous(4096).expect("a page is to be had");
        for offset in [OFFSETS.producer, OFFSETS.consumer] {
            // SAFETY: inside the page, aligned, and nobody else has it yet.
            unsafe { map.base().add(offset as usize).cast::<u32>().write(start) };
        }
        map
    }

    /// What the kernel's side of the ring is, for tests that play it.
    fn word<T>(memory: &Memory<T>, consumer: bool) -> &AtomicU32 {
        let pointer = if consumer { memory.consumer } else { memory.producer };
        // SAFETY: see the invariant.
        unsafe { pointer.as_ref() }
    }

    #[test]
    fn a_producer_fills_up_and_goes_on_across_the_wrap() {
        let start = u32::MAX - 3;
        let mut ring = Producer::<u64>::new(map(start), OFFSETS, SIZE).expect("it fits");
        for number in 0..u64::from(SIZE) {
            assert!(ring.push(number));
        }
        assert!(!ring.push(99) && !ring.has_room(1));
        assert_eq!(word(&ring.memory, false).load(Ordering::Relaxed), start, "not published yet");
        ring.publish();
        assert_eq!(word(&ring.memory, false).load(Ordering::Relaxed), start.wrapping_add(SIZE));
        word(&ring.memory, true).store(start.wrapping_add(5), Ordering::Relaxed);
        assert!(ring.has_room(5) && !ring.has_room(6) && ring.unread());
        // SAFETY: entry 4 (index 0 after the wrap) was written above.
        assert_eq!(unsafe { ring.memory.entry(0).read() }, 4);
    }

    #[test]
    fn a_consumer_reads_in_order_across_the_wrap() {
        let start = u32::MAX - 1;
        let mut ring = Consumer::<u64>::new(map(start), OFFSETS, SIZE).expect("it fits");
        assert_eq!(ring.peek(0), None);
        for number in 0..5u32 {
            let place = ring.memory.entry(start.wrapping_add(number));
            // SAFETY: nothing is ready, so all entries are the writer's, which this test plays.
            unsafe { place.write(u64::from(number)) };
        }
        word(&ring.memory, false).store(start.wrapping_add(5), Ordering::Release);
        assert_eq!((ring.ready(), ring.peek(4), ring.peek(5)), (5, Some(4), None));
        ring.advance(3);
        assert_eq!(ring.peek(0), Some(3));
        ring.advance(100);
        assert_eq!(ring.ready(), 0, "no further than what waits");
        ring.publish();
        assert_eq!(word(&ring.memory, true).load(Ordering::Relaxed), start.wrapping_add(5));
    }

    #[test]
    fn indices_that_make_no_sense_are_not_believed() {
        let mut ring = Consumer::<u64>::new(map(10), OFFSETS, SIZE).expect("it fits");
        for lie in [9, 10 + SIZE + 1, u32::MAX] {
            word(&ring.memory, false).store(lie, Ordering::Relaxed);
            assert_eq!((ring.ready(), ring.peek(0)), (0, None), "{lie}");
            ring.advance(1);
        }
        assert!(ring.broken());
        let mut ring = Producer::<u64>::new(map(10), OFFSETS, SIZE).expect("it fits");
        for _ in 0..SIZE {
            assert!(ring.push(1));
        }
        for lie in [9, 10 + SIZE + 1, u32::MAX] {
            word(&ring.memory, true).store(lie, Ordering::Relaxed);
            assert!(!ring.push(1), "{lie}");
        }
    }

    #[test]
    fn parts_outside_the_mapping_are_refused() {
        for offsets in [
            Offsets { producer: 4096, ..OFFSETS },
            Offsets { consumer: u64::MAX, ..OFFSETS },
            Offsets { flags: 2, ..OFFSETS },
            Offsets { entries: 4096 - 56, ..OFFSETS },
        ] {
            assert!(Producer::<u64>::new(map(0), offsets, SIZE).is_err(), "{offsets:?}");
        }
        assert!(Consumer::<u64>::new(map(0), OFFSETS, 7).is_err());
    }
}
