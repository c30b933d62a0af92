//! What all subjects are to those who measure: halves that are opened and connected, and then do jobs.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::bench::calls::{Calls, Script};
use crate::bench::job::{Job, Measure};
use crate::bench::verify;

/// One end of a subject that both ends opened and connected.
pub trait Subject {
    /// Gets everything ready that must not be measured: buffers, posted receives.
    fn prepare(&mut self, role: Role, job: &Job) -> anyhow::Result<()>;

    /// Does the client's half of a job and measures it.
    fn active(&mut self, job: &Job) -> anyhow::Result<Measure>;

    /// Does the listener's half.
    fn passive(&mut self, job: &Job) -> anyhow::Result<()>;

    /// After a job: leaves its buffers to the next subject, if that is [`shared`](super::memory::is_shared).
    fn leave_memory(&mut self, _job: &Job) {}

    /// User-space bytes that this end has copied so far, where that is counted.
    fn copied(&self) -> Option<u64> {
        None
    }

    /// Its calls one by one, ready for a script.
    fn calls(&mut self, _script: &Script) -> anyhow::Result<Box<dyn Calls + '_>> {
        anyhow::bail!("only EMP and spinning TCP have calls that return at once")
    }

    /// Exchanges random messages and checks every byte. Only EMP promises what this checks.
    fn verify(&mut self, _plan: &verify::Plan, _role: Role) -> anyhow::Result<verify::Tally> {
        anyhow::bail!("only EMP can be verified")
    }
}

/// Which end this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It starts, measures and reports.
    Active,
    /// It answers.
    Passive,
}

/// One end's half, open but not connected.
pub trait Opening {
    /// What the other end must know.
    fn card(&self) -> Card;

    /// Connects to the other end's half.
    fn connect(self: Box<Self>, other: &Card) -> anyhow::Result<Box<dyn Subject>>;
}

/// What one end opened for one subject, as far as the other end must know it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// The links that really carry the frames, best first.
    pub links: Vec<String>,
    /// Its Ethernet address, if it has a packet link.
    pub mac: Option<[u8; 6]>,
    /// The port of its UDP link, if it has one.
    pub udp_port: Option<u16>,
    /// The number of its shared-memory link, if it has one.
    pub shm: Option<u64>,
    /// The port where it takes its TCP connection.
    pub tcp_port: Option<u16>,
    /// The address of that port, if it is not the one that the control connection goes to.
    #[serde(default)]
    pub tcp_address: Option<IpAddr>,
    /// EMP's or the bare link's identity.
    pub node: Option<u64>,
    /// Largest frame of its link in bytes.
    pub frame_bytes_max: Option<usize>,
    /// Largest frame in bytes that its bare link has cut and put together.
    pub long_frame_bytes: Option<usize>,
    /// Its address as the face has it, if it is reached through one.
    pub fabric: Option<Vec<u8>>,
}
