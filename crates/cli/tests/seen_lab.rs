//! What holds a run up, named in one line by `emp why` or `emp doctor --peer`: nodes on the hosts of a lab, to which it happens.

mod lab_support;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use emp_host::{AutoLinks, Board, Node, NodeId, Selector, Want};
use lab_support::*;

/// What an inhabitant is to be: its name, then whom it sends to if it sends, then at which address that is looked for by UDP alone.
const ROLE: &str = "EMP_TEST_INHABITANT";

/// Where its engine is, by name; not set: in its own process.
const BOARD: &str = "EMP_TEST_BOARD";

/// An inhabitant ends by itself after so long, whatever becomes of its test.
const LIFE: Duration = Duration::from_secs(120);

/// For programs to start: a node that sends a message after the other, or receives. After an error it stays, as a program does that waits for others.
#[test]
fn inhabitant() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let auto = match words.get(2) {
        Some(at) => AutoLinks {
            want: Want::Udp,
            udp_bind: Some([127, 0, 0, 1].into()),
            udp_port: 0,
            udp_peers: vec![at.parse().expect("an address")],
            ..AutoLinks::default()
        },
        None => {
            AutoLinks { interfaces: vec!["emp0".into()], memory: false, ..AutoLinks::default() }
        }
    };
    let board = std::env::var(BOARD).map_or(Ok(Board::default()), |name| Board::named(&name));
    let builder = Node::builder().name(words[0]).auto_links(auto).unreachable_after(LIFE);
    let node = builder.board(board.expect("there is one")).start().expect("it starts");
    // As the faces tell their nodes of what a launcher says, so that the host of a silent peer is asked whether its process is there.
    let to = (format!("emp-{}", words.get(1).unwrap_or(&"a")), emp_wire::UDP_PORT_DEFAULT);
    if let ([_, peer], Ok(mut places)) = (words.as_slice(), to.to_socket_addrs()) {
        let place = places.next().expect("a host has an address");
        node.takes_datagrams_at(NodeId::from_name(peer), place);
    }
    let endpoint = node.endpoint(1).expect("an endpoint");
    let end = Instant::now() + LIFE;
    while Instant::now() < end {
        let done = match words.get(1) {
            Some(peer) => endpoint.send_wait((*peer, 1), 1, "hello", LIFE).is_ok(),
            None => endpoint
                .receive(Selector::bits(1), vec![0; 100])
                .is_ok_and(|request| request.wait(LIFE).is_ok()),
        };
        let pause = if done { Duration::from_millis(1) } else { LIFE };
        std::thread::sleep(pause.min(end.saturating_duration_since(Instant::now())));
    }
}

/// Ended with its test.
struct Inhabitant(Child);

impl Drop for Inhabitant {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes it an inhabitant whose state file is in this directory.
fn inhabit(command: &mut Command, state: &Path, role: &str) -> Inhabitant {
    let command = command.args(["--exact", "inhabitant", "--nocapture"]).env(ROLE, role);
    let command = command.env("EMP_STATE_DIR", state).stdout(Stdio::null());
    Inhabitant(command.spawn().expect("it starts"))
}

/// Two hosts and a cable. Each has state files of its own, as two machines have.
struct Lab {
    name: String,
    state: tempfile::TempDir,
}

impl Lab {
    fn up(letter: char, more: &[&str]) -> Option<Self> {
        if !is_root() {
            return None;
        }
        let name = format!("w{}", unique(letter));
        succeed(emp(&["lab", "up", "--name", &name]).args(more));
        // Where a service writes as well.
        let state = tempfile::tempdir_in("/dev/shm").expect("a directory");
        Some(Self { name, state })
    }

    fn inside(&self, host: &str) -> Command {
        emp(&["lab", "exec", "--name", &self.name, host, "--"])
    }

    fn states(&self, host: &str) -> PathBuf {
        self.state.path().join(host)
    }

    /// A node on a host, `a` on emp-a, as `role` says.
    fn start(&self, role: &str) -> Inhabitant {
        self.start_on(role, "inline")
    }

    /// The same, with its engine on this board.
    fn start_on(&self, role: &str, board: &str) -> Inhabitant {
        let host = format!("emp-{}", &role[..1]);
        let mut command = self.inside(&host);
        command.arg(std::env::current_exe().expect("it has a path")).env(BOARD, board);
        inhabit(&mut command, &self.states(&host), role)
    }

    /// What `emp why PEER` says on a host.
    fn why(&self, host: &str, peer: &str) -> String {
        why(&self.states(host), peer)
    }

    /// a sends to b, and they have met.
    fn talking(&self) -> [Inhabitant; 2] {
        self.met([self.start("b"), self.start("a b")])
    }

    fn met(&self, both: [Inhabitant; 2]) -> [Inhabitant; 2] {
        for host in ["emp-a", "emp-b"] {
            wait_until("each shows that it has met the other", || {
                let output =
                    emp(&["peers", "--json"]).env("EMP_STATE_DIR", self.states(host)).output();
                let text = String::from_utf8_lossy(&output.expect("emp runs").stdout).into_owned();
                text.contains("\"met\"")
            });
        }
        both
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        run(&["lab", "down", "--name", &self.name]);
    }
}

fn why(state: &Path, peer: &str) -> String {
    let output = emp(&["why", peer]).env("EMP_STATE_DIR", state).output().expect("emp runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Waits until `emp why` says this, all in one line.
fn says(look: impl Fn() -> String, all: &[&str]) {
    let (mut last, mut looks) = (String::new(), 0);
    let begin = Instant::now();
    // Far longer than it takes; a busy machine tells later of processes and carriers.
    while begin.elapsed() < Duration::from_secs(30) {
        (last, looks) = (look(), looks + 1);
        if last.lines().count() == 1 && all.iter().all(|part| last.contains(part)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("it says {last:?} and not {all:?}, after {looks} looks");
}

#[test]
fn a_process_under_sigstop_is_named() {
    let Some(lab) = Lab::up('s', &[]) else { return };
    let [b, _a] = lab.talking();
    signal(&b.0, "STOP");
    // From the other host it is known that nothing is heard.
    let elsewhere =
        ["a waits since", "of b, of which nothing was heard for", "its process is stopped"];
    says(|| lab.why("emp-a", "b"), &elsewhere);
    // On its own host, why its peer has no answer of it.
    let process = b.0.id();
    let stopped = format!("process {process} of b is stopped by a signal: kill -CONT {process}");
    says(|| lab.why("emp-b", "a"), &["b waits for nobody", &stopped]);
    let nodes = succeed(emp(&["nodes"]).env("EMP_STATE_DIR", lab.states("emp-b")));
    assert!(nodes.contains("stopped"), "{nodes}");
    signal(&b.0, "CONT");
}

/// What a program whose engine is in the service shows, its engine writes, which goes on.
#[test]
fn a_stopped_process_whose_engine_goes_on_is_named() {
    let Some(lab) = Lab::up('e', &["--empd"]) else { return };
    let [b, _a] = lab.met([lab.start_on("b", "daemon"), lab.start("a b")]);
    signal(&b.0, "STOP");
    let process = b.0.id();
    let stopped = format!("process {process} of b is stopped by a signal: kill -CONT {process}");
    says(|| lab.why("emp-b", "a"), &["b waits for nobody", &stopped]);
    let node = || -> serde_json::Value {
        let text = succeed(emp(&["nodes", "--json"]).env("EMP_STATE_DIR", lab.states("emp-b")));
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["nodes"][0].take()
    };
    let received = || node()["links"][0]["frames_received"].as_u64().expect("a link");
    let (before, shown) = (received(), node());
    assert_eq!((&shown["board"], &shown["process"]), (&"daemon".into(), &process.into()));
    assert!(shown["command"].as_str().is_some_and(|text| text.contains("inhabitant")), "{shown}");
    // a goes on sending, and the engine takes and shows it.
    wait_until("the file is written while the program is stopped", || received() > before + 100);
    signal(&b.0, "CONT");
}

#[test]
fn a_peer_whose_process_is_gone_is_named() {
    let Some(lab) = Lab::up('g', &[]) else { return };
    let [mut b, _a] = lab.talking();
    b.0.kill().expect("it is ours");
    b.0.wait().expect("it has ended");
    says(|| lab.why("emp-a", "b"), &["a lost b", "its process has ended", "start it again"]);
    // What it left is no node, and whoever looks takes it away.
    let own = lab.states("emp-b");
    let files = || std::fs::read_dir(&own).expect("it is there").count();
    assert_eq!(files(), 1);
    let nodes = succeed(emp(&["nodes"]).env("EMP_STATE_DIR", &own));
    assert_eq!((nodes.as_str(), files()), ("no node runs here, or none that you may see\n", 0));
}

#[test]
fn a_pulled_cable_is_named() {
    let Some(lab) = Lab::up('c', &["--panel"]) else { return };
    let _both = lab.talking();
    succeed(&mut emp(&["lab", "cable", "pull", "emp-b:emp0", "--name", &lab.name]));
    let pulled = ["cannot reach", "interface emp0 has no carrier", "plug the cable in"];
    says(|| lab.why("emp-a", "b"), &pulled);
    says(|| lab.why("emp-b", "a"), &pulled);
}

/// The other half of `emp doctor --peer`, on a host.
struct Listening(Child);

impl Listening {
    fn on(lab: &Lab, host: &str) -> Self {
        let mut command = lab.inside(host);
        command.arg(env!("CARGO_BIN_EXE_emp"));
        Self::by(command)
    }

    /// Without any privilege.
    fn as_nobody(lab: &Lab, host: &str) -> Self {
        let place = lab.state.path().join("emp");
        std::fs::copy(env!("CARGO_BIN_EXE_emp"), &place).expect("copied");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(lab.state.path(), open).expect("ours");
        let mut command = lab.inside(host);
        command.args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]).arg(place);
        Self::by(command)
    }

    fn by(mut command: Command) -> Self {
        command.args(["doctor", "--listen"]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        assert!(line.starts_with("listening on "), "{line}");
        Self(child)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What `emp doctor --peer` warns of: each finding's name, and what it says.
fn warnings(doctor: &mut Command) -> Vec<(String, String)> {
    let text = succeed(doctor.arg("--json"));
    let findings: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let all = findings.as_array().expect("a list").iter();
    let warned = all.filter(|finding| finding["mark"] == "warn").map(|finding| {
        let part = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
        (part("name"), format!("{}; {}", part("value"), part("advice")))
    });
    warned.collect()
}

fn doctor(lab: &Lab) -> Command {
    let mut command = lab.inside("emp-a");
    command.args([env!("CARGO_BIN_EXE_emp"), "doctor", "--peer", "emp-b"]);
    command
}

#[test]
fn mtus_that_differ_are_named() {
    let Some(lab) = Lab::up('m', &["--mtu", "9000"]) else { return };
    let _listening = Listening::on(&lab, "emp-b");
    assert_eq!(warnings(&mut doctor(&lab)), [], "nothing is wrong");
    succeed(lab.inside("emp-b").args(["ip", "link", "set", "emp0", "mtu", "1500"]));
    let found = warnings(&mut doctor(&lab));
    assert_eq!(found.len(), 1, "{found:?}");
    let (name, says) = &found[0];
    assert_eq!(name, "MTU");
    assert!(says.contains("9000 on emp0 here, 1500 on emp0 there"), "{says}");
    assert!(says.contains("the MTUs differ"), "{says}");
}

#[test]
fn links_that_one_end_may_not_open_are_named() {
    let Some(lab) = Lab::up('l', &[]) else { return };
    let _listening = Listening::as_nobody(&lab, "emp-b");
    let found = warnings(&mut doctor(&lab));
    let links = found.iter().find(|(name, _)| name == "links");
    let (_, says) = links.unwrap_or_else(|| panic!("{found:?}"));
    assert!(says.contains("packet here, not there: no CAP_NET_RAW"), "{says}");
    assert!(says.contains("raw frames are open at one end only"), "{says}");
}

#[test]
fn a_firewall_on_the_port_is_named() {
    let Some(lab) = Lab::up('f', &[]) else { return };
    // A rule of routing that drops datagrams to the port as they come in, which every kernel with policy routing has.
    let rule = ["ip", "rule", "add", "pref", "1", "ipproto", "udp", "dport", "51966", "blackhole"];
    succeed(lab.inside("emp-b").args(rule));
    let _listening = Listening::on(&lab, "emp-b");
    let found = warnings(&mut doctor(&lab));
    assert_eq!(found.len(), 1, "raw frames get through: {found:?}");
    let (name, says) = &found[0];
    assert_eq!(name, "udp");
    assert!(says.contains(":51966 does not answer, though TCP gets through"), "{says}");
    assert!(says.contains("a firewall closes UDP port 51966"), "{says}");
}

/// One end of another version of EMP, as far as anybody can tell from outside: a listener of that version, and a node that answers in its protocol.
#[test]
fn two_versions_are_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("it has one").to_string();
    let answers = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("emp doctor comes");
        let mut lines = BufReader::new(stream.try_clone().expect("a descriptor"));
        let (mut stream, mut line) = (stream, String::new());
        lines.read_line(&mut line).expect("its hello");
        assert!(line.contains("\"version\""), "{line}");
        let hello = r#"{"Hello":{"version":"9.8.7","protocol":7,"interface":"x0","mtu":null,"node":5,"udp_port":null,"later":1}}"#;
        writeln!(stream, "{hello}").expect("sent");
        // Its clock, as often as it is asked for.
        while lines.read_line(&mut line).is_ok_and(|got| got > 0) {
            if writeln!(stream, r#"{{"Clock":{{"nanoseconds":1}}}}"#).is_err() {
                break;
            }
        }
    });
    let found = warnings(&mut emp(&["doctor", "--peer", &at]));
    answers.join().expect("it was asked");
    let of = |name: &str| found.iter().find(|(of, _)| of == name).map(|(_, says)| says.as_str());
    let own = env!("CARGO_PKG_VERSION");
    let version = of("version").unwrap_or_default();
    assert!(version.contains(&format!("{own} here, 9.8.7 there")), "{found:?}");
    let protocol = of("protocol").unwrap_or_default();
    assert!(protocol.contains("1 here, 7 there"), "{found:?}");
    assert!(protocol.contains("do not understand each other"), "{found:?}");

    let (socket, at) = speaks_another_version();
    let state = tempfile::tempdir().expect("a directory");
    let state = state.path().join("own");
    let mut program = Command::new(std::env::current_exe().expect("it has a path"));
    let _a = inhabit(&mut program, &state, &format!("a b {at}"));
    says(|| why(&state, "b"), &["a looks for b", "two versions are at work", "emp --version"]);
    drop(socket);
}

/// A socket that answers each datagram by the same one, but of version 7 of the protocol.
fn speaks_another_version() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let at = socket.local_addr().expect("it has one");
    let answers = socket.try_clone().expect("a descriptor");
    answers.set_read_timeout(Some(LIFE)).expect("a time");
    std::thread::spawn(move || {
        let mut bytes = [0; 2_048];
        while let Ok((length, from)) = answers.recv_from(&mut bytes) {
            // The version is in the first three bits of a frame.
            bytes[0] = 7 << 5 | bytes[0] & 0x1f;
            let _ = answers.send_to(&bytes[..length], from);
        }
    });
    (socket, at)
}

/// Two users' nodes, of which one may be seen by everyone, and what root, their owners and somebody else see of them.
const USERS: &str = r#"
    set -eu
    emp=$1 program=$2 place=$3
    mount -t tmpfs none /dev/shm
    chmod 1777 /dev/shm
    unset XDG_RUNTIME_DIR EMP_STATE_DIR
    as() { user=$1; shift; setpriv --reuid="$user" --regid="$user" --clear-groups "$@"; }
    lives() { exec setpriv --reuid="$1" --regid="$1" --clear-groups "$program" --exact inhabitant --nocapture; }
    (export EMP_TEST_INHABITANT="one-of-own b 127.0.0.1:9"; lives 65534) >/dev/null 2>&1 & one=$!
    (export EMP_TEST_INHABITANT="one-of-all b 127.0.0.1:9" EMP_STATE=all; lives 65533) >/dev/null 2>&1 & two=$!
    trap 'kill $one $two' EXIT
    tries=0
    until [ "$("$emp" nodes --json | grep -c one-of-)" -ge 2 ]; do
        tries=$((tries + 1))
        [ $tries -lt 400 ] || exit 1
        sleep 0.05
    done
    "$emp" nodes >"$place/root"
    for user in 65534 65533 65532; do as $user "$emp" nodes >"$place/$user"; done
"#;

#[test]
fn users_see_their_own_nodes_and_root_all() {
    if !is_root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(scratch.path(), open).expect("ours");
    let copy = |from: &Path, to: &str| {
        let to = scratch.path().join(to);
        std::fs::copy(from, &to).expect("copied");
        to
    };
    let program = copy(Path::new(env!("CARGO_BIN_EXE_emp")), "emp");
    let own = copy(&std::env::current_exe().expect("it has a path"), "program");
    let mut script = Command::new("unshare");
    script.args(["--mount", "sh", "-c", USERS, "sh"]).args([&program, &own]).arg(scratch.path());
    succeed(&mut script);
    for (who, own, all) in [
        ("root", true, true),
        ("65534", true, true),
        ("65533", false, true),
        ("65532", false, true),
    ] {
        let text = std::fs::read_to_string(scratch.path().join(who)).expect("written");
        assert_eq!(
            (text.contains("one-of-own"), text.contains("one-of-all")),
            (own, all),
            "{who}: {text}"
        );
    }
}
