//! The configuration: a file of TOML, every line of which may be left out (docs/guide/empd.md).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use emp_link::service::SOCKET_PATH;
use emp_wire::ETHERTYPE_DEFAULT;
use serde::Deserialize;

use crate::people::People;
use crate::switch::pace::Polling;
use crate::switch::rates::Rate;

/// Where the file is if nothing else is said; it need not be there.
pub const CONFIG_PATH: &str = "/etc/emp/empd.toml";

/// Longest that a service goes on after another has taken its place: a year, which the clock can be asked for.
const DRAIN_SECONDS_MAX: u64 = 365 * 24 * 3600;

/// What the service goes by.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens.
    pub socket: PathBuf,
    /// Who it becomes when root starts it; `None`: whoever started it.
    pub user: Option<String>,
    /// Interfaces that it serves; empty: every one that carries Ethernet frames.
    pub interfaces: Vec<String>,
    /// EtherType of frames.
    pub ethertype: u16,
    /// To whom raw sockets are lent.
    pub lend: People,
    /// Who may attach.
    pub attach: People,
    /// How the frames of those who attach are waited for.
    pub polling: Polling,
    /// Engines send long messages as datagrams (decision 117), where no rate is set.
    pub datagrams: bool,
    /// What there may be of each thing.
    pub limits: Limits,
}

/// What there may be of each thing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Connections.
    pub connections: usize,
    /// Connections of one user.
    pub connections_per_user: usize,
    /// Sockets that are lent to one user, each with a ring of 1 or 2 MiB (at MTU 1500) of the kernel's memory.
    pub lent_per_user: usize,
    /// Engines of one user, each with a thread and the memory of a node.
    pub engines_per_user: usize,
    /// Bytes that an engine keeps for its client at most: of messages that are sent, and of buffers for those that are received.
    pub held_bytes_per_engine: u64,
    /// Operations that an engine has under way for its client at most, and as many receives.
    pub operations_per_engine: usize,
    /// Messages that an engine holds before there are receives for them, at most.
    pub unexpected_per_engine: usize,
    /// Nodes that an engine knows at a time.
    pub peers_per_engine: usize,
    /// Regions that it exports for its client at a time.
    pub regions_per_engine: usize,
    /// Bytes a second that all attached clients of one user send together, a frame counting 1,024 beside its length; nothing said: as many
    /// as they can.
    pub bytes_per_second_per_user: Option<u64>,
    /// How long it goes on with its clients once another service has taken its place, in seconds. Those that are there then go on with the
    /// other, and lose what is in their rings, which is sent again.
    pub drain_seconds: u64,
}

impl Limits {
    /// What a user may send.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        // A hundredth of a second's: what a message of a megabyte takes at a gigabit a second, and none need wait for the first frames.
        let burst = |bytes: u64| (bytes / 100).max(1 << 20);
        self.bytes_per_second_per_user
            .map(|bytes| Rate { bytes_per_second: bytes, burst_bytes: burst(bytes) })
    }
}

impl Default for Limits {
    /// Two jobs of 256 ranks of one user, and four of several: a service has to be set up for more.
    fn default() -> Self {
        Self {
            connections: 1024,
            connections_per_user: 512,
            lent_per_user: 256,
            engines_per_user: 256,
            held_bytes_per_engine: 256 << 20,
            operations_per_engine: 1 << 16,
            unexpected_per_engine: 1 << 16,
            peers_per_engine: 1 << 17,
            regions_per_engine: 1 << 16,
            bytes_per_second_per_user: None,
            drain_seconds: 3600,
        }
    }
}

/// The file, as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    socket: Option<PathBuf>,
    user: Option<String>,
    interfaces: Vec<String>,
    ethertype: Option<u16>,
    lend: Option<List>,
    attach: Option<List>,
    polling: Option<String>,
    datagrams: Option<bool>,
    cpu: Option<usize>,
    limits: Limits,
}

impl Written {
    /// One of the two words, or a core.
    fn polling(&self) -> Result<Polling, String> {
        let cores = std::thread::available_parallelism().map_or(usize::MAX, usize::from);
        match (self.polling.as_deref(), self.cpu) {
            (None, None) => Ok(Polling::default()),
            (None, Some(core)) if core < cores => Ok(Polling::Dedicated(core)),
            (None, Some(core)) => Err(format!("cpu: there is no core {core}: there are {cores}")),
            (Some("sleeping"), None) => Ok(Polling::Sleeping),
            (Some("adaptive"), None) => Ok(Polling::Adaptive),
            (Some(_), Some(_)) => {
                Err("cpu: a core of its own is always polled, without `polling`".into())
            }
            (Some(word), None) => Err(format!("polling: {word} is neither sleeping nor adaptive")),
        }
    }
}

/// One name, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum List {
    One(String),
    Several(Vec<String>),
}

impl List {
    fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Several(names) => names,
        }
    }
}

impl Config {
    /// What holds where nothing is said: everyone may attach, as everyone may open UDP sockets; nothing is lent.
    #[must_use]
    pub fn usual() -> Self {
        Self {
            socket: SOCKET_PATH.into(),
            user: None,
            interfaces: Vec::new(),
            ethertype: ETHERTYPE_DEFAULT,
            lend: People::default(),
            attach: People::everyone(),
            polling: Polling::default(),
            datagrams: true,
            limits: Limits::default(),
        }
    }

    /// Reads the file that was named, or the usual one if it is there.
    ///
    /// # Errors
    ///
    /// One line: which file, what is wrong with it, and where.
    pub fn read(named: Option<&Path>) -> Result<Self, String> {
        let path = named.unwrap_or(Path::new(CONFIG_PATH));
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&text).map_err(|why| format!("{}: {why}", path.display())),
            Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => {
                Ok(Self::usual())
            }
            Err(error) => Err(format!("{}: reading it: {error}", path.display())),
        }
    }

    /// Reads a file's text.
    ///
    /// # Errors
    ///
    /// One line: what is wrong, and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let written: Written = toml::from_str(text).map_err(|error| one_line(text, &error))?;
        let people = |list: &Option<List>, usual: People, key: &str| {
            list.as_ref().map_or(Ok(usual), |list| {
                People::parse(list.names()).map_err(|why| format!("{key}: {why}"))
            })
        };
        let usual = Self::usual();
        let polling = written.polling()?;
        let config = Self {
            socket: written.socket.unwrap_or(usual.socket),
            user: written.user,
            interfaces: written.interfaces,
            ethertype: written.ethertype.unwrap_or(usual.ethertype),
            lend: people(&written.lend, usual.lend, "lend")?,
            attach: people(&written.attach, usual.attach, "attach")?,
            polling,
            datagrams: written.datagrams.unwrap_or(usual.datagrams),
            limits: written.limits,
        };
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        /// Smaller numbers are lengths of frames.
        const ETHERTYPE_MIN: u16 = 0x0600;
        if self.ethertype < ETHERTYPE_MIN {
            return Err(format!(
                "ethertype: {:#06x} is none: they begin at {ETHERTYPE_MIN:#06x}",
                self.ethertype
            ));
        }
        let Limits { connections, connections_per_user, lent_per_user, .. } = self.limits;
        let Limits { engines_per_user, held_bytes_per_engine, .. } = self.limits;
        let Limits { peers_per_engine, regions_per_engine, .. } = self.limits;
        let counts = [connections, connections_per_user, lent_per_user, engines_per_user];
        let counts = counts.into_iter().chain([peers_per_engine, regions_per_engine]);
        if counts.into_iter().any(|count| count == 0) || held_bytes_per_engine == 0 {
            return Err("limits: 0 leaves nothing to serve".into());
        }
        if self.limits.bytes_per_second_per_user == Some(0) {
            return Err("limits: 0 bytes a second are nothing to send".into());
        }
        let drain_seconds = self.limits.drain_seconds;
        if drain_seconds > DRAIN_SECONDS_MAX {
            return Err(format!(
                "limits: drain_seconds: {drain_seconds} is too long: a year, {DRAIN_SECONDS_MAX}, at most"
            ));
        }
        Ok(())
    }

    /// Whether an interface is one of those that are served.
    #[must_use]
    pub fn serves(&self, interface: &str) -> bool {
        self.interfaces.is_empty() || self.interfaces.iter().any(|served| served == interface)
    }
}

/// What TOML's reader says in several lines, with the number of the line that it means.
fn one_line(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', " ");
    let before = error.span().and_then(|span| text.get(..span.start));
    before.map_or_else(
        || message.clone(),
        |before| format!("line {}: {message}", 1 + before.matches('\n').count()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_waited_for_as_is_said() {
        let polling = |text: &str| Config::parse(text).map(|config| config.polling);
        assert_eq!(polling(""), Ok(Polling::Adaptive));
        assert_eq!(polling("polling = \"sleeping\""), Ok(Polling::Sleeping));
        assert_eq!(polling("cpu = 0"), Ok(Polling::Dedicated(0)));
        for wrong in ["polling = \"never\"", "cpu = 100000", "polling = \"adaptive\"\ncpu = 0"] {
            assert!(polling(wrong).is_err(), "{wrong}");
        }
        let limits = |text: &str| Config::parse(text).map(|config| config.limits.rate());
        assert_eq!(limits(""), Ok(None));
        let some = limits("[limits]\nbytes_per_second_per_user = 1000000000");
        let rate = Rate { bytes_per_second: 1_000_000_000, burst_bytes: 10_000_000 };
        assert_eq!(some, Ok(Some(rate)));
        assert!(limits("[limits]\nbytes_per_second_per_user = 0").is_err());
    }

    #[test]
    fn an_empty_file_lends_nothing() {
        let config = Config::parse("").expect("it is one");
        assert!(config.lend.is_nobody() && !config.attach.is_nobody());
        assert_eq!(config.socket, Path::new(SOCKET_PATH));
        assert!(config.serves("eth7"));
        assert_eq!(config.limits, Limits::default());
    }

    #[test]
    fn every_line_is_taken() {
        let config = Config::parse(
            "socket = '/tmp/s'\nuser = 'nobody'\ninterfaces = ['eth0']\nethertype = 0x88b6\n\
             lend = 'group:root'\nattach = ['user:root', 'everyone']\n\
             [limits]\nconnections = 5\nlent_per_user = 2\n",
        );
        let config = config.expect("it is one");
        assert_eq!((config.socket.as_path(), config.ethertype), (Path::new("/tmp/s"), 0x88b6));
        assert_eq!(config.user.as_deref(), Some("nobody"));
        assert!(config.serves("eth0") && !config.serves("eth1"));
        assert_eq!(config.lend.to_string(), "group root");
        assert_eq!(config.attach.to_string(), "user root, everyone");
        let limits = Limits { connections: 5, lent_per_user: 2, ..Limits::default() };
        assert_eq!(config.limits, limits);
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line() {
        for (text, said) in [
            ("lend = 'group:no-such-group'", "lend: there is no group"),
            ("attach = ['user:no-such-user']", "attach: there is no user"),
            ("lend = 7", "line 1: "),
            ("\n\nlent = 'group:root'", "line 3: unknown field `lent`"),
            ("ethertype = 70000", "line 1: "),
            ("ethertype = 100", "ethertype: 0x0064 is none"),
            ("[limits]\nconnections = 0", "limits: 0"),
            ("[limits]\npeers_per_engine = 0", "limits: 0"),
            ("[limits]\nregions_per_engine = 0", "limits: 0"),
            ("[limits]\nconnections = -1", "line 2: "),
            ("[limits]\ndrain_seconds = 31536001", "limits: drain_seconds: 31536001 is too long"),
            ("[limits]\ndrain_seconds = 9223372036854775807", "limits: drain_seconds: "),
            ("a = [", "line 1: "),
            ("\u{0}", "line 1: "),
        ] {
            let error = Config::parse(text).expect_err(text);
            assert!(error.starts_with(said) && !error.contains('\n'), "{text:?}: {error}");
        }
        assert!(Config::parse("[limits]\ndrain_seconds = 31536000").is_ok());
        let missing = Config::read(Some(Path::new("/no/such/file"))).expect_err("it is missing");
        assert!(missing.starts_with("/no/such/file: reading it: "), "{missing}");
        assert!(Config::read(Some(Path::new("/"))).is_err());
    }
}
