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

/// Number of the user namespace that a machine starts with (`PROC_USER_INIT_INO` of the kernel).
const FIRST_NAMESPACE: u64 = 0xEFFF_FFFD;

/// The number of this process's user namespace; that of the first one where there is no telling.
fn user_namespace() -> u64 {
    fs::metadata("/proc/self/ns/user").map_or(FIRST_NAMESPACE, |namespace| namespace.ino())
}

/// The directory of one user of a user namespace. The number of a user says who it is only within one: in a rootless lab
/// everyone is user 0, and the machine's root would find its directory taken by somebody else.
fn shared(user: u32, namespace: u64) -> PathBuf {
    let mut name = format!("/dev/shm/emp-{user}");
    if namespace != FIRST_NAMESPACE {
        name += &format!("-{namespace}");
    }
    PathBuf::from(name)
}

/// The directory.
#[derive(Clone, Debug)]
pub(crate) struct Place(PathBuf);

impl Place {
    /// The directory that is meant if none is named.
    pub(crate) fn usual() -> PathBuf {
        match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
            // Only the login system makes it, and so it is either right or not there.
            Some(runtime) if runtime.is_absolute() && runtime.is_dir() => runtime.join("emp"),
            _ => shared(socket::own_user(), user_namespace()),
        }
    }

    /// The directory, made if it is not there.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` if it belongs to somebody else or lets others in.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
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

    /// A file of this name for all nodes here.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// For people.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Where the node with this number listens.
    pub(crate) fn socket_of(&self, number: u64) -> PathBuf {
        self.0.join(format!("{number:016x}"))
    }

    /// Where it prepares to: nobody connects to names like this.
    pub(crate) fn draft_of(&self, number: u64) -> PathBuf {
        self.0.join(format!(".{number:016x}"))
    }

    /// The numbers of the nodes that are, or were, here.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        let Ok(names) = fs::read_dir(&self.0) else { return Vec::new() };
        let number = |entry: io::Result<fs::DirEntry>| {
            let name = entry.ok()?.file_name();
            let name = name.to_str().filter(|name| name.len() == 16)?;
            u64::from_str_radix(name, 16).ok()
        };
        names.take(NAMES_MAX).filter_map(number).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use emp_testing::{Need, skip};

    use super::*;

    #[test]
    fn users_of_different_namespaces_do_not_meet() {
        assert_eq!(shared(0, FIRST_NAMESPACE), Path::new("/dev/shm/emp-0"));
        assert_eq!(shared(0, 4_026_532_300), Path::new("/dev/shm/emp-0-4026532300"));
        assert_ne!(shared(0, 4_026_532_300), shared(0, 4_026_532_301));
    }

    /// The processes of one namespace see one number, those of another one another.
    #[test]
    fn a_namespace_has_one_number() {
        let asked = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().ok()?;
            let text = String::from_utf8(output.stdout).ok()?;
            text.trim().parse::<u64>().ok().filter(|_| output.status.success())
        };
        let namespace = ["-L", "-c", "%i", "/proc/self/ns/user"];
        assert_eq!(asked("stat", &namespace), Some(user_namespace()));
        let mut elsewhere = vec!["--user", "stat"];
        elsewhere.extend(namespace);
        match asked("unshare", &elsewhere) {
            Some(other) => assert_ne!(other, user_namespace()),
            None => skip(Need::Root, "no further user namespace is to be had"),
        }
    }
}
