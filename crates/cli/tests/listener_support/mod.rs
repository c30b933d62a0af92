//! An `emp bench listen` on this host: for tests that need no lab, and so no privilege.

#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::lab_support::{emp, signal};

/// A listener at a free port of the loopback interface, ended with the test.
pub struct Listener {
    child: Child,
    address: String,
}

impl Listener {
    /// Starts it and waits until clients may come.
    pub fn start() -> Self {
        let mut child = emp(&["bench", "listen", "--bind", "127.0.0.1", "--port", "0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut greeting = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut greeting).unwrap();
        let address = greeting.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { child, address }
    }

    /// Ends it as the kernel ends processes when there is no memory left.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
