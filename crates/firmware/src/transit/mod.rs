//! What a relay holds: frames on their way through it, searches that it has seen, and what it counts of its neighbours (`RELAY-6` to `RELAY-9`).
//! All of it is bounded, none of it is needed for the next frame: a relay that restarts goes on as if nothing had happened.

mod bucket;
mod neighbours;
mod queue;
mod seen;

pub(crate) use bucket::Bucket;
pub(crate) use neighbours::Neighbours;
pub use neighbours::{RELAY_REASONS, RelayNeighbour};
pub(crate) use queue::{Queue, Source};
pub(crate) use seen::Seen;
