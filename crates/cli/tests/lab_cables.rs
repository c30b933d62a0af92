//! `emp lab cable`: carriers, addresses and routes follow the plugs, with a panel and without; and files that say a topology.

mod lab_support;

use emp_host::{AutoLinks, Board, Node, Want};
use lab_support::*;
use serde_json::Value;

/// A lab of this name and shape.
fn up(name: &str, shape: &[&str]) {
    succeed(emp(&["lab", "up", "--name", name]).args(shape));
}

fn cable(name: &str, words: &[&str]) -> String {
    succeed(emp(&["lab", "cable"]).args(words).args(["--name", name]))
}

fn inside(name: &str, host: &str, command: &[&str]) -> std::process::Output {
    let mut exec = emp(&["lab", "exec", "--name", name, host, "--"]);
    exec.args(command).output().unwrap()
}

/// Whether an interface is up, and whether it has a carrier; `None` if there is none.
fn state(name: &str, host: &str, interface: &str) -> Option<(bool, bool)> {
    let read = |file: &str| {
        let path = format!("/sys/class/net/{interface}/{file}");
        let output = inside(name, host, &["cat", &path]);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let flags = u32::from_str_radix(read("flags").strip_prefix("0x")?, 16).ok()?;
    // An interface that is down has no carrier to read.
    Some((flags & 1 == 1, read("carrier") == "1"))
}

fn index(name: &str, host: &str, interface: &str) -> String {
    let output = inside(name, host, &["cat", &format!("/sys/class/net/{interface}/ifindex")]);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Whether one host reaches another's address by IP within so many seconds: nobody listens there, and its kernel says so.
fn answers(name: &str, from: &str, to: &str, seconds: &str) -> bool {
    let connect = format!("exec 3<>/dev/tcp/{to}/9");
    let output = inside(name, from, &["timeout", seconds, "bash", "-c", &connect]);
    stderr(&output).contains("Connection refused")
}

fn reaches(name: &str, from: &str, to: &str) -> bool {
    answers(name, from, to, "10")
}

fn status(name: &str) -> Value {
    let text = succeed(&mut emp(&["lab", "status", "--json", "--name", name]));
    serde_json::from_str::<Value>(&text).unwrap()[0].clone()
}

#[test]
fn a_pulled_cable_of_a_ring_is_routed_around_until_it_is_plugged_in() {
    if !is_root() {
        return;
    }
    for (letter, panel) in [('a', &[][..]), ('b', &["--panel"])] {
        let name = format!("c{}", unique(letter));
        let _cleanup = Cleanup(&name);
        up(&name, &[&["--hosts", "4", "--topology", "ring"], panel].concat());
        let (near, far) = (("emp-a", "emp0"), ("emp-b", "emp0"));
        let is = |(host, interface): (&str, &str)| state(&name, host, interface);
        assert_eq!((is(near), is(far)), (Some((true, true)), Some((true, true))));
        let number = index(&name, "emp-b", "emp0");

        let says = cable(&name, &["pull", "emp-a:emp0"]);
        assert!(says.contains("emp-a:emp0 - emp-b:emp0 is pulled at emp-a:emp0"), "{says}");
        assert_eq!(is(near), Some((true, false)));
        // Without a panel the interface across is what is down.
        assert_eq!(is(far), Some((!panel.is_empty(), false)));
        assert!(reaches(&name, "emp-a", "emp-b") && reaches(&name, "emp-b", "emp-a"));
        let shown = succeed(&mut emp(&["lab", "status", "--name", &name]));
        assert!(shown.contains("emp-a emp0──╳ ╳──emp0 emp-b"), "{shown}");
        assert_eq!(status(&name)["cables"][0]["pulled"], "emp-a:emp0");
        let again = mistake(&mut emp(&["lab", "cable", "pull", "emp-b:emp0", "--name", &name]));
        assert!(again.contains("is pulled already"), "{again}");

        cable(&name, &["plug", "emp-b:emp0"]);
        assert_eq!((is(near), is(far)), (Some((true, true)), Some((true, true))));
        assert_eq!(index(&name, "emp-b", "emp0"), number, "the interface has stayed");
        let direct = inside(&name, "emp-b", &["ip", "route", "get", "10.77.0.1"]);
        assert!(String::from_utf8_lossy(&direct.stdout).contains("dev emp0"));
        assert!(reaches(&name, "emp-a", "emp-b"));
        succeed(&mut emp(&["lab", "down", "--name", &name]));
    }
}

#[test]
fn a_moved_cable_takes_its_interface_along_or_by_a_panel_does_not() {
    if !is_root() {
        return;
    }
    for (letter, panel) in [('c', &[][..]), ('d', &["--panel"])] {
        let name = format!("c{}", unique(letter));
        let _cleanup = Cleanup(&name);
        up(&name, &[&["--hosts", "4", "--topology", "line"], panel].concat());
        // From a to d: b hangs on d now, and a on nobody.
        let number = index(&name, "emp-b", "emp0");
        let says = cable(&name, &["move", "emp-a:emp0", "emp-d:emp1"]);
        assert!(says.contains("emp-d:emp1 - emp-b:emp0, moved from emp-a:emp0"), "{says}");
        let left = if panel.is_empty() { None } else { Some((true, false)) };
        assert_eq!(state(&name, "emp-a", "emp0"), left);
        assert_eq!(state(&name, "emp-d", "emp1"), Some((true, true)));
        assert_eq!(index(&name, "emp-b", "emp0"), number);
        assert!(reaches(&name, "emp-d", "emp-b") && reaches(&name, "emp-b", "emp-c"));
        assert!(!reaches_at_once(&name, "emp-a", "emp-b"));
        // And back, to a new interface or to the old one.
        cable(&name, &["move", "emp-d:emp1", "emp-a:emp0"]);
        assert!(reaches(&name, "emp-a", "emp-d"));
        // To the next interface of the same host.
        let says = cable(&name, &["move", "emp-b:emp0"]);
        assert!(says.contains("emp-b:emp2"), "{says}");
        assert!(reaches(&name, "emp-a", "emp-d"));
        assert_eq!(status(&name)["cables"].as_array().unwrap().len(), 3);
        succeed(&mut emp(&["lab", "down", "--name", &name]));
        assert!(namespaces(&name).is_empty() && !is_recorded(&name));
    }
}

/// The same without patience, where nothing is expected.
fn reaches_at_once(name: &str, from: &str, to: &str) -> bool {
    answers(name, from, to, "1")
}

#[test]
fn a_file_says_hosts_switches_and_what_each_cable_can_do() {
    if !is_root() {
        return;
    }
    let name = format!("c{}", unique('e'));
    let _cleanup = Cleanup(&name);
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let text = "host emp-a emp-b emp-c d\nswitch s1 s2\ncable emp-a emp-b mtu 9000 rate 400mbit queue 64K\n\
                cable emp-b s1\ncable emp-c s2\ncable s1 s2\ncable d emp-c mtu 4000\n";
    std::fs::write(file.path(), text).unwrap();
    up(&name, &["--topology", path]);
    let lab = status(&name);
    let cables = lab["cables"].as_array().unwrap();
    assert_eq!((&cables[0]["rate"], &cables[0]["queue"]), (&400_000_000.into(), &65_536.into()));
    assert_eq!((&cables[1]["rate"], &cables[0]["mtu"]), (&Value::Null, &9000.into()));
    let mtu = |host: &str, interface: &str| {
        let output = inside(&name, host, &["cat", &format!("/sys/class/net/{interface}/mtu")]);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!([mtu("emp-a", "emp0"), mtu("emp-b", "emp0")], ["9000", "9000"]);
    assert_eq!([mtu("emp-b", "emp1"), mtu("d", "emp0")], ["1500", "4000"]);
    for (from, to) in [("emp-a", "d"), ("emp-b", "emp-c"), ("d", "emp-b")] {
        assert!(reaches(&name, from, to), "{from} {to}");
    }
    let shown = succeed(&mut emp(&["lab", "status", "--name", &name]));
    let drawn = "emp-a emp0── 400 Mb/s 64 KiB, MTU 9000 ──emp0 emp-b";
    assert!(shown.contains(drawn) && shown.contains("switch s2"), "{shown}");
    // The limit is at both ends of the cable, where it leaves the panel.
    let panel = format!("emp-{name}-sw");
    let shown = std::process::Command::new("tc").args(["-n", &panel, "qdisc", "show"]).output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    assert_eq!(shown.matches("rate 400Mbit").count(), 2, "{shown}");
}

#[test]
fn hosts_without_routes_reach_their_neighbours_only() {
    if !is_root() {
        return;
    }
    let name = format!("c{}", unique('f'));
    let _cleanup = Cleanup(&name);
    up(&name, &["--hosts", "3", "--topology", "line", "--no-routes"]);
    assert!(reaches(&name, "emp-a", "10.77.1.2"));
    assert!(!reaches_at_once(&name, "emp-a", "10.77.1.6"));
}

/// Addresses that somebody has taken away by hand keep hosts from their routes, not the cable from being pulled and plugged in.
#[test]
fn a_cable_is_pulled_and_plugged_in_though_routes_fail() {
    if !is_root() {
        return;
    }
    let name = format!("c{}", unique('r'));
    let _cleanup = Cleanup(&name);
    up(&name, &["--hosts", "4", "--topology", "ring", "--no-relays"]);
    inside(&name, "emp-d", &["ip", "address", "flush", "dev", "emp0"]);
    let pulled = emp(&["lab", "cable", "pull", "emp-a:emp0", "--name", &name]).output().unwrap();
    let line = stderr(&pulled);
    assert!(pulled.status.success() && line.trim_end().lines().count() == 1, "{line}");
    assert!(line.starts_with("emp: not all hosts have the routes"), "{line}");
    assert!(line.contains("emp-d"), "{line}");
    assert_eq!(status(&name)["cables"][0]["pulled"], "emp-a:emp0");
    cable(&name, &["plug", "emp-a:emp0"]);
    assert_eq!(state(&name, "emp-a", "emp0"), Some((true, true)));
    // What is down without having been pulled is plugged in as well, with its addresses.
    inside(&name, "emp-d", &["ip", "link", "set", "emp0", "down"]);
    cable(&name, &["plug", "emp-d:emp0"]);
    assert_eq!(state(&name, "emp-d", "emp0"), Some((true, true)));
    assert!(reaches(&name, "emp-b", "emp-d"));
    let again = mistake(&mut emp(&["lab", "cable", "plug", "emp-d:emp0", "--name", &name]));
    assert!(again.contains("is plugged in"), "{again}");
    succeed(&mut emp(&["lab", "down", "--name", &name]));
}

#[test]
fn mistakes_with_cables_are_one_line_and_exit_code_2() {
    if !is_root() {
        return;
    }
    let name = format!("c{}", unique('g'));
    let _cleanup = Cleanup(&name);
    up(&name, &["--hosts", "3", "--topology", "line"]);
    for (words, says) in [
        (&["pull", "emp-a"][..], "write HOST:INTERFACE, such as emp-a:emp0"),
        (&["pull", "emp-x:emp0"], "there is no host emp-x; there are emp-a, emp-b, emp-c"),
        (&["pull", "emp-a:emp7"], "emp-a has no interface emp7; it has emp0"),
        (&["plug", "emp-a:emp0"], "is plugged in"),
        (&["move", "emp-a:emp0", "emp-b:emp1"], "emp-b:emp1 has a cable"),
        (&["move", "emp-a:emp0", "emp-c:emp9"], "its next one is emp1"),
        (&["move", "emp-a:emp0", "emp-b:emp2"], "would have both ends of one cable"),
        (&["cut", "emp-a:emp0"], "unrecognized subcommand 'cut'"),
    ] {
        let line = mistake(emp(&["lab", "cable"]).args(words).args(["--name", &name]));
        assert!(line.contains(says), "{line}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "host a b\n\ncable a c\n").unwrap();
    let path = file.path().to_str().unwrap();
    let line = mistake(&mut emp(&["lab", "up", "--topology", path]));
    assert!(line.contains(&format!("{path}:3: expected the name of a host")), "{line}");
    for words in [&["lab", "up"][..], &["bench", "verify", "--lab", "--hosts", "4"]] {
        let line = mistake(emp(words).args(["--topology", "tours"]));
        assert!(line.contains("tours") && line.contains("ring, mesh"), "{line}");
    }
    let inside = ["lab", "exec", "--name", &name, "emp-a", "--", env!("CARGO_BIN_EXE_emp")];
    for words in [
        &["bench", "listen", "--interfaces", "emp0,nosuch0"][..],
        &["bench", "pingpong", "emp-b", "--interfaces", "emp0,nosuch0"],
        &["relay", "--interfaces", "emp0,nosuch0"],
        &["route", "somebody", "--trace", "--interfaces", "nosuch0"],
    ] {
        let line = mistake(emp(&inside).args(words));
        assert!(line.contains("nosuch0"), "{line}");
    }
    for (interfaces, says) in
        [("emp0,emp0", "emp0 is named twice"), ("a,b,c,d,e", "at most 4 together")]
    {
        let line = mistake(emp(&inside).args(["relay", "--interfaces", interfaces]));
        assert!(line.contains(says), "{line}");
    }
    let line = mistake(&mut emp(&["lab", "up", "--queue", "64K"]));
    assert!(line.contains("add --rate"), "{line}");
    let line = mistake(&mut emp(&["bench", "verify", "--hosts", "3", "peer"]));
    assert!(line.contains("--lab"), "{line}");
    let line =
        mistake(&mut emp(&["bench", "verify", "--lab", "--hosts", "2", "--topology", "ring"]));
    assert!(line.contains("a ring lab has 3 to 32 hosts"), "{line}");
}

#[test]
fn every_pair_of_a_ring_is_verified() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("results.json");
    let shape = ["--lab", "--hosts", "4", "--topology", "ring", "--seconds", "0.3"];
    let mut command = emp(&["bench", "verify", "--loss", "0.01", "--seed", "5", "--json"]);
    let printed = succeed(command.arg(&file).args(shape));
    assert!(printed.contains("verify: 6 pairs, "), "{printed}");
    let apart: Vec<_> = printed.lines().filter(|line| line.contains("not neighbours")).collect();
    assert_eq!(apart.len(), 2, "{printed}");
    assert!(apart[0].starts_with("emp-a - emp-c: ") || apart[0].starts_with("emp-b - emp-d: "));
    let written: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let rows = written["results"].as_array().unwrap();
    let pairs: std::collections::HashSet<String> =
        rows.iter().map(|row| row["pair"].to_string()).collect();
    assert_eq!((rows.len(), pairs.len()), (6, 6));
}

/// `PATH-10`: one way round takes frames of 9,000 bytes, the other of 1,500; opposite corners use both, at 1 % loss.
#[test]
fn every_pair_of_a_ring_of_two_mtus_is_verified() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let [topology, file] = ["mixed.lab", "results.json"].map(|name| directory.path().join(name));
    let cables = [("a", "b", 9_000), ("b", "c", 9_000), ("c", "d", 1_500), ("d", "a", 1_500)];
    let cables = cables.map(|(from, to, mtu)| format!("cable emp-{from} emp-{to} mtu {mtu}\n"));
    let text = format!("host emp-a emp-b emp-c emp-d\n{}", cables.concat());
    std::fs::write(&topology, text).unwrap();
    let mut command = emp(&["bench", "verify", "--lab", "--link", "packet", "--seconds", "0.3"]);
    command.args(["--loss", "0.01", "--seed", "5", "--topology"]).arg(&topology);
    let printed = succeed(command.arg("--json").arg(&file));
    assert!(printed.contains("verify: 6 pairs, "), "{printed}");
    assert_eq!(printed.matches("every byte right, over").count(), 6, "{printed}");
    let written: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(written["results"].as_array().unwrap().len(), 6);
}

/// `emp route --trace` of a node on a host of a lab, as programs read it.
fn traced(name: &str, node: &str) -> Vec<Value> {
    let route = [env!("CARGO_BIN_EXE_emp"), "route", node, "--trace", "--json"];
    let output = inside(name, "emp-a", &route);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    value["ways"].as_array().unwrap().clone()
}

#[test]
fn who_is_on_the_way_is_shown_cable_by_cable() {
    if !is_root() {
        return;
    }
    let name = unique('t');
    let _cleanup = Cleanup(&name);
    up(&name, &["--hosts", "4", "--topology", "ring"]);
    let start = |host: &str, node: &str| {
        let auto = AutoLinks { want: Want::Packet, memory: false, ..AutoLinks::default() };
        let node = Node::builder().name(node).auto_links(auto).board(Board::Thread);
        emp_testing::lab::inside(&format!("emp-{name}-{host}"), || node.start().unwrap())
    };
    let _nodes = [start("b", "beside"), start("c", "corner")];
    for (node, cables) in [("beside", 1), ("corner", 2)] {
        let ways = traced(&name, node);
        assert!(!ways.is_empty(), "{node}");
        let mut shortest = usize::MAX;
        for way in &ways {
            assert!(["emp0", "emp1"].contains(&way["interface"].as_str().unwrap()), "{way}");
            let stages = way["stages"].as_array().unwrap();
            shortest = shortest.min(stages.len());
            for stage in stages {
                assert!(stage["round_trip_us"].as_f64().unwrap() > 0.0, "{way}");
                assert!(stage["address"].is_string() && stage["node"].is_string(), "{way}");
            }
            let names: Vec<_> =
                stages.iter().map(|stage| stage["name"].as_str().unwrap()).collect();
            let (last, relays) = names.split_last().unwrap();
            assert!(*last == node && !relays.contains(&node), "{names:?}");
        }
        assert_eq!(shortest, cables, "{node}: {ways:?}");
    }
    let emp = env!("CARGO_BIN_EXE_emp");
    let shown = inside(&name, "emp-a", &[emp, "route", "corner", "--trace"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("WAY") && lines[0].ends_with("ROUND TRIP"), "{text}");
    assert!(lines.iter().any(|line| line.contains(" corner ") && line.ends_with(" µs")), "{text}");
    let nobody = inside(&name, "emp-a", &[emp, "route", "nobody", "--trace"]);
    let line = stderr(&nobody);
    assert_eq!((nobody.status.code(), line.lines().count()), (Some(2), 1), "{line}");
    assert!(line.contains("nobody") && nobody.stdout.is_empty(), "{line}");
}
