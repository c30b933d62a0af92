//! `emp bench overlap` and `emp bench logp`: what they measure and write, how they refuse.

mod lab_support;
mod listener_support;

use lab_support::*;
use listener_support::Listener;
use serde_json::Value;

/// Runs it against a listener on this host with `--json`, and gives the rows it wrote and what it printed.
fn measured(arguments: &[&str]) -> (Vec<Value>, String) {
    let listener = Listener::start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("results.json");
    let mut command = emp(&["bench", arguments[0], listener.address()]);
    command.args(&arguments[1..]).args(["--seconds", "0.004", "--runs", "1", "--json"]).arg(&file);
    let printed = succeed(&mut command);
    assert!(printed.lines().all(|line| line.chars().count() <= 100), "{printed}");
    let written: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert!(written["environment"]["kernel"].is_string());
    assert!(written["command"].as_str().unwrap().starts_with("emp bench "));
    (written["results"].as_array().unwrap().clone(), printed)
}

#[test]
fn overlap_measures_both_boards_and_tcp_with_more_and_more_work() {
    let (rows, printed) = measured(&["overlap", "--shares", "50,20", "--size", "2000"]);
    let seen: Vec<_> = rows
        .iter()
        .map(|row| (row["subject"].as_str().unwrap(), row["board"].as_str().unwrap_or("-")))
        .collect();
    let subjects = [("emp", "inline"), ("emp", "thread"), ("tcp", "-")];
    assert_eq!(seen, [subjects; 3].concat(), "each at 0, 20 and 50 %");
    for row in &rows {
        let number = |key: &str| row[key].as_f64().unwrap();
        assert_eq!((number("size"), number("batch")), (2000.0, 5.0));
        assert!(number("gbps") > 0.0 && number("of_idle") > 0.0, "{row}");
        assert!((0.0..=100.0).contains(&number("user_percent")), "{row}");
        assert!(number("post_send_us") > 0.0 && number("wait_us") > 0.0, "{row}");
    }
    for (number, row) in rows.iter().enumerate() {
        assert_eq!(row["work_us"].as_f64() > Some(0.0), number >= 3, "{row}");
    }
    // Five messages of 2000 bytes a round: throughput and time say the same.
    let round_us = 5.0 * 2000.0 * 8.0 / 1000.0 / rows[3]["gbps"].as_f64().unwrap();
    let share = 100.0 * rows[3]["work_us"].as_f64().unwrap() / round_us;
    let told = rows[3]["user_percent"].as_f64().unwrap();
    assert!((share - told).abs() < 0.5, "{share} {told}");
    for text in ["emp inline", "emp thread", "user code", "post receive", "total"] {
        assert!(printed.contains(text), "{text}: {printed}");
    }
}

#[test]
fn logp_gives_five_parameters_that_add_up() {
    let (rows, printed) = measured(&["logp", "--sizes", "8,64"]);
    let seen: Vec<_> = rows
        .iter()
        .map(|row| (row["subject"].as_str().unwrap(), row["size"].as_u64().unwrap()))
        .collect();
    assert_eq!(seen, [("emp", 8), ("tcp", 8), ("emp", 64), ("tcp", 64)]);
    for row in &rows {
        let us = |key: &str| row[format!("{key}_us")].as_f64().unwrap();
        for key in ["half_round_trip", "send_overhead", "gap"] {
            assert!(us(key) > 0.0, "{key}: {row}");
        }
        let sum = us("latency") + us("send_overhead") + us("receive_overhead");
        assert!((sum - us("half_round_trip")).abs() < 1e-6, "{row}");
    }
    assert!(printed.contains("RTT/2") && printed.contains("o_r"), "{printed}");
}

#[test]
fn mistakes_are_one_line_and_exit_code_2() {
    for (arguments, says) in [
        (vec!["overlap", "127.0.0.1", "--boards", "surf"], "there is no board surf"),
        (vec!["overlap", "127.0.0.1", "--shares", "100"], "a share of 100 %"),
        (vec!["overlap", "127.0.0.1", "--batch", "0"], "a batch of 0"),
        (vec!["overlap", "127.0.0.1", "--size", "1,2"], "is not one size"),
        (vec!["overlap", "127.0.0.1", "--size", "1G"], "a batch of more than 256M"),
        (vec!["logp", "127.0.0.1", "--sizes", "1M"], "too long for LogP"),
        (vec!["logp", "127.0.0.1", "--runs", "0"], "0 runs"),
    ] {
        let line = mistake(emp(&["bench"]).args(&arguments));
        assert!(line.contains(says), "{arguments:?}: {line}");
    }
}
