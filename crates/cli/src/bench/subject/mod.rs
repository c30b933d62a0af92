//! The things that are measured, behind one trait: EMP, by its own interface and its faces, the bare link, TCP.

mod emp;
mod emp_calls;
mod emp_one_sided;
mod emp_opening;
mod faces;
mod harness_link;
mod idle;
mod libfabric;
mod memory;
mod opening;
mod place;
mod raw;
mod raw_flow;
mod raw_frame;
mod raw_long;
mod raw_memory;
mod route;
mod tcp;
mod tcp_calls;
mod tcp_opening;

pub use emp_opening::OpenNode;
pub use opening::open_all;
pub use place::{End, Named, Place};

use super::calls::{Calls, Script};
use super::job::{Job, Measure};
use super::verify;

/// One end of a subject that both ends opened and connected.
pub trait Subject {
    /// Gets everything ready that must not be measured: buffers, posted receives.
    fn prepare(&mut self, role: Role, job: &Job) -> anyhow::Result<()>;

    /// Does the client's half of a job and measures it.
    fn active(&mut self, job: &Job) -> anyhow::Result<Measure>;

    /// Does the listener's half.
    fn passive(&mut self, job: &Job) -> anyhow::Result<()>;

    /// After a job: leaves its buffers to the next subject, if that is [`shared`](memory::is_shared).
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
