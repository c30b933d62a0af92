//! Nodes that share the interface with the measured one, as the ranks of a busy host do, and do nothing.
//!
//! Invariant of this module: pointers given to the kernel are to values on the stack.
#![allow(unsafe_code)]

use super::node::OpenNode;
use crate::bench::job::Spec;
use crate::bench::subject::place::Place;

/// Open files of a node at most: sockets, wake-ups, tables.
const FILES_OF_NODE: u64 = 16;

/// Starts as many as a subject is to have beside it, with its links.
pub fn start(spec: &Spec, place: &Place, ethertype: u16) -> anyhow::Result<Vec<OpenNode>> {
    if spec.idle_nodes == 0 {
        return Ok(Vec::new());
    }
    allow_files(spec.idle_nodes as u64 * FILES_OF_NODE);
    let sleeper = Spec {
        wait: Some("sleep".to_owned()),
        loss: 0.0,
        faults: String::new(),
        idle_nodes: 0,
        ..spec.clone()
    };
    (0..spec.idle_nodes).map(|_| OpenNode::start(&sleeper, place, ethertype)).collect()
}

/// Lets this process have so many more files open, as far as it may: what it may not have, opening says.
pub fn allow_files(more: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a writable rlimit.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return;
    }
    limit.rlim_cur = limit.rlim_cur.saturating_add(more).min(limit.rlim_max);
    // SAFETY: `limit` is an rlimit.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
}
