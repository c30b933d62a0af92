//! The file in which an interface's group keeps its table: opened, locked, and removed with its last user.
//!
//! It lies in the user's own directory, where the nodes of one user on one machine find each other. One lock in it is held while the
//! table changes, and each user holds a lock of its own for as long as its process lives: the kernel gives both back when a process
//! ends, however it does. A file of which nobody holds a lock is of no use to anyone. Namespaces come and go (each run of a lab has new
//! ones), and a search for nodes looks at a bounded number of names, so such files must not pile up.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::members::{FILE_BYTES_MAX, Members};
use crate::locks;
use crate::shm::place::Place;

/// Byte of the file whose lock is held while the table changes; those of members come before it.
const TABLE_LOCK: u64 = 1 << 20;

/// The byte whose lock a process has while it has the kernel go by the table after joins. Setting the program waits for a grace
/// period of the kernel's: 10 to 40 ms, and seconds with a hundred processes on two cores. So it is set once for all who join meanwhile.
pub(super) const PROGRAM_LOCK: u64 = TABLE_LOCK + 1;

/// How long the table's lock is waited for: joins take tens of microseconds, and a departure, or a holder that shares its core with
/// a hundred others, a second at times. Who has it for longer was stopped, and a link that opens does without the group then.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(3);
/// Pauses between tries, doubled each time: those who start together must not keep the holder from its core.
const LOCK_RETRY: Duration = Duration::from_micros(100);
const LOCK_RETRY_MAX: Duration = Duration::from_millis(5);

/// What the names of these files begin with, and those of this version's.
const PREFIX: &str = "packet-";
const OWN_PREFIX: &str = "packet-3-";

/// Most files of others that one sweep looks at, some 5 µs each.
const SWEEP_MAX: usize = 1024;

/// The file. Removed with this value if nobody else uses it.
#[derive(Debug)]
pub(super) struct Table {
    file: File,
    path: PathBuf,
    /// The process that opened it: a child of it has a copy of this value and no business in the table.
    process: u32,
}

impl Table {
    /// Opens the table of an interface (by number, in this thread's network namespace) and EtherType, made if there is none. Its lock is
    /// held: [`Self::held`].
    pub(super) fn open_locked((interface, ethertype): (u32, u16)) -> io::Result<Self> {
        let place = Place::open(&Place::usual())?;
        let namespace = fs::metadata("/proc/thread-self/ns/net")?.ino();
        let path = place.file(&format!("{OWN_PREFIX}{namespace}-{interface}-{ethertype:04x}"));
        Self::open(&path, true)?.locked()
    }

    /// With its lock, of the file that has its name then.
    fn locked(self) -> io::Result<Self> {
        let (since, mut table) = (Instant::now(), self);
        loop {
            wait_for(&table.file)?;
            // Between opening and locking its last user may have removed it.
            if table.is_current() {
                return Ok(table);
            }
            if since.elapsed() > LOCK_PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            table = Self::open(&table.path, true)?;
        }
    }

    fn open(path: &Path, make: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(make).truncate(false).mode(0o600);
        let file = options.custom_flags(libc::O_NOFOLLOW).open(path)?;
        Ok(Self { file, path: path.to_path_buf(), process: std::process::id() })
    }

    /// The lock that [`Self::open_locked`] took, given back with the value.
    pub(super) fn held(&self) -> TableLock<'_> {
        TableLock(&self.file)
    }

    /// Takes the table's lock, or waits for it.
    pub(super) fn lock(&self) -> io::Result<TableLock<'_>> {
        wait_for(&self.file)?;
        Ok(self.held())
    }

    /// Takes the table's lock if nobody has it.
    pub(super) fn try_lock(&self) -> io::Result<Option<TableLock<'_>>> {
        Ok(locks::try_lock(&self.file, TABLE_LOCK)?.then(|| self.held()))
    }

    /// Takes a user's lock. False: somebody else has it.
    pub(super) fn claim(&self, byte: u64) -> io::Result<bool> {
        locks::try_lock(&self.file, byte)
    }

    /// Gives it back.
    pub(super) fn release(&self, byte: u64) -> io::Result<()> {
        locks::unlock(&self.file, byte)
    }

    /// True if another user has it.
    pub(super) fn is_claimed(&self, byte: u64) -> io::Result<bool> {
        locks::is_locked(&self.file, byte)
    }

    pub(super) fn read(&self) -> io::Result<Members> {
        let mut bytes = vec![0; FILE_BYTES_MAX];
        let mut filled = 0;
        while filled < bytes.len() {
            match self.file.read_at(&mut bytes[filled..], filled as u64)? {
                0 => break,
                more => filled += more,
            }
        }
        Ok(Members::parse(&bytes[..filled]))
    }

    pub(super) fn write(&self, members: &Members) -> io::Result<()> {
        self.file.write_all_at(&members.emit(), 0)
    }

    /// Takes out members whose processes have ended: nobody holds their locks. But for `own`, whose lock is this value's.
    pub(super) fn sweep(&self, members: &mut Members, own: Option<u16>) {
        let others =
            members.list().iter().map(|member| member.slot).filter(|slot| Some(*slot) != own);
        for slot in others.collect::<Vec<_>>() {
            if self.is_claimed(slot.into()).is_ok_and(|claimed| !claimed) {
                members.leave(slot);
            }
        }
    }

    /// True if this is a copy in a child of the process that opened it.
    pub(super) fn is_inherited(&self) -> bool {
        self.process != std::process::id()
    }

    /// True if the file is still the one of its name.
    fn is_current(&self) -> bool {
        let named = fs::symlink_metadata(&self.path);
        let opened = self.file.metadata();
        let same = named.and_then(|named| {
            Ok((named.ino(), named.dev()) == opened.map(|opened| (opened.ino(), opened.dev()))?)
        });
        same.is_ok_and(|same| same)
    }

    /// Removes the files of other interfaces that nobody uses: of namespaces that are gone, and of processes that were killed. Called by
    /// the first user of an interface.
    pub(super) fn sweep_others(&self) {
        let Some(names) = self.path.parent().and_then(|place| fs::read_dir(place).ok()) else {
            return;
        };
        let named = |entry: io::Result<fs::DirEntry>| Some(entry.ok()?.path());
        let is_table = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(PREFIX)) && *path != self.path
        };
        for path in names.filter_map(named).filter(is_table).take(SWEEP_MAX) {
            // Removed, if nobody uses it, as the value ends.
            drop(Self::open(&path, false));
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if self.is_inherited() {
            return;
        }
        // Who has the lock now is about to use it, or removes it.
        let Ok(Some(_lock)) = self.try_lock() else { return };
        if locks::is_unused(&self.file).is_ok_and(|unused| unused) && self.is_current() {
            // Failing means that it stays until the next sweep.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The table's lock. Given back with the value.
pub(super) struct TableLock<'a>(&'a File);

impl Drop for TableLock<'_> {
    fn drop(&mut self) {
        let _ = locks::unlock(self.0, TABLE_LOCK);
    }
}

fn wait_for(file: &File) -> io::Result<()> {
    let (since, mut pause) = (Instant::now(), LOCK_RETRY);
    while !locks::try_lock(file, TABLE_LOCK)? {
        if since.elapsed() > LOCK_PATIENCE {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(LOCK_RETRY_MAX);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who has opened the file and not yet locked it finds that it is not the one that others will find.
    #[test]
    fn a_file_is_not_removed_from_under_its_user() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("packet-1-2-88b5");
        let open = || Table::open(&path, true).expect("it opens");
        let late = open();
        drop(open());
        assert!(!path.exists(), "nobody held a lock of it");
        let user = late.locked().expect("there is another");
        assert!(user.is_current() && user.claim(3).expect("it works"));
        drop(user.held());
        drop(open());
        assert!(path.exists(), "somebody has a lock of it");
        // Not even one of whose name another has the file.
        fs::remove_file(&path).expect("it is there");
        let newer = open();
        drop(user);
        assert!(newer.is_current());
    }
}
