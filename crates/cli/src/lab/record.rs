//! Writing a record so that nobody ever reads half of one.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Writes a file that must not be there yet. Of two processes that try, one fails with
/// `AlreadyExists`: a link appears with its contents or not at all, and never in another's place.
pub fn create(path: &Path, contents: &[u8]) -> io::Result<()> {
    let draft = draft(path, contents)?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    linked
}

/// Writes a file in the place of the one that is there.
pub fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    fs::rename(draft(path, contents)?, path)
}

/// A file of this process only, beside `path`.
fn draft(path: &Path, contents: &[u8]) -> io::Result<PathBuf> {
    let draft = path.with_extension(format!("draft{}", std::process::id()));
    fs::write(&draft, contents)?;
    Ok(draft)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_to_create_fails_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record.json");
        create(&path, b"first").unwrap();
        let error = create(&path, b"second").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"first");
        replace(&path, b"third").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"third");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
