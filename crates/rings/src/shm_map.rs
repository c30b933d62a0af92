//! The memory of two rings, one each way, shared by two processes: a sealed memfd, mapped by both.
//!
//! # Invariant
//!
//! A mapping covers [`SHM_BYTES`] bytes of a memfd that can neither shrink nor grow (its seals are checked before it is
//! mapped), so every byte of it can be touched as long as the [`Map`] lives, whatever the other process does to the
//! file. Rings of a service and its client go further ([`SharedEnd::keep`]): their memory cannot be taken away either, so that no touch of it
//! ends in a SIGBUS. Nothing here makes a reference to the shared bytes but to whole atomic words; frames are copied in and out by
//! volatile accesses and string instructions, for which it does not matter that another process writes at the same time:
//! the copy then holds any bytes, and all bytes are valid. Offsets and lengths are checked against the ring's capacity
//! here once more, so that the memory is safe whoever calls.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::shm_ring::{Consumer, LINE_BYTES, Producer, RingMemory};

/// Longest frame in bytes: the longest that the firmware makes.
pub const RING_FRAME_BYTES_MAX: usize = 16 << 10;

/// Bytes of one ring's records: 31 of the longest frames, enough for either process to work while the other does, and
/// both rings together (1 MiB) stay in a second-level cache, which each byte of a ring passes through over and over.
const RING_BYTES: usize = 512 << 10;

/// Places of a ring's counts from its start, in bytes: what the writer lost, the reader's count, and the reader's sleep, each
/// two cache lines from the next, because processors fetch lines in pairs.
const LOST_AT: usize = 0;
const TAIL_AT: usize = 128;
const ASLEEP_AT: usize = 256;

/// Bytes before a ring's records: one page, so that records start on one.
const CONTROL_BYTES: usize = 4096;

/// Bytes of one ring of so many bytes of records.
const fn half_bytes(ring: usize) -> usize {
    assert!(ring.is_power_of_two() && ring >= 2 * RING_FRAME_BYTES_MAX);
    CONTROL_BYTES + ring
}

/// Bytes of the shared memory of two rings of `ring` bytes of records each. Memory that is not touched costs nothing.
pub const fn shm_bytes(ring: usize) -> usize {
    2 * half_bytes(ring)
}

/// As many as nodes of one user share.
pub const SHM_BYTES: usize = shm_bytes(RING_BYTES);

/// The seals that must be there: the file keeps its size.
const SIZE_SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

/// With the one by which nobody adds others.
const SEALS: libc::c_int = SIZE_SEALS | libc::F_SEAL_SEAL;

/// The seals of memory that is to change no more: nobody maps it for writing after those who have, nobody punches holes into it, and nobody
/// has it otherwise.
const KEPT_SEALS: libc::c_int = libc::F_SEAL_FUTURE_WRITE | libc::F_SEAL_SEAL;

/// Copies of at least this many bytes are left to the processor's string instruction, which starts slowly.
const STRING_COPY_BYTES_MIN: usize = 192;

/// One end of the rings of two nodes of one user.
pub type ShmEnd = SharedEnd<RING_BYTES>;

/// One end of a pair of rings of `RING` bytes of records each.
#[derive(Debug)]
pub struct SharedEnd<const RING: usize> {
    /// Where this process writes.
    pub producer: Producer<SharedHalf<RING>>,
    /// Where it reads.
    pub consumer: Consumer<SharedHalf<RING>>,
    map: Arc<Map>,
}

impl<const RING: usize> SharedEnd<RING> {
    /// Makes the memory and this process's end of it. The descriptor is for the other process.
    pub fn create() -> io::Result<(OwnedFd, Self)> {
        Self::create_sealed(SEALS)
    }

    /// As [`create`](Self::create), of memory that is there before anybody writes to it, and that [`keep`](Self::keep) can be asked for.
    ///
    /// # Errors
    ///
    /// What the system says if there is no memory: nobody finds that out by a signal later.
    pub fn create_filled() -> io::Result<(OwnedFd, Self)> {
        let (file, end) = Self::create_sealed(SIZE_SEALS)?;
        end.map.fill()?;
        Ok((file, end))
    }

    /// To be called when the other process has mapped what [`create_filled`](Self::create_filled) made. From then on whoever holds the
    /// descriptor can neither punch holes into the memory nor map it for writing anew; those punched before are filled. So every byte of
    /// it is there as long as this end lives.
    ///
    /// # Errors
    ///
    /// What the system says: the kernel is older than 5.1, or there is no memory.
    pub fn keep(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: no pointers.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, KEPT_SEALS) } != 0 {
            return Err(io::Error::last_os_error());
        }
        self.map.fill()
    }

    fn create_sealed(seals: libc::c_int) -> io::Result<(OwnedFd, Self)> {
        // SAFETY: the name ends with a zero byte; a non-negative result is a fresh descriptor that nobody else owns.
        let file = unsafe {
            let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
            let fd = libc::memfd_create(c"emp-ring".as_ptr(), flags);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: no pointers.
        let sealed = unsafe {
            libc::ftruncate(file.as_raw_fd(), shm_bytes(RING) as libc::off_t) == 0
                && libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) == 0
        };
        if !sealed {
            return Err(io::Error::last_os_error());
        }
        let map = Arc::new(Map::new(&file, shm_bytes(RING))?);
        Ok((file, Self::of(map, [0, half_bytes(RING)])))
    }

    /// This process's end of memory that the other process made.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if it is not a memfd of [`shm_bytes`] bytes sealed against change of its size; what the system
    /// says if it cannot be mapped.
    pub fn open(file: BorrowedFd<'_>) -> io::Result<Self> {
        Self::open_sealed(file, SEALS)
    }

    /// As [`open`](Self::open), of what [`create_filled`](Self::create_filled) made, and before [`keep`](Self::keep).
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    pub fn open_filled(file: BorrowedFd<'_>) -> io::Result<Self> {
        Self::open_sealed(file, SIZE_SEALS)
    }

    fn open_sealed(file: BorrowedFd<'_>, seals: libc::c_int) -> io::Result<Self> {
        check(file, shm_bytes(RING), seals)?;
        let map = Arc::new(Map::new(&file, shm_bytes(RING))?);
        Ok(Self::of(map, [half_bytes(RING), 0]))
    }

    fn of(map: Arc<Map>, [write, read]: [usize; 2]) -> Self {
        let half = |offset| SharedHalf { map: Arc::clone(&map), offset };
        Self { producer: Producer::new(half(write)), consumer: Consumer::new(half(read)), map }
    }
}

/// Refuses what could lose its memory while it is mapped.
fn check(file: BorrowedFd<'_>, bytes: usize, wanted: libc::c_int) -> io::Result<()> {
    let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why.to_string()));
    // SAFETY: no pointers.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    // Files that know no seals answer -1, which has all bits.
    if seals < 0 || seals & wanted != wanted {
        return refuse("the memory is not sealed against change of its size");
    }
    // SAFETY: all-zero is a valid `stat`; the pointer is to a live one, which the kernel fills in.
    let size = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        if libc::fstat(file.as_raw_fd(), &raw mut stat) != 0 {
            return Err(io::Error::last_os_error());
        }
        stat.st_size
    };
    if size != bytes as libc::off_t {
        return refuse("the memory has another size than two rings");
    }
    // Huge pages can be sealed as well, and run out when they are touched.
    // SAFETY: as above, for `statfs`.
    let kind = unsafe {
        let mut stat: libc::statfs = std::mem::zeroed();
        if libc::fstatfs(file.as_raw_fd(), &raw mut stat) != 0 {
            return Err(io::Error::last_os_error());
        }
        stat.f_type
    };
    if kind != libc::TMPFS_MAGIC { refuse("the memory is not a memfd") } else { Ok(()) }
}

/// The mapped memory.
#[derive(Debug)]
struct Map {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is plain shared memory, not tied to a thread; all access goes through atomics and copies that
// bear other writers.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    fn new(file: &impl AsRawFd, bytes: usize) -> io::Result<Self> {
        // SAFETY: asks for a fresh mapping; no existing memory is touched, and the result is checked before use.
        let map = unsafe {
            libc::mmap(
                null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(map.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { at, bytes })
    }

    /// Sees to it that there is memory everywhere. What the system has none for is an error here, and a signal where it is touched.
    fn fill(&self) -> io::Result<()> {
        // SAFETY: the range is exactly this mapping; what is in it stays as it is.
        let filled = unsafe {
            libc::madvise(self.at.as_ptr().cast(), self.bytes, libc::MADV_POPULATE_WRITE)
        };
        if filled == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped; every half holds the `Arc`, so none is left.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

/// One of the two rings.
#[derive(Debug)]
pub struct SharedHalf<const RING: usize> {
    map: Arc<Map>,
    /// 0 or [`half_bytes`].
    offset: usize,
}

impl<const RING: usize> SharedHalf<RING> {
    #[inline]
    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at < CONTROL_BYTES && at.is_multiple_of(8));
        // SAFETY: `offset + at` lies in the mapping (the callers name constants below a page), is a multiple of eight,
        // and is only ever accessed as a whole atomic word by this process.
        unsafe { AtomicU64::from_ptr(self.map.at.add(self.offset + at).cast().as_ptr()) }
    }

    #[inline]
    fn sleep_word(&self) -> &AtomicU32 {
        // SAFETY: as in `word`, for a word of four bytes that no other word overlaps.
        unsafe { AtomicU32::from_ptr(self.map.at.add(self.offset + ASLEEP_AT).cast().as_ptr()) }
    }

    /// The word at the beginning of a line of records.
    #[inline]
    fn record_word(&self, at: usize) -> &AtomicU64 {
        assert!(at < RING && at.is_multiple_of(LINE_BYTES), "no line of the ring");
        // SAFETY: just checked to be inside this ring, and aligned: records begin on a page. Copies of records touch it as
        // well, but this process has one end of a ring, whose accesses follow each other.
        unsafe {
            AtomicU64::from_ptr(self.map.at.add(self.offset + CONTROL_BYTES + at).cast().as_ptr())
        }
    }

    /// Where `bytes` bytes of records from `at` on lie.
    ///
    /// # Panics
    ///
    /// Panics if they do not lie in the ring.
    #[inline]
    fn records(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(at <= RING && bytes <= RING - at, "outside of the ring");
        // SAFETY: just checked to be inside this ring, which is inside the mapping.
        unsafe { self.map.at.add(self.offset + CONTROL_BYTES + at).as_ptr() }
    }
}

impl<const RING: usize> RingMemory for SharedHalf<RING> {
    #[inline]
    fn capacity(&self) -> usize {
        RING
    }

    #[inline]
    fn load_word(&self, at: usize) -> u64 {
        self.record_word(at).load(Ordering::Acquire)
    }

    #[inline]
    fn store_word(&self, at: usize, word: u64) {
        self.record_word(at).store(word, Ordering::Release);
    }

    #[inline]
    fn load_tail(&self) -> u64 {
        self.word(TAIL_AT).load(Ordering::Acquire)
    }

    #[inline]
    fn store_tail(&self, tail: u64) {
        self.word(TAIL_AT).store(tail, Ordering::Release);
    }

    #[inline]
    fn asleep(&self) -> bool {
        self.sleep_word().load(Ordering::Relaxed) != 0
    }

    fn set_asleep(&self, asleep: bool) -> bool {
        self.sleep_word().swap(u32::from(asleep), Ordering::AcqRel) != 0
    }

    #[inline]
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn lost(&self) -> u64 {
        self.word(LOST_AT).load(Ordering::Relaxed)
    }

    fn store_lost(&self, lost: u64) {
        self.word(LOST_AT).store(lost, Ordering::Relaxed);
    }

    #[inline]
    fn write(&self, at: usize, bytes: &[u8]) {
        let to = self.records(at, bytes.len());
        // SAFETY: both ranges are as long as said: one is a slice, the other was checked. They do not overlap, because
        // nobody has a slice of the mapping.
        unsafe { copy(to, bytes.as_ptr(), bytes.len()) };
    }

    #[inline]
    fn read(&self, at: usize, bytes: &mut [u8]) {
        let from = self.records(at, bytes.len());
        // SAFETY: as in `write`.
        unsafe { copy(bytes.as_mut_ptr(), from, bytes.len()) };
    }

    #[inline]
    fn expect(&self, at: usize) {
        let line = self.records(at, LINE_BYTES);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a hint; it changes nothing.
        unsafe {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(line.cast());
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = line;
    }
}

/// Eight bytes at any address, moved at once: an array of bytes is moved byte by byte where the access is volatile.
#[repr(C, packed)]
#[derive(Clone, Copy)]
struct Word(u64);

/// Four bytes likewise.
#[repr(C, packed)]
#[derive(Clone, Copy)]
struct HalfWord(u32);

/// Copies bytes of which one side is shared with another process.
///
/// # Safety
///
/// Both ranges are valid for `bytes` bytes and do not overlap.
#[inline]
unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if bytes >= STRING_COPY_BYTES_MIN {
        // SAFETY: the ranges are the caller's; the direction flag is clear on entry to any function; the registers that
        // change are said.
        unsafe {
            core::arch::asm!(
                "rep movsb",
                inout("rcx") bytes => _,
                inout("rdi") to => _,
                inout("rsi") from => _,
                options(nostack, preserves_flags)
            );
        }
        return;
    }
    let words = bytes / 8;
    for word in 0..words {
        // SAFETY: `word` is below the number of whole words in either range; packed words need no alignment.
        unsafe {
            let value = from.cast::<Word>().add(word).read_volatile();
            to.cast::<Word>().add(word).write_volatile(value);
        }
    }
    let mut done = words * 8;
    if bytes - done >= 4 {
        // SAFETY: as above, of half a word.
        unsafe {
            let value = from.add(done).cast::<HalfWord>().read_volatile();
            to.add(done).cast::<HalfWord>().write_volatile(value);
        }
        done += 4;
    }
    for byte in done..bytes {
        // SAFETY: `byte` is below the length of either range.
        unsafe { to.add(byte).write_volatile(from.add(byte).read_volatile()) };
    }
}

#[cfg(test)]
mod tests;
