//! Figures of an MPI over its transports.

use serde::{Deserialize, Serialize};

use super::{Environment, Verdict};
use crate::mpi::Transport;

/// One transport at one size; figures that don't apply are null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MpiRow {
    /// What was done.
    pub pattern: String,
    /// Over what: `emp`, `tcp`, `rxm`, `ucx`.
    pub transport: Transport,
    /// What steered TCP: that under which it was faster at this size; left out of others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// The transport's name with this MPI.
    pub subject: String,
    /// Bytes of a message.
    pub size: usize,
    /// Microseconds: one way of a ping-pong; an allreduce, a put or a get until it is done.
    pub one_way_us: Option<f64>,
    /// The same as the mean over rounds.
    pub mean_us: Option<f64>,
    /// Payload, in 10^9 bits per second.
    pub gbps: Option<f64>,
    /// Messages or operations per second.
    pub messages_per_s: Option<f64>,
    /// Rounds behind the medians.
    pub samples: usize,
    /// The median, over rounds, of the time over EMP to the time over this; below 1 EMP is faster.
    pub emp_to_this: Option<f64>,
}

/// A whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MpiResults {
    /// Where it was measured.
    pub environment: Environment,
    /// The command line.
    pub command: String,
    /// Which MPI.
    pub mpi: String,
    /// The figures: medians.
    pub results: Vec<MpiRow>,
    /// What the provider adds to the host API, if that was measured.
    pub provider: Option<MpiProviderCost>,
    /// Where the ping-pong is by what is aimed at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bars: Vec<Verdict>,
}

/// The two ping-pongs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MpiProviderCost {
    /// Bytes of a message.
    pub size: usize,
    /// Microseconds one way through the host API; the median over slices.
    pub host_us: f64,
    /// Through libfabric.
    pub libfabric_us: f64,
    /// The median of the differences between neighbouring slices.
    pub adds_us: f64,
    /// Slices behind the medians.
    pub samples: usize,
}
