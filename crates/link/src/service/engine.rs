//! How a client gets an engine of its own in the service: connect, say hello, ask, wait for what comes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use super::channel::{Channel, MEMORY_BYTES};
use super::held::Held;
use super::protocol::{Answer, BUFFER_BYTES, Engine, Hello, Request, VERSION, Welcome};
use super::{namespace, socket};
use crate::system;

/// An engine's channel, which lasts as long as the connection beside it.
#[derive(Debug)]
pub struct EngineSeat {
    /// Posts one way, what has ended the other.
    pub channel: Channel,
    /// What the service gave is given for as long as this is open.
    pub connection: Held,
}

/// Asks the service at `path` for an engine. Waits for the answer, at most for `patience`.
///
/// # Errors
///
/// One line: why there is none, and what to do.
pub fn ask_engine(path: &Path, engine: &Engine, patience: Duration) -> Result<EngineSeat, String> {
    let connection = socket::connect(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            format!("no service listens at {}: start empd", path.display())
        }
        _ => format!("connecting to {}: {error}", path.display()),
    })?;
    let hello = Request::Hello(Hello { version: VERSION, namespace: namespace() });
    for request in [hello, Request::Engine(engine.clone())] {
        let sent = socket::send(connection.as_fd(), &request.emit(), &[]);
        sent.map_err(|error| format!("asking the service: {error}"))?;
    }
    let since = Instant::now();
    let mut welcomed = false;
    loop {
        let mut bytes = [0; BUFFER_BYTES];
        match socket::receive_with(connection.as_fd(), &mut bytes) {
            Ok((0, _)) => return Err("the service hung up".into()),
            Ok((got, descriptors)) => match Answer::parse(&bytes[..got]) {
                Ok(Answer::Welcome(Welcome { version, .. })) if version != VERSION => {
                    return Err(format!(
                        "the service speaks version {version} of its messages, this program version {VERSION}"
                    ));
                }
                Ok(Answer::Welcome(_)) if !welcomed => welcomed = true,
                Ok(Answer::Seated(seated)) if welcomed => {
                    let channel = open(seated.memory_bytes, descriptors)?;
                    return Ok(EngineSeat { channel, connection: Held::new(connection) });
                }
                Ok(Answer::Refused(refused)) => return Err(refused.reason),
                Ok(_) => return Err("the service gave an answer out of turn".into()),
                Err(error) => return Err(format!("it is no service of EMP: {error}")),
            },
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => {
                    let left = patience.saturating_sub(since.elapsed());
                    if left.is_zero() {
                        return Err(format!("no answer within {} s", patience.as_secs()));
                    }
                    system::poll(connection.as_fd(), Some(left));
                }
                _ => return Err(format!("hearing the service: {error}")),
            },
        }
    }
}

fn open(memory_bytes: u32, descriptors: Vec<OwnedFd>) -> Result<Channel, String> {
    if memory_bytes as usize != MEMORY_BYTES {
        return Err(format!(
            "the service gives memory of {memory_bytes} bytes, not {MEMORY_BYTES}: upgrade the older of the two"
        ));
    }
    let Ok([memory, bell]) = <[OwnedFd; 2]>::try_from(descriptors) else {
        return Err("the service's answer came without memory: raise `ulimit -n`".into());
    };
    Channel::open(memory.as_fd(), bell).map_err(|error| format!("mapping the memory: {error}"))
}
