//! Directories for files that one run needs: removed with their value, and also when a signal ends the process, which
//! runs no destructors.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use anyhow::Context;
use tempfile::TempDir;

use super::interrupt;

/// Those that are there.
static THERE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

static WATCHED: Once = Once::new();

/// A new, empty directory that goes when this does.
pub struct Scratch(TempDir);

impl Scratch {
    /// Makes one whose name begins with `prefix`.
    pub fn new(prefix: &str) -> anyhow::Result<Self> {
        let mut watched = Ok(());
        WATCHED.call_once(|| watched = interrupt::before_end(|_| remove_all()));
        watched?;
        // No signal comes between making the directory and noting it.
        interrupt::undivided(|| {
            let directory = tempfile::Builder::new().prefix(prefix).tempdir();
            let directory = directory.context("making a temporary directory")?;
            there().push(directory.path().into());
            Ok(Self(directory))
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        there().retain(|path| path != self.0.path());
        // The directory itself goes with the field.
    }
}

fn there() -> MutexGuard<'static, Vec<PathBuf>> {
    THERE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remove_all() {
    for path in there().iter() {
        let _ = fs::remove_dir_all(path);
    }
}
