//! What a program needs to take up interfaces that appear while it runs: to learn that there are more, and to sleep on links that it did not have
//! when it began to.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::Link;
use crate::namespace::Namespace;
use crate::netlink::Changes;
use crate::system;

/// Notices that interfaces of a network namespace have changed: those of the thread that opened it.
pub struct InterfaceWatch {
    /// `None`: a link tells.
    changes: Option<Changes>,
    home: Option<Namespace>,
}

impl InterfaceWatch {
    /// Beside these links: where one of them hears of changes, this costs no descriptor. Needs no privilege.
    ///
    /// # Errors
    ///
    /// The system has no netlink for this process.
    pub fn open(links: &mut [Box<dyn Link>]) -> io::Result<Self> {
        let told = links.iter_mut().any(|link| link.interfaces_changed().is_some());
        let changes = if told { None } else { Some(Changes::open()?) };
        Ok(Self { changes, home: Namespace::current() })
    }

    /// True if something has changed since this was last asked: an interface is new or gone, is up or down, has a carrier or none.
    pub fn take(&self, links: &mut [Box<dyn Link>]) -> bool {
        let told = |link: &mut Box<dyn Link>| link.interfaces_changed() == Some(true);
        match &self.changes {
            Some(changes) => changes.take(),
            // Each is asked, so that none tells of it later.
            None => links.iter_mut().map(told).fold(false, |any, told| any | told),
        }
    }

    /// True if the calling thread is in that namespace, so that links that it opens are there.
    pub fn is_here(&self) -> bool {
        Namespace::is_here(self.home)
    }
}

/// A descriptor that is readable when any of several links is; they may come one by one.
pub struct LinkGroup(OwnedFd);

impl LinkGroup {
    /// Of no link yet.
    ///
    /// # Errors
    ///
    /// The system has no more descriptors.
    pub fn new() -> io::Result<Self> {
        system::any_of([]).map(Self)
    }

    /// One more. It leaves when it is closed.
    ///
    /// # Errors
    ///
    /// The system refuses; links without a descriptor are refused as well.
    pub fn add(&self, link: &dyn Link) -> io::Result<()> {
        let fd = link.readiness().ok_or(io::ErrorKind::Unsupported)?;
        system::add_to(self.0.as_fd(), fd)
    }

    /// What to sleep on.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fabric;

    #[test]
    fn links_come_one_by_one() {
        let group = LinkGroup::new().unwrap();
        let socket = crate::UdpLink::open(&crate::UdpOptions {
            bind: Some([127, 0, 0, 1].into()),
            port: 0,
            ..crate::UdpOptions::new(1)
        })
        .unwrap();
        let readable = |group: &LinkGroup| {
            system::poll(group.descriptor(), Some(std::time::Duration::from_millis(1)))
                == system::Polled::Readable
        };
        assert!(!readable(&group), "there is none");
        group.add(&socket).unwrap();
        assert!(!readable(&group), "nothing has come");
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(&[0], socket.local_address()).unwrap();
        assert!(readable(&group));
        drop(socket);
        assert!(!readable(&group), "it is closed");
        let fabric = Fabric::new(1).unwrap();
        let memory = fabric.link(0, 1).unwrap();
        assert_eq!(group.add(&memory).is_ok(), memory.readiness().is_some());
    }

    #[test]
    fn a_watch_is_of_its_threads_namespace() {
        let watch = InterfaceWatch::open(&mut []).expect("anyone may");
        assert!(watch.is_here());
        watch.take(&mut []);
    }
}
