//! Labs for the life of one process: `emp demo`, `emp bench --lab` and `emp lab run` use them.

use std::sync::atomic::{AtomicU32, Ordering};

use super::host::{Host, Life};
use super::interrupt::Guard;
use super::plan::{Place, Plan};
use super::state::State;
use super::{ip, relays, rootless, services, stale};
use crate::bail_user;
use crate::process::ProcessId;

/// How many private labs this process has made; gives each a name of its own.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A lab that belongs to this process and is removed with it: when dropped, on SIGINT, SIGTERM and
/// SIGHUP, and when a panic unwinds. Without privilege it lives in a user namespace of the process
/// and the kernel removes it whatever happens. After SIGKILL as root, whoever makes the next lab does.
///
/// `std::process::exit` skips `drop`: return from `main` instead.
pub struct PrivateLab {
    guard: Guard,
}

impl PrivateLab {
    /// Makes the lab.
    ///
    /// An ordinary user's process moves into a user namespace of its own the first time, which the
    /// kernel allows only while it has no other threads: create the lab before starting any.
    pub fn create(plan: Plan) -> anyhow::Result<Self> {
        rootless::become_able()?;
        stale::remove_quietly();
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("p{}x{number}", std::process::id());
        let state = State::new(&name, plan, Some(ProcessId::own()));
        Ok(Self { guard: Guard::make(state)? })
    }

    /// Starts the service empd on every host. They end with the calling thread.
    pub fn start_services(&self) -> anyhow::Result<()> {
        services::start(self.guard.state(), Life::Thread, |_| Ok(()))
    }

    /// Starts `emp relay` on every host with several cables. They end with the calling thread.
    pub fn start_relays(&self) -> anyhow::Result<()> {
        relays::start(self.guard.state(), Life::Thread, |_| Ok(()))
    }

    /// Where they listen, each in its namespace.
    pub fn service_place(&self) -> std::path::PathBuf {
        self.guard.state().service_place()
    }

    /// What the switch's port to a host has done, as `tc -s -j` says it.
    pub fn port_statistics(&self, host: usize) -> anyhow::Result<String> {
        let state = self.guard.state();
        let mut ports = state.plan.switch_ports();
        let Some((_, port)) = ports.find(|(index, _)| *index == host) else {
            bail_user!("lab {} has no switch with a port to host {host}", state.name);
        };
        let switch = state.namespace(Place::Switch);
        ip::tc(&switch, &["-s", "-j", "qdisc", "show", "dev", port])
    }

    /// Every host, in order.
    pub fn hosts(&self) -> impl Iterator<Item = Host<'_>> {
        let state = self.guard.state();
        (0..state.plan.hosts.len()).map(|index| Host::of(state, index))
    }

    /// The host that `text` means: its name, its index from 0, or one of its addresses.
    pub fn host(&self, text: &str) -> anyhow::Result<Host<'_>> {
        Host::find(self.guard.state(), text)
    }
}

#[cfg(test)]
#[path = "private_tests.rs"]
mod tests;
