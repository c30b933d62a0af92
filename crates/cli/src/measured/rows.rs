//! Figures as they are written and shown, a row each.

use serde::{Deserialize, Serialize};

use super::{Environment, Pattern, ShareSubject, SubjectKind};

/// One subject at one size. Figures that don't apply are null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What was done.
    pub pattern: Pattern,
    /// By whom.
    pub subject: SubjectKind,
    /// Over which link; null for TCP.
    pub link: Option<String>,
    /// Of the interface, or as asked for.
    pub mtu: usize,
    /// What steered TCP: of those it was measured under, the one under which it was faster at this size. Of others left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// Bytes of a message; null if they vary.
    pub size: Option<usize>,
    /// Microseconds one way.
    pub one_way_us: Option<f64>,
    /// The same as the mean over all messages.
    pub mean_us: Option<f64>,
    /// Payload, in 10^9 bits per second.
    pub gbps: Option<f64>,
    /// Messages per second.
    pub messages_per_s: Option<f64>,
    /// Slices behind the medians.
    pub samples: usize,
    /// User-space copies of each payload byte, both ends together, in the last slice; where that is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<f64>,
    /// The hosts of a lab between which it was done, where there are more than two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<[String; 2]>,
}

/// How a bar came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Its name.
    pub name: String,
    /// The ratio, difference or figure. Null if it could not be measured.
    pub value: Option<f64>,
    /// `≤ 2` or `≥ 0.9`; `-` of a figure that is only told.
    pub limit: String,
    /// It holds; null if it could not be measured, or has no limit.
    pub pass: Option<bool>,
    /// The figures behind it, or why there are none.
    pub figures: String,
}

/// One subject at one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Medians over the trials.
    #[serde(flatten)]
    pub row: Row,
    /// The shortest time of one way in µs: NetPIPE's figure.
    pub best_us: f64,
    /// The longest in µs.
    pub worst_us: f64,
    /// Round trips of a trial.
    pub repeats: u64,
    /// A step of the schedule, not a size beside one.
    pub round: bool,
}

impl Point {
    /// Bytes of a message.
    pub fn bytes(&self) -> usize {
        self.row.size.unwrap_or(0)
    }
}

/// A whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NetpipeRun {
    /// Where it was measured.
    pub environment: Environment,
    /// The command line.
    pub command: String,
    /// The links that EMP chooses by itself here, best first.
    pub auto: Option<String>,
    /// Trials per subject and size.
    pub trials: usize,
    /// Seconds of a trial.
    pub seconds: f64,
    /// The figures, from small sizes to large.
    pub results: Vec<Point>,
}

/// One subject with so much work. Times are medians.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverlapRow {
    /// What was measured.
    pub subject: SubjectKind,
    /// EMP's board.
    pub board: Option<String>,
    /// What steers TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// EMP's link.
    pub link: Option<String>,
    /// Bytes of a message.
    pub size: usize,
    /// Messages each way in a round.
    pub batch: usize,
    /// Computing in a round in µs.
    pub work_us: f64,
    /// Part of the time that user code got, 0 to 100.
    pub user_percent: f64,
    /// Payload sent by this end, in 10^9 bits per second of all the time.
    pub gbps: f64,
    /// That as a part of what it is without work.
    pub of_idle: f64,
    /// Microseconds to post a receive.
    pub post_receive_us: f64,
    /// Microseconds to post a send.
    pub post_send_us: f64,
    /// Microseconds of waiting, for each message one way and one back.
    pub wait_us: f64,
    /// Slices behind the medians.
    pub samples: usize,
}

impl OverlapRow {
    /// A subject and its board or what steers it: `emp inline`, `tcp cubic`.
    pub fn name(&self) -> String {
        let more = self.board.as_ref().or(self.congestion.as_ref());
        let more = more.map(|more| format!(" {more}")).unwrap_or_default();
        format!("{}{more}", self.subject.name())
    }
}

/// One subject at one size: medians in µs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogpRow {
    /// What was measured.
    pub subject: SubjectKind,
    /// EMP's link.
    pub link: Option<String>,
    /// EMP's board.
    pub board: Option<String>,
    /// What steers TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// Bytes of a request and of an answer.
    pub size: usize,
    /// Half a round trip.
    pub half_round_trip_us: f64,
    /// What of it neither end's processor spends.
    pub latency_us: f64,
    /// Of receiving an answer that is there, and posting the next receive.
    pub receive_overhead_us: f64,
    /// Of sending a request.
    pub send_overhead_us: f64,
    /// Between requests, when many are under way.
    pub gap_us: f64,
    /// Slices behind the medians.
    pub samples: usize,
}

/// One subject with so many senders of messages of a size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShareRow {
    /// What shared the port.
    pub subject: ShareSubject,
    /// Bytes of a message.
    pub size: usize,
    /// Hosts that sent.
    pub senders: usize,
    /// Rate of the port, heads included, in 10^9 bits per second.
    pub port_gbps: f64,
    /// Payload that arrived from all of them, in the same unit.
    pub goodput_gbps: f64,
    /// Jain's index of the senders' shares: 1 is even, 1 / senders is all to one.
    pub jain: f64,
    /// Part of the frames towards the receiver that its port dropped.
    pub dropped_share: f64,
    /// The 99th percentile of the round trip of a 64-byte ping-pong beside them, in µs; null if none came back.
    pub small_p99_us: Option<f64>,
    /// Of the payload that arrived, the part of EMP's senders, where there were others too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emp_part: Option<f64>,
}

impl ShareRow {
    /// `0.46 Gb/s, Jain 0.98, 0.31 % dropped, 64 B p99 2310 µs`
    pub fn in_words(&self) -> String {
        let part = self.emp_part.map(|part| format!("EMP has {:.0} %, ", part * 100.0));
        format!(
            "{:.3} Gb/s, {}Jain {:.2}, {:.2} % dropped, 64 B p99 {}",
            self.goodput_gbps,
            part.unwrap_or_default(),
            self.jain,
            self.dropped_share * 100.0,
            self.small_p99_us
                .map_or_else(|| "none came back".to_owned(), |us| format!("{us:.0} µs"))
        )
    }
}
