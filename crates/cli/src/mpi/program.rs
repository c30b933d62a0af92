//! Asking programs that are installed, and shared objects what they load.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a program prints; `None` if it cannot be run or fails.
pub fn output(program: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .env("LC_ALL", "C")
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The path of a library that a program or shared object loads, directly or by another.
pub fn loaded(object: &Path, library: &str) -> Option<PathBuf> {
    let listing = output(Path::new("ldd"), &[object.to_str()?])?;
    find_loaded(&listing, library)
}

/// Finds a library in a listing of `ldd`.
fn find_loaded(listing: &str, library: &str) -> Option<PathBuf> {
    listing.lines().find_map(|line| {
        let (name, path) = line.trim().split_once(" => ")?;
        let path = path.split(" (0x").next()?;
        (name == library && path.starts_with('/')).then(|| PathBuf::from(path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_found_in_a_listing() {
        let listing = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibfabric.so.1 => /opt/a b/libfabric.so.1 (0x00007f)\n\
                       \tlibucp.so.0 => not found\n";
        let found = |name| find_loaded(listing, name);
        assert_eq!(found("libfabric.so.1"), Some(PathBuf::from("/opt/a b/libfabric.so.1")));
        assert_eq!(found("libucp.so.0"), None);
        assert_eq!(found("libc.so.6"), None);
    }

    #[test]
    fn a_program_that_fails_or_is_missing_says_nothing() {
        assert_eq!(output(Path::new("false"), &[]), None);
        assert_eq!(output(Path::new("no-such-program"), &[]), None);
        assert_eq!(output(Path::new("echo"), &["yes"]).as_deref(), Some("yes\n"));
    }
}
