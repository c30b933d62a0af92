//! Memory of peers, read straight from their address spaces: one copy for a long message instead of three.
//!
//! # Who is read
//!
//! A process identifier alone says nothing: its process may have ended, another may have it, or it may have become another
//! program. So each link keeps a *cell* in its memory, random bits and a count, and tells its peers where that is. Each
//! reading copies the cell too, in the same system call and after the rest, so from the same address space: if the random
//! bits are right, that was the peer's. (A descriptor of the process could only say that it has not ended.) If the count is
//! the one that the message was announced under, no operation of the peer had failed when the bytes were copied, so its
//! memory still was what it had announced.
//!
//! # Invariant
//!
//! [`PeerMemory::read`] is the only place that writes through addresses, and only to those for which its caller answers.
//! Addresses of the peer are given to the kernel alone, which checks them.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use emp_wire::LinkAddress;

/// Runs of memory on each side of one reading: more than a message names, and far below the kernel's 1024.
const RUNS_MAX: usize = 32;

/// Bytes of the cell.
const CELL_BYTES: usize = 16;

/// What peers copy along with what they read. Where it is does not change as long as the link lives.
#[repr(C, align(16))]
struct Cell {
    /// Random bits; zero once the link is gone.
    token: AtomicU64,
    /// Counts failed operations, from one.
    count: AtomicU64,
}

/// Where a peer's cell is, and what is in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Introduction {
    pub(super) address: u64,
    pub(super) token: u64,
}

/// What is known of a peer.
#[derive(Clone, Copy, Default)]
struct Peer {
    /// Its process, cell and random bits, if it can be read.
    readable: Option<(libc::pid_t, Introduction)>,
    /// It has said that it can read this process.
    reads_us: bool,
}

/// Reads and is read by the peers of one [`ShmLink`](crate::ShmLink). Shared with whoever copies messages.
pub struct PeerMemory {
    cell: Box<Cell>,
    peers: Mutex<HashMap<u64, Peer>>,
}

/// Why memory of a peer was not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerMemoryError {
    /// The kernel forbids it, there is no such memory, or it is not what was announced any more.
    Refused,
    /// The process has ended, or is another one.
    Gone,
}

impl PeerMemory {
    pub(super) fn new(token: u64) -> Self {
        // Zero stands for a link that is gone.
        let cell = Cell { token: AtomicU64::new(token.max(1)), count: AtomicU64::new(1) };
        Self { cell: Box::new(cell), peers: Mutex::default() }
    }

    /// What peers are told.
    pub(super) fn introduction(&self) -> Introduction {
        let address = std::ptr::from_ref::<Cell>(&self.cell).expose_provenance() as u64;
        Introduction { address, token: self.cell.token.load(Ordering::Relaxed) }
    }

    fn peers(&self) -> MutexGuard<'_, HashMap<u64, Peer>> {
        // Each change is one assignment: nothing is half done where a thread panicked.
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A peer has introduced itself: tries to read it. Once it can, it is read from now on.
    pub(super) fn meet(&self, number: u64, process: libc::pid_t, told: Introduction) -> bool {
        let reads = |(process, told)| self.copy(process, told, &[], &[]).is_ok();
        if !reads((process, told)) {
            return false;
        }
        let mut peers = self.peers();
        let known = &mut peers.entry(number).or_default().readable;
        // Another that says it has this number is not believed as long as the first one lives.
        if known.is_some_and(|known| known != (process, told) && reads(known)) {
            return false;
        }
        *known = Some((process, told));
        true
    }

    /// A peer has said that it can read this process.
    pub(super) fn is_read_by(&self, number: u64) {
        self.peers().entry(number).or_default().reads_us = true;
    }

    /// A peer is gone.
    pub(super) fn forget(&self, number: u64) {
        self.peers().remove(&number);
    }

    /// Peers whose memory can be read.
    pub fn readable(&self) -> usize {
        self.peers().values().filter(|peer| peer.readable.is_some()).count()
    }

    /// The name of this process's memory as it is now, for a peer that reads it; `None` for others.
    pub fn stamp(&self, peer: &LinkAddress) -> Option<u64> {
        let number = peer.as_shm()?;
        let reads_us = self.peers().get(&number).is_some_and(|peer| peer.reads_us);
        reads_us.then(|| self.cell.count.load(Ordering::SeqCst))
    }

    /// From now on memory that was announced is not what it was. To be called when an operation has failed, before its
    /// owner can do anything with its memory.
    pub fn revoke(&self) {
        self.cell.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Copies runs of a peer's memory, given as address and bytes, to runs of this process's, as many bytes in all.
    ///
    /// # Errors
    ///
    /// What it copied until then is anything.
    ///
    /// # Safety
    ///
    /// The runs of this process are valid for writes, and nobody else uses them meanwhile.
    pub unsafe fn read(
        &self,
        peer: &LinkAddress,
        stamp: u64,
        from: impl Iterator<Item = (u64, u64)>,
        to: impl Iterator<Item = (u64, u64)>,
    ) -> Result<(), PeerMemoryError> {
        let number = peer.as_shm().ok_or(PeerMemoryError::Refused)?;
        let known = self.peers().get(&number).and_then(|peer| peer.readable);
        let (process, told) = known.ok_or(PeerMemoryError::Refused)?;
        let (from, to) = (Runs::of(from)?, Runs::of(to)?);
        if from.bytes != to.bytes {
            return Err(PeerMemoryError::Refused);
        }
        let copied = self.copy(process, told, from.as_slice(), to.as_slice());
        match copied {
            Ok(count) if count == stamp => Ok(()),
            Ok(_) => Err(PeerMemoryError::Refused),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Err(PeerMemoryError::Gone),
            Err(error) => {
                if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound)
                {
                    // It was allowed once, and is not any more; or the address space is another.
                    self.peers().entry(number).or_default().readable = None;
                }
                let gone = error.kind() == io::ErrorKind::NotFound;
                Err(if gone { PeerMemoryError::Gone } else { PeerMemoryError::Refused })
            }
        }
    }

    /// Copies the runs, then the cell. Returns its count; `NotFound` if it is not the one that was told of.
    fn copy(
        &self,
        process: libc::pid_t,
        told: Introduction,
        from: &[libc::iovec],
        to: &[libc::iovec],
    ) -> io::Result<u64> {
        let mut cell = [0u64; 2];
        let mut remote = [EMPTY; RUNS_MAX + 1];
        let mut local = [EMPTY; RUNS_MAX + 1];
        remote[..from.len()].copy_from_slice(from);
        local[..to.len()].copy_from_slice(to);
        remote[from.len()] = run(told.address, CELL_BYTES);
        local[to.len()] =
            libc::iovec { iov_base: cell.as_mut_ptr().cast(), iov_len: size_of_val(&cell) };
        let wanted = from.iter().map(|run| run.iov_len).sum::<usize>() + CELL_BYTES;
        // SAFETY: both arrays hold as many entries as said. The local runs are writable: `read`'s caller has promised it
        // (`meet` gives none), and the last is `cell`. The remote ones are the kernel's to check.
        let copied = unsafe {
            libc::process_vm_readv(
                process,
                local.as_ptr(),
                to.len() as libc::c_ulong + 1,
                remote.as_ptr(),
                from.len() as libc::c_ulong + 1,
                0,
            )
        };
        if copied < 0 {
            return Err(io::Error::last_os_error());
        }
        if copied as usize != wanted {
            // It stopped where there was nothing to read.
            return Err(io::Error::from_raw_os_error(libc::EFAULT));
        }
        let [token, count] = cell;
        if token == told.token { Ok(count) } else { Err(io::ErrorKind::NotFound.into()) }
    }
}

impl Drop for PeerMemory {
    fn drop(&mut self) {
        // Whoever gets the place next leaves it as it is, perhaps for long.
        self.cell.token.store(0, Ordering::SeqCst);
    }
}

const EMPTY: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

fn run(address: u64, bytes: usize) -> libc::iovec {
    libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(address as usize),
        iov_len: bytes,
    }
}

/// Runs of memory in the kernel's form.
struct Runs {
    list: [libc::iovec; RUNS_MAX],
    count: usize,
    bytes: u64,
}

impl Runs {
    fn of(runs: impl Iterator<Item = (u64, u64)>) -> Result<Self, PeerMemoryError> {
        let mut all = Self { list: [EMPTY; RUNS_MAX], count: 0, bytes: 0 };
        for (address, bytes) in runs {
            let place = all.list.get_mut(all.count).ok_or(PeerMemoryError::Refused)?;
            *place = run(address, bytes as usize);
            all.count += 1;
            // The kernel takes no more than this at a time, either.
            let sum = all.bytes.checked_add(bytes).filter(|sum| *sum <= i32::MAX as u64);
            all.bytes = sum.ok_or(PeerMemoryError::Refused)?;
        }
        Ok(all)
    }

    fn as_slice(&self) -> &[libc::iovec] {
        &self.list[..self.count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: u64 = 7;

    fn own() -> libc::pid_t {
        std::process::id() as libc::pid_t
    }

    fn span(bytes: &[u8]) -> (u64, u64) {
        (bytes.as_ptr().expose_provenance() as u64, bytes.len() as u64)
    }

    fn read(
        reader: &PeerMemory,
        stamp: u64,
        from: (u64, u64),
        to: &mut [u8],
    ) -> Result<(), PeerMemoryError> {
        let to = (to.as_mut_ptr().expose_provenance() as u64, to.len() as u64);
        let peer = LinkAddress::shm(PEER);
        // SAFETY: `to` is this function's alone.
        unsafe { reader.read(&peer, stamp, [from].into_iter(), [to].into_iter()) }
    }

    /// Two links of this process.
    fn met() -> (PeerMemory, PeerMemory) {
        let (reader, peer) = (PeerMemory::new(1), PeerMemory::new(2));
        assert!(reader.meet(PEER, own(), peer.introduction()));
        peer.is_read_by(9);
        (reader, peer)
    }

    #[test]
    fn what_was_announced_is_read() {
        let (reader, peer) = met();
        let stamp = peer.stamp(&LinkAddress::shm(9)).expect("9 reads it");
        assert_eq!(peer.stamp(&LinkAddress::shm(8)), None);
        let (from, mut to) = (vec![5u8; 70_000], vec![0u8; 70_000]);
        assert_eq!(read(&reader, stamp, span(&from), &mut to), Ok(()));
        assert_eq!(from, to);
        assert_eq!(read(&reader, stamp, span(&from[1..]), &mut to), Err(PeerMemoryError::Refused));
    }

    #[test]
    fn after_a_failure_it_is_not_what_was_announced() {
        let (reader, peer) = met();
        let stamp = peer.stamp(&LinkAddress::shm(9)).unwrap();
        peer.revoke();
        let (from, mut to) = ([5u8; 10], [0u8; 10]);
        assert_eq!(read(&reader, stamp, span(&from), &mut to), Err(PeerMemoryError::Refused));
        let stamp = peer.stamp(&LinkAddress::shm(9)).unwrap();
        assert_eq!(read(&reader, stamp, span(&from), &mut to), Ok(()));
    }

    #[test]
    fn addresses_of_nothing_are_refused() {
        let (reader, peer) = met();
        let stamp = peer.stamp(&LinkAddress::shm(9)).unwrap();
        let mut to = vec![0u8; 1 << 20];
        let bytes = to.len() as u64;
        for address in [0, 8, u64::MAX - bytes, 1 << 47, span(&[0; 8]).0 | 1 << 63] {
            let read = read(&reader, stamp, (address, bytes), &mut to);
            assert_eq!(read, Err(PeerMemoryError::Refused), "{address:#x}");
        }
        // It stays a peer that can be read.
        assert_eq!(reader.readable(), 1);
    }

    #[test]
    fn another_process_is_not_taken_for_the_peer() {
        let (reader, peer) = met();
        let stamp = peer.stamp(&LinkAddress::shm(9)).unwrap();
        let from = [5u8; 10];
        drop(peer);
        assert_eq!(read(&reader, stamp, span(&from), &mut [0; 10]), Err(PeerMemoryError::Gone));
        assert_eq!(reader.readable(), 0);
        assert!(!reader.meet(PEER, own(), Introduction { address: span(&from).0, token: 3 }));
        assert!(!reader.meet(PEER, own(), Introduction { address: 0, token: 0 }));
    }

    #[test]
    fn the_first_with_a_number_keeps_it_while_it_lives() {
        let (reader, peer) = met();
        let rogue = PeerMemory::new(3);
        assert!(!reader.meet(PEER, own(), rogue.introduction()));
        assert!(reader.meet(PEER, own(), peer.introduction()), "a second connection of the same");
        drop(peer);
        assert!(reader.meet(PEER, own(), rogue.introduction()));
    }

    #[test]
    fn a_process_that_has_ended_is_gone() {
        let (reader, peer) = met();
        let mut child = std::process::Command::new("true").spawn().expect("there is `true`");
        child.wait().expect("it ends");
        let told = peer.introduction();
        reader
            .peers()
            .insert(PEER, Peer { readable: Some((child.id() as i32, told)), reads_us: false });
        assert_eq!(read(&reader, 1, span(&[1]), &mut [0; 1]), Err(PeerMemoryError::Gone));
    }
}
