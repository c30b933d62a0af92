//! What simulated cards share: virtual time, resources with a queue, host memory by physical pages, the engine's seam, and figures with sources.

mod agenda;
mod engine;
mod parameter;
mod ram;
mod server;

pub(crate) use agenda::Agenda;
pub(crate) use engine::{Class, Engine, OutFrame, node, payload_bytes};
pub use parameter::{Parameter, Source};
pub use ram::HostRam;
pub(crate) use ram::PAGE_BYTES;
pub(crate) use server::Server;
