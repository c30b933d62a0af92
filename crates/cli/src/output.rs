//! Files that results go to: whether they can be written is found out before anything is measured.

use std::fs::{self, OpenOptions};
use std::path::Path;

use crate::bail_user;

/// An error that the user can mend if one of these files cannot be written. Leaves no file that was not there.
pub fn check_writable<'a>(
    paths: impl IntoIterator<Item = &'a std::path::PathBuf>,
) -> anyhow::Result<()> {
    for path in paths {
        let is_new = !path.exists();
        if let Err(problem) = OpenOptions::new().append(true).create(true).open(path) {
            bail_user!("{} can't be written: {problem}", path.display());
        }
        if is_new {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// An error that the user can mend if a file of that name can't be written in a directory that is there or will be made.
/// Leaves no directory that was not there: whoever is interrupted before there are results leaves nothing.
pub fn check_directory(path: &Path, file: &str) -> anyhow::Result<()> {
    let missing = path.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.exists());
    let missing: Vec<&Path> = missing.collect();
    let checked = make_directory(path).and_then(|()| check_writable([&path.join(file)]));
    for directory in missing {
        // What was not made can't be removed, and what somebody uses meanwhile stays.
        let _ = fs::remove_dir(directory);
    }
    checked
}

/// Makes a directory for results if there is none.
pub fn make_directory(path: &Path) -> anyhow::Result<()> {
    if let Err(problem) = fs::create_dir_all(path) {
        bail_user!("the directory {} can't be made: {problem}", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_stays_and_nothing_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = (directory.path().join("old"), directory.path().join("new"));
        fs::write(&old, "kept").unwrap();
        check_writable([&old, &new]).unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "kept");
        assert!(!new.exists());
        assert!(check_writable([&directory.path().join("no/such")]).is_err());
        assert!(make_directory(&old.join("below a file")).is_err());
    }

    #[test]
    fn directories_are_tried_and_taken_away_again() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = (directory.path().join("old"), directory.path().join("new/below"));
        fs::create_dir(&old).unwrap();
        for path in [&old, &new] {
            check_directory(path, "results").unwrap();
        }
        assert!(old.exists() && fs::read_dir(directory.path()).unwrap().count() == 1);
        fs::create_dir(old.join("results")).unwrap();
        for (path, file) in [(&old, "results"), (&directory.path().join("old/results/x\0"), "y")] {
            let error = check_directory(path, file).unwrap_err();
            assert!(error.is::<crate::error::UserError>(), "{error}");
        }
    }
}
