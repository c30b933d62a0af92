//! The socket that clients connect to: its place in the file system, and what stands there already.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use emp_link::service::SOCKET_PATH;
use emp_link::service::socket::{self, PATH_BYTES_MAX};

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
        Self::may_be_at(path)?;
        if let Some(directory) = parent(path).filter(|directory| !directory.exists()) {
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

    /// Whether a service could listen at a path, as far as can be told without trying.
    ///
    /// # Errors
    ///
    /// One line: what is wrong with it.
    pub fn may_be_at(path: &Path) -> Result<(), String> {
        let (place, bytes) = (path.display(), path.as_os_str().as_bytes());
        if bytes.is_empty() || bytes.contains(&0) {
            return Err(format!("socket: {path:?} is no path: name one, such as {SOCKET_PATH}"));
        }
        if bytes.len() > PATH_BYTES_MAX {
            let length = bytes.len();
            return Err(format!(
                "{place}: a socket's path has {PATH_BYTES_MAX} bytes at most, and this one {length}: name a shorter one"
            ));
        }
        found(path)?;
        let Some(directory) = parent(path) else { return Ok(()) };
        let shown = directory.display();
        // One is made where it is missing, and no more: a path with a slip in it is not for making.
        let above = parent(directory).is_none_or(Path::is_dir);
        match directory.metadata() {
            Ok(there) if there.is_dir() => Ok(()),
            Ok(_) => Err(format!("{place}: {shown} is no directory: name another place")),
            Err(error) if error.kind() == io::ErrorKind::NotFound && above => Ok(()),
            Err(error) => Err(format!(
                "{place}: its directory {shown}: {error}: make it, or name another place"
            )),
        }
    }

    /// Readable when somebody waits.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The directory of a path; none of a bare name, which is in the working directory.
fn parent(path: &Path) -> Option<&Path> {
    path.parent().filter(|directory| !directory.as_os_str().is_empty())
}

/// Whether there is a socket at a path, which may be replaced.
fn found(path: &Path) -> Result<bool, String> {
    let place = path.display();
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => Ok(true),
        Ok(_) => Err(format!("{place} is there already and is no socket: name another place")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(format!("{place}: looking at it: {error}")),
    }
}

/// Removes what a service that ended without a word has left.
fn clear(path: &Path) -> Result<(), String> {
    let place = path.display();
    if !found(path)? {
        return Ok(());
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
    fn where_none_can_listen_is_found_out_without_trying() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path();
        fs::write(place.join("file"), "a file").expect("it is written");
        let long = "x".repeat(PATH_BYTES_MAX);
        for (path, said) in [
            (PathBuf::new(), "is no path"),
            (PathBuf::from("a\0b"), "is no path"),
            (place.join(long), "bytes at most, and this one"),
            (place.to_path_buf(), "is no socket"),
            (place.join("file"), "is no socket"),
            (place.join("file/socket"), "Not a directory"),
            (place.join("a/b/socket"), "its directory"),
        ] {
            let error = Listening::may_be_at(&path).expect_err("it can't be there");
            assert!(error.contains(said) && !error.contains('\n'), "{path:?}: {error}");
            assert_eq!(Listening::at(&path).expect_err("nor is it"), error);
        }
        for path in [place.join("socket"), place.join("made/socket"), "bare-name".into()] {
            assert_eq!(Listening::may_be_at(&path), Ok(()));
            assert!(!path.exists());
        }
        assert_eq!(fs::read_dir(place).expect("it is there").count(), 1, "nothing was made");
    }

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
