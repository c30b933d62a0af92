//! Where EMP's own provider, the shared object that libfabric loads, is.

use std::env;
use std::path::{Path, PathBuf};

use crate::error::user_error;

/// The name it is installed under.
pub const FILE: &str = "libemp-fi.so";

/// The name it is built under, which libfabric takes too: it looks at the end of a name only.
const BUILT: &str = "libemp_fi.so";

/// From the directory of programs to those of libraries: `make install` fills the first, Debian's packages the second.
pub const LIBRARIES: [&str; 2] = [
    "../lib",
    if cfg!(target_arch = "x86_64") {
        "../lib/x86_64-linux-gnu"
    } else {
        "../lib/aarch64-linux-gnu"
    },
];

/// The directory to name in FI_PROVIDER_PATH: one that the user names there already, else where this program was
/// installed or built.
pub fn directory() -> anyhow::Result<PathBuf> {
    let named = env::var("FI_PROVIDER_PATH").unwrap_or_default();
    search(&named)
}

fn search(named: &str) -> anyhow::Result<PathBuf> {
    let program = env::current_exe().ok();
    let mut all = candidates(named, program.as_deref()).into_iter();
    let found = all.find(|directory| holds_provider(directory));
    found.and_then(|directory| directory.canonicalize().ok()).ok_or_else(|| {
        user_error(format!(
            "{FILE} is not beside this program; `make install` puts it there, or name its directory in \
             FI_PROVIDER_PATH"
        ))
    })
}

/// The file that belongs to this program, whatever the user names.
pub fn own_file() -> anyhow::Result<PathBuf> {
    file_in(&search("")?)
}

/// The file in the directory to name in FI_PROVIDER_PATH.
pub fn file() -> anyhow::Result<PathBuf> {
    file_in(&directory()?)
}

fn file_in(directory: &Path) -> anyhow::Result<PathBuf> {
    let files = [FILE, BUILT].map(|name| directory.join(name));
    files
        .into_iter()
        .find(|file| file.is_file())
        .ok_or_else(|| user_error("the provider has just gone"))
}

/// Whether EMP's provider is in a directory.
pub fn holds_provider(directory: &Path) -> bool {
    [FILE, BUILT].iter().any(|name| directory.join(name).is_file())
}

fn candidates(named: &str, program: Option<&Path>) -> Vec<PathBuf> {
    // `@` before the list means an order of preference, `+` before an entry a file.
    let named = named.trim_start_matches('@').split(':').filter(|entry| !entry.is_empty());
    let mut all: Vec<PathBuf> = named
        .filter_map(|entry| match entry.strip_prefix('+') {
            Some(file) => Path::new(file).parent().map(Path::to_owned),
            None => Some(PathBuf::from(entry)),
        })
        .collect();
    if let Some(directory) = program.and_then(Path::parent) {
        all.extend(LIBRARIES.map(|place| directory.join(place).join("libfabric")));
        all.push(directory.to_owned());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_own_directory_comes_before_ours() {
        let found = candidates("@/a:+/b/libemp-fi.so::/c", Some(Path::new("/usr/bin/emp")));
        let multiarch = format!("/usr/bin/{}/libfabric", LIBRARIES[1]);
        let wanted = ["/a", "/b", "/c", "/usr/bin/../lib/libfabric", &multiarch, "/usr/bin"];
        assert_eq!(found, wanted.map(PathBuf::from));
    }

    #[test]
    fn a_directory_counts_if_the_file_is_there() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!holds_provider(dir.path()));
        std::fs::write(dir.path().join(FILE), "").unwrap();
        assert!(holds_provider(dir.path()));
    }
}
