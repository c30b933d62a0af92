//! Where the files are: a directory for each user below `/dev/shm/emp`; where there is none, below the user's runtime directory, or `/tmp`.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Names another directory: its owner's nodes write there, and readers look nowhere else.
pub const VARIABLE: &str = "EMP_STATE_DIR";

/// What names of files end with.
pub(crate) const ENDING: &str = ".state";

/// Places that all users share.
const SHARED: [&str; 2] = ["/dev/shm/emp", "/tmp/emp"];

/// Users whose directories are looked through: more than one machine has at work.
const USERS_MAX: usize = 1_024;

/// Number of the user namespace that a machine starts with (`PROC_USER_INIT_INO` of the kernel).
const FIRST_NAMESPACE: u64 = 0xEFFF_FFFD;

/// Who may read a node's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Readers {
    /// Its user, and root.
    #[default]
    Own,
    /// Everyone on the machine.
    All,
}

impl Readers {
    /// The mode of files, and of their directory.
    pub(crate) const fn modes(self) -> (u32, u32) {
        match self {
            Self::Own => (0o600, 0o700),
            Self::All => (0o644, 0o755),
        }
    }
}

/// This process's user.
pub fn user() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// The name of this user's directory. The number of a user says who it is only within its user namespace.
fn own_name() -> String {
    let namespace = fs::metadata("/proc/self/ns/user").map_or(FIRST_NAMESPACE, |it| it.ino());
    let user = user();
    if namespace == FIRST_NAMESPACE { user.to_string() } else { format!("{user}-{namespace}") }
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Directories in which this user's nodes may write, best first.
pub fn to_write() -> Vec<PathBuf> {
    if let Some(named) = variable(VARIABLE) {
        return vec![named];
    }
    let own = own_name();
    let runtime = variable("XDG_RUNTIME_DIR").map(|path| path.join("emp/state"));
    let [first, last] = SHARED.map(|shared| Path::new(shared).join(&own));
    [Some(first), runtime, Some(last)].into_iter().flatten().collect()
}

/// Directories in which nodes' files may be that this user may read.
pub fn to_read() -> Vec<PathBuf> {
    if let Some(named) = variable(VARIABLE) {
        return vec![named];
    }
    let below = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten().take(USERS_MAX).flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let shared = SHARED.iter().flat_map(|shared| below(Path::new(shared)));
    let runtimes = below(Path::new("/run/user")).into_iter().chain(variable("XDG_RUNTIME_DIR"));
    let runtimes = runtimes.map(|path| path.join("emp/state"));
    let mut all: Vec<_> = shared.chain(runtimes).filter(|path| path.is_dir()).collect();
    all.sort();
    all.dedup();
    all
}

/// Makes a directory that is not there. What was made by somebody at the same time is as good.
fn make(path: &Path, mode: u32) -> io::Result<bool> {
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes a user's directory, and what is above it where all users share that.
///
/// # Errors
///
/// Of the system; `PermissionDenied` where somebody else could put another in its place.
pub(crate) fn open(path: &Path, readers: Readers) -> io::Result<()> {
    let denied = |why| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    let (_, mode) = readers.modes();
    if let Some(parent) = path.parent() {
        let shared = SHARED.iter().any(|shared| Path::new(shared) == parent);
        if shared && make(parent, 0o1777)? {
            // As the process's mask says nothing of what others need.
            fs::set_permissions(parent, Permissions::from_mode(0o1777))?;
        } else if !shared && !parent.is_dir() {
            make(parent, 0o700)?;
        }
        let found = fs::symlink_metadata(parent)?;
        if !found.is_dir() {
            return denied("what is above it is not a directory");
        }
        let sticky = found.mode() & 0o1000 != 0;
        let open = found.mode() & 0o022 != 0;
        if open && !sticky || !open && found.uid() != user() && found.uid() != 0 {
            return denied("others may change what is above it");
        }
    }
    make(path, mode)?;
    // Not what a link points to, which could change.
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() {
        return denied("it is not a directory");
    }
    if found.uid() != user() {
        return denied("it belongs to another user");
    }
    if found.mode() & 0o022 != 0 {
        return denied("other users may write to it");
    }
    if found.mode() & mode != mode {
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// True for names that such files have.
pub(crate) fn is_name(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.ends_with(ENDING.as_bytes()) && !name.starts_with(b".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_others_may_write_to_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let own = top.path().join("own");
        open(&own, Readers::Own).unwrap();
        assert_eq!(fs::metadata(&own).unwrap().mode() & 0o7777, 0o700);
        open(&own, Readers::All).unwrap();
        assert_eq!(fs::metadata(&own).unwrap().mode() & 0o7777, 0o755);
        open(&own, Readers::Own).unwrap();
        assert_eq!(fs::metadata(&own).unwrap().mode() & 0o7777, 0o755, "others may ask for more");

        fs::set_permissions(&own, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(open(&own, Readers::Own).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let link = top.path().join("link");
        std::os::unix::fs::symlink(top.path(), &link).unwrap();
        assert_eq!(open(&link, Readers::Own).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let file = top.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(open(&file, Readers::Own).is_err());
        fs::set_permissions(top.path(), Permissions::from_mode(0o777)).unwrap();
        let open_above = open(&top.path().join("new"), Readers::Own);
        assert_eq!(open_above.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
