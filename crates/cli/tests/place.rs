//! `emp place` and `emp bench stages`: what they print and write, and mistakes.

mod lab_support;

use lab_support::*;
use serde_json::Value;

/// A table with each stage on a processor, the last on the second.
const TABLE: &str = "A=send-bookkeeping,transmission,ack-arrival,ack-release,receive-bookkeeping,receive-frame,receive-dma;B=send-ack";

fn written(command: &mut std::process::Command) -> (String, Value) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("figures.json");
    let printed = succeed(command.arg("--json").arg(&file));
    (printed, serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap())
}

#[test]
fn one_core_has_one_scheme_and_it_is_recommended() {
    let (printed, written) = written(&mut emp(&["place", "--no-measure", "--cores", "1"]));
    assert!(printed.contains("recommended: base on 1 core"), "{printed}");
    assert!(!printed.contains("  measured"), "{printed}");
    assert_eq!(written["recommended"], "base");
    let schemes = written["schemes"].as_array().unwrap();
    assert_eq!(schemes.len(), 1, "{schemes:?}");
    assert!(schemes[0]["measured"].is_null());
    for figure in ["one_way_us", "one_way_gbps", "both_ways_gbps"] {
        assert!(schemes[0][figure].as_f64().unwrap() > 0.0, "{figure}");
    }
    assert!(written["crossing_ns"].as_f64().unwrap() > 0.0);
}

/// Where there are two cores: all schemes, and a table's, each with a prediction of its own.
#[test]
fn two_cores_have_the_papers_schemes_and_a_table() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        eprintln!("this needs two cores");
        return;
    }
    let mut command = emp(&["place", "--no-measure", "--cores", "2", "--placement", TABLE]);
    let (printed, written) = written(&mut command);
    let schemes = written["schemes"].as_array().unwrap();
    let names: Vec<_> = schemes.iter().map(|one| one["scheme"].as_str().unwrap()).collect();
    assert_eq!(names, ["base", "SO", "RO", "DSR", "SR", "io", "given", "dynamic"]);
    assert!(names.iter().all(|name| printed.contains(name)), "{printed}");
    // How much each gains depends on what a crossing costs here and now.
    let figures = ["one_way_us", "one_way_gbps", "both_ways_gbps"];
    let all = schemes.iter().flat_map(|one| figures.map(|figure| one[figure].as_f64()));
    assert!(all.into_iter().all(|figure| figure > Some(0.0)), "{schemes:?}");
    let cores: Vec<_> = schemes.iter().map(|one| one["cores"].as_u64().unwrap()).collect();
    assert_eq!(cores, [1, 2, 2, 2, 2, 2, 2, 2]);
    assert!(names.contains(&written["recommended"].as_str().unwrap()));
}

#[test]
fn mistakes_in_placing_are_one_line_and_exit_code_2() {
    let place = |arguments: &[&str]| mistake(emp(&["place", "--no-measure"]).args(arguments));
    let twice = TABLE.replace("B=send-ack", "B=send-ack,transmission");
    let none = TABLE.replace(";B=send-ack", "");
    for (arguments, says) in [
        (vec!["--scheme", "XY"], "there is no scheme XY; there are base, SO, RO, DSR, SR, io"),
        (vec!["--placement", &twice], "transmission is placed twice"),
        (vec!["--placement", &none], "send-ack is placed on no processor"),
        (vec!["--cores", "1", "--placement", TABLE], "given is on 2 processors, and 1 may be used"),
        (vec!["--cores", "1", "--scheme", "DSR"], "DSR is on 2 processors, and 1 may be used"),
        (vec!["--cores", "9"], "9 cores are more than any scheme uses"),
        (vec!["--profile", "tea"], "there is no profile tea; there are default"),
        (vec!["--json", "/nowhere/file"], "can't be written"),
    ] {
        let line = place(&arguments);
        assert!(line.contains(says), "{arguments:?}: {line}");
    }
}

#[test]
fn stages_are_shown_beside_the_papers_and_written() {
    let mut command = emp(&["bench", "stages", "--sizes", "32,4K", "--messages", "300"]);
    let (printed, written) = written(&mut command);
    for text in ["paper µs", "send bookkeeping", "receive DMA", "5.25", "2.75", "32: calls"] {
        assert!(printed.contains(text), "{text}: {printed}");
    }
    let costs = written["costs"].as_array().unwrap();
    assert_eq!((costs.len(), costs[1]["bytes"].as_u64()), (2, Some(4_096)));
    let names = written["names"].as_array().unwrap();
    assert_eq!(names.len(), costs[0]["stages"].as_array().unwrap().len());
    assert_eq!(written["paper_us"][0], 5.25);
    assert!(printed.contains("from one core to another"), "{printed}");
    assert!(written["crossing_ns"].as_f64().unwrap() > 0.0);
    assert!(costs[0]["stages"][0]["ns"].as_f64().unwrap() > 0.0);
    assert!((costs[0]["stages"][0]["calls"].as_f64().unwrap() - 1.0).abs() < 1e-9);
}

#[test]
fn mistakes_in_measuring_stages_are_one_line_and_exit_code_2() {
    for (arguments, says) in [
        (["--profile", "tea"], "there is no profile tea"),
        (["--sizes", "8M"], "messages of 8388608 bytes are too long here"),
        (["--sizes", "tea"], "tea"),
        (["--mtu", "100"], "frames of 100 bytes are not possible; choose 576 to 9216"),
        (["--messages", "1"], "1 messages are not possible"),
        (["--json", "/nowhere/file"], "can't be written"),
    ] {
        let line = mistake(emp(&["bench", "stages"]).args(arguments));
        assert!(line.contains(says), "{arguments:?}: {line}");
    }
}
