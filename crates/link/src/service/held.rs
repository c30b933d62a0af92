//! A connection for as long as which the service gives something.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::socket;

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
    use crate::system::{self, Polled};

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
