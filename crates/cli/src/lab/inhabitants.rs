//! Processes that run inside a lab: they end with it, or they would live on in namespaces that have no name any more.
//!
//! Only namespaces count that a name of the lab still stands for. The number of one that is gone may by now be another's. Its relays and services are
//! in its record, each with the time when it started.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGKILL, SIGTERM};

use super::offspring::{parent_of, send};
use super::state::{State, inode};
use crate::bail_user;
use crate::process::{self, ProcessId};

/// How long processes may take to end by themselves once they are asked to.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the kernel may take to end those that did not, and what they start meanwhile.
const KILLING: Duration = Duration::from_secs(2);

/// How often it is looked whether they have ended.
const INTERVAL: Duration = Duration::from_millis(20);

/// Refuses to go on if the user's own shell is inside the lab: it would end under their hands.
pub fn refuse_from_inside(state: &State) -> anyhow::Result<()> {
    let namespaces = namespaces(state);
    let Some(inside) = ancestors().into_iter().rev().find(|pid| is_inside(*pid, &namespaces))
    else {
        return Ok(());
    };
    let name = fs::read_to_string(format!("/proc/{inside}/comm")).unwrap_or_default();
    bail_user!(
        "this was started inside lab {}, by process {inside} ({}), which would end with it; leave the lab first",
        state.name,
        name.trim()
    )
}

/// Ends all processes inside the lab, and those that serve it wherever they are, save those that this one came from, and says how many there were.
pub fn end(state: &State) -> usize {
    let namespaces = namespaces(state);
    let spared = ancestors();
    let living = || -> Vec<ProcessId> {
        let inside = process::all().filter(|pid| is_inside(*pid, &namespaces));
        let inside: Vec<_> = inside.filter_map(ProcessId::of).collect();
        let servants = state.servants.iter().copied().filter(|process| process.is_alive());
        let others = servants.filter(|process| !inside.contains(process));
        let all = others.chain(inside.iter().copied());
        all.filter(|process| !spared.contains(&process.pid)).collect()
    };
    let mut ended: Vec<ProcessId> = Vec::new();
    for (signal, patience) in [(SIGTERM, PATIENCE), (SIGKILL, KILLING)] {
        let start = Instant::now();
        let mut told: Vec<ProcessId> = Vec::new();
        loop {
            let left = living();
            if left.is_empty() {
                return ended.len();
            }
            // Each hears it once: a program that tidies up must not be disturbed at it.
            for process in
                left.into_iter().filter(|process| !told.contains(process)).collect::<Vec<_>>()
            {
                send(process, signal);
                told.push(process);
                if !ended.contains(&process) {
                    ended.push(process);
                }
            }
            if start.elapsed() > patience {
                break;
            }
            sleep(INTERVAL);
        }
    }
    ended.len()
}

/// This process, its parent, and so on.
fn ancestors() -> Vec<u32> {
    std::iter::successors(Some(std::process::id()), |pid| parent_of(*pid).filter(|pid| *pid > 0))
        .collect()
}

fn namespaces(state: &State) -> Vec<u64> {
    let there =
        state.namespaces.iter().filter(|namespace| inode(&namespace.name) == namespace.inode);
    there.filter_map(|namespace| namespace.inode).collect()
}

/// What may not be looked at belongs to somebody else.
fn is_inside(pid: u32, namespaces: &[u64]) -> bool {
    fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|file| namespaces.contains(&file.ino()))
}
