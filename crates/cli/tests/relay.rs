//! `emp relay` as a program of an ordinary user who may send raw frames, on the hosts of a ring.

mod lab_support;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lab_support::*;

/// Far beyond what anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a program as an ordinary user with one capability.
const ORDINARY: [&str; 6] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=-all,+net_raw",
    "--ambient-caps=-all,+net_raw",
];

/// A program that says that it has begun.
struct Begun {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Begun {
    fn new(mut command: Command, says: &str) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(line.starts_with(says), "{line}");
        Self { child, output }
    }

    /// Asks it to end; what it says then.
    fn end(mut self) -> String {
        signal(&self.child, "TERM");
        let start = Instant::now();
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(start.elapsed() < PATIENCE, "it does not end"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(status.success(), "{status}");
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `RELAY-3`, `RELAY-7`: opposite corners of a ring exchange messages through a relay that an ordinary user runs; it says what it sent on,
/// and that is most of it, as its end shows.
#[test]
fn opposite_corners_talk_through_a_program_that_ends_when_it_is_told() {
    if !is_root() {
        return;
    }
    let name = unique('r');
    let _cleanup = Cleanup(&name);
    let shape = ["--hosts", "4", "--topology", "ring", "--no-relays"];
    succeed(emp(&["lab", "up", "--name", &name]).args(shape));
    // Where everyone may run it.
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = place.path().join("emp");
    fs::copy(env!("CARGO_BIN_EXE_emp"), &program).unwrap();
    let inside = |host: &str, before: &[&str], arguments: &[&str]| {
        let mut command = emp(&["lab", "exec", "--name", &name, host, "--"]);
        command.args(before).arg(&program).args(arguments);
        command
    };
    let relay =
        |host: &str| Begun::new(inside(host, &ORDINARY, &["relay"]), "relays between emp0, emp1");
    let listener = inside("emp-c", &[], &["bench", "listen"]);
    let _listener = Begun::new(listener, "listening on");
    let verify = || {
        let arguments = ["bench", "verify", "emp-c", "--link", "packet", "--seconds", "0.5"];
        inside("emp-a", &[], &arguments)
    };
    let alone = mistake(&mut verify());
    assert!(alone.contains("no relay leads from one to the other"), "{alone}");

    let relays = [relay("emp-b"), relay("emp-d")];
    let printed = succeed(&mut verify());
    assert!(printed.contains("every byte right"), "{printed}");
    let said = relays.map(Begun::end);
    let frames = |said: &String| -> u64 {
        let last = said.lines().last().unwrap_or_default();
        assert!(last.ends_with("searches between emp0, emp1"), "{said}");
        last.split(' ').next().unwrap().parse().unwrap()
    };
    let sent_on: u64 = said.iter().map(frames).sum();
    assert!(sent_on > 100, "{said:?}");
    let neighbour = |line: &str| line.contains(" on emp") && line.contains("frames, ");
    assert!(said.iter().any(|said| said.lines().any(neighbour)), "{said:?}");

    // Started again they go on, and the lab takes them along.
    let _relays = [relay("emp-b"), relay("emp-d")];
    succeed(&mut verify());
    let line = mistake(&mut inside("emp-b", &[], &["relay", "--interfaces", "emp0,nosuch0"]));
    assert!(line.contains("nosuch0"), "{line}");
    let line = mistake(&mut inside("emp-b", &ORDINARY[..4], &["relay"]));
    assert!(line.contains("CAP_NET_RAW"), "{line}");
}

/// A lab's hosts with several cables have relays, which end with it; hosts of a switch have none.
#[test]
fn a_lab_of_cables_has_relays_and_takes_them_away() {
    if !is_root() {
        return;
    }
    let name = unique('s');
    let _cleanup = Cleanup(&name);
    let up = ["lab", "up", "--name", &name, "--hosts", "3", "--topology"];
    for (topology, relays) in [("line", 1), ("switch", 0)] {
        succeed(emp(&up).arg(topology));
        let down = succeed(&mut emp(&["lab", "down", "--name", &name]));
        assert_eq!(down.contains("1 process that ran inside was ended"), relays == 1, "{down}");
        let left = fs::read_dir("/run/emp").unwrap().flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        let ours = format!("lab-{name}.");
        assert!(!left.iter().any(|file| file.to_string_lossy().starts_with(&ours)), "{left:?}");
    }
}
