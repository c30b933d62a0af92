//! Two hosts on one machine: network namespaces joined by a virtual cable.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::{Need, skip};

/// The cable's end in either namespace.
pub const INTERFACE: &str = "emp0";

/// The kernel does this within a second, however busy it is.
const CARRIER_LIMIT: Duration = Duration::from_secs(20);

/// Two namespaces, removed with everything in them when the value is dropped, also by a panic.
pub struct Lab {
    names: Vec<String>,
}

impl Lab {
    /// Builds the lab, with the face's name in that of its namespaces. `None`, loudly, for users who may not.
    ///
    /// # Panics
    ///
    /// For root, for whom it must work.
    pub fn build(face: &str, mtu: usize) -> Option<Self> {
        // SAFETY: takes no arguments and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            skip(Need::Root, "only root can make network namespaces");
            return None;
        }
        static LABS: AtomicU32 = AtomicU32::new(0);
        let number = LABS.fetch_add(1, Ordering::Relaxed);
        let name = |side| format!("emp-{face}-{}-{number}{side}", std::process::id());
        let mut lab = Self { names: Vec::new() };
        for name in [name("a"), name("b")] {
            ip(&["netns", "add", &name]);
            lab.names.push(name);
        }
        let mtu = mtu.to_string();
        let (a, b) = (&lab.names[0], &lab.names[1]);
        ip(&[
            "-n", a, "link", "add", INTERFACE, "mtu", &mtu, "type", "veth", "peer", "name",
            INTERFACE, "mtu", &mtu, "netns", b,
        ]);
        for (side, name) in lab.names.iter().enumerate() {
            let address = format!("10.77.0.{}/24", side + 1);
            ip(&["-n", name, "address", "add", &address, "dev", INTERFACE]);
            ip(&["-n", name, "link", "set", "lo", "up"]);
            ip(&["-n", name, "link", "set", INTERFACE, "up"]);
        }
        // The kernel tells of a cable a moment after both ends are up; programs that begin before see none.
        let has_carrier = |name: &String| {
            let output = Command::new("ip").args(["-n", name, "link", "show", INTERFACE]).output();
            let output = output.expect("the ip program is installed");
            String::from_utf8_lossy(&output.stdout).contains("state UP")
        };
        let start = Instant::now();
        while !lab.names.iter().all(has_carrier) {
            assert!(start.elapsed() < CARRIER_LIMIT, "the cable has no carrier");
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(lab)
    }

    /// The name of one of the two namespaces.
    pub fn name(&self, side: usize) -> &str {
        &self.names[side]
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for name in &self.names {
            // Nothing can be done about a failure here, and a panic would hide the first one.
            let _ = Command::new("ip").args(["netns", "delete", name]).status();
        }
    }
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().expect("the ip program is installed");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {}: {text}", arguments.join(" "));
}
