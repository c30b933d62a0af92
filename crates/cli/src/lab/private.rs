//! Labs for the life of one process: `emp demo`, `emp bench --lab` and `emp lab run` use them.

use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};

use super::enter::Entrance;
use super::interrupt::Guard;
use super::plan::{self, Interface, Place, Plan};
use super::state::{NETNS_DIR, State};
use super::{ip, relays, rootless, services, stale, state};
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

    /// The lab's name, for `emp lab exec --name`.
    pub fn name(&self) -> &str {
        &self.guard.state().name
    }

    /// Starts the service empd on every host. They end with the calling thread.
    pub fn start_services(&self) -> anyhow::Result<()> {
        services::start(self.guard.state(), services::Life::Thread)
    }

    /// Starts `emp relay` on every host with several cables. They end with the calling thread.
    pub fn start_relays(&self) -> anyhow::Result<()> {
        relays::start(self.guard.state(), services::Life::Thread)
    }

    /// Where they listen, each in its namespace.
    pub fn service_place(&self) -> std::path::PathBuf {
        self.guard.state().service_place()
    }

    /// What was made.
    pub fn plan(&self) -> &Plan {
        &self.guard.state().plan
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
        (0..state.plan.hosts.len()).map(|index| Host { state, index })
    }

    /// The host that `text` means: its name, its index from 0, or one of its addresses.
    pub fn host(&self, text: &str) -> anyhow::Result<Host<'_>> {
        Host::find(self.guard.state(), text)
    }
}

/// A host of a lab that is up.
#[derive(Clone, Copy)]
pub struct Host<'lab> {
    state: &'lab State,
    index: usize,
}

impl<'lab> Host<'lab> {
    /// One of a recorded lab's, by its place in the plan.
    pub(super) fn of(state: &'lab State, index: usize) -> Self {
        Self { state, index }
    }

    /// The host of a recorded lab that `text` means.
    pub fn find(state: &'lab State, text: &str) -> anyhow::Result<Self> {
        match state.plan.find(text) {
            Some(index) => Ok(Self { state, index }),
            None => {
                let names: Vec<_> = state.plan.hosts.iter().map(|h| h.name.as_str()).collect();
                bail_user!("lab {} has no host {text}; it has {}", state.name, names.join(", "))
            }
        }
    }

    /// Its name, which is also its host name.
    pub fn name(&self) -> &'lab str {
        &self.planned().name
    }

    /// The address its name resolves to in the whole lab.
    pub fn address(&self) -> Ipv4Addr {
        self.planned().address
    }

    /// Its interfaces (`emp0`, …), in the order of the cables.
    pub fn interfaces(&self) -> &'lab [Interface] {
        &self.planned().interfaces
    }

    /// The name of its network namespace.
    pub fn namespace(&self) -> String {
        self.state.namespace(Place::Host(self.index))
    }

    /// A command that will run inside this host: its network, host name and `/etc/hosts`.
    ///
    /// The child is killed when the thread that spawned it ends, so spawn from one that lasts.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> anyhow::Result<Command> {
        self.prepare(program, self.entrance()?)
    }

    /// Like [`Self::command`], and kept on one CPU.
    pub fn command_on_cpu(
        &self,
        program: impl AsRef<std::ffi::OsStr>,
        cpu: usize,
    ) -> anyhow::Result<Command> {
        self.prepare(program, self.entrance()?.on_cpu(cpu)?)
    }

    /// Runs `work` on a new thread of this process that is inside the host: sockets it opens are
    /// the host's. Threads started from it are inside too.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> anyhow::Result<JoinHandle<io::Result<T>>> {
        let entrance = self.entrance()?;
        let thread = thread::Builder::new().name(self.name().to_owned());
        Ok(thread.spawn(move || {
            entrance.enter()?;
            Ok(work())
        })?)
    }

    /// The way into this host, for those who start programs themselves.
    pub fn entrance(&self) -> anyhow::Result<Entrance> {
        let path = Path::new(NETNS_DIR).join(self.namespace());
        Entrance::host(&path, self.name(), &self.state.hosts_file())
    }

    fn prepare(
        &self,
        program: impl AsRef<std::ffi::OsStr>,
        entrance: Entrance,
    ) -> anyhow::Result<Command> {
        let mut command = Command::new(program);
        command.env(state::NAME_VARIABLE, &self.state.name);
        command.envs(services::environment(self.state));
        entrance.dying_with_parent().attach(&mut command);
        Ok(command)
    }

    fn planned(&self) -> &'lab plan::Host {
        &self.state.plan.hosts[self.index]
    }
}

#[cfg(test)]
#[path = "private_tests.rs"]
mod tests;
