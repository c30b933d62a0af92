//! A connection for as long as which the service gives something.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use super::protocol::{Answer, BUFFER_BYTES};
use super::socket;
use crate::system;

/// Held by the process that was given something; dropping it gives that back at once, also while a process that was forked meanwhile has a copy of the
/// descriptor. In such a process dropping it ends nothing: what was given is its parent's.
#[derive(Debug)]
pub struct Held {
    connection: OwnedFd,
    process: u32,
}

impl Held {
    /// From now on.
    #[must_use]
    pub fn new(connection: OwnedFd) -> Self {
        Self { connection, process: std::process::id() }
    }

    /// The service does not know of it any more: it has ended, or has taken back what it gave.
    #[must_use]
    pub fn is_over(&self) -> bool {
        socket::is_over(self.connection.as_fd())
    }

    /// Why the service takes back what it gave. Waits for that, as the service may say it a moment after it took it. `None`: it has ended, or
    /// does not say.
    #[must_use]
    pub fn reason(&self, patience: Duration) -> Option<String> {
        let until = Instant::now() + patience;
        let mut bytes = [0; BUFFER_BYTES];
        loop {
            match socket::receive(self.connection.as_fd(), &mut bytes) {
                Ok(0) => return None,
                Ok(got) => match Answer::parse(&bytes[..got]) {
                    Ok(Answer::Refused(refused)) => return Some(refused.reason),
                    _ => return None,
                },
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    system::poll(self.connection.as_fd(), Some(left));
                }
                Err(_) => return None,
            }
        }
    }
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            socket::end(self.connection.as_fd());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::protocol::Refused;
    use crate::system::Polled;

    #[test]
    fn a_service_that_lives_says_why_and_one_that_has_ended_does_not() {
        let pair = || {
            let (ours, theirs) = socket::pair().expect("the system has descriptors");
            (Held::new(ours), theirs)
        };
        let (held, theirs) = pair();
        assert_eq!(held.reason(Duration::ZERO), None, "it says nothing yet");
        let refused = Answer::Refused(Refused { reason: "no memory".into() });
        socket::send(theirs.as_fd(), &refused.emit(), &[]).expect("there is room");
        drop(theirs);
        assert_eq!(held.reason(Duration::ZERO).as_deref(), Some("no memory"));
        let (held, theirs) = pair();
        drop(theirs);
        let since = Instant::now();
        assert_eq!(held.reason(Duration::from_secs(60)), None);
        assert!(since.elapsed() < Duration::from_secs(30), "nobody is waited for");
    }

    #[test]
    fn what_is_dropped_has_ended_whoever_has_a_copy() {
        let (ours, theirs) = socket::pair().expect("the system has descriptors");
        let copy = ours.try_clone().expect("likewise");
        let held = Held::new(ours);
        assert!(!held.is_over() && !socket::is_over(theirs.as_fd()));
        drop(held);
        assert!(socket::is_over(theirs.as_fd()));
        drop(copy);
        let (ours, theirs) = socket::pair().expect("the system has descriptors");
        let of_a_parent = Held { connection: ours.try_clone().expect("likewise"), process: 0 };
        drop(of_a_parent);
        assert_eq!(system::poll(theirs.as_fd(), Some(std::time::Duration::ZERO)), Polled::Nothing);
    }
}
