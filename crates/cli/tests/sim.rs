//! `emp sim`: seeds in, a summary or replayable lines out.

mod lab_support;

use lab_support::*;
use serde_json::Value;

#[test]
fn seeds_are_summed_up_and_each_failure_replays() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sim.json");
    let output =
        emp(&["sim", "--seeds", "0..24", "--small", "--json"]).arg(&file).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let (lines, summary) = printed.trim_end().rsplit_once('\n').unwrap_or(("", printed.trim_end()));
    let written: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let failures: Vec<_> =
        written["failures"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert_eq!(written["seeds"], 24);
    assert!(summary.starts_with(&format!("24 seeds, {} failures", failures.len())), "{summary}");
    assert_eq!(lines.lines().collect::<Vec<_>>(), failures);
    assert_eq!(output.status.code(), Some(i32::from(!failures.is_empty())));
    for line in failures {
        let (_, replay) = line.rsplit_once("replay: emp ").unwrap();
        let again = run(&replay.split(' ').collect::<Vec<_>>());
        assert_eq!(again.status.code(), Some(1));
        assert_eq!(stderr(&again).trim_end(), format!("emp: {line}"));
    }
}

#[test]
fn one_seed_is_the_same_every_time_and_can_be_traced() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("frames.txt");
    let seed = ["sim", "--seed", "7", "--small", "--calm"];
    let first = emp(&seed).arg("--trace").arg(&file).output().unwrap();
    assert!(std::fs::read_to_string(file).unwrap().lines().count() > 10);
    let again = run(&seed);
    assert_eq!(
        (first.status, first.stdout, first.stderr),
        (again.status, again.stdout, again.stderr)
    );
}

/// Worlds with relays are others than those without, and replay as they do.
#[test]
fn seeds_of_relays_run() {
    let output = run(&["sim", "--relays", "--small", "--seeds", "0..8"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && printed.starts_with("8 seeds, 0 failures"), "{printed}");
    let [plain, relayed] =
        [&["sim", "--seed", "7", "--small"][..], &["sim", "--seed", "7", "--small", "--relays"]]
            .map(|words| run(words).stdout);
    assert_ne!(plain, relayed);
}

#[test]
fn mistakes_are_one_line_and_exit_code_2() {
    for (arguments, says) in
        [(["--seeds", "many"], "`many` is not a range"), (["--seeds", "9..3"], "no seeds from 9")]
    {
        let line = mistake(emp(&["sim"]).args(arguments));
        assert!(line.contains(says), "{line}");
    }
    let line = mistake(&mut emp(&["sim", "--discover", "10", "--relays"]));
    assert!(line.contains("--relays"), "{line}");
    let line = mistake(&mut emp(&["sim", "--seed", "1", "--profile", "fast"]));
    assert!(line.contains("there is no profile fast"), "{line}");
}

#[test]
fn a_seed_can_be_written_as_qlog() {
    // What a seed's network is like may change with the simulator: some of these lose frames.
    let lost: usize = [2, 3, 6, 8].into_iter().map(frames_lost_in_qlog).sum();
    assert!(lost > 0, "networks that lose frames");
}

/// Writes a seed's run as qlog, and looks whether that has the frames which the other record has.
fn frames_lost_in_qlog(seed: u32) -> usize {
    let directory = tempfile::tempdir().unwrap();
    let (file, text) = (directory.path().join("run.sqlog"), directory.path().join("run.txt"));
    for (option, path) in [("--qlog", &file), ("--trace", &text)] {
        let seed = seed.to_string();
        emp(&["sim", "--seed", &seed, "--small", option]).arg(path).output().unwrap();
    }
    let written = std::fs::read_to_string(file).unwrap();
    let records = written.split('\u{1E}').skip(1);
    let mut records =
        records.map(|record| serde_json::from_str::<Value>(record).expect("each record is JSON"));
    let head = records.next().unwrap();
    assert_eq!(head["file_schema"], "urn:ietf:params:qlog:file:sequential");
    let (mut sent, mut lost) = (0, 0);
    for event in records {
        match event["name"].as_str().unwrap() {
            "emp:frame_sent" => sent += 1,
            "emp:frame_lost" => {
                lost += 1;
                assert!(event["data"]["trigger"].is_string(), "{event}");
            }
            other => panic!("{other}"),
        }
    }
    let lines = std::fs::read_to_string(text).unwrap();
    assert_eq!(sent, lines.lines().filter(|line| line.contains(" µs  ")).count());
    lost
}
