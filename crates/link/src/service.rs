//! What a node and the service `empd` say to each other, on a Unix socket that keeps messages apart (`SOCK_SEQPACKET`).
//!
//! `empd` owns raw links that its clients may not open themselves. It lends a member of a configured group a packet socket of its
//! own (`Lend`), or gives a client a link of two rings of memory behind which it does the sending itself (`Attach`).

mod attachment;
pub mod channel;
mod link;
pub mod protocol;
pub mod socket;

pub use link::{ServiceLink, ServiceOptions};

use std::path::PathBuf;

/// Where the service listens if nothing else is said: a directory that only root makes.
pub const SOCKET_PATH: &str = "/run/empd/socket";

/// The environment variable that names another place.
pub const SOCKET_VARIABLE: &str = "EMP_SERVICE";

/// Where this process looks for the service: `EMP_SERVICE`, or [`SOCKET_PATH`].
#[must_use]
pub fn socket_path() -> PathBuf {
    let named = std::env::var_os(SOCKET_VARIABLE).filter(|path| !path.is_empty());
    named.map_or_else(|| PathBuf::from(SOCKET_PATH), PathBuf::from)
}

/// The number of this thread's network namespace, for [`protocol::Hello::namespace`]; 0 if it can't be known.
#[must_use]
pub fn namespace() -> u64 {
    crate::namespace::Namespace::number()
}
