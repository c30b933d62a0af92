//! Nodes as seen from outside, by state files that the test makes.

mod lab_support;

use std::process::Stdio;

use emp_state::place::Readers;
use emp_state::{Identity, Now, Text, Writer};
use lab_support::*;

/// The file of a rank of a job of 256.
fn written(directory: &std::path::Path, rank: i32) -> Writer {
    let name = Text::new(&format!("rank-{rank}"));
    let job = Text::new("77");
    let node = 1 + rank.unsigned_abs() as u64;
    let identity = Identity { node, rank, ranks: 256, name, job, ..Identity::default() };
    let mut writer = Writer::create_in(directory, &identity, Readers::Own).expect("a file");
    writer.publish(&Now { written: 1, ..Now::default() });
    writer
}

/// As many nodes as a large machine runs of one job; a job's ranks stand in order.
#[test]
fn a_job_of_256_ranks_is_listed_in_order() {
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = scratch.path().join("own");
    let writers: Vec<Writer> = (0..256).map(|rank| written(&directory, rank)).collect();
    let text = succeed(emp(&["top", "--once"]).env("EMP_STATE_DIR", &directory));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 257, "{text}");
    for (rank, line) in lines[1..].iter().enumerate() {
        assert!(line.contains(&format!("{rank}/256")) && line.len() <= 100, "{line}");
    }
    let length = |writer: &Writer| std::fs::metadata(writer.path()).expect("it is there").len();
    assert_eq!(writers.iter().map(length).sum::<u64>(), 256 * 16_384);
}

#[test]
fn what_is_no_state_file_is_one_line_and_exit_code_2() {
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = scratch.path().join("own");
    let writer = written(&directory, 3);
    let whole = std::fs::read(writer.path()).expect("it is mine");
    let put = |name: &str, bytes: &[u8]| {
        let path = scratch.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    };
    let mut newer = whole.clone();
    newer[8] = 77;
    for (path, says) in [
        (put("cut", &whole[..3_000]), "is cut"),
        (put("newer", &newer), "version 77"),
        (put("text", b"nothing of the kind"), "is no state file"),
        (scratch.path().join("none"), "can't be read"),
    ] {
        for command in [&["nodes"][..], &["peers"], &["counters"], &["top", "--once"]] {
            let line = mistake(emp(command).arg("--file").arg(&path));
            assert!(line.contains(says), "{line}");
        }
    }
    for arguments in [["why", "nobody"], ["route", "nobody"], ["nodes", "--node=nobody"]] {
        let line = mistake(emp(&arguments).env("EMP_STATE_DIR", &directory));
        assert!(line.contains("nobody"), "{line}");
    }
    mistake(emp(&["top"]).stdin(Stdio::null()).env("EMP_STATE_DIR", &directory));
}
