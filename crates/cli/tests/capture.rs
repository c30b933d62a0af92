//! `emp capture` looks on while others talk, bounds what it writes, and says in one line what it could not do.

mod lab_support;

use std::fs;
use std::process::{Child, Command, Stdio};

use lab_support::*;

/// Two ends talk on a loopback of their own; one capture ends by itself, another finds its disk full, as does that of one of the ends itself.
const SCRIPT: &str = r#"
    set -eu
    emp=$1 place=$2
    ip link set lo up
    mount -t tmpfs -o size=64k none "$place/full"
    mount -t tmpfs -o size=64k none "$place/tight"
    "$emp" capture -i lo --any-port --frames 150 --seconds 60 "$place/lo.pcapng" >"$place/lo.said" & first=$!
    status=0
    { "$emp" capture -i lo --any-port --seconds 60 "$place/full/x.pcapng" 2>"$place/full.said" || echo $? >"$place/full.status"; } & second=$!
    "$emp" capture -i lo --any-port --limit 20K --seconds 60 "$place/limit.pcapng" >"$place/limit.said" & third=$!
    "$emp" capture -i lo --port 9 --seconds 3 "$place/other.pcapng" >"$place/other.said" & fourth=$!
    until [ -s "$place/lo.pcapng" ] && [ -s "$place/full/x.pcapng" ] && [ -s "$place/limit.pcapng" ] && [ -s "$place/other.pcapng" ]; do sleep 0.05; done
    "$emp" bench listen >/dev/null 2>&1 & listener=$!
    tries=0
    until "$emp" bench pingpong 127.0.0.1 --link udp --sizes 1000 >"$place/bench.said" 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || { cat "$place/bench.said" >&2; exit 1; }
        sleep 0.1
    done
    EMP_CAPTURE="$place/tight/within.pcapng" "$emp" bench pingpong 127.0.0.1 --link udp --sizes 1000 >"$place/within.said" 2>&1
    kill $listener
    wait $first $second $third $fourth
    cp "$place/full/x.pcapng" "$place/full.pcapng"
    "$emp" trace "$place/tight/within.pcapng" >"$place/within.sqlog"
    cp "$place/tight/within.pcapng" "$place/within.pcapng"
"#;

/// Packets of a capture, which ends with a whole block.
fn packets(file: &[u8]) -> usize {
    emp_testing::pcapng::packets(file).len()
}

#[test]
fn it_looks_on_within_its_bounds() {
    if !is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for name in ["full", "tight"] {
        fs::create_dir(path(name)).unwrap();
    }
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "sh", "-c", SCRIPT, "sh", env!("CARGO_BIN_EXE_emp")]);
    succeed(command.arg(directory.path()));
    let said = |name: &str| fs::read_to_string(path(name)).unwrap();
    let file = |name: &str| fs::read(path(name)).unwrap();

    assert!(said("lo.said").contains("lo.pcapng: 150 frames, "), "{}", said("lo.said"));
    assert!(said("lo.said").contains("the kernel dropped 0"), "{}", said("lo.said"));
    assert_eq!(packets(&file("lo.pcapng")), 150);

    let full = said("full.said");
    assert!(full.contains("No space left on device") && full.lines().count() == 1, "{full}");
    assert_eq!(said("full.status").trim(), "1");
    assert!((10..1000).contains(&packets(&file("full.pcapng"))), "whole frames up to the end");

    // From within: the program runs on, its log says so once, and what there was room for are whole frames.
    let within = packets(&file("within.pcapng"));
    assert!((10..1000).contains(&within), "{within}");
    let why = "within.pcapng: No space left on device";
    assert_eq!(said("within.said").matches(why).count(), 1, "{}", said("within.said"));
    // The same as qlog: text sequences, each a record separator, JSON and a line feed; the first says what they are.
    let trace = said("within.sqlog");
    let records: Vec<&str> = trace.split('\u{1E}').skip(1).collect();
    let json = |text: &&str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    let events: Vec<_> = records.iter().map(json).collect();
    assert!(trace.starts_with('\u{1E}') && records.iter().all(|text| text.ends_with('\n')));
    assert_eq!(events[0]["file_schema"], "urn:ietf:params:qlog:file:sequential");
    let named = |name: &str| events.iter().filter(|event| event["name"] == name).count();
    assert!(named("emp:frame_sent") > 3 && named("emp:frame_received") > 3, "{trace}");
    assert!(events.len() > within, "an event for each frame, of which a packet may have several");

    assert!(said("limit.said").contains("it is full (20480 bytes"), "{}", said("limit.said"));
    assert!(file("limit.pcapng").len() <= 20480 && packets(&file("limit.pcapng")) > 5);
    assert!(said("other.said").contains(": 0 frames"), "{}", said("other.said"));

    let check = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/dissector/check.py");
    let mut check = Command::new(check);
    check.args(["--mutants", "0"]).arg(path("lo.pcapng"));
    if Command::new("tshark").arg("--version").output().is_err() {
        return skip(Need::Tshark, "tshark is not installed");
    }
    // Some packets hold several.
    assert!(succeed(&mut check).contains(" frames of "));
}

/// Ended with its test, by a signal that it ends a file for.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Not by an interrupt, which programs in the background of a shell ignore, and pass on that they do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A run of two hosts under loss, seen from outside where frames arrive, and from within a node: the dissector understands all frames of both. What
/// the node loses before the cable is seen from within alone, as is that it is sent again.
#[test]
fn a_run_under_loss_is_understood_from_outside_and_from_within() {
    const PACKETS: &str = "3000";
    if !is_root() {
        return;
    }
    if Command::new("tshark").arg("--version").output().is_err() {
        return skip(Need::Tshark, "tshark is not installed");
    }
    let directory = tempfile::tempdir().unwrap();
    let [outside, within] =
        ["outside.pcapng", "within.pcapng"].map(|name| directory.path().join(name));
    let lab = format!("c{}", unique('v'));
    succeed(&mut emp(&["lab", "up", "--name", &lab]));
    let inside = |host: &str| {
        let mut command =
            emp(&["lab", "exec", "--name", &lab, host, "--", env!("CARGO_BIN_EXE_emp")]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    {
        // Where frames arrive: those that leave by a ring pass by the taps.
        let mut looks = inside("emp-b");
        looks.args(["capture", "-i", "emp0", "--any-port", "--seconds", "60", "--frames", PACKETS]);
        let mut looks = Running(looks.arg(&outside).spawn().expect("it starts"));
        wait_until("it looks on", || fs::metadata(&outside).is_ok_and(|file| file.len() > 0));
        let _listener =
            Running(inside("emp-b").args(["bench", "listen"]).spawn().expect("it starts"));
        let verify =
            ["bench", "verify", "emp-b", "--link", "packet", "--loss", "0.01", "--seconds", "1"];
        wait_until("a run is right", || {
            let mut run = inside("emp-a");
            run.args(verify).env("EMP_CAPTURE", &within);
            run.status().expect("emp runs").success()
        });
        looks.0.wait().expect("it has as many frames as it wants");
    }
    run(&["lab", "down", "--name", &lab]);
    let check = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/dissector/check.py");
    let mut check = Command::new(check);
    check.args(["--mutants", "0", "--packets", PACKETS]).args([&outside, &within]);
    let said = succeed(&mut check);
    assert!(said.contains("outside.pcapng"), "{said}");
    let again = |file: &str| -> u64 {
        let line = said.lines().find(|line| line.contains(file)).expect("it was looked at");
        let count = line.split(", ").last().and_then(|end| end.split(' ').next());
        count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{line}"))
    };
    assert!(again("within.pcapng") > 0, "{said}");
}

#[test]
fn mistakes_are_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let file = file.to_str().unwrap();
    for (arguments, word) in [
        (&["--interface", "nosuch", file][..], "no such interface"),
        (&["--interface", "lo", "--node", "0xzz", file], "--node 0xzz"),
        (&["--interface", "lo", "--ethertype", "12", file], "EtherType"),
        (&["--interface", "lo", "--limit", "0", file], "size `0`"),
        (&["--interface", "lo", "--port", "1", "--any-port", file], "--any-port"),
        (&[file], "--interface"),
    ] {
        let line = mistake(emp(&["capture"]).args(arguments));
        assert!(line.contains(word), "{line}");
    }
    if is_root() {
        let line = mistake(emp(&["capture", "-i", "lo"]).arg("/nowhere/x.pcapng"));
        assert!(line.contains("/nowhere/x.pcapng: No such file"), "{line}");
    }
}
