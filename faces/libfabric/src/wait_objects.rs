//! Wait objects: what an application sleeps on until a queue or counter has something.
//!
//! A descriptor for the application's own `poll(2)` (`FI_WAIT_FD`) is readable when an entry was added, when an operation
//! has ended in the node (the guardian may have seen to that), and when frames have arrived that nobody has taken yet.
//! It says "look", not "there is something": `fi_trywait` must be asked before sleeping, as the manual demands.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

use emp_face::log;
use emp_face::waiting::WaitFd;
use emp_host::Endpoint;

use crate::bindings::{control, wait};
use crate::domain::DomainInner;
use crate::endpoint::{Enabled, EpInner};
use crate::objects::store;

/// What an object was opened with: nothing to be handed out, or a descriptor.
#[derive(Default)]
pub struct WaitObject {
    kind: u32,
    fd: Option<WaitFd>,
}

impl WaitObject {
    /// The object of this kind. `Err`: what the call that opens the queue is to return.
    pub fn open(kind: u32) -> Result<Self, c_int> {
        let fd = match kind {
            wait::NONE | wait::UNSPEC | wait::YIELD => None,
            wait::FD => Some(WaitFd::new().map_err(|error| {
                log::warn(&format!("no descriptor to wait on: {error}"));
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
            fd.ring();
        }
    }

    /// From now on, what was added before does not make it readable.
    pub fn hush(&self) {
        if let Some(fd) = &self.fd {
            fd.hush();
        }
    }

    /// Has everything ring that may end an operation of an endpoint.
    pub fn join(&self, domain: &DomainInner, enabled: &Enabled) {
        let Some(fd) = &self.fd else { return };
        if let Err(error) = fd.join(domain.node(), &[&enabled.tagged, &enabled.untagged]) {
            log::inform(&format!("waiting will take longer: {error}"));
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
                store!(argument.cast::<c_int>(), fd.descriptor());
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

/// Longest sleep before a queue or counter is looked at again, in case an endpoint joins it meanwhile.
const SLICE: Duration = Duration::from_millis(50);

/// The same of one without endpoints, which nothing wakes.
const SLICE_OF_NONE: Duration = Duration::from_millis(1);

/// Sleeps until something has ended at one of the endpoints, at most for `left` (`None`: until it is time to look again), or
/// until the domain's node was nudged more often than `nudges`.
pub fn wait_any(endpoints: &[Arc<EpInner>], nudges: u64, left: Option<Duration>) {
    let time = left.map_or(SLICE, |left| left.min(SLICE));
    let enabled = endpoints.iter().filter_map(|endpoint| endpoint.enabled.get());
    let nodes: Vec<_> = enabled.flat_map(|e| [&e.tagged, &e.untagged]).collect();
    if nodes.is_empty() {
        std::thread::sleep(time.min(SLICE_OF_NONE));
        return;
    }
    Endpoint::wait_completions_unless_nudged(&nodes, nudges, time);
}
