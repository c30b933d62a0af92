//! How a client gets its channel: connect, say hello and ask at once, and take what comes. Nothing here waits, so that a program whose
//! service has gone can look for a new one between two looks at its other links.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use super::channel::{Channel, MEMORY_BYTES};
use super::held::Held;
use super::protocol::{
    Answer, Attach, Attached, BUFFER_BYTES, Carrier, Hello, Request, VERSION, Welcome,
};
use super::socket;
use crate::namespace::Namespace;

/// Why there is no channel.
#[derive(Debug)]
pub(super) enum Problem {
    /// There is no service there, or it is just going: another try may find one.
    Absent(io::Error),
    /// There is one, and it says no, or something else is wrong: what happened.
    Refused(String),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{
            BrokenPipe, ConnectionRefused, ConnectionReset, NotConnected, NotFound, WouldBlock,
        };
        match error.kind() {
            NotFound | ConnectionRefused | ConnectionReset | BrokenPipe | NotConnected
            | WouldBlock => Self::Absent(error),
            _ => Self::Refused(error.to_string()),
        }
    }
}

/// A connection that has been asked for a channel.
#[derive(Debug)]
pub(super) struct Asking {
    connection: OwnedFd,
    welcomed: bool,
}

/// What the service has given.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) channel: Channel,
    pub(super) carrier: Carrier,
    /// What it gave is given for as long as this is open.
    _connection: Held,
}

impl Asking {
    /// Connects and asks.
    pub(super) fn begin(path: &Path, attach: &Attach) -> Result<Self, Problem> {
        let connection = socket::connect(path)?;
        let namespace = Namespace::number();
        let hello = Request::Hello(Hello { version: VERSION, namespace });
        socket::send(connection.as_fd(), &hello.emit(), &[])?;
        socket::send(connection.as_fd(), &Request::Attach(attach.clone()).emit(), &[])?;
        Ok(Self { connection, welcomed: false })
    }

    pub(super) fn connection(&self) -> std::os::fd::BorrowedFd<'_> {
        self.connection.as_fd()
    }

    /// Takes what has been answered. `Err(self)`: not all is there yet.
    pub(super) fn go_on(mut self) -> Result<Result<Seat, Self>, Problem> {
        let mut bytes = [0; BUFFER_BYTES];
        loop {
            let (got, descriptors) = match socket::receive_with(self.connection.as_fd(), &mut bytes)
            {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Err(self));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            if got == 0 {
                return Err(Problem::Absent(io::ErrorKind::ConnectionReset.into()));
            }
            match Answer::parse(&bytes[..got]) {
                Ok(Answer::Welcome(Welcome { version, .. })) if version != VERSION => {
                    return Err(Problem::Refused(format!(
                        "the service speaks version {version} and this program version {VERSION}"
                    )));
                }
                Ok(Answer::Welcome(_)) if !self.welcomed => self.welcomed = true,
                Ok(Answer::Attached(attached)) if self.welcomed => {
                    return self.seat(attached, descriptors).map(Ok);
                }
                Ok(Answer::Refused(refused)) => return Err(Problem::Refused(refused.reason)),
                Ok(_) => return Err(Problem::Refused("an answer out of turn".into())),
                Err(error) => {
                    return Err(Problem::Refused(format!("it is no service of EMP: {error}")));
                }
            }
        }
    }

    fn seat(self, attached: Attached, descriptors: Vec<OwnedFd>) -> Result<Seat, Problem> {
        let refused = |what: String| Problem::Refused(what);
        if attached.memory_bytes as usize != MEMORY_BYTES {
            let bytes = attached.memory_bytes;
            return Err(refused(format!("it gives memory of {bytes} bytes, not {MEMORY_BYTES}")));
        }
        let Ok([memory, bell]) = <[OwnedFd; 2]>::try_from(descriptors) else {
            return Err(refused("its answer came without memory: raise `ulimit -n`".into()));
        };
        let channel = Channel::open(memory.as_fd(), bell)
            .map_err(|error| refused(format!("mapping the memory that it gives: {error}")))?;
        Ok(Seat { channel, carrier: attached.carrier, _connection: Held::new(self.connection) })
    }
}
