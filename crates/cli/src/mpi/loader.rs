//! What the dynamic loader would load. It is asked itself, and only lists: nothing of what it finds runs.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The loader, with variables that it is to see besides ours.
#[derive(Default)]
pub struct Loader {
    variables: Vec<(&'static str, OsString)>,
}

impl Loader {
    /// What a program or shared object loads, a library a line; `None` if it is neither, or loads nothing.
    pub fn listing(&self, object: &Path) -> Option<String> {
        self.run(object, &[]).map(|(listing, _)| listing)
    }

    /// Where it finds a library that a program or shared object needs, by itself or for another.
    pub fn needed(&self, object: &Path, library: &str) -> Option<PathBuf> {
        find_in(&self.listing(object)?, library)
    }

    /// The same for a program that has opened a module: what the program needs itself comes first.
    pub fn needed_with(&self, program: &Path, module: &Path, library: &str) -> Option<PathBuf> {
        let preload = joined(module.as_os_str(), self.variable("LD_PRELOAD"));
        find_in(&self.run(program, &[("LD_PRELOAD", preload)])?.0, library)
    }

    /// Where it finds a library that a library asks for by name while a program runs: `dlopen` looks where the program's
    /// RPATH says, but not its RUNPATH, which is for what the program needs itself.
    pub fn opened(&self, program: Option<&Path>, library: &str) -> Option<PathBuf> {
        let places = program.and_then(|program| self.rpath(program)).unwrap_or_default();
        let path = match places.as_str() {
            "" => self.variable("LD_LIBRARY_PATH").unwrap_or_default(),
            places => joined(OsStr::new(places), self.variable("LD_LIBRARY_PATH")),
        };
        let preload = joined(OsStr::new(library), self.variable("LD_PRELOAD"));
        let variables = [("LD_LIBRARY_PATH", path), ("LD_PRELOAD", preload)];
        find_in(&self.run(&env::current_exe().ok()?, &variables)?.0, library)
    }

    /// The directories of a program's RPATH, as the loader says that it looks into them.
    fn rpath(&self, program: &Path) -> Option<String> {
        let (_, log) = self.run(program, &[("LD_DEBUG", "libs".into())])?;
        let end = format!("(RPATH from file {})", program.display());
        log.lines().find_map(|line| {
            let (_, path) = line.split_once("search path=")?;
            Some(path.strip_suffix(&end)?.trim().to_owned())
        })
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        let own = self.variables.iter().find(|(other, _)| *other == name);
        own.map(|(_, value)| value.clone()).or_else(|| env::var_os(name))
    }

    /// The listing, and what the loader logs.
    fn run(&self, object: &Path, more: &[(&str, OsString)]) -> Option<(String, String)> {
        let output = Command::new(itself()?)
            .arg("--list")
            .arg(object)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .envs(more.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .output()
            .ok()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        output.status.success().then(|| (text(&output.stdout), text(&output.stderr)))
    }
}

/// The loader's file: the one that has loaded us.
fn itself() -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let mut files = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    let is = |file: &&Path| {
        file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-"))
    };
    files.find(is).map(Path::to_owned)
}

/// A list of directories or libraries with one more before it.
fn joined(first: &OsStr, rest: Option<OsString>) -> OsString {
    let mut all = first.to_owned();
    if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
        all.push(":");
        all.push(rest);
    }
    all
}

/// The path of a library in a listing.
fn find_in(listing: &str, library: &str) -> Option<PathBuf> {
    listing.lines().find_map(|line| {
        let (name, path) = line.trim().split_once(" => ")?;
        let path = path.split(" (0x").next()?;
        (name == library && path.starts_with('/')).then(|| PathBuf::from(path))
    })
}

#[cfg(test)]
#[path = "loader_tests.rs"]
mod tests;
