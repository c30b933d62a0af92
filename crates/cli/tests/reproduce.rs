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

#[test]
fn a_page_has_the_tables_and_the_curves() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("page.html");
    let output = emp(&["reproduce", "als", "--html"]).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let page = std::fs::read_to_string(file).unwrap();
    for text in ["<svg", "M-VIA", "SysKonnect 128 K, MTU 9000", "613.2", "fitted to"] {
        assert!(page.contains(text), "{text}");
    }
    assert!(!page.contains("http-equiv") && !page.contains("<script"), "nothing beside it");
}

#[test]
fn mistakes_are_one_line_and_exit_code_2() {
    let line = mistake(&mut emp(&["reproduce", "emp2001"]));
    assert!(line.contains("there is no experiment emp2001; there are emp, multicpu"), "{line}");
    let line = mistake(&mut emp(&["reproduce", "als", "--html", "/nowhere/page.html"]));
    assert!(line.contains("can't be written"), "{line}");
}
