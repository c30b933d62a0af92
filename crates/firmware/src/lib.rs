//! The protocol engine of EMP: a pure state machine (decision 44 has its rooms).
//!
//! Time and randomness are arguments; host memory is behind a trait; frames come in as bytes and go out as a batch.
//! So the same code runs under a thread, in a simulator with virtual time, and on a simulated network card.
#![forbid(unsafe_code)]
// Without the standard library there is no clock, socket, thread or file to reach: the compiler holds the promise.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod counters;
mod cross;
mod descriptor;
mod encode;
mod engine;
mod event;
pub mod limits;
mod link;
mod memory;
mod onesided;
mod pair;
mod path;
mod pool;
mod predict;
mod profile;
mod receive;
mod send;
mod stage;
mod tables;
#[cfg(all(test, not(loom)))]
mod tests;
mod time;
mod timers;
mod transit;
mod transmit;

pub use counters::{Counter, Counters, Holding};
pub use descriptor::{
    BufferPlace, ClaimId, Completion, CompletionMode, OpId, OpKind, PostError, Posted, ProbeInfo,
    ReceiveDescriptor, Selector, SendDescriptor, Status,
};
pub use engine::absence::REFERRED_BYTES_MIN;
pub use engine::halves::{ReceiveHalf, SendHalf};
pub use engine::landing::{Arriving, Landing};
pub use engine::shown::PeerShown;
pub use engine::{Config, Firmware};
pub use event::{Limit, NodeEvent};

pub use link::{LinkCost, LinkIndex, LinkInfo};
pub use memory::{
    FetchError, HostMemory, MemoryFault, PeerMemory, Segment, SegmentList, TooManySegments,
};
pub use onesided::{
    AtomicDescriptor, GetDescriptor, PutDescriptor, RegionId, RemoteRegion, Rights,
};
pub use path::{PathInUse, PathShown};
pub use profile::{AckTrigger, Integrity, Profile, RetransmitUnit, Unexpected};
pub use stage::Stage;
pub use time::{Span, Time};
pub use transit::{RELAY_REASONS, RelayNeighbour};
pub use transmit::{Exit, Leaving, TransmitBatch, TransmitFrame};

pub use emp_wire::{AtomicOp, Datatype};
