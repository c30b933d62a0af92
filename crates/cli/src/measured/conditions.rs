//! Where a benchmark ran: without it, figures can't be compared.

use serde::{Deserialize, Serialize};

/// Facts about the machine and the path that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// UTC, `2026-01-31T12:00:00Z`.
    pub date: String,
    /// Version of emp.
    pub version: String,
    /// Commit it was built from, if the build named one in `EMP_COMMIT`.
    pub commit: Option<String>,
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// Logical CPUs.
    pub cores: usize,
    /// How many programs wanted a core just before, on average over a minute.
    pub load: f64,
    /// The two ends are network namespaces on this machine.
    pub lab: bool,
    /// Interface between the two ends.
    pub interface: String,
    /// MTU in force.
    pub mtu: usize,
    /// Links that may be used here, and why not others.
    pub links: Vec<String>,
    /// The interface's driver, if it says.
    pub driver: Option<String>,
    /// Offloads of the interface that are on, of `gro`, `gso`, `tso`, `lro`; null if it does not say.
    pub offloads: Option<Vec<String>>,
    /// What steers TCP's connections here unless they choose: `cubic`, `bbr`, …. The same machine may stream six times as much with
    /// one as with the other; results name the one that they were measured under.
    #[serde(default)]
    pub tcp_congestion: String,
}

/// Load, in programs per core, above which others are likely to have disturbed the figures.
const LOAD_NOTED: f64 = 0.3;

/// Whether others are likely to have disturbed the figures of so many cores.
pub fn is_loaded(load: f64, cores: usize) -> bool {
    load / cores as f64 > LOAD_NOTED
}
