//! Two hosts on one machine: network namespaces joined by a virtual cable.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::{Need, skip};

/// The cable's end in either namespace.
pub const INTERFACE: &str = "emp0";

/// The kernel does this within a second, however busy it is.
const READY_LIMIT: Duration = Duration::from_secs(20);

/// Two namespaces, removed with everything in them when the value is dropped, also by a panic.
pub struct Lab {
    names: Vec<String>,
}

impl Lab {
    /// Builds the lab. `None`, loudly, for users who may not.
    ///
    /// # Panics
    ///
    /// For root, for whom it must work.
    pub fn build(mtu: usize) -> Option<Self> {
        // SAFETY: takes no arguments and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            skip(Need::Root, "only root can make network namespaces");
            return None;
        }
        static LABS: AtomicU32 = AtomicU32::new(0);
        let number = LABS.fetch_add(1, Ordering::Relaxed);
        let name = |side| format!("emp{}-{number}{side}", std::process::id());
        let mut lab = Self { names: Vec::new() };
        for name in [name("a"), name("b")] {
            ip(&["netns", "add", &name]);
            lab.names.push(name);
        }
        // Addresses may be used at once then. Else the kernel tries them for a second or two, and tells every link of its interface's
        // change in the middle of whatever is tested by then.
        for side in 0..2 {
            for scope in ["all", "default"] {
                let file = format!("/proc/sys/net/ipv6/conf/{scope}/accept_dad");
                // A kernel without IPv6 has no such file.
                lab.inside(side, || drop(std::fs::write(file, "0")));
            }
        }
        let mtu = mtu.to_string();
        let (a, b) = (&lab.names[0], &lab.names[1]);
        ip(&[
            "-n", a, "link", "add", INTERFACE, "mtu", &mtu, "type", "veth", "peer", "name",
            INTERFACE, "mtu", &mtu, "netns", b,
        ]);
        for side in 0..2 {
            let v4 = format!("10.77.0.{}/24", side + 1);
            let v6 = format!("fd77::{}/64", side + 1);
            lab.ip(side, &["address", "add", &v4, "dev", INTERFACE]);
            lab.ip(side, &["address", "add", &v6, "dev", INTERFACE, "nodad"]);
            lab.ip(side, &["link", "set", "lo", "up"]);
            lab.ip(side, &["link", "set", INTERFACE, "up"]);
        }
        // The kernel tells of a cable a moment after both ends are up, and of addresses from a queue; programs that begin before see none,
        // and hear of a change then.
        let start = Instant::now();
        for side in 0..2 {
            while !(lab.has_carrier(side) && lab.inside(side, addresses_are_good)) {
                assert!(start.elapsed() < READY_LIMIT, "{} is not ready", lab.names[side]);
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Some(lab)
    }

    fn has_carrier(&self, side: usize) -> bool {
        let shown = ["-n", self.name(side), "link", "show", INTERFACE];
        let output = Command::new("ip").args(shown).output();
        let output = output.expect("the ip program is installed");
        String::from_utf8_lossy(&output.stdout).contains("state UP")
    }

    /// The name of one of the two namespaces.
    pub fn name(&self, side: usize) -> &str {
        &self.names[side]
    }

    /// Replaces the cable by one whose ends have so many queues, receive and send.
    ///
    /// # Panics
    ///
    /// If the kernel refuses.
    pub fn set_queues(&self, ends: [[usize; 2]; 2]) {
        let [[rx, tx], [peer_rx, peer_tx]] = ends;
        let (end, peer) = (
            format!("{INTERFACE} numrxqueues {rx} numtxqueues {tx}"),
            format!("{INTERFACE} numrxqueues {peer_rx} numtxqueues {peer_tx}"),
        );
        let cable = format!("link add {end} type veth peer name {peer} netns {}", self.names[1]);
        self.ip(0, &["link", "delete", INTERFACE]);
        self.ip(0, &cable.split(' ').collect::<Vec<_>>());
        (0..2).for_each(|side| self.ip(side, &["link", "set", INTERFACE, "up"]));
    }

    /// Runs `ip` in one of the two namespaces.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub fn ip(&self, side: usize, arguments: &[&str]) {
        ip(&[&["-n", self.names[side].as_str()], arguments].concat());
    }

    /// Runs `work` in a thread that lives in one of the namespaces. Sockets that it opens stay
    /// there.
    ///
    /// # Panics
    ///
    /// If it does, or if the thread cannot get there.
    pub fn inside<T: Send>(&self, side: usize, work: impl FnOnce() -> T + Send) -> T {
        inside(&self.names[side], work)
    }
}

/// This host's cable has both its IPv6 addresses, the kernel's and the lab's, and they may be bound to. True where there is no IPv6.
fn addresses_are_good() -> bool {
    const TENTATIVE: u32 = 0x40;
    let all = std::fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default();
    let of_cable = all.lines().filter(|line| line.ends_with(INTERFACE));
    let flags = of_cable.filter_map(|line| line.split_whitespace().nth(4));
    let flags: Vec<_> = flags.filter_map(|flags| u32::from_str_radix(flags, 16).ok()).collect();
    all.is_empty() || flags.len() >= 2 && flags.iter().all(|flags| flags & TENTATIVE == 0)
}

/// As [`Lab::inside`], in the namespace of this name.
///
/// # Panics
///
/// As that.
pub fn inside<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> T {
    let path = format!("/var/run/netns/{name}");
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let namespace = File::open(path).expect("the namespace exists");
            // SAFETY: the descriptor is open; only this thread changes its namespace.
            let result = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
            assert_eq!(result, 0, "setns: {}", std::io::Error::last_os_error());
            work()
        });
        thread.join().expect("the work inside the namespace succeeds")
    })
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
