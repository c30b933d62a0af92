//! Nodes whose engine is in the service: what they do for ordinary users, and what happens when either side is killed, stopped, or lies.

#[path = "../common/mod.rs"]
mod common;

#[path = "../../../host/tests/exercises/mod.rs"]
mod exercises;
#[path = "../../../host/tests/common/mod.rs"]
mod pairs;

mod exhausted;
mod fates;
mod hostile;
mod messages;
mod regions;
mod scribbles;
mod shown;

use std::path::PathBuf;
use std::time::Duration;

use common::{Service, become_nobody};
use emp_host::{AutoLinks, Board, Node, NodeBuilder, Want};
use emp_testing::lab::{INTERFACE, Lab};
pub use pairs::pattern;

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

    /// A node on the other host that is root's, with raw frames alone, and one with an engine in the service.
    pub fn elsewhere_and_here(&self) -> (Node, Node) {
        self.elsewhere_by(Want::Packet)
    }

    /// The same, where the other has these links.
    pub fn elsewhere_by(&self, want: Want) -> (Node, Node) {
        std::thread::scope(|scope| {
            let other = scope.spawn(move || {
                self.lab.inside(1, || {
                    let auto = AutoLinks {
                        want,
                        interfaces: vec![INTERFACE.into()],
                        memory: false,
                        ..AutoLinks::default()
                    };
                    let builder = Node::builder().name("b").auto_links(auto).board(Board::Thread);
                    builder.start().expect("root may")
                })
            });
            let one = self.as_nobody(|socket| on(&socket, "a").start().expect("anyone may"));
            (other.join().expect("it starts"), one)
        })
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
