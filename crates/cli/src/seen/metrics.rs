//! `emp metrics`: nodes for Prometheus, as OpenMetrics text.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;

use super::look::{Seen, Which, doing};
use super::show;
use crate::bail_user;
use crate::error::print;

/// Print what nodes of this machine count and how their peers fare, as OpenMetrics text; with --listen, for Prometheus to fetch.
///
/// Frames that were dropped are emp_frames_dropped_total, by reason; what nodes count is emp_NAME_total with the names of emp counters. There is no --json: this
/// is what programs read already, and emp top --json has the same as JSON.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Answer at this address, such as 127.0.0.1:9477, until interrupted. Whoever can reach it reads what you may read.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Print once and end, as this does without --listen.
    #[arg(long, hide = true, conflicts_with = "listen")]
    once: bool,
}

/// How long one who asks may take: others wait meanwhile.
const ASK_LIMIT: Duration = Duration::from_secs(2);

/// Bytes of a question: far more than Prometheus sends.
const QUESTION_BYTES_MAX: usize = 8 << 10;

/// What is answered, as the format's specification has it.
const CONTENT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(String, String)>;

/// What values of one name mean, and they by their labels.
type Named<M> = (String, Family<Labels, M>);

/// Runs `emp metrics`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let Some(address) = args.listen else { return print(&text(&args.which.look()?)?) };
    let listener = match TcpListener::bind(address) {
        Ok(listener) => listener,
        Err(problem) => bail_user!("can't listen at {address}: {problem}"),
    };
    print(&format!("listening on http://{}/metrics\n", listener.local_addr()?))?;
    loop {
        let (stream, _) = listener.accept()?;
        // Whoever asked has gone; the next one may not.
        let _ = serve(stream, &args.which);
    }
}

/// Answers one question.
fn serve(mut stream: TcpStream, which: &Which) -> io::Result<()> {
    stream.set_write_timeout(Some(ASK_LIMIT))?;
    let (status, body) = match question(&mut stream)?.as_deref() {
        Some("/metrics" | "/") => match which.look().and_then(|seen| text(&seen)) {
            Ok(text) => ("200 OK", text),
            Err(problem) => ("503 Service Unavailable", format!("{problem:#}\n")),
        },
        Some(_) => ("404 Not Found", "ask for /metrics\n".into()),
        None => ("400 Bad Request", "ask by GET\n".into()),
    };
    let kind = if status.starts_with("200") { CONTENT } else { "text/plain" };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// What is asked for. `None`: nothing that is answered.
fn question(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let end = Instant::now() + ASK_LIMIT;
    let mut text = Vec::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || text.len() > QUESTION_BYTES_MAX {
            return Ok(None);
        }
        stream.set_read_timeout(Some(left))?;
        let mut more = [0; 1_024];
        let got = stream.read(&mut more)?;
        text.extend_from_slice(&more[..got]);
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&text) {
            Ok(status) if status.is_complete() => {
                let path = request.path.filter(|_| request.method == Some("GET"));
                return Ok(path.map(|path| path.split('?').next().unwrap_or(path).to_owned()));
            }
            Ok(_) if got > 0 => {}
            _ => return Ok(None),
        }
    }
}

/// What is gathered before it is put into the registry, which wants each name once.
#[derive(Default)]
struct Gathered {
    counters: BTreeMap<String, Named<Counter>>,
    gauges: BTreeMap<String, Named<Gauge<f64, AtomicU64>>>,
}

impl Gathered {
    fn count(&mut self, name: &str, help: &str, labels: Labels, value: u64) {
        let (_, family) =
            self.counters.entry(name.into()).or_insert_with(|| (help.into(), Family::default()));
        family.get_or_create(&labels).inc_by(value);
    }

    fn gauge(&mut self, name: &str, help: &str, labels: Labels, value: f64) {
        let (_, family) =
            self.gauges.entry(name.into()).or_insert_with(|| (help.into(), Family::default()));
        family.get_or_create(&labels).set(value);
    }
}

/// Some labels, and more of them. Values are escaped here, as the registry's encoder writes them as they are, and names of nodes and jobs
/// are what others chose.
fn with(of: &Labels, more: &[(&str, String)]) -> Labels {
    let escaped =
        |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let more = more.iter().map(|(name, value)| ((*name).to_owned(), escaped(value)));
    of.iter().cloned().chain(more).collect()
}

/// What values that are made here begin with: a node's counter of such a name would be of two kinds.
const TAKEN: [&str; 6] = ["link_", "peer_", "path_", "node_", "state_", "relay_"];

/// What the format gives a meaning at the end of a name.
const ENDINGS: [&str; 7] = ["_total", "_created", "_info", "_count", "_sum", "_bucket", "_gsum"];

/// A counter that a file names so may be the name of a value: letters, digits and underscores, and no other value's.
fn is_name(counter: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !counter.is_empty()
        && counter.bytes().all(plain)
        && !TAKEN.iter().any(|taken| counter.starts_with(taken))
        && !ENDINGS.iter().any(|ending| counter.ends_with(ending))
        && ![SENDS, RECEIVES, DROPPED, REFUSED].contains(&format!("emp_{counter}").as_str())
}

const SENDS: &str = "emp_sends";
const RECEIVES: &str = "emp_receives";
const DROPPED: &str = "emp_frames_dropped";
const REFUSED: &str = "emp_operations_refused";

/// What a node counts: each thing by its name, reasons for one thing as its labels.
fn counted(node: &emp_state::Snapshot, labels: &Labels, all: &mut Gathered) {
    for counter in &node.counters {
        let name = counter.name.show();
        let by_reason = [
            ("drop_", DROPPED, "Frames dropped, by reason"),
            ("refused_", REFUSED, "One-sided operations of peers refused, by reason"),
        ];
        let reason = by_reason
            .iter()
            .find_map(|(begins, family, help)| Some((*family, *help, name.strip_prefix(begins)?)));
        match reason {
            Some((family, help, reason)) => {
                let labels = with(labels, &[("reason", reason.to_owned())]);
                all.count(family, help, labels, counter.value);
            }
            None if is_name(&name) => {
                let help = format!("What emp counters calls {name}");
                all.count(&format!("emp_{name}"), &help, labels.clone(), counter.value);
            }
            None => {}
        }
    }
}

/// All that is seen as OpenMetrics text.
pub fn text(seen: &Seen) -> anyhow::Result<String> {
    let mut all = Gathered::default();
    for node in &seen.nodes {
        let identity = &node.identity;
        let own = [("node", show::node(node)), ("process", identity.process.to_string())];
        let labels = with(&Labels::new(), &own);
        let info = [
            ("version", identity.version.show()),
            ("job", identity.job.show()),
            ("rank", show::rank(node)),
            ("doing", doing(node.life).to_owned()),
        ];
        all.gauge("emp_node_info", "A node that runs", with(&labels, &info), 1.0);
        let age = seen.now.saturating_sub(node.now.written) as f64 / 1e9;
        let help = "Since when a node's file was not written";
        all.gauge("emp_state_age_seconds", help, labels.clone(), age);
        all.gauge(SENDS, "Sends that have not ended", labels.clone(), node.now.sends.into());
        all.gauge(RECEIVES, "Receives likewise", labels.clone(), node.now.receives.into());
        counted(node, &labels, &mut all);
        links(node, &labels, &mut all);
        peers(node, &labels, &mut all);
        relay(node, &labels, &mut all);
    }
    let mut registry = Registry::default();
    for (name, (help, family)) in all.counters {
        registry.register(name, help, family);
    }
    for (name, (help, family)) in all.gauges {
        registry.register(name, help, family);
    }
    let mut text = String::new();
    encode(&mut text, &registry).context("writing metrics")?;
    Ok(text)
}

fn links(node: &emp_state::Snapshot, labels: &Labels, all: &mut Gathered) {
    for link in &node.links {
        let labels =
            with(labels, &[("link", link.kind.show()), ("interface", link.interface.show())]);
        let counts = [
            ("frames_sent", link.frames_sent),
            ("frames_received", link.frames_received),
            ("bytes_sent", link.bytes_sent),
            ("bytes_received", link.bytes_received),
            ("receive_lost", link.receive_lost),
            ("system_errors", link.system_errors),
        ];
        for (name, value) in counts {
            let help = format!("Of a link: {}", name.replace('_', " "));
            all.count(&format!("emp_link_{name}"), &help, labels.clone(), value);
        }
        let up = if link.trouble.is_empty() { 1.0 } else { 0.0 };
        all.gauge("emp_link_up", "Frames can cross a link", labels, up);
    }
}

/// What a relay sent on for each of its neighbours.
fn relay(node: &emp_state::Snapshot, labels: &Labels, all: &mut Gathered) {
    for of in &node.neighbours {
        let labels = with(
            labels,
            &[("link", show::link(node, of.link)), ("from", show::address(&of.address))],
        );
        let counts = [
            ("emp_relay_frames", "Frames of a neighbour that were sent on", of.frames),
            ("emp_relay_bytes", "Bytes of those", of.bytes),
            ("emp_relay_searches", "Searches of a neighbour that were repeated", of.searches),
        ];
        for (name, help, value) in counts {
            all.count(name, help, labels.clone(), value);
        }
        let others = of.dropped.saturating_sub(of.dropped_full.saturating_add(of.dropped_cut));
        let reasons = [("full", of.dropped_full), ("cut", of.dropped_cut), ("other", others)];
        for (reason, value) in reasons {
            let labels = with(&labels, &[("reason", reason.to_owned())]);
            let help = "Frames and searches of a neighbour that a relay dropped, by reason";
            all.count("emp_relay_dropped", help, labels, value);
        }
    }
}

fn peers(node: &emp_state::Snapshot, labels: &Labels, all: &mut Gathered) {
    for peer in &node.peers {
        let labels = with(labels, &[("peer", show::peer(peer))]);
        let resent = u64::from(peer.frames_resent);
        all.count(
            "emp_peer_frames_lost",
            "Frames to a peer that were lost",
            labels.clone(),
            resent,
        );
        let sent = u64::from(peer.frames_sent);
        all.count("emp_peer_frames_sent", "Frames to a peer, each once", labels.clone(), sent);
        let messages = [("out", peer.out_messages), ("in", peer.in_messages)];
        for (direction, count) in messages {
            let labels = with(&labels, &[("direction", direction.to_owned())]);
            all.gauge("emp_peer_messages", "Messages that have not ended", labels, count.into());
        }
        for path in peer.paths() {
            let labels = with(&labels, &[("path", show::link(node, path.link))]);
            let rtt = f64::from(path.rtt_us) / 1e6;
            all.gauge("emp_path_rtt_seconds", "A round trip, smoothed", labels.clone(), rtt);
            all.gauge(
                "emp_path_flight_bytes",
                "Bytes under way",
                labels.clone(),
                path.flight.into(),
            );
            all.gauge(
                "emp_path_window_bytes",
                "Bytes that may be",
                labels.clone(),
                path.window.into(),
            );
            all.count(
                "emp_path_frames_sent",
                "Frames that left by a path",
                labels.clone(),
                path.sent.into(),
            );
            all.count(
                "emp_path_frames_lost",
                "Of these, those that were lost",
                labels,
                path.lost.into(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::PathBuf;

    use emp_state::layout::Counter;
    use emp_state::process::Life;
    use emp_state::{Identity, Link, Neighbour, Now, Peer, Snapshot, Text};

    use super::*;

    /// A node whose file says what its owner likes.
    fn node(name: &str, counters: &[&str]) -> Snapshot {
        let counter = |name: &&str| Counter { name: Text::new(name), value: 3 };
        let way = emp_state::Path { flags: emp_state::Path::THERE, ..emp_state::Path::default() };
        let peer = Peer { node: 7, name: Text::new("b\"c"), paths: [way; 4], ..Peer::default() };
        Snapshot {
            path: PathBuf::new(),
            identity: Identity { name: Text::new(name), process: 9, ..Identity::default() },
            life: Life::Elsewhere,
            now: Now::default(),
            links: vec![Link { kind: Text::new("udp"), ..Link::default() }],
            counters: counters.iter().map(counter).collect(),
            notes: Vec::new(),
            peers: vec![peer],
            neighbours: vec![Neighbour {
                frames: 5,
                dropped: 3,
                dropped_cut: 2,
                ..Neighbour::default()
            }],
            torn: false,
        }
    }

    /// Splits a sample into its name, its labels as they are written, and its value; panics where the grammar of OpenMetrics 1.0 does not allow it.
    fn sample(line: &str) -> (&str, &str, f64) {
        let end = line.find(['{', ' ']).expect("a name ends");
        let (name, rest) = line.split_at(end);
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        assert!(name.bytes().all(letters) && !name.as_bytes()[0].is_ascii_digit(), "{line}");
        let Some(mut rest) = rest.strip_prefix('{') else {
            return (name, "", rest[1..].parse().expect("a number"));
        };
        let labels = rest;
        loop {
            let (label, value) = rest.split_once("=\"").expect("a label");
            assert!(!label.is_empty() && label.bytes().all(letters), "{line}");
            let mut escaped = false;
            let end = value.find(|letter| {
                let ends = letter == '"' && !escaped;
                assert!(!escaped || "\\\"n".contains(letter), "{line}");
                escaped = letter == '\\' && !escaped;
                ends
            });
            rest = &value[end.expect("a value ends") + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        let value = rest.strip_prefix("} ").expect("labels end");
        let labels = &labels[..labels.len() - rest.len()];
        (name, labels, value.parse().expect("a number"))
    }

    /// Reads all of a text as strictly, and gives the families.
    fn families(text: &str) -> HashSet<&str> {
        let body = text.strip_suffix("# EOF\n").expect("it ends");
        let (mut all, mut series) = (HashSet::new(), HashSet::new());
        let mut now = ("", "");
        for line in body.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, _) = help.split_once(' ').expect("a text");
                assert!(now.0 != name && all.insert(name), "{name} comes twice");
                now = (name, "");
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').expect("a type");
                assert!(now == (name, "") && ["counter", "gauge"].contains(&kind), "{line}");
                now = (name, kind);
            } else {
                let (name, labels, value) = sample(line);
                let ending = if now.1 == "counter" { "_total" } else { "" };
                assert_eq!(name, format!("{}{ending}", now.0), "{line}");
                assert!(value >= 0.0 && series.insert((name, labels)), "{line}");
            }
        }
        all
    }

    #[test]
    fn it_is_open_metrics_whatever_files_say() {
        let honest = ["frames_sent", "drop_wrong_version", "drop_duplicate", "refused_bad_key"];
        let odd =
            ["a\"} 1", "", "link_up", "sends", "x_total", "drop_\"", "Größe", "frames_dropped"];
        let nodes = vec![node("ann", &honest), node("a\\\"\nb", &odd)];
        let text = text(&Seen { nodes, now: 5_000_000_000, odd: Vec::new() }).expect("written");
        let found = families(&text);
        for name in
            ["emp_frames_sent", "emp_frames_dropped", "emp_operations_refused", "emp_node_info"]
        {
            assert!(found.contains(name), "{text}");
        }
        assert!(!found.iter().any(|name| name.starts_with("emp_drop_") || *name == "emp_x_total"));
        let line =
            "emp_frames_dropped_total{node=\"ann\",process=\"9\",reason=\"wrong_version\"} 3\n";
        assert!(text.contains(line), "{text}");
    }

    /// What one connection that says this is answered; it says no more then.
    fn answer(at: SocketAddr, says: &str) -> String {
        let mut stream = TcpStream::connect(at).expect("it listens");
        stream.write_all(says.as_bytes()).expect("it is taken");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it is answered and ended");
        text
    }

    #[test]
    fn whoever_asks_is_answered_and_who_is_silent_holds_up_nobody_for_long() {
        let top = tempfile::tempdir().expect("a directory");
        let identity = Identity { name: Text::new("ann"), ..Identity::default() };
        let readers = emp_state::place::Readers::Own;
        let mut writer = emp_state::Writer::create_in(&top.path().join("own"), &identity, readers)
            .expect("a file");
        writer.counter(0, "drop_duplicate", 4);
        writer.publish(&Now { counters: 1, ..Now::default() });
        let which = Which { file: Some(writer.path().into()), ..Which::default() };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("it has one");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..7 {
                    let (stream, _) = listener.accept().expect("somebody comes");
                    let _ = serve(stream, &which);
                }
            });
            // It says nothing, and those behind it wait for no more than it may take.
            let silent = TcpStream::connect(at).expect("it listens");
            let begin = Instant::now();
            let got = answer(at, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
            assert!(begin.elapsed() < 5 * ASK_LIMIT, "{:?}", begin.elapsed());
            drop(silent);
            let (head, body) = got.split_once("\r\n\r\n").expect("a head");
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains(CONTENT), "{head}");
            assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
            assert!(families(body).contains("emp_frames_dropped"), "{body}");
            assert!(body.contains("reason=\"duplicate\"} 4\n"), "{body}");
            for (says, begins) in [
                ("GET /nothing HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found\r\n"),
                ("POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"),
                ("hello\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"),
            ] {
                let got = answer(at, says);
                assert!(got.starts_with(begins), "{says}: {got}");
            }
            // More than any question has, and never an end: what was not read is lost with the connection.
            let mut endless = TcpStream::connect(at).expect("it listens");
            let _ = endless.write_all("GET / HTTP/1.1\r\nx: ".as_bytes());
            while endless.write_all(&[b'x'; 1_024]).is_ok() {}
            // The file is gone meanwhile.
            drop(writer);
            let got = answer(at, "GET / HTTP/1.1\r\n\r\n");
            assert!(got.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{got}");
        });
    }

    /// The check itself is held to what it must not let through.
    #[test]
    fn what_is_none_is_found_out() {
        for bad in ["# EOF", "a 1\n# EOF\n", "# HELP a b\n# TYPE a counter\na 1\n# EOF\n"] {
            assert!(std::panic::catch_unwind(|| families(bad)).is_err(), "{bad}");
        }
        for bad in ["a{b=\"c} 1", "a{b=\"\\x\"} 1", "a{b} 1", "1 1", "a x"] {
            assert!(std::panic::catch_unwind(|| sample(bad)).is_err(), "{bad}");
        }
    }
}
