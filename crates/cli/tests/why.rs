//! `emp why` and its kin, beside real nodes: each case is named in one line.

mod lab_support;

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use emp_host::link::{UdpLink, UdpOptions};
use emp_host::{LinkAddress, LinkIndex, Node, NodeId, Selector, StateFile};
use lab_support::*;

/// Only a failing test waits so long.
const LONG: Duration = Duration::from_secs(30);

/// Tells a child what its node is called.
const CHILD: &str = "EMP_WHY_CHILD";

/// A node by UDP on the loopback interface.
fn node(name: &str) -> (Node, SocketAddr) {
    let bind = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let tag = NodeId::from_name(name).destination_tag();
    let link =
        UdpLink::open(&UdpOptions { bind, port: 0, ..UdpOptions::new(tag) }).expect("anyone may");
    let at = link.local_address();
    (Node::builder().name(name).link(link).state(StateFile::Own).start().expect("it starts"), at)
}

/// A name that no other test run has.
fn named(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

/// Not a test: what the others start, until its standard input ends.
#[test]
fn child() {
    let Ok(name) = std::env::var(CHILD) else { return };
    let (node, at) = node(&name);
    let _endpoint = node.endpoint(1).expect("opens");
    println!("at {at}");
    std::io::stdout().flush().expect("the test reads");
    // Bounded, should the test be killed with somebody else holding the pipe.
    std::thread::spawn(|| {
        std::thread::sleep(4 * LONG);
        std::process::exit(1);
    });
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// A node in a process of its own, which is killed with this.
struct Other {
    process: Child,
    at: SocketAddr,
}

impl Other {
    fn start(name: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "child", "--nocapture"])
            .env(CHILD, name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let at = lines
            .map_while(Result::ok)
            .find_map(|line| line.rsplit_once("at ").and_then(|(_, at)| at.trim().parse().ok()));
        Self { at: at.expect("it says where it is"), process }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Asks until the answer holds, which it does soon.
fn asked(arguments: &[&str], holds: impl Fn(&str) -> bool) -> String {
    let begin = Instant::now();
    loop {
        let output = run(arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && holds(&text) {
            return text;
        }
        assert!(begin.elapsed() < LONG, "{arguments:?}: {text}{}", stderr(&output));
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn one_line(text: &str) {
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
}

#[test]
fn a_stopped_rank_and_one_that_is_gone_are_named() {
    let (me, you) = (named("ya"), named("yb"));
    let mut other = Other::start(&you);
    let (a, _) = node(&me);
    let id = NodeId::from_name(&you);
    a.hint(id, LinkIndex(0), LinkAddress::udp(other.at));
    let from = a.endpoint(1).expect("opens");
    from.send_wait((you.as_str(), 1), 1, "hello", LONG).expect("delivered");
    let from_you = Selector { from: id, ..Selector::ANY };
    let _waits = from.receive(from_you, vec![0; 10]).expect("posted");

    let why = ["why", &you, "--node", &me];
    let text = asked(&why, |text| text.contains("has not sent"));
    one_line(&text);
    assert!(text.contains(&format!("it is {you}'s turn")), "{text}");

    signal(&other.process, "STOP");
    let text = asked(&why, |text| text.contains("is stopped by a signal"));
    one_line(&text);
    assert!(text.contains(&format!("kill -CONT {}", other.process.id())), "{text}");
    let text = asked(&["nodes", "--node", &you], |text| text.contains("stopped"));
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");

    // Gone without a goodbye: this host's kernel tells.
    let _ = other.process.kill();
    let _ = other.process.wait();
    let _sent = from.send((you.as_str(), 1), 2, "hello").expect("posted");
    let text = asked(&why, |text| text.contains("its process has ended"));
    one_line(&text);
    // Its file is removed by whoever looks.
    let line = mistake(&mut emp(&["nodes", "--node", &you]));
    assert!(line.contains("no node"), "{line}");
}

#[test]
fn two_versions_are_named() {
    let (me, you) = (named("va"), named("vb"));
    let (a, at) = node(&me);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let there = socket.local_addr().expect("an address");
    a.hint(NodeId::from_name(&you), LinkIndex(0), LinkAddress::udp(there));
    let from = a.endpoint(1).expect("opens");
    let _sent = from.send((you.as_str(), 1), 1, "hello").expect("posted");
    // What comes is sent back as a program of another version would have it: the version is the first three bits.
    let mut frame = [0; 2_000];
    socket.set_read_timeout(Some(LONG)).expect("a time");
    let (bytes, _) = socket.recv_from(&mut frame).expect("it asks there");
    let mut version = frame[..bytes].to_vec();
    version[0] ^= 0x80;
    // For everyone, or its link would take it for another node's.
    version[4..6].fill(0xff);
    for _ in 0..3 {
        socket.send_to(&version, at).expect("sent");
    }
    let text =
        asked(&["why", &you, "--node", &me], |text| text.contains("two versions are at work"));
    one_line(&text);
}

/// The interface that a path takes has no carrier any more.
#[test]
fn a_pulled_cable_is_named() {
    if !is_root() {
        return;
    }
    let (me, you) = (named("ca"), named("cb"));
    let test = std::env::current_exe().expect("this test");
    let (test, program) = (test.display(), env!("CARGO_BIN_EXE_emp"));
    // A node that looks for another by a cable that is then pulled; what it says is asked every 100 ms.
    let script = format!(
        "mkfifo $T/in; {CHILD}= EMP_WHY_SEEKER={me}:{you} {test} --exact seeker --nocapture <$T/in >$T/out & exec 9>$T/in
         for i in $(seq 300); do grep -q ready $T/out && break; sleep 0.1; done
         ip link set emp0 down
         for i in $(seq 300); do
             {program} why {you} --node {me} 2>&1 | grep 'interface emp0' && exit 0
             sleep 0.1
         done
         {program} why {you} --node {me}; exit 1"
    );
    let scratch = tempfile::tempdir().expect("a directory");
    let run = ["lab", "run", "--host", "emp-a", "sh", "-c", &script];
    let text = succeed(emp(&run).env("T", scratch.path()));
    one_line(&text);
    assert!(text.contains("is down") && text.contains("cannot reach"), "{text}");
}

/// Not a test: a node that looks for another on a lab's host, until its standard input ends.
#[test]
fn seeker() {
    let Ok(names) = std::env::var("EMP_WHY_SEEKER") else { return };
    let (me, you) = names.split_once(':').expect("two names");
    let tag = NodeId::from_name(me).destination_tag();
    let bind = Some("10.77.0.1".parse().expect("the lab's address"));
    let link =
        UdpLink::open(&UdpOptions { bind, port: 0, ..UdpOptions::new(tag) }).expect("anyone may");
    let node =
        Node::builder().name(me).link(link).state(StateFile::Own).start().expect("it starts");
    let there = SocketAddr::from((Ipv4Addr::new(10, 77, 0, 2), 9));
    node.hint(NodeId::from_name(you), LinkIndex(0), LinkAddress::udp(there));
    let from = node.endpoint(1).expect("opens");
    let _sent = from.send((you, 1), 1, "hello").expect("posted");
    println!("ready");
    std::io::stdout().flush().expect("the test reads");
    std::thread::spawn(|| {
        std::thread::sleep(4 * LONG);
        std::process::exit(1);
    });
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn tables_metrics_and_bad_input_are_as_the_manual_says() {
    let (me, you) = (named("ta"), named("tb"));
    let other = Other::start(&you);
    let (a, _) = node(&me);
    a.hint(NodeId::from_name(&you), LinkIndex(0), LinkAddress::udp(other.at));
    let from = a.endpoint(1).expect("opens");
    from.send_wait((you.as_str(), 1), 1, "hello", LONG).expect("delivered");
    let text = asked(&["peers", "--node", &me], |text| text.contains(&you) && text.contains("met"));
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let text = asked(&["route", &you, "--node", &me], |text| text.contains("udp"));
    assert!(text.contains(&other.at.to_string()), "{text}");
    asked(&["counters", "--node", &me], |text| text.contains("messages_sent"));
    let text =
        asked(&["metrics", "--node", &me], |text| text.contains("emp_peer_frames_lost_total"));
    assert!(
        text.contains("emp_frames_dropped_total{") && text.contains("reason=\"wrong_version\""),
        "{text}"
    );
    assert!(text.ends_with("# EOF\n"), "{text}");
    let text = asked(&["top", "--once", "--node", &me], |text| text.contains(&me));
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    for command in ["nodes", "peers", "counters"] {
        let text = succeed(&mut emp(&[command, "--json", "--node", &me]));
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert!(value.is_object());
    }
    let mine = succeed(&mut emp(&["nodes", "--json", "--node", &me]));
    let value: serde_json::Value = serde_json::from_str(&mine).expect("JSON");
    let file = value["nodes"][0]["file"].as_str().expect("its file").to_owned();

    let scratch = tempfile::tempdir().expect("a directory");
    let put = |name: &str, bytes: &[u8]| {
        let path = scratch.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path.display().to_string()
    };
    let whole = std::fs::read(&file).expect("it is mine");
    let mut newer = whole.clone();
    newer[8] = 77;
    for (path, says) in [
        (put("cut", &whole[..3_000]), "is cut"),
        (put("newer", &newer), "version 77"),
        (put("text", b"nothing of the kind"), "is no state file"),
        (scratch.path().join("none").display().to_string(), "can't be read"),
    ] {
        for command in ["nodes", "peers", "counters", "top"] {
            let arguments = if command == "top" { vec![command, "--once"] } else { vec![command] };
            let line = mistake(emp(&arguments).args(["--file", &path]));
            assert!(line.contains(says), "{line}");
        }
    }
    for arguments in
        [["why", "nobody-at-all"], ["route", "nobody-at-all"], ["nodes", "--node=nobody-at-all"]]
    {
        let line = mistake(&mut emp(&arguments));
        assert!(line.contains("nobody-at-all"), "{line}");
    }
    mistake(&mut emp(&["top"]).stdin(Stdio::null()));
}

/// Datagrams of one host are swallowed, TCP and raw frames get through.
#[test]
fn a_firewall_on_the_port_is_named() {
    if !is_root() {
        return;
    }
    let name = unique('w');
    let _cleanup = Cleanup(&name);
    succeed(&mut emp(&["lab", "up", "--name", &name, "--hosts", "2"]));
    let program = env!("CARGO_BIN_EXE_emp");
    let script = format!("ip rule add ipproto udp blackhole && exec {program} doctor --listen");
    let there = ["lab", "exec", "--name", &name, "emp-b", "--", "sh", "-c", &script];
    let mut other = emp(&there).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(other.stdout.take().expect("piped")).lines();
    let first = lines.next().and_then(Result::ok).unwrap_or_default();
    assert!(first.starts_with("listening on"), "{first}");
    let here =
        ["lab", "exec", "--name", &name, "emp-a", "--", program, "doctor", "--peer", "10.77.0.2"];
    let output = run(&[&here[..], &["--json"]].concat());
    let _ = other.kill();
    let _ = other.wait();
    assert!(output.status.success(), "{}", stderr(&output));
    let findings: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let find = |name: &str| {
        let all = findings.as_array().expect("a list");
        all.iter().find(|one| one["name"] == name).cloned().unwrap_or_default()
    };
    let udp = find("udp");
    let advice = udp["advice"].as_str().unwrap_or_default();
    assert!(udp["mark"] == "warn" && advice.contains("a firewall closes UDP port"), "{findings:#}");
    assert_eq!(find("version")["mark"], "ok");
    assert!(
        find("path")["value"].as_str().unwrap_or_default().starts_with("packet on emp0"),
        "{findings:#}"
    );
}

/// As many nodes as a large machine runs of one job; a job's ranks stand in order.
#[test]
fn a_job_of_256_ranks_is_listed_in_order() {
    use emp_state::place::Readers;
    use emp_state::{Identity, Now, Text, Writer};
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = scratch.path().join("own");
    let writers: Vec<Writer> = (0..256)
        .map(|rank| {
            let name = Text::new(&format!("rank-{rank}"));
            let identity = Identity {
                node: 1 + rank as u64,
                rank,
                ranks: 256,
                name,
                job: Text::new("77"),
                ..Identity::default()
            };
            let mut writer =
                Writer::create_in(&directory, &identity, Readers::Own).expect("a file");
            writer.publish(&Now { written: 1, ..Now::default() });
            writer
        })
        .collect();
    let begin = Instant::now();
    let text = succeed(emp(&["top", "--once"]).env("EMP_STATE_DIR", &directory));
    eprintln!("emp top --once of 256 nodes took {:?}", begin.elapsed());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 257, "{text}");
    for (rank, line) in lines[1..].iter().enumerate() {
        assert!(
            line.contains(&format!("{rank}/256")) && line.contains(&format!("rank-{rank} ")),
            "{line}"
        );
    }
    let bytes: u64 =
        writers.iter().map(|it| std::fs::metadata(it.path()).expect("it is there").len()).sum();
    assert_eq!(bytes, 256 * 16_384);
    assert_eq!(writers.len(), 256);
}
