//! What a node says aloud, to standard error as `EMP_LOG` asks for it.

mod common;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{LONG, impatient, on};
use emp_host::{Board, CompletionMode, Endpoint, Selector, SendOptions};
use emp_link::Fabric;

/// Set in the process whose lines a test reads.
const CHILD: &str = "EMP_TEST_JOURNAL";

fn say(from: &Endpoint, to: &Endpoint, bits: u64) {
    let receive = to.receive(Selector::bits(bits), vec![0; 5]).unwrap();
    let delivered = SendOptions::default().completion(CompletionMode::Delivered);
    let mut sent = from.send_with(to.address(), bits, "hello", delivered).unwrap();
    receive.wait(LONG).unwrap();
    let start = Instant::now();
    while !sent.test() && start.elapsed() < LONG {
        // The acknowledgement leaves.
        to.node().progress();
    }
    sent.wait(LONG).unwrap();
}

/// Not a test of its own: a node that meets, loses and finds a peer, and leaves with a message undelivered.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let fabric = Fabric::new(2).expect("descriptors");
    let a = on(&fabric, 0, "a").profile(impatient(Duration::from_millis(100)));
    let a = a.linger(Duration::from_millis(1)).start().expect("the node starts");
    // It only runs when it is told to.
    let b = on(&fabric, 1, "b").board(Board::Inline { guardian: false }).start().expect("starts");
    let (from, to) = (a.endpoint(1).unwrap(), b.endpoint(1).unwrap());
    say(&from, &to, 1);
    from.send_wait(to.address(), 2, vec![0u8; 10], LONG).expect_err("b does not run");
    // What came meanwhile is of a pair that was given up.
    b.progress();
    say(&from, &to, 3);
    let buffered = SendOptions::default().completion(CompletionMode::Buffered);
    from.send_wait_with(("ghost", 1), 0, "x", buffered, LONG).unwrap();
}

/// The lines of such a process, with this wish.
fn lines(wish: Option<&str>) -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().expect("it has a path"));
    command.args(["child", "--exact", "--nocapture"]).env(CHILD, "1").stdout(Stdio::null());
    match wish {
        Some(wish) => command.env("EMP_LOG", wish),
        None => command.env_remove("EMP_LOG"),
    };
    let ended = command.output().expect("it starts");
    let text = String::from_utf8(ended.stderr).expect("text");
    assert!(ended.status.success(), "{text}");
    text.lines().map(str::to_owned).collect()
}

/// The level, the node and the text of a line; it also has the process and the time.
fn parts(line: &str) -> (&str, &str, &str) {
    let rest = line.strip_prefix("emp[").expect(line);
    let (process, rest) = rest.split_once("] ").expect(line);
    assert!(process.parse::<u32>().is_ok(), "{line}");
    let (seconds, rest) = rest.split_once(' ').expect(line);
    assert!(seconds.parse::<f64>().is_ok_and(|seconds| seconds >= 0.0), "{line}");
    let (level, rest) = rest.split_once(' ').expect(line);
    let (node, text) = rest.split_once(": ").expect(line);
    (level, node, text)
}

#[test]
fn everything_is_said_to_who_asks() {
    let lines = lines(Some("info"));
    let told = |level, node, start: &str| {
        let count = lines
            .iter()
            .map(|line| parts(line))
            .filter(|(l, n, text)| (*l, *n) == (level, node) && text.starts_with(start));
        count.count()
    };
    assert_eq!(told("info", "a", "peer b is at #1 by sim on "), 1, "{lines:#?}");
    assert_eq!(
        told("warn", "a", "peer b is lost: nothing was heard of it for 0."),
        1,
        "{lines:#?}"
    );
    let lost = lines.iter().find(|line| line.contains("is lost")).expect("counted above");
    assert!(lost.contains(" s, last at #1 by sim"), "{lost}");
    assert_eq!(told("warn", "a", "peer b is back, at #1 by sim"), 1, "{lines:#?}");
    assert_eq!(told("info", "a", "counters: frames_sent "), 1, "{lines:#?}");
    assert_eq!(told("info", "a", "counters of sim on "), 1, "{lines:#?}");
    assert_eq!(told("info", "b", "peer a is at #0 by sim on "), 1, "{lines:#?}");
    assert!(told("info", "b", "peer a has closed its node") + told("info", "b", "counters: ") >= 1);
    let counts = lines.iter().filter(|line| line.contains(": counters"));
    let zero = counts
        .filter_map(|line| line.rsplit_once(": "))
        .any(|(_, counts)| counts.split(", ").any(|count| count.ends_with(" 0")));
    assert!(!zero, "what was not counted is not told: {lines:#?}");
    assert_eq!(told("error", "a", "the node was closed with 1 messages"), 1, "{lines:#?}");
}

#[test]
fn who_says_nothing_hears_of_lost_messages_only() {
    let lines = lines(None);
    let [line] = &lines[..] else { panic!("{lines:#?}") };
    let (level, node, text) = parts(line);
    assert_eq!((level, node), ("error", "a"));
    assert!(text.contains("1 to node ghost: not acknowledged in time"), "{text}");
    assert_eq!(self::lines(Some("off")), Vec::<String>::new());
}

#[test]
fn losses_are_warnings() {
    let lines = lines(Some("warn"));
    let levels: Vec<_> = lines.iter().map(|line| parts(line).0).collect();
    // a loses b and finds it again, which b takes for a restart; and what was not delivered.
    assert_eq!(levels, ["warn", "warn", "warn", "error"], "{lines:#?}");
}

#[test]
fn a_wish_that_makes_no_sense_is_said() {
    let lines = lines(Some("loud"));
    let told = |line: &&String| line.contains("EMP_LOG=loud: must be off, error, warn or info");
    assert_eq!(lines.iter().filter(told).count(), 2, "once a node: {lines:#?}");
}
