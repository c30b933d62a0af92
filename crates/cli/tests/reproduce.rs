//! `emp reproduce`: the papers' figures beside the models', as committed; its page, its file, and mistakes.

mod lab_support;

use lab_support::*;
use serde_json::Value;

/// What `emp reproduce all` prints. Whoever changes engine or models looks at the difference, and writes it anew:
/// `emp reproduce all > crates/cli/tests/snapshots/reproduce.txt`.
const SNAPSHOT: &str = include_str!("snapshots/reproduce.txt");

#[test]
fn all_rows_are_as_committed_and_reach_their_bars() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.json");
    let output = emp(&["reproduce", "--json"]).arg(&file).output().unwrap();
    let printed = String::from_utf8(output.stdout.clone()).unwrap();
    let differs = printed.lines().zip(SNAPSHOT.lines()).find(|(now, then)| now != then);
    assert_eq!(differs, None, "the first line that differs, now and as committed");
    assert_eq!(printed.lines().count(), SNAPSHOT.lines().count());
    assert!(output.status.success(), "{}", stderr(&output));
    let written: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let papers = written.as_array().unwrap();
    assert_eq!(papers.len(), 5);
    for paper in papers {
        assert!(paper["rows"].as_array().unwrap().iter().all(|row| row["verdict"] != "missed"));
        let sources = paper["parameters"].as_array().unwrap().iter().map(|p| p["source"].as_str());
        assert!(sources.into_iter().all(|source| source.is_some_and(|source| source.len() > 8)));
    }
}

/// What `emp bench netpipe --json` writes, as far as a page needs it: two sizes of EMP's and one of TCP's.
const NETPIPE: &str = r#"{"environment": {}, "results": [
    {"pattern": "pingpong", "subject": "emp", "link": "packet", "mtu": 1500, "size": 64, "one_way_us": 1.1, "mean_us": 1.2, "gbps": 0.46,
     "messages_per_s": 9e5, "samples": 7, "best_us": 1.0, "worst_us": 2.0, "repeats": 100, "round": true},
    {"pattern": "pingpong", "subject": "emp", "link": "packet", "mtu": 1500, "size": 4096, "one_way_us": 4.1, "mean_us": 4.2, "gbps": 8.0,
     "messages_per_s": 2e5, "samples": 7, "best_us": 4.0, "worst_us": 5.0, "repeats": 100, "round": true},
    {"pattern": "pingpong", "subject": "tcp", "link": null, "mtu": 1500, "size": 64, "one_way_us": 9.1, "mean_us": 9.2, "gbps": 0.05,
     "messages_per_s": 1e5, "samples": 7, "best_us": 9.0, "worst_us": 9.9, "repeats": 100, "round": true}]}"#;

/// The same of `emp bench overlap --json` and `logp --json`.
const OVERLAP: &str = r#"{"results": [
    {"subject": "emp", "board": "thread", "link": "packet", "size": 10000, "batch": 5, "work_us": 10.0, "user_percent": 0.0, "gbps": 8.0,
     "of_idle": 1.0, "post_receive_us": 0.2, "post_send_us": 1.0, "wait_us": 5.0, "samples": 25},
    {"subject": "emp", "board": "thread", "link": "packet", "size": 10000, "batch": 5, "work_us": 50.0, "user_percent": 50.0, "gbps": 6.0,
     "of_idle": 0.75, "post_receive_us": 0.2, "post_send_us": 1.0, "wait_us": 5.0, "samples": 25}]}"#;
const LOGP: &str = r#"{"results": [
    {"subject": "emp", "link": "packet", "board": "inline", "size": 8, "half_round_trip_us": 1.37, "latency_us": 0.71,
     "receive_overhead_us": 0.25, "send_overhead_us": 0.41, "gap_us": 0.53, "samples": 51}]}"#;

#[test]
fn a_page_has_the_tables_and_the_curves_and_todays_beside_them() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let mut command = emp(&["reproduce", "all", "--html"]);
    command.arg(file("page.html"));
    for (name, content) in [("netpipe", NETPIPE), ("overlap", OVERLAP), ("logp", LOGP)] {
        std::fs::write(file(name), content).unwrap();
        command.arg("--beside").arg(file(name));
    }
    succeed(&mut command);
    let page = std::fs::read_to_string(file("page.html")).unwrap();
    for text in ["M-VIA", "SysKonnect 128 K, MTU 9000", "613.2", "fitted to", "DSR", "LogP today"] {
        assert!(page.contains(text), "{text}");
    }
    // Nine pictures of the papers. All but the one both ways have today's beside them.
    assert_eq!((page.matches("<svg").count(), page.matches("<figure>").count()), (17, 8));
    assert_eq!(page.matches("EMP packet").count(), 7, "latency and bandwidth, by link");
    assert_eq!(page.matches("emp thread").count(), 1, "overlap, by board");
    assert!(page.contains("<td class=n>1.37</td>"), "LogP's figures");
    assert!(!page.contains("http-equiv") && !page.contains("<script"), "nothing beside it");
}

#[test]
fn a_page_without_anything_beside_it_has_the_papers_pictures_only() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("page.html");
    succeed(emp(&["reproduce", "als", "--html"]).arg(&file));
    let page = std::fs::read_to_string(file).unwrap();
    assert_eq!((page.matches("<svg").count(), page.matches("<figure>").count()), (1, 0));
}

/// Each stage on a processor: the receive path on the second.
const TABLE: &str = "A=send-bookkeeping,transmission,ack-arrival,ack-release,send-ack;B=receive-bookkeeping,receive-frame,receive-dma";

#[test]
fn a_card_runs_any_table() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.json");
    let rows = |placement: &str| {
        succeed(emp(&["reproduce", "multicpu", "--placement", placement, "--json"]).arg(&file));
        let written: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let rows = written[0]["rows"].as_array().unwrap().clone();
        rows.iter().map(|row| row["model"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    let (given, named) = (rows(TABLE), rows("ro"));
    // Base first, then the table, then gains: of the table both ways.
    assert!(given.len() == 12 && given[..4] == named[..4], "{given:?} {named:?}");
    assert!(given[11] > 5.0 && given[4..] != named[4..], "{given:?} {named:?}");
}

#[test]
fn mistakes_are_one_line_and_exit_code_2() {
    let line = mistake(&mut emp(&["reproduce", "emp2001"]));
    assert!(line.contains("there is no experiment emp2001; there are emp, multicpu"), "{line}");
    let line = mistake(&mut emp(&["reproduce", "als", "--html", "/nowhere/page.html"]));
    assert!(line.contains("can't be written"), "{line}");
    let twice = TABLE.replace("B=", "B=send-ack,");
    let none = TABLE.replace(",send-ack", "");
    let io = format!("{TABLE},link-calls");
    for (placement, says) in [
        (vec!["XY"], "there is no scheme XY; there are base, SO, RO, DSR, SR"),
        (vec![twice.as_str()], "send-ack is placed twice"),
        (vec![none.as_str()], "send-ack is placed on no processor"),
        (vec![TABLE, "--processors", "1"], "given is on 2 processors, and 1 may be used"),
        (vec!["DSR", "--processors", "3"], "a Tigon2 has 2 processors, not 3"),
        (vec![io.as_str()], "a card calls no links"),
    ] {
        let line = mistake(emp(&["reproduce", "multicpu", "--placement"]).args(&placement));
        assert!(line.contains(says), "{placement:?}: {line}");
    }
    let line = mistake(&mut emp(&["reproduce", "vmmc", "--placement", "SO"]));
    assert!(line.contains("only multicpu has placements, not vmmc"), "{line}");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("other.json");
    std::fs::write(&file, "{\"results\": []}").unwrap();
    let page = directory.path().join("page.html");
    let mut command = emp(&["reproduce", "als", "--html"]);
    let line = mistake(command.arg(page).arg("--beside").arg(file));
    assert!(line.contains("is not what `emp bench netpipe`, `overlap` or `logp` writes"), "{line}");
}
