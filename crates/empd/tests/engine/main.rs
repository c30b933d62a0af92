//! Nodes whose engine is in the service: what they do for ordinary users, and what happens when either side is killed, stopped, or lies.

#[path = "../common/mod.rs"]
mod common;

mod fates;
mod hostile;
mod messages;

use std::path::PathBuf;
use std::time::Duration;

use common::{Service, become_nobody};
use emp_host::{Board, Node, NodeBuilder};
use emp_testing::lab::{INTERFACE, Lab};

/// Long against anything that should happen on a busy machine.
pub const LONG: Duration = Duration::from_secs(30);

/// Two hosts, with a service on the first.
pub struct Place {
    /// The service.
    pub service: Service,
    /// The hosts.
    pub lab: Lab,
}

impl Place {
    /// `None`, loudly, for users who may not.
    pub fn new() -> Option<Self> {
        Self::with("")
    }

    /// With these lines in the configuration.
    pub fn with(lines: &str) -> Option<Self> {
        let lab = Lab::build(1500)?;
        let configuration = format!("interfaces = ['{INTERFACE}']\n{lines}");
        let service = Service::start(&lab, 0, &configuration);
        Some(Self { service, lab })
    }

    /// Runs something on the host of the service as a user without any privilege.
    pub fn as_nobody<T: Send>(&self, work: impl FnOnce(PathBuf) -> T + Send) -> T {
        let socket = self.service.socket();
        self.lab.inside(0, move || {
            become_nobody();
            work(socket)
        })
    }
}

/// A node of this name with an engine in the service.
pub fn on(socket: &std::path::Path, name: &str) -> NodeBuilder {
    Node::builder().name(name).board(Board::Daemon).service(socket)
}

/// Two of them.
pub fn pair(socket: &std::path::Path) -> (Node, Node) {
    let start = |name| on(socket, name).start().expect("the service gives an engine");
    (start("a"), start("b"))
}

/// Bytes that differ by place and by seed.
pub fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..bytes).map(|_| next()).collect()
}
