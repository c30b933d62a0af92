//! The directory in which the nodes of one user find each other: a socket for each node, named by its number.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::socket;

/// Bits of a directory's mode that give others than its owner anything.
const OTHERS: u32 = 0o077;

/// Most names looked at in one search of the directory: more nodes than one machine runs, so that a directory full of
/// other things costs a bounded time.
const NAMES_MAX: usize = 4096;

/// The directory.
#[derive(Clone, Debug)]
pub(super) struct Place(PathBuf);

impl Place {
    /// The directory that is meant if none is named.
    pub(super) fn usual() -> PathBuf {
        match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
            // Only the login system makes it, and so it is either right or not there.
            Some(runtime) if runtime.is_absolute() && runtime.is_dir() => runtime.join("emp"),
            _ => PathBuf::from(format!("/dev/shm/emp-{}", socket::own_user())),
        }
    }

    /// The directory, made if it is not there.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` if it belongs to somebody else or lets others in.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // Not what a link points to, which could change.
        let found = fs::symlink_metadata(path)?;
        let denied = |why: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        if !found.is_dir() {
            return denied("it is not a directory");
        }
        if found.uid() != socket::own_user() {
            return denied("it belongs to another user");
        }
        if found.mode() & OTHERS != 0 {
            return denied("it is open to other users");
        }
        Ok(Self(path.to_path_buf()))
    }

    /// For people.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Where the node with this number listens.
    pub(super) fn socket_of(&self, number: u64) -> PathBuf {
        self.0.join(format!("{number:016x}"))
    }

    /// Where it prepares to: nobody connects to names like this.
    pub(super) fn draft_of(&self, number: u64) -> PathBuf {
        self.0.join(format!(".{number:016x}"))
    }

    /// The numbers of the nodes that are, or were, here.
    pub(super) fn numbers(&self) -> Vec<u64> {
        let Ok(names) = fs::read_dir(&self.0) else { return Vec::new() };
        let number = |entry: io::Result<fs::DirEntry>| {
            let name = entry.ok()?.file_name();
            let name = name.to_str().filter(|name| name.len() == 16)?;
            u64::from_str_radix(name, 16).ok()
        };
        names.take(NAMES_MAX).filter_map(number).collect()
    }
}
