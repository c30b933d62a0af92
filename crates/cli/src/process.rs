//! Facts about processes, read from `/proc`.

use std::fs;

use serde::{Deserialize, Serialize};

/// Sets up interfaces. (Capability numbers are from `<linux/capability.h>`.)
pub const CAP_NET_ADMIN: u32 = 12;
/// Opens packet and raw sockets.
pub const CAP_NET_RAW: u32 = 13;
/// Makes namespaces and mounts.
pub const CAP_SYS_ADMIN: u32 = 21;

/// One process for all time: process ids are reused, an id with its start time is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// The number the kernel gave it.
    pub pid: u32,
    /// When it started, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub started: u64,
}

impl ProcessId {
    /// The process that calls this.
    pub fn own() -> Self {
        let pid = std::process::id();
        Self { pid, started: start_time(pid).unwrap_or(0) }
    }

    /// The process that has this number now.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, started: start_time(pid)? })
    }

    /// Whether it still runs.
    pub fn is_alive(self) -> bool {
        start_time(self.pid) == Some(self.started)
    }
}

/// True in a user namespace that is not the machine's first, as in containers without root's privilege: what is allowed there ends at its borders.
pub fn in_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let first: Vec<&str> = map.split_whitespace().take(3).collect();
    // Where there is nothing to read, there are no such namespaces.
    !(first.is_empty() || first == ["0", "0", "4294967295"])
}

/// The numbers of all processes that are to be seen.
pub fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the command in brackets and may hold spaces and brackets itself, so
    // counting starts behind the last bracket: there, state is field 3.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace();
    let state = fields.next()?;
    // A zombie has ended; only its parent has not asked yet.
    if state == "Z" || state == "X" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// A field of `/proc/self/status`, without its label.
pub fn own_status(field: &str) -> Option<String> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    status.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name == field).then(|| value.trim().to_owned())
    })
}

/// Whether this thread may use the given capability now.
pub fn has_capability(number: u32) -> bool {
    own_mask("CapEff").is_some_and(|mask| mask & (1 << number) != 0)
}

/// A field of `/proc/self/status` that is a bit mask in hexadecimal.
pub fn own_mask(field: &str) -> Option<u64> {
    u64::from_str_radix(&own_status(field)?, 16).ok()
}

/// The effective user and group of this process.
pub fn effective_ids() -> (u32, u32) {
    let second = |field| -> u32 {
        let value = own_status(field).unwrap_or_default();
        // real, effective, saved, filesystem
        value.split_whitespace().nth(1).and_then(|id| id.parse().ok()).unwrap_or(u32::MAX)
    };
    (second("Uid"), second("Gid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_living_from_the_dead() {
        let own = ProcessId::own();
        assert!(own.is_alive() && own.started > 0);
        assert!(!ProcessId { started: own.started + 1, ..own }.is_alive());

        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let started = start_time(pid);
        child.wait().unwrap();
        assert!(started.is_none_or(|started| !ProcessId { pid, started }.is_alive()));
    }

    #[test]
    fn reads_its_own_ids() {
        let (user, group) = effective_ids();
        assert!(user != u32::MAX && group != u32::MAX);
        assert!(own_mask("CapEff").is_some());
    }
}
