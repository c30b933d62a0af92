//! Labs that stay up although an ordinary user made them.
//!
//! Their namespaces live inside a user namespace, and that lives as long as a process in it: the
//! keeper, which only waits. A small record outside says who keeps which lab; every later
//! `emp lab` joins the keeper's namespaces first and then goes on like root.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::{record, rootless, state};
use crate::bail_user;
use crate::process::{self, ProcessId};

/// The name of the hidden subcommand that is the keeper.
pub const SUBCOMMAND: &str = "keep";

#[derive(Serialize, Deserialize)]
struct Record {
    /// The keeper; while the lab is being made, the maker.
    keeper: ProcessId,
}

/// A lab's name, claimed for this user until dropped or handed to a keeper.
pub struct Claim {
    path: PathBuf,
    kept: bool,
}

impl Claim {
    /// Claims a name. To be called before entering the user namespace.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let path = file(&directory()?, name);
        if let Some(record) = read(&path)? {
            if record.keeper.is_alive() {
                bail_user!("lab {name} is up already; `emp lab down --name {name}` removes it");
            }
            fs::remove_file(&path)?;
        }
        let contents = serde_json::to_vec(&Record { keeper: ProcessId::own() })?;
        match record::create(&path, &contents) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                bail_user!("lab {name} is being made by another process")
            }
            created => created.with_context(|| path.display().to_string())?,
        }
        Ok(Self { path, kept: false })
    }

    /// Starts a keeper in our namespaces and gives it the lab.
    pub fn keep(mut self, name: &str) -> anyhow::Result<()> {
        let keeper = Command::new("/proc/self/exe")
            .args(["lab", SUBCOMMAND, name])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            // Out of reach of Ctrl-C and of the shell's goodbye to its jobs.
            .process_group(0)
            .spawn()
            .context("starting the lab's keeper")?;
        let keeper = ProcessId::of(keeper.id()).context("the lab's keeper ended at once")?;
        record::replace(&self.path, &serde_json::to_vec(&Record { keeper })?)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.kept {
            // Should this fail, the record names a dead process and the next claim replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What the keeper does.
pub fn wait_for_the_end() -> ! {
    loop {
        thread::park();
    }
}

/// A lab of this user's, kept by another process.
pub struct Kept {
    keeper: ProcessId,
    path: PathBuf,
}

impl Kept {
    /// Finds the keeper of a lab, if there is one alive.
    pub fn find(name: &str) -> anyhow::Result<Option<Self>> {
        let path = file(&directory()?, name);
        let record = read(&path)?.filter(|record| record.keeper.is_alive());
        Ok(record.map(|record| Self { keeper: record.keeper, path }))
    }

    /// Moves this process into the lab's namespaces, as root there.
    pub fn join(&self) -> anyhow::Result<()> {
        rootless::join(self.keeper)
    }

    /// Ends the keeper and forgets the lab.
    pub fn end(self) -> anyhow::Result<()> {
        rootless::terminate(self.keeper)?;
        fs::remove_file(&self.path).with_context(|| self.path.display().to_string())
    }
}

/// The names of this user's kept labs.
pub fn names() -> anyhow::Result<Vec<String>> {
    state::names_in(&directory()?)
}

/// Forgets labs whose keeper is gone, and with it all there was; gives their names.
pub fn forget_stale() -> anyhow::Result<Vec<String>> {
    let directory = directory()?;
    let mut forgotten = state::names_in(&directory)?;
    forgotten.retain(|name| {
        let path = file(&directory, name);
        let stale = read(&path).is_ok_and(|r| r.is_none_or(|r| !r.keeper.is_alive()));
        stale && fs::remove_file(path).is_ok()
    });
    Ok(forgotten)
}

/// This user's directory for records, made if need be.
fn directory() -> anyhow::Result<PathBuf> {
    let (user, _) = process::effective_ids();
    let directory = match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(runtime) if runtime.is_dir() => runtime.join("emp"),
        _ => PathBuf::from(format!("/tmp/emp-{user}")),
    };
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(error).context(directory.display().to_string());
        }
        _ => {}
    }
    // /tmp is everybody's: a directory of this name may be a trap.
    let found = fs::symlink_metadata(&directory)?;
    if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
        bail_user!("{} must be a directory only you can use", directory.display());
    }
    Ok(directory)
}

fn file(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("lab-{name}.json"))
}

/// `None` also for a record that cannot be understood: it keeps nothing.
fn read(path: &Path) -> anyhow::Result<Option<Record>> {
    match fs::read(path) {
        Ok(text) => Ok(serde_json::from_slice(&text).ok()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context(path.display().to_string()),
    }
}
