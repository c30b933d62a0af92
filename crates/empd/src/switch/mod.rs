//! What the door knows of whoever moves the frames of attached clients.
//!
//! # The seam
//!
//! The door has greeted the client, looked up who it is (`SO_PEERCRED`), counted it against its user's quota, and checked that the
//! interface is one that this service serves, before it calls [`Switch::attach`]. It then sends [`Given::answer`] with the two
//! descriptors and closes its copies of them, keeps the connection, and calls [`Switch::detach`] when the client hangs up, is
//! killed, or says anything more. The other way round, a switch that ends a client (a bad record) says so in
//! [`Switch::take_ended`], and the door closes its connection with a log line. The door's thread may wait for the kernel for tens of
//! milliseconds (packet sockets being set up and closed), so frames move on a thread of the switch's own; no call here waits for a client.

mod batch;
pub mod check;
mod client;
mod handing;
mod lane;
mod lanes;
pub mod pace;
pub mod rates;
pub mod rounds;
mod shared;
pub mod tags;

pub use lane::CLIENTS_MAX;
pub use lanes::{Lanes, OpenWire, Options, RateOf, Stand};
pub use shared::Counts;

use std::os::fd::{BorrowedFd, OwnedFd};

use emp_link::service::protocol::{Attached, Carrier};
use emp_wire::NodeId;

/// An attached client, for as long as it is attached; never used again.
pub type ClientNumber = u64;

/// Who attaches, and where to. All of it is checked but the node, which the client chooses.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// A number that the door has drawn.
    pub client: ClientNumber,
    /// The user, for shares and rates.
    pub user: u32,
    /// The process, for log lines; 0 if it cannot be seen.
    pub process: i32,
    /// Name of the interface.
    pub interface: String,
    /// The interface as the kernel has it now.
    pub carrier: Carrier,
    /// EtherType of its frames.
    pub ethertype: u16,
    /// Its node.
    pub node: NodeId,
    /// What it drew for itself: with the same one, it takes its own place again.
    pub token: u64,
}

/// What a client is given.
#[derive(Debug)]
pub struct Given {
    /// Goes to it first.
    pub answer: Attached,
    /// The memory of its rings, sealed.
    pub memory: OwnedFd,
    /// Its end of the bell.
    pub bell: OwnedFd,
}

/// Moves the frames of attached clients.
pub trait Switch {
    /// Takes a client.
    ///
    /// # Errors
    ///
    /// A line for the client: what is refused, and what to do.
    fn attach(&mut self, attachment: &Attachment) -> Result<Given, String>;

    /// A client is gone, or is put out: frees what it had. Unknown numbers mean nothing.
    fn detach(&mut self, client: ClientNumber);

    /// Readable when [`take_ended`](Self::take_ended) has something; `None`: it is asked once a second.
    fn ended(&self) -> Option<BorrowedFd<'_>>;

    /// Clients that the switch has put out since this was last asked, with a line for the log that says why.
    fn take_ended(&mut self) -> Vec<(ClientNumber, String)>;

    /// Other lines for the log, of interfaces and clients, since this was last asked; [`ended`](Self::ended) tells of them too.
    fn take_lines(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Another service serves those that come from now on: lets it have what only one can have, and goes on with those that are here.
    ///
    /// # Errors
    ///
    /// A line: it cannot.
    fn step_aside(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Whether frames move: the service tells systemd's watchdog so.
    fn is_alive(&mut self) -> bool;
}

/// No switch: for services that only lend.
#[derive(Debug, Default)]
pub struct NoSwitch;

impl Switch for NoSwitch {
    fn attach(&mut self, _: &Attachment) -> Result<Given, String> {
        Err("this service moves no frames for others".into())
    }

    fn detach(&mut self, _: ClientNumber) {}

    fn ended(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn take_ended(&mut self) -> Vec<(ClientNumber, String)> {
        Vec::new()
    }

    fn is_alive(&mut self) -> bool {
        true
    }
}
