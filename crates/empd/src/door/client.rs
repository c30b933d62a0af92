//! One connection.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use emp_link::service::protocol::{Answer, Engine, Holding};
use emp_link::service::socket::{self, Peer};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// How far a client has come. What it says out of turn ends it.
#[derive(Debug)]
pub(super) enum State {
    /// It has not said who it is.
    New,
    /// It has asked for nothing yet.
    Greeted,
    /// It has a lent socket, or waits for it.
    Lent { tag: u16, interface: String },
    /// The switch has it.
    Attached { tag: u16, user: u32 },
    /// It waits for an engine until then: the one before it is about to end.
    Waits(Box<Engine>, Instant),
    /// It has an engine.
    Seated { tag: u16 },
    /// It is a service, which takes this one's place.
    Successor,
}

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) connection: OwnedFd,
    pub(super) peer: Peer,
    pub(super) state: State,
    since: Instant,
}

impl Client {
    pub(super) fn new(connection: OwnedFd, peer: Peer) -> Self {
        Self { connection, peer, state: State::New, since: Instant::now() }
    }

    /// It has closed its connection, whether that has been heard or not.
    pub(super) fn has_hung_up(&self) -> bool {
        let mut entries = [PollFd::new(self.connection.as_fd(), PollFlags::empty())];
        let found = poll(&mut entries, PollTimeout::ZERO);
        let hung_up =
            entries[0].revents().is_some_and(|events| events.contains(PollFlags::POLLHUP));
        found.is_ok() && hung_up
    }

    /// When it must have asked for something.
    pub(super) fn deadline(&self, within: Duration) -> Option<Instant> {
        matches!(self.state, State::New | State::Greeted).then(|| self.since + within)
    }

    /// The tag whose frames it gets, and whose it is.
    pub(super) const fn holding(&self) -> Option<Holding> {
        match self.state {
            // An engine's link is its user's, and not the service's, whose process it is.
            State::Attached { tag, user } => Some(Holding { tag, user }),
            State::Lent { tag, .. } | State::Seated { tag } => {
                Some(Holding { tag, user: self.peer.user })
            }
            State::New | State::Greeted | State::Waits(..) | State::Successor => None,
        }
    }

    /// Sends it something. Failing means that it is gone, or does not take what it is told.
    pub(super) fn tell(&self, answer: &Answer, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        socket::send(self.connection.as_fd(), &answer.emit(), descriptors)
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} of user {}", self.peer.process, self.peer.user)
    }
}
