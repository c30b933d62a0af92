//! `emp bench share`: senders behind one port of a switch, in a lab that it makes and removes.

mod lab_support;

use std::process::Stdio;

use lab_support::*;
use serde_json::Value;

#[test]
fn a_port_is_shared_by_emp_and_by_tcp_under_either_congestion_control() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (json, svg) = (directory.path().join("share.json"), directory.path().join("share.svg"));
    let shape =
        ["--senders", "2", "--port-rate", "200mbit", "--port-queue", "64K", "--sizes", "32K"];
    let mut command = emp(&["bench", "share", "--lab", "--seconds", "1", "--wait", "sleep"]);
    let printed = succeed(command.args(shape).arg("--json").arg(&json).arg("--svg").arg(&svg));
    assert!(printed.lines().all(|line| line.chars().count() <= 100), "{printed}");
    let written: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let results = written["results"].as_array().unwrap();
    let subjects: Vec<_> = results.iter().map(|row| row["subject"].as_str().unwrap()).collect();
    assert_eq!(subjects, ["emp", "tcp-cubic", "tcp-bbr"]);
    for row in results {
        let figure = |name: &str| row[name].as_f64().unwrap();
        assert_eq!((row["size"].as_u64(), row["senders"].as_u64()), (Some(32 << 10), Some(2)));
        assert_eq!(figure("port_gbps"), 0.2);
        // The port is what limits them: no subject passes beside it, and none stands still.
        assert!((0.01..=0.205).contains(&figure("goodput_gbps")), "{row}");
        assert!((0.5..=1.0).contains(&figure("jain")), "{row}");
        assert!((0.0..0.9).contains(&figure("dropped_share")), "{row}");
        assert!(figure("small_p99_us") > 1.0, "{row}");
        assert!(printed.contains(row["subject"].as_str().unwrap()), "{printed}");
    }
    // 64 KB of queue are 2.6 ms: TCP's senders fill it and lose some.
    assert!(results[1..].iter().any(|row| row["dropped_share"].as_f64().unwrap() > 0.0));
    let picture = std::fs::read_to_string(svg).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("tcp-cubic"));
}

#[test]
fn emp_and_tcp_share_a_port() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("share.json");
    let shape = ["--senders", "2", "--port-rate", "200mbit", "--sizes", "32K"];
    let mut command = emp(&["bench", "share", "--lab", "--seconds", "3", "--wait", "sleep"]);
    command.args(shape).args(["--subjects", "emp+cubic"]);
    let printed = succeed(command.arg("--json").arg(&json));
    let written: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let row = &written["results"][0];
    // Both send, whatever part either gets: that is a figure to look at, not this test's.
    let part = row["emp_part"].as_f64().unwrap();
    assert!(part > 0.0 && part < 1.0, "{row}");
    assert!((0.01..=0.205).contains(&row["goodput_gbps"].as_f64().unwrap()), "{row}");
    assert!(printed.contains("every other TCP's: EMP has"), "{printed}");
}

#[test]
fn an_interrupt_leaves_no_lab_and_no_process() {
    if !is_root() {
        return;
    }
    let mut command =
        interruptible(&["bench", "share", "--lab", "--senders", "3", "--seconds", "60"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let lab = format!("p{}x0", child.id());
    let hosts = format!("/run/emp/lab-{lab}.json");
    wait_until("the lab is made", || std::path::Path::new(&hosts).exists());
    // The receiver, three senders and the ping-pong run.
    let workers = || {
        let of_child = |pid: &u32| lab_support::parent_of(*pid) == Some(child.id());
        lab_support::pids().filter(of_child).count()
    };
    wait_until("its processes run", || workers() >= 5);
    let pids: Vec<u32> = lab_support::pids()
        .filter(|pid| lab_support::parent_of(*pid) == Some(child.id()))
        .collect();
    signal(&child, "INT");
    let mut child = child;
    assert!(!child.wait().unwrap().success());
    wait_until("the lab is gone", || namespaces(&lab).is_empty() && !is_recorded(&lab));
    wait_until("so are its processes", || {
        !pids.iter().any(|pid| {
            std::fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains("share-worker"))
        })
    });
}

#[test]
fn mistakes_are_one_line_and_exit_code_2() {
    for (arguments, says) in [
        (vec![], "in a lab only"),
        (
            vec!["--lab", "--senders", "1,2", "--subjects", "emp+cubic"],
            "needs a sender of each kind",
        ),
        (vec!["--lab", "--senders", "0"], "0 senders are not possible"),
        (vec!["--lab", "--senders", "2,99"], "99 senders are not possible"),
        (vec!["--lab", "--senders", "many"], "invalid value 'many'"),
        (vec!["--lab", "--port-rate", "fast"], "`fast` is not a rate"),
        (vec!["--lab", "--port-rate", "-1mbit"], "a port rate of -1mbit"),
        (vec!["--lab", "--port-queue", "lots"], "`lots` is not a size of a queue"),
        (vec!["--lab", "--sizes", "lots"], "`lots` is not a size"),
        (vec!["--lab", "--subjects", "pigeon"], "pigeon"),
        (vec!["--lab", "--wait", "spin"], "spin is no way to wait here"),
        (vec!["--lab", "--link", "shm"], "shared memory passes no switch"),
        (vec!["--lab", "--seconds", "-1"], "-1 seconds are not possible"),
        (vec!["--lab", "--mtu", "1"], "an MTU of 1 is not possible"),
        (vec!["--lab", "--json", "/dev/null/results"], "/dev/null/results can't be "),
        (vec!["--lab", "--svg", "/dev/null/results"], "/dev/null/results can't be "),
    ] {
        let line = mistake(emp(&["bench", "share"]).args(&arguments));
        assert!(line.contains(says), "{arguments:?}: {line}");
    }
}
