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

use super::{Seen, Which, doing, show};
use crate::bail_user;
use crate::error::print;

/// Print what nodes of this machine count and how their peers fare, as OpenMetrics text; with --listen, for Prometheus to fetch.
///
/// Frames that were dropped are emp_frames_dropped_total, by reason; what nodes count is emp_NAME_total with the names of emp counters.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Answer at this address, such as 127.0.0.1:9477, until interrupted. Whoever can reach it reads what you may read.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
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

fn with(of: &Labels, more: &[(&str, String)]) -> Labels {
    let more = more.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    of.iter().cloned().chain(more).collect()
}

/// All that is seen as OpenMetrics text.
pub fn text(seen: &Seen) -> anyhow::Result<String> {
    let mut all = Gathered::default();
    for node in &seen.nodes {
        let identity = &node.identity;
        let labels: Labels = vec![
            ("node".into(), show::node(node)),
            ("process".into(), identity.process.to_string()),
        ];
        let info = [
            ("version", identity.version.show()),
            ("job", identity.job.show()),
            ("rank", show::rank(node)),
            ("doing", doing(node.life).to_owned()),
        ];
        all.gauge("emp_node", "A node that runs", with(&labels, &info), 1.0);
        let age = seen.now.saturating_sub(node.now.written) as f64 / 1e9;
        all.gauge(
            "emp_state_age_seconds",
            "Since when a node's file was not written",
            labels.clone(),
            age,
        );
        all.gauge("emp_sends", "Sends that have not ended", labels.clone(), node.now.sends.into());
        all.gauge("emp_receives", "Receives likewise", labels.clone(), node.now.receives.into());
        for counter in &node.counters {
            let name = counter.name.show();
            match name.strip_prefix("drop_") {
                Some(reason) => {
                    let labels = with(&labels, &[("reason", reason.to_owned())]);
                    all.count(
                        "emp_frames_dropped",
                        "Frames dropped, by reason",
                        labels,
                        counter.value,
                    );
                }
                None => all.count(
                    &format!("emp_{name}"),
                    &format!("What emp counters calls {name}"),
                    labels.clone(),
                    counter.value,
                ),
            }
        }
        links(node, &labels, &mut all);
        peers(node, &labels, &mut all);
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
            all.gauge("emp_path_window_bytes", "Bytes that may be", labels, path.window.into());
        }
    }
}
