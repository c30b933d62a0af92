//! One service takes another's place: it is handed the listening socket, with which new clients come to it, while the other goes on serving
//! those that it has.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use emp_link::service::protocol::{
    Answer, BUFFER_BYTES, HOLDINGS_MAX, Handed, Held, Hello, Holding, Request, VERSION,
};
use emp_link::service::{namespace, socket};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::door::Listening;

/// How long a service may take to hand over: it first answers those that have just come in, and steps out of the way on each interface.
const PATIENCE: Duration = Duration::from_secs(20);

/// The service that was here before, for as long as it serves.
#[derive(Debug)]
pub struct Predecessor {
    connection: OwnedFd,
    /// The users of its clients by their tags.
    held: HashMap<u16, u32>,
}

impl Predecessor {
    /// Whether somebody else's node there has this tag: it would read along.
    #[must_use]
    pub fn has(&self, tag: u16, but_for: u32) -> bool {
        let other = self.held.get(&tag).is_some_and(|user| *user != but_for);
        other && !socket::is_over(self.connection.as_fd())
    }
}

/// Whether a service listens at a path.
#[must_use]
pub fn listens(path: &Path) -> bool {
    socket::connect(path).is_ok()
}

/// Asks the service that listens at a path for its socket. `Ok(None)`: it ended meanwhile.
///
/// # Errors
///
/// A line: it does not give it.
pub fn take_over(path: &Path) -> Result<Option<(Listening, Predecessor)>, String> {
    let place = path.display();
    let failed = |why: String| format!("the service at {place} does not hand over: {why}");
    let connection = match socket::connect(path) {
        Ok(connection) => connection,
        Err(error) if is_gone(&error) => return Ok(None),
        Err(error) => return Err(failed(error.to_string())),
    };
    let hello = Request::Hello(Hello { version: VERSION, namespace: namespace() });
    for request in [hello, Request::Replace] {
        match socket::send(connection.as_fd(), &request.emit(), &[]) {
            Ok(()) => {}
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(failed(error.to_string())),
        }
    }
    let (mut held, until) = (HashMap::new(), Instant::now() + PATIENCE);
    loop {
        let Some((answer, descriptors)) = answer(&connection, until).map_err(failed)? else {
            return Ok(None);
        };
        match answer {
            Answer::Welcome(welcome) if welcome.version == VERSION => {}
            Answer::Held(more) => {
                held.extend(more.holdings.iter().map(|Holding { tag, user }| (*tag, *user)));
            }
            Answer::Handed(Handed { own }) => {
                let [socket] = <[OwnedFd; 1]>::try_from(descriptors)
                    .map_err(|_| failed("its answer came without a socket".into()))?;
                if !socket::listens(socket.as_fd()) {
                    return Err(failed("what it gives is no socket that listens".into()));
                }
                let listening = Listening::handed(socket);
                let listening = if own { listening.at_end_remove(path) } else { listening };
                return Ok(Some((listening, Predecessor { connection, held })));
            }
            Answer::Welcome(welcome) => {
                let version = welcome.version;
                return Err(failed(format!(
                    "it speaks version {version} of its messages, this one {VERSION}: end it instead"
                )));
            }
            Answer::Refused(refused) => return Err(failed(refused.reason)),
            Answer::Lent(_) | Answer::Attached(_) | Answer::Seated(_) => {
                return Err(failed("an answer out of turn".into()));
            }
        }
    }
}

/// Nobody listens any more, or whoever did has ended.
fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound};
    matches!(error.kind(), BrokenPipe | ConnectionRefused | ConnectionReset | NotFound)
}

/// An answer, and what came with it.
type Answered = (Answer, Vec<OwnedFd>);

/// The next answer. `None`: it has ended.
fn answer(connection: &OwnedFd, until: Instant) -> Result<Option<Answered>, String> {
    let mut bytes = [0; BUFFER_BYTES];
    loop {
        match socket::receive_with(connection.as_fd(), &mut bytes) {
            Ok((0, _)) => return Ok(None),
            Ok((got, descriptors)) => {
                let answer = Answer::parse(&bytes[..got]).map_err(|error| error.to_string())?;
                return Ok(Some((answer, descriptors)));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("it does not answer within {PATIENCE:?}"));
        }
        let mut entry = [PollFd::new(connection.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut entry, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
    }
}

/// What is said to the one who takes over, before the socket.
pub(crate) fn held(holdings: &[Holding]) -> impl Iterator<Item = Answer> + '_ {
    let parts = holdings.chunks(HOLDINGS_MAX);
    parts.map(|part| Answer::Held(Held { holdings: part.to_vec() }))
}
