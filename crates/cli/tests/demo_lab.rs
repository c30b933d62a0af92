//! `emp demo`: in time, with all it promises, and nothing left behind but the report.

mod lab_support;

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use lab_support::*;

/// What the command promises. An unoptimised build has to keep it too.
const LIMIT: Duration = Duration::from_secs(40);

#[test]
fn the_demo_measures_verifies_draws_and_leaves_only_its_report() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let demo = emp(&["demo"])
        .current_dir(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lab = format!("p{}x0", demo.id());
    let output = demo.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(start.elapsed() < LIMIT, "took {:?}", start.elapsed());

    let printed = String::from_utf8(output.stdout).unwrap();
    for text in [
        "link packet: ",
        "link udp: ",
        "EMP takes packet+udp by itself",
        "µs: one way",
        "stream",
        "Gb/s",
        "every byte right",
    ] {
        assert!(printed.contains(text), "{text}: {printed}");
    }
    assert!(printed.lines().all(|line| line.chars().count() <= 100), "{printed}");

    let names = |path: &std::path::Path| -> Vec<String> {
        let entries = std::fs::read_dir(path).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert_eq!(names(directory.path()), ["emp-demo"]);
    assert_eq!(names(&directory.path().join("emp-demo")), ["report.svg"]);
    let svg = std::fs::read_to_string(directory.path().join("emp-demo/report.svg")).unwrap();
    for text in
        ["Signature", "EMP packet+udp", "EMP packet", "EMP udp", "bare packet", "TCP spinning"]
    {
        assert!(svg.contains(text), "{text}");
    }
    assert!(namespaces(&lab).is_empty() && !is_recorded(&lab));
}

#[test]
fn an_interrupted_demo_leaves_nothing() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut command = interruptible(&["demo"]);
    command.current_dir(directory.path()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut demo = command.spawn().unwrap();
    let lab = format!("p{}x0", demo.id());
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("EMP takes ")), "it measures now");
    signal(&demo, "INT");
    assert!(!demo.wait().unwrap().success());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    assert!(namespaces(&lab).is_empty() && !is_recorded(&lab));
}

#[test]
fn a_report_that_cannot_be_written_is_a_mistake_at_once() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("emp-demo"), "").unwrap();
    let line = mistake(emp(&["demo"]).current_dir(directory.path()));
    assert!(line.contains("emp-demo can't be made"), "{line}");
}
