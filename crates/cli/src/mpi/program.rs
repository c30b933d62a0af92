//! Asking programs that are installed.

use std::path::Path;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_or_is_missing_says_nothing() {
        assert_eq!(output(Path::new("false"), &[]), None);
        assert_eq!(output(Path::new("no-such-program"), &[]), None);
        assert_eq!(output(Path::new("echo"), &["yes"]).as_deref(), Some("yes\n"));
    }
}
