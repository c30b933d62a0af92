//! All processes that come from this one, to the last: launchers of MPI leave daemons and ranks behind when they die
//! before their time.
//!
//! Invariant of this module: its unsafe calls take numbers and no pointers.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::process::{self, ProcessId};

/// How often it is looked whether they have ended.
const INTERVAL: Duration = Duration::from_millis(20);

/// Tries to kill those that remain; more than one, because they may fork meanwhile.
const ROUNDS: usize = 50;

/// Makes orphans among our descendants our children, so that they are found as long as we live.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: with PR_SET_CHILD_SUBREAPER, prctl takes a number and no pointers.
    match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits for all descendants to end, so long at most; whether they have.
pub fn wait_for_all(patience: Duration) -> bool {
    let start = Instant::now();
    loop {
        if living().is_empty() {
            return true;
        }
        if start.elapsed() > patience {
            return false;
        }
        sleep(INTERVAL);
    }
}

/// Waits for all descendants to end, so long at most, and kills what is left.
pub fn end_all(patience: Duration) {
    if wait_for_all(patience) {
        return;
    }
    for _ in 0..ROUNDS {
        let left = living();
        if left.is_empty() {
            return;
        }
        left.into_iter().for_each(|process| send(process, libc::SIGKILL));
        sleep(INTERVAL);
    }
}

/// Sends a signal to a process if it is still the same.
pub fn send(process: ProcessId, signal: i32) {
    if process.is_alive() {
        // SAFETY: kill takes no pointers.
        unsafe { libc::kill(process.pid.cast_signed(), signal) };
    }
}

/// Our own children that have not ended.
pub fn children() -> Vec<ProcessId> {
    let own = std::process::id();
    living().into_iter().filter(|process| parent_of(process.pid) == Some(own)).collect()
}

/// Descendants of this process that have not ended.
fn living() -> Vec<ProcessId> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in process::all() {
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut waiting = vec![std::process::id()];
    while let Some(pid) = waiting.pop() {
        let next = children.remove(&pid).unwrap_or_default();
        found.extend(next.iter().filter_map(|pid| ProcessId::of(*pid)));
        waiting.extend(next);
    }
    found
}

/// The process that started it, or has adopted it.
pub fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn grandchildren_are_found_while_they_live() {
        let mark = format!("3{}", std::process::id());
        let script = format!("sleep {mark} & echo; wait");
        let mut child = Command::new("sh").args(["-c", &script]).spawn().unwrap();
        let own = child.id();
        let of_child = || -> Vec<ProcessId> {
            let all = living();
            all.into_iter().filter(|process| parent_of(process.pid) == Some(own)).collect()
        };
        let start = Instant::now();
        while of_child().is_empty() {
            assert!(start.elapsed() < Duration::from_secs(20));
            sleep(INTERVAL);
        }
        of_child().into_iter().for_each(|process| send(process, libc::SIGKILL));
        child.wait().unwrap();
        assert!(of_child().is_empty());
    }
}
