//! The socket that clients connect to: its place in the file system, and what stands there already.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use emp_link::service::socket;

/// Everyone may connect: who gets something is decided by who they are.
const SOCKET_MODE: u32 = 0o666;
const DIRECTORY_MODE: u32 = 0o755;

/// A socket that listens.
#[derive(Debug)]
pub struct Listening {
    socket: OwnedFd,
    /// Where it is, and which file, if it is to be removed in the end.
    own: Option<(PathBuf, u64)>,
}

impl Listening {
    /// One that systemd has made, and removes.
    #[must_use]
    pub fn handed(socket: OwnedFd) -> Self {
        Self { socket, own: None }
    }

    /// The same, with a place that is to be removed in the end, if it is still the same then.
    #[must_use]
    pub fn at_end_remove(mut self, path: &Path) -> Self {
        let found = fs::symlink_metadata(path).ok().filter(|found| found.file_type().is_socket());
        self.own = found.map(|found| (path.to_path_buf(), found.ino()));
        self
    }

    /// Whether its place is to be removed in the end.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Another service listens from now on, and its place is that one's.
    pub(super) fn hand_over(&mut self) {
        self.own = None;
    }

    /// Listens at a path. A socket that nobody listens at any more is replaced.
    ///
    /// # Errors
    ///
    /// One line: what is in the way.
    pub fn at(path: &Path) -> Result<Self, String> {
        let place = path.display();
        let failed = |error: io::Error| format!("{place}: listening there: {error}");
        if let Some(directory) = path.parent().filter(|directory| !directory.exists()) {
            fs::DirBuilder::new().mode(DIRECTORY_MODE).create(directory).map_err(|error| {
                format!("{}: making that directory: {error}", directory.display())
            })?;
        }
        clear(path)?;
        let socket = socket::listen(path).map_err(failed)?;
        fs::set_permissions(path, Permissions::from_mode(SOCKET_MODE)).map_err(failed)?;
        let inode = fs::symlink_metadata(path).map_err(failed)?.ino();
        Ok(Self { socket, own: Some((path.to_path_buf(), inode)) })
    }

    /// Readable when somebody waits.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Removes what a service that ended without a word has left.
fn clear(path: &Path) -> Result<(), String> {
    let place = path.display();
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(format!("{place}: looking at it: {error}")),
    };
    if !found.file_type().is_socket() {
        return Err(format!("{place} is there already and is no socket: name another place"));
    }
    match socket::connect(path) {
        Err(error) if error.raw_os_error() == Some(libc::ECONNREFUSED) => {
            fs::remove_file(path).map_err(|error| format!("{place}: removing it: {error}"))
        }
        Ok(_) => Err(format!(
            "{place}: another service listens there already: end that one, or name another place"
        )),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(format!("{place}: another service listens there already, and is busy"))
        }
        Err(error) => {
            Err(format!("{place} is another program's socket ({error}): name another place"))
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some((path, inode)) = &self.own
            && fs::symlink_metadata(path).is_ok_and(|found| found.ino() == *inode)
        {
            // Failing means that the next service removes it.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_taken_only_from_the_dead() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("made").join("socket");
        let first = Listening::at(&path).expect("it is free");
        let error = Listening::at(&path).expect_err("it is taken");
        assert!(error.contains("another service listens there already"), "{error}");
        drop(first);
        assert!(!path.exists());
        // One that was killed.
        drop(socket::listen(&path).expect("it listens"));
        assert!(path.exists());
        let again = Listening::at(&path).expect("nobody listens there");
        let mode = fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, SOCKET_MODE);
        // Whoever took the name meanwhile keeps it.
        fs::remove_file(&path).expect("it is there");
        fs::write(&path, "a file").expect("it is written");
        drop(again);
        let error = Listening::at(&path).expect_err("it is a file");
        assert!(path.exists() && error.contains("is no socket"), "{error}");
        fs::remove_file(&path).expect("it is there");
        let other = std::os::unix::net::UnixListener::bind(&path).expect("it listens");
        let error = Listening::at(&path).expect_err("it is another program's");
        assert!(error.contains("another program's socket"), "{error}");
        drop(other);
    }
}
