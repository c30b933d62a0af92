//! Who the peers of a node are, how they are found, and by which paths each is reached.

pub(crate) mod greetings;
pub(crate) mod peers;
pub(crate) mod routes;
pub(crate) mod searches;
mod siphash;
mod ways;

pub(crate) use peers::{Peer, Peers, ROUTE_QUIET_MS, mark, milliseconds};
