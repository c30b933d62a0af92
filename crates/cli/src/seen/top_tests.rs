use std::path::PathBuf;

use emp_state::layout::Counter;
use emp_state::process::Life;
use emp_state::{Identity, Now, Peer, Text};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;

const SECOND: u64 = 1_000_000_000;

/// A rank of job 7 that has sent and dropped so much in the ten seconds since its start, and has waited since then for an answer.
fn node(rank: i32, sent: u64, dropped: u64, waits_since: u64) -> Snapshot {
    let count = |name, value| Counter { name: Text::new(name), value };
    let mut peer = Peer { node: 99, out_since: waits_since, ..Peer::default() };
    (peer.out_messages, peer.name) = (u32::from(waits_since > 0), Text::new("bob"));
    peer.paths[0].flags = emp_state::Path::THERE;
    peer.paths[1].flags = emp_state::Path::THERE;
    (peer.paths[0].window, peer.paths[1].window) = (1_111, 2_222);
    (peer.frames_sent, peer.frames_resent) = (sent as u32, 10);
    (peer.paths[0].sent, peer.paths[1].sent, peer.paths[1].lost) = (10, sent as u32, 10);
    Snapshot {
        path: PathBuf::new(),
        identity: Identity {
            node: 1 + rank as u64,
            process: 100 + rank as u32,
            rank,
            ranks: 3,
            started_real: 5 * SECOND,
            name: Text::new(&format!("r{rank}")),
            job: Text::new("7"),
            command: Text::new(if rank == 1 { "solver -x" } else { "server" }),
            ..Identity::default()
        },
        life: Life::Elsewhere,
        now: Now { written: 20 * SECOND, written_real: 15 * SECOND, ..Now::default() },
        links: Vec::new(),
        counters: vec![count("messages_sent", sent), count("drop_duplicate", dropped)],
        notes: Vec::new(),
        peers: vec![peer],
        neighbours: Vec::new(),
        torn: false,
    }
}

fn seen(nodes: Vec<Snapshot>) -> Seen {
    Seen { nodes, now: 20 * SECOND, odd: Vec::new() }
}

fn picture() -> Picture {
    Picture::new(seen(vec![
        node(2, 10, 0, 9 * SECOND),
        node(0, 500, 3, 0),
        node(1, 900, 70, SECOND),
    ]))
}

fn names(picture: &Picture) -> Vec<String> {
    picture.shown().into_iter().map(show::node).collect()
}

#[test]
fn ranks_stand_in_order_and_are_sorted_as_asked_for() {
    let mut picture = picture();
    assert_eq!(names(&picture), ["r0", "r1", "r2"]);
    for (key, order) in
        [('m', ["r1", "r0", "r2"]), ('w', ["r1", "r2", "r0"]), ('l', ["r1", "r0", "r2"])]
    {
        assert!(picture.press(KeyCode::Char(key)));
        assert_eq!(names(&picture), order, "{key}");
    }
    picture.press(KeyCode::Char('n'));
    assert_eq!(names(&picture), ["r0", "r1", "r2"]);
    assert!(!picture.press(KeyCode::Char('q')) && !picture.press(KeyCode::Esc));
}

#[test]
fn rates_are_those_since_the_last_look_and_before_it_since_the_start() {
    let mut picture = picture();
    let rate = |picture: &Picture, rank: usize| picture.row(&picture.seen.nodes[rank])[5].clone();
    assert_eq!([rate(&picture, 0), rate(&picture, 1)], ["50", "90"]);
    let mut later = node(0, 900, 3, 0);
    later.now.written_real += 2 * SECOND;
    // The other has not written since.
    picture.take(seen(vec![later, node(1, 900, 70, SECOND)]));
    assert_eq!([rate(&picture, 0), rate(&picture, 1)], ["200", "90"]);
}

#[test]
fn what_is_typed_filters_by_name_job_or_command() {
    let mut picture = picture();
    let type_in = |picture: &mut Picture, text: &str| {
        picture.press(KeyCode::Char('/'));
        text.chars().for_each(|letter| assert!(picture.press(KeyCode::Char(letter))));
        picture.press(KeyCode::Enter);
    };
    type_in(&mut picture, "solverq");
    assert_eq!(names(&picture), [""; 0]);
    picture.press(KeyCode::Char('/'));
    picture.press(KeyCode::Backspace);
    assert_eq!(names(&picture), ["r1"], "q was a letter");
    assert!(picture.press(KeyCode::Esc), "the end of typing");
    assert_eq!(names(&picture).len(), 3);
}

/// What a terminal shows: nodes, the chosen one's peers by path, what it dropped.
#[test]
fn a_picture_has_nodes_peers_paths_and_drops() {
    let mut picture = picture();
    picture.press(KeyCode::Char('j'));
    let mut terminal = Terminal::new(TestBackend::new(110, 30)).expect("a terminal");
    terminal.draw(|frame| draw(frame, &mut picture)).expect("drawn");
    let text = terminal.backend().to_string();
    for says in [
        "3 nodes by name",
        "peers of r1",
        "bob",
        "1111",
        "2222",
        "drop_duplicate 70",
        "to bob 19.0 s",
        "q quit",
    ] {
        assert!(text.contains(says), "{says}: {text}");
    }
    picture.press(KeyCode::Char(' '));
    terminal.draw(|frame| draw(frame, &mut picture)).expect("drawn");
    assert!(terminal.backend().to_string().contains("space goes on"));
}

/// Rates of a peer and of its paths, and reasons for drops: for people and for programs.
#[test]
fn a_look_has_peers_paths_and_reasons() {
    let mut picture = picture();
    let text = once(&picture);
    let line = |of: &str| text.lines().find(|line| line.contains(of)).unwrap_or_default();
    // 500 frames and ten that were sent again, in the ten seconds since the start.
    let all: Vec<&str> = line("2 paths").split_whitespace().collect();
    assert!(all.contains(&"51") && all.contains(&"bob"), "{text}");
    assert!(line("1111").contains(" 1 ") && line("2222").contains("50"), "{text}");
    assert!(text.contains("\nr1: drop_duplicate 70\n"), "{text}");
    let mut later = node(0, 900, 3, 0);
    later.now.written_real += 2 * SECOND;
    picture.take(seen(vec![later]));
    let values = values(&picture);
    let peer = &values["nodes"][0]["peers"][0];
    assert_eq!((&peer["name"], &peer["frames_per_s"]), (&"bob".into(), &200.0.into()), "{values}");
    let paths = [&peer["paths"][0], &peer["paths"][1]].map(|path| &path["frames_per_s"]);
    assert_eq!(paths.map(serde_json::Value::as_f64), [Some(0.0), Some(200.0)]);
    assert_eq!(values["nodes"][0]["losses"]["drop_duplicate"], 3);
    // A peer that was given up counts from nothing again.
    let mut anew = node(0, 5, 3, 0);
    anew.now.written_real += 4 * SECOND;
    picture.take(seen(vec![anew]));
    assert_eq!(picture.watch.of(&picture.seen.nodes[0]).of(99)[0], Carries::default());
}
