//! Wait objects: what an application sleeps on until a queue or counter has something.
//!
//! A descriptor for the application's own `poll(2)` (`FI_WAIT_FD`) is readable when an entry was added, when an operation
//! has ended in the node (the guardian may have seen to that), and when frames have arrived that nobody has taken yet.
//! It says "look", not "there is something": `fi_trywait` must be asked before sleeping, as the manual demands.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use emp_host::Alarm;

use crate::bindings::{control, wait};
use crate::core;
use crate::domain::DomainInner;
use crate::endpoint::Enabled;
use crate::handle::store;

/// The descriptor that an application sleeps on.
pub struct WaitFd {
    epoll: OwnedFd,
    alarm: Arc<Alarm>,
}

/// What an object was opened with: nothing to be handed out, or a descriptor.
#[derive(Default)]
pub struct WaitObject {
    kind: u32,
    fd: Option<WaitFd>,
}

impl WaitFd {
    fn new() -> io::Result<Self> {
        // SAFETY: takes no pointers.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and belongs to no one else.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        let fd = Self { epoll, alarm: Arc::new(Alarm::new()?) };
        fd.watch(fd.alarm.descriptor())?;
        Ok(fd)
    }

    /// Makes the descriptor readable whenever `other` is. Once is enough.
    fn watch(&self, other: RawFd) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: the event lives for the call.
        let result = unsafe {
            libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, other, &raw mut event)
        };
        let error = io::Error::last_os_error();
        if result == 0 || error.raw_os_error() == Some(libc::EEXIST) { Ok(()) } else { Err(error) }
    }
}

impl WaitObject {
    /// The object of this kind. `Err`: what the call that opens the queue is to return.
    pub fn open(kind: u32) -> Result<Self, c_int> {
        let fd = match kind {
            wait::NONE | wait::UNSPEC | wait::YIELD => None,
            wait::FD => Some(WaitFd::new().map_err(|error| {
                core::warn(&format!("no descriptor to wait on: {error}"));
                -error.raw_os_error().unwrap_or(libc::ENOMEM)
            })?),
            _ => return Err(-libc::ENOSYS),
        };
        Ok(Self { kind, fd })
    }

    /// Something was added.
    #[inline]
    pub fn ring(&self) {
        if let Some(fd) = &self.fd {
            fd.alarm.ring();
        }
    }

    /// From now on, what was added before does not make it readable.
    pub fn hush(&self) {
        if let Some(fd) = &self.fd {
            fd.alarm.hush();
        }
    }

    /// Has everything ring that may end an operation of an endpoint.
    pub fn join(&self, domain: &DomainInner, enabled: &Enabled) {
        let Some(fd) = &self.fd else { return };
        enabled.tagged.add_alarm(&fd.alarm);
        enabled.untagged.add_alarm(&fd.alarm);
        for link in domain.node.link_descriptors() {
            if let Err(error) = fd.watch(link) {
                // The guardian looks after the link within some milliseconds.
                core::inform(&format!("waiting will take longer: {error}"));
            }
        }
    }

    /// `fi_control` of an object with a wait object.
    ///
    /// # Safety
    ///
    /// libfabric's rules: `argument` is what the command takes.
    pub unsafe fn control(&self, command: c_int, argument: *mut c_void) -> c_int {
        if argument.is_null() {
            return -libc::EINVAL;
        }
        match (command, &self.fd) {
            (control::GETWAIT, Some(fd)) => {
                store!(argument.cast::<c_int>(), fd.epoll.as_raw_fd());
                0
            }
            (control::GETWAIT, None) => -libc::ENODATA,
            (control::GETWAITOBJ, _) => {
                store!(argument.cast::<u32>(), self.kind);
                0
            }
            _ => -libc::ENOSYS,
        }
    }
}
