//! What is measured: the words that both ends of a benchmark share.

use std::fmt;
use std::time::Duration;

use emp_host::Want;
use emp_link::{FaultPlan, FaultPlanError};
use serde::{Deserialize, Serialize};

use super::cpus::Ends;
use crate::error::user_error;
pub use crate::measured::{Pattern, SubjectKind};

/// Which link carries the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LinkChoice {
    /// The best that is to be had, said aloud.
    Auto,
    /// AF_PACKET rings.
    Packet,
    /// AF_PACKET rings by a socket that the service `empd` lends.
    Lent,
    /// AF_PACKET rings of the service `empd`, for programs without privilege.
    Empd,
    /// AF_XDP rings; one program on an interface at a time.
    Xdp,
    /// UDP sockets.
    Udp,
    /// Memory shared by two processes of one user on one machine.
    Shm,
}

impl LinkChoice {
    /// What it is called by those who choose links.
    pub const fn want(self) -> Want {
        match self {
            Self::Auto => Want::Auto,
            Self::Packet => Want::Packet,
            Self::Lent => Want::Lent,
            Self::Empd => Want::Empd,
            Self::Xdp => Want::Xdp,
            Self::Udp => Want::Udp,
            Self::Shm => Want::Shm,
        }
    }
}

impl fmt::Display for LinkChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Packet => "packet",
            Self::Lent => "lent",
            Self::Empd => "empd",
            Self::Xdp => "xdp",
            Self::Udp => "udp",
            Self::Shm => "shm",
        })
    }
}

/// One subject of a session, the same at both ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// What it is.
    pub kind: SubjectKind,
    /// Its link. TCP has none, and ignores it.
    pub link: LinkChoice,
    /// EMP's protocol parameters, by name.
    pub profile: String,
    /// Frames that one acknowledgement covers, as [`Collections`](emp_host::Collections) reads them; `None`: as the profile has it.
    #[serde(default)]
    pub collection: Option<String>,
    /// Milliseconds of silence after which EMP gives a peer up.
    pub timeout_ms: u64,
    /// What EMP's payloads are checked by, by name.
    #[serde(default = "by_carrier")]
    pub integrity: String,
    /// Long datagrams leave through IP beside raw frames, too, as those of a process without privilege do.
    #[serde(default)]
    pub no_past_ip: bool,
    /// Where EMP's firmware runs, by name.
    pub board: String,
    /// The CPUs of a board on two threads, of either end.
    #[serde(default)]
    pub cpus: Option<Ends>,
    /// EMP's guardian thread is there.
    pub guardian: bool,
    /// The sender says of its messages that others follow, but of the last of a window.
    pub bundle: bool,
    /// What steers TCP, by the kernel's name; `None`: as the kernel has it.
    #[serde(default)]
    pub congestion: Option<String>,
    /// How EMP waits, by name; `None`: as suits the board.
    pub wait: Option<String>,
    /// Part of EMP's frames that each end loses on purpose before they reach the link, 0 to 1.
    pub loss: f64,
    /// Other faults, as `FaultPlan` reads them; empty: none.
    pub faults: String,
    /// Seed of loss and faults.
    pub seed: u64,
    /// Other nodes of EMP that each end starts on the same interface before this one, and that sleep.
    #[serde(default)]
    pub idle_nodes: usize,
}

fn by_carrier() -> String {
    "carrier".to_owned()
}

/// The board whose firmware is in the service `empd`.
pub const DAEMON: &str = "daemon";

impl Spec {
    /// Whether it takes what the service `empd` gives.
    pub fn needs_service(&self) -> bool {
        matches!(self.link, LinkChoice::Lent | LinkChoice::Empd)
    }

    /// EMP as it comes, over a link.
    pub fn emp(link: LinkChoice) -> Self {
        Self {
            kind: SubjectKind::Emp,
            link,
            profile: "default".to_owned(),
            collection: None,
            timeout_ms: 10_000,
            integrity: by_carrier(),
            no_past_ip: false,
            board: "inline".to_owned(),
            cpus: None,
            guardian: true,
            bundle: false,
            congestion: None,
            wait: None,
            loss: 0.0,
            faults: String::new(),
            seed: 1,
            idle_nodes: 0,
        }
    }

    /// Something to measure EMP against: the same link where that means something.
    pub fn against(&self, kind: SubjectKind) -> Self {
        Self { kind, loss: 0.0, faults: String::new(), idle_nodes: 0, ..self.clone() }
    }

    /// What is to go wrong with EMP's frames.
    pub fn fault_plan(&self) -> anyhow::Result<FaultPlan> {
        let plan = match self.faults.as_str() {
            "" => FaultPlan::default(),
            text => text.parse().map_err(|error: FaultPlanError| user_error(error.to_string()))?,
        };
        let seed = if self.faults.contains("seed:") { plan.seed } else { self.seed };
        Ok(FaultPlan { seed, drop: plan.drop.max(self.loss), ..plan })
    }

    /// A few words that tell it from the other subjects of a session: `emp packet`, `tcp`.
    pub fn describe(&self) -> String {
        let mut text = self.kind.name().to_owned();
        if self.uses_link() && self.link != LinkChoice::Auto {
            text += &format!(" {}", self.link);
        }
        if self.board == DAEMON && self.kind == SubjectKind::Emp {
            text += " daemon";
        }
        if self.loss > 0.0 {
            text += " with loss";
        }
        if self.board.starts_with("split") && self.kind == SubjectKind::Emp {
            text += &format!(" {}", self.board);
        }
        if !self.guardian && self.kind == SubjectKind::Emp {
            text += " without guardian";
        }
        if self.wait.as_deref() == Some("adaptive") && self.kind == SubjectKind::Emp {
            text += " adaptive";
        }
        if self.idle_nodes > 0 {
            text += &format!(" beside {} idle", self.idle_nodes);
        }
        if let Some(congestion) = self.congestion.as_ref().filter(|_| self.is_tcp()) {
            text += &format!(" {congestion}");
        }
        if self.bundle && (self.kind == SubjectKind::Emp || self.is_tcp()) {
            text += " bundled";
        }
        text
    }

    /// Whether it is TCP, in whichever way it waits.
    pub fn is_tcp(&self) -> bool {
        matches!(self.kind, SubjectKind::Tcp | SubjectKind::TcpBlock)
    }

    /// Whether the link choice matters to it.
    pub fn uses_link(&self) -> bool {
        !self.is_tcp()
    }

    /// Whether it is EMP through one of its faces.
    pub fn is_face(&self) -> bool {
        self.kind.is_face()
    }
}

/// One slice of work for one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// What to do.
    pub pattern: Pattern,
    /// Bytes of a message.
    pub size: usize,
    /// Messages each way (`pingpong`, `bidir`), or one way.
    pub count: u64,
    /// Messages outstanding at most, where the pattern has several.
    pub window: usize,
}

/// How a slice went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// The job that was done.
    pub job: Job,
    /// From the first message's start to the last one's arrival, or operation's end.
    pub elapsed: Duration,
    /// Part of the traffic that arrived; less than 1 only where nothing is resent (`raw`).
    pub arrived: f64,
}

impl Measure {
    /// Microseconds one way: half of a ping-pong, or of a one-sided operation that was alone under way.
    pub fn one_way_us(&self) -> Option<f64> {
        let Job { pattern, window, count, .. } = self.job;
        let alone = pattern == Pattern::Pingpong || pattern.one_sided() && window == 1;
        alone.then(|| self.elapsed.as_secs_f64() * 1e6 / (2.0 * count as f64))
    }

    /// Payload in units of 10^9 bits per second; of both directions together where both are busy.
    pub fn gbps(&self) -> f64 {
        self.messages() * self.job.size as f64 * 8.0 / self.elapsed.as_secs_f64() / 1e9
    }

    /// Messages per second, of both directions together where both are busy.
    pub fn messages_per_s(&self) -> f64 {
        self.messages() / self.elapsed.as_secs_f64()
    }

    /// Bytes of payload, of both directions together where both are busy.
    pub fn payload_bytes(&self) -> f64 {
        self.messages() * self.job.size as f64
    }

    fn messages(&self) -> f64 {
        let both = matches!(self.job.pattern, Pattern::Pingpong | Pattern::Bidir);
        let messages = if both { 2 * self.job.count } else { self.job.count };
        messages as f64 * self.arrived
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(pattern: Pattern) -> Measure {
        let job = Job { pattern, size: 1000, count: 500, window: 4 };
        Measure { job, elapsed: Duration::from_millis(10), arrived: 1.0 }
    }

    #[test]
    fn a_one_sided_operation_that_is_alone_has_a_time() {
        let mut put = measure(Pattern::Put);
        assert_eq!(put.one_way_us(), None);
        put.job.window = 1;
        assert_eq!(put.one_way_us(), Some(10.0));
        assert!((put.messages_per_s() - 50_000.0).abs() < 1e-6);
    }

    #[test]
    fn figures_follow_from_time_and_count() {
        let pingpong = measure(Pattern::Pingpong);
        assert_eq!(pingpong.one_way_us(), Some(10.0));
        assert!((pingpong.gbps() - 0.8).abs() < 1e-12);
        let stream = measure(Pattern::Stream);
        assert_eq!(stream.one_way_us(), None);
        assert!((stream.gbps() - 0.4).abs() < 1e-12);
        assert!((measure(Pattern::Bidir).messages_per_s() - 100_000.0).abs() < 1e-6);
    }

    #[test]
    fn what_did_not_arrive_does_not_count() {
        let half = Measure { arrived: 0.5, ..measure(Pattern::Rate) };
        assert!((half.messages_per_s() - 25_000.0).abs() < 1e-6);
    }
}
