//! Where a node's firmware runs, how its callers wait, what is acknowledged together. Plain choices; what they mean is done elsewhere.

use std::ops::RangeInclusive;
use std::str::FromStr;

use emp_wire::NodeId;

/// Where the firmware runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Board {
    /// In the calls of the application: lowest latency, no hand-over between cores.
    Inline {
        /// With a guardian: a thread that takes over when the application has made no call for a few milliseconds, so
        /// that its peers neither stall nor take it for dead. It sleeps as long as the application makes progress
        /// (a look every few of them) and when the node is quiet.
        guardian: bool,
    },
    /// In a progress thread: messages move while the application computes.
    Thread,
    /// In the service `empd`, which owns the links: messages move while the application computes, is stopped, or has ended, and the application
    /// needs no privilege.
    Daemon,
    /// Placed on two threads: the application's, which is guarded as that of an inline board, and one of the node's.
    Split {
        /// What is placed where.
        scheme: Scheme,
        /// The CPU that the node's thread stays on, by the system's number; `None`: those that its starter may use.
        cpu: Option<usize>,
    },
}

/// How the engine's stages and the links' calls are placed on two threads, of which the application's is one. Those of the multi-CPU paper's
/// Table 2 (I17) cut the engine (decisions 109 and 134).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// The engine whole on one, links' calls and the copies behind them on the other.
    Io,
    /// SO: transmission on the other, while frames that came are taken.
    SendOnly,
    /// DSR: arriving frames on the other, from their check to their place in memory, while others are sent.
    Dedicated,
    /// RO: what came is copied to its place by the other, while the first checks and matches what came behind it.
    ReceiveOnly,
    /// SR: transmission and copies on the other.
    SendAndReceive,
    /// As DSR, but what the other has not begun by when nothing is left to send is done by the first: either takes what comes next.
    Dynamic,
}

impl Board {
    /// Names of the boards that there are, for who may choose: those that [`named`](Self::named) takes.
    pub const NAMES: [&str; 9] = [
        "inline",
        "thread",
        "split:io",
        "split:SO",
        "split:RO",
        "split:DSR",
        "split:SR",
        "split:dynamic",
        "daemon",
    ];

    /// The board of a name.
    ///
    /// # Errors
    ///
    /// There is none: a line that says which there are, or why this one is not.
    pub fn named(name: &str) -> Result<Self, String> {
        match name {
            "inline" => Ok(Self::default()),
            "thread" => Ok(Self::Thread),
            "daemon" => Ok(Self::Daemon),
            "split" => {
                Err(format!("split is on two threads; say how, as split:io: {}", Scheme::names()))
            }
            _ => match name.strip_prefix("split:") {
                Some(scheme) => Ok(Self::Split { scheme: Scheme::named(scheme)?, cpu: None }),
                None => {
                    Err(format!("there is no board {name}; there are {}", Self::NAMES.join(", ")))
                }
            },
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inline { guardian: true } => "inline",
            Self::Inline { guardian: false } => "unguarded",
            Self::Thread => "thread",
            Self::Daemon => "daemon",
            Self::Split { scheme: Scheme::Io, .. } => "split:io",
            Self::Split { scheme: Scheme::SendOnly, .. } => "split:SO",
            Self::Split { scheme: Scheme::ReceiveOnly, .. } => "split:RO",
            Self::Split { scheme: Scheme::Dedicated, .. } => "split:DSR",
            Self::Split { scheme: Scheme::SendAndReceive, .. } => "split:SR",
            Self::Split { scheme: Scheme::Dynamic, .. } => "split:dynamic",
        }
    }
}

impl Scheme {
    const ALL: [(&str, Self); 6] = [
        ("io", Self::Io),
        ("SO", Self::SendOnly),
        ("RO", Self::ReceiveOnly),
        ("DSR", Self::Dedicated),
        ("SR", Self::SendAndReceive),
        ("dynamic", Self::Dynamic),
    ];

    fn names() -> String {
        Self::ALL.map(|(name, _)| name).join(", ")
    }

    /// The scheme of a name.
    ///
    /// # Errors
    ///
    /// There is none.
    fn named(name: &str) -> Result<Self, String> {
        let one = Self::ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let unknown = || format!("there is no scheme {name}; there are {}", Self::names());
        one.map(|(_, scheme)| *scheme).ok_or_else(unknown)
    }
}

impl Default for Board {
    fn default() -> Self {
        Self::Inline { guardian: true }
    }
}

/// Whether a node shows its state to whoever looks from outside (`emp nodes`, `top`, `why`), by a file in the machine's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateFile {
    /// No.
    Off,
    /// To its user, and root.
    Own,
    /// To everyone on the machine.
    All,
}

/// How many frames one acknowledgement covers, of all peers and of single ones: `16,PEER=4` as a text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Collections {
    /// Of those that have none of their own; `None`: as the profile has it.
    pub all: Option<u32>,
    /// Of peers: by what they call themselves, what they were called when their identity was made of that, or their identity (16 digits).
    pub of: Vec<(String, u32)>,
}

/// Peers that have a collection of their own: more than anybody types.
const COLLECTIONS_MAX: usize = 1_024;

impl Collections {
    /// Frames that may be asked for: what is owed is counted in 16 bits.
    pub const FRAMES: RangeInclusive<u32> = 1..=65_535;

    /// That of a peer of this identity and name, if it has one.
    pub(crate) fn of_peer(&self, node: NodeId, name: &str) -> Option<u32> {
        let is = |called: &str| {
            called == name && !name.is_empty()
                || NodeId::from_name(called) == node
                || called == node.to_string()
        };
        self.of.iter().find(|(called, _)| is(called)).map(|(_, frames)| *frames)
    }
}

impl FromStr for Collections {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut collections = Self::default();
        for part in text.split(',').map(str::trim) {
            let (peer, count) = part.rsplit_once('=').map_or((None, part), |(p, c)| (Some(p), c));
            let frames = count.parse().ok().filter(|frames| Self::FRAMES.contains(frames));
            let frames = frames.ok_or_else(|| {
                let (least, most) = (Self::FRAMES.start(), Self::FRAMES.end());
                format!("a collection of {count} frames; there are {least} to {most}")
            })?;
            match peer {
                None if collections.all.is_some() => {
                    return Err("two collections for all peers".to_owned());
                }
                None => collections.all = Some(frames),
                Some("") => return Err(format!("{part}: a collection of a peer without a name")),
                Some(peer) => collections.of.push((peer.to_owned(), frames)),
            }
        }
        if collections.of.len() > COLLECTIONS_MAX {
            return Err(format!("collections of more than {COLLECTIONS_MAX} peers"));
        }
        Ok(collections)
    }
}

/// How callers (and the progress thread) wait for something to happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WaitMode {
    /// Never sleep: the lowest latency, and a whole core for it.
    Spin,
    /// Look again and again for about twice as long as recent waits took (50 to 200 µs; 5 µs where they take longer), then
    /// offer the core to others after each look for as long again, then sleep until something happens.
    /// [`HostCounters`](crate::HostCounters) shows what was learned.
    #[default]
    Adaptive,
    /// Sleep at once.
    Sleep,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_are_of_all_or_of_a_peer() {
        let read = |text: &str| text.parse::<Collections>();
        assert_eq!(read("16"), Ok(Collections { all: Some(16), of: Vec::new() }));
        let both = read("bob=4, 16,00000000000000ff=2").unwrap();
        assert_eq!(both.all, Some(16));
        assert_eq!(
            both.of_peer(NodeId::from_name("bob"), ""),
            Some(4),
            "its identity is made of that"
        );
        assert_eq!(both.of_peer(NodeId(7), "bob"), Some(4), "it calls itself so");
        assert_eq!(both.of_peer(NodeId(255), "x"), Some(2));
        assert_eq!(both.of_peer(NodeId(7), ""), None);
        for (wrong, says) in [
            ("", "a collection of  frames"),
            ("0", "a collection of 0 frames; there are 1 to 65535"),
            ("65536", "a collection of 65536 frames"),
            ("-1", "a collection of -1 frames"),
            ("bob=", "a collection of  frames"),
            ("=3", "without a name"),
            ("3,4", "two collections for all"),
            ("16,", "a collection of  frames"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(says) && !error.contains('\n'), "{wrong}: {error}");
        }
        let many: Vec<_> = (0..=COLLECTIONS_MAX).map(|peer| format!("{peer}=1")).collect();
        assert!(read(&many.join(",")).unwrap_err().contains("more than 1024"));
    }

    #[test]
    fn boards_have_names() {
        for name in Board::NAMES {
            assert_eq!(Board::named(name).unwrap().name(), name);
        }
        let any_case = Board::Split { scheme: Scheme::Io, cpu: None };
        assert_eq!(Board::named("split:IO"), Ok(any_case));
        for (name, says) in [
            ("moon", "split:SO, split:RO, split:DSR, split:SR, split:dynamic, daemon"),
            ("split", "say how, as split:io: io, SO, RO, DSR, SR, dynamic"),
            ("split:", "there is no scheme ;"),
            ("split:both", "there is no scheme both; there are io, SO, RO, DSR, SR, dynamic"),
        ] {
            let error = Board::named(name).unwrap_err();
            assert!(error.contains(says) && !error.contains('\n'), "{error}");
        }
    }
}
