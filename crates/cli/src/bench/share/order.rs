//! What a host's process is told, and what it answers: one JSON value a line on its standard input and output.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::super::job::LinkChoice;
use super::super::measure::window_for;
use super::super::subject::Card;
pub use crate::measured::ShareSubject as SubjectName;

/// The hidden subcommand of a host's process.
pub const WORKER: &str = "share-worker";

/// What a host does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Role {
    /// Takes all messages of so many senders and counts their bytes, and answers the small ping-pong.
    Receiver { senders: usize },
    /// Sends as much as it can; the number tells it from the others.
    Sender { number: usize, to: Card },
    /// Has the small ping-pong.
    Prober { to: Card },
}

/// The first line: what to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    pub subject: SubjectName,
    /// Bytes of a message.
    pub size: usize,
    /// Messages that a sender has under way, and a receiver room for, at a time.
    pub window: usize,
    pub link: LinkChoice,
    /// How EMP waits.
    pub wait: String,
    /// Filled in for each host.
    pub role: Role,
    pub own: IpAddr,
    pub peer: IpAddr,
}

impl Order {
    /// For a receiver of nobody; what differs from host to host is filled in later.
    pub fn new(subject: SubjectName, size: usize, (link, wait): (LinkChoice, String)) -> Self {
        let nobody = IpAddr::from([0, 0, 0, 0]);
        let role = Role::Receiver { senders: 0 };
        let window = window_for(size, None);
        Self { subject, size, window, link, wait, role, own: nobody, peer: nobody }
    }
}

/// Every later line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Begin to send.
    Start,
    /// Say how far you are; of the ping-pong, what it took since this was asked last.
    Mark,
}

/// What a host answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// To the order: ready, and what others must know.
    Ready(Card),
    /// To a mark.
    Marked(Report),
    /// At any time: it can't go on.
    Failed(String),
}

/// How far a host is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Seconds since it was ready, by its own clock.
    pub seconds: f64,
    /// Payload received from each sender.
    pub bytes: Vec<u64>,
    /// Round trips since the last mark in microseconds, the longest last.
    pub round_trips_us: Vec<f64>,
}
