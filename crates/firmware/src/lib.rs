//! The protocol engine of EMP: a pure state machine (DESIGN section 4).
//!
//! Time and randomness are arguments; host memory is behind a trait; frames come in as bytes and go out as a batch.
//! So the same code runs under a thread, in a simulator with virtual time, and on a simulated network card.
#![forbid(unsafe_code)]
// Without the standard library there is no clock, socket, thread or file to reach: the compiler holds the promise.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod absence;
mod arithmetic;
mod assembly;
mod by_peer;
mod cancelling;
mod carrier;
mod claims;
mod contact;
mod control_frames;
mod counters;
mod cross;
mod cut;
mod descriptor;
mod dispatch;
mod encode;
mod engine;
mod event;
mod first_numbers;
mod greetings;
mod landing;
pub mod limits;
mod looks;
mod memory;
mod path;
mod peers;
mod per_peer;
mod pool;
mod posts;
mod predict;
mod profile;
mod receive;
mod remote_memory;
mod searches;
mod send;
mod siphash;
mod slots;
#[cfg(test)]
mod tests;
mod time;
mod timers;
mod transmit;
mod usage;

pub use absence::REFERRED_BYTES_MIN;
pub use counters::{Counter, Counters};
pub use descriptor::{
    BufferPlace, ClaimId, Completion, CompletionMode, OpId, OpKind, PostError, Posted, ProbeInfo,
    ReceiveDescriptor, Selector, SendDescriptor, Status,
};
pub use engine::{Config, Firmware};
pub use event::NodeEvent;
pub use landing::{Arriving, Landing};
pub use usage::Holding;

pub use memory::{
    FetchError, HostMemory, MemoryFault, PeerMemory, Segment, SegmentList, TooManySegments,
};
pub use path::PathInUse;
pub use path::link_info::{LinkCost, LinkInfo};
pub use profile::{AckTrigger, Integrity, Profile, RetransmitUnit, Unexpected};
pub use remote_memory::{
    AtomicDescriptor, GetDescriptor, PutDescriptor, RegionId, RemoteRegion, Rights,
};
pub use time::{Span, Time};
pub use transmit::{Exit, Leaving, LinkIndex, TransmitBatch, TransmitFrame};

pub use emp_wire::{AtomicOp, Datatype};
