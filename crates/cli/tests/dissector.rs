//! Wireshark's dissector (share/emp/emp.lua) shows every field of every test vector, and no mutated frame makes an error of it.

use std::process::{Command, Stdio};

use emp_testing::{Need, skip};

/// Some of the mutants: `make test-dissector` has ten thousand.
const MUTANTS: &str = "300";

#[test]
fn every_vector_is_shown_with_every_field() {
    let mut tshark = Command::new("tshark");
    tshark.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    if !tshark.status().is_ok_and(|status| status.success()) {
        return skip(Need::Tshark, "tshark is not installed (tools/install-deps packages)");
    }
    let check = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/dissector/check.py");
    let output =
        Command::new(check).args(["--mutants", MUTANTS]).output().expect("python3 is there");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("mutated frames, no error"), "{said}");
}
