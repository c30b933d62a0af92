//! `emp doctor --peer HOST`, and `--listen` on that host: what the two ends make of each other.
//!
//! They talk over a TCP connection, a JSON value a line; then each starts a node and they look for each other as programs would.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use emp_host::{AutoLinks, Node, NodeId, StateFile};
use serde::{Deserialize, Serialize};

use super::rung::{self, Able};
use super::{interfaces, privilege};
use crate::bail_user;
use crate::error::print;
use crate::finding::Finding;

/// TCP port of `emp doctor --listen`: two after EMP's own UDP port, as `emp bench listen` has the one between.
const PORT: u16 = emp_wire::UDP_PORT_DEFAULT + 2;

/// What the other end may take for a line, or to be reached.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a node is looked for by one way: questions leave at once, and again each 100 ms.
const LOOK_FOR: Duration = Duration::from_secs(3);

/// Bytes of a line: ten times what is sent.
const LINE_BYTES_MAX: u64 = 16 << 10;

/// Times that the clocks are compared; the quickest answer counts.
const CLOCK_TRIES: u32 = 8;

/// Clocks that differ by more make logs of the two hosts hard to compare.
const CLOCK_TOLERANCE: f64 = 0.1;

/// What one end says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct End {
    version: String,
    /// Of the protocol on the wire.
    protocol: u8,
    interface: String,
    mtu: Option<u32>,
    /// Its node for the trial, and where that takes datagrams.
    node: u64,
    udp_port: Option<u16>,
    /// What programs may open on the interface; empty: it is not said, or the interface is none.
    #[serde(default)]
    links: Vec<Able>,
}

#[derive(Serialize, Deserialize)]
enum Line {
    Hello(End),
    Time,
    Clock { nanoseconds: u64 },
}

/// An end of the connection.
struct Talk(BufReader<TcpStream>);

impl Talk {
    fn new(stream: TcpStream) -> anyhow::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::new(stream)))
    }

    fn say(&mut self, line: &Line) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        Ok(self.0.get_mut().write_all(&text)?)
    }

    /// The next line; `None`: the other end is gone.
    fn hear(&mut self) -> anyhow::Result<Option<Line>> {
        let mut text = String::new();
        if self.0.by_ref().take(LINE_BYTES_MAX).read_line(&mut text)? == 0 {
            return Ok(None);
        }
        serde_json::from_str(&text).map(Some).context("the other end is no emp doctor --listen")
    }

    fn own_address(&self) -> anyhow::Result<IpAddr> {
        Ok(self.0.get_ref().local_addr()?.ip().to_canonical())
    }
}

fn clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// This end, with a node on the interface that has this address.
fn open(own: IpAddr) -> anyhow::Result<(End, Node)> {
    let all = interfaces::inspect(Path::new("/"));
    let interface = all.into_iter().find(|one| one.addresses.contains(&own));
    let looks = interface.as_ref().filter(|_| !own.is_loopback());
    let links = looks.map(rung::able).unwrap_or_default();
    let (name, mtu) = interface.map_or((String::new(), None), |one| (one.name, one.mtu));
    let start = |udp_port| {
        let auto = AutoLinks {
            interfaces: if name.is_empty() || own.is_loopback() {
                Vec::new()
            } else {
                vec![name.clone()]
            },
            udp_bind: Some(own),
            udp_port,
            // Two programs of one host are to meet by the network that is looked at.
            memory: false,
            ..AutoLinks::default()
        };
        Node::builder().auto_links(auto).state(StateFile::Off).start()
    };
    // The port that firewalls are opened for, unless a program has it.
    let node =
        start(emp_wire::UDP_PORT_DEFAULT).or_else(|_| start(0)).context("starting a node")?;
    let udp = node.links().iter().find_map(|link| link.address.as_udp());
    let end = End {
        version: env!("CARGO_PKG_VERSION").into(),
        protocol: emp_wire::VERSION,
        interface: name,
        mtu,
        node: node.id().0,
        udp_port: udp.map(|at| at.port()),
        links,
    };
    Ok((end, node))
}

/// Runs `emp doctor --listen`.
pub fn listen(at: Option<SocketAddr>) -> anyhow::Result<()> {
    let chosen = match at {
        Some(at) => TcpListener::bind(at),
        None => TcpListener::bind((Ipv6Addr::UNSPECIFIED, PORT))
            .or_else(|_| TcpListener::bind(("0.0.0.0", PORT))),
    };
    let listener = match chosen {
        Ok(listener) => listener,
        Err(problem) => {
            bail_user!("can't listen: {problem}; name another address with --listen=ADDRESS:PORT")
        }
    };
    print(&format!("listening on {}\n", listener.local_addr()?))?;
    loop {
        let (stream, who) = listener.accept()?;
        if let Err(problem) = serve(stream) {
            eprintln!("emp: {who}: {problem:#}");
        }
    }
}

fn serve(stream: TcpStream) -> anyhow::Result<()> {
    let mut talk = Talk::new(stream)?;
    let Some(Line::Hello(_)) = talk.hear()? else { return Ok(()) };
    // Its node lives until the other end has looked for it.
    let (end, _node) = open(talk.own_address()?)?;
    talk.say(&Line::Hello(end))?;
    while let Some(Line::Time) = talk.hear()? {
        talk.say(&Line::Clock { nanoseconds: clock() })?;
    }
    Ok(())
}

/// `HOST` or `HOST:PORT`.
fn connect(peer: &str) -> anyhow::Result<TcpStream> {
    let addresses = (peer, PORT).to_socket_addrs().or_else(|_| peer.to_socket_addrs());
    let Ok(addresses) = addresses else { bail_user!("{peer} is no host that has an address") };
    let mut last = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(problem) => last = Some((address, problem)),
        }
    }
    match last {
        Some((at, problem)) => bail_user!(
            "{at} can't be reached: {problem}; run emp doctor --listen on {peer}, and let TCP port {} through its firewall",
            at.port()
        ),
        None => bail_user!("{peer} has no address"),
    }
}

/// Looks at both ends.
pub fn inspect(peer: &str) -> anyhow::Result<Vec<Finding>> {
    let mut talk = Talk::new(connect(peer)?)?;
    let there = talk.0.get_ref().peer_addr()?.ip().to_canonical();
    let (mine, node) = open(talk.own_address()?)?;
    talk.say(&Line::Hello(mine.clone()))?;
    let Some(Line::Hello(theirs)) = talk.hear()? else {
        bail_user!("{peer} went away, or is no emp doctor --listen")
    };
    let mut findings = compare(&mine, &theirs);
    findings.push(links(&mine.links, &theirs.links));
    findings.push(clocks(&mut talk)?);
    findings.extend(reach(&node, &theirs, there));
    Ok(findings)
}

/// What is the same at both ends, or not.
fn compare(mine: &End, theirs: &End) -> Vec<Finding> {
    let both = |a: &str, b: &str| format!("{a} here, {b} there");
    let versions = both(&mine.version, &theirs.version);
    let protocols = both(&mine.protocol.to_string(), &theirs.protocol.to_string());
    let mtu = |end: &End| match end.mtu {
        Some(mtu) => format!("{mtu} on {}", end.interface),
        None => "unknown".into(),
    };
    let mtus = both(&mtu(mine), &mtu(theirs));
    vec![
        if mine.protocol != theirs.protocol {
            Finding::warn(
                "protocol",
                protocols,
                "two versions of EMP do not understand each other: install one on both hosts",
            )
        } else {
            Finding::ok("protocol", protocols)
        },
        if mine.version != theirs.version {
            Finding::warn("version", versions, "two versions: install one on both hosts")
        } else {
            Finding::ok("version", versions)
        },
        match (mine.mtu, theirs.mtu) {
            (Some(one), Some(other)) if one != other => {
                let least = one.min(other);
                let advice = format!(
                    "the MTUs differ: frames have at most {least} bytes, and longer ones may be lost on the way; ip link set the same at both ends"
                );
                Finding::warn("MTU", mtus, advice)
            }
            _ => Finding::ok("MTU", mtus),
        },
    ]
}

/// Raw frames of any of these are the same on the wire.
const RAW: [&str; 3] = ["packet", "lent", "empd"];

/// What either end may open, and what keeps the other from it.
fn links(mine: &[Able], theirs: &[Able]) -> Finding {
    let name = "links";
    if mine.is_empty() || theirs.is_empty() {
        let one = if mine.is_empty() { "here" } else { "there" };
        return Finding::note(name, format!("not known {one}"));
    }
    let (mut both, mut neither, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for one in mine {
        let Some(other) = theirs.iter().find(|other| other.link == one.link) else { continue };
        let link = one.link.as_str();
        match (&one.why_not, &other.why_not) {
            (None, None) => both.push(link),
            (Some(_), Some(_)) => neither.push(link),
            (None, Some(why)) => parts.push(format!("{link} here, not there: {why}")),
            (Some(why), None) => parts.push(format!("{link} there, not here: {why}")),
        }
    }
    if !both.is_empty() {
        parts.insert(0, format!("{} at both", both.join(", ")));
    }
    if !neither.is_empty() {
        parts.push(format!("{} at neither", neither.join(", ")));
    }
    let value = parts.join("; ");
    let has_raw = |of: &[Able]| {
        of.iter().any(|able| able.why_not.is_none() && RAW.contains(&able.link.as_str()))
    };
    let advice = match (has_raw(mine), has_raw(theirs)) {
        (true, false) => "there",
        (false, true) => "here",
        _ => return Finding::ok(name, value),
    };
    let how =
        if advice == "here" { privilege::set_capability() } else { "setcap cap_net_raw+ep".into() };
    let advice = format!(
        "raw frames are open at one end only, so datagrams go between them: {how}, or empd, {advice}"
    );
    Finding::warn(name, value, advice)
}

fn clocks(talk: &mut Talk) -> anyhow::Result<Finding> {
    let mut best: Option<(Duration, f64)> = None;
    for _ in 0..CLOCK_TRIES {
        let (before, begin) = (clock(), Instant::now());
        talk.say(&Line::Time)?;
        let Some(Line::Clock { nanoseconds }) = talk.hear()? else {
            bail_user!("the other end went away")
        };
        let took = begin.elapsed();
        let ahead = nanoseconds as f64 / 1e9 - before as f64 / 1e9 - took.as_secs_f64() / 2.0;
        if best.is_none_or(|(least, _)| took < least) {
            best = Some((took, ahead));
        }
    }
    let (took, ahead) = best.unwrap_or_default();
    let value =
        format!("theirs is {:.1} ms ahead (± {:.1} ms)", ahead * 1e3, took.as_secs_f64() * 500.0);
    Ok(if ahead.abs() > CLOCK_TOLERANCE {
        Finding::warn(
            "clocks",
            value,
            "times in logs of the two do not compare: let both follow one server (chrony)",
        )
    } else {
        Finding::ok("clocks", value)
    })
}

/// By which links the other node answers, and which one programs would take.
fn reach(node: &Node, theirs: &End, there: IpAddr) -> Vec<Finding> {
    let mut all = Vec::new();
    if let Some(port) = theirs.udp_port {
        let at = SocketAddr::new(there, port);
        all.push(match node.resolve_socket(at, LOOK_FOR) {
            Ok(_) => Finding::ok("udp", format!("{at} answers")),
            Err(_) => Finding::warn(
                "udp",
                format!("{at} does not answer, though TCP gets through"),
                format!("a firewall closes UDP port {port} at one of the hosts, or on the way: let it through"),
            ),
        });
    }
    let id = NodeId(theirs.node);
    let found = node.find(id, LOOK_FOR);
    let link = |index: emp_host::LinkIndex| {
        let link = node.links().get(usize::from(index.0));
        link.map_or_else(|| "?".into(), |link| format!("{} on {}", link.kind, link.interface))
    };
    all.push(match found {
        Ok(_) => match node.route(id) {
            Some((index, to)) => Finding::ok("path", format!("{} to {to}", link(index))),
            None => Finding::note("path", "the other end answered and went away"),
        },
        Err(nobody) => Finding::warn(
            "path",
            format!("none: {nobody}"),
            "neither raw frames nor datagrams get through: other segment, firewall, or switch",
        ),
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Mark;

    fn end() -> End {
        End {
            version: "1.0.0".into(),
            protocol: 1,
            interface: "eth0".into(),
            mtu: Some(1_500),
            node: 7,
            udp_port: Some(9),
            links: Vec::new(),
        }
    }

    #[test]
    fn links_that_one_end_has_are_named_in_a_line_with_what_keeps_the_other_from_them() {
        let able = |link: &str, why_not: &str| {
            let why_not = Some(why_not.to_owned()).filter(|why| !why.is_empty());
            Able { link: link.into(), why_not }
        };
        let all = ["packet", "lent", "empd", "xdp", "udp"];
        let root = all.map(|link| {
            able(link, if ["lent", "empd"].contains(&link) { "no service" } else { "" })
        });
        let user = all.map(|link| able(link, if link == "udp" { "" } else { "no CAP_NET_RAW" }));
        let found = links(&root, &root);
        assert_eq!((found.mark, found.advice), (Mark::Ok, None));
        assert_eq!(found.value, "packet, xdp, udp at both; lent, empd at neither");
        let found = links(&root, &user);
        assert_eq!(
            found.value,
            "udp at both; packet here, not there: no CAP_NET_RAW; xdp here, not there: no CAP_NET_RAW; lent, empd at neither"
        );
        assert!(found.mark == Mark::Warn && found.advice.unwrap().ends_with("or empd, there"));
        let found = links(&user, &root);
        assert!(found.value.contains("packet there, not here: no CAP_NET_RAW"), "{}", found.value);
        // A socket that a service lends speaks to one's own.
        let mut served = user;
        served[1].why_not = None;
        assert_eq!(links(&root, &served).mark, Mark::Ok);
        assert_eq!(links(&root, &[]).value, "not known there");
    }

    fn warnings(theirs: &End) -> Vec<String> {
        let found = compare(&end(), theirs).into_iter().filter(|one| one.mark == Mark::Warn);
        found
            .map(|one| format!("{}: {}; {}", one.name, one.value, one.advice.unwrap_or_default()))
            .collect()
    }

    #[test]
    fn two_versions_and_mtus_that_differ_are_named_in_a_line_each() {
        assert!(warnings(&end()).is_empty());
        let version = warnings(&End { version: "1.1.0".into(), ..end() });
        assert_eq!(version.len(), 1);
        assert!(
            version[0].contains("1.0.0 here, 1.1.0 there") && version[0].contains("two versions")
        );
        let mtu = warnings(&End { mtu: Some(9_000), ..end() });
        assert_eq!(mtu.len(), 1);
        assert!(mtu[0].contains("1500 on eth0 here, 9000 on eth0 there"), "{mtu:?}");
        assert!(mtu[0].contains("the MTUs differ"), "{mtu:?}");
        let protocol = warnings(&End { protocol: 2, ..end() });
        assert!(protocol[0].contains("do not understand each other"), "{protocol:?}");
    }
}
