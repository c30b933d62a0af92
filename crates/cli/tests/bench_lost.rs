//! `emp bench` with an end that is silent, ends or is killed: the other one says so, soon.

mod lab_support;
mod listener_support;

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab_support::*;
use listener_support::Listener;

/// EMP itself needs 5 s to find that a peer is gone. An end that ended is known to have ended much sooner; so late only on
/// a machine that is busy with other things.
const SOON: Duration = Duration::from_secs(4);

/// A run that lasts until something happens to it.
fn long_run(pattern: &str, peer: &str) -> Command {
    let mut command = emp(&["bench", pattern, peer, "--seconds", "60"]);
    if pattern != "verify" {
        command.args(["--runs", "1", "--sizes", "64"]);
    }
    command
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = server.local_addr().unwrap().to_string();
    let start = Instant::now();
    let line = mistake(&mut emp(&["bench", "pingpong", &at]));
    let took = start.elapsed().as_secs();
    assert!(line.contains(&format!("{at} did not answer in 5 s")), "{line}");
    assert!((4..15).contains(&took), "took {took} s");
}

#[test]
fn a_client_that_says_nothing_is_told_of_in_words() {
    let mut child = emp(&["bench", "listen", "--bind", "127.0.0.1", "--port", "0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut greeting = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut greeting).unwrap();
    let client = TcpStream::connect(greeting.trim().rsplit(' ').next().unwrap()).unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let from = client.local_addr().unwrap();
    assert_eq!(said, format!("emp: {from}: the other end said nothing for 5 s\n"));
}

#[test]
fn a_listener_that_is_killed_in_a_run_is_missed_at_once() {
    for pattern in ["pingpong", "stream", "bidir", "put", "verify"] {
        let mut listener = Listener::start();
        let mut command = long_run(pattern, listener.address());
        let client = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        // It connects within milliseconds, on a machine that is busy with other things too; later it is still at it.
        sleep(Duration::from_millis(1500));
        listener.kill();
        let start = Instant::now();
        let output = client.wait_with_output().unwrap();
        let said = stderr(&output);
        assert!(start.elapsed() < SOON, "{pattern}: {:?}", start.elapsed());
        assert_eq!(output.status.code(), Some(1), "{pattern}: {said}");
        let last = said.lines().last().unwrap_or_default();
        let told = "emp: the other end has ended: its connection is closed";
        assert_eq!(last, told, "{pattern}: {said}");
    }
}

#[test]
fn a_client_that_is_killed_in_a_run_makes_room_for_the_next_one() {
    for pattern in ["pingpong", "rate", "get", "verify"] {
        let listener = Listener::start();
        let mut command = long_run(pattern, listener.address());
        let mut client = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        sleep(Duration::from_millis(700));
        client.kill().unwrap();
        client.wait().unwrap();
        let start = Instant::now();
        let short = ["--seconds", "0.01", "--runs", "1", "--sizes", "8", "--link", "udp"];
        succeed(emp(&["bench", "pingpong", listener.address()]).args(short));
        assert!(start.elapsed() < SOON, "{pattern}: {:?}", start.elapsed());
    }
}

#[test]
fn a_listener_that_is_stopped_in_a_run_is_named_once_and_plainly() {
    let listener = Listener::start();
    let mut command = long_run("pingpong", listener.address());
    let client = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    sleep(Duration::from_millis(1500));
    listener.signal("STOP");
    let output = client.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("emp: ") && last.contains(" node bench 127.0.0.1 "), "{said}");
    assert!(!last.contains("EMP: "), "{said}");
}
