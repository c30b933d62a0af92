//! All memory of this process, or of one whose engine this process runs, as one region: peers name any address, whether something is mapped
//! there or not.
//!
//! # Invariant
//!
//! The firmware knows it by addresses that are no pointers: of their two top bits only the lower is set, as in no pointer of a
//! process and in no address of a window ([`crate::windows`]). Nothing of this process dereferences them. The kernel copies
//! instead ([`copy`]), as a debugger has it do: it looks at each page, and what is not mapped, or not to be written to, is an
//! error and no signal. Frames take such bytes as a copy ([`HostMemory::lends`]), so that no link meets one.
//!
//! Whose they are is [`Whose`]: of a node that runs for somebody else, never this process's.
//!
//! [`HostMemory::lends`]: emp_firmware::HostMemory::lends

use std::fs::File;
use std::os::unix::fs::FileExt;

use emp_firmware::{MemoryFault, Segment};

/// What of an address says whose it is; the rest is a pointer's.
const TOP: u64 = 0b11 << 62;
const GUARDED: u64 = 0b01 << 62;

/// Longer than any process's memory: x86-64 and aarch64 have 56 bits at most, and what lies beyond is the kernel's.
pub(crate) const ALL: Segment = Segment { address: GUARDED, bytes: 1 << 56 };

/// Which way the kernel copies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Out,
    In,
}

/// Whose memory guarded addresses name.
pub(crate) enum Whose {
    /// This process's.
    Own,
    /// Nobody's: such addresses are faults.
    Nobodys,
    /// That of the process whose `/proc/PID/mem` this is.
    Of(File),
}

impl Whose {
    /// Copies a segment out.
    #[cold]
    pub(crate) fn read(&self, from: Segment, into: &mut [u8]) -> Result<(), MemoryFault> {
        match self {
            Self::Own => read(from, into),
            Self::Nobodys => Err(MemoryFault),
            Self::Of(_) if from.bytes != into.len() as u64 => Err(MemoryFault),
            Self::Of(memory) => {
                memory.read_exact_at(into, real(from).address).map_err(|_| MemoryFault)
            }
        }
    }

    /// Copies bytes into a segment.
    #[cold]
    pub(crate) fn write(&self, to: Segment, from: &[u8]) -> Result<(), MemoryFault> {
        match self {
            Self::Own => write(to, from),
            Self::Nobodys => Err(MemoryFault),
            Self::Of(_) if to.bytes != from.len() as u64 => Err(MemoryFault),
            Self::Of(memory) => {
                memory.write_all_at(from, real(to).address).map_err(|_| MemoryFault)
            }
        }
    }
}

/// True if a segment is to be reached by the kernel only.
#[inline]
pub(crate) const fn is_guarded(segment: Segment) -> bool {
    segment.address & TOP == GUARDED
}

/// The segment by real addresses, for the kernel.
pub(crate) const fn real(segment: Segment) -> Segment {
    Segment { address: segment.address & !TOP, bytes: segment.bytes }
}

/// Copies a segment out.
#[cold]
pub(crate) fn read(from: Segment, into: &mut [u8]) -> Result<(), MemoryFault> {
    // SAFETY: as long as it says, and written to by nobody else.
    unsafe { copy(Direction::Out, from, into.as_mut_ptr(), into.len()) }
}

/// Copies bytes into a segment.
#[cold]
pub(crate) fn write(to: Segment, from: &[u8]) -> Result<(), MemoryFault> {
    // SAFETY: as long as it says; it is read only.
    unsafe { copy(Direction::In, to, from.as_ptr().cast_mut(), from.len()) }
}

/// Has the kernel copy between a guarded segment and as many bytes here. After an error the first of them may have been copied.
///
/// # Safety
///
/// `here` is valid for writes of so many bytes, or for reads with [`Direction::In`].
unsafe fn copy(
    way: Direction,
    there: Segment,
    here: *mut u8,
    bytes: usize,
) -> Result<(), MemoryFault> {
    let there = real(there);
    if there.bytes != bytes as u64 {
        return Err(MemoryFault);
    }
    if bytes == 0 {
        return Ok(());
    }
    let there = std::ptr::with_exposed_provenance_mut(there.address as usize);
    let remote = libc::iovec { iov_base: there, iov_len: bytes };
    let local = libc::iovec { iov_base: here.cast(), iov_len: bytes };
    // SAFETY: `local` is the caller's promise. Of what is at `remote` the kernel finds out by itself whether it may be reached;
    // that the application expects it to be is the promise of whoever exported it.
    let copied = unsafe {
        let process = libc::getpid();
        match way {
            Direction::Out => {
                libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0)
            }
            Direction::In => {
                libc::process_vm_writev(process, &raw const local, 1, &raw const remote, 1, 0)
            }
        }
    };
    // It may have stopped where a page ends.
    if copied == bytes as isize { Ok(()) } else { Err(MemoryFault) }
}

/// True if this process may have the kernel copy so: some sandboxes forbid it.
pub(crate) fn is_allowed() -> bool {
    let (probe, mut back) = ([0x5au8; 1], [0u8; 1]);
    let address = GUARDED | probe.as_ptr().expose_provenance() as u64;
    read(Segment { address, bytes: 1 }, &mut back).is_ok() && back == probe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guarded(address: usize, bytes: usize) -> Segment {
        ALL.part(address as u64, bytes as u64)
    }

    #[test]
    fn what_is_mapped_is_copied() {
        assert!(is_allowed());
        let mut host = *b"0123456789";
        let address = host.as_mut_ptr().expose_provenance();
        let mut back = [0; 4];
        read(guarded(address + 2, 4), &mut back).unwrap();
        assert_eq!(&back, b"2345");
        write(guarded(address + 7, 2), b"ab").unwrap();
        read(guarded(address + 6, 4), &mut back).unwrap();
        assert_eq!(&back, b"6ab9");
        assert_eq!(read(guarded(address, 5), &mut back), Err(MemoryFault), "another length");
        assert_eq!(read(guarded(0, 0), &mut []), Ok(()));
    }

    #[test]
    fn what_is_not_is_a_fault() {
        let page = 4096;
        // SAFETY: new memory of our own, of which two pages go again.
        let at = unsafe {
            let (any, private) = (std::ptr::null_mut(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let at = libc::mmap(any, 3 * page, libc::PROT_READ | libc::PROT_WRITE, private, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            assert_eq!(libc::munmap(at.byte_add(page), page), 0);
            assert_eq!(libc::mprotect(at.byte_add(2 * page), page, libc::PROT_READ), 0);
            at.expose_provenance()
        };
        let mut bytes = vec![1; page];
        assert_eq!(write(guarded(at, page), &bytes), Ok(()));
        assert_eq!(write(guarded(at + page / 2, page), &bytes), Err(MemoryFault));
        assert_eq!(read(guarded(at + page / 2, page), &mut bytes), Err(MemoryFault));
        assert_eq!(write(guarded(at + 2 * page, page), &bytes), Err(MemoryFault), "read only");
        assert_eq!(read(guarded(at + 2 * page, page), &mut bytes), Ok(()));
        for address in [0, 8, (1 << 56) - page, 1 << 47] {
            assert_eq!(read(guarded(address, page), &mut bytes), Err(MemoryFault));
            assert_eq!(write(guarded(address, page), &bytes), Err(MemoryFault));
        }
        // SAFETY: what is left of it, and used by nobody.
        unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(at), 3 * page) };
    }

    #[test]
    fn memory_of_a_descriptor_is_reached_by_it() {
        let file = File::options().read(true).write(true).open("/proc/self/mem");
        let of = Whose::Of(file.expect("one's own may be opened"));
        let mut host = *b"0123456789";
        let address = host.as_mut_ptr().expose_provenance();
        let mut back = [0; 4];
        of.read(guarded(address + 2, 4), &mut back).unwrap();
        assert_eq!(&back, b"2345");
        of.write(guarded(address + 7, 2), b"ab").unwrap();
        of.read(guarded(address + 6, 4), &mut back).unwrap();
        assert_eq!(&back, b"6ab9");
        assert_eq!(of.read(guarded(address, 5), &mut back), Err(MemoryFault), "another length");
        assert_eq!(of.write(guarded(address, 5), b"four"), Err(MemoryFault), "another length");
        for address in [0, 8, 1 << 47, (1 << 56) - 4096] {
            assert_eq!(of.read(guarded(address, 4), &mut back), Err(MemoryFault));
            assert_eq!(of.write(guarded(address, 4), &back), Err(MemoryFault));
        }
        assert_eq!(Whose::Nobodys.read(guarded(address, 4), &mut back), Err(MemoryFault));
        assert_eq!(Whose::Nobodys.write(guarded(address, 4), &back), Err(MemoryFault));
    }

    #[test]
    fn neither_pointers_nor_windows_are_guarded() {
        assert!(is_guarded(guarded(0, 1)) && is_guarded(guarded((1 << 56) - 1, 1)));
        for address in [0, 1 << 47, 1 << 56, 1 << 63, u64::MAX] {
            assert!(!is_guarded(Segment { address, bytes: 1 }));
        }
    }
}
