//! Becoming part of a lab host: its network, its name, its `/etc/hosts`, if asked one CPU.
//!
//! Everything here may run between fork and exec, in the copy of a process whose other threads
//! are gone. So the invariant of this module: [`Entrance::enter`] makes system calls on memory
//! prepared beforehand and does nothing else: no allocation, no lock, no formatting.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::mount::mount;
use crate::bail_user;

/// Where names of hosts are looked up.
const HOSTS: &str = "/etc/hosts";

/// The way into one host, opened beforehand.
pub struct Entrance {
    network: OwnedFd,
    identity: Option<Identity>,
    cpu: Option<Box<libc::cpu_set_t>>,
    /// If set, the process that enters is killed when this parent ends.
    parent: Option<u32>,
}

struct Identity {
    name: CString,
    hosts_file: CString,
}

impl Entrance {
    /// Into the network namespace alone: for threads that only need its network.
    pub fn network_only(namespace: &Path) -> anyhow::Result<Self> {
        let file = File::open(namespace).with_context(|| namespace.display().to_string())?;
        Ok(Self { network: file.into(), identity: None, cpu: None, parent: None })
    }

    /// Into a host: its network, its host name, and the names of the other hosts.
    pub fn host(namespace: &Path, name: &str, hosts_file: &Path) -> anyhow::Result<Self> {
        // The mount over it would fail between fork and exec, where nobody can say why.
        if !Path::new(HOSTS).exists() {
            bail_user!(
                "there is no {HOSTS}, which a lab puts the names of its hosts over: touch {HOSTS}"
            );
        }
        let hosts_file = CString::new(hosts_file.as_os_str().as_bytes())?;
        let identity = Identity { name: CString::new(name)?, hosts_file };
        Ok(Self { identity: Some(identity), ..Self::network_only(namespace)? })
    }

    /// Also onto one CPU, given by the number the system has for it.
    pub fn on_cpu(mut self, cpu: usize) -> anyhow::Result<Self> {
        if cpu >= libc::CPU_SETSIZE as usize {
            bail_user!("there is no CPU {cpu}");
        }
        // SAFETY: cpu_set_t is a plain array of integers, for which zero is a value: the empty set.
        let mut set: Box<libc::cpu_set_t> = Box::new(unsafe { mem::zeroed() });
        // SAFETY: `cpu` is below CPU_SETSIZE, the number of bits of `set`.
        unsafe { libc::CPU_SET(cpu, &mut set) };
        self.cpu = Some(set);
        Ok(self)
    }

    /// For child processes: they are killed when the thread that starts them ends, so that not
    /// even SIGKILL to this process leaves any running.
    pub fn dying_with_parent(mut self) -> Self {
        self.parent = Some(std::process::id());
        self
    }

    /// Makes `command` start inside.
    pub fn attach(self, command: &mut Command) {
        // SAFETY: `enter` keeps this module's invariant, which is what `pre_exec` demands of a
        // function run after fork in a process that may have had threads.
        unsafe { command.pre_exec(move || self.enter()) };
    }

    /// Moves the calling thread (in a program without threads: the process) inside. There is no
    /// way back.
    pub fn enter(&self) -> io::Result<()> {
        // SAFETY: setns takes no pointers; the descriptor is open as long as `self` lives.
        done(unsafe { libc::setns(self.network.as_raw_fd(), libc::CLONE_NEWNET) })?;
        if let Some(identity) = &self.identity {
            identity.take()?;
        }
        if let Some(set) = &self.cpu {
            let size = mem::size_of::<libc::cpu_set_t>();
            // SAFETY: `set` points to `size` readable bytes.
            done(unsafe { libc::sched_setaffinity(0, size, &**set) })?;
        }
        // Last, because a change of credentials would undo it.
        self.parent.map_or(Ok(()), die_with)
    }
}

impl Identity {
    fn take(&self) -> io::Result<()> {
        // SAFETY: unshare takes no pointers. New mounts and the new name stay with this thread
        // and its children.
        done(unsafe { libc::unshare(libc::CLONE_NEWUTS | libc::CLONE_NEWNS) })?;
        let name = self.name.as_bytes();
        // SAFETY: `name` points to `name.len()` readable bytes.
        done(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) })?;
        // What we mount must not spread outwards. Slave and not private: when a namespace's name
        // is unmounted outside it must vanish here too, or it would be kept alive.
        mount(None, c"/", None, libc::MS_SLAVE | libc::MS_REC)?;
        mount(Some(&self.hosts_file), c"/etc/hosts", None, libc::MS_BIND)?;
        // Programs look for interfaces under /sys/class/net, which shows the namespace of whoever
        // mounted /sys. Where mounting is not allowed they see the outside; that is bearable.
        let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        let _ = mount(Some(c"sysfs"), c"/sys", Some(c"sysfs"), flags);
        Ok(())
    }
}

fn die_with(parent: u32) -> io::Result<()> {
    // SAFETY: with PR_SET_PDEATHSIG, prctl takes a signal number and no pointers.
    done(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // SAFETY: getppid takes no arguments and cannot fail.
    let now = unsafe { libc::getppid() };
    // The parent may have ended before the line above; then nobody would send the signal.
    if now.cast_unsigned() == parent { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
