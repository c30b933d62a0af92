//! A deterministic simulator of an EMP fabric: nodes that run the real firmware, virtual time, seeded faults, and judges.
//!
//! [`World`] is nodes on fabrics; tests drive it by hand. [`run_seed`] draws a whole scenario from one number, runs it and
//! judges it: exactly once, in match order, byte-exact, nothing lost, nothing left over.
#![forbid(unsafe_code)]

mod action;
pub mod als;
mod boards;
mod cabling;
pub mod card;
mod discovery;
mod faults;
mod halved;
mod hard;
mod history;
mod host;
mod inbox;
pub mod lanai;
mod ledger;
mod liveness;
mod measure;
mod memory;
mod network;
mod node;
mod nodes;
mod one_sided;
pub mod openmx;
mod oracle;
mod outbox;
mod port;
mod prng;
mod reach;
mod reduce;
mod relaying;
mod report;
mod run;
mod shrink;
mod swarm;
pub mod tigon2;
mod trace;
mod verdict;
mod workload;
mod world;

pub use action::{Action, ClaimUse};
pub use discovery::{Discovery, Search, Shape, discover};
pub use faults::{FaultPlan, Rates, Verdict};
pub use history::{Epochs, History};
pub use host::{ReceiveSpec, Want, WantBits};
pub use ledger::{Ledger, Message, MessageId, MessageSpec, Posted, Receive, ReceiveId};
pub use measure::{Measurement, Stream, measure};
pub use memory::{Access, BufferId, SimMemory, payload};
pub use network::{
    Cable, Delivery, FabricSetup, Jack, Network, Plug, Script, Totals, Watch, Wiring,
};
pub use node::{NodeSetup, Pace, SimNode, cables, divide};
pub use one_sided::{Deed, DeedId, Done, OneSided};
pub use outbox::Card;
pub use port::{PortSetup, PortTotals};
pub use prng::{Ppm, Prng, mix};
pub use reduce::{Part, Reduction};
pub use report::{Failure, Outcome, Statistics};
pub use run::{frames_of_seed, run_seed, trace_seed};
pub use shrink::shrink;
pub use swarm::{Scale, SwarmOptions};
pub use trace::{Fate, Trace, TraceLine};
pub use world::{Stop, Violation, World, WorldSetup};
