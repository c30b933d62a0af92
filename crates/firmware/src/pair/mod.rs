//! Who the peers of a node are, how they are found, and by which paths each is reached.

pub(crate) mod greetings;
mod hops;
pub(crate) mod peers;
pub(crate) mod routes;
pub(crate) mod searches;
mod siphash;

pub(crate) use peers::{Peer, Peers, ROUTE_QUIET_MS, mark, milliseconds};
