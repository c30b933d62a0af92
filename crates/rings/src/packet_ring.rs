//! The receive ring of an AF_PACKET socket (TPACKET_V2), mapped into this process.
//!
//! Version 2 and not 3: version 3 hands over whole blocks and wakes by timer, which costs a lone
//! frame up to a millisecond; version 2 publishes every frame by itself.
//!
//! # Invariant
//!
//! The mapping covers `slots * slot_bytes` bytes and lives exactly as long as the [`PacketRing`].
//! Each slot starts with a status word. While the word's `TP_STATUS_USER` bit is clear the slot is
//! the kernel's and nothing but that word and the hint is read here. Once the bit was seen set
//! (acquire), the slot is ours and the kernel does not write it until `TP_STATUS_KERNEL` is stored
//! (release). Slots are taken in order, one at a time, through `&mut self`, and given back one at a
//! time, before the next is taken and never while a frame is lent, which borrows the ring; so a
//! frame's bytes cannot outlive its slot.
//!
//! The *hint* is where a frame has its EtherType. It is zero in slots that are the kernel's until
//! the kernel copies a frame there, which is the first that it does with a slot. Only the status
//! word says that the frame is whole; the hint says that it is worth looking at. Whoever looks at
//! the status word all the time takes its cache line away from the kernel between its writing the
//! line's other fields and the word itself, for which the kernel then waits: 60 to 150 ns of a
//! frame's 700. A hint that is wrong makes a look that finds nothing, or a frame wait for some looks.

use std::cell::Cell;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::Duration;

/// Bytes of one block, the unit in which the kernel allocates the ring. 64 KiB is large enough for
/// whole numbers of every power-of-two slot up to itself, and small enough (order 4) to be had on a
/// machine whose memory is fragmented.
const BLOCK_BYTES: usize = 64 * 1024;

/// Bytes that the kernel puts before the frame in a slot: header and address (52 bytes), aligned to
/// 16 after leaving room for the link header, rounded up with a VLAN tag's four bytes to spare.
const SLOT_OVERHEAD_BYTES: usize = 96;

/// Smallest slot in bytes: one 1514-byte frame and the overhead, as a power of two, so that slots
/// never straddle blocks.
const SLOT_BYTES_MIN: usize = 2048;

/// Largest slot in bytes: the loopback interface's 65536-byte MTU with overhead.
const SLOT_BYTES_MAX: usize = 128 * 1024;

/// Largest ring in bytes that somebody else makes for this process: far more than any is made with, and mapped all the same.
const RING_BYTES_MAX: usize = 1 << 30;

/// How a ring is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingShape {
    slot_bytes: usize,
    slots: usize,
}

impl RingShape {
    /// A ring of about `ring_bytes` bytes whose slots each hold a frame of `frame_bytes` bytes,
    /// link header included. Rounded to whole blocks; at least one block, and two slots: the last one that was looked at is
    /// given back with the next call.
    pub fn new(ring_bytes: usize, frame_bytes: usize) -> Self {
        let frame_bytes = frame_bytes.min(SLOT_BYTES_MAX - SLOT_OVERHEAD_BYTES);
        let slot_bytes =
            (frame_bytes + SLOT_OVERHEAD_BYTES).next_power_of_two().max(SLOT_BYTES_MIN);
        let block_bytes = BLOCK_BYTES.max(slot_bytes);
        let blocks = (ring_bytes / block_bytes).max((2 * slot_bytes).div_ceil(block_bytes));
        Self { slot_bytes, slots: blocks * (block_bytes / slot_bytes) }
    }

    /// A ring of so many slots of so many bytes, as somebody else made it. `None`: none is made like that.
    pub fn of(slot_bytes: usize, slots: usize) -> Option<Self> {
        let whole = slot_bytes.is_power_of_two()
            && (SLOT_BYTES_MIN..=SLOT_BYTES_MAX).contains(&slot_bytes)
            && slots >= 2;
        let bytes = slot_bytes.checked_mul(slots).filter(|bytes| *bytes <= RING_BYTES_MAX)?;
        let blocks = bytes.is_multiple_of(BLOCK_BYTES.max(slot_bytes));
        (whole && blocks).then_some(Self { slot_bytes, slots })
    }

    /// Bytes of one slot.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Frames that the ring holds.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Bytes of the whole ring.
    pub fn bytes(&self) -> usize {
        self.slot_bytes * self.slots
    }

    fn request(&self) -> libc::tpacket_req {
        let block_bytes = BLOCK_BYTES.max(self.slot_bytes);
        libc::tpacket_req {
            tp_block_size: block_bytes as u32,
            tp_block_nr: (self.bytes() / block_bytes) as u32,
            tp_frame_size: self.slot_bytes as u32,
            tp_frame_nr: self.slots as u32,
        }
    }
}

/// One frame in the ring, lent to the closure of [`PacketRing::take`].
#[derive(Clone, Copy, Debug)]
pub struct RingFrame<'a> {
    /// The frame from its link header on, as far as it fitted into the slot.
    pub bytes: &'a [u8],
    /// Length in bytes that the frame had on the wire.
    pub wire_bytes: usize,
    /// Seconds and nanoseconds of the kernel's stamp.
    stamp: (u32, u32),
}

impl RingFrame<'_> {
    /// True if the slot was too small for the frame: `bytes` is only its beginning.
    pub fn truncated(&self) -> bool {
        self.bytes.len() < self.wire_bytes
    }

    /// When the kernel received it, as a time of day since 1970.
    pub fn stamp(&self) -> Duration {
        let (seconds, nanoseconds) = self.stamp;
        Duration::new(seconds.into(), nanoseconds)
    }
}

/// A mapped receive ring. Does not own the socket: the mapping keeps the kernel's side alive.
#[derive(Debug)]
pub struct PacketRing {
    map: NonNull<u8>,
    shape: RingShape,
    next: usize,
    /// Where in a slot the hint is; `None` until a frame has shown where the kernel puts frames.
    hint: Option<usize>,
    /// Looks without a hint since the last frame.
    looks: u32,
    /// The slot before the next is still ours, although nobody has its frame any more.
    kept: Cell<bool>,
}

// SAFETY: the mapping is plain shared memory that belongs to this value alone; nothing in it is
// tied to the thread that mapped it, and all access to slots goes through `&mut self` or atomics.
unsafe impl Send for PacketRing {}

/// Ends the loan of a frame, also when the closure that looked at it unwinds.
struct Return<'a> {
    ring: &'a mut PacketRing,
}

impl Drop for Return<'_> {
    fn drop(&mut self) {
        let ring = &mut *self.ring;
        ring.kept.set(true);
        ring.looks = 0;
        ring.next += 1;
        if ring.next == ring.shape.slots() {
            ring.next = 0;
        }
    }
}

impl PacketRing {
    /// Makes the receive ring of `socket` (an AF_PACKET socket that has none yet) and maps it.
    /// Do this before binding the socket to a protocol, or early frames miss the ring.
    pub fn new(socket: BorrowedFd<'_>, shape: RingShape) -> io::Result<Self> {
        set_packet_option(socket, libc::PACKET_VERSION, &(TPACKET_V2 as libc::c_int))?;
        set_packet_option(socket, libc::PACKET_RX_RING, &shape.request())?;
        Self::map(socket, shape)
    }

    /// Maps the receive ring that `socket` (an AF_PACKET socket, of version 2) has already. Who made it may have mapped it as well, but
    /// must leave its slots alone.
    ///
    /// # Errors
    ///
    /// The system's; `InvalidInput` if the ring has another size, or there is none.
    pub fn map(socket: BorrowedFd<'_>, shape: RingShape) -> io::Result<Self> {
        // SAFETY: asks for a fresh mapping of a ring that the kernel has allocated with exactly this size, else it refuses; no existing
        // memory is touched, and the result is checked before use.
        let map = unsafe {
            libc::mmap(
                null_mut(),
                shape.bytes(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = NonNull::new(map.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { map, shape, next: 0, hint: None, looks: 0, kept: Cell::new(false) })
    }

    /// How the ring is divided.
    pub fn shape(&self) -> RingShape {
        self.shape
    }

    /// True if a frame waits. Also gives back what was taken.
    #[inline]
    pub fn ready(&self) -> bool {
        self.give_back();
        self.is_filled()
    }

    /// Gives the slot of the last frame back to the kernel. To be called before the first of several looks, and before the
    /// socket is slept on, for which it is readable as long as that slot is ours. Taking another frame does it as well.
    ///
    /// Not right after the frame was looked at: its lines are still the other core's, and where the program's next step is
    /// an atomic one, it would wait for both.
    #[inline]
    pub fn give_back(&self) {
        if self.kept.replace(false) {
            let last = self.next.checked_sub(1).unwrap_or(self.shape.slots() - 1);
            if let Some(hint) = self.hint_at(last) {
                hint.store(0, Ordering::Relaxed);
            }
            self.status_at(last).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
    }

    /// The kernel has filled the next slot.
    #[inline]
    fn is_filled(&self) -> bool {
        self.status_at(self.next).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// True if a frame waits, for those who ask all the time: see the module's text on the hint.
    #[inline]
    fn looks_ready(&mut self) -> bool {
        match self.hint_at(self.next) {
            Some(hint) if hint.load(Ordering::Relaxed) == 0 => {
                self.looks = self.looks.wrapping_add(1);
                self.looks.is_multiple_of(LOOKS_PER_STATUS) && self.is_filled()
            }
            Some(_) => self.soon_ready(),
            None => self.is_filled(),
        }
    }

    /// The kernel has begun to write a frame: waits for the little that is left of that.
    #[inline]
    fn soon_ready(&self) -> bool {
        prefetch_frame(self.slot_at(self.next));
        (0..STATUS_TRIES).any(|_| {
            let ready = self.is_filled();
            if !ready {
                std::hint::spin_loop();
            }
            ready
        })
    }

    /// Lends the next frame to `look`; its slot is given back with [`give_back`](Self::give_back) or
    /// before the next is lent. `None` if the ring is empty.
    #[inline]
    pub fn take<R>(&mut self, look: impl FnOnce(RingFrame<'_>) -> R) -> Option<R> {
        if !self.looks_ready() {
            return None;
        }
        self.give_back();
        let slot_bytes = self.shape.slot_bytes;
        let slot = self.slot_at(self.next);
        // SAFETY: the slot is ours (see the invariant); slots are page or 2 KiB aligned, and the
        // kernel has filled in a `tpacket2_hdr`, whose fields are plain integers.
        let header = unsafe { slot.cast::<libc::tpacket2_hdr>().read() };
        let (start, length) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        // The kernel promises that a frame ends inside its slot. If it ever does not, the frame is
        // handed on as empty, which reads as truncated, rather than read out of bounds.
        let inside = start.checked_add(length).is_some_and(|end| end <= slot_bytes);
        let length = if inside { length } else { 0 };
        let start = if inside { start } else { 0 };
        self.hint = hint_of(start, length).or(self.hint);
        let loan = Return { ring: self };
        // SAFETY: `start + length` is inside the slot, and the kernel leaves the slot alone until it
        // is given back, for which `loan` must have been dropped, after the last use of `bytes`.
        let bytes = unsafe { std::slice::from_raw_parts(slot.add(start).as_ptr(), length) };
        let stamp = (header.tp_sec, header.tp_nsec);
        let result = look(RingFrame { bytes, wire_bytes: header.tp_len as usize, stamp });
        drop(loan);
        Some(result)
    }

    /// Frames that the kernel dropped because the ring was full, since the last call: reading this
    /// counter clears it. One system call.
    pub fn drops_since_last(socket: BorrowedFd<'_>) -> io::Result<u32> {
        let mut counts = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the pointers are to a live struct of plain integers and to its size in bytes.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counts).cast(),
                &raw mut length,
            )
        };
        if result == 0 { Ok(counts.tp_drops) } else { Err(io::Error::last_os_error()) }
    }

    /// A slot, by its number, which is below `slots`.
    #[inline]
    fn slot_at(&self, number: usize) -> NonNull<u8> {
        debug_assert!(number < self.shape.slots);
        // SAFETY: the number is below `slots`, so the offset stays inside the mapping.
        unsafe { self.map.add(number * self.shape.slot_bytes) }
    }

    #[inline]
    fn status_at(&self, number: usize) -> &AtomicU32 {
        // SAFETY: the status word is the slot's first, aligned, inside the mapping, and only ever
        // accessed as one atomic word by either side.
        unsafe { AtomicU32::from_ptr(self.slot_at(number).cast().as_ptr()) }
    }

    #[inline]
    fn hint_at(&self, number: usize) -> Option<&AtomicU16> {
        // SAFETY: `hint_of` gives offsets that are inside the slot and even. While the slot is the
        // kernel's the word is only accessed atomically here; while it is ours, only when no frame
        // is lent.
        self.hint
            .map(|at| unsafe { AtomicU16::from_ptr(self.slot_at(number).add(at).cast().as_ptr()) })
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped; no borrow of it can outlive `self`.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.shape.bytes()) };
    }
}

/// Where the hint is in slots whose frames begin at `start`, if they are such as have an EtherType,
/// and that lies in another cache line than the status word.
#[inline]
fn hint_of(start: usize, length: usize) -> Option<usize> {
    let at = start + ETHERTYPE_OFFSET;
    let apt = length >= ETHERTYPE_OFFSET + size_of::<u16>()
        && at >= CACHE_LINE_BYTES
        && at.is_multiple_of(size_of::<u16>());
    apt.then_some(at)
}

/// Offset in bytes of the EtherType in an Ethernet frame.
const ETHERTYPE_OFFSET: usize = 12;

/// Looks without a hint for each look at the status word: seldom enough that the kernel hardly ever
/// loses its line, often enough that a frame without an EtherType waits for no more than a
/// microsecond of a thread that spins.
const LOOKS_PER_STATUS: u32 = 64;

/// Looks at the status word once the hint is there: about a microsecond. It takes the kernel a tenth
/// of that, unless it loses its core between the two.
const STATUS_TRIES: u32 = 20;

/// Cache lines of a slot after its first that are asked for as soon as the slot is ours: another core has just written them,
/// and a short frame's header and body lie in the two after the one with the status word.
const PREFETCHED_LINES: usize = 2;

/// Bytes of a cache line; where they are more, one prefetch too many is harmless.
const CACHE_LINE_BYTES: usize = 64;

/// Asks for the lines of a short frame at once, instead of one after the other as they are read.
#[inline]
fn prefetch_frame(slot: NonNull<u8>) {
    for line in 1..=PREFETCHED_LINES {
        let at = slot.as_ptr().wrapping_add(line * CACHE_LINE_BYTES);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch reads nothing that the program could notice, at whatever address; the instruction is part of
        // every x86-64.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }
}

/// `enum tpacket_versions`, second value.
const TPACKET_V2: u32 = 1;

fn set_packet_option<T: Copy>(
    socket: BorrowedFd<'_>,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the pointer and length describe one live value, which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_holds_the_frame_it_is_made_for() {
        for (mtu, slot) in [(1500, 2048), (1280, 2048), (9000, 16384), (65536, 131_072)] {
            let shape = RingShape::new(4 << 20, mtu + 14);
            assert_eq!(shape.slot_bytes(), slot, "MTU {mtu}");
            assert_eq!(shape.bytes(), 4 << 20);
        }
    }

    #[test]
    fn hints_lie_in_the_frame_and_not_beside_the_status_word() {
        assert_eq!(hint_of(66, 60), Some(78));
        assert_eq!(hint_of(66, 14), Some(78));
        for (start, length) in [(66, 13), (0, 60), (50, 60), (67, 60), (0, 0)] {
            assert_eq!(hint_of(start, length), None, "{start} {length}");
        }
    }

    #[test]
    fn a_ring_of_somebody_else_is_one_that_could_be_made() {
        for (bytes, frame) in [(0, 64), (2 << 20, 1514), (4 << 20, 9014), (1 << 20, 65_550)] {
            let shape = RingShape::new(bytes, frame);
            assert_eq!(RingShape::of(shape.slot_bytes(), shape.slots()), Some(shape));
        }
        let wrong = [(0, 0), (2048, 1), (2047, 32), (1024, 64), (1 << 18, 8), (2048, 33)];
        for (slot_bytes, slots) in wrong.into_iter().chain([(2048, usize::MAX), (2048, 1 << 20)]) {
            assert_eq!(RingShape::of(slot_bytes, slots), None, "{slots} of {slot_bytes}");
        }
    }

    #[test]
    fn a_ring_is_never_empty() {
        let shape = RingShape::new(0, 1514);
        assert_eq!(shape.bytes(), BLOCK_BYTES);
        assert_eq!(shape.slots(), 32);
        assert_eq!(RingShape::new(1, usize::MAX).slots(), 2);
    }
}
