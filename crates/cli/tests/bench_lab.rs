//! `emp bench` between two hosts of a lab: what it measures, what it writes, how it refuses.

mod lab_support;

use std::net::TcpListener;

use lab_support::*;
use serde_json::Value;

/// Options that keep a measurement short; its figures do not matter here.
const SHORT: [&str; 6] = ["--seconds", "0.03", "--runs", "3", "--sizes", "32,4K"];

/// Runs it in a lab of its own with `--json`, and gives what it wrote and printed.
fn measured(arguments: &[&str]) -> (Value, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("results.json");
    let mut command = emp(&["bench"]);
    let printed = succeed(command.args(arguments).args(["--lab", "--json"]).arg(&file));
    (serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap(), printed)
}

#[test]
fn a_ping_pong_is_measured_against_the_bare_link_and_tcp() {
    if !is_root() {
        return;
    }
    for link in ["packet", "udp", "shm", "xdp"] {
        let vs = ["pingpong", "--link", link, "--vs", "raw,tcp,tcp-block"];
        let (written, printed) = measured(&[&vs[..], &SHORT[..]].concat());
        let environment = &written["environment"];
        assert_eq!(environment["mtu"], 1500);
        assert_eq!(environment["lab"], true);
        assert!(written["command"].as_str().unwrap().starts_with("emp bench pingpong --link"));
        let results = written["results"].as_array().unwrap();
        let seen: Vec<_> = results
            .iter()
            .map(|row| (row["size"].as_u64().unwrap(), row["subject"].as_str().unwrap()))
            .collect();
        let subjects = ["emp", "raw", "tcp", "tcp-block"];
        let wanted: Vec<_> =
            [32, 4096].iter().flat_map(|size| subjects.map(|subject| (*size, subject))).collect();
        assert_eq!(seen, wanted);
        for row in results {
            assert_eq!(row["pattern"], "pingpong");
            assert_eq!(row["samples"], 3);
            assert!(row["one_way_us"].as_f64().unwrap() > 0.0 && row["gbps"].is_f64());
            assert!(row["mean_us"].as_f64().unwrap() > 0.0, "{row}");
            let tcp = row["subject"].as_str().unwrap().starts_with("tcp");
            assert_eq!(row["link"], if tcp { Value::Null } else { Value::from(link) });
            // One row a size for each kind of TCP, of the congestion control that was the faster one.
            let steered = row["congestion"].as_str().unwrap_or_default();
            assert_eq!(matches!(steered, "cubic" | "bbr"), tcp, "{row}");
            assert!(tcp || row["congestion"].is_null(), "{row}");
        }
        assert!(printed.lines().all(|line| line.chars().count() <= 100), "{printed}");
        assert!(printed.contains("tcp cubic") || printed.contains("tcp bbr"), "{printed}");
        assert!(
            printed.contains("to raw") && printed.contains("mean µs") && printed.contains("4K"),
            "{printed}"
        );
    }
}

#[test]
fn a_ping_pong_through_libfabric_is_measured_beside_the_host_api() {
    let directory = provider_directory();
    if !is_root() {
        return;
    }
    if !directory.join("libemp_fi.so").exists() {
        return skip(Need::Mpi, "there is no provider (cargo test --workspace builds it)");
    }
    for (link, told) in [("auto", None), ("udp", Some("udp"))] {
        let mut command = emp(&["bench", "pingpong", "--lab", "--link", link, "--vs", "libfabric"]);
        command.args(SHORT).env("FI_PROVIDER_PATH", &directory);
        command.envs(told.map(|told| ("FI_EMP_LINK", told)));
        let printed = succeed(&mut command);
        let rows = |subject: &str| {
            printed.lines().filter(|line| line.split_whitespace().nth(1) == Some(subject)).count()
        };
        assert_eq!((rows("emp"), rows("libfabric")), (2, 2), "{printed}");
    }
    // Two links would be compared.
    let mut command = emp(&["bench", "pingpong", "--lab", "--link", "udp", "--vs", "libfabric"]);
    let output = command.args(SHORT).env("FI_PROVIDER_PATH", &directory).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("set FI_EMP_LINK=udp"), "{}", stderr(&output));
}

#[test]
fn bars_are_measured_and_judged_one_by_one() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bars.json");
    let mut command = emp(&["bench", "bars", "--lab", "--seconds", "0.03", "--runs", "3"]);
    command.env("FI_PROVIDER_PATH", provider_directory()).arg("--json").arg(&file);
    let output = command.output().unwrap();
    // Whether so short a run reaches the bars says nothing; it ends with 1 if one of them was missed.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.lines().all(|line| line.chars().count() <= 100), "{printed}");
    let written: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let bars = written["bars"].as_array().unwrap();
    for text in
        ["packet", "xdp", "udp", "shm", "to TCP", "messages/s", "stream", "mean", "less host"]
    {
        let named = |bar: &&Value| bar["name"].as_str().unwrap().contains(text);
        let bars: Vec<_> = bars.iter().filter(named).collect();
        assert!(!bars.is_empty(), "{text}");
        // The provider is there when the whole workspace is tested.
        let optional = text == "less host";
        assert!(optional || bars.iter().all(|bar| bar["value"].is_f64()), "{text}: {bars:?}");
    }
    // Beside the spinning figures one of the usual way of waiting, which has no limit.
    let adaptive =
        bars.iter().find(|bar| bar["name"].as_str().unwrap().contains("adaptive")).unwrap();
    assert!(adaptive["value"].is_f64() && adaptive["pass"].is_null(), "{adaptive}");
    let missed = bars.iter().filter(|bar| bar["pass"] == false).count();
    assert_eq!(output.status.code(), Some(i32::from(missed > 0)));
}

#[test]
fn a_ping_pong_is_measured_beside_nodes_that_do_nothing() {
    if !is_root() {
        return;
    }
    let idle = ["pingpong", "--link", "packet", "--vs", "tcp", "--idle-nodes", "5"];
    let (written, _) = measured(&[&idle[..], &SHORT[..]].concat());
    let results = written["results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    assert!(results.iter().all(|row| row["one_way_us"].as_f64().unwrap() > 0.0), "{written}");
    assert!(written["command"].as_str().unwrap().contains("--idle-nodes 5"));
    let many = mistake(&mut emp(&["bench", "pingpong", "--lab", "--idle-nodes", "501"]));
    assert!(many.contains("501 idle nodes are too many"), "{many}");
}

#[test]
fn the_other_patterns_give_throughput() {
    if !is_root() {
        return;
    }
    for pattern in ["stream", "bidir", "rate"] {
        let (written, _) = measured(&[&[pattern, "--vs", "raw,tcp"][..], &SHORT[..]].concat());
        let results = written["results"].as_array().unwrap();
        assert_eq!(results.len(), 6);
        for row in results {
            assert!(row["gbps"].as_f64().unwrap() > 0.0, "{row}");
            assert!(row["messages_per_s"].as_f64().unwrap() > 0.0, "{row}");
            assert!(row["one_way_us"].is_null(), "{row}");
        }
    }
}

#[test]
fn tcp_does_not_pass_through_our_xdp_program() {
    if !is_root() {
        return;
    }
    let lab = unique('x');
    let _cleanup = Cleanup(&lab);
    succeed(&mut emp(&["lab", "up", "--name", &lab]));
    let inside =
        |host: &'static str| ["lab", "exec", "--name", &lab, host, env!("CARGO_BIN_EXE_emp")];
    let mut listener = emp(&inside("emp-b"));
    listener.args(["bench", "listen", "--quiet"]).stdout(std::process::Stdio::piped());
    let mut listener = listener.spawn().unwrap();
    let mut greeting = String::new();
    let output = listener.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut greeting).unwrap();
    // One cable, and EMP's program on it: there is no other way for TCP, and that is said in a line.
    let mut client = emp(&inside("emp-a"));
    client.args(["bench", "pingpong", "10.77.0.2", "--link", "xdp", "--vs", "tcp"]).args(SHORT);
    let line = mistake(&mut client);
    assert!(
        line.contains("must not pass through it") && line.contains("--spare-interface"),
        "{line}"
    );
    listener.kill().unwrap();
    listener.wait().unwrap();
}

#[test]
fn one_sided_operations_are_measured_against_asking_over_tcp() {
    if !is_root() {
        return;
    }
    for pattern in ["put", "get", "atomic"] {
        let short = ["--seconds", "0.03", "--runs", "3", "--sizes", "8,512", "--vs", "tcp"];
        let (written, _) = measured(&[&[pattern][..], &short].concat());
        let results = written["results"].as_array().unwrap();
        assert_eq!(results.len(), 4);
        for row in results {
            assert_eq!(row["pattern"], pattern);
            assert!(row["one_way_us"].as_f64().unwrap() > 0.0, "{row}");
        }
        let (written, _) = measured(&[&[pattern, "--window", "8"][..], &short].concat());
        for row in written["results"].as_array().unwrap() {
            assert!(row["messages_per_s"].as_f64().unwrap() > 0.0, "{row}");
            assert!(row["one_way_us"].is_null(), "{row}");
        }
    }
}

#[test]
fn every_byte_is_right_at_one_percent_loss() {
    if !is_root() {
        return;
    }
    for link in ["packet", "udp"] {
        let lossy = ["verify", "--seconds", "1", "--loss", "0.01", "--link", link];
        let (written, printed) = measured(&lossy);
        assert!(printed.contains("every byte right"), "{printed}");
        assert!(!printed.contains("lost on purpose 0\n"), "{printed}");
        let row = &written["results"][0];
        assert_eq!((row["pattern"].as_str(), row["link"].as_str()), (Some("verify"), Some(link)));
        assert!(row["size"].is_null() && row["messages_per_s"].as_f64().unwrap() > 1.0);
    }
}

#[test]
fn every_byte_is_right_when_everything_goes_wrong() {
    if !is_root() {
        return;
    }
    let faults = "drop:1%,duplicate:1%,reorder:2%@4,corrupt:0.5%,truncate:0.5%,delay:1%@50us..1ms";
    let (_, printed) = measured(&["verify", "--seconds", "1", "--faults", faults, "--mtu", "9000"]);
    assert!(printed.contains("every byte right"), "{printed}");
}

#[test]
fn nothing_of_a_lab_is_left() {
    if !is_root() {
        return;
    }
    let mut command = emp(&["bench", "pingpong", "--lab"]);
    let output = command.args(SHORT).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let name = format!("p{}x0", output.id());
    assert!(output.wait_with_output().unwrap().status.success());
    assert!(namespaces(&name).is_empty() && !is_recorded(&name));
}

#[test]
fn mistakes_are_one_line_and_exit_code_2() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for (arguments, says) in [
        (vec!["pingpong", "127.0.0.1", "--sizes", "lots"], "`lots` is not a size"),
        (vec!["pingpong", "127.0.0.1", "--vs", "pigeon"], "not `pigeon`"),
        (vec!["stream", "127.0.0.1", "--vs", "libfabric"], "by pingpong only"),
        (vec!["stream", "127.0.0.1", "--seconds", "0"], "0 seconds"),
        (
            vec!["stream", "127.0.0.1", "--seconds", "-1"],
            "-1 seconds are not possible; choose more",
        ),
        (vec!["verify", "127.0.0.1", "--seconds", "-0.5"], "-0.5 seconds are not possible"),
        (vec!["bars", "127.0.0.1", "--seconds", "-1"], "-1 seconds are not possible"),
        (vec!["stream", "127.0.0.1", "--loss", "-1"], "a loss of -1 is not possible; choose 0 to"),
        (vec!["stream", "127.0.0.1", "--runs", "-1"], "invalid value '-1' for '--runs <RUNS>'"),
        (vec!["mpi", "--seconds", "-1"], "-1 seconds are not possible"),
        (vec!["overlap", "127.0.0.1", "--shares", "-1"], "a share of -1 % is not possible"),
        (vec!["stream", "127.0.0.1", "--profile", "x"], "there is no profile x"),
        (
            vec!["stream", "127.0.0.1", "--integrity", "none"],
            "there is no integrity none; there are carrier, end-to-end",
        ),
        (vec!["verify", "127.0.0.1", "--size-max", "1,2"], "is not one size"),
        (vec!["rate", &free], "emp bench listen"),
        (vec!["rate", "no.such.host.invalid"], "no host is known"),
        (vec!["bars", "127.0.0.1", "--only", "xyz"], "no bar's name holds `xyz`"),
        (vec!["listen", "--bind", "192.0.2.1"], "can't listen"),
        (vec!["listen", "--interface", "nosuch0"], "there is no interface nosuch0"),
        (vec!["listen", "--spare-interface", "nosuch0"], "there is no interface nosuch0"),
    ] {
        let line = mistake(emp(&["bench"]).args(&arguments));
        assert!(line.contains(says) && !line.contains("-- -"), "{arguments:?}: {line}");
    }
}

#[test]
fn files_that_cannot_be_written_are_found_before_anything_is_measured() {
    // Nobody listens there: what is said first is what was looked at first.
    let nobody = "127.0.0.1:1";
    for (arguments, option) in [
        (vec!["bench", "pingpong", nobody], "--json"),
        (vec!["bench", "pingpong", nobody], "--svg"),
        (vec!["bench", "verify", nobody], "--json"),
        (vec!["bench", "bars", nobody], "--json"),
        (vec!["bench", "netpipe", nobody], "--json"),
        (vec!["bench", "netpipe", nobody], "--html"),
        (vec!["bench", "netpipe", nobody], "--np-out"),
        (vec!["bench", "overlap", nobody], "--json"),
        (vec!["bench", "logp", nobody], "--json"),
        (vec!["bench", "mpi"], "--json"),
        (vec!["bench", "mpi"], "--svg"),
        (vec!["sim", "--seeds", "0..2"], "--json"),
        (vec!["sim", "--seed", "1"], "--trace"),
    ] {
        let line = mistake(emp(&arguments).args([option, "/dev/null/results"]));
        assert!(line.contains("/dev/null/results can't be "), "{arguments:?} {option}: {line}");
    }
}

#[test]
fn what_a_listener_cannot_do_is_said_at_the_client() {
    // An ordinary host has these, and no privilege is needed for them.
    let mut listener = emp(&["bench", "listen", "--bind", "127.0.0.1", "--port", "0"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut greeting = String::new();
    let output = listener.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut greeting).unwrap();
    let at = greeting.trim().strip_prefix("listening on ").unwrap().to_owned();

    let pingpong = |more: &[&str]| {
        let mut command = emp(&["bench", "pingpong", &at]);
        command.args(SHORT).args(more);
        command
    };
    let line = mistake(&mut pingpong(&["--link", "packet"]));
    assert!(line.contains("loopback carries no raw frames"), "{line}");
    let line = mistake(&mut pingpong(&["--interface", "nosuch0"]));
    assert!(line.contains("no interface nosuch0") && line.contains("lo"), "{line}");
    // After those it still serves, and `auto` takes what there is.
    let table = succeed(&mut pingpong(&["--vs", "tcp"]));
    assert!(table.contains("udp") && table.contains("tcp"), "{table}");
    listener.kill().unwrap();
    listener.wait().unwrap();
}
