//! A host of a lab that is up: what there is on it, and how programs get inside.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use super::enter::Entrance;
use super::plan::{self, Interface, Place};
use super::state::{self, NETNS_DIR, State};
use crate::bail_user;

/// Whose end is that of a program that a lab starts on its hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// That of the thread that starts it.
    Thread,
    /// The lab's.
    Lab,
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

    /// The way into this host, for those who start programs themselves.
    pub fn entrance(&self) -> anyhow::Result<Entrance> {
        let path = Path::new(NETNS_DIR).join(self.namespace());
        Entrance::host(&path, self.name(), &self.state.hosts_file())
    }

    /// The same for a program that the lab starts.
    pub(super) fn entrance_for(&self, life: Life) -> anyhow::Result<Entrance> {
        let entrance = self.entrance()?;
        Ok(if life == Life::Thread { entrance.dying_with_parent() } else { entrance })
    }

    fn prepare(
        &self,
        program: impl AsRef<std::ffi::OsStr>,
        entrance: Entrance,
    ) -> anyhow::Result<Command> {
        let mut command = Command::new(program);
        command.env(state::NAME_VARIABLE, &self.state.name);
        command.envs(self.state.service_environment());
        entrance.dying_with_parent().attach(&mut command);
        Ok(command)
    }

    fn planned(&self) -> &'lab plan::Host {
        &self.state.plan.hosts[self.index]
    }
}
