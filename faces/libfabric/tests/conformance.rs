//! The provider held to libfabric's manual pages by a C program (`tests/libfabric`), on the libfabric of this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use emp_testing::{Need, skip};

/// The provider that was built with this test.
fn provider() -> PathBuf {
    let here = std::env::current_exe().expect("this program has a path");
    let beside = here.parent().expect("in a directory").join("libemp_fi.so");
    assert!(beside.exists(), "{} was not built", beside.display());
    beside
}

/// True if C programs for libfabric can be built here.
fn can_build() -> bool {
    let probe = Command::new("cc")
        .args(["-E", "-include", "rdma/fabric.h", "-x", "c", "/dev/null"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    probe.is_ok_and(|status| status.success())
}

#[test]
fn the_manual_pages_are_kept() {
    run("auto", &[], " 0 failed");
}

#[test]
fn they_are_kept_in_shared_memory() {
    run("shm", &[], " 0 failed");
}

#[test]
fn programs_beyond_mpi_are_accepted() {
    run("auto", &["--middleware"], "7 programs, 0 failed");
}

#[test]
fn they_are_accepted_in_shared_memory() {
    run("shm", &["--middleware"], "7 programs, 0 failed");
}

/// Runs one of the C programs over this link, and looks for `wanted` in what it says at its end.
fn run(link: &str, options: &[&str], wanted: &str) {
    if !can_build() {
        let why = "no C compiler or no libfabric headers here (tools/install-deps installs both)";
        return skip(Need::Mpi, why);
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("conformance-{link}{}", options.concat()));
    std::fs::create_dir_all(&directory).expect("a directory for the test");
    std::fs::copy(provider(), directory.join("libemp-fi.so")).expect("the provider copied");
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/libfabric/run");
    // Where ranks of one machine meet: nobody else's greetings shall wake those that this program wants asleep.
    let place = std::env::temp_dir().join(format!(
        "emp-fi-{link}{}-{}",
        options.concat(),
        std::process::id()
    ));
    std::fs::create_dir_all(&place).expect("a place to meet");
    let mut program = Command::new(run);
    program.args(options).arg(&directory).env("FI_EMP_LINK", link).env("XDG_RUNTIME_DIR", &place);
    let program = program.output();
    let _ = std::fs::remove_dir_all(&place);
    let output = program.expect("the program was started");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("{text}{errors}");
    assert!(output.status.success(), "the program failed: {}", output.status);
    assert!(text.contains(wanted), "the program did not get to its end");
}
