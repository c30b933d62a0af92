//! A board whose engine is in the service `empd`: the shapes of what a program and the service say to each other by their two rings, and the
//! program's side of it.
//!
//! The program posts descriptors of 64 bytes ([`Descriptor`], E39 to E47), most with their payload behind them, and reads ends of 64 bytes
//! ([`End`]). Questions are answered one by one; what needs no answer is told. All of it is copied before it is looked at, and what cannot be
//! ends the channel ([`Wrong`]). An address of the program's is said of memory that it exports and of no other; the service reaches it by a
//! descriptor that the program has given, and the kernel copies.

mod codec;
mod descriptor;
mod end;
mod facts;
mod flights;
mod news;
mod questions;
pub(crate) mod remote;

pub use codec::Wrong;
pub use descriptor::{DESCRIPTOR_BYTES, Descriptor, Posting};
pub use end::{END_BYTES, End};
pub use facts::{Facts, Interface};
pub use news::{emit_event, parse_event};
pub use questions::{Answer, Export, Left, Question, Tell};

/// Marks of the records that a program writes.
pub mod said {
    /// A [`Descriptor`](super::Descriptor), and as much of the payload as there was room for.
    pub const POST: u32 = 1;
    /// More of the payload of the last one.
    pub const MORE: u32 = 2;
    /// A [`Question`](super::Question).
    pub const ASK: u32 = 3;
    /// A [`Tell`](super::Tell).
    pub const TELL: u32 = 4;
}

/// Marks of the records that the service writes.
pub mod told {
    /// An [`End`](super::End), and the last bytes of what was received.
    pub const END: u32 = 1;
    /// Bytes that were received: the operation and their place in its buffer, then they themselves.
    pub const BYTES: u32 = 2;
    /// So many sends that were over for the program are over for the engine.
    pub const RETIRED: u32 = 3;
    /// An [`Answer`](super::Answer).
    pub const ANSWER: u32 = 4;
    /// An event of the node's.
    pub const EVENT: u32 = 5;
    /// A message has come that a probe found no match for.
    pub const ARRIVED: u32 = 6;
    /// The engine has started: its [`Facts`](super::Facts).
    pub const READY: u32 = 7;
    /// The engine has ended, or did not start: why, a line.
    pub const OVER: u32 = 8;
}

/// Bytes of payload in one record beside its head: the rest of a ring's longest record.
pub const PIECE_BYTES_MAX: usize = emp_link::service::channel::RECORD_BYTES_MAX - 64;
