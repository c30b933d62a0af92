//! The EMP API for Rust programs: nodes, endpoints, requests, and the boards that firmware runs on.
//!
//! A stub of the guide; see the items.

#![allow(clippy::result_large_err, reason = "errors hand the request or buffer back")]

mod board;
mod buffer;
mod builder;
mod claim;
mod clock;
mod core;
mod directory;
mod endpoint;
mod error;
mod find;
mod guardian;
mod ladder;
mod memory;
mod node;
mod outgoing;
mod raw;
mod request;
mod requests;
mod shared;
mod sleepers;
mod system;
mod thread_board;
mod wait;
mod wakeup;

pub use board::{Board, WaitMode};
pub use buffer::{ReceiveBuffer, Scatter, SendBuffer};
pub use builder::NodeBuilder;
pub use claim::Claim;
pub use directory::{Peer, PeerState};
pub use endpoint::{Address, Endpoint, SendOptions};
pub use error::{
    BuildError, CallError, Failed, NotFound, OpenError, OperationError, Refused, RefusedReason,
    WaitError,
};
pub use find::Who;
pub use ladder::{AutoLinks, Choice, Outcome, Rung, Want};
pub use node::{CutShort, HostCounters, Node};
pub use raw::RawOp;
pub use request::{Finished, Pending, ReceiveRequest, Request, SendRequest, wait_all, wait_any};

pub use emp_firmware::{
    ClaimId, Completion, CompletionMode, Counter, Counters, LinkIndex, NodeEvent, OpKind,
    PostError, ProbeInfo, Profile, ReceiveDescriptor, Segment, SegmentList, Selector,
    SendDescriptor, Status,
};
pub use emp_wire::{Epoch, LinkAddress, NodeId};
