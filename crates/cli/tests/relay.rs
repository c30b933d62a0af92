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

/// A cable that is put into another plug of the relay's host, and an interface that is renamed: the relay's links are those of the same interfaces,
/// and no second ones come beside them.
#[test]
fn a_relay_follows_its_interfaces_to_other_names() {
    if !is_root() {
        return;
    }
    let name = unique('v');
    let _cleanup = Cleanup(&name);
    let shape = ["--hosts", "4", "--topology", "ring", "--no-relays"];
    succeed(emp(&["lab", "up", "--name", &name]).args(shape));
    let inside = |host: &str, arguments: &[&str]| {
        let mut command = emp(&["lab", "exec", "--name", &name, host, "--"]);
        command.arg(env!("CARGO_BIN_EXE_emp")).args(arguments);
        command
    };
    let _listener = Begun::new(inside("emp-c", &["bench", "listen"]), "listening on");
    let relay = Begun::new(inside("emp-b", &["relay"]), "relays between emp0, emp1");
    let verify = || {
        let arguments = ["bench", "verify", "emp-c", "--link", "packet", "--seconds", "0.5"];
        let printed = succeed(&mut inside("emp-a", &arguments));
        assert!(printed.contains("every byte right"), "{printed}");
    };
    verify();
    succeed(&mut emp(&["lab", "cable", "move", "emp-b:emp1", "emp-b:emp2", "--name", &name]));
    // All looks for new interfaces but the last ones, which are seconds apart.
    std::thread::sleep(Duration::from_secs(2));
    verify();
    let ip = |line: &str| {
        let mut command = Command::new("ip");
        let output = command.args(["-n", &format!("emp-{name}-b")]).args(line.split_whitespace());
        let output = output.output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    // The test's own connection goes by the kernel's routes, which an interface that is down loses.
    let routes = ip("route show");
    ip("link set emp2 down");
    ip("link set emp2 name eth7");
    ip("link set eth7 up");
    for route in routes.lines().filter(|route| route.contains("dev emp2")) {
        ip(&format!("route replace {}", route.replace("dev emp2", "dev eth7")));
    }
    std::thread::sleep(Duration::from_secs(2));
    verify();
    let said = relay.end();
    let neighbours = said.lines().filter(|line| line.contains("frames, ")).count();
    assert_eq!(neighbours, 2, "each neighbour by one link: {said}");
    let cut = said.lines().find_map(|line| line.strip_prefix("drop_hop_cut: "));
    assert!(cut.is_none_or(|count| count.parse().is_ok_and(|count: u64| count < 100)), "{said}");
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
