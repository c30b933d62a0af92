//! Hosts whose interfaces end at a patch panel, where cables are bridges of two ports: pulled and moved without the interfaces' doing.

use std::process::Command;
use std::time::{Duration, Instant};

use emp_testing::{Need, skip};

pub const HOSTS: usize = 4;

/// Interfaces of a host: two have a cable at first.
pub const INTERFACES: usize = 3;

/// Where a plug is: a host and one of its interfaces.
pub type Jack = (usize, usize);

/// The kernel does this within a second, however busy it is.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Panel {
    hosts: Vec<String>,
    name: String,
}

impl Panel {
    /// `None`, loudly, for users who may not.
    pub fn build() -> Option<Self> {
        // SAFETY: takes no arguments and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            skip(Need::Root, "only root can make network namespaces");
            return None;
        }
        static PANELS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = PANELS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let space = |what: &str| format!("emp{}-d{number}{what}", std::process::id());
        let mut panel = Self { hosts: Vec::new(), name: space("p") };
        run(&format!("netns add {}", panel.name));
        for host in 0..HOSTS {
            panel.hosts.push(space(&host.to_string()));
            run(&format!("netns add {}", panel.hosts[host]));
            for interface in 0..INTERFACES {
                let (name, port) = (interface_name(interface), port((host, interface)));
                panel.inside(
                    host,
                    &format!("link add {name} type veth peer name {port} netns {}", panel.name),
                );
                panel.inside(host, &format!("link set {name} up"));
            }
        }
        for cable in 0..HOSTS {
            panel.at_panel(&format!("link add cable{cable} type bridge"));
            panel.at_panel(&format!("link set cable{cable} up"));
            for jack in ring()[cable] {
                panel.put(cable, jack);
            }
        }
        panel.wait_for_carriers();
        Some(panel)
    }

    fn inside(&self, host: usize, line: &str) {
        run(&format!("-n {} {line}", self.hosts[host]));
    }

    fn at_panel(&self, line: &str) {
        run(&format!("-n {} {line}", self.name));
    }

    /// A plug goes into an interface.
    pub fn put(&self, cable: usize, jack: Jack) {
        self.at_panel(&format!("link set {} master cable{cable} up", port(jack)));
    }

    /// A plug is taken out: its interface has no carrier.
    pub fn take(&self, jack: Jack) {
        self.at_panel(&format!("link set {} down nomaster", port(jack)));
    }

    fn wait_for_carriers(&self) {
        let start = Instant::now();
        let up = |host: &String| {
            let output = Command::new("ip").args(["-n", host, "link"]).output();
            let output = output.expect("the ip program is installed");
            String::from_utf8_lossy(&output.stdout).matches("state UP").count() == 2
        };
        while !self.hosts.iter().all(up) {
            assert!(start.elapsed() < PATIENCE, "a cable has no carrier");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Runs `work` in a thread that lives on a host. Sockets that it opens stay there.
    pub fn on<T: Send>(&self, host: usize, work: impl FnOnce() -> T + Send) -> T {
        emp_testing::lab::inside(&self.hosts[host], work)
    }
}

impl Drop for Panel {
    fn drop(&mut self) {
        for name in self.hosts.iter().chain([&self.name]) {
            // Nothing can be done about a failure here, and a panic would hide the first one.
            let _ = Command::new("ip").args(["netns", "delete", name]).status();
        }
    }
}

/// The ends of each cable at first: from the first interface of a host to the second of the next.
pub fn ring() -> [[Jack; 2]; HOSTS] {
    std::array::from_fn(|host| [(host, 0), ((host + 1) % HOSTS, 1)])
}

pub fn interface_name(interface: usize) -> String {
    format!("emp{interface}")
}

fn port((host, interface): Jack) -> String {
    format!("h{host}i{interface}")
}

fn run(line: &str) {
    let output = Command::new("ip").args(line.split(' ')).output();
    let output = output.expect("the ip program is installed");
    assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
}
