//! `emp bench` in a mesh and in a ring, where hosts keep one address however many cables they have, and between ends that
//! may not use the same links: what `auto` takes there, and what it says.

mod lab_support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use lab_support::*;

/// Options that keep a measurement short; its figures do not matter here.
const SHORT: [&str; 6] = ["--seconds", "0.03", "--runs", "3", "--sizes", "32,64K"];

const EMP: &str = env!("CARGO_BIN_EXE_emp");

/// What a process of root without capabilities is called by.
const PLAIN: [&str; 3] = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];

/// A lab and a listener in one of its hosts.
struct Lab<'a> {
    name: &'a str,
    listener: Child,
}

impl Drop for Lab<'_> {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.listener.kill();
        let _ = self.listener.wait();
    }
}

impl<'a> Lab<'a> {
    fn new(name: &'a str, shape: &[&str], host: &str, before: &[&str]) -> Self {
        succeed(emp(&["lab", "up", "--name", name]).args(shape));
        let mut command = emp(&["lab", "exec", "--name", name, host, "--"]);
        command.args(before).args([EMP, "bench", "listen"]);
        let mut listener = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut greeting = String::new();
        BufReader::new(listener.stdout.take().unwrap()).read_line(&mut greeting).unwrap();
        assert!(greeting.starts_with("listening on"), "{greeting}");
        Self { name, listener }
    }

    fn pingpong(&self, before: &[&str], peer: &str, more: &[&str]) -> Command {
        let mut command = emp(&["lab", "exec", "--name", self.name, "emp-a", "--"]);
        command.args(before).args([EMP, "bench", "pingpong", peer]).args(SHORT).args(more);
        command
    }

    /// What it printed and what it noted.
    fn measured(&self, before: &[&str], peer: &str, more: &[&str]) -> (String, String) {
        let output = self.pingpong(before, peer, more).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output))
    }
}

#[test]
fn neighbours_of_a_mesh_and_of_a_ring_take_their_cable() {
    if !is_root() {
        return;
    }
    for (letter, topology) in [('u', "mesh"), ('v', "ring")] {
        let name = unique(letter);
        let _cleanup = Cleanup(&name);
        let lab = Lab::new(&name, &["--hosts", "3", "--topology", topology], "emp-b", &[]);
        for (link, says) in [("auto", "packet+udp"), ("packet", "packet"), ("udp", "udp")] {
            let (printed, noted) = lab.measured(&[], "emp-b", &["--link", link, "--vs", "raw,tcp"]);
            let line = printed.lines().find(|line| line.contains(" emp ")).unwrap_or_default();
            let told = line.split_whitespace().any(|word| word == says);
            assert!(told, "{topology}, {link}: {printed}");
            assert!(!noted.contains("note: auto"), "{noted}");
        }
    }
}

#[test]
fn of_two_cables_both_ends_take_the_same_whatever_their_routes() {
    if !is_root() {
        return;
    }
    let name = unique('w');
    let _cleanup = Cleanup(&name);
    let lab = Lab::new(&name, &["--hosts", "3", "--topology", "mesh"], "emp-b", &[]);
    let (a, b) = (format!("emp-{name}-a"), format!("emp-{name}-b"));
    // There by the cable of the lab, back by another one.
    for line in [
        format!("-n {a} link add other0 type veth peer name other0 netns {b}"),
        format!("-n {a} link set other0 up"),
        format!("-n {b} link set other0 up"),
        format!("-n {a} address add 10.99.0.1/30 dev other0"),
        format!("-n {b} address add 10.99.0.2/30 dev other0"),
        format!("-n {b} route replace 10.77.0.1/32 via 10.99.0.1 src 10.77.0.2"),
    ] {
        succeed(Command::new("ip").args(line.split(' ')));
    }
    let (printed, _) = lab.measured(&[], "emp-b", &["--link", "packet"]);
    assert!(printed.contains("packet"), "{printed}");
}

#[test]
fn hosts_behind_a_router_are_reached_by_udp_and_the_reason_is_told() {
    if !is_root() {
        return;
    }
    let name = unique('x');
    let _cleanup = Cleanup(&name);
    let shape = ["--hosts", "4", "--topology", "ring", "--no-relays"];
    let lab = Lab::new(&name, &shape, "emp-c", &[]);
    let (printed, noted) = lab.measured(&[], "emp-c", &["--vs", "tcp"]);
    assert!(printed.contains("udp") && !printed.contains("packet"), "{printed}");
    let told: Vec<_> = noted.lines().filter(|line| line.starts_with("note: auto")).collect();
    assert_eq!(told.len(), 1, "{noted}");
    assert!(
        told[0].contains("auto takes udp only: ") && told[0].contains("is a router"),
        "{noted}"
    );
    let line = mistake(&mut lab.pingpong(&[], "emp-c", &["--link", "packet"]));
    assert!(line.contains("no relay"), "{line}");
}

#[test]
fn where_one_end_may_not_send_raw_frames_both_take_udp() {
    if !is_root() {
        return;
    }
    for (letter, listener, client) in [('y', &PLAIN[..], &[][..]), ('z', &[], &PLAIN)] {
        let name = unique(letter);
        let _cleanup = Cleanup(&name);
        let lab = Lab::new(&name, &[], "emp-b", listener);
        let (printed, noted) = lab.measured(client, "emp-b", &["--vs", "raw,tcp"]);
        assert!(printed.contains("udp") && !printed.contains("packet"), "{printed}");
        assert!(noted.contains("note: auto takes udp only: "), "{noted}");
        assert!(noted.contains("CAP_NET_RAW"), "{noted}");
        let line = mistake(&mut lab.pingpong(client, "emp-b", &["--link", "packet"]));
        assert!(line.contains("CAP_NET_RAW") && line.contains("--link udp is"), "{line}");
    }
}
