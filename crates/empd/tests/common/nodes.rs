//! Nodes of ordinary users whose only link is a service's, and processes that have such.
#![allow(dead_code, reason = "each test uses its part")]

use std::path::Path;

use emp_host::{Board, Node, NodeId};
use emp_link::service::{ServiceLink, ServiceOptions};
use emp_testing::lab::{INTERFACE, Lab};

use crate::common::{PATIENCE, Service, become_nobody, signal};

/// A node on a host of the lab.
pub fn node(lab: &Lab, side: usize, service: &Service, name: &str, board: Board) -> Node {
    lab.inside(side, || {
        become_nobody();
        start(&service.socket(), name, board)
    })
}

/// One where the calling thread is.
pub fn start(socket: &Path, name: &str, board: Board) -> Node {
    let id = NodeId::from_name(name);
    let usual = ServiceOptions::new(INTERFACE, id);
    let options = ServiceOptions { socket: socket.to_path_buf(), ..usual };
    let link = ServiceLink::open(&options).expect("everyone may attach");
    Node::builder().name(name).node_id(id).board(board).link(link).start().expect("it starts")
}

/// A process that was forked to be a program of its own, and is killed with this value.
pub struct Child(libc::pid_t);

impl Child {
    /// Runs `work` in it.
    pub fn start(work: impl FnOnce()) -> Self {
        // SAFETY: the child makes a node of its own, uses nothing of this process's nodes, and never returns to the test.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            if done.is_ok() {
                std::thread::sleep(2 * PATIENCE);
            }
            // SAFETY: ends this process.
            unsafe { libc::_exit(1) };
        }
        Self(child)
    }

    /// Sends it a signal.
    pub fn signal(&self, number: libc::c_int) {
        signal(self.0 as u32, number);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        // SAFETY: it is ours; no status is wanted.
        unsafe { libc::waitpid(self.0, std::ptr::null_mut(), 0) };
    }
}
