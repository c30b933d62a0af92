//! Running nodes as seen from outside, by their state files: `emp nodes`, `peers`, `route`, `counters`, `why`, `metrics` and `top`.

mod counters;
mod look;
pub mod metrics;
mod nodes;
mod peers;
mod rates;
mod route;
mod show;
mod table;
pub mod top;
mod trace;
mod why;

pub use counters::{Args as CountersArgs, run as run_counters};
pub use nodes::{Args as NodesArgs, run as run_nodes};
pub use peers::{Args as PeersArgs, run as run_peers};
pub use route::{Args as RouteArgs, run as run_route};
pub use why::{Args as WhyArgs, run as run_why};
