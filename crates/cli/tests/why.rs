//! Nodes as seen from outside, by state files that the test makes.

mod lab_support;

use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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
        for command in [&["nodes"][..], &["peers", "--once"], &["counters"], &["top", "--once"]] {
            let line = mistake(emp(command).arg("--file").arg(&path));
            assert!(line.contains(says), "{line}");
        }
    }
    for arguments in [
        ["why", "nobody", "--once"],
        ["route", "nobody", "--json"],
        ["nodes", "--once", "--node=nobody"],
    ] {
        let line = mistake(emp(&arguments).env("EMP_STATE_DIR", &directory));
        assert!(line.contains("nobody"), "{line}");
    }
    mistake(emp(&["top"]).stdin(Stdio::null()).env("EMP_STATE_DIR", &directory));
}

/// A rank is meant by its number where its file is here; of several jobs, that of the node's own.
#[test]
fn a_peer_is_named_by_its_rank() {
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = scratch.path().join("own");
    let mut writers = [written(&directory, 0), written(&directory, 3)];
    let peer = emp_state::Peer { node: 4, heard: 1, state: 2, ..emp_state::Peer::default() };
    writers[0].peer(0, Some(&peer));
    let why = |peer: &str| {
        let mut command = emp(&["why", peer]);
        command.env("EMP_STATE_DIR", &directory);
        command
    };
    let text = succeed(&mut why("rank 3"));
    assert!(text.starts_with("rank-0 waits for nothing of 0000000000000004"), "{text}");
    assert!(mistake(&mut why("rank 0")).contains("rank 0"), "nobody has it for a peer");
    let other = Identity { node: 4, rank: 5, job: Text::new("78"), ..Identity::default() };
    let _of_another_job = Writer::create_in(&directory, &other, Readers::Own).expect("a file");
    mistake(&mut why("rank 5"));
}

/// Who was stopped within a write is shown all the same, and it is said.
#[test]
fn a_file_that_was_being_written_is_shown_and_told_of() {
    let scratch = tempfile::tempdir().expect("a directory");
    let writer = written(&scratch.path().join("own"), 3);
    let file = std::fs::OpenOptions::new().write(true).open(writer.path()).expect("it is mine");
    // An odd sequence number before what changes.
    file.write_all_at(&7u64.to_le_bytes(), 1_024).expect("written");
    let output = emp(&["nodes", "--file"]).arg(writer.path()).output().expect("emp runs");
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("rank-3"));
    let said = stderr(&output);
    assert!(said.contains("was being written when its process stopped"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// Many that were stopped within a write are waited for together: each alone is given 20 ms.
#[test]
fn files_that_are_being_written_are_waited_for_together() {
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = scratch.path().join("own");
    let writers: Vec<Writer> = (0..256).map(|rank| written(&directory, rank)).collect();
    for writer in &writers {
        let file = std::fs::OpenOptions::new().write(true).open(writer.path());
        file.expect("it is mine").write_all_at(&7u64.to_le_bytes(), 1_024).expect("written");
    }
    let begin = Instant::now();
    let output = emp(&["nodes"]).env("EMP_STATE_DIR", &directory).output().expect("emp runs");
    let took = begin.elapsed();
    assert_eq!(stderr(&output).lines().count(), 256);
    assert!(took < Duration::from_millis(256 * 20) / 2, "{took:?}");
}

/// One of another user: put into this one's directory it is refused, in that user's own it can't be read; neither is among this user's nodes.
#[test]
fn a_file_of_another_user_is_one_line_and_exit_code_2() {
    if !is_root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = scratch.path().join("own");
    let (mine, foreign) = (written(&directory, 1), written(&directory, 2));
    std::os::unix::fs::chown(foreign.path(), Some(65_534), Some(65_534)).expect("root may");
    let line = mistake(emp(&["nodes", "--file"]).arg(foreign.path()));
    assert!(line.contains("belongs to another user than its directory"), "{line}");
    let all = emp(&["nodes"]).env("EMP_STATE_DIR", &directory).output().expect("emp runs");
    let text = String::from_utf8_lossy(&all.stdout).into_owned();
    assert!(all.status.success() && text.contains("rank-1") && !text.contains("rank-2"), "{text}");
    assert_eq!(stderr(&all).lines().count(), 1, "{}", stderr(&all));

    // As somebody who may look into the directory and not into the file.
    let open = |path: &std::path::Path| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, mode).expect("ours");
    };
    [scratch.path(), &directory].into_iter().for_each(open);
    let program = scratch.path().join("emp");
    std::fs::copy(env!("CARGO_BIN_EXE_emp"), &program).expect("copied");
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
    let line = mistake(nobody.args(["nodes", "--file"]).arg(mine.path()));
    assert!(line.contains("can't be read: Permission denied"), "{line}");
}
