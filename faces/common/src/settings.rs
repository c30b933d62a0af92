//! What users can set: `EMP_…` in the environment, the same for all faces (`docs/guide/settings.md`).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use emp_host::limits::INTERFACES_MAX;
use emp_host::limits::{INCOMING_MOST, OPERATIONS_MAX, OPERATIONS_MIN};
use emp_host::{Board, Collections, Integrity, Profile, Span, WaitMode, Want, listed_peers};
use emp_link::FaultPlan;

/// How long closing waits for acknowledgements at most, unless said otherwise. Peers that have ended say goodbye, so this
/// is the time for peers that were lost.
const LINGER_DEFAULT: Duration = Duration::from_secs(2);

/// How long nothing may be heard of a peer before it is lost, unless said otherwise, in milliseconds: programs that ran over TCP expect to outlive a
/// debugger's stop, a virtual machine that moves, and a spanning tree that takes 50 s to open a port. TCP itself waits two minutes for a first
/// answer (`tcp_syn_retries`) and 15 for a later one; launchers end jobs of which a process ends, and that a process has ended is told by its host
/// within a second. Programs on the Rust API say how patient they are; without that a node has the profile's 10 s.
pub const TIMEOUT_DEFAULT_MS: u64 = 120_000;

/// Limits of the time after which a peer is lost: many round trips, and an hour.
const TIMEOUT_MIN_MS: u64 = 50;
const TIMEOUT_MAX_MS: u64 = 3_600_000;

/// What there is to set: the name without `EMP_`, and what it does.
pub const SETTINGS: [(&str, &str); 18] = [
    (
        "LINK",
        "Links to use: auto, packet (raw Ethernet frames), lent (the same by a socket that the service empd lends; packet takes one where there is no privilege), empd (the same through that service), xdp (the same through AF_XDP, for one process an interface; others get packet), udp, or shm (processes of this machine only); auto takes packet, else lent, else empd, and has udp beside it, and shm for the processes of this machine, as packet and xdp have (default: auto)",
    ),
    (
        "BOARD",
        "Where the engine of a node runs: inline (in the process, with a thread beside it), thread (in a thread of its own), split:io (as inline, with the calls of the links in a thread of their own), split:SO, split:RO, split:DSR, split:SR, split:dynamic (as inline, with a part of the engine in a second thread) or daemon (in the service empd, whose links it uses: what was asked for goes on while the process computes or is stopped) (default: inline)",
    ),
    (
        "INTERFACES",
        "Network interfaces that each node uses together, at most four, separated by commas (default: the cards that are up and have an IP address; where there is none, the next best kind)",
    ),
    (
        "INTERFACE",
        "Network interfaces to use one at a time, best first, separated by commas: each is offered as a card of its own (default: INTERFACES, offered as one)",
    ),
    (
        "PEERS",
        "Where nodes that no address leads to are looked for by datagrams, separated by commas: host, host:port, [IPv6]:port, names with all their addresses, @FILE with such lines; at most 256 addresses (default: nowhere)",
    ),
    ("NAME", "Name of this machine, as others know it (default: its host name)"),
    ("PROFILE", "Protocol parameters: default, emp2001, openmx, or vmmc2 (default: default)"),
    (
        "COLLECTION",
        "Frames (of openmx: messages) that one acknowledgement covers: 1 to 65535; PEER=FRAMES for one peer, as emp peers calls it; several separated by commas (default: the profile's; 16)",
    ),
    ("FAULT", "Faults to inject for tests, such as drop:0.01 (default: none)"),
    (
        "EAGER",
        "Bytes up to which messages leave whole, unasked (default: the profile's; 65536, and 524288 where frames longer than the MTU get through)",
    ),
    (
        "TIMEOUT",
        "Milliseconds of silence after which a peer is lost whose host does not say that it has ended (default: 120000)",
    ),
    (
        "OPERATIONS",
        "Sends, and as many receives, that a process may have outstanding: 64 to 4194304; one more fails if none of them ends within TIMEOUT (default: 4194304)",
    ),
    (
        "UNEXPECTED",
        "Messages that a process holds before receives are posted for them, a quarter of a kilobyte each: 64 to 16777216; senders keep what is beyond, and are told of an error if none is received within TIMEOUT (default: 1048576)",
    ),
    (
        "WAIT",
        "How blocking calls wait: adaptive (look for as long as recent waits make it worth while, then sleep), spin (also those that only look: they never give the core away), or sleep (default: adaptive)",
    ),
    (
        "LINGER",
        "Milliseconds that closing waits while nothing is delivered of what was sent (default: 2000)",
    ),
    (
        "INTEGRITY",
        "What payloads are checked by over udp: carrier (UDP's checksum, as TCP's are) or end-to-end (EMP's as well) (default: carrier)",
    ),
    (
        "UDP_PAST_IP",
        "Whether frames longer than the MTU leave past the kernel's IP layer where links are auto, by a packet socket, if this process may open one: on or off (default: on)",
    ),
    (
        "CAPTURE",
        "File that takes every frame that is sent and received, with what became of it, as pcapng; %p is the process's number (default: none)",
    ),
];

/// What the user has set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Kinds of links; where the engine is in the service, those of the service.
    pub link: Want,
    /// Where the engine of a node runs.
    pub board: Board,
    /// Interfaces, best first; empty: all that are up.
    pub interfaces: Vec<String>,
    /// Each of them is offered by itself, and not one node on all.
    pub apart: bool,
    /// The variable that named them; empty if it was a program, or nobody.
    pub interfaces_variable: String,
    /// Where nodes may be found by datagrams.
    pub peers: Vec<SocketAddr>,
    /// What to call this machine, if not by its own name.
    pub name: Option<String>,
    /// Protocol parameters, `EAGER` and `TIMEOUT` included.
    pub profile: Profile,
    /// How many frames one acknowledgement covers, of all peers and of single ones.
    pub collections: Collections,
    /// The variable that `TIMEOUT` is set by.
    pub timeout_variable: String,
    /// Faults to inject.
    pub fault: Option<FaultPlan>,
    /// How long closing waits at most.
    pub linger: Duration,
    /// How calls wait.
    pub wait: WaitMode,
    /// Long frames may leave past IP.
    pub udp_past_ip: bool,
    /// The file of a capture.
    pub capture: Option<PathBuf>,
}

/// A value that was set: by which variable, and to what.
pub struct Set {
    /// The variable, for error texts.
    pub variable: String,
    /// Its value.
    pub value: String,
}

/// What the environment says of a setting.
pub fn environment(name: &str) -> Option<Set> {
    let variable = format!("EMP_{name}");
    let value = std::env::var(&variable).ok()?;
    Some(Set { variable, value })
}

impl Settings {
    /// Long frames may leave past IP: by links that are chosen, as who asks for datagrams gets what IP does with them.
    pub(crate) fn udp_past_ip(&self) -> bool {
        self.udp_past_ip && self.link == Want::Auto
    }

    /// Reads them; `look` finds a setting by its name in [`SETTINGS`], as [`environment`] does.
    ///
    /// # Errors
    ///
    /// A value that makes no sense, with its variable: running with another one would be worse.
    pub fn read(look: impl Fn(&str) -> Option<Set>) -> Result<Self, String> {
        let text = |name| look(name).map(|set| set.value).unwrap_or_default();
        let together = together(look("INTERFACES"))?;
        let variable = if together.is_empty() { "INTERFACE" } else { "INTERFACES" };
        let interfaces_variable = look(variable).map(|set| set.variable).unwrap_or_default();
        let apart = text("INTERFACE");
        let apart: Vec<_> =
            apart.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        let fault = look("FAULT").filter(|set| !set.value.is_empty()).map(|set| {
            let plan = set.value.parse();
            plan.map_err(|error| format!("{}={}: {error}", set.variable, set.value))
        });
        let linger = number(look("LINGER"), "milliseconds")?;
        let name = text("NAME").trim().to_owned();
        let capture = look("CAPTURE").filter(|set| !set.value.is_empty());
        let board = board(look("BOARD"))?;
        Ok(Self {
            link: link(look("LINK"), board)?,
            board,
            apart: together.is_empty() && !apart.is_empty(),
            interfaces_variable,
            interfaces: match together {
                none if none.is_empty() => apart.into_iter().map(Into::into).collect(),
                together => together,
            },
            peers: peers(look("PEERS"))?,
            name: Some(name).filter(|name| !name.is_empty()),
            profile: profile(&look)?,
            collections: collections(look("COLLECTION"))?,
            timeout_variable: look("TIMEOUT")
                .map_or_else(|| "EMP_TIMEOUT".into(), |set| set.variable),
            fault: fault.transpose()?,
            linger: linger.map_or(LINGER_DEFAULT, Duration::from_millis),
            wait: wait(look("WAIT"))?,
            udp_past_ip: one_of(look("UDP_PAST_IP"), &[("on", true), ("off", false)], true)?,
            capture: capture.map(|set| set.value.into()),
        })
    }
}

/// Interfaces that one node uses together.
fn together(set: Option<Set>) -> Result<Vec<String>, String> {
    let Some(Set { variable, value }) = set else { return Ok(Vec::new()) };
    let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
    let names: Vec<String> = names.map(Into::into).collect();
    if names.len() > INTERFACES_MAX {
        return Err(format!(
            "{variable}={value}: a node uses at most {INTERFACES_MAX} interfaces together"
        ));
    }
    let again = (1..names.len()).find(|at| names[..*at].contains(&names[*at]));
    if let Some(again) = again {
        return Err(format!("{variable}={value}: {} is named twice", names[again]));
    }
    Ok(names)
}

/// Addresses of a list. Names are looked up.
fn peers(set: Option<Set>) -> Result<Vec<SocketAddr>, String> {
    let Some(Set { variable, value }) = set else { return Ok(Vec::new()) };
    listed_peers(&value).map_err(|problem| format!("{variable}={value}: {problem}"))
}

/// One of these words; what stands for it, or for an empty text.
fn one_of<T: Copy>(set: Option<Set>, words: &[(&str, T)], default: T) -> Result<T, String> {
    let Some(Set { variable, value }) = set.filter(|set| !set.value.is_empty()) else {
        return Ok(default);
    };
    let found = words.iter().find(|(word, _)| *word == value);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let all: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        format!("{variable}={value}: must be one of {}", all.join(", "))
    })
}

fn link(set: Option<Set>, board: Board) -> Result<Want, String> {
    let words = [
        ("auto", Want::Auto),
        ("packet", Want::Packet),
        ("lent", Want::Lent),
        ("empd", Want::Empd),
        ("xdp", Want::Xdp),
        ("udp", Want::Udp),
        ("shm", Want::Shm),
    ];
    let said = set.as_ref().map(|set| format!("{}={}", set.variable, set.value));
    match one_of(set, &words, Want::Auto)? {
        Want::Auto | Want::Empd if board == Board::Daemon => Ok(Want::Empd),
        _ if board == Board::Daemon => {
            let said = said.unwrap_or_default();
            Err(format!("{said}: an engine in empd has the service's links: auto or empd"))
        }
        wish => Ok(wish),
    }
}

fn board(set: Option<Set>) -> Result<Board, String> {
    let Some(Set { variable, value }) = set.filter(|set| !set.value.is_empty()) else {
        return Ok(Board::default());
    };
    Board::named(&value).map_err(|problem| format!("{variable}={value}: {problem}"))
}

fn wait(set: Option<Set>) -> Result<WaitMode, String> {
    let words =
        [("adaptive", WaitMode::Adaptive), ("spin", WaitMode::Spin), ("sleep", WaitMode::Sleep)];
    one_of(set, &words, WaitMode::default())
}

fn profile(look: &impl Fn(&str) -> Option<Set>) -> Result<Profile, String> {
    let words: Vec<_> = Profile::ALL.iter().map(|profile| (profile.name, *profile)).collect();
    let mut profile = one_of(look("PROFILE"), &words, &Profile::DEFAULT)?.clone();
    if let Some(bytes) = number(look("EAGER"), "bytes")? {
        profile = profile.with_eager(bytes);
    }
    profile.integrity = one_of(look("INTEGRITY"), &Integrity::ALL, profile.integrity)?;
    let set = look("TIMEOUT");
    profile.unreachable_after = Span::ms(TIMEOUT_DEFAULT_MS);
    let variable = set.as_ref().map(|set| set.variable.clone()).unwrap_or_default();
    if let Some(time) = number(set, "milliseconds")? {
        if !(TIMEOUT_MIN_MS..=TIMEOUT_MAX_MS).contains(&time) {
            return Err(format!(
                "{variable}={time}: must be {TIMEOUT_MIN_MS} to {TIMEOUT_MAX_MS} milliseconds"
            ));
        }
        profile.unreachable_after = Span::ms(time);
    }
    let most = [
        ("OPERATIONS", OPERATIONS_MAX, &mut profile.operations_max),
        ("UNEXPECTED", INCOMING_MOST, &mut profile.incoming_max),
    ];
    for (name, most, bound) in most {
        let set = look(name);
        let variable = set.as_ref().map(|set| set.variable.clone()).unwrap_or_default();
        if let Some(count) = number(set, "messages")? {
            let may = |count: &usize| (OPERATIONS_MIN..=most).contains(count);
            *bound = usize::try_from(count).ok().filter(may).ok_or_else(|| {
                format!("{variable}={count}: must be {OPERATIONS_MIN} to {most} messages")
            })?;
        }
    }
    Ok(profile)
}

fn collections(set: Option<Set>) -> Result<Collections, String> {
    let Some(Set { variable, value }) = set else { return Ok(Collections::default()) };
    value.parse().map_err(|problem| format!("{variable}={value}: {problem}"))
}

/// A setting that is a number.
fn number(set: Option<Set>, unit: &str) -> Result<Option<u64>, String> {
    let number = set.map(|Set { variable, value }| {
        value.parse().map_err(|_| format!("{variable}={value}: must be a number of {unit}"))
    });
    number.transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Result<Settings, String> {
        let set = |asked: &str| Set { variable: format!("EMP_{asked}"), value: value.to_string() };
        Settings::read(|asked| (asked == name).then(|| set(asked)))
    }

    #[test]
    fn values_are_understood() {
        assert_eq!(with("LINK", "udp").unwrap().link, Want::Udp);
        assert_eq!(with("LINK", "shm").unwrap().link, Want::Shm);
        assert_eq!(with("LINK", "xdp").unwrap().link, Want::Xdp);
        assert_eq!(with("LINK", "").unwrap().link, Want::Auto);
        let daemon = with("BOARD", "daemon").unwrap();
        assert_eq!((daemon.board, daemon.link), (Board::Daemon, Want::Empd));
        assert_eq!(with("INTERFACE", "a, b,").unwrap().interfaces, ["a", "b"]);
        assert_eq!(with("NAME", " ann ").unwrap().name.as_deref(), Some("ann"));
        assert_eq!(with("NAME", "").unwrap().name, None);
        let peers = with("PEERS", "10.0.0.1, [fd00::2]:9").unwrap().peers;
        assert_eq!(peers, ["10.0.0.1:51966", "[fd00::2]:9"].map(|at| at.parse().unwrap()));
        assert!(with("PEERS", "").unwrap().peers.is_empty());
        assert_eq!(with("PROFILE", "openmx").unwrap().profile.name, "openmx");
        assert_eq!(with("FAULT", "drop:0.01").unwrap().fault.unwrap().drop, 0.01);
        let patient = Profile {
            unreachable_after: Span::ms(TIMEOUT_DEFAULT_MS),
            ..Profile::DEFAULT.with_eager(70)
        };
        assert_eq!(with("EAGER", "70").unwrap().profile, patient);
        assert_eq!(with("TIMEOUT", "70").unwrap().profile.unreachable_after, Span::ms(70));
        assert_eq!(with("INTEGRITY", "").unwrap().profile.integrity, Integrity::Carrier);
        let asked = with("INTEGRITY", "end-to-end").unwrap();
        assert_eq!(asked.profile.integrity, Integrity::EndToEnd);
        assert_eq!(with("WAIT", "sleep").unwrap().wait, WaitMode::Sleep);
        assert!(!with("UDP_PAST_IP", "off").unwrap().udp_past_ip);
        assert_eq!(with("OPERATIONS", "64").unwrap().profile.operations_max, 64);
        assert_eq!(with("UNEXPECTED", "16777216").unwrap().profile.incoming_max, 1 << 24);
        assert_eq!(with("LINGER", "5").unwrap().linger, Duration::from_millis(5));
        assert_eq!(with("BOARD", "split:io").unwrap().board, Board::named("split:io").unwrap());
        assert!(with("BOARD", "split:XY").unwrap_err().starts_with("EMP_BOARD=split:XY: there is"));
    }

    #[test]
    fn the_defaults_are_those_that_are_said() {
        let said = |name| SETTINGS.iter().find(|(known, _)| *known == name).unwrap().1;
        let set = Settings::read(|_| None).unwrap();
        let ms = |time: u64| format!("{time})");
        assert!(said("TIMEOUT").ends_with(&ms(set.profile.unreachable_after.0 / 1_000_000)));
        assert!(said("LINGER").ends_with(&format!("(default: {})", set.linger.as_millis())));
        assert!(said("LINK").ends_with("(default: auto)") && set.link == Want::Auto);
        assert!(said("BOARD").ends_with("(default: inline)"));
        assert_eq!(set.board, Board::Inline { guardian: true });
        assert!(said("WAIT").ends_with("(default: adaptive)") && set.wait == WaitMode::Adaptive);
        assert!(said("UDP_PAST_IP").ends_with("(default: on)") && set.udp_past_ip);
        assert!(said("FAULT").ends_with("(default: none)") && set.fault.is_none());
        assert!(said("COLLECTION").ends_with(&format!("; {})", set.profile.collection)));
        assert!(said("PROFILE").ends_with(&format!("(default: {})", set.profile.name)));
        let Profile { operations_max, incoming_max, .. } = set.profile;
        assert!(said("OPERATIONS").ends_with(&ms(operations_max as u64)));
        assert!(said("OPERATIONS").contains(&format!("{OPERATIONS_MIN} to {OPERATIONS_MAX};")));
        assert!(said("UNEXPECTED").ends_with(&ms(incoming_max as u64)));
        assert!(said("UNEXPECTED").contains(&format!("{OPERATIONS_MIN} to {INCOMING_MOST};")));
        for bytes in [set.profile.eager_bytes, set.profile.long_eager_bytes] {
            assert!(said("EAGER").contains(&format!(" {bytes}")));
        }
    }

    #[test]
    fn mistakes_name_the_variable() {
        let words = ["LINK", "BOARD", "PROFILE", "FAULT", "WAIT", "INTEGRITY", "UDP_PAST_IP"];
        for name in
            words.into_iter().chain(["EAGER", "TIMEOUT", "LINGER", "OPERATIONS", "UNEXPECTED"])
        {
            let error = with(name, "nonsense").unwrap_err();
            assert!(error.starts_with(&format!("EMP_{name}=nonsense")), "{error}");
        }
        for count in ["63", "4194305", "99999999999999999999"] {
            let error = with("OPERATIONS", count).unwrap_err();
            assert!(error.starts_with(&format!("EMP_OPERATIONS={count}: must be")), "{error}");
        }
        let both = |name: &str| {
            let value = if name == "LINK" { "udp" } else { "daemon" }.to_string();
            let set = Set { variable: format!("EMP_{name}"), value };
            matches!(name, "LINK" | "BOARD").then_some(set)
        };
        assert!(Settings::read(both).unwrap_err().starts_with("EMP_LINK=udp: an engine in empd"));
        assert!(with("PEERS", ":7").unwrap_err().starts_with("EMP_PEERS=:7: `:7` is no host"));
        let twice = "EMP_INTERFACES=a, b,a: a is named twice";
        assert_eq!(with("INTERFACES", "a, b,a").unwrap_err(), twice);
        assert!(with("INTERFACES", "a,b,c,d,e").unwrap_err().contains("at most 4"));
        assert!(with("TIMEOUT", "7").unwrap_err().starts_with("EMP_TIMEOUT=7: must be 50"));
    }
}
