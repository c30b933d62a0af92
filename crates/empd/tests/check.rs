//! `empd --check`: what it refuses is what a service would refuse, in one line, and it changes nothing.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What it says of a configuration that listens at a place.
fn check(place: &Path, lines: &str, stdout: Stdio) -> Output {
    let file = place.join("empd.toml");
    fs::write(&file, lines).expect("it is written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_empd"));
    command.arg("--check").arg("--config").arg(file).stdout(stdout);
    command.output().expect("it is built")
}

#[test]
fn what_a_service_would_refuse_is_refused() {
    let place = tempfile::tempdir().expect("a directory");
    let shown = place.path().display();
    let long = "x".repeat(200);
    for (lines, said) in [
        ("user = 'no-such-user'".to_owned(), "user: there is no user `no-such-user`"),
        ("interfaces = ['none0']".to_owned(), "interfaces: there is no interface none0"),
        ("socket = ''".to_owned(), "socket: \"\" is no path"),
        (format!("socket = '/{long}'"), "bytes at most"),
        (format!("socket = '{shown}'"), "is no socket"),
        (format!("socket = '{shown}/a/b/socket'"), "its directory"),
        ("[limits]\ndrain_seconds = 9223372036854775807".to_owned(), "too long"),
    ] {
        let output = check(place.path(), &lines, Stdio::piped());
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{lines}: {line}");
        assert!(line.contains(said) && line.lines().count() == 1, "{lines}: {line}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn what_is_sound_is_said_and_not_made() {
    let place = tempfile::tempdir().expect("a directory");
    let socket = place.path().join("made/socket");
    let lines = format!("socket = '{}'", socket.display());
    let output = check(place.path(), &lines, Stdio::piped());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("listens at "), "{output:?}");
    assert!(!place.path().join("made").exists());
    let full = File::options().write(true).open("/dev/full").expect("every Linux has it");
    let output = check(place.path(), &lines, full.into());
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(line.starts_with("empd: writing to standard output: ") && line.lines().count() == 1);
}
