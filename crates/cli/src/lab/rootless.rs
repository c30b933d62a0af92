//! Labs for ordinary users: a user namespace of our own, in which we are root.
//!
//! Invariant of this module: its unsafe calls take numbers and strings with an end mark, no more.
//! Those that change the process change all of it or fail; the kernel refuses them where there is
//! more than one thread.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;

use super::mount::mount;
use crate::bail_user;
use crate::error::user_error;
use crate::process::{self, CAP_NET_ADMIN, CAP_SYS_ADMIN, ProcessId};

/// What an ordinary user's lab lives in. A network of our own too, although the lab's hosts have
/// theirs: `ip netns add` returns to the one it came from, and may only if that is ours.
const KINDS: libc::c_int = libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWNET;

/// Whether this process may make namespaces and cables as it is.
pub fn is_able() -> bool {
    process::has_capability(CAP_SYS_ADMIN)
        && process::has_capability(CAP_NET_ADMIN)
        // Capabilities in somebody's bare user namespace do not reach as far as the system's /run.
        && may_write(c"/run")
}

fn may_write(path: &CStr) -> bool {
    // SAFETY: `path` has an end mark and outlives the call.
    let answer =
        unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK, libc::AT_EACCESS) };
    answer == 0
}

/// Makes this process able to make a lab: nothing to do with privilege, else a user namespace.
pub fn become_able() -> anyhow::Result<()> {
    if is_able() {
        return Ok(());
    }
    enter_own_namespaces()?;
    own_run_directory().context("giving the lab a /run of its own")
}

/// Whether an ordinary user could make a lab here, tried out by a child process.
pub fn would_be_allowed() -> Result<(), String> {
    let mut child = Command::new("/proc/self/exe");
    child.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    let attempt = || {
        // SAFETY: unshare takes no pointers.
        if unsafe { libc::unshare(KINDS) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // AppArmor lets a program have a user namespace in which it may do nothing.
        mount(None, c"/", None, libc::MS_SLAVE | libc::MS_REC)
    };
    // SAFETY: `attempt` only makes two system calls, so it may run between fork and exec.
    unsafe { child.pre_exec(attempt) };
    child.status().map(drop).map_err(|error| why(&error))
}

/// Moves this process into the namespaces another of this user's processes made for a lab.
pub fn join(keeper: ProcessId) -> anyhow::Result<()> {
    let kinds =
        [("user", libc::CLONE_NEWUSER), ("mnt", libc::CLONE_NEWNS), ("net", libc::CLONE_NEWNET)];
    let open = |(kind, flag)| {
        let path = format!("/proc/{}/ns/{kind}", keeper.pid);
        File::open(&path).map(|file| (file, flag)).context(path)
    };
    let namespaces = kinds.into_iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
    if !keeper.is_alive() {
        bail_user!("the lab's keeper has just ended");
    }
    let directory = std::env::current_dir();
    for (file, flag) in &namespaces {
        // SAFETY: setns takes no pointers; `file` is open.
        if unsafe { libc::setns(file.as_raw_fd(), *flag) } != 0 {
            return Err(io::Error::last_os_error()).context("joining the lab");
        }
    }
    // Joining mounts moved us to their root.
    if let Ok(directory) = directory {
        let _ = std::env::set_current_dir(directory);
    }
    Ok(())
}

/// Asks a process to end.
pub fn terminate(process: ProcessId) -> anyhow::Result<()> {
    if !process.is_alive() {
        return Ok(());
    }
    // SAFETY: kill takes no pointers.
    if unsafe { libc::kill(process.pid.cast_signed(), libc::SIGTERM) } != 0 {
        return Err(io::Error::last_os_error()).context("ending the lab's keeper");
    }
    Ok(())
}

fn enter_own_namespaces() -> anyhow::Result<()> {
    let (user, group) = process::effective_ids();
    // A program with file capabilities may not write its own maps unless it asks for this.
    // SAFETY: with PR_SET_DUMPABLE, prctl takes a number and no pointers.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1) };
    // SAFETY: unshare takes no pointers.
    if unsafe { libc::unshare(KINDS) } != 0 {
        return Err(refused(&io::Error::last_os_error()));
    }
    // The kernel wants this before it lets an ordinary user map a group.
    fs::write("/proc/self/setgroups", "deny").map_err(|error| refused(&error))?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1")).map_err(|error| refused(&error))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1")).map_err(|error| refused(&error))?;
    mount(None, c"/", None, libc::MS_SLAVE | libc::MS_REC).map_err(|error| refused(&error))
}

/// A fresh /run, where `ip netns` and the lab's record have room, with everything the old one had
/// (a user's runtime directory, name resolution) shown through.
fn own_run_directory() -> anyhow::Result<()> {
    let old = File::open("/run")?;
    let old_path = format!("/proc/self/fd/{}", old.as_raw_fd());
    mount(Some(c"tmpfs"), c"/run", Some(c"tmpfs"), libc::MS_NOSUID | libc::MS_NODEV)?;
    for entry in fs::read_dir(&old_path)? {
        let name = entry?.file_name();
        let (from, to) = (Path::new(&old_path).join(&name), Path::new("/run").join(&name));
        let kind = fs::symlink_metadata(&from)?;
        if name == "netns" || name == "emp" {
            continue;
        }
        // What cannot be shown is not missed by a lab.
        if kind.is_symlink() {
            let _ = std::os::unix::fs::symlink(fs::read_link(&from)?, &to);
        } else if kind.is_dir() {
            fs::create_dir(&to)?;
            let _ = mount(Some(&c_path(&from)?), &c_path(&to)?, None, libc::MS_BIND | libc::MS_REC);
        }
    }
    fs::create_dir("/run/emp")?;
    Ok(())
}

fn c_path(path: &Path) -> anyhow::Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn refused(error: &io::Error) -> anyhow::Error {
    user_error(format!("no privilege to make a lab: {}; run emp as root", why(error)))
}

/// Why an ordinary user gets no user namespace, in words that help.
fn why(error: &io::Error) -> String {
    let limit = fs::read_to_string("/proc/sys/user/max_user_namespaces").unwrap_or_default();
    let restricted = |knob: &str, value: &str| {
        fs::read_to_string(format!("/proc/sys/kernel/{knob}")).is_ok_and(|v| v.trim() == value)
    };
    if error.raw_os_error() == Some(libc::EINVAL) {
        "this process has threads already, and only a process without can enter a user namespace"
            .to_owned()
    } else if limit.trim() == "0" {
        "user namespaces are off (sysctl user.max_user_namespaces is 0)".to_owned()
    } else if restricted("unprivileged_userns_clone", "0") {
        "user namespaces are off (sysctl kernel.unprivileged_userns_clone is 0)".to_owned()
    } else if restricted("apparmor_restrict_unprivileged_userns", "1") {
        "AppArmor keeps programs without a profile from user namespaces (sysctl \
         kernel.apparmor_restrict_unprivileged_userns is 1)"
            .to_owned()
    } else {
        format!("the kernel refuses a user namespace: {error}")
    }
}
