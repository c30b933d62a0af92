//! What a node and the service `empd` say to each other, on a Unix socket that keeps messages apart (`SOCK_SEQPACKET`).
//!
//! `empd` owns raw links that its clients may not open themselves. It lends a member of a configured group a packet socket of its
//! own (`Lend`), or gives a client a link of two rings of memory behind which it does the sending itself (`Attach`).

mod attachment;
pub mod channel;
mod engine;
pub(crate) mod held;
mod link;
pub mod protocol;
pub mod socket;
pub mod yields;

pub use engine::{EngineSeat, ask_engine};
pub use held::Held;
pub use link::{ServiceLink, ServiceOptions};

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::system;

/// Where the service listens if nothing else is said: a directory that only root makes.
pub const SOCKET_PATH: &str = "/run/empd/socket";

/// The environment variable that names another place.
pub const SOCKET_VARIABLE: &str = "EMP_SERVICE";

/// Stands in a path of the service for the number of a network namespace, as `lsns -t net` and `readlink /proc/self/ns/net` show it. Launchers
/// of parallel jobs give the environment of one host to all others: so one value may lead each process to the service of its own namespace.
pub const NAMESPACE_TOKEN: &str = "%N";

static NAMED: OnceLock<PathBuf> = OnceLock::new();

/// Has this process look for the service there, whatever its environment says: for programs that start one. Of several calls the first counts.
pub fn name_socket(path: PathBuf) {
    let _ = NAMED.set(path);
}

/// Where this thread looks for the service: `EMP_SERVICE`, or [`SOCKET_PATH`].
#[must_use]
pub fn socket_path() -> PathBuf {
    let of_environment = || std::env::var_os(SOCKET_VARIABLE).filter(|path| !path.is_empty());
    let named = NAMED.get().cloned().or_else(|| of_environment().map(PathBuf::from));
    named.map_or_else(|| PathBuf::from(SOCKET_PATH), |path| here(&path))
}

/// A path of the service as it is in the network namespace of this thread.
#[must_use]
pub fn here(path: &Path) -> PathBuf {
    in_namespace(path, namespace())
}

/// The same in the network namespace of a number.
#[must_use]
pub fn in_namespace(path: &Path, number: u64) -> PathBuf {
    match path.to_str() {
        Some(text) if text.contains(NAMESPACE_TOKEN) => {
            text.replace(NAMESPACE_TOKEN, &number.to_string()).into()
        }
        _ => path.into(),
    }
}

/// How long [`ask`] waits for the service to say who it is.
const GREETING: Duration = Duration::from_secs(5);

/// Asks the service at `path` what this user may have. Waits for the answer, five seconds at most.
///
/// # Errors
///
/// One line: why there is no answer.
pub fn ask(path: &Path) -> Result<protocol::Welcome, String> {
    let connection = socket::connect(path).map_err(|error| format!("connecting: {error}"))?;
    let hello = protocol::Hello { version: protocol::VERSION, namespace: namespace() };
    let hello = protocol::Request::Hello(hello).emit();
    socket::send(connection.as_fd(), &hello, &[]).map_err(|error| format!("asking: {error}"))?;
    let mut bytes = [0; protocol::BUFFER_BYTES];
    if system::poll(connection.as_fd(), Some(GREETING)) == system::Polled::Nothing {
        return Err(format!("no answer within {} s", GREETING.as_secs()));
    }
    let got = socket::receive(connection.as_fd(), &mut bytes)
        .map_err(|error| format!("hearing its answer: {error}"))?;
    match protocol::Answer::parse(&bytes[..got]) {
        Ok(protocol::Answer::Welcome(welcome)) if welcome.version == protocol::VERSION => {
            Ok(welcome)
        }
        Ok(protocol::Answer::Welcome(welcome)) => Err(format!(
            "it speaks version {} of its messages, this program version {}",
            welcome.version,
            protocol::VERSION
        )),
        Ok(protocol::Answer::Refused(refused)) => Err(refused.reason),
        Ok(_) => Err("it answers another question".into()),
        Err(malformed) => Err(format!("it is no empd that this program knows: {malformed}")),
    }
}

/// The number of this thread's network namespace, for [`protocol::Hello::namespace`]; 0 if it can't be known.
#[must_use]
pub fn namespace() -> u64 {
    crate::namespace::Namespace::number()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_leads_each_namespace_to_its_own_service() {
        let one = Path::new("/run/emp/%N/socket-%N");
        assert_eq!(in_namespace(one, 42), Path::new("/run/emp/42/socket-42"));
        assert_eq!(in_namespace(Path::new(SOCKET_PATH), 42), Path::new(SOCKET_PATH));
        assert_eq!(here(one), in_namespace(one, namespace()));
        assert_ne!(namespace(), 0);
    }
}
