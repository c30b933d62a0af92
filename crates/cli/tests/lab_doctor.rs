//! `emp doctor`, here and inside a lab's host, where it is known what there is to find.

mod lab_support;

use std::process::Stdio;

use lab_support::*;

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_report_fits_a_terminal_and_has_no_colour_off_one() {
    let text = succeed(&mut emp(&["doctor"]));
    for title in
        ["privilege", "kernel", "CPU", "network", "left behind", "interfaces", "what auto takes"]
    {
        assert!(text.lines().any(|line| line == title), "{text}");
    }
    // Only a path too long to break may stick out.
    let too_wide = |line: &&str| line.chars().count() > 100 && line.split("  ").count() < 3;
    assert_eq!(text.lines().find(too_wide), None);
    assert!(!text.contains('\x1b'));
}

#[test]
fn a_reader_that_stops_reading_is_no_error() {
    let mut child = emp(&["doctor"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(stderr(&output), "");
    assert!(output.status.success());
}

#[test]
fn in_a_lab_it_sees_the_hosts_interfaces_and_takes_packet() {
    if !is_root() {
        return;
    }
    let program = env!("CARGO_BIN_EXE_emp");
    let run = ["lab", "run", "--mtu", "9000", "--host", "emp-b", program, "doctor", "--json"];
    let report = json(&succeed(&mut emp(&run)));
    let interfaces = report["interfaces"].as_array().unwrap();
    assert_eq!(interfaces.len(), 2, "{interfaces:?}");
    let cable = &interfaces[0];
    assert_eq!((&cable["name"], &cable["mtu"]), (&"emp0".into(), &9000.into()));
    assert_eq!((&cable["driver"], &cable["running"]), (&"veth".into(), &true.into()));
    assert_eq!(cable["addresses"][0], "10.77.0.2");
    assert_eq!(cable["offloads"]["gso"], true);
    let rungs = report["rungs"].as_array().unwrap();
    assert_eq!((&rungs[0]["interface"], &rungs[0]["link"]), (&"emp0".into(), &"packet".into()));
    assert_eq!(rungs[1]["link"], "shm");
}

#[test]
fn without_privilege_it_takes_udp_and_says_what_to_do() {
    if !is_root() {
        return;
    }
    // Root's identity stays, so that the program can be read; its capabilities go.
    let script = "exec setpriv --bounding-set=-all --inh-caps=-all \"$0\" doctor --json";
    let mut run = emp(&["lab", "run", "--", "sh", "-c", script]);
    let report = json(&succeed(run.arg(env!("CARGO_BIN_EXE_emp"))));
    let rung = &report["rungs"][0];
    assert_eq!((&rung["interface"], &rung["link"]), (&"emp0".into(), &"udp".into()));
    assert!(rung["better"].as_str().unwrap().contains("setcap cap_net_raw+ep"), "{rung}");
}
